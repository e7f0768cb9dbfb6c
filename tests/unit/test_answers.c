/* SPDX-License-Identifier: MIT */
/* Answers that take long to make. The HTTP thread does not wait for them. A
 * fresh answer is given again. An answer that was made before a change is not
 * given after it. */
#include <stdio.h>

#include "tests/support/test.h"
#include "worker/base/platform.h"
#include "worker/monitor/answers.h"

#define MAX_BYTES 1000
#define LONG_MS 30000

static struct platform_mutex lock;
static struct platform_cond changed;
/* begun: number of calls of count() that have begun. calls: number of those
 * that have ended. */
static unsigned begun, calls;
static bool closed; /* count() waits */

static struct answers *answers; /* of the test that runs */
static struct buf body;
static unsigned status;

/* Makes the answer: the number of answers before it, and the question. */
static void count(void *context, const char *question, struct answer *ret)
{
    platform_lock(&lock);
    begun++;
    platform_wake_all(&changed);
    while (closed)
        (void)platform_wait(&changed, &lock, PLATFORM_NEVER);
    buf_add_format(&ret->body, "%u %s", calls++, question);
    platform_unlock(&lock);
    ret->status = 201;
}

/* Waits until `number` calls of count() have begun. */
static void await_call(unsigned number)
{
    platform_lock(&lock);
    while (begun < number)
        (void)platform_wait(&changed, &lock, PLATFORM_NEVER);
    platform_unlock(&lock);
}

static void set_closed(bool to)
{
    platform_lock(&lock);
    closed = to;
    platform_wake_all(&changed);
    platform_unlock(&lock);
}

static void begin(int64_t fresh_ms, int64_t old_ms)
{
    answers = answers_new(&(struct answers_options){
        .name = "test",
        .answer = count,
        .max_bytes = MAX_BYTES,
        .fresh_ms = fresh_ms,
        .old_ms = old_ms,
    });
}

static enum answers_state ask(const char *question)
{
    buf_clear(&body);
    return answers_ask(answers, question, &status, &body);
}

static void assert_answer(const char *question, const char *answer)
{
    assert_int_equal(ask(question), ANSWERS_READY);
    assert_string_equal(buf_text(&body), answer);
    assert_int_equal(status, 201);
}

/* Asks again and again, as a page does, until the answer is `answer`. The first
 * call must return ANSWERS_PENDING. */
static void assert_new_answer(const char *question, const char *answer)
{
    assert_int_equal(ask(question), ANSWERS_PENDING);
    while (ask(question) == ANSWERS_PENDING)
        continue;
    assert_string_equal(buf_text(&body), answer);
    assert_int_equal(status, 201);
}

static int set_up(void **state)
{
    begun = calls = 0;
    closed = false;
    return 0;
}

static int tear_down(void **state)
{
    if (test_passed())
        answers_free(answers);
    return 0;
}

#define ANSWERS_TEST(name) TEST_IN(name, set_up, tear_down)

ANSWERS_TEST(a_fresh_answer_is_given_again)
{
    begin(LONG_MS, LONG_MS);
    assert_new_answer("a", "0 a");
    assert_answer("a", "0 a");
    assert_new_answer("ab", "1 ab");
    assert_answer("a", "0 a");
    answers_forget(answers);
    assert_new_answer("a", "2 a");
}

/* A page with a slow connection asks again when the answer is no longer fresh.
 * It gets the old answer, because it would never get a fresh one. */
ANSWERS_TEST(an_old_answer_is_given_to_the_first_who_asks)
{
    begin(0, LONG_MS);
    assert_new_answer("a", "0 a");
    assert_new_answer("a", "1 a");
}

/* Waits until the answer is ready, without asking for it. */
static void wait_for(const char *question)
{
    enum answers_state looked;

    do {
        buf_clear(&body);
        looked = answers_look(answers, question, &status, &body);
        assert_int_not_equal(looked, ANSWERS_NONE);
    } while (looked == ANSWERS_PENDING);
}

/* An answer that is being made when something is changed may be older than the
 * change. */
ANSWERS_TEST(a_forgotten_answer_is_given_to_nobody)
{
    begin(LONG_MS, LONG_MS);
    set_closed(true);
    assert_int_equal(ask("a"), ANSWERS_PENDING);
    await_call(1);
    answers_forget(answers);
    set_closed(false);
    while (ask("a") == ANSWERS_PENDING)
        continue;
    assert_string_equal(buf_text(&body), "1 a");
}

ANSWERS_TEST(too_many_pending_questions_are_refused)
{
    char question[16];

    begin(LONG_MS, LONG_MS);
    set_closed(true);
    for (int i = 0; i < ANSWERS_MAX; i++) {
        (void)snprintf(question, sizeof(question), "q%d", i);
        assert_int_equal(ask(question), ANSWERS_PENDING);
    }
    assert_int_equal(ask("one more"), ANSWERS_NONE);
    set_closed(false);
    for (int i = 0; i < ANSWERS_MAX; i++) {
        (void)snprintf(question, sizeof(question), "q%d", i);
        wait_for(question);
    }
    assert_int_not_equal(ask("one more"), ANSWERS_NONE);
}

ANSWERS_TEST(what_was_not_asked_for_lately_makes_room)
{
    char question[16], answer[20];

    begin(LONG_MS, LONG_MS);
    for (int i = 0; i < ANSWERS_MAX; i++) {
        (void)snprintf(question, sizeof(question), "q%d", i);
        (void)snprintf(answer, sizeof(answer), "%d q%d", i, i);
        assert_new_answer(question, answer);
    }
    assert_answer("q0", "0 q0");
    assert_int_equal(ask("one more"), ANSWERS_PENDING);
    assert_int_equal(answers_look(answers, "q1", &status, &body), ANSWERS_NONE);
    assert_answer("q0", "0 q0");
}

static unsigned ticks;

static void tick(void *context)
{
    platform_lock(&lock);
    ticks++;
    platform_wake_all(&changed);
    platform_unlock(&lock);
}

ANSWERS_TEST(ticks_come_without_questions)
{
    answers = answers_new(&(struct answers_options){
        .name = "test",
        .answer = count,
        .tick = tick,
        .tick_ms = 1,
        .max_bytes = MAX_BYTES,
    });

    platform_lock(&lock);
    while (ticks < 3)
        (void)platform_wait(&changed, &lock, PLATFORM_NEVER);
    platform_unlock(&lock);
}

static int make_locks(void **state)
{
    platform_mutex_init(&lock);
    platform_cond_init(&changed);
    buf_init(&body, MAX_BYTES);
    return 0;
}

static int remove_locks(void **state)
{
    buf_done(&body);
    platform_cond_done(&changed);
    platform_mutex_done(&lock);
    return 0;
}

int main(void)
{
    return test_run_all(make_locks, remove_locks);
}
