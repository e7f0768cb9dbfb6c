/* SPDX-License-Identifier: MIT */
/*
 * Part of every test program. If the environment variable FAIL_AFTER is n, the
 * n-th allocation since the program's start fails. If FAIL_COUNT names a file,
 * the program writes its number of allocations there when it ends. With both,
 * tests/faults makes each allocation fail once.
 */
#ifndef TW_TESTS_FAIL_AFTER_H
#define TW_TESTS_FAIL_AFTER_H

#define FAIL_AFTER "TABLEWARD_FAIL_AFTER"
#define FAIL_COUNT "TABLEWARD_FAIL_COUNT"

#endif
