/* SPDX-License-Identifier: MIT */
/* Writes what is in a file as a text that can be compared. */
#include "tests/faults/state.h"

#include <glob.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/direct.h"
#include "worker/base/buf.h"
#include "worker/run/ledger.h"
#include "worker/store/store.h"

#define LINE_MAX_BYTES (4 * 1024 * 1024)
#define LINES_MAX 1000

/* The queues of the scenes; a queue that does not exist counts as empty. */
static const char *const QUEUES[] = {
    "work", "channels", "work-poison", "channels-poison"};

/* Prints only the state of a run. Its other properties depend on how it reached
 * this state. */
static void print_run(const struct entity *entity)
{
    struct ledger_run run;
    struct err err;

    ledger_run_init(&run);
    printf("run %.*s/%.*s", SLICE_ARG(entity->partition_key),
        SLICE_ARG(entity->row_key));
    if (ledger_parse(entity, &run, &err) == TW_OK)
        printf(" %s", ledger_state_name(run.state));
    putchar('\n');
    ledger_run_done(&run);
}

static bool print_entity(
    void *ctx, const char *table, const struct entity *entity)
{
    struct buf line;

    if (strcmp(table, LEDGER_TABLE) == 0) {
        print_run(entity);
        return true;
    }
    buf_init(&line, LINE_MAX_BYTES);
    entity_write(entity, &line);
    printf("%s %s\n", table, buf_text(&line));
    buf_done(&line);
    return true;
}

static int by_text(const void *a, const void *b)
{
    return slice_compare(
        ((const struct message *)a)->text, ((const struct message *)b)->text);
}

/* Prints the messages in order of their texts, each text once: the product may
 * put a poison copy twice. */
static void print_messages(struct messages *messages, const char *queue)
{
    const struct message *list = messages->list;

    qsort(messages->list, messages->count, sizeof *list, by_text);
    for (size_t i = 0; i < messages->count; i++)
        if (i == 0 || !slice_equal(list[i].text, list[i - 1].text))
            printf("%s: %.*s\n", queue, SLICE_ARG(list[i].text));
}

static void print_poison(struct store *store, const char *queue)
{
    struct exchange exchange = {.deadline = NULL};
    struct messages messages;

    messages_init(&messages);
    if (store_queue_peek(store, &exchange, queue, QUEUE_MAX_GET, &messages) ==
        TW_OK)
        print_messages(&messages, queue);
    messages_done(&messages);
}

static void print_queue(struct store *store, const char *queue)
{
    int64_t count = direct_messages(store, queue);

    if (strstr(queue, "poison"))
        print_poison(store, queue);
    else if (count >= 0)
        printf("%s: %s\n", queue, count > 0 ? "messages" : "empty");
}

/* ---- the file itself ---- */

bool state_is_whole(const char *file)
{
    sqlite3 *sqlite = NULL;
    sqlite3_stmt *check = NULL;
    bool whole = false;

    if (sqlite3_open_v2(file, &sqlite, SQLITE_OPEN_READWRITE, NULL) ==
            SQLITE_OK &&
        sqlite3_prepare_v2(
            sqlite, "PRAGMA integrity_check", -1, &check, NULL) == SQLITE_OK &&
        sqlite3_step(check) == SQLITE_ROW)
        whole = strcmp((const char *)sqlite3_column_text(check, 0), "ok") == 0;
    sqlite3_finalize(check);
    sqlite3_close(sqlite);
    return whole;
}

/* ---- the archive ---- */

struct lines {
    char *list[LINES_MAX];
    size_t count;
};

/* Adds the lines of a file. A last line without a line end was cut off, and is
 * not added. */
static void add_lines(struct lines *lines, const char *path)
{
    FILE *file = fopen(path, "re");
    size_t room = 0;
    char *line = NULL;

    while (file && getline(&line, &room, file) > 0 && strchr(line, '\n') &&
           lines->count < LINES_MAX) {
        lines->list[lines->count++] = line;
        line = NULL;
        room = 0;
    }
    free(line);
    if (file)
        (void)fclose(file);
}

static int by_line(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Prints the archived lines of all attempts, each line once. */
static void print_archive(void)
{
    static struct lines lines;
    glob_t found;

    if (glob("archive/*/*/*.jsonl", 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        add_lines(&lines, found.gl_pathv[i]);
    globfree(&found);
    qsort(lines.list, lines.count, sizeof(lines.list[0]), by_line);
    for (size_t i = 0; i < lines.count; i++)
        if (i == 0 || strcmp(lines.list[i], lines.list[i - 1]) != 0)
            printf("archived %s", lines.list[i]);
}

int state_print(void *context)
{
    struct store *store = direct_open("state", context);

    (void)direct_each_table(store, print_entity, NULL);
    for (size_t i = 0; i < sizeof(QUEUES) / sizeof(QUEUES[0]); i++)
        print_queue(store, QUEUES[i]);
    store_close(store);
    if (!state_is_whole(context))
        printf("the file is damaged\n");
    print_archive();
    return fflush(stdout) == 0 ? 0 : 2;
}

void state_put(const char *file, const char *queue, const char *text)
{
    struct store *store = direct_open("state", file);

    direct_put(store, queue, text);
    store_close(store);
}
