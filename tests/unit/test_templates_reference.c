/* SPDX-License-Identifier: MIT */
/*
 * jobs/templates.md describes every function of the code, and every example in
 * it has the result that the code gives.
 */
#include <string.h>

#include "config/problems.h"
#include "jobs/engine/expression.h"
#include "jobs/engine/run.h"
#include "jobs/engine/template.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static const struct slice arg_names[] = {{"channel", 7}, {"n", 1}};
static const struct slice arg_values[] = {{"Football", 8}, {"5", 1}};
static const struct run_args args = {2, arg_names, arg_values};
static const struct template_scope scope = {arg_names, 2, true};
static const struct mark start = {"templates.md", 1, 1};

/* The tables whose rows are examples, by their headings. */
static const struct table {
    const char *heading;
    bool is_filter, fails;
} tables[] = {
    {"| template | text |", false, false},
    {"| template | error |", false, true},
    {"| filter | becomes |", true, false},
    {"| filter | error |", true, true},
};

/* Returns the entity of the examples, the only block of JSON in the
 * document. */
static struct entity sample(const char *document)
{
    const char *block = strstr(document, "```json\n"), *end;

    assert_non_null(block);
    block += strlen("```json\n");
    end = strchr(block, '\n');
    assert_non_null(end);
    return scratch_entity(
        arena_copy(&scratch, (struct slice){block, (size_t)(end - block)}).at);
}

/* Cuts the next cell off a row. Returns the text of the cell without the
 * backticks around code; NULL: the row has no further cell. */
static const char *take_cell(char **row)
{
    char *cell = *row, *end = strstr(cell, " |");
    size_t len;

    if (end == NULL)
        return NULL;
    *end = '\0';
    *row = end + 2;
    cell += strspn(cell, "| ");
    len = strlen(cell);
    if (len >= 2 && cell[0] == '`' && cell[len - 1] == '`') {
        cell[len - 1] = '\0';
        cell++;
    }
    return cell;
}

/* Returns the text that the template gives, or the error message if it
 * fails. */
static const char *outcome_of(const char *text, const struct table *table,
    const struct entity *entity, bool *ret_failed)
{
    struct problems problems;
    const struct template *template;
    struct err err = {{0}};
    const char *ret;
    struct buf to;

    problems_init(&problems);
    buf_init(&to, 4096);
    template = table->is_filter ? template_compile_filter(slice_of(text), start,
                                      &scope, &scratch, &problems)
                                : template_compile(slice_of(text), start,
                                      &scope, &scratch, &problems);
    *ret_failed = true;
    if (template == NULL) {
        ret = arena_copy(&scratch, slice_of(problems.list[0].text)).at;
    } else {
        *ret_failed =
            template_render(template, &args, entity, &to, &err) != TW_OK;
        ret = arena_copy(
            &scratch, *ret_failed ? slice_of(err.text) : buf_slice(&to))
                  .at;
    }
    buf_done(&to);
    problems_done(&problems);
    return ret;
}

static void check_row(
    char *row, const struct table *table, const struct entity *entity)
{
    const char *text = take_cell(&row), *wanted = take_cell(&row), *got;
    bool failed;

    assert_non_null(text);
    assert_non_null(wanted);
    got = outcome_of(text, table, entity, &failed);
    if (failed != table->fails ||
        (failed ? strstr(got, wanted) == NULL : strcmp(got, wanted) != 0))
        fail_msg("jobs/templates.md says of %s: %s, but it is: %s", text,
            wanted, got);
}

static const struct table *table_of(const char *heading)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        if (strcmp(heading, tables[i].heading) == 0)
            return &tables[i];
    return NULL;
}

SCRATCH_TEST(every_example_is_what_the_code_does)
{
    char *document = scratch_source("jobs/templates.md"), *rest = NULL;
    struct entity entity = sample(document);
    const struct table *table = NULL;
    size_t examples = 0;

    for (char *line = strtok_r(document, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] != '|')
            table = NULL;
        else if (table != NULL && strncmp(line, "|---", 4) != 0) {
            check_row(line, table, &entity);
            examples++;
        } else if (table == NULL) {
            table = table_of(line);
        }
    }
    assert_true(examples > 50);
}

/* Each function is in the table of functions and in an example. */
SCRATCH_TEST(every_function_is_described_and_shown)
{
    const char *document = scratch_source("jobs/templates.md");
    const char *described = strstr(document, "\n## Functions\n");
    const char *shown = strstr(document, "\n## Examples\n");
    const char *name;

    assert_true(described != NULL && shown != NULL && described < shown);
    for (size_t i = 0; (name = expression_function_name(i)) != NULL; i++) {
        struct slice call = arena_format(&scratch, "%s(", name);
        const char *at = strstr(described, call.at);

        if (at == NULL || at > shown || strstr(shown, call.at) == NULL)
            fail_msg("jobs/templates.md must describe and show %s()", name);
    }
}

SCRATCH_TEST(the_fuzzer_knows_every_function)
{
    const char *words = scratch_source("tests/fuzz/corpus/template.dict");
    const char *name;

    for (size_t i = 0; (name = expression_function_name(i)) != NULL; i++)
        if (!strstr(words, arena_format(&scratch, "\"%s(\"\n", name).at))
            fail_msg("tests/fuzz/corpus/template.dict lacks \"%s(\"", name);
}
