/* SPDX-License-Identifier: MIT */
/* Thousands of messages with a misspelt job: `poison list` shows them in one
 * line, and one command drops or retries all of them. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"
#include "worker/cli/command.h"
#include "worker/cli/say.h"
#include "worker/store/embedded/embedded.h"
#include "worker/store/store.h"

#define MANY 5000
#define MAX_WORDS 16
#define OUTPUT "output"
#define BODY "{\"job\":\"delte-drafts\",\"args\":{\"author\":\"a%d\"}}"

static char output[1 << 20];

/* Runs the command in this process. Its standard output is then in `output`. */
static int run_line(const char *const *words)
{
    char *argv[MAX_WORDS] = {(char[]){"tableward"}};
    char room[MAX_WORDS][64];
    int argc = 1, code, before = dup(STDOUT_FILENO);
    int file = open(OUTPUT, O_CREAT | O_TRUNC | O_RDWR, 0600);
    ssize_t len;

    for (; words[argc - 1]; argc++) {
        (void)snprintf(room[argc], sizeof(room[argc]), "%s", words[argc - 1]);
        argv[argc] = room[argc];
    }
    assert_true(before >= 0 && file >= 0 && fflush(stdout) == 0);
    (void)dup2(file, STDOUT_FILENO);
    code = command_main(argc, argv);
    (void)dup2(before, STDOUT_FILENO);
    len = pread(file, output, sizeof(output) - 1, 0);
    assert_true(len >= 0);
    output[len] = '\0';
    (void)close(file);
    (void)close(before);
    return code;
}

#define RUN(...)                                                               \
    run_line((const char *const[]){                                            \
        __VA_ARGS__, "--config", "t.yaml", "--log-level", "error", NULL})

static int count_lines(void)
{
    int lines = 0;

    for (const char *at = output; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    return lines;
}

static void write_config(const char *job)
{
    FILE *file = fopen("t.yaml", "w");

    assert_non_null(file);
    fprintf(file,
        "stores: {main: {embedded: t.db}}\n"
        "worker: {queues: [{name: work}]}\n"
        "jobs:\n"
        "  %s: {kind: delete, args: [author], table: Drafts,\n"
        "    partition_key: \"{author}\"}\n",
        job);
    assert_int_equal(fclose(file), 0);
}

struct putting {
    struct store *store;
    int count;
    _Atomic int next;
};

static void put_next(void *arg)
{
    struct putting *putting = arg;
    int i;

    while ((i = atomic_fetch_add(&putting->next, 1)) < putting->count) {
        struct exchange exchange = {0};
        struct messages put;
        char body[100];

        (void)snprintf(body, sizeof(body), BODY, i);
        messages_init(&put);
        assert_ok(store_queue_put(
            putting->store, &exchange, "work", slice_of(body), 0, &put));
        messages_done(&put);
    }
}

/* Puts `count` messages on the queue, as a front end does without `enqueue`.
 * Several threads do so at once, and the store commits their messages
 * together. */
static void put_messages(int count)
{
    struct platform_thread threads[32];
    struct putting putting = {.count = count};
    struct err err;

    assert_ok(embedded_open("main", "t.db", &putting.store, &err));
    for (int i = 0; i < 32; i++)
        platform_start(&threads[i], "put", put_next, &putting);
    for (int i = 0; i < 32; i++)
        platform_join(&threads[i]);
    store_close(putting.store);
}

static int64_t began_ms;

static void print_took(const char *what)
{
    print_message("%d messages: %s took %.1f s\n", MANY, what,
        (double)(platform_boot_ms() - began_ms) / 1000);
    began_ms = platform_boot_ms();
}

/* Makes a worker poison `count` messages whose job is not configured. */
static void poison(int count)
{
    (void)unlink("t.db");
    write_config("delete-drafts");
    assert_int_equal(RUN("worker", "--drain"), EXIT_DONE);
    put_messages(count);
    began_ms = platform_boot_ms();
    assert_int_equal(RUN("worker", "--drain"), EXIT_FAILED);
}

TEST(thousands_of_a_misspelt_job_are_one_line_and_one_drop)
{
    poison(MANY);
    print_took("the worker");
    assert_int_equal(RUN("poison", "list"), EXIT_DONE);
    print_took("`poison list`");
    assert_int_equal(count_lines(), 1);
    assert_non_null(strstr(output, " and 4,999 more  "));
    assert_non_null(strstr(output, "unknown job 'delte-drafts', did you mean "
                                   "'delete-drafts'?"));
    began_ms = platform_boot_ms();
    assert_int_equal(RUN("poison", "drop", "--all"), EXIT_DONE);
    print_took("`poison drop --all`");
    assert_int_equal(RUN("poison", "list"), EXIT_DONE);
    assert_string_equal(output, "");
}

/* The job was missing because of a mistake. Once it is configured, one command
 * queues all messages again. */
TEST(thousands_are_queued_again_by_one_command)
{
    poison(MANY);
    write_config("delte-drafts");
    began_ms = platform_boot_ms();
    assert_int_equal(RUN("poison", "retry", "--all"), EXIT_DONE);
    print_took("`poison retry --all`");
    assert_int_equal(count_lines(), MANY);
    assert_int_equal(RUN("poison", "list"), EXIT_DONE);
    assert_string_equal(output, "");
    assert_int_equal(RUN("status", "--queues"), EXIT_DONE);
    assert_non_null(strstr(output, "5,000"));
}

TEST(list_with_all_has_a_line_for_each)
{
    poison(7);
    assert_int_equal(RUN("poison", "list", "--all"), EXIT_DONE);
    assert_int_equal(count_lines(), 7);
    assert_int_equal(RUN("poison", "list"), EXIT_DONE);
    assert_int_equal(count_lines(), 1);
    assert_non_null(strstr(output, " and 6 more  "));
}

/* Only the first 32 messages of a queue can be peeked, so the message must be
 * among the oldest. InsertionTime has whole seconds: the message is certainly
 * the oldest if the others are put in a later second. */
TEST(list_names_a_run_whose_message_can_be_shown)
{
    char id[64] = "";
    int64_t second;
    const char *at;

    poison(1);
    second = platform_wall_ticks() / TICKS_PER_S;
    while (platform_wall_ticks() / TICKS_PER_S == second)
        (void)usleep(20000);
    put_messages(40);
    assert_int_equal(RUN("worker", "--drain"), EXIT_FAILED);
    assert_int_equal(RUN("poison", "list"), EXIT_DONE);
    assert_non_null(strstr(output, " and 40 more  "));
    at = strstr(output, "  -  ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "  -  %63s", id), 1);
    assert_int_equal(RUN("poison", "show", id), EXIT_DONE);
    assert_non_null(strstr(output, "\nmessage    {\"job\":\"delte-drafts\""));
}
