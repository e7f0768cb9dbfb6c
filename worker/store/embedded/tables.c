/* SPDX-License-Identifier: MIT */
/*
 * The tables of an embedded store. Keys, ETag and Timestamp are columns; the
 * properties are stored as the service's JSON, so that types and texts are
 * returned as written. An ETag is W/"N", where N is a stamp (db.h).
 */
#include "worker/store/embedded/tables.h"

#include <inttypes.h>
#include <stdio.h>

#include "worker/base/buf.h"
#include "worker/base/text.h"
#include "worker/store/embedded/embedded.h"
#include "worker/store/embedded/pool.h"
#include "worker/store/entity.h"
#include "worker/store/filter.h"

/* Maximum size of a page with several entities. A worker has several pages in
 * memory at a time. */
#define PAGE_MAX_BYTES (1024 * 1024)
/* Maximum numbers of rows and bytes that are read for one page, whether they
 * match or not, so that the duration of a read is bounded and other readers can
 * run. */
#define PAGE_MAX_ROWS 20000
#define PAGE_MAX_READ_BYTES (32 * 1024 * 1024)

/* After this many consecutive rows outside the range of RowKeys, a scan no
 * longer steps from row to row, but seeks the next row inside the range through
 * the tree. */
#define SEEK_AFTER 8

/* Maximum size of the JSON of a batch. store.c limits a batch to half of this
 * size, but does not count all of the punctuation. */
#define JSON_MAX_BYTES (2 * BATCH_MAX_BYTES)

/* Maximum size of a record in the tree, keys included. A longer record
 * continues on overflow pages, and every comparison with a neighbour would read
 * all of it. */
#define RECORD_MAX_BYTES 900

#define ETAG_MAX 32
#define KEY_ROOM (ENTITY_MAX_KEY_UNITS * 3 + 1)

/* A key above all others, because this byte does not occur in UTF-8. */
static const struct slice ABOVE_ALL = {"\xff", 1};
static const struct slice NOTHING = {"", 0};

/* ---- ETags, keys ---- */

static void write_etag(int64_t stamp, char *to, size_t room)
{
    (void)snprintf(to, room, "W/\"%" PRId64 "\"", stamp);
}

/* Returns the stamp in an ETag; -1: the ETag is not one of this store. No
 * entity has the stamp -1. */
static int64_t stamp_of(struct slice etag)
{
    int64_t stamp;

    if (!slice_begins(etag, slice_of("W/\"")) || etag.len < 4 ||
        etag.at[etag.len - 1] != '"' ||
        !text_int64(
            (struct slice){etag.at + 3, etag.len - 4}, 0, INT64_MAX, &stamp))
        return -1;
    return stamp;
}

/* Returns the smallest key that is greater than key. */
static struct slice key_after(struct slice key, struct arena *arena)
{
    struct slice copy = arena_copy(arena, key);

    copy.len++; /* arena_copy adds a NUL */
    return copy;
}

static enum tw_err find_table(
    struct db *db, const char *table, int64_t *ret, struct err *err)
{
    enum tw_err outcome = db_find(
        db, DB_TABLE_FIND, DB_VALUES(db_text(slice_of(table))), ret, err);

    if (outcome == TW_NOT_FOUND)
        return err_fail(err, outcome, "table %s does not exist", table);
    return outcome;
}

/* ---- continuation tokens ---- */

/* Returns a continuation token for key: "1!" and the encoded key. The token is
 * valid in a header and never empty. */
static struct slice write_token(struct slice key, struct arena *arena)
{
    struct slice token;
    struct buf text;

    buf_init(&text, key.len * 3 + 2);
    buf_add_text(&text, "1!");
    text_percent_encode(&text, key);
    token = arena_copy(arena, buf_slice(&text));
    buf_done(&text);
    return token;
}

static enum tw_err read_token(
    struct slice token, struct arena *arena, struct slice *ret, struct err *err)
{
    enum tw_err outcome = TW_OK;
    struct buf key;

    buf_init(&key, token.len);
    if (!slice_begins(token, slice_of("1!")) ||
        !text_percent_decode(&key, (struct slice){token.at + 2, token.len - 2}))
        outcome = err_fail(err, TW_INVALID,
            "invalid continuation token: this store did not issue it");
    else
        *ret = arena_copy(arena, buf_slice(&key));
    buf_done(&key);
    return outcome;
}

/* ---- tables as such ---- */

struct naming {
    const char *table;
};

static enum tw_err create_body(struct db *db, void *arg, struct err *err)
{
    const struct naming *naming = arg;

    return db_run(db, DB_TABLE_ADD, DB_VALUES(db_text(slice_of(naming->table))),
        NULL, err);
}

static enum tw_err exists_body(struct db *db, void *arg, struct err *err)
{
    const struct naming *naming = arg;
    int64_t id;

    return find_table(db, naming->table, &id, err);
}

enum tw_err tables_create(
    struct store *store, struct exchange *exchange, const char *table)
{
    struct naming naming = {table};
    enum tw_err outcome =
        pool_read(embedded_pool(store), exchange, exists_body, &naming);

    if (outcome != TW_NOT_FOUND)
        return outcome;
    exchange->err.text[0] = '\0';
    return pool_write(embedded_pool(store), exchange, create_body, &naming);
}

struct listing {
    struct slice after;
    struct page *page;
};

static enum tw_err list_rows(
    struct db *db, struct listing *listing, struct err *err)
{
    struct page *page = listing->page;
    bool row = false;
    enum tw_err outcome;

    page->entities =
        arena_alloc(&page->arena, PAGE_MAX_ENTITIES * sizeof(struct entity));
    outcome = db_next(db, DB_TABLE_LIST, &row, err);
    while (outcome == TW_OK && row && page->count < PAGE_MAX_ENTITIES) {
        page->entities[page->count++].partition_key =
            arena_copy(&page->arena, db_column_bytes(db, DB_TABLE_LIST, 0));
        outcome = db_next(db, DB_TABLE_LIST, &row, err);
    }
    if (outcome == TW_OK && row) {
        page->next.more = true;
        page->next.partition_key = write_token(
            page->entities[page->count - 1].partition_key, &page->arena);
    }
    return outcome;
}

static enum tw_err list_body(struct db *db, void *arg, struct err *err)
{
    struct listing *listing = arg;
    enum tw_err outcome = db_start(db, DB_TABLE_LIST,
        DB_VALUES(db_text(listing->after), db_integer(PAGE_MAX_ENTITIES + 1)),
        err);

    if (outcome == TW_OK)
        outcome = list_rows(db, listing, err);
    db_end(db, DB_TABLE_LIST);
    return outcome;
}

enum tw_err tables_list(struct store *store, struct exchange *exchange,
    struct continuation from, struct page *ret)
{
    struct listing listing = {.page = ret};
    struct arena arena;
    enum tw_err outcome = TW_OK;

    arena_init(&arena);
    if (from.more)
        outcome = read_token(
            from.partition_key, &arena, &listing.after, &exchange->err);
    if (outcome == TW_OK)
        outcome =
            pool_read(embedded_pool(store), exchange, list_body, &listing);
    arena_done(&arena);
    return outcome;
}

/* ---- reading an entity ---- */

/* A stored row, from which an entity is made; all borrowed. */
struct row {
    struct slice partition_key, row_key;
    int64_t stamp, timestamp_ticks;
    bool has_properties; /* properties were read */
    struct slice properties;
    struct entity_reader *reader; /* NULL: the row is the only one that is read,
                                     so a reader would save nothing */
    char etag[ETAG_MAX], timestamp[TEXT_TIME_MAX];
};

/* Parses row into arena; keys, ETag and Timestamp of *ret point into row. */
static enum tw_err read_row(
    struct row *row, struct arena *arena, struct entity *ret, struct err *err)
{
    enum tw_err outcome = TW_OK;

    *ret = (struct entity){0};
    if (row->has_properties && row->reader)
        outcome = entity_read(
            row->reader, row->properties, false, arena, ret, NULL, err);
    else if (row->has_properties)
        outcome = entity_parse(row->properties, false, arena, ret, NULL, err);
    if (outcome != TW_OK) {
        /* tableward wrote this row, so the file is damaged; the request is
         * valid. */
        err_prefix(err, "the stored entity '%.*s', '%.*s' is damaged",
            SLICE_ARG(row->partition_key), SLICE_ARG(row->row_key));
        return TW_FULL;
    }
    write_etag(row->stamp, row->etag, sizeof(row->etag));
    ret->partition_key = row->partition_key;
    ret->row_key = row->row_key;
    ret->etag = slice_of(row->etag);
    ret->timestamp =
        slice_of(text_from_ticks(row->timestamp_ticks, row->timestamp));
    return TW_OK;
}

/* Reads the properties of a row from this column or, if they are stored as a
 * body, from the next column. */
static struct slice properties_of(struct db *db, enum db_sql sql, int column)
{
    struct slice properties = db_column_bytes(db, sql, column);

    return properties.len > 0 ? properties
                              : db_column_bytes(db, sql, column + 1);
}

struct getting {
    const char *table;
    struct slice partition_key, row_key;
    struct page *page;
};

static enum tw_err get_row(
    struct db *db, const struct getting *getting, struct err *err)
{
    struct page *page = getting->page;
    struct entity entity;
    struct row row = {.partition_key = getting->partition_key,
        .row_key = getting->row_key,
        .has_properties = true};
    bool there = false;
    enum tw_err outcome = db_next(db, DB_ENTITY_GET, &there, err);

    if (outcome != TW_OK)
        return outcome;
    if (!there)
        return err_fail(err, TW_NOT_FOUND, "the entity does not exist");
    row.stamp = db_column_integer(db, DB_ENTITY_GET, 0);
    row.timestamp_ticks = db_column_integer(db, DB_ENTITY_GET, 1);
    row.properties =
        arena_copy(&page->arena, properties_of(db, DB_ENTITY_GET, 2));
    outcome = read_row(&row, &page->arena, &entity, err);
    if (outcome != TW_OK)
        return outcome;
    page->entities = arena_alloc(&page->arena, sizeof(entity));
    entity_copy(&page->entities[0], &page->arena, &entity);
    page->count = 1;
    return TW_OK;
}

static enum tw_err get_body(struct db *db, void *arg, struct err *err)
{
    const struct getting *getting = arg;
    int64_t table;
    enum tw_err outcome = find_table(db, getting->table, &table, err);

    if (outcome == TW_OK)
        outcome = db_start(db, DB_ENTITY_GET,
            DB_VALUES(db_integer(table), db_key(getting->partition_key),
                db_key(getting->row_key)),
            err);
    if (outcome == TW_OK)
        outcome = get_row(db, getting, err);
    db_end(db, DB_ENTITY_GET);
    return outcome;
}

enum tw_err tables_get(struct store *store, struct exchange *exchange,
    const char *table, struct slice partition_key, struct slice row_key,
    struct page *ret)
{
    struct getting getting = {table, partition_key, row_key, ret};

    return pool_read(embedded_pool(store), exchange, get_body, &getting);
}

/* ---- scan ---- */

struct position {
    struct slice partition_key, row_key;
};

struct scanning {
    const struct scan_request *request;
    const struct filter *filter;
    enum db_sql sql; /* the statement: DB_SCAN_ALL, or DB_SCAN_KEYS, which reads
                        no properties */
    int64_t table;
    struct position first, below; /* first <= row < below */
    struct slice first_row_key;   /* start of the range of RowKeys */
    struct arena arena;           /* memory of the fields above */

    struct page *page;
    size_t room;             /* allocated elements of page->entities */
    size_t bytes;            /* size of the entities on page */
    size_t rows, read_bytes; /* numbers of rows and bytes read so far */
    struct arena scratch;    /* memory for one row */
    struct entity_reader *reader;

    unsigned misses; /* consecutive rows outside the range of RowKeys */
    unsigned seeks;
    char seek_keys[2][KEY_ROOM]; /* used in turn, because the last key may still
                                    be bound to the statement */
};

static bool is_field(struct slice name)
{
    return slice_is(name, "PartitionKey") || slice_is(name, "RowKey") ||
           slice_is(name, "Timestamp");
}

static bool all_fields(const struct slice *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!is_field(names[i]))
            return false;
    return true;
}

static enum db_sql choose_sql(const struct scanning *scanning)
{
    size_t count = 0;
    const struct slice *names = NULL;

    if (!scanning->request->select ||
        !all_fields(scanning->request->select, scanning->request->select_count))
        return DB_SCAN_ALL;
    if (scanning->filter)
        names = filter_properties(scanning->filter, &count);
    return all_fields(names, count) ? DB_SCAN_KEYS : DB_SCAN_ALL;
}

static struct slice first_key(
    const struct key_range *range, struct arena *arena)
{
    if (!range->has_from)
        return NOTHING;
    return range->from_exclusive && !range->exact
               ? key_after(range->from, arena)
               : range->from;
}

static struct slice below_key(
    const struct key_range *range, struct arena *arena)
{
    if (range->exact)
        return key_after(range->from, arena);
    return range->has_below ? range->below : ABOVE_ALL;
}

/* Finds the smallest key range of the tree that contains all requested rows. */
static void find_bounds(struct scanning *scanning)
{
    const struct key_range *partition = &scanning->request->partition_key;
    const struct key_range *row = &scanning->request->row_key;

    scanning->first.partition_key = first_key(partition, &scanning->arena);
    scanning->first_row_key = first_key(row, &scanning->arena);
    scanning->first.row_key = scanning->first_row_key;
    if (partition->exact) {
        scanning->below.partition_key = partition->from;
        scanning->below.row_key = below_key(row, &scanning->arena);
    } else {
        scanning->below.partition_key = below_key(partition, &scanning->arena);
        scanning->below.row_key = NOTHING;
    }
}

/* Lets the scan begin at the keys in `from`, which are those of the first row
 * that was not read. */
static enum tw_err continue_from(
    struct scanning *scanning, struct continuation from, struct err *err)
{
    struct position first;
    enum tw_err outcome = read_token(
        from.partition_key, &scanning->arena, &first.partition_key, err);

    if (outcome == TW_OK)
        outcome =
            read_token(from.row_key, &scanning->arena, &first.row_key, err);
    if (outcome == TW_OK)
        scanning->first = first;
    return outcome;
}

static enum tw_err prepare(struct scanning *scanning, struct err *err)
{
    const struct scan_request *request = scanning->request;
    enum tw_err outcome = TW_OK;

    if (request->filter.len > 0)
        outcome = filter_parse(
            request->filter, &scanning->arena, &scanning->filter, err);
    if (outcome != TW_OK)
        return outcome;
    scanning->sql = choose_sql(scanning);
    find_bounds(scanning);
    if (request->from.more)
        outcome = continue_from(scanning, request->from, err);
    return outcome;
}

static bool is_selected(const struct scan_request *request, struct slice name)
{
    if (!request->select)
        return true;
    for (size_t i = 0; i < request->select_count; i++)
        if (slice_equal(request->select[i], name))
            return true;
    return false;
}

static void select_properties(
    const struct scan_request *request, struct entity *entity)
{
    size_t kept = 0;

    for (size_t i = 0; i < entity->property_count; i++)
        if (is_selected(request, entity->properties[i].name))
            entity->properties[kept++] = entity->properties[i];
    entity->property_count = kept;
    if (!is_selected(request, slice_of("Timestamp")))
        entity->timestamp = NOTHING;
}

static void add_entity(
    struct page *page, size_t *room, const struct entity *entity)
{
    if (page->count == *room) {
        size_t more = *room ? *room * 2 : 8;
        struct entity *entities =
            arena_alloc(&page->arena, more * sizeof(*entities));

        if (*room)
            memcpy(entities, page->entities, *room * sizeof(*entities));
        page->entities = entities;
        *room = more;
    }
    entity_copy(&page->entities[page->count++], &page->arena, entity);
}

static void row_of(struct db *db, enum db_sql sql, struct row *ret)
{
    ret->partition_key = db_column_key(db, sql, 0);
    ret->row_key = db_column_key(db, sql, 1);
    ret->stamp = db_column_integer(db, sql, 2);
    ret->timestamp_ticks = db_column_integer(db, sql, 3);
    ret->has_properties = sql == DB_SCAN_ALL;
    ret->properties =
        ret->has_properties ? properties_of(db, sql, 4) : (struct slice){0};
}

static bool is_full(const struct scanning *scanning)
{
    return scanning->page->count == scanning->request->top ||
           scanning->rows == PAGE_MAX_ROWS ||
           scanning->read_bytes >= PAGE_MAX_READ_BYTES;
}

static void end_page_before(struct scanning *scanning, const struct row *row)
{
    struct page *page = scanning->page;

    page->next.partition_key = write_token(row->partition_key, &page->arena);
    page->next.row_key = write_token(row->row_key, &page->arena);
    page->next.more = true;
}

static enum tw_err start_rows(
    struct db *db, const struct scanning *scanning, struct err *err)
{
    return db_start(db, scanning->sql,
        DB_VALUES(db_integer(scanning->table),
            db_key(scanning->first.partition_key),
            db_key(scanning->first.row_key),
            db_key(scanning->below.partition_key),
            db_key(scanning->below.row_key)),
        err);
}

/* Handles a row outside the range of RowKeys. After SEEK_AFTER consecutive rows
 * of this kind, seeks the next row inside the range, which is later in this
 * partition or in the next partition. */
static enum tw_err miss(struct db *db, struct scanning *scanning,
    const struct row *row, struct err *err)
{
    bool further =
        text_utf16_compare(row->row_key, scanning->first_row_key) < 0;
    char *key;

    if (++scanning->misses < SEEK_AFTER || row->partition_key.len >= KEY_ROOM)
        return TW_OK;
    key = scanning->seek_keys[scanning->seeks++ % 2];
    memcpy(key, row->partition_key.at ? row->partition_key.at : "",
        row->partition_key.len);
    key[row->partition_key.len] =
        '\0'; /* the key with this NUL is the next greater key */
    scanning->first.partition_key =
        (struct slice){key, row->partition_key.len + !further};
    scanning->first.row_key = scanning->first_row_key;
    scanning->misses = 0;
    db_end(db, scanning->sql);
    return start_rows(db, scanning, err);
}

/* Sets *ret_fits to whether the entity fits on the page. A single entity may
 * take all of max_bytes. */
static enum tw_err make_room(struct scanning *scanning,
    const struct entity *entity, bool *ret_fits, struct err *err)
{
    size_t size = entity_size(entity);
    size_t max_bytes = scanning->request->max_bytes;

    if (scanning->page->count == 0) {
        if (size > max_bytes)
            return err_fail(err, TW_TOO_LARGE,
                "an entity has %zu bytes; a page may have %zu", size,
                max_bytes);
    } else if (scanning->bytes + size > max_bytes ||
               scanning->bytes + size > PAGE_MAX_BYTES) {
        *ret_fits = false;
        return TW_OK;
    }
    scanning->bytes += size;
    *ret_fits = true;
    return TW_OK;
}

/* Handles one row. *ret_on becomes true if the page continues after this
 * row. */
static enum tw_err take_row(
    struct db *db, struct scanning *scanning, bool *ret_on, struct err *err)
{
    struct entity entity;
    struct row row = {.reader = scanning->reader};
    enum tw_err outcome;

    row_of(db, scanning->sql, &row);
    *ret_on = !is_full(scanning);
    if (!*ret_on) {
        end_page_before(scanning, &row);
        return TW_OK;
    }
    scanning->rows++;
    scanning->read_bytes += row.properties.len;
    arena_clear(&scanning->scratch);
    if (!key_range_has(&scanning->request->row_key, row.row_key))
        return miss(db, scanning, &row, err);
    scanning->misses = 0;
    outcome = read_row(&row, &scanning->scratch, &entity, err);
    if (outcome == TW_FULL && scanning->request->damaged_too) {
        entity = (struct entity){
            .partition_key = row.partition_key, .row_key = row.row_key};
    } else if (outcome != TW_OK || !filter_matches(scanning->filter, &entity)) {
        return outcome;
    }
    select_properties(scanning->request, &entity);
    outcome = make_room(scanning, &entity, ret_on, err);
    if (outcome != TW_OK)
        return outcome;
    if (*ret_on)
        add_entity(scanning->page, &scanning->room, &entity);
    else
        end_page_before(scanning, &row);
    return TW_OK;
}

static enum tw_err scan_body(struct db *db, void *arg, struct err *err)
{
    struct scanning *scanning = arg;
    bool on = true, row = true;
    enum tw_err outcome =
        find_table(db, scanning->request->table, &scanning->table, err);

    if (outcome == TW_OK)
        outcome = start_rows(db, scanning, err);
    while (outcome == TW_OK && on) {
        outcome = db_next(db, scanning->sql, &row, err);
        if (outcome != TW_OK || !row)
            break;
        outcome = take_row(db, scanning, &on, err);
    }
    db_end(db, scanning->sql);
    return outcome;
}

enum tw_err tables_scan(struct store *store, struct exchange *exchange,
    const struct scan_request *request, struct page *ret)
{
    struct scanning scanning = {.request = request, .page = ret};
    enum tw_err outcome;

    arena_init(&scanning.arena);
    arena_init(&scanning.scratch);
    scanning.reader = entity_reader_new();
    outcome = prepare(&scanning, &exchange->err);
    if (outcome == TW_OK)
        outcome =
            pool_read(embedded_pool(store), exchange, scan_body, &scanning);
    if (outcome != TW_OK) {
        ret->count = 0;
        ret->next = (struct continuation){0};
    }
    entity_reader_free(scanning.reader);
    arena_done(&scanning.scratch);
    arena_done(&scanning.arena);
    return outcome;
}

/* ---- batch ---- */

struct change {
    int64_t table, stamp, now_ticks;
    const struct operation *operation;
    struct slice partition_key, row_key; /* keys of the operation's entity */
    struct slice json;   /* new properties, for insert and replace */
    struct arena *arena; /* memory for the result of a merge */
};

struct committing {
    const struct batch *batch;
    struct batch_result *ret;
    struct buf json; /* JSON of all operations, concatenated */
    size_t ends[BATCH_MAX_OPERATIONS];
    struct arena arena;
};

/* Checks that the entity of the operation exists and has the operation's ETag.
 * TW_OK: it does. */
static enum tw_err check_found(
    const struct change *change, bool there, int64_t etag, struct err *err)
{
    if (!there)
        return err_fail(err, TW_NOT_FOUND, "the entity does not exist");
    if (etag != stamp_of(change->operation->entity.etag))
        return err_fail(err, TW_CONFLICT, "the entity has another ETag now");
    return TW_OK;
}

static enum tw_err find_stored(struct db *db, const struct change *change,
    int64_t *ret_body, struct err *err)
{
    bool there = false;
    enum tw_err outcome = db_start(db, DB_ENTITY_FIND,
        DB_VALUES(db_integer(change->table), db_key(change->partition_key),
            db_key(change->row_key)),
        err);

    if (outcome == TW_OK)
        outcome = db_next(db, DB_ENTITY_FIND, &there, err);
    if (outcome == TW_OK)
        outcome = check_found(change, there,
            there ? db_column_integer(db, DB_ENTITY_FIND, 0) : 0, err);
    if (outcome == TW_OK)
        *ret_body = db_column_integer(db, DB_ENTITY_FIND, 1);
    db_end(db, DB_ENTITY_FIND);
    return outcome;
}

static enum tw_err drop_body(struct db *db, int64_t body, struct err *err)
{
    if (body == 0)
        return TW_OK;
    return db_run(db, DB_BODY_DELETE, DB_VALUES(db_integer(body)), NULL, err);
}

/* Writes the entity by `sql`, an insert or an update, and long JSON as a body.
 */
static enum tw_err put_json(struct db *db, enum db_sql sql,
    const struct change *change, struct slice json, int *ret_changed,
    struct err *err)
{
    bool is_long = change->partition_key.len + change->row_key.len + json.len >
                   RECORD_MAX_BYTES;
    int64_t body = is_long ? db_stamp(db) : 0;
    enum tw_err outcome = db_run(db, sql,
        DB_VALUES(db_integer(change->table), db_key(change->partition_key),
            db_key(change->row_key), db_integer(change->stamp),
            db_integer(change->now_ticks), db_integer(body),
            db_bytes(is_long ? NOTHING : json)),
        ret_changed, err);

    if (outcome == TW_OK && is_long && *ret_changed > 0)
        outcome = db_run(db, DB_BODY_ADD,
            DB_VALUES(db_integer(body), db_bytes(json)), NULL, err);
    return outcome;
}

static enum tw_err insert(
    struct db *db, const struct change *change, struct err *err)
{
    int changed = 0;
    enum tw_err outcome =
        put_json(db, DB_ENTITY_INSERT, change, change->json, &changed, err);

    if (outcome == TW_OK && changed == 0)
        return err_fail(err, TW_CONFLICT, "the entity exists already");
    return outcome;
}

static enum tw_err update(struct db *db, const struct change *change,
    int64_t old_body, struct slice json, struct err *err)
{
    int changed = 0;
    enum tw_err outcome = drop_body(db, old_body, err);

    if (outcome == TW_OK)
        outcome = put_json(db, DB_ENTITY_UPDATE, change, json, &changed, err);
    return outcome;
}

static enum tw_err replace(
    struct db *db, const struct change *change, struct err *err)
{
    int64_t body;
    enum tw_err outcome = find_stored(db, change, &body, err);

    return outcome == TW_OK ? update(db, change, body, change->json, err)
                            : outcome;
}

static enum tw_err read_stored(struct db *db, const struct change *change,
    struct entity *ret, int64_t *ret_body, struct err *err)
{
    struct row row = {.partition_key = change->partition_key,
        .row_key = change->row_key,
        .has_properties = true};
    bool there = false;
    enum tw_err outcome = db_start(db, DB_ENTITY_GET,
        DB_VALUES(db_integer(change->table), db_key(change->partition_key),
            db_key(change->row_key)),
        err);

    if (outcome == TW_OK)
        outcome = db_next(db, DB_ENTITY_GET, &there, err);
    if (outcome == TW_OK)
        outcome = check_found(change, there,
            there ? db_column_integer(db, DB_ENTITY_GET, 0) : 0, err);
    if (outcome == TW_OK) {
        *ret_body = db_column_integer(db, DB_ENTITY_GET, 4);
        row.properties =
            arena_copy(change->arena, properties_of(db, DB_ENTITY_GET, 2));
        outcome = read_row(&row, change->arena, ret, err);
        ret->etag = ret->timestamp =
            (struct slice){0}; /* row's memory ends here */
    }
    db_end(db, DB_ENTITY_GET);
    return outcome;
}

static enum tw_err merge(
    struct db *db, const struct change *change, struct err *err)
{
    const struct entity *entity = &change->operation->entity;
    struct entity stored;
    struct buf json;
    int64_t body;
    enum tw_err outcome = read_stored(db, change, &stored, &body, err);

    if (outcome != TW_OK)
        return outcome;
    for (size_t i = 0; i < entity->property_count; i++)
        entity_set(&stored, change->arena, &entity->properties[i]);
    outcome = entity_check(&stored, err);
    if (outcome != TW_OK)
        return outcome;
    buf_init(&json, JSON_MAX_BYTES);
    entity_write_properties(&stored, &json);
    outcome = update(db, change, body, buf_slice(&json), err);
    buf_done(&json);
    return outcome;
}

static enum tw_err delete_entity(
    struct db *db, const struct change *change, struct err *err)
{
    int64_t body;
    enum tw_err outcome = find_stored(db, change, &body, err);

    if (outcome == TW_OK)
        outcome = drop_body(db, body, err);
    if (outcome == TW_OK)
        outcome = db_run(db, DB_ENTITY_DELETE,
            DB_VALUES(db_integer(change->table), db_key(change->partition_key),
                db_key(change->row_key)),
            NULL, err);
    return outcome;
}

static enum tw_err (*const APPLY[])(
    struct db *, const struct change *, struct err *) = {
    [OPERATION_INSERT] = insert,
    [OPERATION_REPLACE] = replace,
    [OPERATION_MERGE] = merge,
    [OPERATION_DELETE] = delete_entity,
};

static struct slice json_of(const struct committing *committing, size_t index)
{
    size_t start = index > 0 ? committing->ends[index - 1] : 0;

    if (start == committing->ends[index])
        return (struct slice){0}; /* a delete or a merge, which has no JSON
                                     here; json.at may be NULL */
    return (struct slice){
        committing->json.at + start, committing->ends[index] - start};
}

static enum tw_err apply(struct db *db, struct committing *committing,
    struct change *change, struct err *err)
{
    struct batch_result *ret = committing->ret;

    for (size_t i = 0; i < committing->batch->count; i++) {
        enum tw_err outcome;

        change->operation = &committing->batch->operations[i];
        change->partition_key = change->operation->entity.partition_key;
        change->row_key = change->operation->entity.row_key;
        change->json = json_of(committing, i);
        outcome = APPLY[change->operation->type](db, change, err);
        if (outcome != TW_OK) {
            ret->failed = i;
            err_prefix(err, "table %s, operation %zu of %zu",
                committing->batch->table, i + 1, committing->batch->count);
            return outcome;
        }
        ret->etags[i][0] = '\0';
        if (change->operation->type != OPERATION_DELETE)
            write_etag(change->stamp, ret->etags[i], sizeof(ret->etags[i]));
    }
    return TW_OK;
}

static enum tw_err batch_body(struct db *db, void *arg, struct err *err)
{
    struct committing *committing = arg;
    struct change change = {.arena = &committing->arena};
    enum tw_err outcome =
        find_table(db, committing->batch->table, &change.table, err);

    if (outcome != TW_OK)
        return outcome;
    change.stamp = db_stamp(db);
    change.now_ticks = db_now_ticks(db);
    return apply(db, committing, &change, err);
}

/* Writes the JSON of all operations. Call before pool_write(), so that other
 * writers do not wait for it. */
static enum tw_err write_json(struct committing *committing, struct err *err)
{
    for (size_t i = 0; i < committing->batch->count; i++) {
        const struct operation *operation = &committing->batch->operations[i];

        if (operation->type == OPERATION_INSERT ||
            operation->type == OPERATION_REPLACE)
            entity_write_properties(&operation->entity, &committing->json);
        committing->ends[i] = committing->json.len;
    }
    if (committing->json.overflow)
        return err_fail(err, TW_TOO_LARGE, "the batch is too large");
    return TW_OK;
}

enum tw_err tables_batch(struct store *store, struct exchange *exchange,
    const struct batch *batch, struct batch_result *ret)
{
    struct committing committing = {.batch = batch, .ret = ret};
    enum tw_err outcome;

    ret->failed = batch->count;
    arena_init(&committing.arena);
    buf_init(&committing.json, JSON_MAX_BYTES);
    outcome = write_json(&committing, &exchange->err);
    if (outcome == TW_OK)
        outcome =
            pool_write(embedded_pool(store), exchange, batch_body, &committing);
    if (outcome == TW_FULL || outcome == TW_BUSY)
        ret->failed = batch->count;
    buf_done(&committing.json);
    arena_done(&committing.arena);
    return outcome;
}
