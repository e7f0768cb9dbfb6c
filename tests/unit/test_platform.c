/* SPDX-License-Identifier: MIT */
/* The real platform: clocks, waits, threads. */
#include <signal.h>
#include <time.h>

#include "tests/support/test.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

TEST(the_boot_id_stays_as_it_is)
{
    const char *id = platform_boot_id();

    assert_int_equal(strlen(id), 36);
    assert_int_equal(strspn(id, "0123456789abcdef-"), 36);
    assert_ptr_equal(platform_boot_id(), id);
}

TEST(wall_ticks_are_the_systems_time)
{
    int64_t before = (int64_t)time(NULL), now = platform_wall_ticks();
    int64_t after = (int64_t)time(NULL);

    /* time() may lag by a tick of the kernel's clock. */
    assert_true(now >= TICKS_1970 + (before - 1) * TICKS_PER_S);
    assert_true(now <= TICKS_1970 + (after + 2) * TICKS_PER_S);
}

TEST(random_bytes_fill_what_was_asked_for)
{
    unsigned char bytes[1024] = {0};
    size_t zeroes = 0;

    platform_random(bytes, sizeof(bytes) - 1);
    assert_int_equal(bytes[sizeof(bytes) - 1], 0);
    for (size_t i = 0; i < sizeof(bytes); i++)
        zeroes += bytes[i] == 0;
    assert_true(zeroes < 100);
}

TEST(random_numbers_stay_below_their_limit)
{
    unsigned seen[7] = {0};

    for (int i = 0; i < 7000; i++) {
        uint64_t drawn = platform_random_below(7);

        assert_true(drawn < 7);
        seen[drawn]++;
    }
    for (int i = 0; i < 7; i++)
        assert_true(
            seen[i] > 500); /* 1000 are expected; 500 are 17 sigma less */
    assert_true(platform_random_below(1) == 0);
    for (int i = 0; i < 100; i++)
        assert_true(
            platform_random_below(UINT64_MAX / 2 + 2) <= UINT64_MAX / 2 + 1);
}

/* Shared between a test and its thread. */
struct meeting {
    struct platform_mutex mutex;
    struct platform_cond cond;
    int count;     /* guarded by mutex */
    char name[32]; /* guarded by mutex, like the fields below */
    sigset_t blocked;
};

static void meeting_init(struct meeting *meeting)
{
    *meeting = (struct meeting){0};
    platform_mutex_init(&meeting->mutex);
    platform_cond_init(&meeting->cond);
}

static void meeting_done(struct meeting *meeting)
{
    platform_cond_done(&meeting->cond);
    platform_mutex_done(&meeting->mutex);
}

TEST_FIXTURE(meeting, struct meeting, meeting_init, meeting_done)

#define MEETING_TEST(name)                                                     \
    TEST_WITH(name, meeting_set_up, meeting_tear_down, struct meeting *meeting)

static void answer(void *arg)
{
    struct meeting *meeting = arg;

    platform_lock(&meeting->mutex);
    while (meeting->count == 0)
        platform_wait(&meeting->cond, &meeting->mutex, PLATFORM_NEVER);
    pthread_getname_np(pthread_self(), meeting->name, sizeof(meeting->name));
    pthread_sigmask(SIG_SETMASK, NULL, &meeting->blocked);
    meeting->count++;
    platform_wake_all(&meeting->cond);
    platform_unlock(&meeting->mutex);
}

MEETING_TEST(threads_wake_each_other)
{
    struct platform_thread thread;
    sigset_t own;

    platform_start(&thread, "a-name-that-is-too-long", answer, meeting);
    platform_lock(&meeting->mutex);
    meeting->count = 1;
    platform_wake_all(&meeting->cond);
    while (meeting->count < 2)
        platform_wait(
            &meeting->cond, &meeting->mutex, platform_boot_ms() + 60000);
    platform_unlock(&meeting->mutex);
    platform_join(&thread);
    assert_string_equal(meeting->name, "a-name-that-is-");
    assert_true(sigismember(&meeting->blocked, SIGTERM));
    assert_true(sigismember(&meeting->blocked, SIGHUP));
    pthread_sigmask(SIG_SETMASK, NULL, &own);
    assert_false(sigismember(&own, SIGTERM));
}

MEETING_TEST(a_wait_ends_at_its_time_and_not_before)
{
    int64_t until;

    platform_lock(&meeting->mutex);
    assert_false(
        platform_wait(&meeting->cond, &meeting->mutex, platform_boot_ms()));
    assert_false(platform_wait(&meeting->cond, &meeting->mutex, 0));
    assert_false(platform_wait(&meeting->cond, &meeting->mutex, INT64_MIN));
    until = platform_boot_ms() + 30;
    while (platform_wait(&meeting->cond, &meeting->mutex, until))
        assert_true(platform_boot_ms() <= until + 60000);
    assert_true(platform_boot_ms() >= until);
    platform_unlock(&meeting->mutex);
}

static void add_many(void *arg)
{
    struct meeting *meeting = arg;

    for (int i = 0; i < 1000; i++) {
        platform_lock(&meeting->mutex);
        meeting->count++;
        platform_unlock(&meeting->mutex);
    }
}

MEETING_TEST(a_lock_admits_one_at_a_time)
{
    struct platform_thread threads[4];

    for (int i = 0; i < 4; i++)
        platform_start(&threads[i], "adder", add_many, meeting);
    for (int i = 0; i < 4; i++)
        platform_join(&threads[i]);
    assert_int_equal(meeting->count, 4000);
}

/* If the signal were not blocked and then discarded, it would end the test. */
TEST(a_blocked_pipe_signal_is_forgotten)
{
    assert_true(platform_block_pipe());
    assert_false(platform_block_pipe());
    raise(SIGPIPE);
    platform_let_pipe();
    assert_true(platform_block_pipe());
    platform_let_pipe();
}
