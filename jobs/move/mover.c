/* SPDX-License-Identifier: MIT */
/* What an attempt remembers, reports and saves in its checkpoint. */
#include "jobs/move/mover.h"

#include <strings.h>

#include "jobs/engine/digest.h"
#include "jobs/engine/keys.h"
#include "jobs/job.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/store/store.h"

#define PHASE "move"

void mover_set_ends(struct mover *m)
{
    const struct table_ref *table_refs[] = {
        &m->rules->from, &m->rules->to.table_ref};

    for (int side = PAIR_SOURCE; side <= PAIR_COPY; side++) {
        struct store *store = m->stores->stores[table_refs[side]->store];

        m->ends.stores[side] = store;
        m->ends.tables[side] = table_refs[side]->table;
        m->locations[side] =
            location_of(store, slice_of(table_refs[side]->table), &m->arena);
    }
}

/* ---- sources that were reported ---- */

static struct digest digest_keys(const struct keys *keys, struct slice etag)
{
    const struct entity entity = {
        .partition_key = keys->partition_key, .row_key = keys->row_key};
    struct digest digest = entity_digest(&entity, slice_of(""));

    if (etag.len > 0) {
        struct digest more = digest_of(etag);

        digest_add(&digest, more);
    }
    return digest;
}

/* Returns the slot of digest, or the free slot for digest. */
static struct digest *find_known(const struct mover *m, struct digest digest)
{
    size_t at = digest.low % (2 * KNOWN_MAX);

    while (
        (m->known[at].low != digest.low || m->known[at].high != digest.high) &&
        (m->known[at].low != 0 || m->known[at].high != 0))
        at = (at + 1) % (2 * KNOWN_MAX);
    return &m->known[at];
}

void mover_know(struct mover *m, const struct keys *keys, struct slice etag)
{
    struct digest digest = digest_keys(keys, etag);
    struct digest *known = find_known(m, digest);

    if (m->known_count == KNOWN_MAX || known->low == digest.low)
        return;
    *known = digest;
    m->known_count++;
}

bool mover_knows(
    const struct mover *m, const struct keys *keys, struct slice etag)
{
    struct digest digest;

    if (m->known_count == 0)
        return false;
    digest = digest_keys(keys, etag);
    return find_known(m, digest)->low == digest.low;
}

/* ---- destination keys that were filled ---- */

void mover_fill(struct mover *m, const struct keys *keys)
{
    struct digest digest = digest_keys(keys, slice_of(""));

    m->filled[digest.low % FILLED_SLOTS] = (uint32_t)digest.high;
}

bool mover_has_filled(const struct mover *m, const struct keys *keys)
{
    struct digest digest = digest_keys(keys, slice_of(""));

    return m->filled[digest.low % FILLED_SLOTS] == (uint32_t)digest.high;
}

/* ---- the checkpoint ---- */

/* {"version":1,"named":0,"late":false,"rounds":{...},"done":["pk","rk"]}
 * late: when this attempt ended, a request of this or of an earlier attempt
 * could still arrive. */
#define CHECKPOINT_VERSION 1
#define CHECKPOINT_MAX_BYTES (30 * 1024)
#define CHECKPOINT_DEPTH 4

static char *write_checkpoint(const struct mover *m)
{
    struct buf text;

    buf_init(&text, CHECKPOINT_MAX_BYTES);
    buf_add_format(&text,
        "{\"version\":%d,\"named\":%lld,\"late\":%s,\"rounds\":",
        CHECKPOINT_VERSION, (long long)m->named,
        m->late.any || m->may_be_late ? "true" : "false");
    rounds_write(&m->rounds, &text);
    if (m->resumes) {
        buf_add_text(&text, ",\"done\":");
        keys_write(&text, m->done.partition_key, m->done.row_key);
    }
    buf_add_char(&text, '}');
    return buf_take(&text);
}

void mover_forget_position(struct mover *m)
{
    mem_free_slice(&m->done.partition_key);
    mem_free_slice(&m->done.row_key);
    m->resumes = false;
}

static void set_position(struct mover *m, const struct keys *done)
{
    mover_forget_position(m);
    if (!m->ends.stores[PAIR_SOURCE]->capabilities.ordered)
        return; /* a scan of an unordered store starts over */
    m->done =
        (struct keys){mem_slice(done->partition_key), mem_slice(done->row_key)};
    m->resumes = true;
}

void mover_save(struct mover *m, const struct keys *done)
{
    char *text;

    if (done)
        set_position(m, done);
    text = write_checkpoint(m);
    m->run->callbacks->save(m->run, slice_of(text), done != NULL);
    mem_free(text);
}

void mover_forget(struct mover *m)
{
    mover_forget_position(m);
    m->named = m->named_stored = 0;
    m->rounds = (struct rounds){.number = 0};
    mover_save(m, NULL);
}

static bool read_parts(struct mover *m, const struct json *json)
{
    const struct json *version, *named, *late;
    struct keys done;
    int64_t number;

    if (json_type(json) != JSON_OBJECT)
        return false;
    version = json_get(json, "version");
    named = json_get(json, "named");
    if (!version || !json_int64(version, &number) ||
        number != CHECKPOINT_VERSION || !named ||
        !json_int64(named, &m->named) ||
        !rounds_read(&m->rounds, json_get(json, "rounds")))
        return false;
    m->named_stored = m->named;
    late = json_get(json, "late");
    m->may_be_late =
        late && json_type(late) == JSON_BOOLEAN && json_boolean(late);
    if (m->rounds.under_way &&
        keys_read(json_get(json, "done"), &done.partition_key, &done.row_key))
        set_position(m, &done);
    return m->named > 0 || m->rounds.number > 0;
}

bool mover_read_checkpoint(struct mover *m)
{
    struct json *json;
    bool good;

    if (m->run->checkpoint.len == 0 ||
        json_parse(m->run->checkpoint, CHECKPOINT_DEPTH, &json, NULL) != TW_OK)
        return false;
    good = read_parts(m, json);
    json_free(json);
    return good;
}

/* ---- reports ---- */

void mover_name(struct mover *m, const struct ends *ends, struct pair *pair)
{
    const struct keys *source = &pair->keys[PAIR_SOURCE];
    const struct keys *copy = &pair->keys[PAIR_COPY];
    struct buf why;

    buf_init(&why, 8192);
    buf_add_format(&why, "%s; its destination is ", pair->why);
    entity_add_keys(&why, copy->partition_key, copy->row_key);
    buf_add_format(&why, " in %s", ends->tables[PAIR_COPY]);
    m->run->callbacks->failed(
        m->run, &(struct run_failure){.table = ends->tables[PAIR_SOURCE],
                    .partition_key = source->partition_key,
                    .row_key = source->row_key,
                    .step = "move",
                    .why = buf_text(&why)});
    buf_done(&why);
    if (ends->stores[PAIR_SOURCE] == m->ends.stores[PAIR_SOURCE] &&
        strcasecmp(ends->tables[PAIR_SOURCE], m->ends.tables[PAIR_SOURCE]) == 0)
        mover_know(m, source, slice_of(""));
    pair->named = true;
    m->named++;
}

enum tw_err mover_name_all(struct mover *m, const struct ends *ends,
    struct load *load, struct err *err)
{
    enum tw_err outcome = TW_OK;
    char *text;

    for (size_t i = 0; i < load->count; i++)
        if (load->pairs[i].why && !load->pairs[i].named)
            mover_name(m, ends, &load->pairs[i]);
    if (m->named == m->named_stored)
        return TW_OK;
    text = write_checkpoint(m);
    outcome = m->run->callbacks->phase(m->run, PHASE, slice_of(text), err);
    mem_free(text);
    if (outcome == TW_OK)
        m->named_stored = m->named;
    return outcome;
}
