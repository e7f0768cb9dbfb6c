/* SPDX-License-Identifier: MIT */
/*
 * Jobs from a piece of configuration, and what is said where it is wrong. No
 * store is opened: its names are all that loading looks at.
 */
#ifndef TW_TESTS_LOADING_H
#define TW_TESTS_LOADING_H

#include "config/problems.h"
#include "jobs/job.h"
#include "jobs/jobs.h"
#include "tests/support/test.h"
#include "worker/base/arena.h"

struct loading {
    struct arena arena;
    struct problems problems;
    struct jobs jobs;
    const char *names[2]; /* of stores: main, other */
    struct job_stores stores;
};

/* loading_begin: text is the map below `jobs:`. Main is the default store. l is
 * zero, or is ended before. */
void loading_begin(struct loading *l, const char *text);

/* loading_begin_with: the same with so many stores and this default one. */
void loading_begin_with(
    struct loading *l, const char *text, size_t stores, size_t by_default);
void loading_done(struct loading *l);

/* LOADING_TEST: a test with `l`, which it begins with one of these or with
 * loading_good(); loading_done() follows the test. */
int loading_set_up(void **state);
int loading_tear_down(void **state);
#define LOADING_TEST(name)                                                     \
    TEST_WITH(name, loading_set_up, loading_tear_down, struct loading *l)

/* loading_good: text loads without an error. */
void loading_good(struct loading *l, const char *text);

/*
 * loading_refused: text is refused, one of the errors holds part, and no job
 * came of it.
 */
void loading_refused(const char *text, const char *part);

/* loading_says: one of the problems, warnings too, holds part. */
bool loading_says(const struct loading *l, const char *part);

#endif
