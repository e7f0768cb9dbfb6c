/* SPDX-License-Identifier: MIT */
/* See fail_after.h. The functions run before main() and after it. */
#include "tests/support/fail_after.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker/base/mem.h"

#define COUNT_ALL (1UL << 40)

static const char *count_file;
static pid_t counted; /* the process that reports; its children do not */

__attribute__((constructor)) static void fail_after_begin(void)
{
    const char *n = getenv(FAIL_AFTER);

    count_file = getenv(FAIL_COUNT);
    counted = getpid();
    if (n)
        (void)mem_fail_after(strtoul(n, NULL, 10));
    else if (count_file)
        (void)mem_fail_after(COUNT_ALL);
}

__attribute__((destructor)) static void fail_after_end(void)
{
    FILE *file;
    unsigned long left = mem_fail_after(0);

    if (!count_file || getpid() != counted)
        return;
    file = fopen(count_file, "we");
    if (!file || fprintf(file, "%lu\n", COUNT_ALL - left) < 0 ||
        fclose(file) != 0)
        _exit(1);
}
