/* SPDX-License-Identifier: MIT */
/*
 * struct difference compares two sides. There is no difference if both sides
 * have the same entities, in any order. Otherwise the difference locates all
 * entities that differ. It may also locate a few entities that do not differ.
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

TEST(what_differs_is_located)
{
    static const struct {
        /* expected, found: the value on each side; NULL: missing there. */
        const char *name, *expected, *found;
    } cases[] = {{"missing", "first", NULL}, {"left over", NULL, "first"},
        {"another value", "first", "second"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct difference *d = made_of_many();
        unsigned others = 0;

        test_case("%s", cases[i].name);
        assert_true(difference_is_none(d));
        if (cases[i].expected)
            expect_one(d, MANY + 7, cases[i].expected);
        if (cases[i].found)
            find(d, MANY + 7, cases[i].found);
        assert_false(difference_is_none(d));
        assert_true(is_at(d, MANY + 7));
        for (unsigned key = 0; key < MANY; key++)
            others += is_at(d, key);
        assert_true(others < 20);
        difference_free(d);
    }
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
