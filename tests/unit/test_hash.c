/* SPDX-License-Identifier: MIT */
/* Hashes have the values that the authors of the algorithm published. */
#include "tests/support/test.h"
#include "worker/base/hash.h"

TEST(a_text_has_its_published_hash)
{
    assert_true(hash_slice(HASH_BEGIN, slice_of("")) == HASH_BEGIN);
    assert_true(
        hash_slice(HASH_BEGIN, slice_of("a")) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(hash_slice(HASH_BEGIN, slice_of("foobar")) ==
                UINT64_C(0x85944171f73967e8));
}

TEST(a_hash_goes_on)
{
    uint64_t foo = hash_slice(HASH_BEGIN, slice_of("foo"));

    assert_true(hash_bytes(foo, "bar", 3) == UINT64_C(0x85944171f73967e8));
    assert_true(hash_bytes(foo, NULL, 0) == foo);
}

TEST(numbers_beside_each_other_are_mixed_apart)
{
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t differ = hash_mix(i) ^ hash_mix(i + 1);
        unsigned bits = 0;

        for (; differ; differ &= differ - 1)
            bits++;
        assert_in_range(bits, 10, 54);
    }
}
