/* SPDX-License-Identifier: MIT */
/* Children, folders and files of trials. Before the fork this file uses nothing
 * of the product. If something fails that is not the subject of the trial,
 * program_die() ends the process. */
#include "tests/faults/trial.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fast_platform.h"
#include "tests/support/folder.h"
#include "tests/support/program.h"
#include "worker/cli/command.h"

#define STREAMS 2
#define WORDS_MAX 16
#define BLOCK_BYTES 65536

unsigned long trial_share(int argc, char **argv)
{
    unsigned long share = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;

    return share > 0 ? share : 1;
}

/* ---- children ---- */

static void redirect(const char *name, int flags, int to)
{
    int fd = open(name, flags | O_CLOEXEC, 0600);

    if (fd < 0 || dup2(fd, to) < 0)
        program_die(name);
    close(fd);
}

static void enter(const char *folder)
{
    if (chdir(folder) != 0 || setenv("TMPDIR", folder, 1) != 0)
        program_die(folder);
    redirect(
        access("in", F_OK) == 0 ? "in" : "/dev/null", O_RDONLY, STDIN_FILENO);
    redirect("out", O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
    redirect("log", O_WRONLY | O_CREAT | O_TRUNC, STDERR_FILENO);
    alarm(TRIAL_LIMIT_S);
}

int trial_fork(const char *folder, int (*body)(void *context), void *context)
{
    pid_t child = program_fork();
    int status;

    if (child == 0) {
        enter(folder);
        _exit(body(context));
    }
    status = program_wait(child);
    return WIFSIGNALED(status) ? TRIAL_SIGNAL(WTERMSIG(status))
                               : WEXITSTATUS(status);
}

int trial_command(const char *line)
{
    static char words[1024], name[] = "tableward";
    char *argv[WORDS_MAX + 1] = {name};
    char *rest = words;
    int argc = 1;

    (void)snprintf(words, sizeof words, "%s", line);
    for (char *word; argc < WORDS_MAX && (word = strsep(&rest, " "));) {
        for (char *at = word; (at = strchr(at, '~'));)
            *at = ' ';
        argv[argc++] = word;
    }
    return command_main(argc, argv);
}

void trial_later(int64_t ahead_ms)
{
    fast_platform_use();
    fast_platform_ahead(ahead_ms);
}

const char *trial_end_name(int end)
{
    static char name[40];

    if (end >= TRIAL_SIGNAL(0))
        (void)snprintf(name, sizeof name, "signal %d (%s)",
            end - TRIAL_SIGNAL(0), sigabbrev_np(end - TRIAL_SIGNAL(0)));
    else
        (void)snprintf(name, sizeof name, "exit %d", end);
    return name;
}

void trial_sweep(const char *folder, unsigned long count, unsigned long share,
    unsigned long seed,
    void (*one)(const void *context, unsigned long n, const char *folder),
    const void *context)
{
    unsigned long step = share < count ? share : count;
    pid_t children[STREAMS];

    for (unsigned i = 0; i < STREAMS; i++) {
        char *own = trial_inside(folder, i == 0 ? "stream0" : "stream1");

        children[i] = program_fork();
        for (unsigned long n = 1 + seed % step + i * step;
             children[i] == 0 && n <= count; n += STREAMS * step)
            one(context, n, own);
        free(own);
        if (children[i] == 0) {
            (void)fflush(NULL);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < STREAMS; i++)
        if (program_wait(children[i]) != 0)
            program_die("a stream of trials ended early");
}

/* ---- folders ---- */

char *trial_inside(const char *folder, const char *name)
{
    char *path;

    if (asprintf(&path, "%s/%s", folder, name) < 0)
        program_die("asprintf");
    return path;
}

/* Calls each(context, path, name, is_folder) for each entry of folder. */
static void visit(const char *folder,
    void (*each)(void *context, const char *path, const char *name, bool is),
    void *context)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    struct stat what;

    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        char *path = trial_inside(folder, entry->d_name);

        if (strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0 && lstat(path, &what) == 0)
            each(context, path, entry->d_name, S_ISDIR(what.st_mode));
        free(path);
    }
    closedir(dir);
}

static void copy_file(const char *from, const char *to)
{
    static char block[BLOCK_BYTES];
    ssize_t got;
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (in < 0 || out < 0)
        program_die(to);
    while ((got = read(in, block, sizeof block)) > 0)
        if (write(out, block, (size_t)got) != got)
            program_die(to);
    close(in);
    close(out);
}

static void copy_one(
    void *context, const char *path, const char *name, bool is_folder)
{
    char *to = trial_inside(context, name);

    if (is_folder)
        trial_copy(path, to);
    else
        copy_file(path, to);
    free(to);
}

void trial_copy(const char *from, const char *to)
{
    char *name = strdup(to);

    folder_remove(to);
    if (!name || mkdir(to, 0700) != 0)
        program_die(to);
    visit(from, copy_one, name);
    free(name);
}

void trial_begin(const char *subject, const char *to)
{
    char *template = trial_inside(subject, "template");

    trial_copy(template, to);
    free(template);
}

void trial_write(const char *folder, const char *name, const char *text)
{
    char *path = trial_inside(folder, name);
    FILE *file = fopen(path, "we");

    if (!file || fputs(text, file) == EOF || fclose(file) != 0)
        program_die(path);
    free(path);
}

char *trial_read(const char *folder, const char *name)
{
    char *path = trial_inside(folder, name), *text = NULL;
    FILE *file = fopen(path, "re");
    size_t room = 0;
    ssize_t len;

    free(path);
    if (!file)
        return NULL;
    len = getdelim(&text, &room, '\0', file);
    (void)fclose(file);
    if (len < 0) {
        free(text);
        return strdup("");
    }
    return text;
}
