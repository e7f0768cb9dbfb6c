/* SPDX-License-Identifier: MIT */
/*
 * Loads jobs from a piece of configuration and checks the problems that are
 * reported for it. No store is opened: loading needs only the names of the
 * stores.
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
    const char *names[2]; /* names of the stores: main, other */
    struct job_stores stores;
};

/* loading_begin: loads `text`, the map below `jobs:`. Main is the default
 * store. If `l` was begun before, it is ended first; else it must be zero. */
void loading_begin(struct loading *l, const char *text);

/* loading_begin_with: the same with `stores` stores, of which the one with the
 * index by_default is the default store. */
void loading_begin_with(
    struct loading *l, const char *text, size_t stores, size_t by_default);
void loading_done(struct loading *l);

/* LOADING_TEST: a test with a loading `l`. The test itself calls
 * loading_begin(), loading_begin_with() or loading_good(); loading_done() is
 * called after the test. */
int loading_set_up(void **state);
int loading_tear_down(void **state);
#define LOADING_TEST(name)                                                     \
    TEST_WITH(name, loading_set_up, loading_tear_down, struct loading *l)

/* loading_good: loads text, and fails if there is an error. */
void loading_good(struct loading *l, const char *text);

/*
 * loading_refused: fails unless `text` has an error, one of the problems
 * contains `part`, and no job is loaded.
 */
void loading_refused(const char *text, const char *part);

/* loading_says: returns whether one of the problems (errors and warnings)
 * contains part. */
bool loading_says(const struct loading *l, const char *part);

#endif
