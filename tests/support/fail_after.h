/* SPDX-License-Identifier: MIT */
/*
 * In every test program: with the variable FAIL_AFTER set to n, its n-th
 * allocation fails, counted from its start; with FAIL_COUNT set, the number of
 * them is written into the file of that name at its end. So that all of them
 * can be tried, from outside (tests/faults).
 */
#ifndef TW_TESTS_FAIL_AFTER_H
#define TW_TESTS_FAIL_AFTER_H

#define FAIL_AFTER "TABLEWARD_FAIL_AFTER"
#define FAIL_COUNT "TABLEWARD_FAIL_COUNT"

#endif
