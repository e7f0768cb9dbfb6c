/* SPDX-License-Identifier: MIT */
/* Parses one line of JSON Lines, as import reads it, into an entity. Pure. */
#ifndef TW_TRANSFER_ENTITY_LINE_H
#define TW_TRANSFER_ENTITY_LINE_H

#include <stdbool.h>

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

/*
 * entity_line: parse line, given without its newline. first: line is the first
 * of the file and may begin with a byte order mark. *ret_blank: line has only
 * white space, and *ret is not set. *ret has no ETag; its texts point into line
 * or live in arena. TW_INVALID, TW_TOO_LARGE: no store accepts the entity; err
 * says why.
 */
TW_MUST_USE enum tw_err entity_line(struct slice line, bool first,
    struct arena *arena, struct entity *ret, bool *ret_blank, struct err *err);

#endif
