/* SPDX-License-Identifier: MIT */
/* The names of all properties of a table, which a CSV header needs before the
 * first record. At most CSV_MAX_PROPERTIES, so memory is bounded. */
#ifndef TW_TRANSFER_COLUMNS_H
#define TW_TRANSFER_COLUMNS_H

#include <stddef.h>

#include "worker/base/err.h"
#include "worker/base/slice.h"

struct columns;

struct columns *columns_new(void);          /* owned */
void columns_free(struct columns *columns); /* does nothing if given NULL */

/* columns_add: add name, which is copied. TW_OK also if it was added before.
 * TW_INVALID: name cannot be the name of a column, or there are
 * CSV_MAX_PROPERTIES names already. */
TW_MUST_USE enum tw_err columns_add(
    struct columns *columns, struct slice name, struct err *err);

/* columns_names: return all names, ordered by bytes; borrowed until the next
 * columns_add(). */
const struct slice *columns_names(struct columns *columns, size_t *ret_count);

#endif
