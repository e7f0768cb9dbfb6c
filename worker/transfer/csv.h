/* SPDX-License-Identifier: MIT */
/*
 * CSV as Azure Storage Explorer writes tables, quoted as RFC 4180 says. Pure.
 *
 *   PartitionKey,RowKey,Timestamp,Title,Title@type,Views,Views@type
 *   a,b1,2024-01-01T00:00:00Z,"one, ""two""",String,5,Int64
 *   a,b2,2024-01-01T00:00:00Z,,,7,Int64
 *
 * The type of the property Title is in the cell of the column Title@type; if
 * there is no such column, the property is a String. If both cells are empty,
 * the entity does not have the property; an empty String has the type String.
 */
#ifndef TW_TRANSFER_CSV_H
#define TW_TRANSFER_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/entity.h"

/* Maximum number of properties in a file. It is above 252, the maximum of one
 * entity, because entities of a table may differ in their properties. */
#define CSV_MAX_PROPERTIES 10000

/* ---- records ---- */

/* The state at the end of a line of a record; {0}: before the first line. */
struct csv_state {
    enum {
        CSV_FIELD,  /* at the first character of a field */
        CSV_PLAIN,  /* in a field without quotes */
        CSV_QUOTED, /* in quotes: the field continues on the next line */
        CSV_CLOSED, /* after a closing quote, which may be the first of a
                       doubled quote */
    } at;
};

enum csv_record_state {
    CSV_WHOLE,   /* the record ends with the line */
    CSV_OPEN,    /* the line ends within quotes: the record continues on the
                    next line */
    CSV_INVALID, /* the record's quotes break RFC 4180 */
};

/* csv_line: read the next line of a record, given without its newline. */
enum csv_record_state csv_line(struct csv_state *state, struct slice line);

/*
 * csv_split: split a record for which csv_line() returned CSV_WHOLE into its
 * fields. Newlines in fields are unchanged. A carriage return at the record's
 * end belongs to no field. Fields that had to be copied live in arena.
 */
const struct slice *csv_split(
    struct slice record, struct arena *arena, size_t *ret_count);

/* ---- entities ---- */

struct csv_column {
    enum {
        CSV_IGNORED, /* Timestamp, or an @type column */
        CSV_PARTITION_KEY,
        CSV_ROW_KEY,
        CSV_PROPERTY,
    } what;
    struct slice name;
    size_t type; /* index of the @type column; if there is none, the index of
                    this column itself */
};

struct csv_header {
    const struct csv_column *columns;
    size_t count;
};

/* csv_header: parse the fields of the first record, which are borrowed for the
 * life of *ret; columns live in arena. TW_INVALID: err says which name is
 * missing, duplicate or invalid. */
TW_MUST_USE enum tw_err csv_header(const struct slice *fields, size_t count,
    struct arena *arena, struct csv_header *ret, struct err *err);

/* csv_entity: make the entity of a record, without an ETag. *ret lives in arena
 * and points into the header and the fields. TW_INVALID, TW_TOO_LARGE: no store
 * accepts the entity; err names the property and never its value. */
TW_MUST_USE enum tw_err csv_entity(const struct csv_header *header,
    const struct slice *fields, size_t count, struct arena *arena,
    struct entity *ret, struct err *err);

/* ---- writing ---- */

/* csv_write_header: append the header of these property names, each with its
 * column @type, and a newline. */
void csv_write_header(const struct slice *names, size_t count, struct buf *to);

/*
 * csv_write_entity: append the CSV record of entity, with the columns of
 * csv_write_header(names), and a newline. The properties of entity and the
 * names must be ordered by bytes.
 * TW_NOT_FOUND: a property is not one of names. TW_INVALID: a String holds half
 * of a surrogate pair, which UTF-8 does not have; err names the property.
 */
TW_MUST_USE enum tw_err csv_write_entity(const struct entity *entity,
    const struct slice *names, size_t count, struct buf *to, struct err *err);

#endif
