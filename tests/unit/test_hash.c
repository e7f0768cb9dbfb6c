/* SPDX-License-Identifier: MIT */
/* Hashes are what their authors published. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "worker/base/hash.h"

static void a_text_has_its_published_hash(void **state)
{
    (void)state;
    assert_true(hash_slice(HASH_BEGIN, slice_of("")) == HASH_BEGIN);
    assert_true(
        hash_slice(HASH_BEGIN, slice_of("a")) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(hash_slice(HASH_BEGIN, slice_of("foobar")) ==
                UINT64_C(0x85944171f73967e8));
}

static void a_hash_goes_on(void **state)
{
    uint64_t foo = hash_slice(HASH_BEGIN, slice_of("foo"));

    (void)state;
    assert_true(hash_bytes(foo, "bar", 3) == UINT64_C(0x85944171f73967e8));
    assert_true(hash_bytes(foo, NULL, 0) == foo);
}

static void numbers_beside_each_other_are_mixed_apart(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t differ = hash_mix(i) ^ hash_mix(i + 1);
        unsigned bits = 0;

        for (; differ; differ &= differ - 1)
            bits++;
        assert_in_range(bits, 10, 54);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_has_its_published_hash),
        cmocka_unit_test(a_hash_goes_on),
        cmocka_unit_test(numbers_beside_each_other_are_mixed_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
