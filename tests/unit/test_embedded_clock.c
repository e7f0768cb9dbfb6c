/* SPDX-License-Identifier: MIT */
/*
 * The clock of an embedded store, while the wall clock is stepped and machines
 * are rebooted. Several stores of one file stand for several processes.
 */
#include "tests/support/fixture.h"
#include "tests/support/store_file.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/virtual_platform.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

#define PATH "test.db"
#define OTHER_BOOT "00000000-0000-4000-8000-000000000002"
#define QUEUE "queue"

#define SECOND INT64_C(1000)
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)

/* Allowance for the time that reading the virtual clock takes, and for
 * fractions of a millisecond that are cut off. */
#define NEARLY (20 * TICKS_PER_MS)

static const int64_t STEPS[] = {HOUR, -HOUR, 2 * DAY, -2 * DAY};
#define STEPS_COUNT (sizeof(STEPS) / sizeof(STEPS[0]))

/* ---- the machine ---- */

static void pass(int64_t ms)
{
    virtual_step_clocks(0, ms, ms);
}

static void step(int64_t ms)
{
    virtual_step_clocks(0, ms, 0);
}

/* Boots the machine after it was off for off_ms. Negative off_ms: its wall
 * clock was set back. */
static void boot(const char *boot_id, int64_t off_ms)
{
    virtual_step_clocks(0, off_ms, 10 * SECOND - platform_boot_ms());
    virtual_set_boot_id(0, boot_id);
}

static struct store *open_store(const char *path)
{
    struct exchange exchange = {.deadline = NULL};
    struct store *opened = store_file_open(path);

    assert_ok(store_queue_create(opened, &exchange, QUEUE));
    return opened;
}

static struct store *store; /* store of the test; NULL: closed */

static void begin(void)
{
    store_file_remove(PATH);
    virtual_platform_use(&(struct virtual_options){.seed = 1,
        .boot_ms = 5 * DAY,
        .wall_ticks = TICKS_1970 + INT64_C(1800000000) * TICKS_PER_S});
}

static void end(void)
{
    if (store)
        store_close(store);
    store = NULL;
    virtual_platform_end();
}

static void close_store(void)
{
    store_close(store);
    store = NULL;
}

/* Reboots the machine and opens the store again. */
static void reboot(const char *boot_id, int64_t off_ms)
{
    close_store();
    boot(boot_id, off_ms);
    store = open_store(PATH);
}

static int set_up(void **state)
{
    begin();
    store = open_store(PATH);
    return 0;
}

static int tear_down(void **state)
{
    end();
    return 0;
}

/* CLOCK_TEST: a test with a store in a new file. */
#define CLOCK_TEST(name) TEST_IN(name, set_up, tear_down)

/* ---- times that a store returns ---- */

static int64_t date_of(struct store *asked)
{
    struct exchange exchange = {.deadline = NULL};
    int64_t count;

    assert_ok(store_queue_count(asked, &exchange, QUEUE, &count));
    return exchange.date_ticks;
}

/* Puts a message that is hidden for hide_s. Returns the Date of the response.
 * *ret_inserted: InsertionTime of the message; ret_inserted may be NULL. */
static int64_t put(struct store *asked, int64_t hide_s, int64_t *ret_inserted)
{
    struct exchange exchange = {.deadline = NULL};
    struct messages messages;

    messages_init(&messages);
    assert_ok(store_queue_put(
        asked, &exchange, QUEUE, slice_of("text"), hide_s, &messages));
    if (ret_inserted)
        *ret_inserted = messages.list[0].inserted_ticks;
    messages_done(&messages);
    return exchange.date_ticks;
}

/* Gets up to 32 messages, which are then hidden for an hour. Returns their
 * number. */
static size_t get(struct store *asked)
{
    struct exchange exchange = {.deadline = NULL};
    struct messages messages;
    size_t count;

    messages_init(&messages);
    assert_ok(store_queue_get(asked, &exchange, QUEUE, 32, 3600, &messages));
    count = messages.count;
    messages_done(&messages);
    return count;
}

#define check_near(is, expected) near((is), (expected), __LINE__)
static void near(int64_t is, int64_t expected, int line)
{
    int64_t off = is - expected;

    if (llabs(off) > NEARLY)
        fail_msg(
            "line %d: off by %lld ms", line, (long long)(off / TICKS_PER_MS));
}

static int64_t ticks(int64_t ms)
{
    return ms * TICKS_PER_MS;
}

/* ---- steps of the wall clock ---- */

static void close_all(struct store *stores[3])
{
    for (size_t s = 0; s < 3; s++)
        store_close(stores[s]);
}

/* After the step, three processes read the Date: the one that wrote, another
 * one that has the file open, and one that opens the file afterwards. */
TEST(a_step_is_nothing_to_it)
{
    for (size_t i = 0; i < STEPS_COUNT; i++) {
        struct store *stores[3];
        int64_t date;

        begin();
        stores[0] = open_store(PATH);
        stores[1] = open_store(PATH);
        date = put(stores[0], 60, NULL);
        step(STEPS[i]);
        stores[2] = open_store(PATH);
        for (size_t s = 0; s < 3; s++) {
            check_near(date_of(stores[s]), date);
            check_near(put(stores[s], 3600, NULL), date);
            assert_int_equal(get(stores[s]), 0);
        }
        /* The clock may be slower by an eighth, so 60 s may take up to 69 s. */
        pass(59 * SECOND);
        for (size_t s = 0; s < 3; s++)
            assert_int_equal(get(stores[s]), 0);
        pass(10 * SECOND);
        assert_int_equal(get(stores[i % 3]), 1);
        close_all(stores);
        end();
    }
}

/* Timestamp comes from the same clock as Date. */
CLOCK_TEST(entities_are_dated_by_it)
{
    struct fixture f = {0};
    int64_t date, dated;

    fixture_init(&f, store);
    step(-2 * DAY);
    (void)fixture_insert(&f, "p", "r", "");
    date = date_of(store);
    step(2 * DAY);
    assert_true(text_ticks(fixture_get(&f, "p", "r")->timestamp, &dated));
    check_near(dated, date);
    fixture_done(&f);
}

/* InsertionTime is compared with times that applications take from the wall
 * clock. */
CLOCK_TEST(insertion_time_is_the_wall_clocks)
{
    int64_t inserted, now_ticks;

    step(-2 * DAY);
    (void)put(store, 0, &inserted);
    now_ticks = platform_wall_ticks();
    assert_true(inserted <= now_ticks);
    assert_true(inserted > now_ticks - 2 * TICKS_PER_S);
}

/* run/lease.h: a lease ends 3 s after its owner's deadline. */
CLOCK_TEST(a_lease_of_an_hour_outlasts_its_owner)
{
    int64_t date = put(store, 0, NULL);
    step(2 * DAY);
    (void)put(store, 0, NULL);
    pass(HOUR);
    assert_true(date_of(store) < date + ticks(HOUR + 3 * SECOND));
}

/* ---- how the clock returns to the wall clock ---- */

static void write_every(int64_t ms, int times)
{
    for (int i = 0; i < times; i++) {
        (void)put(store, 0, NULL);
        pass(ms);
    }
}

TEST(too_late_it_runs_slower)
{
    begin();
    step(2 * DAY);
    store = open_store(PATH);
    step(-2 * DAY);
    write_every(HOUR, 15 * 24);
    check_near(date_of(store), platform_wall_ticks() + ticks(3 * HOUR));
    write_every(HOUR, 30);
    check_near(date_of(store), platform_wall_ticks());
    end();
}

CLOCK_TEST(behind_it_runs_a_little_faster)
{
    step(30 * SECOND);
    for (int minute = 0; minute < 34 * 60; minute++) {
        write_every(HOUR / 60, 1);
        assert_true(date_of(store) < platform_wall_ticks());
    }
    write_every(HOUR / 60, 60);
    check_near(date_of(store), platform_wall_ticks());
}

CLOCK_TEST(behind_and_idle_it_runs_faster)
{
    step(HOUR);
    (void)put(store, 0, NULL);
    pass(2 * HOUR);
    assert_true(date_of(store) < platform_wall_ticks() - ticks(HOUR / 2));
    pass(7 * HOUR);
    check_near(put(store, 0, NULL), platform_wall_ticks());
    pass(30 * DAY);
    check_near(date_of(store), platform_wall_ticks());
}

/* ---- other boots, other machines ---- */

CLOCK_TEST(after_a_reboot_it_is_the_wall_clock)
{
    step(DAY);
    (void)put(store, 0, NULL);
    reboot(OTHER_BOOT, 10 * HOUR);
    check_near(date_of(store), platform_wall_ticks());
    /* From its first read on, the store's clock does not follow steps of the
     * wall clock, even if nothing is written. */
    step(HOUR);
    check_near(date_of(store), platform_wall_ticks() - ticks(HOUR));
}

/* A virtual machine that was restored to an earlier state has the same boot id
 * and an earlier boot clock. */
CLOCK_TEST(a_machine_that_is_set_back_is_another_boot)
{
    int64_t date = put(store, 60, NULL);
    virtual_step_clocks(0, HOUR, -2 * HOUR);
    check_near(date_of(store), platform_wall_ticks());
    assert_true(date_of(store) >= date);
}

CLOCK_TEST(a_copy_goes_on_elsewhere)
{
    int64_t date = put(store, 60, NULL);
    reboot(OTHER_BOOT, -HOUR); /* its wall clock is an hour behind */
    check_near(date_of(store), date);
    assert_int_equal(get(store), 0);
    pass(69 * SECOND);
    assert_int_equal(get(store), 1);
    date = put(store, 0, NULL);
    reboot(VIRTUAL_BOOT_ID, 2 * HOUR);
    check_near(date_of(store), platform_wall_ticks());
    assert_true(date_of(store) > date);
}

/* The wall clock was 70 years ahead when the file was written. */
TEST(a_file_from_the_future_hides_nothing)
{
    int64_t date;

    begin();
    step(70 * 365 * DAY);
    store = open_store(PATH);
    date = put(store, 60, NULL);
    reboot(OTHER_BOOT, -70 * 365 * DAY);
    check_near(date_of(store), date);
    pass(69 * SECOND);
    assert_int_equal(get(store), 1);
    end();
}

TEST(without_a_boot_id_it_is_the_wall_clock_that_never_goes_back)
{
    int64_t date;

    begin();
    virtual_set_boot_id(0, "");
    store = open_store(PATH);
    step(HOUR);
    date = put(store, 0, NULL);
    check_near(date, platform_wall_ticks());
    step(-HOUR);
    check_near(date_of(store), date);
    end();
}

/* Lets one second pass. Container 0 writes if writers & 1, container 1 if
 * writers & 2, each with its own boot id. Returns how many messages the
 * containers find. */
static size_t share_a_second(
    struct store *stores[2], const char *const ids[2], unsigned writers)
{
    size_t found = 0;

    pass(SECOND);
    for (unsigned s = 0; s < 2; s++) {
        virtual_set_boot_id(0, ids[s]);
        if (writers & 1u << s)
            (void)put(stores[s], 3600, NULL);
        found += get(stores[s]);
    }
    return found;
}

/* Each of two containers on one kernel may have a boot id of its own
 * (systemd-nspawn), or both have none. The wall clock was set back. The store's
 * clock continues for both containers, no matter which of them writes. */
TEST(containers_with_a_boot_id_each_share_it)
{
    static const char *const ids[][2] = {
        {VIRTUAL_BOOT_ID, OTHER_BOOT}, {VIRTUAL_BOOT_ID, ""}, {"", ""}};

    for (unsigned i = 0; i < 9; i++) {
        struct store *stores[2];
        size_t found = 0;

        begin();
        for (unsigned s = 0; s < 2; s++) {
            virtual_set_boot_id(0, ids[i / 3][s]);
            stores[s] = open_store(PATH);
        }
        step(-HOUR);
        (void)put(stores[1], 60, NULL);
        for (int second = 0; second < 58; second++)
            found += share_a_second(stores, ids[i / 3], 1 + i % 3);
        assert_int_equal(found, 0);
        for (int second = 58; second < 70; second++)
            found += share_a_second(stores, ids[i / 3], 1 + i % 3);
        assert_int_equal(found, 1);
        store_close(stores[0]);
        store_close(stores[1]);
        end();
    }
}

/* ---- random steps and boots ---- */

static int64_t draw(int64_t below)
{
    return (int64_t)virtual_random((uint64_t)below);
}

/* Returns the Date of the three stores. Fails unless they show the same Date.
 */
static int64_t date_of_all(struct store *stores[3])
{
    int64_t date = date_of(stores[0]);

    for (size_t s = 1; s < 3; s++) {
        check_near(date_of(stores[s]), date);
        assert_true(date_of(stores[s]) >= date);
    }
    return date;
}

/* Fails if the store's clock ran faster or slower within one boot than clock.h
 * allows. It advanced by passed_ticks while really_ticks passed. */
static void check_passed(int64_t passed_ticks, int64_t really_ticks)
{
    assert_true(passed_ticks >= really_ticks - really_ticks / 8 - NEARLY);
    assert_true(passed_ticks <=
                really_ticks + really_ticks / 8 + really_ticks / 4096 + NEARLY);
}

static void open_all(struct store *stores[3])
{
    for (size_t s = 0; s < 3; s++)
        stores[s] = open_store(PATH);
}

TEST(it_never_goes_back_and_all_agree)
{
    struct store *stores[3];
    int64_t date, next, passed_ms;

    begin();
    open_all(stores);
    date = date_of_all(stores);
    for (int i = 0; i < 2000; i++) {
        if (draw(4) == 0)
            step(draw(2 * DAY) - DAY);
        if (draw(2) == 0)
            (void)put(stores[draw(3)], 0, NULL);
        passed_ms = draw(draw(2) ? SECOND : 3 * HOUR);
        pass(passed_ms);
        next = date_of_all(stores);
        check_passed(next - date, ticks(passed_ms));
        date = next;
        if (draw(20) > 0)
            continue;
        /* the next boot finds the time of this write in the file */
        date = put(stores[0], 0, NULL);
        close_all(stores);
        boot(draw(2) ? OTHER_BOOT : VIRTUAL_BOOT_ID, draw(2 * DAY) - DAY);
        open_all(stores);
        next = date_of_all(stores);
        assert_true(next >= date);
        date = next;
    }
    close_all(stores);
    end();
}

/* ---- the file ---- */

CLOCK_TEST(a_file_of_a_former_release_is_given_a_clock)
{
    int64_t date;

    (void)put(store, 0, NULL);
    close_store();
    store_file_change(PATH, "ALTER TABLE stamps DROP COLUMN ahead_ticks;"
                            "ALTER TABLE stamps DROP COLUMN ticks;"
                            "ALTER TABLE stamps DROP COLUMN boot_ms;"
                            "ALTER TABLE stamps DROP COLUMN boot_id");
    store = open_store(PATH);
    date = date_of(store);
    check_near(date, platform_wall_ticks());
    assert_int_equal(get(store), 1);
    step(-HOUR);
    check_near(date_of(store), date);
}

TEST(a_clock_that_is_nonsense_begins_anew)
{
    static const char *const nonsense[] = {
        "UPDATE stamps SET ticks = 9223372036854775807",
        "UPDATE stamps SET ticks = -9223372036854775807",
        "UPDATE stamps SET boot_ms = -9223372036854775807",
        "UPDATE stamps SET boot_id = hex(zeroblob(1000))",
        "UPDATE stamps SET boot_id = ''",
    };

    for (size_t i = 0; TEST_EACH(i, nonsense); i++) {
        begin();
        store_close(open_store(PATH));
        store_file_change(PATH, nonsense[i]);
        pass(HOUR);
        store = open_store(PATH);
        check_near(put(store, 0, NULL), platform_wall_ticks());
        end();
    }
}

TEST(a_lead_that_is_nonsense_is_made_up_for_slowly)
{
    static const char *const nonsense[] = {
        "UPDATE stamps SET ahead_ticks = 9223372036854775807",
        "UPDATE stamps SET ahead_ticks = -9223372036854775807 - 1",
    };

    for (size_t i = 0; i < 2; i++) {
        begin();
        store_close(open_store(PATH));
        store_file_change(PATH, nonsense[i]);
        pass(8 * SECOND);
        store = open_store(PATH);
        assert_true(llabs(put(store, 0, NULL) - platform_wall_ticks()) <
                    ticks(2 * SECOND));
        store_close(store);
        store_file_change(PATH, nonsense[i]);
        boot(OTHER_BOOT, SECOND);
        store = open_store(PATH);
        assert_true(
            llabs(date_of(store) - platform_wall_ticks()) <= ticks(HOUR));
        end();
    }
}

TEST(a_store_in_memory_has_it_too)
{
    int64_t date;

    begin();
    store = open_store(":memory:");
    date = put(store, 60, NULL);
    step(2 * DAY);
    check_near(date_of(store), date);
    assert_int_equal(get(store), 0);
    end();
}
