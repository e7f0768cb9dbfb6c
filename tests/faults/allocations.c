/* SPDX-License-Identifier: MIT */
/*
 * Makes each allocation fail in turn: those of the program, of every library
 * and of the C library, which all go through worker/base/mem.h.
 *
 *   allocations SHARE [SCENE [N]]     scenes; every SHARE-th allocation
 *   allocations SHARE PROGRAM ...     unit test programs (a name with a /),
 *                                     at most about 1000 trials of each
 *
 * A run without failures counts the allocations. For each n up to this number,
 * a child starts in a folder of its own, and its n-th allocation fails. The
 * child must exit with 75. If it makes fewer than n allocations this time, it
 * must exit with the code of the run without failures. It must not end by a
 * signal, or after more than a minute. Then the work is finished without
 * failures, with clocks so far ahead that every lease is over. Now the folder
 * must contain what the run without failures left: the same entities, runs,
 * messages and archived lines.
 *
 * Exit code 1: a trial failed, or no trial of a subject ended with 75, so that
 * no allocation failed. 64: there is no such scene. Two processes make the
 * trials side by side.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/faults/scenes.h"
#include "tests/faults/service.h"
#include "tests/faults/trial.h"
#include "tests/support/fail_after.h"
#include "tests/support/folder.h"
#include "tests/support/program.h"
#include "worker/base/mem.h"

#define EXIT_WENT_ON 99 /* of a child: it ignored a failed allocation */
#define COUNT_ALL (1UL << 40)
#define PROGRAM_TRIALS 1000 /* approximate maximum of trials of a program */

/* Counters, shared by both processes. */
struct tally {
    atomic_ulong failed, ended_75, not_reached, wrong;
};

/* What is examined: a scene, or a program (then scene is NULL). */
struct subject {
    const char *name;
    const struct scene *scene;
    const char *program;
    char folder[FOLDER_BYTES]; /* has the folders template and clean, and one
                                  for each process */
    char *state; /* what is in the folder after the run without failures */
    unsigned long count; /* number of allocations in the run without failures */
    struct tally *tally; /* in shared memory */
};

/* A trial of a subject, for its child. */
struct trial {
    const struct subject *subject;
    unsigned long n;      /* the allocation that fails; 0: only count them */
    unsigned long *count; /* in shared memory */
};

/* ---- in the child ---- */

static int act_scene(void *context)
{
    const struct trial *trial = context;
    unsigned long left;
    int code;

    fault_scene_begin(false);
    (void)mem_fail_after(trial->n > 0 ? trial->n : COUNT_ALL);
    code = trial_command(trial->subject->scene->command);
    left = mem_fail_after(0);
    if (trial->n == 0)
        *trial->count = COUNT_ALL - left;
    else if (left == 0)
        return EXIT_WENT_ON;
    return code;
}

static int act_program(void *context)
{
    const struct trial *trial = context;
    char number[32], here[FOLDER_BYTES];

    (void)snprintf(number, sizeof number, "%lu", trial->n);
    if (trial->n > 0)
        setenv(FAIL_AFTER, number, 1);
    else /* the program changes to a folder of its own */
        setenv(FAIL_COUNT, trial_inside(getcwd(here, sizeof here), "count"), 1);
    execl(trial->subject->program, trial->subject->program, (char *)NULL);
    perror(trial->subject->program);
    return 2;
}

/* ---- one trial ---- */

static int act(struct trial *trial, const char *folder)
{
    const struct scene *scene = trial->subject->scene;
    struct http_script *service;
    int end;

    if (!scene)
        return trial_fork(folder, act_program, trial);
    service = fault_service_start(scene->service);
    end = trial_fork(folder, act_scene, trial);
    fault_service_stop(service);
    return end;
}

static void show(const struct trial *trial, const char *folder, int end,
    const char *wrong, const char *found)
{
    struct tally *tally = trial->subject->tally;
    char *log;

    if (atomic_fetch_add(&tally->wrong, 1) >= SHOWN_MAX)
        return;
    log = trial_read(folder, "log");
    printf("FAILED  %s, allocation %lu: %s%s%s\n", trial->subject->name,
        trial->n, trial_end_name(end), wrong ? ": " : "", wrong ? wrong : "");
    if (log && *log)
        printf("%.2000s", log);
    if (found)
        printf("-- found:\n%s-- after a clean run:\n%s", found,
            trial->subject->state);
    free(log);
    (void)fflush(stdout);
}

static void try_one(const void *context, unsigned long n, const char *folder)
{
    const struct subject *subject = context;
    struct trial *trial = &(struct trial){.subject = subject, .n = n};
    struct tally *tally = subject->tally;
    int clean = subject->scene ? subject->scene->exit_code : 0;
    const char *wrong = NULL;
    char *found = NULL;
    int end;

    trial_begin(subject->folder, folder);
    end = act(trial, folder);
    atomic_fetch_add(&tally->failed, 1);
    if (end == EXIT_AGAIN)
        atomic_fetch_add(&tally->ended_75, 1);
    else if (end == clean)
        atomic_fetch_add(&tally->not_reached, 1);
    else {
        show(trial, folder, end, NULL, NULL);
        return;
    }
    if (subject->scene && subject->scene->again[0])
        wrong = scene_judge(subject->scene, folder, subject->state, &found);
    if (wrong)
        show(trial, folder, end, wrong, found);
    free(found);
}

/* ---- a subject ---- */

/* Fills the template, and makes a run without failures, which counts the
 * allocations. */
static bool begin(struct subject *subject)
{
    struct trial trial = {.subject = subject};
    int expected = subject->scene ? subject->scene->exit_code : 0;
    char *template = trial_inside(subject->folder, "template");
    char *clean = trial_inside(subject->folder, "clean"), *text;
    bool ready = true;
    int end;

    trial.count = program_shared(sizeof *trial.count);
    trial_copy("/var/empty", template);
    if (subject->scene)
        ready = scene_prepare(subject->scene, template);
    trial_copy(template, clean);
    end = ready ? act(&trial, clean) : 1;
    subject->count = *trial.count;
    if (!subject->scene && (text = trial_read(clean, "count"))) {
        subject->count = strtoul(text, NULL, 10);
        free(text);
    }
    if (!ready || end != expected || subject->count == 0) {
        text = trial_read(clean, "log");
        printf("FAILED  %s: without failures: %s\n%.2000s", subject->name,
            trial_end_name(end), text ? text : "");
        free(text);
        ready = false;
    } else if (subject->scene && subject->scene->again[0]) {
        subject->state =
            scene_finish(subject->scene, clean) ? scene_state(clean) : NULL;
        ready = subject->state != NULL;
    }
    free(template);
    free(clean);
    return ready;
}

/* Fails the subject if no trial ended with 75, because then no allocation
 * failed. */
static void check_seam(const struct subject *subject)
{
    struct tally *tally = subject->tally;

    if (atomic_load(&tally->ended_75) > 0)
        return;
    printf("FAILED  %s: of %lu trials none ended with 75: its allocations "
           "do not fail\n",
        subject->name, atomic_load(&tally->failed));
    atomic_fetch_add(&tally->wrong, 1);
}

static unsigned long long total_failed, total_wrong;

/* Makes all trials of a subject; n > 0: only that of the n-th allocation. */
static void examine(struct subject *subject, unsigned long share,
    unsigned long n, unsigned long seed)
{
    int64_t started = time(NULL);
    struct tally *tally;

    folder_make(subject->folder, "tableward-faults");
    tally = subject->tally = program_shared(sizeof *subject->tally);
    if (!begin(subject)) {
        total_wrong++;
    } else {
        if (!subject->scene)
            share *= 1 + subject->count / PROGRAM_TRIALS;
        if (n == 0)
            trial_sweep(
                subject->folder, subject->count, share, seed, try_one, subject);
        else
            trial_sweep(subject->folder, n, n, n - 1, try_one, subject);
        if (n == 0)
            check_seam(subject);
        printf("%-20s %9lu allocations  %7lu failed  %7lu ended 75  "
               "%5lu not reached  %lu wrong  %lld s\n",
            subject->name, subject->count, atomic_load(&tally->failed),
            atomic_load(&tally->ended_75), atomic_load(&tally->not_reached),
            atomic_load(&tally->wrong), (long long)(time(NULL) - started));
        total_failed += atomic_load(&tally->failed);
        total_wrong += atomic_load(&tally->wrong);
    }
    (void)fflush(stdout);
    free(subject->state);
    folder_remove(subject->folder);
}

static void examine_scenes(
    unsigned long share, const char *only, unsigned long n, unsigned long seed)
{
    if (only && !scene_named(only)) {
        (void)fprintf(stderr, "faults: there is no scene '%s'\n", only);
        exit(PROGRAM_USAGE);
    }
    for (size_t i = 0; i < SCENE_COUNT; i++) {
        struct subject subject = {.name = SCENES[i].name, .scene = &SCENES[i]};

        if (!only || strcmp(only, SCENES[i].name) == 0)
            examine(&subject, share, n, seed);
    }
}

static void examine_program(
    const char *path, unsigned long share, unsigned long seed)
{
    char *program = realpath(path, NULL);
    struct subject subject = {
        .name = strrchr(path, '/') + 1, .program = program};

    if (!program) {
        perror(path);
        exit(1);
    }
    examine(&subject, share, 0, seed);
    free(program);
}

int main(int argc, char **argv)
{
    unsigned long share = trial_share(argc, argv);
    unsigned long seed = (unsigned long)time(NULL);
    char *root;
    int at = 2;

#ifndef MEM_HAS_LIBRARIES
    puts("faults: this build has its own malloc for libraries: nothing done");
    return 0;
#endif
    setenv("FAULTS_AZURE", "AccountName=a;AccountKey=a2V5", 1);
    /* one certificate is read by the same code as a hundred, and faster */
    setenv("SSL_CERT_FILE", "root.pem", 1);
    setenv("SSL_CERT_DIR", "/var/empty", 1);
    root = getcwd(NULL, 0);
    if (root)
        setenv("TABLEWARD_SOURCE", root, 1); /* as tests/run-unit does */
    free(root);
    if (argc <= 2 || !strchr(argv[2], '/'))
        examine_scenes(share, argc > 2 ? argv[2] : NULL,
            argc > 3 ? strtoul(argv[3], NULL, 10) : 0, seed);
    for (; at < argc && strchr(argv[at], '/'); at++)
        examine_program(argv[at], share, seed);
    if (at > 2 && at < argc) {
        (void)fprintf(
            stderr, "faults: '%s' is no path of a program\n", argv[at]);
        return PROGRAM_USAGE;
    }
    printf("faults: %llu allocations failed (SHARE=%lu), %llu wrong\n",
        total_failed, share, total_wrong);
    return total_wrong == 0 ? 0 : 1;
}
