/* SPDX-License-Identifier: MIT */
/* Credentials are found and overwritten in texts that a service or a proxy
 * wrote. */
#include <stdio.h>

#include "tests/support/test.h"
#include "worker/store/azure/redact.h"

#define SIGNATURE "xTTIoWBK7u+nSgfft7uKiDmecLL9GEiBUE4qVj03gko="

static void check(const char *before, const char *expected)
{
    char text[256];

    snprintf(text, sizeof(text), "%s", before);
    redact(text, slice_of(SIGNATURE));
    assert_string_equal(text, expected);
}

TEST(pieces_of_a_secret_are_covered)
{
    check("", "");
    check("nothing here", "nothing here");
    check(SIGNATURE, "********************************************");
    check("(" SIGNATURE ")", "(********************************************)");
    check("cut off: xTTIoWBK7u+n", "cut off: ************");
    check("too short: xTTIoWBK7u+", "too short: xTTIoWBK7u+");
    check("Vj03gko=.", "Vj03gko=.");
    check("UE4qVj03gko=.", "************.");
    check("xTTIoWBK7u+nxTTIoWBK7u+n!", "************************!");
}

TEST(a_secret_that_is_too_short_covers_nothing)
{
    char text[] = "abcdefghijklmnop";

    redact(text, slice_of("abcdefghijk"));
    redact(text, (struct slice){NULL, 0});
    assert_string_equal(text, "abcdefghijklmnop");
}

TEST(a_sas_is_covered_as_written_and_as_read)
{
    static const char *const sas[] = {
        "sv=1&sig=ab%2Fcdefghijklm%3D&se=2", "sig=ab%2Fcdefghijklm%3D"};

    for (size_t i = 0; i < 2; i++) {
        char text[] = "ab%2Fcdefghijklm%3D ab/cdefghijklm= sv=1&se=2";

        redact_sas(text, sas[i]);
        assert_string_equal(
            text, "******************* *************** sv=1&se=2");
    }
    redact_sas((char[]){"text"}, NULL);
    redact_sas((char[]){"text"}, "sv=1");
}
