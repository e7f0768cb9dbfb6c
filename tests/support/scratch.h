/* SPDX-License-Identifier: MIT */
/*
 * An arena for the values of one test: empty when the test begins, released
 * when it ends.
 */
#ifndef TW_TESTS_SUPPORT_SCRATCH_H
#define TW_TESTS_SUPPORT_SCRATCH_H

#include "tests/support/test.h"
#include "worker/base/arena.h"
#include "worker/store/entity.h"

extern struct arena scratch;

int scratch_set_up(void **state);
int scratch_tear_down(void **state);

/* SCRATCH_TEST: a test that begins with an empty arena `scratch`. */
#define SCRATCH_TEST(name) TEST_IN(name, scratch_set_up, scratch_tear_down)

/* scratch_entity: reads text, which must be an entity as the service's JSON.
 * The entity lives in scratch. */
struct entity scratch_entity(const char *text);

/* scratch_assert_written: fails unless entity_write() writes entity as text. */
void scratch_assert_written(const struct entity *entity, const char *text);

/* scratch_source: returns the content of a file of the sources; path begins at
 * the folder of the sources. The content lives in scratch. */
char *scratch_source(const char *path);

#endif
