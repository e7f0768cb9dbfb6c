/* SPDX-License-Identifier: MIT */
/*
 * hostile PROGRAM [PART OF A NAME ...]: runs every row whose name contains one
 * of the parts (without parts: every row), four at a time, each in a process
 * and a directory of its own. Ends with a line that counts the rows that passed
 * and failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/hostile/row.h"
#include "tests/support/folder.h"
#include "worker/base/mem.h"

#define AT_ONCE 4
#define WHY_MAX 2048

/* A program with sanitizers needs more memory (freed memory is kept, and there
 * is shadow memory) and is about ten times slower. The machine may be slow,
 * too. */
#ifdef MEM_IS_SANITIZED
static const struct limits limits = {.mebibytes = 640, .ms = 60000};
#else
static const struct limits limits = {.mebibytes = 64, .ms = 5000};
#endif

struct worker {
    pid_t pid;
    char folder[FOLDER_BYTES];
};

static void play(const struct row *row, const char *program, const char *folder)
{
    char why[WHY_MAX] = "";

    if (chdir(folder) != 0)
        _exit(99);
    if (case_run(row, program, &limits, why, sizeof(why)))
        _exit(0);
    printf("FAILED %s: %s\n", row->name, why);
    fflush(stdout);
    _exit(1);
}

static void begin(
    struct worker *worker, const struct row *row, const char *program)
{
    folder_make(worker->folder, "hostile");
    worker->pid = fork();
    if (worker->pid == 0)
        play(row, program, worker->folder);
}

/* Returns whether the row of this worker has passed. */
static bool end(struct worker *worker, int status)
{
    folder_remove(worker->folder);
    worker->pid = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool is_wanted(const struct row *row, char **names, int count)
{
    bool wanted = count == 0;

    for (int i = 0; i < count; i++)
        wanted |= strstr(row->name, names[i]) != NULL;
    return wanted;
}

struct tally {
    struct worker workers[AT_ONCE];
    size_t running, passed, failed;
};

static void wait_for_one(struct tally *tally)
{
    int status;
    pid_t pid = wait(&status);

    for (size_t i = 0; i < AT_ONCE; i++) {
        if (tally->workers[i].pid != pid)
            continue;
        if (end(&tally->workers[i], status))
            tally->passed++;
        else
            tally->failed++;
        tally->running--;
    }
}

static void play_all(struct tally *tally, const struct row *rows, size_t count,
    char **words, int word_count)
{
    for (size_t i = 0; i < count; i++) {
        size_t free = 0;

        if (!is_wanted(&rows[i], words + 2, word_count - 2))
            continue;
        if (tally->running == AT_ONCE)
            wait_for_one(tally);
        while (tally->workers[free].pid != 0)
            free++;
        begin(&tally->workers[free], &rows[i], words[1]);
        tally->running++;
    }
}

int main(int count, char **words)
{
    struct tally tally = {.running = 0};

    if (count < 2)
        return 64;
    words[1] = realpath(words[1], NULL);
    if (words[1] == NULL)
        return 64;
    setbuf(stdout, NULL);
    play_all(&tally, answer_rows, answer_row_count, words, count);
    play_all(&tally, file_rows, file_row_count, words, count);
    play_all(&tally, ledger_rows, ledger_row_count, words, count);
    while (tally.running > 0)
        wait_for_one(&tally);
    free(words[1]);
    printf("hostile: %zu passed, %zu failed\n", tally.passed, tally.failed);
    return tally.failed > 0 || tally.passed == 0;
}
