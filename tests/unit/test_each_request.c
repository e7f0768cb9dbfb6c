/* SPDX-License-Identifier: MIT */
/*
 * Goal: if any request of a run is refused, gets no response or is the last one
 * of a killed worker, the next attempt ends the run as one undisturbed run
 * would; and a dry run or a verification reports a request that is refused.
 *
 * A scene is a few tables and a job. It is played undisturbed once; then once
 * for each of its requests and each act that can happen to that request, and
 * once for each call of stopping() and of phase().
 */
#include "tests/support/hosted.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/interpose.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"

#define ATTEMPTS_MAX 30
#define TABLES_MAX 6

struct scene {
    const char *jobs, *job, *kind_arg;
    void (*fill)(void);
    const char *tables[TABLES_MAX]; /* tables to compare; NULL at the end */
    enum run_finish finish;
    bool accept_deletes;
};

enum act {
    NOTHING,
    REFUSE,       /* the request is not carried out: a right is missing */
    LOSE_REQUEST, /* a write is not carried out and gets no response */
    LOSE_ANSWER,  /* a write is carried out and gets no response */
    DIE_BEFORE,   /* the worker is killed before the request is sent */
    DIE_AFTER,    /* the worker is killed after the request is carried out */
    STOP,         /* the n-th call of stopping() returns true */
    NO_PHASE,     /* the n-th phase is not stored */
    ACTS,
};

static const char *const ACT_NAMES[ACTS] = {"nothing", "refused",
    "request lost", "answer lost", "killed before", "killed after", "stopped",
    "phase refused"};

static struct hosted h;
static struct interposed outer;
static struct store *inner;
static bool quiet; /* the requests of the test itself are neither counted nor
                      disturbed */
static enum act act;
static unsigned at, seen, phases;
static bool met;

/* ---- the store ---- */

static enum tw_err unknown(struct exchange *exchange)
{
    exchange->sent_ms = platform_boot_ms();
    return err_fail(&exchange->err, TW_UNKNOWN, "as the test wants");
}

static enum tw_err meet_it(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    enum tw_err outcome;

    met = true;
    if (act == REFUSE)
        return err_fail(&exchange->err, TW_REFUSED, "as the test wants");
    if (act == LOSE_REQUEST)
        return unknown(exchange);
    if (act == DIE_BEFORE && h.deadline)
        deadline_close(h.deadline);
    outcome = request_send(self->inner, exchange, request);
    if (act == DIE_AFTER && h.deadline)
        deadline_close(h.deadline);
    return act == LOSE_ANSWER || act == DIE_AFTER ? unknown(exchange) : outcome;
}

static enum tw_err meet(struct interposed *self, struct exchange *exchange,
    const struct store_request *request)
{
    bool write = call_in(CALL_WRITES, request->call);

    if (quiet)
        return request_send(self->inner, exchange, request);
    if (seen++ == at && act != STOP && act != NO_PHASE && act != NOTHING &&
        (write || (act != LOSE_REQUEST && act != LOSE_ANSWER)))
        return meet_it(self, exchange, request);
    return request_send(self->inner, exchange, request);
}

static enum tw_err refuse_phase(struct hosted *callbacks, bool *ret_stored)
{
    bool refused = act == NO_PHASE && phases == at;

    phases++;
    met |= refused;
    *ret_stored = !refused;
    return refused ? TW_BUSY : TW_OK;
}

/* ---- a scene ---- */

static void put(const char *table, const char *partition_key,
    const char *row_key, const char *properties)
{
    hosted_put(&h, table, partition_key, row_key, properties);
}

static void begin(const struct scene *scene, enum act what, unsigned which)
{
    virtual_platform_use(&(struct virtual_options){.seed = 1,
        .boot_ms = 5000,
        .wall_ticks = TICKS_1970 + INT64_C(1000000) * TICKS_PER_S});
    hosted_begin(&h, scene->jobs, "TablewardRuns");
    scene->fill();
    h.kind_arg = scene->kind_arg;
    h.finish = scene->finish;
    h.accept_deletes = scene->accept_deletes;
    h.phasing = refuse_phase;
    inner = h.store;
    interposed_init(&outer, "main", inner, meet);
    outer.store.capabilities = inner->capabilities;
    outer.store.capabilities.late_writes = true;
    h.store = &outer.store;
    virtual_sleep(60000);
    act = what;
    at = which;
    seen = phases = 0;
    met = false;
}

static void finish(void)
{
    hosted_done(&h);
    virtual_platform_end();
}

static void dump_entity(
    struct buf *to, const char *table, const struct entity *entity)
{
    buf_add_format(to, "%s %.*s/%.*s", table, SLICE_ARG(entity->partition_key),
        SLICE_ARG(entity->row_key));
    for (size_t i = 0; i < entity->property_count; i++) {
        const struct property *property = &entity->properties[i];
        struct slice text;

        /* Properties of tableward have ETags and times, which differ from play
         * to play. */
        if ((property->name.len >= 9 &&
                memcmp(property->name.at, "Tableward", 9) == 0) ||
            slice_is(property->name, "AppliedAt"))
            continue;
        if (!property_text(property, &h.arena, &text))
            text = slice_of("?");
        buf_add_format(
            to, " %.*s=%.*s", SLICE_ARG(property->name), SLICE_ARG(text));
    }
    buf_add_char(to, '\n');
}

/* All entities of the scene's tables as text. Owned. */
static char *dump(const struct scene *scene)
{
    struct buf text;

    buf_init(&text, 1024 * 1024);
    quiet = true;
    for (int i = 0; i < TABLES_MAX && scene->tables[i]; i++) {
        struct scan_request request = {.table = scene->tables[i]};
        struct exchange exchange = {.deadline = NULL};
        struct page page;

        page_init(&page);
        do {
            if (store_scan(inner, &exchange, &request, &page) != TW_OK)
                break;
            for (size_t j = 0; j < page.count; j++)
                dump_entity(&text, scene->tables[i], &page.entities[j]);
            request.from = page.next;
        } while (page.next.more);
        page_done(&page);
    }
    quiet = false;
    return buf_take(&text);
}

static bool is_over(enum run_end end)
{
    return end == RUN_SUCCEEDED || end == RUN_FAILED;
}

/* Check how the attempt ended, after the act has happened in it. */
static void check_end(enum run_end end)
{
    const bool died = act == DIE_BEFORE || act == DIE_AFTER;

    if (act == REFUSE && end != RUN_OUTAGE)
        fail_msg("request %u refused: %d %s", at, (int)end, h.err.text);
    if (died && end != RUN_LEASE_LOST && !is_over(end))
        fail_msg("killed at request %u: %d %s", at, (int)end, h.err.text);
    if (act == STOP && end != RUN_STOPPED)
        fail_msg("stopped at %u: %d %s", at, (int)end, h.err.text);
    if (act == NO_PHASE && end != RUN_OUTAGE)
        fail_msg("no phase %u: %d %s", at, (int)end, h.err.text);
    if (!is_over(end) && end != RUN_WAITING && h.err.text[0] == '\0')
        fail_msg("%s at %u: it does not say why", ACT_NAMES[act], at);
}

/* Play the scene to the end of the run. Returns the number of requests, of
 * calls of stopping() or of phases. */
static unsigned play(const struct scene *scene)
{
    enum run_end end = RUN_STOPPED;
    bool checked = false;
    unsigned asked = 0;

    for (int i = 0; i < ATTEMPTS_MAX && !is_over(end); i++) {
        h.stop_after = act == STOP && !met ? (int64_t)at - asked : -1;
        end = hosted_attempt(&h, scene->job, "x");
        if (act == STOP && !met && h.stop_after >= 0 &&
            h.stopping_calls > h.stop_after)
            met = true;
        asked += (unsigned)h.stopping_calls;
        if (met && !checked)
            check_end(end);
        h.previous_owner_crashed =
            met && !checked && (act == DIE_BEFORE || act == DIE_AFTER);
        checked |= met;
        if (end == RUN_WAITING)
            while (platform_wall_ticks() < h.resumes_ticks)
                virtual_sleep(500);
        else
            virtual_sleep(40000);
    }
    if (end != RUN_SUCCEEDED)
        fail_msg("%s at %u: %d %s; %s", ACT_NAMES[act], at, (int)end,
            h.err.text, h.failed_why);
    return act == STOP ? asked : act == NO_PHASE ? phases : seen;
}

static void check_verified(const struct scene *scene)
{
    const struct job *job = jobs_find(&h.jobs, slice_of(scene->job));
    struct job_verification found;

    if (!job->kind->verify)
        return;
    quiet = true;
    if (hosted_verify(&h, scene->job, "x", &found) != TW_OK)
        fail_msg("%s", h.err.text);
    for (size_t i = 0; i < found.count; i++)
        if (found.differences[i].count > 0)
            fail_msg("%s at %u: %lld %s (%s)", ACT_NAMES[act], at,
                (long long)found.differences[i].count,
                found.differences[i].what, found.differences[i].first_keys[0]);
    arena_done(&found.arena);
    quiet = false;
}

/* Whatever act happens to whatever request, the tables are the same in the
 * end. */
static void play_all(const struct scene *scene, enum act what)
{
    unsigned count;
    char *wanted;

    begin(scene, what, UINT32_MAX);
    count = play(scene);
    wanted = dump(scene);
    check_verified(scene);
    finish();
    for (unsigned i = 0; i < count; i++) {
        char *is;

        begin(scene, what, i);
        (void)play(scene);
        is = dump(scene);
        if (strcmp(is, wanted) != 0)
            fail_msg("%s at %u:\n%sbut undisturbed:\n%s", ACT_NAMES[what], i,
                is, wanted);
        mem_free(is);
        if (met)
            check_verified(scene);
        finish();
    }
    mem_free(wanted);
}

/* ---- damaged checkpoints ---- */

/* Replace the n-th value of a JSON text by a value of another type. False:
 * there is no n-th value. */
static bool damage(char **text, unsigned n)
{
    const char *value = *text, *end;
    unsigned values = 0;
    char *damaged;

    for (bool quoted = false;; value++) {
        if (*value == '\0')
            return false;
        if (*value == '\\' && value[1])
            value++;
        else if (*value == '"')
            quoted = !quoted;
        else if (*value == ':' && !quoted && values++ == n)
            break;
    }
    end = ++value;
    for (int depth = 0; *end && (depth > 0 || !strchr(",}", *end)); end++)
        depth += (*end == '[' || *end == '{') - (*end == ']' || *end == '}');
    damaged = mem_format("%.*s%s%s", (int)(value - *text), *text,
        *value == '"' ? "7" : "\"x\"", end);
    mem_free(*text);
    *text = damaged;
    return true;
}

/* Stop the run at the n-th call of stopping(). False: there are fewer calls. */
static bool stop_at(const struct scene *scene, unsigned n)
{
    h.stop_after = n;
    if (hosted_attempt(&h, scene->job, "x") != RUN_STOPPED)
        return false;
    virtual_sleep(40000);
    return true;
}

/* Whatever damage the ledger's Checkpoint has, the tables are the same in the
 * end. */
static void damage_each(const struct scene *scene)
{
    char *wanted;
    bool more = true;

    begin(scene, NOTHING, UINT32_MAX);
    (void)play(scene);
    wanted = dump(scene);
    finish();
    for (unsigned i = 0; more; i++)
        for (unsigned n = 0;; n++) {
            char *is;
            bool damaged;

            begin(scene, NOTHING, UINT32_MAX);
            at = n;
            more = stop_at(scene, i);
            damaged = more && h.checkpoint && damage(&h.checkpoint, n);
            if (damaged) {
                (void)play(scene);
                is = dump(scene);
                if (strcmp(is, wanted) != 0)
                    fail_msg("value %u at %u:\n%sbut undisturbed:\n%s", n, i,
                        is, wanted);
                mem_free(is);
            }
            finish();
            if (!damaged)
                break;
        }
    mem_free(wanted);
}

/* ---- reading ---- */

static enum tw_err estimate(const struct scene *scene)
{
    struct job_estimate found = {.table_count = 0};
    enum tw_err outcome = hosted_estimate(&h, scene->job, "x", &found);

    arena_done(&found.arena);
    return outcome;
}

static enum tw_err verify(const struct scene *scene)
{
    struct job_verification found = {.count = 0};
    enum tw_err outcome = hosted_verify(&h, scene->job, "x", &found);

    arena_done(&found.arena);
    return outcome;
}

/* Refuse each request in turn: the dry run or verification ends with that
 * outcome, and writes nothing. */
static void refuse_each(
    const struct scene *scene, enum tw_err (*read)(const struct scene *scene))
{
    char *before, *after;
    unsigned count;

    begin(scene, NOTHING, UINT32_MAX);
    assert_ok(read(scene));
    count = seen;
    finish();
    for (unsigned i = 0; i < count; i++) {
        begin(scene, REFUSE, i);
        before = dump(scene);
        h.err.text[0] = '\0';
        assert_int_equal(read(scene), TW_REFUSED);
        if (!strstr(h.err.text, "as the test wants"))
            fail_msg("request %u: '%s'", i, h.err.text);
        after = dump(scene);
        assert_string_equal(after, before);
        mem_free(before);
        mem_free(after);
        finish();
    }
}

/* ---- scenes ---- */

static void fill_move(void)
{
    hosted_table(&h, "Blogs");
    put("Blogs", "a", "1", "\"N\":1");
    put("Blogs", "a", "2", "\"N\":2");
    put("Blogs", "b", "1", "\"N\":3");
}

static const struct scene MOVE = {
    .jobs = "m: {kind: move, from: {table: Blogs}, to: {table: OldBlogs, "
            "row_key: \"{RowKey}-{N}\"}}\n",
    .job = "m",
    .fill = fill_move,
    .tables = {"Blogs", "OldBlogs", "TablewardRuns"},
};

static void fill_copy(void)
{
    hosted_table(&h, "Blogs");
    put("Blogs", "a", "1", "\"N\":1");
    put("Blogs", "a", "2", "\"N\":2");
    put("Blogs", "b", "1", "\"N\":3");
}

static const struct scene COPY = {
    .jobs = "c: {kind: copy, from: {table: Blogs}, to: [{table: Copies, "
            "row_key: \"{RowKey}-{N}\"}, {table: Blogs, row_key: "
            "\"i:{N}\", properties: [N]}]}\n",
    .job = "c",
    .fill = fill_copy,
    .tables = {"Blogs", "Copies", "TablewardRuns"},
};

/* A following copy that is ended by `finish`. */
static const struct scene COPY_FINISHED = {
    .jobs = "c: {kind: copy, follow: true, from: {table: Blogs}, to: {table: "
            "Copies}}\n",
    .job = "c",
    .fill = fill_copy,
    .tables = {"Blogs", "Copies", "TablewardRuns"},
    .finish = RUN_FINISHING,
};

/* Copies that an earlier run left: one without a source, one whose source has
 * another key now, and one that is stale. */
static void fill_stale_copies(void)
{
    fill_copy();
    put("Blogs", "b", "2", "\"N\":4");
    h.epoch = 0;
    assert_int_equal(hosted_attempt(&h, "c", "x"), RUN_SUCCEEDED);
    hosted_forget(&h, "r2");
    hosted_remove(&h, "Blogs", "a", "1");
    hosted_replace(&h, "Blogs", "a", "2", "\"N\":7");
    hosted_replace(&h, "Blogs", "b", "1", "\"N\":3,\"T\":\"new\"");
}

static const struct scene COPY_AGAIN = {
    .jobs = "c: {kind: copy, from: {table: Blogs}, to: {table: Copies, "
            "row_key: \"{RowKey}-{N}\"}}\n",
    .job = "c",
    .fill = fill_stale_copies,
    .tables = {"Blogs", "Copies", "TablewardRuns"},
};

static void fill_upgrade(void)
{
    hosted_table(&h, "Blogs");
    put("Blogs", "a", "1", "\"Text\":\"x\",\"R\":1");
    put("Blogs", "a", "2", "\"Text\":\"y\",\"R\":2,\"V\":1");
    put("Blogs", "b", "1", "\"Body\":\"z\",\"R\":\"3\",\"V\":2");
}

#define UPGRADE_JOBS                                                           \
    "u:\n"                                                                     \
    "  kind: schema-upgrade\n"                                                 \
    "  table: Blogs\n"                                                         \
    "  version: {property: V, absent: 1}\n"                                    \
    "  versions:\n"                                                            \
    "  - to: 2\n"                                                              \
    "    steps: [rename: {property: Text, to: Body}, retype: {property: R, "   \
    "to: Edm.String}]\n"                                                       \
    "  - to: 3\n"                                                              \
    "    steps: [rename: {property: Body, to: Content}]\n"

static const struct scene UPGRADE = {
    .jobs = UPGRADE_JOBS,
    .job = "u",
    .fill = fill_upgrade,
    .tables = {"Blogs", "TablewardRuns"},
};

static const struct scene EXPAND = {
    .jobs = UPGRADE_JOBS,
    .job = "u",
    .kind_arg = "expand",
    .fill = fill_upgrade,
    .tables = {"Blogs", "TablewardRuns"},
};

static void fill_expanded(void)
{
    fill_upgrade();
    h.kind_arg = "expand";
    assert_int_equal(hosted_attempt(&h, "u", "x"), RUN_SUCCEEDED);
    hosted_forget(&h, "r2");
}

static const struct scene CONTRACT = {
    .jobs = UPGRADE_JOBS,
    .job = "u",
    .kind_arg = "contract",
    .fill = fill_expanded,
    .tables = {"Blogs", "TablewardRuns"},
};

static void fill_cascade(void)
{
    hosted_table(&h, "Channels");
    hosted_table(&h, "Blogs");
    hosted_table(&h, "Comments");
    hosted_table(&h, "Months");
    put("Channels", "x", "", "\"Name\":\"x\"");
    put("Channels", "y", "", "\"Name\":\"y\"");
    put("Blogs", "x", "1", NULL);
    put("Blogs", "x", "2", NULL);
    put("Blogs", "y", "1", NULL);
    put("Comments", "x", "1_a", "\"Blog\":\"1\"");
    put("Comments", "x", "2_a", "\"Blog\":\"2\"");
    put("Comments", "y", "1_a", "\"Blog\":\"1\"");
    put("Months", "x_1", "1", "\"Channel\":\"x\"");
    put("Months", "y_1", "1", "\"Channel\":\"y\"");
}

#define CASCADE_HEAD                                                           \
    "d:\n"                                                                     \
    "  kind: cascade-delete\n"                                                 \
    "  args: [channel]\n"                                                      \
    "  parent:\n"                                                              \
    "    table: Channels\n"                                                    \
    "    partition_key: \"{channel}\"\n"                                       \
    "    row_key: \"\"\n"                                                      \
    "    tombstone: {Deleted: true}\n"                                         \
    "  children:\n"                                                            \
    "  - table: Blogs\n"                                                       \
    "    partition_key: \"{channel}\"\n"                                       \
    "    children:\n"                                                          \
    "    - {table: Comments, partition_key: \"{PartitionKey}\", "              \
    "row_key_prefix: \"{RowKey}_\"}\n"                                         \
    "  - {table: Months, partition_key_prefix: \"{channel}_\", filter: "       \
    "\"Channel eq '{channel}'\"}\n"                                            \
    "  - {table: Nowhere, partition_key: \"{channel}\", optional: true}\n"

/* A parent with a tombstone that was not removed, and children without a
 * parent. */
static void fill_left(void)
{
    fill_cascade();
    hosted_replace(
        &h, "Channels", "y", "", "\"Deleted\":true,\"TablewardRun\":\"d/r9\"");
    put("TablewardRuns", "d", "r9", "\"State\":\"failed\"");
    put("Blogs", "z", "1", NULL);
    put("Months", "x_2_1", "1", "\"Channel\":\"x_2\"");
}

static const struct scene CASCADE_LEFT = {
    .jobs = CASCADE_HEAD "  settle: 5s\n",
    .job = "d",
    .fill = fill_left,
    .tables = {"Channels", "Blogs", "Comments", "Months"},
};

static const struct scene CASCADE = {
    .jobs = CASCADE_HEAD "  settle: 5s\n",
    .job = "d",
    .fill = fill_cascade,
    .tables = {"Channels", "Blogs", "Comments", "Months"},
};

static const struct scene CASCADE_ARCHIVED = {
    .jobs = CASCADE_HEAD
    "  settle: [1s, 10s]\n  archive: archive\n  refuse_above: 100\n",
    .job = "d",
    .fill = fill_cascade,
    .tables = {"Channels", "Blogs", "Comments", "Months"},
};

static const struct scene DELETE = {
    .jobs = "e: {kind: delete, args: [p], table: Blogs, partition_key: "
            "\"{p}\"}\n",
    .job = "e",
    .fill = fill_cascade,
    .tables = {"Blogs", "Comments"},
};

/* ---- tests ---- */

#define SCENES(each)                                                           \
    each(a_move, MOVE) each(a_copy, COPY)                                      \
        each(a_copy_that_is_finished, COPY_FINISHED)                           \
            each(a_copy_of_what_has_changed, COPY_AGAIN)                       \
                each(an_upgrade, UPGRADE) each(an_expand, EXPAND)              \
                    each(a_contract, CONTRACT) each(a_cascade, CASCADE)        \
                        each(a_cascade_with_archive, CASCADE_ARCHIVED)         \
                            each(a_delete, DELETE)

#define DEFINE(name, scene)                                                    \
    TEST(name##_survives_a_refusal_of_each_request)                            \
    {                                                                          \
        play_all(&(scene), REFUSE);                                            \
    }                                                                          \
    TEST(name##_survives_the_loss_of_each_request)                             \
    {                                                                          \
        play_all(&(scene), LOSE_REQUEST);                                      \
    }                                                                          \
    TEST(name##_survives_the_loss_of_each_answer)                              \
    {                                                                          \
        play_all(&(scene), LOSE_ANSWER);                                       \
    }                                                                          \
    TEST(name##_survives_a_kill_before_each_request)                           \
    {                                                                          \
        play_all(&(scene), DIE_BEFORE);                                        \
    }                                                                          \
    TEST(name##_survives_a_kill_after_each_request)                            \
    {                                                                          \
        play_all(&(scene), DIE_AFTER);                                         \
    }                                                                          \
    TEST(name##_stops_wherever_it_asks)                                        \
    {                                                                          \
        play_all(&(scene), STOP);                                              \
    }                                                                          \
    TEST(name##_goes_into_no_phase_that_is_not_stored)                         \
    {                                                                          \
        play_all(&(scene), NO_PHASE);                                          \
    }                                                                          \
    TEST(name##_with_a_damaged_checkpoint_ends_the_same)                       \
    {                                                                          \
        damage_each(&(scene));                                                 \
    }                                                                          \
    TEST(name##_is_not_counted_where_a_request_is_refused)                     \
    {                                                                          \
        refuse_each(&(scene), estimate);                                       \
    }

SCENES(DEFINE)

#define VERIFIED(each)                                                         \
    each(a_move, MOVE) each(a_copy, COPY)                                      \
        each(a_copy_of_what_has_changed, COPY_AGAIN) each(an_upgrade, UPGRADE) \
            each(a_cascade, CASCADE)                                           \
                each(a_cascade_that_left_something, CASCADE_LEFT)

#define DEFINE_VERIFIED(name, scene)                                           \
    TEST(name##_is_not_verified_where_a_request_is_refused)                    \
    {                                                                          \
        refuse_each(&(scene), verify);                                         \
    }

VERIFIED(DEFINE_VERIFIED)

static int set_up(void **state)
{
    log_set(LOG_ERROR, LOG_TEXT);
    return 0;
}

int main(void)
{
    return test_run_all(set_up, NULL);
}
