/* SPDX-License-Identifier: MIT */
/* The virtual platform: what a seed decides, and what it does not. Its threads
 * may not contain assertions: a failing assertion jumps to the stack of the
 * test. */
#include "tests/support/test.h"
#include "tests/support/workbench.h"

#include <stdio.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/log.h"
#include "worker/base/text.h"
#include "worker/run/consumer.h"

#define START_MS 5000
#define START_TICKS (TICKS_1970 + 1000 * TICKS_PER_S)
#define HOUR_MS ((int64_t)3600 * 1000)

static void begin(uint64_t seed)
{
    virtual_platform_use(&(struct virtual_options){
        .seed = seed, .boot_ms = START_MS, .wall_ticks = START_TICKS});
}

static int end(void **state)
{
    virtual_platform_end();
    return 0;
}

/* Runs one process with one thread to its end. */
static void play(uint64_t seed, void (*body)(void *arg), void *arg)
{
    begin(seed);
    virtual_start(virtual_process("p"), "thread", body, arg);
    assert_int_equal(virtual_run(), VIRTUAL_DONE);
}

/* ---- many threads fill and empty a buffer with one place ---- */

#define PAIRS 4
#define ROUNDS 25

struct busy {
    struct platform_mutex lock;
    struct platform_cond changed;
    unsigned full, given, taken, timeouts, inside, together;
};

/* Call with the lock held. `together` is the maximum number of threads that
 * were in this function at once. */
static void stay_a_while(struct busy *busy)
{
    busy->inside++;
    virtual_yield();
    if (busy->inside > busy->together)
        busy->together = busy->inside;
    busy->inside--;
}

static void move(struct busy *busy, unsigned want_full, unsigned *count)
{
    platform_lock(&busy->lock);
    while (busy->full != want_full)
        if (!platform_wait(&busy->changed, &busy->lock, platform_boot_ms() + 3))
            busy->timeouts++;
    stay_a_while(busy);
    busy->full = !want_full;
    (*count)++;
    virtual_note("moved %u", *count);
    platform_wake_all(&busy->changed);
    platform_unlock(&busy->lock);
}

static void give(void *arg)
{
    struct busy *busy = arg;

    for (int i = 0; i < ROUNDS; i++) {
        move(busy, 0, &busy->given);
        if (platform_random_below(4) == 0)
            virtual_sleep((int64_t)platform_random_below(10));
    }
}

static void take_all(void *arg)
{
    struct busy *busy = arg;
    struct platform_thread helper;

    platform_start(&helper, "giver", give, busy);
    for (int i = 0; i < ROUNDS; i++)
        move(busy, 1, &busy->taken);
    platform_join(&helper);
}

static uint64_t run_busy(uint64_t seed, struct busy *busy)
{
    enum virtual_end how;
    uint64_t hash;

    begin(seed);
    *busy = (struct busy){0};
    platform_mutex_init(&busy->lock);
    platform_cond_init(&busy->changed);
    for (int i = 0; i < PAIRS; i++)
        virtual_start(virtual_process("pair"), "taker", take_all, busy);
    how = virtual_run();
    platform_cond_done(&busy->changed);
    platform_mutex_done(&busy->lock);
    hash = virtual_hash();
    virtual_platform_end();
    assert_int_equal(how, VIRTUAL_DONE);
    assert_int_equal(busy->together, 1);
    assert_int_equal(busy->given, PAIRS * ROUNDS);
    assert_int_equal(busy->taken, PAIRS * ROUNDS);
    return hash;
}

TEST(a_seed_replays_exactly)
{
    unsigned timeouts = 0;
    uint64_t last = 0;

    for (uint64_t seed = 1; seed < 30; seed++) {
        struct busy busy;
        uint64_t hash = run_busy(seed, &busy);

        assert_true(hash == run_busy(seed, &busy));
        assert_true(hash != last);
        last = hash;
        timeouts += busy.timeouts;
    }
    assert_true(timeouts > 0);
}

/* ---- time ---- */

struct moments {
    struct platform_mutex lock;
    struct platform_cond cond;
    int64_t began_ms, ended_ms, process_ms, wall_ms;
    bool woken;
};

static void wait_an_hour(void *arg)
{
    struct moments *moments = arg;

    platform_mutex_init(&moments->lock);
    platform_cond_init(&moments->cond);
    platform_lock(&moments->lock);
    moments->began_ms = virtual_ms();
    moments->woken = true;
    while (platform_boot_ms() < moments->process_ms + HOUR_MS)
        moments->woken = platform_wait(
            &moments->cond, &moments->lock, moments->process_ms + HOUR_MS);
    moments->ended_ms = virtual_ms();
    platform_unlock(&moments->lock);
}

static void look_at_clocks(void *arg)
{
    struct moments *moments = arg;

    virtual_step_clocks(virtual_self(), -2 * HOUR_MS, HOUR_MS);
    moments->process_ms = platform_boot_ms();
    moments->wall_ms = (platform_wall_ticks() - START_TICKS) / TICKS_PER_MS;
    virtual_mask();
    moments->began_ms = platform_boot_ms();
    virtual_unmask();
    wait_an_hour(arg);
}

TEST(a_process_has_clocks_of_its_own)
{
    struct moments moments = {0};

    play(8, look_at_clocks, &moments);
    assert_false(moments.woken);
    assert_in_range(
        moments.process_ms, START_MS + HOUR_MS, START_MS + HOUR_MS + 10);
    assert_true(moments.wall_ms <= -2 * HOUR_MS + 10);
    assert_in_range(moments.began_ms, START_MS, START_MS + 20);
    assert_in_range(
        moments.ended_ms, START_MS + HOUR_MS, START_MS + HOUR_MS + 20);
    assert_true(platform_boot_ms() < START_MS + HOUR_MS + 30);
}

static void spin(void *arg)
{
    int64_t until_ms = platform_boot_ms() + 100;

    while (platform_boot_ms() < until_ms)
        virtual_yield();
}

static void spin_for_ever(void *arg)
{
    for (;;)
        virtual_yield();
}

TEST(too_many_steps_and_too_much_time_end_the_run)
{
    virtual_platform_use(&(struct virtual_options){.limit_steps = 1000});
    virtual_start(virtual_process("p"), "thread", spin_for_ever, NULL);
    assert_int_equal(virtual_run(), VIRTUAL_TOO_LONG);
    assert_int_equal(virtual_steps(), 1000);
    virtual_platform_use(&(struct virtual_options){.limit_ms = 50});
    virtual_start(virtual_process("p"), "thread", spin_for_ever, NULL);
    assert_int_equal(virtual_run(), VIRTUAL_TOO_LONG);
    assert_in_range(virtual_ms(), 50, 60);
}

/* ---- deadlocks, stalls, crashes ---- */

struct fork {
    struct platform_mutex *first, *second;
};

static void take_both(void *arg)
{
    struct fork *fork = arg;

    platform_lock(fork->first);
    virtual_sleep(5);
    platform_lock(fork->second);
    platform_unlock(fork->second);
    platform_unlock(fork->first);
}

TEST(a_deadlock_is_said)
{
    struct platform_mutex one, other;
    struct fork left = {&one, &other}, right = {&other, &one};
    int process;

    begin(10);
    platform_mutex_init(&one);
    platform_mutex_init(&other);
    process = virtual_process("p");
    virtual_start(process, "left", take_both, &left);
    virtual_start(process, "right", take_both, &right);
    assert_int_equal(virtual_run(), VIRTUAL_STUCK);
    assert_true(virtual_alive(process));
}

struct beat {
    int victim; /* the process that is stalled or crashed */
    int64_t last_ms, gap_ms;
    unsigned beats, after;
};

static void beat(void *arg)
{
    struct beat *own = arg;

    own->last_ms = virtual_ms();
    for (int i = 0; i < 100; i++) {
        int64_t now_ms;

        virtual_sleep(100);
        now_ms = virtual_ms();
        if (now_ms - own->last_ms > own->gap_ms)
            own->gap_ms = now_ms - own->last_ms;
        own->last_ms = now_ms;
        own->beats++;
    }
}

static void stall_the_other(void *arg)
{
    virtual_sleep(1000);
    virtual_stall(((struct beat *)arg)->victim, 60000);
}

static void stall_its_heart(void *arg)
{
    virtual_sleep(1000);
    virtual_stall_thread(((struct beat *)arg)->victim, "heart", 60000);
}

static void crash_the_other(void *arg)
{
    virtual_sleep(1000);
    virtual_crash(((struct beat *)arg)->victim);
}

static struct beat heart, lung, bystander;

static void run_beats(void (*what)(void *arg))
{
    int process;

    begin(11);
    heart = lung = bystander = (struct beat){0};
    bystander.victim = virtual_process("victim");
    virtual_start(bystander.victim, "heart", beat, &heart);
    virtual_start(bystander.victim, "lung", beat, &lung);
    process = virtual_process("other");
    virtual_start(process, "beat", beat, &bystander);
    virtual_start(process, "villain", what, &bystander);
    assert_int_equal(virtual_run(), VIRTUAL_DONE);
    assert_int_equal(bystander.beats, 100);
    assert_in_range(bystander.gap_ms, 100, 120);
    assert_false(virtual_alive(bystander.victim));
}

TEST(a_stalled_process_sleeps_and_goes_on)
{
    run_beats(stall_the_other);
    assert_int_equal(heart.beats, 100);
    assert_int_equal(lung.beats, 100);
    assert_in_range(heart.gap_ms, 60000, 60120);
    assert_in_range(lung.gap_ms, 60000, 60120);
}

TEST(a_stalled_thread_leaves_the_others_going)
{
    run_beats(stall_its_heart);
    assert_in_range(heart.gap_ms, 60000, 60120);
    assert_in_range(lung.gap_ms, 100, 120);
}

TEST(a_crashed_process_never_goes_on)
{
    run_beats(crash_the_other);
    assert_in_range(heart.beats, 8, 10);
    assert_in_range(lung.beats, 8, 10);
}

static void crash_oneself(void *arg)
{
    struct beat *own = arg;

    virtual_sleep(10);
    own->beats++;
    virtual_mask();
    virtual_crash(virtual_self());
    virtual_yield();
    own->beats++;
    virtual_unmask();
    own->after++;
}

TEST(a_crash_waits_for_the_end_of_the_mask)
{
    struct beat own = {0};
    int process;

    begin(12);
    heart = (struct beat){0};
    process = virtual_process("p");
    virtual_start(process, "thread", crash_oneself, &own);
    virtual_start(process, "heart", beat, &heart);
    assert_int_equal(virtual_run(), VIRTUAL_DONE);
    assert_int_equal(own.beats, 2);
    assert_int_equal(own.after, 0);
    assert_int_equal(heart.beats, 0);
}

static void stall_oneself(void *arg)
{
    struct beat *own = arg;

    virtual_mask();
    virtual_stall(virtual_self(), 1000);
    own->last_ms = virtual_ms();
    virtual_unmask();
    own->gap_ms = virtual_ms() - own->last_ms;
}

TEST(a_stall_waits_for_the_end_of_the_mask)
{
    struct beat own = {0};

    play(13, stall_oneself, &own);
    assert_in_range(own.last_ms, START_MS, START_MS + 10);
    assert_in_range(own.gap_ms, 1000, 1010);
}

static void be_alone(void *arg)
{
    struct busy *busy = arg;

    for (int i = 0; i < 100; i++) {
        virtual_mask();
        stay_a_while(busy);
        platform_lock(&busy->lock);
        platform_unlock(&busy->lock);
        stay_a_while(busy);
        virtual_unmask();
        virtual_yield();
    }
}

TEST(who_is_masked_is_alone)
{
    struct busy busy = {0};

    begin(14);
    platform_mutex_init(&busy.lock);
    for (int i = 0; i < 3; i++)
        virtual_start(virtual_process("p"), "thread", be_alone, &busy);
    assert_int_equal(virtual_run(), VIRTUAL_DONE);
    assert_int_equal(busy.together, 1);
    assert_true(virtual_steps() > 300);
}

/* ---- cost ---- */

static long resident_pages(void)
{
    long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &total, &resident), 2);
    (void)fclose(file);
    return resident;
}

TEST(a_thousand_worlds_leave_nothing_behind)
{
    struct beat beats[20];
    struct busy busy;
    long before;

    (void)run_busy(1, &busy);
    before = resident_pages();
    for (uint64_t seed = 0; seed < 1000; seed++) {
        begin(seed);
        memset(beats, 0, sizeof(beats));
        for (int i = 0; i < 20; i++)
            virtual_start(
                virtual_process("p"), "thread", i % 2 ? spin : beat, &beats[i]);
        virtual_crash(20);
        if (seed % 10 == 0)
            assert_int_equal(virtual_run(), VIRTUAL_DONE);
    }
    virtual_platform_end();
    /* At most 2 MiB may remain of 20,000 threads. If a page of each thread
     * remained, it would be 80 MiB. A sanitizer keeps freed memory for a
     * while. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) &&         \
    !defined(__clang__)
    assert_true(resident_pages() - before < 512);
#else
    (void)before;
#endif
}

/* ---- a worker on the virtual platform ---- */

struct drained {
    struct workbench bench;
    struct consumer *consumer;
    struct consumer_result result;
    struct err err;
    enum tw_err outcome;
};

static void drain(void *arg)
{
    struct drained *drained = arg;
    struct consumer_options options = {
        .definition = definition_hold(&drained->bench.definition),
        .drain = true};

    drained->consumer = consumer_new(&options);
    drained->outcome =
        consumer_run(drained->consumer, &drained->result, &drained->err);
    consumer_free(drained->consumer);
}

static uint64_t run_drain(uint64_t seed)
{
    struct drained *drained = test_calloc(1, sizeof(*drained));
    uint64_t hash;

    begin(seed);
    workbench_init(&drained->bench);
    drained->bench.delay_ms = 3;
    for (int i = 0; i < 5; i++)
        workbench_put(&drained->bench, BENCH_QUEUE,
            "{\"job\":\"delete-channel\",\"args\":{\"channel\":\"Surf\"}}");
    virtual_start(virtual_process("worker"), "worker", drain, drained);
    assert_int_equal(virtual_run(), VIRTUAL_DONE);
    assert_ok(drained->outcome);
    assert_int_equal(drained->result.succeeded, 5);
    assert_int_equal(workbench_count(&drained->bench, BENCH_QUEUE), 0);
    workbench_done(&drained->bench);
    hash = virtual_hash();
    virtual_platform_end();
    test_free(drained);
    return hash;
}

TEST(a_worker_drains_its_queue_in_it)
{
    log_set(LOG_ERROR, LOG_TEXT);
    for (uint64_t seed = 1; seed < 20; seed++)
        assert_true(run_drain(seed) == run_drain(seed));
    log_set(LOG_INFO, LOG_TEXT);
}

int main(void)
{
    return test_run_all(NULL, end);
}
