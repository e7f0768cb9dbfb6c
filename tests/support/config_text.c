/* SPDX-License-Identifier: MIT */
/* Reads configuration from a text: see config_text.h. */
#include "tests/support/config_text.h"

static void init(struct config_text *c)
{
    arena_init(&c->arena);
    problems_init(&c->problems);
}

static void done(struct config_text *c)
{
    problems_done(&c->problems);
    arena_done(&c->arena);
}

TEST_FIXTURE(fixture, struct config_text, init, done)

int config_text_set_up(void **state)
{
    return fixture_set_up(state);
}

int config_text_tear_down(void **state)
{
    return fixture_tear_down(state);
}

void config_text_renew(struct config_text *c)
{
    done(c);
    init(c);
}

struct yaml_node *config_text_read(struct config_text *c, struct slice text)
{
    return yaml_read("t.yaml", text, &c->arena, &c->problems);
}

struct yaml_node *config_text_read_good(struct config_text *c, const char *text)
{
    struct yaml_node *root = config_text_read(c, slice_of(text));

    assert_non_null(root);
    assert_int_equal(c->problems.errors, 0);
    return root;
}

void config_text_check_mark(struct mark mark, unsigned line, unsigned column)
{
    assert_string_equal(mark.file, "t.yaml");
    assert_int_equal(mark.line, line);
    assert_int_equal(mark.column, column);
}

void config_text_check(const struct config_text *c, size_t i, unsigned line,
    unsigned column, const char *problem)
{
    assert_true(i < c->problems.count);
    assert_string_equal(c->problems.list[i].text, problem);
    config_text_check_mark(c->problems.list[i].mark, line, column);
}

void config_text_check_only(const struct config_text *c, unsigned line,
    unsigned column, const char *problem)
{
    assert_int_equal(c->problems.errors, 1);
    config_text_check(c, 0, line, column, problem);
}
