/* SPDX-License-Identifier: MIT */
/* A piece of configuration as text, and what is said where it is wrong. */
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

/* CONFIG_TEST: a test with `c`, in which nothing was read yet. */
int config_text_set_up(void **state);
int config_text_tear_down(void **state);
#define CONFIG_TEST(name)                                                      \
    TEST_WITH(name, config_text_set_up, config_text_tear_down,                 \
        struct config_text *c)

/* config_text_renew: as if nothing had been read. */
void config_text_renew(struct config_text *c);

/* config_text_read: from a file t.yaml; NULL: a problem says why not.
 * config_text_read_good: there is none. */
struct yaml_node *config_text_read(struct config_text *c, struct slice text);
struct yaml_node *config_text_read_good(
    struct config_text *c, const char *text);

/* config_text_check_mark: it is there in t.yaml.
 * config_text_check: the i-th problem is this one. */
void config_text_check_mark(struct mark mark, unsigned line, unsigned column);
void config_text_check(const struct config_text *c, size_t i, unsigned line,
    unsigned column, const char *problem);

/* config_text_check_only: there is this problem, and no other. */
void config_text_check_only(const struct config_text *c, unsigned line,
    unsigned column, const char *problem);

#endif
