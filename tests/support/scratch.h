/* SPDX-License-Identifier: MIT */
/*
 * An arena for what a test makes: empty at its beginning, gone at its end.
 */
#ifndef TW_TESTS_SUPPORT_SCRATCH_H
#define TW_TESTS_SUPPORT_SCRATCH_H

#include "tests/support/test.h"
#include "worker/base/arena.h"
#include "worker/store/entity.h"

extern struct arena scratch;

int scratch_set_up(void **state);
int scratch_tear_down(void **state);

/* SCRATCH_TEST: a test with an empty scratch. */
#define SCRATCH_TEST(name) TEST_IN(name, scratch_set_up, scratch_tear_down)

/* scratch_entity: from the service's JSON, which must be one. In scratch. */
struct entity scratch_entity(const char *text);

/* scratch_assert_written: entity is text, once it is written. */
void scratch_assert_written(const struct entity *entity, const char *text);

/* scratch_source: a file of the sources, by its path below their folder. In
 * scratch. */
char *scratch_source(const char *path);

#endif
