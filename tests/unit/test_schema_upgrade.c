/* SPDX-License-Identifier: MIT */
/* The kind schema-upgrade on a store in memory: passes, waiting, contraction,
 * and attempts that end anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/base/world.h"

static const char JOBS[] =
    "v2:\n"
    "  kind: schema-upgrade\n"
    "  table: Blogs\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  max_passes: 3\n"
    "  steps:\n"
    "    - rename: {property: Text, to: Body}\n"
    "    - retype: {property: Rating, to: Edm.Double}\n"
    "    - remove: {property: Legacy}\n"
    "once:\n"
    "  kind: schema-upgrade\n"
    "  table: Numbers\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  max_passes: 1\n"
    "  steps: [{retype: {property: Rating, to: Edm.Double}}]\n"
    "twice:\n"
    "  kind: schema-upgrade\n"
    "  table: Numbers\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  steps: [{retype: {property: Rating, to: Edm.Double}}]\n"
    "lost:\n"
    "  kind: schema-upgrade\n"
    "  table: Lost\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  steps: [{remove: {property: Old}}]\n"
    "skips:\n"
    "  kind: schema-upgrade\n"
    "  table: Posts\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  steps: [{retype: {property: Rating, to: Edm.Int32, on_error: skip}}]\n"
    "v3:\n"
    "  kind: schema-upgrade\n"
    "  table: Blogs\n"
    "  version: {property: V, from: 2, to: 3}\n"
    "  steps: [{add: {property: Language, type: Edm.String, value: en}}]\n"
    "expand:\n"
    "  kind: schema-upgrade\n"
    "  table: Notes\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  phase: expand\n"
    "  steps: [{rename: {property: Text, to: Body}}]\n"
    "contract:\n"
    "  kind: schema-upgrade\n"
    "  table: Notes\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  phase: contract\n"
    "  steps: [{rename: {property: Text, to: Body}}]\n"
    "sized:\n"
    "  kind: schema-upgrade\n"
    "  args: [least]\n"
    "  table: Mixed\n"
    "  filter: \"Size ge {least}\"\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  steps: [{remove: {property: Old}}]\n"
    "typed:\n"
    "  kind: schema-upgrade\n"
    "  args: [type]\n"
    "  table: Mixed\n"
    "  filter: \"Type eq '{type}' and Size ge 5\"\n"
    "  version: {property: V, from: 1, to: 2}\n"
    "  steps: [{set: {property: Seen, type: Edm.Boolean, value: true}}]\n"
    "named:\n"
    "  kind: schema-upgrade\n"
    "  table: Mixed\n"
    "  filter: \"Type eq 'Blog'\"\n"
    "  version: {property: W, from: 1, to: 2}\n"
    "  steps: [{set: {property: Seen, type: Edm.Boolean, value: true}}]\n";

static struct hosted h;

static int set_up(void **state)
{
    (void)state;
    hosted_init(&h, JOBS);
    hosted_table(&h, "Blogs");
    hosted_table(&h, "Posts");
    hosted_table(&h, "Notes");
    hosted_table(&h, "Mixed");
    hosted_table(&h, "Numbers");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hosted_done(&h);
    return 0;
}

static void put_old(const char *partition_key, const char *row_key)
{
    hosted_put(&h, "Blogs", partition_key, row_key,
        "\"Text\":\"t\",\"Rating\":3,\"Legacy\":true");
}

static const char NEW[] =
    "{\"Body\":\"t\",\"Rating@odata.type\":\"Edm.Double\",\"Rating\":3.0,"
    "\"V\":2}";

static void check_blog(
    const char *partition_key, const char *row_key, const char *json)
{
    const char *is = hosted_json(&h, "Blogs", partition_key, row_key);

    assert_non_null(is);
    assert_string_equal(is, json);
}

static void every_entity_comes_to_the_new_version(void **state)
{
    (void)state;
    put_old("p", "1");
    put_old("q", "1");
    hosted_put(&h, "Blogs", "q", "2",
        "\"Text\":\"t\",\"Rating@odata.type\":\"Edm.Double\",\"Rating\":3.0,"
        "\"V\":1");
    hosted_put(&h, "Blogs", "q", "3", "\"Text\":\"other\",\"V\":7");
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    check_blog("p", "1", NEW);
    check_blog("q", "1", NEW);
    check_blog("q", "2",
        "{\"Body\":\"t\",\"Rating@odata.type\":\"Edm.Double\",\"Rating\":3.0,"
        "\"V\":2}");
    check_blog("q", "3", "{\"Text\":\"other\",\"V\":7}");
    assert_int_equal(h.written, 3);
    assert_int_equal(h.read, 8);
    assert_int_equal(h.passes, 2);
}

static void second_run_writes_nothing(void **state)
{
    (void)state;
    put_old("p", "1");
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    assert_int_equal(h.written, 1);
    assert_int_equal(h.passes, 3);
}

static void only_what_the_filter_takes_is_upgraded(void **state)
{
    (void)state;
    hosted_put(&h, "Mixed", "p", "1", "\"Type\":\"Blog\",\"Size\":5");
    hosted_put(&h, "Mixed", "p", "2", "\"Type\":\"Post\",\"Size\":5");
    hosted_put(&h, "Mixed", "p", "3", "\"Type\":\"Blog\",\"Size\":4");
    hosted_put(&h, "Mixed", "p", "4", "\"Size\":5");
    assert_int_equal(hosted_attempt(&h, "typed", "Blog"), RUN_SUCCEEDED);
    assert_int_equal(h.written, 1);
    assert_string_equal(hosted_json(&h, "Mixed", "p", "1"),
        "{\"Type\":\"Blog\",\"Size\":5,\"Seen\":true,\"V\":2}");
    assert_string_equal(
        hosted_json(&h, "Mixed", "p", "2"), "{\"Type\":\"Post\",\"Size\":5}");
}

static const struct store_ops *real_ops;
static char filter_sent[128];

static enum tw_err scan_and_note(struct store *store, struct attempt *attempt,
    const struct scan_request *request, struct page *ret)
{
    snprintf(
        filter_sent, sizeof(filter_sent), "%.*s", SLICE_ARG(request->filter));
    return real_ops->scan(store, attempt, request, ret);
}

static void filter_that_stores_may_differ_on_is_not_sent(void **state)
{
    static struct store_ops noting;

    (void)state;
    real_ops = h.store->ops;
    noting = *real_ops;
    noting.scan = scan_and_note;
    h.store->ops = &noting;
    hosted_put(&h, "Mixed", "p", "1", "\"Type\":\"Blog\",\"Size\":5");
    assert_int_equal(hosted_attempt(&h, "named", ""), RUN_SUCCEEDED);
    assert_string_equal(filter_sent, "Type eq 'Blog'");
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_attempt(&h, "typed", "Blog"), RUN_SUCCEEDED);
    assert_string_equal(filter_sent, "");
    h.store->ops = real_ops;
    assert_int_equal(h.written, 2);
}

/* ---- others write meanwhile ---- */

static struct faulty faulty;
static int batches;
static void (*meddle)(void); /* what somebody does before the first batch */

/* Between what was read and what is written. */
static void before_batch(void *ctx, const struct batch *batch)
{
    void (*once)(void) = meddle;

    (void)ctx;
    (void)batch;
    meddle = NULL;
    batches++;
    if (once)
        once();
}

static void stand_between(void (*what)(void))
{
    faulty_init(&faulty, h.store);
    h.store = &faulty.outer.store;
    faulty.before = before_batch;
    batches = 0;
    meddle = what;
}

static void change_all(void)
{
    hosted_replace(&h, "Blogs", "p", "1", "\"Text\":\"newer\",\"V\":1");
    hosted_replace(&h, "Blogs", "p", "2", "\"Body\":\"theirs\",\"V\":2");
    hosted_remove(&h, "Blogs", "p", "3");
    hosted_replace(&h, "Blogs", "p", "4", "\"Text\":\"kept\",\"V\":9");
}

static void put_five(void)
{
    static const char *const row_keys[] = {"1", "2", "3", "4", "5"};

    for (int i = 0; i < 5; i++)
        put_old("p", row_keys[i]);
}

static void what_changed_meanwhile_is_read_and_decided_again(void **state)
{
    (void)state;
    put_five();
    stand_between(change_all);
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    check_blog("p", "1", "{\"Body\":\"newer\",\"V\":2}");
    check_blog("p", "2", "{\"Body\":\"theirs\",\"V\":2}");
    assert_null(hosted_json(&h, "Blogs", "p", "3"));
    check_blog("p", "4", "{\"Text\":\"kept\",\"V\":9}");
    check_blog("p", "5", NEW);
    assert_int_equal(h.written, 2);
    assert_int_equal(h.passes, 2); /* nothing was left to another one */
    faulty_done(&faulty);
}

static void spoil_one(void)
{
    hosted_replace(&h, "Blogs", "p", "2", "\"Rating\":\"x\"");
}

static void what_became_unconvertible_meanwhile_is_told(void **state)
{
    (void)state;
    put_five();
    stand_between(spoil_one);
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    assert_int_equal(h.written, 4);
    check_blog("p", "2", "{\"Rating\":\"x\"}");
    faulty_done(&faulty);
}

static void spoil_post(void)
{
    hosted_replace(&h, "Posts", "p", "1", "\"Rating\":\"x\"");
}

static void what_became_one_to_be_skipped_meanwhile_stays(void **state)
{
    (void)state;
    hosted_put(&h, "Posts", "p", "1", "\"Rating\":\"5\"");
    stand_between(spoil_post);
    assert_int_equal(hosted_attempt(&h, "skips", ""), RUN_SUCCEEDED);
    assert_int_equal(h.skipped, 1);
    assert_string_equal(
        hosted_json(&h, "Posts", "p", "1"), "{\"Rating\":\"x\"}");
    faulty_done(&faulty);
}

static void contract_note(void)
{
    hosted_replace(&h, "Notes", "p", "1", "\"Body\":\"mine\",\"V\":2");
}

static void what_was_contracted_meanwhile_stays(void **state)
{
    (void)state;
    hosted_put(&h, "Notes", "p", "1", "\"Text\":\"t\",\"Body\":\"t\",\"V\":2");
    stand_between(contract_note);
    assert_int_equal(hosted_attempt(&h, "contract", ""), RUN_SUCCEEDED);
    assert_int_equal(h.written, 0);
    assert_string_equal(
        hosted_json(&h, "Notes", "p", "1"), "{\"Body\":\"mine\",\"V\":2}");
    faulty_done(&faulty);
}

static enum fault lose_first_answer(void *ctx, enum store_call call, unsigned n)
{
    (void)ctx;
    return call == CALL_BATCH && n == 0 ? FAULT_LOSE_ANSWER : FAULT_NONE;
}

static void lost_answer_is_recognised_by_what_stands_there(void **state)
{
    (void)state;
    put_five();
    stand_between(NULL);
    faulty.choose = lose_first_answer;
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    assert_int_equal(batches, 1);
    assert_int_equal(h.written, 5);
    check_blog("p", "3", NEW);
    faulty_done(&faulty);
}

static enum fault refuse_scans(void *ctx, enum store_call call, unsigned n)
{
    (void)ctx;
    (void)n;
    return call == CALL_SCAN ? FAULT_REFUSED : FAULT_NONE;
}

static void what_the_service_will_not_store_is_told_once(void **state)
{
    (void)state;
    put_five();
    stand_between(NULL);
    faulty.refused_key = "2";
    faulty.refusal = TW_INVALID;
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    assert_int_equal(h.written, 4);
    assert_int_equal(h.passes, 2);
    assert_non_null(strstr(h.err.text, "1 entities cannot be brought"));
    faulty_done(&faulty);
}

/* The batch that is on its way is refused all the same. */
static void take_the_next(void)
{
    faulty.refused_key = NULL;
}

/* It may have been the outcome that was not known. */
static void what_the_service_refused_is_tried_by_a_second_pass(void **state)
{
    (void)state;
    put_old("p", "2");
    stand_between(take_the_next);
    faulty.refused_key = "2";
    faulty.refusal = TW_INVALID;
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    assert_int_equal(h.failed, 0);
    assert_int_equal(h.written, 1);
    check_blog("p", "2", NEW);
    faulty_done(&faulty);
}

static void store_that_refuses_is_an_outage(void **state)
{
    (void)state;
    put_five();
    stand_between(NULL);
    faulty.choose = refuse_scans;
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_OUTAGE);
    assert_int_equal(hosted_attempt(&h, "contract", ""), RUN_OUTAGE);
    faulty_done(&faulty);
}

static int stoppings;

static int added;

static void add_another(struct hosted *hosted)
{
    char row_key[16];

    snprintf(row_key, sizeof(row_key), "%06d", ++added);
    hosted_put(hosted, "Blogs", "a", row_key, "\"Text\":\"t\"");
}

static void add_a_few(struct hosted *hosted)
{
    if (added < 3)
        add_another(hosted);
}

static void what_was_added_behind_the_scan_is_met_by_the_next_pass(void **state)
{
    (void)state;
    added = 0;
    put_old("p", "1");
    h.between = add_a_few;
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    assert_int_equal(h.written, 4);
}

static void writers_that_never_stop_fail_the_run_with_the_number_left(
    void **state)
{
    (void)state;
    added = 0;
    put_old("p", "1");
    h.between = add_another;
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_FAILED);
    assert_int_equal(h.passes, 3);
    if (!strstr(h.err.text, "after 3 passes") ||
        !strstr(h.err.text, "entities are still to be upgraded"))
        fail_msg("%s", h.err.text);
}

/* ---- what cannot be upgraded ---- */

static void what_cannot_be_converted_is_told_once_and_the_rest_is_done(
    void **state)
{
    (void)state;
    put_old("p", "1");
    hosted_put(&h, "Blogs", "p", "2", "\"Rating\":\"five\",\"Text\":\"t\"");
    put_old("q", "1");
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    assert_int_equal(h.written, 2);
    check_blog("p", "1", NEW);
    check_blog("q", "1", NEW);
    check_blog("p", "2", "{\"Rating\":\"five\",\"Text\":\"t\"}");
    if (!strstr(h.failed_why, "Blogs p/2: step 2, retype Rating"))
        fail_msg("%s", h.failed_why);
    if (!strstr(h.err.text, "1 entities cannot be brought"))
        fail_msg("%s", h.err.text);
}

static void what_is_to_be_skipped_is_counted_and_the_run_succeeds(void **state)
{
    (void)state;
    hosted_put(&h, "Posts", "p", "1", "\"Rating\":\"5\"");
    hosted_put(&h, "Posts", "p", "2", "\"Rating\":\"five\"");
    assert_int_equal(hosted_attempt(&h, "skips", ""), RUN_SUCCEEDED);
    assert_int_equal(h.skipped, 1);
    assert_int_equal(h.failed, 0);
    assert_string_equal(
        hosted_json(&h, "Posts", "p", "1"), "{\"Rating\":5,\"V\":2}");
    assert_string_equal(
        hosted_json(&h, "Posts", "p", "2"), "{\"Rating\":\"five\"}");
}

/* Written in the old shape and named new: nobody knows which one is right. */
static void what_a_new_version_still_holds_is_reported_and_not_touched(
    void **state)
{
    (void)state;
    hosted_put(&h, "Blogs", "p", "1", "\"Text\":\"t\",\"V\":2");
    hosted_put(&h, "Blogs", "p", "2", "\"Legacy\":1,\"V\":2");
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    assert_int_equal(h.written, 0);
    check_blog("p", "1", "{\"Text\":\"t\",\"V\":2}");
    assert_non_null(strstr(h.checkpoint, "\"held\":2"));
}

static void argument_that_makes_no_filter_fails_the_run(void **state)
{
    const struct job *job = jobs_find(&h.jobs, slice_of("sized"));
    const struct slice name = slice_of("least"), five = slice_of("5"),
                       none = slice_of("five");
    struct run_args args = {1, &name, &five};
    struct err err;

    (void)state;
    assert_int_equal(job->kind->accept(job, &args, &err), TW_OK);
    args.values = &none;
    assert_int_equal(job->kind->accept(job, &args, &err), TW_INVALID);
    assert_int_equal(hosted_attempt(&h, "sized", "five"), RUN_FAILED);
}

static void missing_table_fails_the_run(void **state)
{
    (void)state;
    hosted_done(&h);
    hosted_init(&h, JOBS);
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_FAILED);
    if (!strstr(h.err.text, "Blogs"))
        fail_msg("%s", h.err.text);
}

/* ---- chains ---- */

static void later_version_waits_for_the_earlier_one(void **state)
{
    (void)state;
    put_old("p", "1");
    hosted_put(&h, "Blogs", "p", "2", "\"V\":2");
    h.others.open = true;
    assert_int_equal(hosted_attempt(&h, "v3", ""), RUN_WAITING);
    assert_true(h.resumes_ticks > world_wall_ticks());
    check_blog("p", "2", "{\"V\":3,\"Language\":\"en\"}");
    assert_string_equal(hosted_json(&h, "Blogs", "p", "1"),
        "{\"Text\":\"t\",\"Rating\":3,\"Legacy\":true}");
    h.read = 0;
    assert_int_equal(hosted_attempt(&h, "v3", ""), RUN_WAITING);
    assert_int_equal(h.read, 0); /* while it is open there is nothing to see */
    {
        char *kept = mem_text(h.checkpoint, strlen(h.checkpoint));

        hosted_forget(&h, "other");
        assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
        hosted_forget(&h, "r1");
        h.checkpoint = kept;
    }
    h.others = (struct run_others){.ended = true};
    assert_int_equal(hosted_attempt(&h, "v3", ""), RUN_SUCCEEDED);
    check_blog("p", "1",
        "{\"Body\":\"t\",\"Rating@odata.type\":\"Edm.Double\",\"Rating\":3.0,"
        "\"V\":3,\"Language\":\"en\"}");
}

/* The earlier job's last write, and its end, behind the scan. */
static void end_other_at_second(struct hosted *hosted)
{
    if (++stoppings != 2)
        return;
    hosted_replace(hosted, "Blogs", "p", "1", "\"Body\":\"t\",\"V\":2");
    hosted->others = (struct run_others){.ended = true};
}

static void what_an_earlier_job_does_during_the_last_pass_is_not_lost(
    void **state)
{
    (void)state;
    put_old("p", "1");
    stoppings = 0;
    h.others.open = true;
    h.between = end_other_at_second;
    assert_int_equal(hosted_attempt(&h, "v3", ""), RUN_WAITING);
    assert_int_equal(hosted_attempt(&h, "v3", ""), RUN_SUCCEEDED);
    check_blog("p", "1", "{\"Body\":\"t\",\"V\":3,\"Language\":\"en\"}");
}

static void job_that_nobody_has_asked_for_is_waited_for_too(void **state)
{
    (void)state;
    put_old("p", "1");
    assert_int_equal(hosted_attempt(&h, "v3", ""), RUN_WAITING);
    h.read = 0;
    assert_int_equal(hosted_attempt(&h, "v3", ""), RUN_WAITING);
    assert_true(h.read > 0); /* somebody else may have upgraded it */
}

static void it_is_asked_ever_more_seldom_up_to_a_bound(void **state)
{
    int64_t longest_s = 0;

    (void)state;
    put_old("p", "1");
    h.others.open = true;
    for (int i = 0; i < 12; i++) {
        assert_int_equal(hosted_attempt(&h, "v3", ""), RUN_WAITING);
        longest_s = (h.resumes_ticks - world_wall_ticks()) / TICKS_PER_S;
    }
    assert_in_range(longest_s, 50, 61);
}

static void what_an_earlier_job_left_behind_is_left_alone(void **state)
{
    (void)state;
    put_old("p", "1");
    h.others.ended = true;
    assert_int_equal(hosted_attempt(&h, "v3", ""), RUN_SUCCEEDED);
    assert_string_equal(hosted_json(&h, "Blogs", "p", "1"),
        "{\"Text\":\"t\",\"Rating\":3,\"Legacy\":true}");
}

static void outage_while_others_are_asked_for_ends_the_attempt(void **state)
{
    (void)state;
    put_old("p", "1");
    h.open_outcome = TW_BUSY;
    assert_int_equal(hosted_attempt(&h, "v3", ""), RUN_OUTAGE);
}

/* ---- expand and contract ---- */

static void contract_refuses_while_anything_is_below(void **state)
{
    (void)state;
    hosted_put(&h, "Notes", "p", "1", "\"Text\":\"t\",\"Body\":\"t\",\"V\":2");
    hosted_put(&h, "Notes", "p", "2", "\"Text\":\"t\"");
    assert_int_equal(hosted_attempt(&h, "contract", ""), RUN_FAILED);
    assert_int_equal(h.written, 0);
    assert_int_equal(h.failed, 1);
    if (!strstr(h.err.text, "1 entities are below") ||
        !strstr(h.failed_why, "Notes p/2: "))
        fail_msg("%s; %s", h.err.text, h.failed_why);
    assert_string_equal(hosted_json(&h, "Notes", "p", "1"),
        "{\"Text\":\"t\",\"Body\":\"t\",\"V\":2}");
}

/* Whatever brought them there: an old writer may still know them. */
static void contract_refuses_whatever_number_is_below(void **state)
{
    (void)state;
    hosted_put(&h, "Notes", "p", "1", "\"Text\":\"t\",\"V\":0");
    hosted_put(&h, "Notes", "p", "2", "\"Text\":\"t\",\"V\":3");
    hosted_put(&h, "Notes", "p", "3", "\"Text\":\"t\",\"V\":\"new\"");
    assert_int_equal(hosted_attempt(&h, "contract", ""), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    hosted_remove(&h, "Notes", "p", "1");
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_attempt(&h, "contract", ""), RUN_SUCCEEDED);
    assert_int_equal(h.written, 0);
}

static void expand_keeps_and_contract_takes_the_old_property(void **state)
{
    (void)state;
    hosted_put(&h, "Notes", "p", "1", "\"Text\":\"t\"");
    assert_int_equal(hosted_attempt(&h, "expand", ""), RUN_SUCCEEDED);
    assert_string_equal(hosted_json(&h, "Notes", "p", "1"),
        "{\"Text\":\"t\",\"Body\":\"t\",\"V\":2}");
    hosted_forget(&h, "r2");
    assert_int_equal(hosted_attempt(&h, "contract", ""), RUN_SUCCEEDED);
    assert_string_equal(
        hosted_json(&h, "Notes", "p", "1"), "{\"Body\":\"t\",\"V\":2}");
    hosted_forget(&h, "r3");
    assert_int_equal(hosted_attempt(&h, "contract", ""), RUN_SUCCEEDED);
    assert_int_equal(h.written, 2);
}

static void add_old_note(struct hosted *hosted)
{
    if (++stoppings == 4)
        hosted_put(hosted, "Notes", "a", "1", "\"Text\":\"t\"");
}

static void what_comes_below_while_it_contracts_fails_the_run(void **state)
{
    (void)state;
    stoppings = 0;
    for (int i = 0; i < 3; i++)
        hosted_put(&h, "Notes", "p", (const char *[]){"1", "2", "3"}[i],
            "\"Text\":\"t\",\"Body\":\"t\",\"V\":2");
    h.between = add_old_note;
    assert_int_equal(hosted_attempt(&h, "contract", ""), RUN_FAILED);
    assert_string_equal(hosted_json(&h, "Notes", "a", "1"), "{\"Text\":\"t\"}");
    assert_string_equal(
        hosted_json(&h, "Notes", "p", "3"), "{\"Body\":\"t\",\"V\":2}");
}

/* ---- attempts that end anywhere ---- */

/* Some pages, and two entities that fail. */
static void fill(void)
{
    char row_key[16];

    for (int i = 0; i < 2500; i++) {
        snprintf(row_key, sizeof(row_key), "%06d", i);
        hosted_put(&h, "Blogs", i < 1000 ? "p" : "q", row_key,
            i % 1000 == 500 ? "\"Rating\":\"x\"" : "\"Rating\":1");
    }
}

static void attempt_stopped_anywhere_goes_on_where_it_was(void **state)
{
    int attempts = 0;

    (void)state;
    fill();
    do {
        h.stopping_calls = 0;
        h.stop_after = 1 + attempts % 4;
        attempts++;
        hosted_attempt(&h, "v2", "");
    } while (h.end == RUN_STOPPED && attempts < 200);
    assert_int_equal(h.end, RUN_FAILED);
    assert_int_equal(h.failed, 2);
    assert_int_equal(h.written, 2498);
    assert_true(attempts > 1);
}

/* Pages that are of no concern, behind partition a. */
static void fill_numbers(int count)
{
    char row_key[16];

    for (int i = 0; i < count; i++) {
        snprintf(row_key, sizeof(row_key), "%06d", i);
        hosted_put(&h, "Numbers", "b", row_key, "\"V\":7");
    }
}

static void what_is_not_written_yet_is_read_again_by_the_next_attempt(
    void **state)
{
    (void)state;
    hosted_put(&h, "Numbers", "a", "1", "\"Rating\":1");
    fill_numbers(500); /* the batch of one waits for more */
    h.stop_after = 2;
    assert_int_equal(hosted_attempt(&h, "once", ""), RUN_STOPPED);
    assert_int_equal(h.written, 0);
    h.stop_after = -1;
    assert_int_equal(hosted_attempt(&h, "once", ""), RUN_SUCCEEDED);
    assert_int_equal(h.written, 1);
    assert_int_equal(h.passes, 1);
}

static void what_failed_before_a_stop_is_still_failed(void **state)
{
    (void)state;
    hosted_put(&h, "Numbers", "a", "1", "\"Rating\":\"x\"");
    fill_numbers(2000);
    h.stop_after = 2;
    assert_int_equal(hosted_attempt(&h, "once", ""), RUN_STOPPED);
    h.read = 0;
    h.stop_after = -1;
    assert_int_equal(hosted_attempt(&h, "once", ""), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    assert_in_range(h.read, 2001 + 1, 2 * 2001 - 1); /* the rest, and a look */
}

static void what_is_read_anew_in_no_order_is_counted_anew(void **state)
{
    (void)state;
    h.store->traits.ordered = false;
    hosted_put(&h, "Numbers", "a", "1", "\"Rating\":\"x\"");
    fill_numbers(500);
    h.stop_after = 2;
    assert_int_equal(hosted_attempt(&h, "once", ""), RUN_STOPPED);
    h.stop_after = -1;
    assert_int_equal(hosted_attempt(&h, "once", ""), RUN_FAILED);
    assert_int_equal(h.failed, 1);
    assert_int_equal(h.read, 501);
    assert_int_equal(h.passes, 1);
}

/* The whole batch of the first page is written before the second is read. */
static void wait_for_batch_at_second(struct hosted *hosted)
{
    if (++stoppings != 2)
        return;
    while (!strstr(hosted_json(hosted, "Blogs", "p", "000099"), "\"V\":2"))
        (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static void what_a_pass_found_before_a_stop_asks_for_another_pass(void **state)
{
    char row_key[16];

    (void)state;
    for (int i = 0; i < 500; i++) {
        snprintf(row_key, sizeof(row_key), "%06d", i);
        hosted_put(
            &h, "Blogs", "p", row_key, i < 100 ? "\"Rating\":1" : "\"V\":7");
    }
    stoppings = 0;
    h.between = wait_for_batch_at_second;
    h.stop_after = 2;
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_STOPPED);
    assert_int_equal(h.written, 100);
    hosted_put(&h, "Blogs", "a", "1", "\"Rating\":1");
    h.stop_after = -1;
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    assert_int_equal(h.written, 101);
}

/* The run is to stop as soon as the last of the table is written. */
static void stop_once_last_is_written(struct hosted *hosted)
{
    const char *last = hosted_json(hosted, "Blogs", "z", "1");

    if (strstr(last, "\"V\":2"))
        hosted->stop_after = hosted->stopping_calls;
}

static void what_a_killed_attempt_has_found_asks_for_another_pass(void **state)
{
    char row_key[16], *kept;

    (void)state;
    for (int i = 0; i < 500; i++) {
        snprintf(row_key, sizeof(row_key), "%06d", i);
        hosted_put(&h, "Blogs", "p", row_key, "\"V\":7");
    }
    put_old("z", "1");
    h.stop_after = 2;
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_STOPPED);
    assert_int_equal(h.written, 0);
    kept = mem_text(h.checkpoint, strlen(h.checkpoint));
    h.between = stop_once_last_is_written;
    h.stop_after = -1;
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_STOPPED);
    assert_int_equal(h.written, 1);
    /* It was killed, and nobody knows of more than its first place. */
    mem_free(h.checkpoint);
    h.checkpoint = kept;
    h.between = NULL;
    h.stop_after = -1;
    put_old("a", "1");
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    check_blog("a", "1", NEW);
}

static bool lost; /* a batch was carried out, and its answer was lost */

static enum fault cut_off_once_written(
    void *ctx, enum store_call call, unsigned n)
{
    (void)ctx;
    (void)n;
    if (lost)
        return FAULT_REFUSED;
    lost = call == CALL_BATCH;
    return lost ? FAULT_LOSE_ANSWER : FAULT_NONE;
}

static void what_an_outage_left_unknown_asks_for_another_pass(void **state)
{
    (void)state;
    fill_numbers(500);
    hosted_put(&h, "Numbers", "z", "1", "\"Rating\":1");
    h.stop_after = 2;
    assert_int_equal(hosted_attempt(&h, "twice", ""), RUN_STOPPED);
    lost = false;
    stand_between(NULL);
    faulty.choose = cut_off_once_written;
    h.stop_after = -1;
    assert_int_equal(hosted_attempt(&h, "twice", ""), RUN_OUTAGE);
    assert_true(lost);
    faulty.choose = NULL;
    hosted_put(&h, "Numbers", "a", "1", "\"Rating\":1");
    assert_int_equal(hosted_attempt(&h, "twice", ""), RUN_SUCCEEDED);
    assert_non_null(strstr(hosted_json(&h, "Numbers", "z", "1"), "\"V\":2"));
    assert_non_null(strstr(hosted_json(&h, "Numbers", "a", "1"), "\"V\":2"));
    faulty_done(&faulty);
}

/* ---- tried again after it failed ---- */

static void what_was_mended_after_a_failure_is_upgraded_by_a_retry(void **state)
{
    (void)state;
    put_old("p", "1");
    hosted_put(&h, "Blogs", "p", "2", "\"Rating\":\"five\"");
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_FAILED);
    hosted_replace(&h, "Blogs", "p", "2", "\"Text\":\"t\",\"Rating\":\"3\"");
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
    check_blog("p", "2", NEW);
    assert_int_equal(h.failed, 0);
}

static void retry_after_too_many_passes_has_all_its_passes_again(void **state)
{
    (void)state;
    added = 0;
    put_old("p", "1");
    h.between = add_another;
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_FAILED);
    h.between = NULL;
    assert_int_equal(hosted_attempt(&h, "v2", ""), RUN_SUCCEEDED);
}

static void table_that_was_missing_is_read_from_its_beginning(void **state)
{
    static const char kept[] =
        "{\"version\":1,\"pass\":2,\"waits\":0,\"surveyed\":false,"
        "\"done\":[\"p\",\"1\"],\"found\":0,\"awaited\":0,\"other\":0,"
        "\"held\":0,\"below\":0,\"failed\":0,\"skipped\":0}";

    (void)state;
    h.checkpoint = mem_text(kept, strlen(kept));
    assert_int_equal(hosted_attempt(&h, "lost", ""), RUN_FAILED);
    hosted_table(&h, "Lost");
    hosted_put(&h, "Lost", "a", "1", "\"Old\":1");
    assert_int_equal(hosted_attempt(&h, "lost", ""), RUN_SUCCEEDED);
    assert_string_equal(hosted_json(&h, "Lost", "a", "1"), "{\"V\":2}");
}

static void contract_that_failed_looks_again_when_it_is_retried(void **state)
{
    (void)state;
    stoppings = 0;
    hosted_put(&h, "Notes", "p", "1", "\"Text\":\"t\",\"Body\":\"t\",\"V\":2");
    h.between = add_old_note;
    assert_int_equal(hosted_attempt(&h, "contract", ""), RUN_FAILED);
    hosted_replace(
        &h, "Notes", "a", "1", "\"Text\":\"t\",\"Body\":\"t\",\"V\":2");
    assert_int_equal(hosted_attempt(&h, "contract", ""), RUN_SUCCEEDED);
    assert_string_equal(
        hosted_json(&h, "Notes", "a", "1"), "{\"Body\":\"t\",\"V\":2}");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_entity_comes_to_the_new_version),
        TEST(second_run_writes_nothing),
        TEST(only_what_the_filter_takes_is_upgraded),
        TEST(filter_that_stores_may_differ_on_is_not_sent),
        TEST(what_changed_meanwhile_is_read_and_decided_again),
        TEST(what_became_unconvertible_meanwhile_is_told),
        TEST(what_became_one_to_be_skipped_meanwhile_stays),
        TEST(what_was_contracted_meanwhile_stays),
        TEST(lost_answer_is_recognised_by_what_stands_there),
        TEST(what_the_service_will_not_store_is_told_once),
        TEST(what_the_service_refused_is_tried_by_a_second_pass),
        TEST(store_that_refuses_is_an_outage),
        TEST(what_was_added_behind_the_scan_is_met_by_the_next_pass),
        TEST(writers_that_never_stop_fail_the_run_with_the_number_left),
        TEST(what_cannot_be_converted_is_told_once_and_the_rest_is_done),
        TEST(what_is_to_be_skipped_is_counted_and_the_run_succeeds),
        TEST(what_a_new_version_still_holds_is_reported_and_not_touched),
        TEST(argument_that_makes_no_filter_fails_the_run),
        TEST(missing_table_fails_the_run),
        TEST(later_version_waits_for_the_earlier_one),
        TEST(what_an_earlier_job_does_during_the_last_pass_is_not_lost),
        TEST(job_that_nobody_has_asked_for_is_waited_for_too),
        TEST(it_is_asked_ever_more_seldom_up_to_a_bound),
        TEST(what_an_earlier_job_left_behind_is_left_alone),
        TEST(outage_while_others_are_asked_for_ends_the_attempt),
        TEST(contract_refuses_while_anything_is_below),
        TEST(contract_refuses_whatever_number_is_below),
        TEST(expand_keeps_and_contract_takes_the_old_property),
        TEST(what_comes_below_while_it_contracts_fails_the_run),
        TEST(attempt_stopped_anywhere_goes_on_where_it_was),
        TEST(what_is_not_written_yet_is_read_again_by_the_next_attempt),
        TEST(what_failed_before_a_stop_is_still_failed),
        TEST(what_is_read_anew_in_no_order_is_counted_anew),
        TEST(what_a_pass_found_before_a_stop_asks_for_another_pass),
        TEST(what_a_killed_attempt_has_found_asks_for_another_pass),
        TEST(what_an_outage_left_unknown_asks_for_another_pass),
        TEST(what_was_mended_after_a_failure_is_upgraded_by_a_retry),
        TEST(retry_after_too_many_passes_has_all_its_passes_again),
        TEST(table_that_was_missing_is_read_from_its_beginning),
        TEST(contract_that_failed_looks_again_when_it_is_retried),
    };

    return cmocka_run_group_tests_name("schema upgrade", tests, NULL, NULL);
}
