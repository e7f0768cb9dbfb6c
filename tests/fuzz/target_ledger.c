/* SPDX-License-Identifier: MIT */
/* The entities of the ledger, and the checkpoints in them. */
#include <inttypes.h>

#include "jobs/cascade/checkpoint.h"
#include "tests/fuzz/fuzz.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/ledger.h"
#include "worker/transfer/import_ledger.h"

/* ---- entities ---- */

static struct slice json_of(
    const struct ledger_run *run, struct arena *arena, bool as_status)
{
    struct buf *json = fuzz_buf();
    struct entity entity;

    ledger_entity(run, arena, &entity);
    if (as_status)
        ledger_add_json(run, json);
    else
        entity_write(&entity, json);
    FUZZ_CHECK(!json->overflow);
    return arena_copy(arena, buf_slice(json));
}

static bool parse(struct slice text, struct arena *arena,
    struct ledger_run *ret, struct err *err)
{
    struct entity entity;

    ledger_run_init(ret);
    return entity_parse(text, true, arena, &entity, NULL, err) == TW_OK &&
           ledger_parse(&entity, ret, err) == TW_OK;
}

static void check_fields(const struct ledger_run *a, const struct ledger_run *b)
{
    FUZZ_CHECK(a->state == b->state && a->attempt == b->attempt &&
               a->failures == b->failures && a->rounds == b->rounds &&
               a->epoch == b->epoch && a->silent == b->silent);
    FUZZ_CHECK(a->read == b->read && a->written == b->written &&
               a->deleted == b->deleted && a->skipped == b->skipped &&
               a->failed == b->failed && a->transactions == b->transactions);
    FUZZ_CHECK(a->requested_ticks == b->requested_ticks &&
               a->started_ticks == b->started_ticks &&
               a->updated_ticks == b->updated_ticks &&
               a->lease_until_ticks == b->lease_until_ticks &&
               a->resumes_ticks == b->resumes_ticks &&
               a->finished_ticks == b->finished_ticks);
    FUZZ_SAME(a->args, b->args);
    FUZZ_SAME(a->queue, b->queue);
    FUZZ_SAME(a->owner, b->owner);
    FUZZ_SAME(a->phase, b->phase);
    FUZZ_SAME(a->checkpoint, b->checkpoint);
    FUZZ_SAME(a->definition, b->definition);
    FUZZ_SAME(a->error, b->error);
    FUZZ_SAME(a->failed_entities, b->failed_entities);
    FUZZ_SAME(a->traceparent, b->traceparent);
    FUZZ_SAME(a->poison_id, b->poison_id);
    FUZZ_SAME(a->poison_receipt, b->poison_receipt);
    FUZZ_SAME(a->ending, b->ending);
}

/* Stores a run, reads it and stores it again: it must be the same entity.
 * `status --json` must write JSON. */
static void check_run(struct ledger_run *run, struct arena *arena)
{
    struct slice first = json_of(run, arena, false);
    struct ledger_run again, copy;
    struct err err = {{0}};
    struct json *json;

    if (!parse(first, arena, &again, &err))
        fuzz_fail(__FILE__, __LINE__, err.text, first);
    FUZZ_SAME(json_of(&again, arena, false), first);
    check_fields(run, &again);
    FUZZ_CHECK(json_parse(json_of(run, arena, true), 1, &json, &err) == TW_OK);
    json_free(json);
    ledger_run_init(&copy);
    ledger_copy(&copy, run);
    ledger_compact(&copy);
    FUZZ_SAME(json_of(&copy, arena, false), first);
    ledger_run_done(&copy);
    ledger_run_done(&again);
}

static void try_entity(struct slice text, struct arena *arena)
{
    struct ledger_run run;
    struct err err = {{0}};

    if (parse(text, arena, &run, &err))
        check_run(&run, arena);
    else
        fuzz_said(&err);
    ledger_run_done(&run);
}

static struct slice run_text(struct fuzz_source *in, struct ledger_run *run)
{
    return ledger_text(run, fuzz_text(in, 30));
}

static int64_t maybe_ticks(struct fuzz_source *in)
{
    return fuzz_yes(in) ? fuzz_ticks(in) : 0;
}

/* Returns a count up to the maximum that a run can reach. The ledger limits a
 * higher stored count to this maximum when it reads it. */
static int64_t some_count(struct fuzz_source *in)
{
    return fuzz_int64(in) & (INT64_MAX / 4);
}

static void run_is_read_back(struct fuzz_source *in)
{
    struct ledger_run run;

    ledger_run_init(&run);
    run.job = ledger_text(&run, fuzz_word(in, 1, 20));
    run.id = ledger_text(&run, fuzz_word(in, 1, 20));
    run.state = (enum ledger_state)fuzz_below(in, LEDGER_CANCELLED + 1);
    run.kind = run_text(in, &run);
    run.args = run_text(in, &run);
    run.queue = run_text(in, &run);
    run.owner = run_text(in, &run);
    run.checkpoint = run_text(in, &run);
    run.error = run_text(in, &run);
    run.failed_entities = run_text(in, &run);
    run.traceparent = run_text(in, &run);
    run.poison_receipt = run_text(in, &run);
    run.attempt = (int32_t)fuzz_int64(in);
    run.epoch = (int32_t)fuzz_int64(in);
    run.failures = (int32_t)fuzz_below(in, 100);
    run.rounds = (int32_t)fuzz_below(in, 100);
    run.silent = (int32_t)fuzz_below(in, 100);
    run.phase = run_text(in, &run);
    run.definition = run_text(in, &run);
    run.poison_id = run_text(in, &run);
    run.ending = run_text(in, &run);
    run.written = some_count(in);
    run.deleted = some_count(in);
    run.skipped = some_count(in);
    run.failed = some_count(in);
    run.started_ticks = maybe_ticks(in);
    run.updated_ticks = maybe_ticks(in);
    run.finished_ticks = maybe_ticks(in);
    run.read = some_count(in);
    run.transactions = some_count(in);
    run.requested_ticks = maybe_ticks(in);
    run.lease_until_ticks = maybe_ticks(in);
    run.resumes_ticks = maybe_ticks(in);
    check_run(&run, in->arena);
    ledger_run_done(&run);
}

/* ---- checkpoints ---- */

static bool same_key(const struct walk_key *a, const struct walk_key *b)
{
    return a->is_set == b->is_set &&
           (!a->is_set ||
               (a->partition_key_len == b->partition_key_len &&
                   a->row_key_len == b->row_key_len &&
                   memcmp(a->partition_key, b->partition_key,
                       a->partition_key_len) == 0 &&
                   memcmp(a->row_key, b->row_key, a->row_key_len) == 0));
}

static bool same_path(const struct walk_path *a, const struct walk_path *b)
{
    if (a->depth != b->depth)
        return false;
    for (size_t i = 0; i < a->depth; i++)
        if (a->levels[i].rule != b->levels[i].rule ||
            a->levels[i].found != b->levels[i].found ||
            !same_key(&a->levels[i].done, &b->levels[i].done) ||
            !same_key(&a->levels[i].inside, &b->levels[i].inside))
            return false;
    return true;
}

/* Returns whether a settle time can be added without an overflow. */
static bool good_ticks(int64_t ticks)
{
    return ticks >= 0 && ticks <= TICKS_MAX - 7 * 86400 * TICKS_PER_S;
}

static int64_t early_ticks(struct fuzz_source *in)
{
    int64_t ticks = fuzz_yes(in) ? fuzz_ticks(in) : 0;

    return ticks > TICKS_1970 ? ticks / 4 + TICKS_1970 / 4 * 3 : ticks;
}

/* Writes a checkpoint and reads it back. It must be the same; only its path may
 * be missing, if the path does not fit. */
static void check_checkpoint(
    const struct cascade_checkpoint *checkpoint, const struct walk_path *path)
{
    char *text = cascade_checkpoint_write(checkpoint, path);
    static struct walk_path other, *const again = &other;
    struct cascade_checkpoint read;

    FUZZ_CHECK(strlen(text) <= CASCADE_CHECKPOINT_MAX_BYTES);
    cascade_checkpoint_read(slice_of(text), &read, again);
    FUZZ_CHECK(read.tombstone_ticks == checkpoint->tombstone_ticks &&
               read.began_ticks == checkpoint->began_ticks &&
               read.not_before_ticks == checkpoint->not_before_ticks);
    FUZZ_CHECK(same_path(again, path) || again->depth == 0);
    if (strstr(text, "\"path\""))
        FUZZ_CHECK(same_path(again, path));
    mem_free(text);
}

static void try_checkpoint(struct slice text)
{
    static struct walk_path place, *const path = &place;
    struct cascade_checkpoint read;

    cascade_checkpoint_read(text, &read, path);
    FUZZ_CHECK(good_ticks(read.tombstone_ticks) &&
               good_ticks(read.began_ticks) &&
               good_ticks(read.not_before_ticks));
    FUZZ_CHECK(path->depth <= CASCADE_MAX_DEPTH);
    check_checkpoint(&read, path);
}

/* Repeats text in `to` as often as a key has room for it. Returns the length. A
 * path with such keys may not fit into a checkpoint. */
static size_t repeat(struct slice text, char *to)
{
    size_t len = 0;

    if (text.len == 0)
        text = slice_of("key");
    while (len + text.len <= ENTITY_MAX_KEY_BYTES) {
        memcpy(to + len, text.at, text.len);
        len += text.len;
    }
    return len;
}

static void make_key(struct fuzz_source *in, struct walk_key *key)
{
    struct slice partition_key = fuzz_text(in, 20), row_key = fuzz_text(in, 20);

    *key = (struct walk_key){.is_set = fuzz_yes(in)};
    if (!key->is_set)
        return;
    key->row_key_len = row_key.len;
    memcpy(key->row_key, arena_copy(in->arena, row_key).at, row_key.len);
    if (fuzz_yes(in)) {
        key->partition_key_len = repeat(partition_key, key->partition_key);
        return;
    }
    key->partition_key_len = partition_key.len;
    memcpy(key->partition_key, arena_copy(in->arena, partition_key).at,
        partition_key.len);
}

static void checkpoint_is_read_back(struct fuzz_source *in)
{
    static struct walk_path place, *const path = &place;
    struct cascade_checkpoint checkpoint = {.tombstone_ticks = early_ticks(in),
        .began_ticks = early_ticks(in),
        .not_before_ticks = early_ticks(in)};

    path->depth = (size_t)fuzz_below(in, CASCADE_MAX_DEPTH + 1);
    for (size_t i = 0; i < path->depth; i++) {
        path->levels[i].rule = (size_t)fuzz_below(in, 5);
        path->levels[i].found = fuzz_yes(in);
        make_key(in, &path->levels[i].done);
        make_key(in, &path->levels[i].inside);
    }
    check_checkpoint(&checkpoint, path);
}

static void try_import(struct slice text, struct fuzz_source *in)
{
    const struct import_position wanted = {
        .line = fuzz_below(in, INT64_MAX),
        .digest = (int64_t)fuzz_below(in, INT64_MAX),
        .rejected_bytes = (int64_t)fuzz_below(in, INT64_MAX),
        .rejects_path = (int64_t)fuzz_below(in, INT64_MAX),
        .rejects_size = (int64_t)fuzz_below(in, INT64_MAX),
        .rejects_digest = (int64_t)fuzz_below(in, INT64_MAX),
    };
    struct import_position position = import_ledger_position(text);

    FUZZ_CHECK(position.rejected_bytes >= 0);
    position = import_ledger_position(arena_format(in->arena,
        "{\"line\":%" PRIu64 ",\"digest\":%" PRId64
        ",\"rejected_bytes\":%" PRId64 ",\"rejects_path\":%" PRId64
        ",\"rejects_size\":%" PRId64 ",\"rejects_digest\":%" PRId64 "}",
        wanted.line, wanted.digest, wanted.rejected_bytes, wanted.rejects_path,
        wanted.rejects_size, wanted.rejects_digest));
    FUZZ_CHECK(position.line == wanted.line &&
               position.digest == wanted.digest &&
               position.rejected_bytes == wanted.rejected_bytes &&
               position.rejects_path == wanted.rejects_path &&
               position.rejects_size == wanted.rejects_size &&
               position.rejects_digest == wanted.rejects_digest);
}

FUZZ_TARGET(ledger)
{
    try_entity(text, in->arena);
    try_checkpoint(text);
    try_import(text, in);
    fuzz_again(in);
    run_is_read_back(in);
    fuzz_again(in);
    checkpoint_is_read_back(in);
}
