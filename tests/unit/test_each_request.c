/* SPDX-License-Identifier: MIT */
/*
 * Goal: a run ends as an undisturbed run would end even if one of its requests
 * is refused, gets no response, or is the last request of a worker that is
 * killed. A later attempt completes the run. If a request of a dry run or a
 * verification is refused, the command reports this.
 *
 * A play (struct play) is a job and the tables that it works on. The test
 * carries out each play once undisturbed. Then it repeats the play for each
 * request and each act that can happen to this request, and once for each call
 * of stopping() and of phase().
 */
#include "tests/support/scene.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/cascade_job.h"
#include "tests/support/interpose.h"
#include "tests/support/virtual_platform.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/store/deadline.h"

#define ATTEMPTS_MAX 30
#define TABLES_MAX 6

struct play {
    const char *name;
    const char *jobs, *job, *kind_arg;
    void (*fill)(void);
    const char *tables[TABLES_MAX]; /* tables to compare; NULL at the end */
    enum run_finish finish;
    bool verified; /* verify can be called after fill() */
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

/* ---- a play ---- */

static void begin(const struct play *play, enum act what, unsigned which)
{
    scene_begin(play->jobs, "TablewardRuns");
    play->fill();
    h.kind_arg = play->kind_arg;
    h.finish = play->finish;
    h.accept_deletes = false;
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

static void dump_entity(
    struct buf *to, const char *table, const struct entity *entity)
{
    buf_add_format(to, "%s %.*s/%.*s", table, SLICE_ARG(entity->partition_key),
        SLICE_ARG(entity->row_key));
    for (size_t i = 0; i < entity->property_count; i++) {
        const struct property *property = &entity->properties[i];
        struct slice text;

        /* The values of Tableward's own properties contain ETags and times,
         * which differ each time. */
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

/* Returns all entities of the play's tables as text. Owned. */
static char *dump(const struct play *play)
{
    struct buf text;

    buf_init(&text, 1024 * 1024);
    quiet = true;
    for (int i = 0; i < TABLES_MAX && play->tables[i]; i++) {
        struct scan_request request = {.table = play->tables[i]};
        struct exchange exchange = {.deadline = NULL};
        struct page page;

        page_init(&page);
        do {
            if (store_scan(inner, &exchange, &request, &page) != TW_OK)
                break;
            for (size_t j = 0; j < page.count; j++)
                dump_entity(&text, play->tables[i], &page.entities[j]);
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

/* Fails unless the attempt in which the act happened ended as it should. */
static void check_end(enum run_end end)
{
    static const enum run_end WANTED[ACTS] = {[REFUSE] = RUN_OUTAGE,
        [DIE_BEFORE] = RUN_LEASE_LOST,
        [DIE_AFTER] = RUN_LEASE_LOST,
        [STOP] = RUN_STOPPED,
        [NO_PHASE] = RUN_OUTAGE};
    const bool died = act == DIE_BEFORE || act == DIE_AFTER;
    const bool lost = act == LOSE_REQUEST || act == LOSE_ANSWER;

    if (!lost && end != WANTED[act] && !(died && is_over(end)))
        fail_msg("%s at %u: %d %s", ACT_NAMES[act], at, (int)end, h.err.text);
    if (!is_over(end) && end != RUN_WAITING && h.err.text[0] == '\0')
        fail_msg("%s at %u: the attempt has no error text", ACT_NAMES[act], at);
}

/* Makes attempts until the run has ended; the run must succeed. Returns how
 * often the act could have happened, which is the number of
 * - calls of stopping(), for STOP;
 * - phases, for NO_PHASE;
 * - requests, for any other act. */
static unsigned play_out(const struct play *play)
{
    enum run_end end = RUN_STOPPED;
    bool checked = false;
    unsigned asked = 0;

    for (int i = 0; i < ATTEMPTS_MAX && !is_over(end); i++) {
        h.stop_after = act == STOP && !met ? (int64_t)at - asked : -1;
        end = hosted_attempt(&h, play->job, "x");
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

static void check_verified(const struct play *play)
{
    const struct job *job = jobs_find(&h.jobs, slice_of(play->job));
    struct job_verification found;

    if (!job->kind->verify)
        return;
    quiet = true;
    if (hosted_verify(&h, play->job, "x", &found) != TW_OK)
        fail_msg("%s", h.err.text);
    for (size_t i = 0; i < found.count; i++)
        if (found.differences[i].count > 0)
            fail_msg("%s at %u: %lld %s (%s)", ACT_NAMES[act], at,
                (long long)found.differences[i].count,
                found.differences[i].what, found.differences[i].first_keys[0]);
    arena_done(&found.arena);
    quiet = false;
}

/* Fails unless the tables are the same as after an undisturbed run. */
static void check_left(const struct play *play, const char *wanted)
{
    char *is = dump(play);

    if (strcmp(is, wanted) != 0)
        fail_msg("%s at %u:\n%sbut undisturbed:\n%s", ACT_NAMES[act], at, is,
            wanted);
    mem_free(is);
}

/* Makes an undisturbed run. Returns, as text, the tables that the run leaves.
 * Owned. *ret: the number that play_out() returned. */
static char *undisturbed(const struct play *play, enum act what, unsigned *ret)
{
    char *left;

    begin(play, what, UINT32_MAX);
    *ret = play_out(play);
    left = dump(play);
    check_verified(play);
    scene_end(NULL);
    return left;
}

/* Repeats the play and lets the act happen to another request each time. The
 * tables must always end as after an undisturbed run. */
static void play_all(const struct play *play, enum act what)
{
    unsigned count;
    char *wanted = undisturbed(play, what, &count);

    for (unsigned i = 0; i < count; i++) {
        begin(play, what, i);
        (void)play_out(play);
        check_left(play, wanted);
        if (met)
            check_verified(play);
        scene_end(NULL);
    }
    mem_free(wanted);
}

/* ---- damaged checkpoints ---- */

/* Replaces the n-th value (from 0) of a JSON text by a value of another type.
 * Returns false if there is no n-th value. */
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

/* Stops the run at the n-th call of stopping(). Returns false if there are
 * fewer calls. */
static bool stop_at(const struct play *play, unsigned n)
{
    h.stop_after = n;
    if (hosted_attempt(&h, play->job, "x") != RUN_STOPPED)
        return false;
    virtual_sleep(40000);
    return true;
}

/* Stops the play at each call of stopping() in turn, damages one value of the
 * ledger's Checkpoint, and continues the run; does so for each value. The
 * tables must always end as after an undisturbed run. */
static void damage_each(const struct play *play)
{
    unsigned count;
    char *wanted = undisturbed(play, NOTHING, &count);
    bool more = true;

    for (unsigned i = 0; more; i++)
        for (unsigned n = 0;; n++) {
            bool damaged;

            test_case("%s: value %u after stop %u", play->name, n, i);
            begin(play, NOTHING, UINT32_MAX);
            more = stop_at(play, i);
            damaged = more && h.checkpoint && damage(&h.checkpoint, n);
            if (damaged) {
                (void)play_out(play);
                check_left(play, wanted);
            }
            scene_end(NULL);
            if (!damaged)
                break;
        }
    mem_free(wanted);
}

/* ---- dry runs and verifications ---- */

static enum tw_err estimate(const struct play *play)
{
    struct job_estimate found = {.table_count = 0};
    enum tw_err outcome = hosted_estimate(&h, play->job, "x", &found);

    arena_done(&found.arena);
    return outcome;
}

static enum tw_err verify(const struct play *play)
{
    struct job_verification found = {.count = 0};
    enum tw_err outcome = hosted_verify(&h, play->job, "x", &found);

    arena_done(&found.arena);
    return outcome;
}

/* Refuses each request in turn. The dry run or verification must end with
 * TW_REFUSED and write nothing. */
static void refuse_each(
    const struct play *play, enum tw_err (*read)(const struct play *play))
{
    char *before, *after;
    unsigned count;

    begin(play, NOTHING, UINT32_MAX);
    assert_ok(read(play));
    count = seen;
    scene_end(NULL);
    for (unsigned i = 0; i < count; i++) {
        begin(play, REFUSE, i);
        before = dump(play);
        h.err.text[0] = '\0';
        assert_int_equal(read(play), TW_REFUSED);
        if (!strstr(h.err.text, "as the test wants"))
            fail_msg("request %u: '%s'", i, h.err.text);
        after = dump(play);
        assert_string_equal(after, before);
        mem_free(before);
        mem_free(after);
        scene_end(NULL);
    }
}

/* ---- plays ---- */

static void fill_blogs(void)
{
    hosted_table(&h, "Blogs");
    hosted_put(&h, "Blogs", "a", "1", "\"N\":1");
    hosted_put(&h, "Blogs", "a", "2", "\"N\":2");
    hosted_put(&h, "Blogs", "b", "1", "\"N\":3");
}

/* Fills the tables with copies that an earlier run made. The source of one copy
 * was deleted, the source of another copy now has another destination key, and
 * a third copy is out of date. */
static void fill_stale_copies(void)
{
    fill_blogs();
    hosted_put(&h, "Blogs", "b", "2", "\"N\":4");
    h.epoch = 0;
    assert_int_equal(hosted_attempt(&h, "c", "x"), RUN_SUCCEEDED);
    hosted_forget(&h, "r2");
    hosted_remove(&h, "Blogs", "a", "1");
    hosted_replace(&h, "Blogs", "a", "2", "\"N\":7");
    hosted_replace(&h, "Blogs", "b", "1", "\"N\":3,\"T\":\"new\"");
}

static void fill_upgrade(void)
{
    hosted_table(&h, "Blogs");
    hosted_put(&h, "Blogs", "a", "1", "\"Text\":\"x\",\"R\":1");
    hosted_put(&h, "Blogs", "a", "2", "\"Text\":\"y\",\"R\":2,\"V\":1");
    hosted_put(&h, "Blogs", "b", "1", "\"Body\":\"z\",\"R\":\"3\",\"V\":2");
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

static void fill_expanded(void)
{
    fill_upgrade();
    h.kind_arg = "expand";
    assert_int_equal(hosted_attempt(&h, "u", "x"), RUN_SUCCEEDED);
    hosted_forget(&h, "r2");
}

static void fill_cascade(void)
{
    hosted_table(&h, "Channels");
    hosted_table(&h, "Blogs");
    hosted_table(&h, "Comments");
    hosted_table(&h, "Months");
    hosted_rows(&h, "Channels x/(Name=x) y/(Name=y); Blogs x/1 x/2 y/1; "
                    "Comments x/1_a(Blog=1) x/2_a(Blog=2) y/1_a(Blog=1); "
                    "Months x_1/1(Channel=x) y_1/1(Channel=y)");
}

/* Fills the tables with what a failed cascade left: a parent that still has its
 * tombstone, and children without a parent. */
static void fill_left(void)
{
    fill_cascade();
    hosted_replace(&h, "Channels", "y", "", MARK("d/r9"));
    hosted_rows(&h, "TablewardRuns d/r9(State=failed); Blogs z/1; "
                    "Months x_2_1/1(Channel=x_2)");
}

/* A job of kind: cascade-delete with a rule of each shape. */
#define CASCADE(options)                                                       \
    CASCADE_JOB("d", options,                                                  \
        RULES(RULE_WITH("Blogs", BY_CHANNEL, RULE("Comments", BY_PREFIX)),     \
            RULES(RULE("Months",                                               \
                      "partition_key_prefix: \"{channel}_\", " WITH_CHANNEL),  \
                RULE("Nowhere", BY_CHANNEL ", optional: true"))))

static const struct play PLAYS[] = {
    {.name = "a move",
        .jobs = "m: {kind: move, from: {table: Blogs}, to: {table: OldBlogs, "
                "row_key: \"{RowKey}-{N}\"}}\n",
        .job = "m",
        .fill = fill_blogs,
        .tables = {"Blogs", "OldBlogs", "TablewardRuns"},
        .verified = true},
    {.name = "a copy",
        .jobs = "c: {kind: copy, from: {table: Blogs}, to: [{table: Copies, "
                "row_key: \"{RowKey}-{N}\"}, {table: Blogs, row_key: "
                "\"i:{N}\", properties: [N]}]}\n",
        .job = "c",
        .fill = fill_blogs,
        .tables = {"Blogs", "Copies", "TablewardRuns"},
        .verified = true},
    {.name = "a copy that is finished", /* a following run that `finish` ends */
        .jobs = "c: {kind: copy, follow: true, from: {table: Blogs}, to: "
                "{table: Copies}}\n",
        .job = "c",
        .fill = fill_blogs,
        .tables = {"Blogs", "Copies", "TablewardRuns"},
        .finish = RUN_FINISHING},
    {.name = "a copy of what has changed",
        .jobs = "c: {kind: copy, from: {table: Blogs}, to: {table: Copies, "
                "row_key: \"{RowKey}-{N}\"}}\n",
        .job = "c",
        .fill = fill_stale_copies,
        .tables = {"Blogs", "Copies", "TablewardRuns"},
        .verified = true},
    {.name = "an upgrade",
        .jobs = UPGRADE_JOBS,
        .job = "u",
        .fill = fill_upgrade,
        .tables = {"Blogs", "TablewardRuns"},
        .verified = true},
    {.name = "an expand",
        .jobs = UPGRADE_JOBS,
        .job = "u",
        .kind_arg = "expand",
        .fill = fill_upgrade,
        .tables = {"Blogs", "TablewardRuns"}},
    {.name = "a contract",
        .jobs = UPGRADE_JOBS,
        .job = "u",
        .kind_arg = "contract",
        .fill = fill_expanded,
        .tables = {"Blogs", "TablewardRuns"}},
    {.name = "a cascade",
        .jobs = CASCADE("settle: 5s"),
        .job = "d",
        .fill = fill_cascade,
        .tables = {"Channels", "Blogs", "Comments", "Months"},
        .verified = true},
    {.name = "a cascade with archive",
        .jobs = CASCADE("settle: [1s, 10s]\n    archive: archive\n"
                        "    refuse_above: 100"),
        .job = "d",
        .fill = fill_cascade,
        .tables = {"Channels", "Blogs", "Comments", "Months"}},
    {.name = "a delete",
        .jobs = "e: {kind: delete, args: [p], table: Blogs, partition_key: "
                "\"{p}\"}\n",
        .job = "e",
        .fill = fill_cascade,
        .tables = {"Blogs", "Comments"}},
};

static const struct play CASCADE_THAT_LEFT = {
    .jobs = CASCADE("settle: 5s"),
    .job = "d",
    .fill = fill_left,
    .tables = {"Channels", "Blogs", "Comments", "Months"},
};

/* ---- tests ---- */

TEST(whatever_a_request_meets_the_run_ends_as_if_undisturbed)
{
    for (enum act what = REFUSE; what < ACTS; what++)
        for (size_t i = 0; TEST_EACH(i, PLAYS); i++) {
            test_case("%s: %s", PLAYS[i].name, ACT_NAMES[what]);
            play_all(&PLAYS[i], what);
        }
}

TEST(with_a_damaged_checkpoint_a_run_ends_the_same)
{
    for (size_t i = 0; TEST_EACH(i, PLAYS); i++)
        damage_each(&PLAYS[i]);
}

TEST(nothing_is_counted_where_a_request_is_refused)
{
    for (size_t i = 0; TEST_EACH(i, PLAYS); i++)
        refuse_each(&PLAYS[i], estimate);
}

TEST(nothing_is_verified_where_a_request_is_refused)
{
    for (size_t i = 0; TEST_EACH(i, PLAYS); i++)
        if (PLAYS[i].verified)
            refuse_each(&PLAYS[i], verify);
    test_case("a cascade that left something");
    refuse_each(&CASCADE_THAT_LEFT, verify);
}
