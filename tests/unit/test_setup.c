/* SPDX-License-Identifier: MIT */
/* `worker:` of the configuration. */
#include "tests/support/config_text.h"
#include "tests/support/loading.h"
#include "tests/support/test.h"
#include "worker/base/mem.h"
#include "worker/run/setup.h"

static void no_tables(const struct job *job,
    void (*each)(
        void *ctx, size_t store, const char *table, enum job_access access),
    void *ctx)
{
}

static const struct kind kind = {.name = "scripted", .tables = no_tables};
static const struct job_arg args[] = {
    {.name = {"channel", 7}}, {.name = {"note", 4}, .allow_empty = true}};
static struct job list[] = {
    {.name = "delete-channel", .kind = &kind, .args = args, .arg_count = 1},
    {.name = "rename", .kind = &kind, .args = args, .arg_count = 2},
};
static const struct jobs jobs = {.list = list, .count = 2};
static const char *const names[] = {"main", "cloud"};

static struct setup setup;

static void load(
    struct config_text *c, const char *text, size_t stores, size_t by_default)
{
    struct job_stores where = {
        .count = stores, .names = names, .by_default = by_default};

    config_text_renew(c);
    setup_load(text ? config_text_read_good(c, text) : NULL, &where, &jobs,
        &c->arena, &setup, &c->problems);
}

static void load_good(
    struct config_text *c, const char *text, size_t stores, size_t by_default)
{
    load(c, text, stores, by_default);
    if (c->problems.errors > 0)
        fail_msg("%s", c->problems.list[0].text);
}

static void refused(struct config_text *c, const char *why, unsigned line)
{
    for (size_t i = 0; i < c->problems.count; i++)
        if (strstr(c->problems.list[i].text, why) &&
            c->problems.list[i].mark.line == line)
            return;
    fail_msg("nobody said '%s' at line %u, but: %s", why, line,
        c->problems.count ? c->problems.list[0].text : "nothing");
}

CONFIG_TEST(nothing_said_gives_the_documented_defaults)
{
    load_good(c, NULL, 1, 0);
    assert_int_equal(setup.store, 0);
    assert_int_equal(setup.queue_count, 1);
    assert_string_equal(setup.queues[0].name, "tableward");
    assert_string_equal(setup.queues[0].poison_queue, "tableward-poison");
    assert_int_equal(setup.slots, 16);
    assert_int_equal(setup.requests, 64);
    assert_int_equal(setup.visibility_timeout_s, 60);
    assert_int_equal(setup.poll_min_ms, 100);
    assert_int_equal(setup.poll_max_ms, 30000);
    assert_int_equal(setup.max_attempts, 5);
    assert_int_equal(setup.max_entities_per_second, 0);
    assert_int_equal(setup.log_level, LOG_INFO);
}

CONFIG_TEST(an_empty_list_of_queues_serves_none)
{
    load_good(c, "queues: []\n", 1, 0);
    assert_int_equal(setup.queue_count, 0);
    assert_null(setup_queue_for(&setup, &list[0]));
    assert_null(setup_queue_named(&setup, slice_of("tableward")));
}

CONFIG_TEST(everything_said_is_taken)
{
    load_good(c,
        "store: cloud\n"
        "queues:\n"
        "  - {name: work, slots: 2}\n"
        "  - {name: channels, job: delete-channel, body: channel, "
        "encoding: base64}\n"
        "slots: 2\nrequests: 8\nvisibility_timeout: 2s\n"
        "poll: {min: 5ms, max: 1s}\nmax_attempts: 3\n"
        "max_entities_per_second: 500\nprice_per_10k: 0.5\n"
        "log_level: debug\n",
        2, 0);
    assert_int_equal(setup.store, 1);
    assert_int_equal(setup.queue_count, 2);
    assert_null(setup.queues[0].job);
    assert_int_equal(setup.queues[0].slots, 2);
    assert_int_equal(setup.queues[1].slots, 0);
    assert_ptr_equal(setup.queues[1].job, &list[0]);
    assert_true(setup.queues[1].base64);
    assert_int_equal(setup.visibility_timeout_s, 2);
    assert_int_equal(setup.poll_min_ms, 5);
    assert_int_equal(setup.max_entities_per_second, 500);
    assert_int_equal(setup.log_level, LOG_DEBUG);
    assert_true(setup.price_per_10k > 0.4 && setup.price_per_10k < 0.6);
    assert_ptr_equal(setup_queue_for(&setup, &list[0]), &setup.queues[1]);
    assert_ptr_equal(setup_queue_for(&setup, &list[1]), &setup.queues[0]);
    assert_ptr_equal(
        setup_queue_named(&setup, slice_of("work")), &setup.queues[0]);
    assert_null(setup_queue_named(&setup, slice_of("none")));
}

CONFIG_TEST(each_mistake_is_named_at_its_place)
{
    static const struct {
        const char *text, *why;
        unsigned line;
    } cases[] = {
        {"slot: 4\n", "slots", 1},
        {"slots: 0\n", "", 1},
        {"lanes: 4\n", "write `requests`", 1}, /* retired: former */
        {"queues:\n  - {name: work, slots: 0}\n", "slots", 2},
        {"slots: many\n", "", 1},
        {"store: clod\n", "did you mean 'cloud'", 1},
        {"visibility_timeout: 1s\n", "", 1},
        {"visibility_timeout: 2500ms\n", "whole seconds", 1},
        {"poll: {min: 2s, max: 1s}\n", "poll.max is less", 1},
        {"listen: 9464\n", "", 1},
        {"listen: ':9464'\n", "write an IP address and a port", 1},
        {"listen: example.com:9464\n", "write an IP address and a port", 1},
        {"slots: 1\nlisten: 127.0.0.1:65536\n", "127.0.0.1:9464", 2},
        {"admin_token_file: ''\n", "is empty", 1},
        {"admin_token_file: [a]\n", "", 1},
        {"queues: {name: a}\n", "must be a list", 1},
        {"queues:\n", "must be a list", 1},
        {"queues:\n  - {job: delete-channel}\n", "name", 2},
        {"queues:\n  - {name: No_Good}\n", "No_Good", 2},
        {"queues:\n  - {name: work}\n  - {name: work}\n", "twice", 3},
        {"queues:\n  - {name: work}\n  - {name: work-poison}\n",
            "is the poison queue of 'work'", 2},
        {"queues:\n  - {name: "
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}\n",
            "too long", 2},
        {"queues:\n  - {name: work, job: delete-chanel, body: channel}\n",
            "did you mean 'delete-channel'", 2},
        {"queues:\n  - {name: work, job: delete-channel, body: chanel}\n",
            "did you mean 'channel'", 2},
        {"queues:\n  - {name: work, job: delete-channel}\n",
            "needs `body: channel`", 2},
        {"queues:\n  - {name: work, job: rename, body: channel}\n",
            "exactly one argument", 2},
        {"queues:\n  - {name: work, encoding: base64}\n", "also needs `job:`",
            2},
        {"queues:\n  - {name: work, job: delete-channel, body: channel, "
         "encoding: hex}\n",
            "", 2},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        load(c, cases[i].text, 2, 0);
        refused(c, cases[i].why, cases[i].line);
    }
}

CONFIG_TEST(listen_and_token_file_are_kept)
{
    load_good(c, "slots: 1\n", 2, 0);
    assert_null(setup.listen);
    assert_null(setup.admin_token_file);
    load_good(c, "listen: '[::1]:9464'\nadmin_token_file: token\n", 2, 0);
    assert_string_equal(setup.listen, "[::1]:9464");
    assert_string_equal(setup.admin_token_file, "token");
    assert_null(setup.unset);
}

/* Only a worker needs the token, so `status` works without the variable. */
CONFIG_TEST(a_token_file_may_need_a_variable_that_is_not_set)
{
    load_good(c,
        "slots: 1\nadmin_token_file: "
        "\"${TEST_SETUP_UNSET}/${TEST_SETUP_NOR_THIS}\"\n",
        2, 0);
    assert_string_equal(setup.unset, "TEST_SETUP_UNSET");
    assert_int_equal(setup.unset_mark.line, 2);
}

TEST(paths_start_at_the_folder_of_relative_paths)
{
    struct definition definition = {.archive_folder = "/var/lib/tableward"};
    char *relative = definition_path(&definition, "token");
    char *absolute = definition_path(&definition, "/run/token");

    assert_string_equal(relative, "/var/lib/tableward/token");
    assert_string_equal(absolute, "/run/token");
    mem_free(relative);
    mem_free(absolute);
}

/* If a run has a queue that only other workers serve, the run is left to them,
 * even if this worker serves its job. */
CONFIG_TEST(an_orphan_belongs_to_its_own_queue)
{
    struct slice none = {0}, work = slice_of("work"), bound = slice_of("bound"),
                 other = slice_of("other");

    load_good(c,
        "queues:\n  - {name: work}\n"
        "  - {name: bound, job: delete-channel, body: channel}\n",
        2, 0);
    assert_ptr_equal(
        setup_queue_of_orphan(&setup, &list[0], work), &setup.queues[0]);
    assert_ptr_equal(
        setup_queue_of_orphan(&setup, &list[0], bound), &setup.queues[1]);
    assert_null(setup_queue_of_orphan(&setup, &list[1], bound));
    assert_null(setup_queue_of_orphan(&setup, &list[0], other));
    /* A wake-up message for that run would be put on a queue that this worker
     * serves. */
    assert_ptr_equal(
        setup_queue_of_run(&setup, &list[0], other), &setup.queues[1]);
    /* The command `run` started the run. */
    assert_ptr_equal(
        setup_queue_of_orphan(&setup, &list[0], none), &setup.queues[1]);
    assert_ptr_equal(
        setup_queue_of_orphan(&setup, &list[1], none), &setup.queues[0]);
}

CONFIG_TEST(several_stores_need_a_choice)
{
    load(c, "slots: 1\n", 2, 2);
    refused(c, "there are several stores", 1);
    load_good(c, NULL, 2, 2);
    assert_int_equal(setup.store, 2);
}

/* Loads the job and an empty `worker:`. Returns the number of problems that say
 * that the job would change the ledger; fails if there is another problem. */
static int ledger_problems(const char *text)
{
    struct loading l = {.names = {NULL}};
    int count = 0;

    loading_begin(&l, text);
    setup_load(NULL, &l.stores, &l.jobs, &l.arena, &setup, &l.problems);
    for (size_t i = 0; i < l.problems.count; i++)
        if (strstr(l.problems.list[i].text,
                "job j would change the table TablewardRuns")) {
            assert_int_equal(l.problems.list[i].mark.line, 1);
            count++;
        } else {
            fail_msg("%s", l.problems.list[i].text);
        }
    loading_done(&l);
    return count;
}

TEST(a_job_that_would_change_the_ledger_is_refused)
{
    static const char *const JOBS[] = {
        "j: {kind: delete, table: TablewardRuns, all: true}\n",
        "j: {kind: delete, table: tablewardruns, filter: \"A eq 1\"}\n",
        "j: {kind: delete, store: other, table: TablewardRuns, all: true}\n",
        "j: {kind: schema-upgrade, table: TablewardRuns, version: "
        "{property: V, absent: 0}, versions: [{to: 1, steps: "
        "[{remove: {property: A}}]}]}\n",
        "j: {kind: copy, from: {table: Blogs}, to: {table: TablewardRuns}}\n",
        "j: {kind: move, from: {table: TablewardRuns}, to: {table: Old}}\n",
        "j: {kind: move, from: {table: Blogs}, to: {table: TablewardRuns}}\n",
        "j: {kind: cascade-delete, args: [c], parent: {table: TablewardRuns, "
        "partition_key: \"{c}\", row_key: \"{c}\", tombstone: {D: true}}, "
        "children: [{table: "
        "Blogs, partition_key: \"{c}\"}]}\n",
        "j: {kind: cascade-delete, args: [c], parent: {table: Blogs, "
        "partition_key: \"{c}\", row_key: \"{c}\", tombstone: {D: true}}, "
        "children: [{table: "
        "TablewardRuns, partition_key: \"{c}\", optional: true}, {table: "
        "TablewardRuns, partition_key: \"x_{c}\"}]}\n",
    };

    for (size_t i = 0; TEST_EACH(i, JOBS); i++)
        assert_int_equal(ledger_problems(JOBS[i]), 1);
}

TEST(a_job_may_read_the_ledger)
{
    assert_int_equal(ledger_problems("j: {kind: copy, from: {table: "
                                     "TablewardRuns}, to: {table: Runs}}\n"),
        0);
    assert_int_equal(
        ledger_problems("j: {kind: delete, table: Runs, all: true}\n"), 0);
}
