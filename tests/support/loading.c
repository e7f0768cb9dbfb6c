/* SPDX-License-Identifier: MIT */
/* Loads jobs from a piece of configuration: see loading.h. */
#include "tests/support/loading.h"

#include <stdio.h>
#include <string.h>

#include "config/yaml.h"
#include "tests/support/test.h"

void loading_begin_with(
    struct loading *l, const char *text, size_t stores, size_t by_default)
{
    struct yaml_node *root;

    loading_done(l);
    memset(l, 0, sizeof(*l));
    arena_init(&l->arena);
    problems_init(&l->problems);
    l->names[0] = "main";
    l->names[1] = "other";
    l->stores = (struct job_stores){
        .count = stores, .names = l->names, .by_default = by_default};
    root = yaml_read("test.yaml", arena_copy(&l->arena, slice_of(text)),
        &l->arena, &l->problems);
    assert_non_null(root);
    jobs_load(root, &l->stores, &l->arena, &l->jobs, &l->problems);
}

void loading_begin(struct loading *l, const char *text)
{
    loading_begin_with(l, text, 2, 0);
}

void loading_done(struct loading *l)
{
    problems_done(&l->problems);
    arena_done(&l->arena);
}

TEST_FIXTURE(loading_test, struct loading, TEST_NOTHING, loading_done)

int loading_set_up(void **state)
{
    return loading_test_set_up(state);
}

int loading_tear_down(void **state)
{
    return loading_test_tear_down(state);
}

bool loading_says(const struct loading *l, const char *part)
{
    for (size_t i = 0; i < l->problems.count; i++)
        if (strstr(l->problems.list[i].text, part))
            return true;
    return false;
}

static void expect(const struct loading *l, bool held, const char *what)
{
    if (held)
        return;
    problems_print(&l->problems, stderr);
    fail_msg("%s", what);
}

void loading_good(struct loading *l, const char *text)
{
    loading_begin(l, text);
    expect(l, l->problems.errors == 0, "it should have loaded");
}

void loading_refused(const char *text, const char *part)
{
    struct loading l = {.names = {NULL}};

    loading_begin(&l, text);
    expect(&l, l.problems.errors > 0 && l.jobs.count == 0, text);
    expect(&l, loading_says(&l, part), part);
    loading_done(&l);
}
