/* SPDX-License-Identifier: MIT */
/*
 * CSV as Azure's Storage Explorer writes tables, quoted as RFC 4180 says. Pure.
 *
 *   PartitionKey,RowKey,Timestamp,Title,Title@type,Views,Views@type
 *   a,b1,2024-01-01T00:00:00Z,"one, ""two""",String,5,Int64
 *   a,b2,2024-01-01T00:00:00Z,,,7,Int64
 *
 * A property's type stands in the cell of its @type column; without one it is
 * a String. An empty cell without a type is a property that is not there.
 */
#ifndef TW_CLI_CSV_H
#define TW_CLI_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

/* ---- records ---- */

/* Where in a record its last line has ended; {0}: before its first. */
struct csv_look {
    enum {
        CSV_FIELD,  /* a field begins                            */
        CSV_PLAIN,  /* in one without quotes                     */
        CSV_QUOTED, /* in quotes: the next line belongs to it    */
        CSV_CLOSED, /* behind the quote that may have ended them */
    } at;
};

enum csv_verdict {
    CSV_WHOLE, /* the record ends with this line */
    CSV_OPEN,  /* it goes on with the next one   */
    CSV_WRONG, /* no record is quoted so         */
};

/* csv_line: the next line of a record, without its newline. */
enum csv_verdict csv_line(struct csv_look *look, struct slice line);

/*
 * csv_split: the fields of a record that csv_line() found whole; newlines
 * within it as they came. A carriage return at its end is no part of it. What
 * is not in record lives in arena.
 */
const struct slice *csv_split(
    struct slice record, struct arena *arena, size_t *ret_count);

/* ---- entities ---- */

struct csv_column {
    enum {
        CSV_PASSED_OVER, /* Timestamp, types */
        CSV_PARTITION_KEY,
        CSV_ROW_KEY,
        CSV_PROPERTY,
    } what;
    struct slice name;
    size_t type; /* the column of its type; its own: there is none */
};

struct csv_header {
    const struct csv_column *columns;
    size_t count;
};

/* csv_header: from the fields of the first record, which are borrowed for the
 * life of *ret; its columns live in arena. TW_INVALID: err says which name is
 * missing, twice, or none. */
TW_MUST_USE enum tw_err csv_header(const struct slice *fields, size_t count,
    struct arena *arena, struct csv_header *ret, struct err *err);

/* csv_entity: the entity of a record, as entity_line() has those of JSON
 * Lines: without an ETag, and one that a store takes. *ret lives in arena, and
 * as long as the header and the fields. TW_INVALID, TW_TOO_LARGE: err names
 * the property and never its value. */
TW_MUST_USE enum tw_err csv_entity(const struct csv_header *header,
    const struct slice *fields, size_t count, struct arena *arena,
    struct entity *ret, struct err *err);

#endif
