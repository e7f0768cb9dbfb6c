/* SPDX-License-Identifier: MIT */
/* Kind cascade-delete: a parent and everything under it. */
#ifndef TW_JOBS_CASCADE_DELETE_H
#define TW_JOBS_CASCADE_DELETE_H

struct kind;

extern const struct kind cascade_delete_kind;

#endif
