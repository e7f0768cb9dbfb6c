/* SPDX-License-Identifier: MIT */
/* The kind cascade-delete: deletes a parent and everything under it. */
#ifndef TW_JOBS_CASCADE_DELETE_H
#define TW_JOBS_CASCADE_DELETE_H

struct kind;

extern const struct kind cascade_delete_kind;

#endif
