/* SPDX-License-Identifier: MIT */
/* Runs one row: fills its directory, starts the program, and checks how it
 * ends. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/server.h"
#include "tests/support/direct.h"
#include "worker/base/arena.h"
#include "worker/base/platform.h"
#include "worker/store/store.h"

#define OUTPUT_MAX (256 * 1024)
#define WORDS_MAX 16

/* The ledger and the queues are in an embedded store; the other store is the
 * hostile one. The hostile store must not disturb the job of the second
 * queue. */
static const char default_yaml[] =
    "stores:\n"
    "  main: {embedded: main.db}\n"
    "  cloud: {azure: {connection_string: \"DefaultEndpointsProtocol=http;"
    "AccountName=acct;AccountKey=c2VjcmV0LWtleS1ieXRlcw==;"
    "TableEndpoint=http://127.0.0.1:$PORT/acct;"
    "QueueEndpoint=http://127.0.0.1:$PORT/acct\"}}\n"
    "default_store: cloud\n"
    "worker:\n"
    "  store: main\n"
    "  queues:\n"
    "    - {name: tableward}\n"
    "    - {name: other, job: good, body: channel, encoding: text}\n"
    "  visibility_timeout: 4s\n"
    "  poll: {min: 100ms, max: 300ms}\n"
    "jobs:\n"
    "  good:\n"
    "    kind: cascade-delete\n"
    "    args: [channel]\n"
    "    parent: {table: Channels, store: main, partition_key: \"{channel}\", "
    "row_key: \"\", tombstone: {Deleted: true}}\n"
    "    children: [{table: Blogs, store: main, partition_key: "
    "\"{channel}\"}]\n"
    "    settle: 0s\n";

static char *put_in(const char *text, const char *name, const char *value)
{
    const char *at;
    size_t room = strlen(text) + 1;
    char *made, *to;

    for (at = text; (at = strstr(at, name)) != NULL; at += strlen(name))
        room += strlen(value);
    made = to = malloc(room);
    while ((at = strstr(text, name)) != NULL) {
        to += sprintf(to, "%.*s%s", (int)(at - text), text, value);
        text = at + strlen(name);
    }
    strcpy(to, text);
    return made;
}

static void write_piece(FILE *to, const struct piece *piece)
{
    fputs(piece->before != NULL ? piece->before : "", to);
    for (size_t i = 0; i < piece->count; i++)
        fputs(piece->unit, to);
    fputs(piece->after != NULL ? piece->after : "", to);
}

static void write_files(const struct row *row, int port)
{
    char number[16];
    char *yaml;
    FILE *file = fopen("tableward.yaml", "w");

    snprintf(number, sizeof(number), "%d", port);
    yaml =
        put_in(row->yaml != NULL ? row->yaml : default_yaml, "$PORT", number);
    fputs(yaml, file);
    if (row->yaml == NULL && row->jobs != NULL)
        fputs(row->jobs, file);
    fclose(file);
    free(yaml);
    for (size_t i = 0; i < 2 && row->files[i].name != NULL; i++) {
        file = fopen(row->files[i].name, "w");
        write_piece(file, &row->files[i].content);
        fclose(file);
    }
}

/* ---- the embedded store ---- */

static struct store *open_main(void)
{
    return direct_open("main", "main.db");
}

static char *text_of(const struct piece *piece)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);

    write_piece(file, piece);
    fclose(file);
    return text;
}

static void plant_entity(struct store *store, const struct plant *plant)
{
    char *properties = text_of(&plant->text);
    struct arena arena;
    struct entity entity;
    struct slice json;
    struct err err = {""};

    arena_init(&arena);
    json = arena_format(&arena, "{%s}", properties);
    if (entity_parse(json, false, &arena, &entity, NULL, &err) != TW_OK) {
        fprintf(stderr, "hostile: a planted entity: %s\n", err.text);
        exit(99);
    }
    entity.partition_key = slice_of(plant->partition_key);
    entity.row_key = slice_of(plant->row_key);
    direct_insert(store, plant->table, &entity);
    arena_done(&arena);
    free(properties);
}

static void plant_all(const struct row *row)
{
    static const struct plant parent = {
        .table = "Channels", .partition_key = "z", .row_key = ""};
    static const struct plant child = {
        .table = "Blogs", .partition_key = "z", .row_key = "1"};
    struct store *store;

    if (!row->is_worker && row->plants[0].table == NULL &&
        row->plants[0].queue == NULL)
        return;
    store = open_main();
    for (size_t i = 0; i < 4; i++) {
        const struct plant *plant = &row->plants[i];
        char *text = text_of(&plant->text);

        if (plant->queue != NULL)
            direct_put(store, plant->queue, text);
        else if (plant->table != NULL)
            plant_entity(store, plant);
        free(text);
    }
    if (row->is_worker) {
        plant_entity(store, &parent);
        plant_entity(store, &child);
        direct_put(store, "other", "z");
    }
    store_close(store);
}

static bool other_is_done(struct store *store)
{
    return direct_get(store, "Channels", slice_of("z"), slice_of(""), NULL) ==
           TW_NOT_FOUND;
}

/* ---- the program ---- */

struct child {
    pid_t pid;
    int64_t begun_ms;
    bool over;
    int status;
    struct rusage used;
};

static void start(
    struct child *child, const struct row *row, const char *program)
{
    char *words[WORDS_MAX] = {NULL}, *text = strdup(row->command), *rest = text;
    size_t count = 0;
    const char *word;
    int out;

    words[count++] = strdup(program);
    while ((word = strsep(&rest, " ")) != NULL && count < WORDS_MAX - 1)
        words[count++] = put_in(word, "~", " ");
    child->begun_ms = platform_boot_ms();
    child->pid = fork();
    if (child->pid == 0) {
        out = open("output", O_WRONLY | O_CREAT | O_APPEND, 0600);
        dup2(out, STDOUT_FILENO);
        dup2(out, STDERR_FILENO);
        dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
        execv(program, words);
        _exit(127);
    }
    free(text);
}

/* Waits until the child has ended. False: it still runs at until_ms. */
static bool wait_until(struct child *child, int64_t until_ms)
{
    while (!child->over && platform_boot_ms() < until_ms) {
        child->over =
            wait4(child->pid, &child->status, WNOHANG, &child->used) > 0;
        if (!child->over)
            usleep(5000);
    }
    return child->over;
}

static bool wait_for_other(struct child *child, int64_t until_ms)
{
    struct store *store = open_main();
    bool done = false;

    while (!done && platform_boot_ms() < until_ms &&
           !wait_until(child, platform_boot_ms() + 50))
        done = other_is_done(store);
    store_close(store);
    return done;
}

static char *read_output(void)
{
    char *text = calloc(1, OUTPUT_MAX);
    FILE *file = fopen("output", "r");

    if (file != NULL) {
        (void)!fread(text, 1, OUTPUT_MAX - 1, file);
        fclose(file);
    }
    return text;
}

static bool fail(char *why, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool fail(char *why, size_t size, const char *format, ...)
{
    char *output = read_output();
    size_t len = strlen(output), from = len > 800 ? len - 800 : 0;
    va_list args;
    int used;

    va_start(args, format);
    used = vsnprintf(why, size, format, args);
    va_end(args);
    snprintf(why + used, size - (size_t)used, "\n    ... %s", output + from);
    free(output);
    return false;
}

static bool judge(const struct row *row, const struct child *child,
    const struct limits *limits, char *why, size_t size)
{
    char *output = read_output();
    bool good = true;

    if (!WIFEXITED(child->status))
        good = fail(why, size, "signal %d ended it", WTERMSIG(child->status));
    else if (WEXITSTATUS(child->status) != row->code)
        good = fail(why, size, "ended with %d, expected %d",
            WEXITSTATUS(child->status), row->code);
    else if (row->says != NULL && strstr(output, row->says) == NULL)
        good = fail(why, size, "does not say '%s'", row->says);
    else if (row->also != NULL && strstr(output, row->also) == NULL)
        good = fail(why, size, "does not say '%s'", row->also);
    else if (row->hides_signature && server_has_signature(output))
        good = fail(why, size, "shows a signature");
    else if (child->used.ru_maxrss > (long)limits->mebibytes * 1024)
        good = fail(why, size, "took %ld KiB of memory", child->used.ru_maxrss);
    free(output);
    return good;
}

bool case_run(const struct row *row, const char *program,
    const struct limits *limits, char *why, size_t size)
{
    struct child child = {.pid = 0};
    bool done = true;

    plant_all(row);
    write_files(row, server_start(row->answers, 4));
    start(&child, row, program);
    if (row->is_worker)
        done = wait_for_other(&child, child.begun_ms + limits->ms);
    if (row->stop_after_ms > 0)
        (void)wait_until(&child, child.begun_ms + row->stop_after_ms);
    if (!child.over && (row->is_worker || row->stop_after_ms > 0)) {
        child.begun_ms = platform_boot_ms();
        kill(child.pid, SIGTERM);
    }
    if (!wait_until(&child, child.begun_ms + limits->ms)) {
        kill(child.pid, SIGKILL);
        (void)wait_until(&child, PLATFORM_NEVER);
        return fail(why, size, "still runs after %u s", limits->ms / 1000);
    }
    if (!done)
        return fail(why, size, "another queue's message was not done");
    return judge(row, &child, limits, why, size);
}
