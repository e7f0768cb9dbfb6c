/* SPDX-License-Identifier: MIT */
/* Reads a piece of configuration from a text and checks the problems that are
 * reported for it. */
#ifndef TW_TESTS_SUPPORT_CONFIG_TEXT_H
#define TW_TESTS_SUPPORT_CONFIG_TEXT_H

#include "config/problems.h"
#include "config/yaml.h"
#include "tests/support/test.h"
#include "worker/base/arena.h"

struct config_text {
    struct arena arena;
    struct problems problems;
};

/* CONFIG_TEST: a test with a config_text `c` that has read nothing yet. */
int config_text_set_up(void **state);
int config_text_tear_down(void **state);
#define CONFIG_TEST(name)                                                      \
    TEST_WITH(name, config_text_set_up, config_text_tear_down,                 \
        struct config_text *c)

/* config_text_renew: forgets all that was read, and its problems. */
void config_text_renew(struct config_text *c);

/* config_text_read: reads text as a file t.yaml. NULL: it is wrong; a problem
 * says why.
 * config_text_read_good: the same, but the test fails if there is a problem. */
struct yaml_node *config_text_read(struct config_text *c, struct slice text);
struct yaml_node *config_text_read_good(
    struct config_text *c, const char *text);

/* config_text_check_mark: fails unless mark is at this line and column of
 * t.yaml.
 * config_text_check: fails unless the i-th problem is this one. */
void config_text_check_mark(struct mark mark, unsigned line, unsigned column);
void config_text_check(const struct config_text *c, size_t i, unsigned line,
    unsigned column, const char *problem);

/* config_text_check_only: fails unless this is the first problem, and the only
 * error. */
void config_text_check_only(const struct config_text *c, unsigned line,
    unsigned column, const char *problem);

#endif
