/* SPDX-License-Identifier: MIT */
/*
 * The difference of two sides: there is none if both have the same entities, in
 * any order; otherwise only few entities must be read again.
 */
#include <stdio.h>

#include "jobs/engine/difference.h"
#include "tests/support/test.h"

enum { MANY = 50000 };

static struct slice key_of(unsigned number, char room[16])
{
    (void)snprintf(room, 16, "%06u", number);
    return slice_of(room);
}

static void expect_one(struct difference *d, unsigned key, const char *value)
{
    char room[16];

    difference_expect(
        d, slice_of("A"), key_of(key, room), digest_of(slice_of(value)));
}

static void find(struct difference *d, unsigned key, const char *value)
{
    char room[16];

    difference_found(
        d, slice_of("A"), key_of(key, room), digest_of(slice_of(value)));
}

static bool is_at(const struct difference *d, unsigned key)
{
    char room[16];

    return difference_is_at(d, slice_of("A"), key_of(key, room));
}

static struct difference *made_of_many(void)
{
    struct difference *d = difference_new();

    for (unsigned i = 0; i < MANY; i++) {
        expect_one(d, i, "first");
        find(d, MANY - 1 - i, "first");
    }
    return d;
}

TEST(two_sides_are_equal_in_any_order)
{
    struct difference *d = made_of_many();

    assert_true(difference_is_none(d));
    difference_free(d);
    difference_free(NULL);
}

static void check_differs_alone(struct difference *d, unsigned key)
{
    unsigned others = 0;

    assert_false(difference_is_none(d));
    assert_true(is_at(d, key));
    for (unsigned i = 0; i < MANY; i++)
        others += is_at(d, i);
    assert_true(others < 20);
    difference_free(d);
}

TEST(what_is_missing_is_located)
{
    struct difference *d = made_of_many();

    expect_one(d, MANY + 7, "first");
    check_differs_alone(d, MANY + 7);
}

TEST(what_is_left_over_is_located)
{
    struct difference *d = made_of_many();

    find(d, MANY + 7, "first");
    check_differs_alone(d, MANY + 7);
}

TEST(another_value_is_located)
{
    struct difference *d = made_of_many();

    expect_one(d, MANY + 7, "first");
    find(d, MANY + 7, "second");
    check_differs_alone(d, MANY + 7);
}

TEST(what_is_expected_twice_differs)
{
    struct difference *d = difference_new();

    expect_one(d, 1, "first");
    expect_one(d, 1, "first");
    find(d, 1, "first");
    assert_true(is_at(d, 1));
    find(d, 1, "first");
    assert_true(difference_is_none(d));
    difference_free(d);
}
