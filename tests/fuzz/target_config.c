/* SPDX-License-Identifier: MIT */
/*
 * A whole configuration: YAML, settings, stores and the loader of every kind of
 * job; then what the jobs give: explanations, tables and arguments.
 */
#include <stdlib.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "jobs/job.h"
#include "tests/fuzz/fuzz.h"
#include "worker/base/text.h"
#include "worker/cli/load.h"
#include "worker/run/message.h"

/* ---- the tree alone ---- */

static void check_tree(const struct yaml_node *node, unsigned depth)
{
    FUZZ_CHECK(depth <= 66 && node->mark.line >= 1 && node->mark.column >= 1);
    if (node->type == YAML_SCALAR) {
        FUZZ_CHECK(text_is_utf8(node->text));
        FUZZ_CHECK(node->text.at[node->text.len] == '\0');
    }
    for (size_t i = 0; node->type != YAML_SCALAR && i < node->count; i++) {
        if (node->type == YAML_MAP) {
            FUZZ_CHECK(node->keys[i]->type == YAML_SCALAR);
            check_tree(node->keys[i], depth + 1);
        }
        check_tree(node->items[i], depth + 1);
    }
}

static void try_tree(struct slice text)
{
    struct problems problems;
    struct yaml_node *tree;
    struct arena arena;

    arena_init(&arena);
    problems_init(&problems);
    tree = yaml_read("t.yaml", text, &arena, &problems);
    fuzz_problems(&problems);
    if (tree == NULL)
        FUZZ_CHECK(problems.errors > 0);
    else
        check_tree(tree, 0);
    problems_done(&problems);
    arena_done(&arena);
}

/* Any text in double quotes is read back the same. */
static void scalar_is_read_back(struct fuzz_source *in)
{
    struct slice key = fuzz_word(in, 1, 8), text = fuzz_text(in, 60);
    const struct yaml_node *node;
    struct yaml_node *tree;
    struct problems problems;
    struct buf *yaml = fuzz_buf();

    buf_add_format(yaml, "%.*s: \"", SLICE_ARG(key));
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];

        if (c == 0)
            buf_add_char(yaml, 'x');
        else if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
            buf_add_format(yaml, "\\x%02x", c);
        else
            buf_add_char(yaml, (char)c);
        if (c == 0)
            ((char *)(uintptr_t)text.at)[i] = 'x';
    }
    buf_add_text(yaml, "\"\n");
    problems_init(&problems);
    tree = yaml_read("t.yaml", buf_slice(yaml), in->arena, &problems);
    /* YAML refuses some characters if they are not escaped */
    node = tree != NULL ? yaml_get(tree, key.at) : NULL;
    if (problems.errors == 0) {
        FUZZ_CHECK(node != NULL && node->quoted);
        if (!memmem(text.at, text.len, "\xc2\x85", 2) &&
            !memmem(text.at, text.len, "\xe2\x80", 2) &&
            !memchr(text.at, ' ', text.len))
            FUZZ_SAME(node->text, text);
    }
    fuzz_problems(&problems);
    problems_done(&problems);
}

/* ---- the whole loader ---- */

static void count_table(
    void *context, size_t store, const char *table, enum job_access access)
{
    size_t *stores = context;

    FUZZ_CHECK(store <= *stores && table != NULL && table[0] != '\0');
}

static void use_job(struct load *load, const struct job *job)
{
    struct slice names[64], values[64];
    struct run_args args;
    struct err err = {{0}};
    struct arena arena;
    struct buf *text = fuzz_buf();

    job->kind->explain(job, text);
    FUZZ_CHECK(text->len > 0 && text_is_utf8(buf_slice(text)));
    job->kind->tables(job, count_table, &load->stores.count);
    arena_init(&arena);
    for (size_t i = 0; i < job->arg_count && i < 64; i++) {
        names[i] = job->args[i].name;
        values[i] = slice_of("2024");
    }
    if (job->arg_count <= 64 && message_args(job, names, values, job->arg_count,
                                    &arena, &args, &err) != TW_OK)
        fuzz_said(&err);
    arena_done(&arena);
}

static void use(struct load *load)
{
    const struct setup *setup = &load->setup;

    for (size_t i = 0; i < load->jobs.count; i++) {
        use_job(load, &load->jobs.list[i]);
        FUZZ_CHECK(
            jobs_find(&load->jobs, slice_of(load->jobs.list[i].name)) != NULL);
        FUZZ_CHECK(strlen(load->jobs.list[i].hash) == 16);
    }
    FUZZ_CHECK(setup->store <= load->stores.count);
    FUZZ_CHECK(setup->visibility_timeout_s >= 2 &&
               setup->visibility_timeout_s <= 604800);
    for (size_t i = 0; i < setup->queue_count; i++) {
        const struct setup_queue *queue = &setup->queues[i];

        FUZZ_CHECK(store_check_queue(slice_of(queue->name), NULL) == TW_OK);
        FUZZ_CHECK(queue->job == NULL || queue->job->arg_count == 1);
        FUZZ_CHECK(setup_queue_named(setup, slice_of(queue->name)) != NULL);
    }
}

static bool try_load(struct slice text)
{
    bool good = false;
    struct fuzz_file file = fuzz_file(text);
    struct problems problems;
    struct err err = {{0}};
    struct load *load = NULL;

    problems_init(&problems);
    if (load_read(file.path, LOAD_ALL, &load, &problems, &err) == TW_OK) {
        FUZZ_CHECK(problems.errors == 0);
        use(load);
        good = true;
    } else if (problems.errors == 0) {
        fuzz_said(&err);
    }
    fuzz_problems(&problems);
    load_free(load);
    problems_done(&problems);
    fuzz_file_done(&file);
    return good;
}

/* ---- configurations that were made up ---- */

static const char *made_value(struct fuzz_source *in)
{
    static const char *const values[] = {"0", "1", "2", "-1", "1.5", "1s", "2s",
        "1999ms", "604800s", "604801s", "168h", "9223372036854775807", "1e400",
        "true", "'5'", "~", "[]", "{}", "[a]", "'{channel}'", "\"{RowKey}_\"",
        "'{chanel}'", "work", "main", "Blogs", "a/b", "'${FUZZ}'", "skip"};

    return FUZZ_PICK(in, values);
}

/* Adds up to three of these keys, each with some value. Returns the number of
 * keys added. */
static unsigned add_keys(struct fuzz_source *in, const char *indent,
    const char *const *keys, size_t count, struct buf *to)
{
    unsigned more = fuzz_byte(in) % 4;

    for (unsigned i = 0; i < more; i++)
        buf_add_format(to, "%s%s: %s\n", indent, keys[fuzz_below(in, count)],
            made_value(in));
    return more;
}

#define KEYS(...)                                                              \
    (const char *const[]){__VA_ARGS__},                                        \
        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

static void configuration_that_was_made_up(struct fuzz_source *in)
{
    unsigned place = fuzz_byte(in) % 4, added = 0;
    struct buf *yaml = fuzz_buf();

    buf_add_text(yaml, "stores:\n  main:\n    embedded: t.db\nworker:\n"
                       "  queues:\n    - name: work\n");
    if (place == 0)
        added = add_keys(in, "  ",
            KEYS("slots", "requests", "visibility_timeout", "max_attempts",
                "max_entities_per_second", "price_per_10k", "store", "poll"),
            yaml);
    buf_add_text(yaml, "jobs:\n  job:\n    kind: cascade-delete\n"
                       "    args: [channel]\n    parent:\n"
                       "      table: Channels\n"
                       "      partition_key: '{channel}'\n"
                       "      row_key: ''\n      tombstone: {D: true}\n");
    if (place == 1)
        added =
            add_keys(in, "      ", KEYS("created", "store", "filter"), yaml);
    buf_add_text(yaml, "    children:\n      - table: Blogs\n"
                       "        partition_key: '{channel}'\n");
    if (place == 2)
        added = add_keys(in, "        ",
            KEYS("partition_key_prefix", "row_key", "row_key_prefix", "filter",
                "store", "children"),
            yaml);
    added +=
        add_keys(in, "    ", KEYS("settle", "archive", "refuse_above"), yaml);
    FUZZ_CHECK(try_load(buf_slice(yaml)) || added > 0);
}

FUZZ_TARGET(config)
{
    (void)setenv("FUZZ", "{v}'\"$", 1);
    try_tree(text);
    (void)try_load(text);
    scalar_is_read_back(in);
    fuzz_again(in);
    configuration_that_was_made_up(in);
}
