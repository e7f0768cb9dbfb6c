/* SPDX-License-Identifier: MIT */
/* Intents as rows beside the ledger. */
#include "jobs/move/intent.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#include "jobs/engine/call.h"
#include "jobs/engine/late.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/retry.h"
#include "worker/store/store.h"

/* Maximum bytes of a chunk. A String has at most 32,768 UTF-16 units, and a
 * UTF-8 text has no more UTF-16 units than bytes. */
#define CHUNK_MAX_BYTES 30000
#define LIST_MAX_BYTES ((size_t)INTENT_MAX_CHUNKS * CHUNK_MAX_BYTES)

#define FIELDS 7

/* Maximum tries of one change of an intent. */
#define TRIES_MAX 8

static const char *const STATES[] = {"copying", "leaving"};

/* ---- locations ---- */

static struct slice account_of(const struct store *store, struct arena *arena)
{
    if (store->capabilities.identity)
        return arena_copy(arena, slice_of(store->capabilities.identity));
    if (store->capabilities.endpoint)
        return arena_copy(arena, slice_of(store->capabilities.endpoint));
    return arena_format(arena, "store %s", store->name);
}

struct location location_of(
    const struct store *store, struct slice table, struct arena *arena)
{
    const char *name = store->capabilities.account_name;

    return (struct location){.store = slice_of(store->name),
        .account = account_of(store, arena),
        .table = table,
        .account_name = slice_of(name ? name : "")};
}

static bool same_text(struct slice a, struct slice b)
{
    return a.len == b.len &&
           (a.len == 0 || strncasecmp(a.at, b.at, a.len) == 0);
}

bool location_same(const struct location *a, const struct location *b)
{
    return same_text(a->account, b->account) && same_text(a->table, b->table);
}

bool location_may_be_same(const struct location *a, const struct location *b)
{
    return location_same(a, b) ||
           (a->account_name.len > 0 &&
               same_text(a->account_name, b->account_name) &&
               same_text(a->table, b->table));
}

/* ---- the RowKey ---- */

void intent_name(struct intent *intent, unsigned slot)
{
    const struct location *source = &intent->locations[PAIR_SOURCE];
    unsigned char digest[CRYPTO_SHA256_BYTES];
    struct buf text;
    char hash[17];

    buf_init(&text, SIZE_MAX / 2);
    buf_add_slice(&text, source->account);
    buf_add_char(&text, '\n');
    buf_add_slice(&text, source->table);
    for (size_t i = 0; i < text.len; i++)
        text.at[i] = (char)tolower((unsigned char)text.at[i]);
    crypto_sha256(buf_slice(&text), digest);
    buf_done(&text);
    text_hex(hash, digest, 8);
    snprintf(intent->row_key, sizeof(intent->row_key), "%s-%u", hash, slot);
    text_random_id(intent->id);
}

/* ---- the list of pairs ---- */

static void add_field(struct buf *to, struct slice text, char end)
{
    buf_add_slice(to, text);
    buf_add_char(to, end);
}

static void add_pair(struct buf *to, const struct pair *pair)
{
    char digest[2 * DIGEST_BYTES + 1];

    digest_text(&pair->digest, digest);
    for (int side = PAIR_SOURCE; side <= PAIR_COPY; side++) {
        add_field(to, pair->keys[side].partition_key, '\t');
        add_field(to, pair->keys[side].row_key, '\t');
        add_field(to, slice_of(pair->etags[side]), '\t');
    }
    add_field(to, slice_of(digest), '\n');
}

static size_t add_pairs(struct buf *to, const struct load *load, bool leaving)
{
    size_t count = 0;

    for (size_t i = 0; i < load->count; i++)
        if (!leaving || load->pairs[i].state == PAIR_COPIED) {
            add_pair(to, &load->pairs[i]);
            count++;
        }
    return count;
}

/* *ret becomes the text before the first `end` in *text; *text becomes the text
 * after it. False: *text has no `end`. */
static bool take_field(struct slice *text, char end, struct slice *ret)
{
    const char *at = text->len > 0 ? memchr(text->at, end, text->len) : NULL;

    if (!at)
        return false;
    *ret = (struct slice){text->at, (size_t)(at - text->at)};
    text->len -= ret->len + 1;
    text->at = at + 1;
    return true;
}

static bool read_pair(struct slice *text, struct load *load)
{
    struct slice fields[FIELDS];
    struct digest digest;
    struct pair *pair;

    for (int i = 0; i < FIELDS; i++)
        if (!take_field(text, i + 1 < FIELDS ? '\t' : '\n', &fields[i]))
            return false;
    if (load->count == LOAD_MAX_PAIRS || !digest_parse(fields[6], &digest) ||
        move_load_find(load, fields[3], fields[4]))
        return false;
    pair = move_load_add(load, &(struct keys){fields[0], fields[1]}, fields[2],
        &(struct keys){fields[3], fields[4]}, NULL);
    pair->digest = digest;
    return etag_copy(pair->etags[PAIR_COPY], fields[5]);
}

static void digest_list(struct slice list, char to[33])
{
    unsigned char digest[CRYPTO_SHA256_BYTES];

    crypto_sha256(list, digest);
    text_hex(to, digest, 16);
}

/* ---- one change ---- */

/* One write of an intent: the rows to write, and the intent as it is stored. */
struct change {
    struct intent *intent;
    struct run *run;
    struct late *late;
    struct arena arena;
    struct entity rows[INTENT_MAX_CHUNKS];
    size_t count;
};

/* Which rows are stored after a write: the former rows (STORED_AS_BEFORE), the
 * rows of this write (STORED_CHANGED) or rows of another attempt
 * (STORED_OTHER). */
enum stored { STORED_AS_BEFORE, STORED_CHANGED, STORED_OTHER };

static void describe(
    struct change *change, const char *state, struct slice list, size_t pairs)
{
    static const char *const NAMES[][4] = {
        {"SourceStore", "SourceAccount", "SourceTable", "SourceAccountName"},
        {"DestinationStore", "DestinationAccount", "DestinationTable",
            "DestinationAccountName"}};
    const struct intent *intent = change->intent;
    struct entity *row = &change->rows[0];
    struct arena *arena = &change->arena;
    char digest[33];

    digest_list(list, digest);
    entity_set_int32(row, arena, "Format", INTENT_FORMAT);
    entity_set_string(row, arena, "State", slice_of(state));
    entity_set_string(row, arena, "Change", slice_of(intent->change));
    entity_set_string(row, arena, "Job", intent->job);
    entity_set_string(row, arena, "Run", intent->run);
    for (int side = PAIR_SOURCE; side <= PAIR_COPY; side++) {
        const struct location *location = &intent->locations[side];

        entity_set_string(row, arena, NAMES[side][0], location->store);
        entity_set_string(row, arena, NAMES[side][1], location->account);
        entity_set_string(row, arena, NAMES[side][2], location->table);
        if (location->account_name.len > 0)
            entity_set_string(
                row, arena, NAMES[side][3], location->account_name);
    }
    entity_set_datetime(row, arena, "Since", intent->since_ticks);
    entity_set_int32(row, arena, "Chunks", (int32_t)change->count);
    entity_set_int32(row, arena, "Pairs", (int32_t)pairs);
    entity_set_string(row, arena, "Digest", slice_of(digest));
}

/* Returns the size of the next chunk, which ends at the end of a line. */
static size_t chunk_bytes(struct slice list)
{
    size_t bytes = list.len < CHUNK_MAX_BYTES ? list.len : CHUNK_MAX_BYTES;

    while (bytes > 0 && list.at[bytes - 1] != '\n')
        bytes--;
    return bytes;
}

static struct slice chunk_key(
    const struct intent *intent, size_t chunk, struct arena *arena)
{
    return arena_format(arena, "%s-%02zu", intent->row_key, chunk);
}

static enum tw_err make_rows(
    struct change *change, const struct load *load, bool leaving)
{
    struct arena *arena = &change->arena;
    struct slice rest, list;
    struct buf text;
    size_t pairs;

    buf_init(&text, LIST_MAX_BYTES);
    pairs = add_pairs(&text, load, leaving);
    rest = list = buf_slice(&text);
    do {
        size_t bytes = chunk_bytes(rest);
        struct entity *row = &change->rows[change->count];

        entity_init(row, arena, slice_of(INTENTS_PARTITION),
            chunk_key(change->intent, change->count++, arena));
        entity_set_string(row, arena, "Load", slice_of(change->intent->id));
        entity_set_string(row, arena, "Text", (struct slice){rest.at, bytes});
        rest.at += bytes;
        rest.len -= bytes;
    } while (rest.len > 0 && change->count < INTENT_MAX_CHUNKS);
    describe(change, STATES[leaving], list, pairs);
    buf_done(&text);
    return rest.len == 0 ? TW_OK : TW_TOO_LARGE;
}

static size_t list_operations(struct change *change, struct operation *to)
{
    const struct intent *intent = change->intent;
    size_t i = 0;

    for (; i < change->count; i++) {
        to[i].type = i < intent->chunks ? OPERATION_REPLACE : OPERATION_INSERT;
        to[i].entity = change->rows[i];
        if (i < intent->chunks)
            to[i].entity.etag = slice_of(intent->etags[i]);
    }
    for (; i < intent->chunks; i++) {
        to[i].type = OPERATION_DELETE;
        entity_init(&to[i].entity, &change->arena, slice_of(INTENTS_PARTITION),
            chunk_key(intent, i, &change->arena));
        to[i].entity.etag = slice_of(intent->etags[i]);
    }
    return i;
}

static enum tw_err send(struct change *change, struct err *err)
{
    struct run *run = change->run;
    struct operation *operations =
        arena_alloc(&change->arena, BATCH_MAX_OPERATIONS * sizeof(*operations));
    struct batch batch = {
        run->ledger_table, operations, list_operations(change, operations)};
    struct batch_result *result = arena_alloc(&change->arena, sizeof(*result));
    enum tw_err outcome =
        call_batch(run->pool_client, run->ledger, &batch, result, NULL, err);

    if (outcome != TW_OK)
        return outcome;
    change->intent->chunks = change->count;
    for (size_t i = 0; i < change->count; i++)
        etag_copy(change->intent->etags[i], slice_of(result->etags[i]));
    return TW_OK;
}

static bool has_text(
    const struct entity *row, const char *name, const char *text)
{
    const struct property *property = entity_find(row, slice_of(name));
    struct arena arena;
    struct slice is;
    bool equal;

    arena_init(&arena);
    equal =
        property && property_text(property, &arena, &is) && slice_is(is, text);
    arena_done(&arena);
    return equal;
}

/* The current rows of one intent. */
struct rows {
    size_t count;
    bool ours; /* the first row has the Change of this write */
    char etags[INTENT_MAX_CHUNKS][ETAG_MAX];
};

static enum stored compare_rows(struct change *change, const struct rows *rows)
{
    struct intent *intent = change->intent;

    if (rows->count == 0)
        return change->count == 0
                   ? STORED_CHANGED
                   : (intent->chunks == 0 ? STORED_AS_BEFORE : STORED_OTHER);
    if (change->count > 0 && rows->count == change->count && rows->ours) {
        intent->chunks = change->count;
        memcpy(intent->etags, rows->etags, sizeof(intent->etags));
        return STORED_CHANGED;
    }
    return intent->chunks > 0 && strcmp(rows->etags[0], intent->etags[0]) == 0
               ? STORED_AS_BEFORE
               : STORED_OTHER;
}

static void add_rows(
    const struct change *change, struct rows *rows, const struct page *page)
{
    for (size_t i = 0; i < page->count && rows->count < INTENT_MAX_CHUNKS;
         i++) {
        const struct entity *row = &page->entities[i];

        if (rows->count == 0)
            rows->ours = has_text(row, "Change", change->intent->change);
        etag_copy(rows->etags[rows->count++], row->etag);
    }
}

static enum tw_err read_stored(
    struct change *change, enum stored *ret, struct err *err)
{
    static const struct slice names[] = {{"Change", 6}};
    struct run *run = change->run;
    struct slice prefix =
        arena_format(&change->arena, "%s-", change->intent->row_key);
    struct scan_spec spec = {.store = run->ledger,
        .table = run->ledger_table,
        .partition_key = key_range_exact(slice_of(INTENTS_PARTITION)),
        .row_key = key_range_prefix(prefix, &change->arena),
        .select = names,
        .select_count = 1};
    struct rows *rows = arena_alloc(&change->arena, sizeof(*rows));
    struct scan *scan = scan_open(run->pool_client, &spec);
    const struct page *page = NULL;
    enum tw_err outcome;

    do {
        outcome = scan_next(scan, &page, err);
        if (outcome == TW_OK && page)
            add_rows(change, rows, page);
    } while (outcome == TW_OK && page);
    scan_close(scan);
    if (outcome != TW_OK && outcome != TW_NOT_FOUND)
        return outcome;
    *ret = compare_rows(change, rows);
    return TW_OK;
}

/* Finds out which rows are stored. Call if a write was refused or its outcome
 * is unknown. If the write was an insert and no row is stored, waits until the
 * insert can no longer arrive. Otherwise the insert could arrive after the
 * intent was removed. */
static enum tw_err resolve_outcome(
    struct change *change, enum tw_err sent, enum stored *ret, struct err *err)
{
    struct run *run = change->run;
    bool inserts = change->intent->chunks == 0;
    enum tw_err outcome;

    if (sent == TW_UNKNOWN && inserts)
        late_note(change->late, run->ledger);
    outcome = read_stored(change, ret, err);
    if (outcome != TW_OK || *ret != STORED_AS_BEFORE || !inserts)
        return outcome;
    if (sent == TW_NOT_FOUND)
        return call_create_table(
            run->pool_client, run->ledger, run->ledger_table, err);
    outcome = late_wait(change->late, run, err);
    return outcome == TW_OK ? read_stored(change, ret, err) : outcome;
}

static enum tw_err apply(struct change *change, struct err *err)
{
    for (int i = 0; i < TRIES_MAX; i++) {
        enum stored stored = STORED_OTHER;
        enum tw_err sent = send(change, err), outcome;

        if (sent != TW_UNKNOWN && sent != TW_CONFLICT && sent != TW_NOT_FOUND)
            return sent;
        outcome = resolve_outcome(change, sent, &stored, err);
        if (outcome != TW_OK || stored == STORED_CHANGED)
            return outcome;
        if (stored == STORED_OTHER)
            return err_fail(err, TW_CONFLICT,
                "another attempt has written the intent %s/%s in table %s: "
                "this attempt does not continue the load",
                INTENTS_PARTITION, change->intent->row_key,
                change->run->ledger_table);
    }
    return err_fail(err, TW_BUSY,
        "the intent %s/%s in table %s could not be written: %d requests had no "
        "usable response",
        INTENTS_PARTITION, change->intent->row_key, change->run->ledger_table,
        TRIES_MAX);
}

/* Stores the intent with the pairs of load or, if load is NULL, removes the
 * intent. */
static enum tw_err write_intent(struct intent *intent, struct run *run,
    struct late *late, const struct load *load, struct err *err)
{
    struct change *change = mem_alloc(sizeof(*change));
    enum tw_err outcome = TW_OK;

    *change = (struct change){.intent = intent, .run = run, .late = late};
    arena_init(&change->arena);
    text_random_id(intent->change);
    if (load)
        outcome = make_rows(change, load, intent->leaving);
    outcome = outcome == TW_OK ? apply(change, err)
                               : err_fail(err, outcome,
                                     "the list of the entities to move is too "
                                     "large for an intent");
    arena_done(&change->arena);
    mem_free(change);
    return outcome;
}

enum tw_err intent_store(struct intent *intent, struct run *run,
    struct late *late, const struct load *load, struct err *err)
{
    return write_intent(intent, run, late, load, err);
}

enum tw_err intent_leave(struct intent *intent, struct run *run,
    struct late *late, const struct load *load, struct err *err)
{
    intent->leaving = true;
    return write_intent(intent, run, late, load, err);
}

enum tw_err intent_remove(
    struct intent *intent, struct run *run, struct late *late, struct err *err)
{
    return write_intent(intent, run, late, NULL, err);
}

/* ---- reading intents ---- */

/* The state of reading one intent from its rows. */
struct reading {
    struct arena arena;
    struct intent *intent;
    size_t chunks, pairs; /* numbers of chunks and pairs, as stated by the first
                             row */
    struct buf list;
    char digest[33];
};

static bool read_text(struct reading *reading, const struct entity *row,
    const char *name, struct slice *ret)
{
    const struct property *property = entity_find(row, slice_of(name));

    return property && property->type == EDM_STRING &&
           property_text(property, &reading->arena, ret) &&
           ((*ret = arena_copy(&reading->arena, *ret)), true);
}

static bool read_id(struct reading *reading, const struct entity *row,
    const char *name, char *to)
{
    struct slice text;

    if (!read_text(reading, row, name, &text) || text.len != 32)
        return false;
    memcpy(to, text.at, 33);
    return true;
}

static bool read_count(
    const struct entity *row, const char *name, int32_t max, size_t *ret)
{
    const struct property *property = entity_find(row, slice_of(name));
    int32_t number;

    if (!property || !property_int32(property, &number) || number < 0 ||
        number > max)
        return false;
    *ret = (size_t)number;
    return true;
}

static bool read_locations(struct reading *reading, const struct entity *row)
{
    struct location *source = &reading->intent->locations[PAIR_SOURCE];
    struct location *copy = &reading->intent->locations[PAIR_COPY];

    (void)read_text(reading, row, "SourceAccountName", &source->account_name);
    (void)read_text(
        reading, row, "DestinationAccountName", &copy->account_name);
    return read_text(reading, row, "SourceStore", &source->store) &&
           read_text(reading, row, "SourceAccount", &source->account) &&
           read_text(reading, row, "SourceTable", &source->table) &&
           read_text(reading, row, "DestinationStore", &copy->store) &&
           read_text(reading, row, "DestinationAccount", &copy->account) &&
           read_text(reading, row, "DestinationTable", &copy->table);
}

static bool read_first(struct reading *reading, const struct entity *row)
{
    struct intent *intent = reading->intent;
    const struct property *since = entity_find(row, slice_of("Since"));
    struct slice key = row->row_key, state;

    if (key.len != 21 || memcmp(key.at + key.len - 3, "-00", 3) != 0 ||
        !read_text(reading, row, "State", &state) ||
        !read_id(reading, row, "Load", intent->id) ||
        !read_id(reading, row, "Digest", reading->digest) ||
        !read_text(reading, row, "Job", &intent->job) ||
        !read_text(reading, row, "Run", &intent->run) ||
        !read_locations(reading, row) || !since ||
        !property_ticks(since, &intent->since_ticks) ||
        !read_count(row, "Chunks", INTENT_MAX_CHUNKS, &reading->chunks) ||
        !read_count(row, "Pairs", LOAD_MAX_PAIRS, &reading->pairs))
        return false;
    snprintf(intent->row_key, sizeof(intent->row_key), "%.*s", (int)key.len - 3,
        key.at);
    intent->leaving = slice_is(state, STATES[true]);
    return reading->chunks > 0 &&
           (intent->leaving || slice_is(state, STATES[false]));
}

static bool read_row(struct reading *reading, const struct entity *row)
{
    struct intent *intent = reading->intent;
    struct slice text;
    char wanted[32];

    if (intent->chunks == 0 && !read_first(reading, row))
        return false;
    snprintf(
        wanted, sizeof(wanted), "%s-%02zu", intent->row_key, intent->chunks);
    if (!slice_is(row->row_key, wanted) || !has_text(row, "Load", intent->id) ||
        !read_text(reading, row, "Text", &text))
        return false;
    buf_add_slice(&reading->list, text);
    return etag_copy(intent->etags[intent->chunks++], row->etag);
}

static bool read_list(struct reading *reading, struct load *load)
{
    struct slice list = buf_slice(&reading->list);
    char digest[33];

    move_load_clear(load);
    digest_list(list, digest);
    if (strcmp(digest, reading->digest) != 0)
        return false;
    while (list.len > 0)
        if (!read_pair(&list, load))
            return false;
    return load->count == reading->pairs;
}

static void begin_reading(struct reading *reading)
{
    arena_clear(&reading->arena);
    buf_clear(&reading->list);
    *reading->intent = (struct intent){.chunks = 0};
}

static enum tw_err refuse_damaged(
    const struct run *run, struct slice row_key, struct err *err)
{
    return err_fail(err, TW_INVALID,
        "the intent row %s/%.*s in table %s is damaged: nothing was changed. "
        "It lists entities of a move that was interrupted; each of them may be "
        "at its source, at its destination, or at both. Compare them, then "
        "delete the rows of this intent",
        INTENTS_PARTITION, SLICE_ARG(row_key), run->ledger_table);
}

static bool is_newer(const struct entity *row, int32_t *ret_format)
{
    const struct property *format = entity_find(row, slice_of("Format"));

    return format && property_int32(format, ret_format) &&
           *ret_format > INTENT_FORMAT;
}

/* Refuses an intent of a newer version, because only that version knows what
 * the pairs mean and which sources to delete. */
static enum tw_err refuse_newer(const struct run *run, struct slice row_key,
    int32_t format, struct err *err)
{
    return err_fail(err, TW_INVALID,
        "the intent row %s/%.*s in table %s was written by a newer version "
        "of tableward (Format %d): it is left unchanged, and nothing is moved. "
        "Let the newer version finish its move, then retry with this version",
        INTENTS_PARTITION, SLICE_ARG(row_key), run->ledger_table, (int)format);
}

/* The arguments of intent_each() for visit_row(). */
struct visit {
    struct run *run;
    struct load *load;
    enum tw_err (*each)(
        void *ctx, struct intent *intent, struct load *load, struct err *err);
    void *ctx;
};

static enum tw_err visit_row(const struct visit *visit, struct reading *reading,
    const struct entity *row, struct err *err)
{
    enum tw_err outcome = TW_OK;
    int32_t format;

    if (is_newer(row, &format))
        return refuse_newer(visit->run, row->row_key, format, err);
    if (!read_row(reading, row))
        return refuse_damaged(visit->run, row->row_key, err);
    if (reading->intent->chunks < reading->chunks)
        return TW_OK;
    if (!read_list(reading, visit->load))
        return refuse_damaged(visit->run, row->row_key, err);
    outcome = visit->each(visit->ctx, reading->intent, visit->load, err);
    begin_reading(reading);
    return outcome;
}

static enum tw_err visit_rows(const struct visit *visit,
    struct reading *reading, struct scan *scan, struct err *err)
{
    const struct page *page;
    enum tw_err outcome;

    do {
        outcome = scan_next(scan, &page, err);
        if (outcome == TW_NOT_FOUND) /* the ledger table does not exist yet */
            return TW_OK;
        for (size_t i = 0; outcome == TW_OK && page && i < page->count; i++)
            outcome = visit_row(visit, reading, &page->entities[i], err);
    } while (outcome == TW_OK && page);
    if (outcome == TW_OK && reading->intent->chunks > 0)
        return refuse_damaged(
            visit->run, slice_of(reading->intent->row_key), err);
    return outcome;
}

enum tw_err intent_each(struct run *run, struct load *load,
    enum tw_err (*each)(
        void *ctx, struct intent *intent, struct load *load, struct err *err),
    void *ctx, struct err *err)
{
    const struct visit visit = {run, load, each, ctx};
    const struct scan_spec spec = {.store = run->ledger,
        .table = run->ledger_table,
        .partition_key = key_range_exact(slice_of(INTENTS_PARTITION))};
    struct reading reading = {.intent = mem_alloc(sizeof(struct intent))};
    struct scan *scan = scan_open(run->pool_client, &spec);
    enum tw_err outcome;

    arena_init(&reading.arena);
    buf_init(&reading.list, LIST_MAX_BYTES);
    begin_reading(&reading);
    outcome = visit_rows(&visit, &reading, scan, err);
    scan_close(scan);
    buf_done(&reading.list);
    arena_done(&reading.arena);
    mem_free(reading.intent);
    return outcome;
}

/* ---- the intents of one run, outside an attempt ---- */

/* Reads one page. Retries a read whose outcome is unknown, because a read
 * changes nothing. */
static enum tw_err read_page(struct store *ledger,
    const struct scan_request *request, struct retry_call *call,
    struct page *page)
{
    enum tw_err outcome;

    do {
        outcome = store_scan(ledger, &call->exchange, request, page);
        if (outcome == TW_UNKNOWN)
            outcome = TW_BUSY;
    } while (retry_call_again(call, outcome));
    return outcome;
}

static bool page_has_run(
    const struct page *page, const char *job, const char *id)
{
    for (size_t i = 0; i < page->count; i++)
        if (has_text(&page->entities[i], "Job", job) &&
            has_text(&page->entities[i], "Run", id))
            return true;
    return false;
}

enum tw_err intent_is_open(struct store *ledger, const char *ledger_table,
    struct slice job, struct slice id, struct retry_call *call, bool *ret)
{
    static const struct slice names[] = {{"Job", 3}, {"Run", 3}};
    struct scan_request request = {.table = ledger_table,
        .partition_key = key_range_exact(slice_of(INTENTS_PARTITION)),
        .select = names,
        .select_count = 2,
        .damaged_too = true};
    char *job_name = mem_text(job.at, job.len), *run = mem_text(id.at, id.len);
    struct page page;
    enum tw_err outcome;

    *ret = false;
    page_init(&page);
    do {
        outcome = read_page(ledger, &request, call, &page);
        if (outcome == TW_OK)
            *ret = page_has_run(&page, job_name, run);
        request.from = page.next;
    } while (outcome == TW_OK && !*ret && request.from.more);
    page_done(&page);
    mem_free(job_name);
    mem_free(run);
    return outcome == TW_NOT_FOUND ? TW_OK : outcome;
}
