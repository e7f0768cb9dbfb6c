/* SPDX-License-Identifier: MIT */
/*
 * Makes each call to the file system fail in turn: the calls of SQLite, and
 * those for the archive.
 *
 *   io SHARE [SCENE [KIND N]]      every SHARE-th call
 *
 * A run without failures counts the calls. For each n up to this number, a
 * child starts in a folder of its own, and the n-th call fails, alone or with
 * some of the calls after it. They fail as on a broken disk, or as on a full
 * disk, which has space again after some calls. A worker must continue by
 * itself and finish. Any other command may exit with 69 or 75; then it is run
 * again. After a failed fsync the process must have ended with 75. In the end
 * the folder must contain what the run without failures left, and SQLite must
 * find no error in the file.
 *
 * Exit code 1: a trial failed. 64: there is no such scene or kind of failure.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/faults/inject.h"
#include "tests/faults/scenes.h"
#include "tests/faults/trial.h"
#include "tests/support/folder.h"
#include "tests/support/program.h"

#define WRITES (IO_SET(IO_WRITE) | IO_SET(IO_ARCHIVE_WRITE))
#define SYNCS (IO_SET(IO_SYNC) | IO_SET(IO_ARCHIVE_SYNC))
/* Number of calls that fail in a row: enough that a few retries fail too. */
#define SOME 40

static const struct io_kind KINDS[] = {
    {"one fails", {.calls = IO_ALL, .count = 1}},
    {"some fail", {.calls = IO_ALL, .count = SOME}},
    {"a sync fails", {.calls = SYNCS, .count = 1}},
    {"full once", {.calls = WRITES, .count = 1, .full = true}},
    {"full, and back", {.calls = WRITES, .count = SOME, .full = true}},
};

#define KIND_COUNT (sizeof(KINDS) / sizeof(KINDS[0]))

struct tally {
    atomic_ulong trials, reached, ended_75, wrong;
};

struct subject {
    const struct scene *scene;
    const struct io_kind *kind;
    char folder[FOLDER_BYTES];
    char *state;    /* what is in the folder after the run without failures */
    char *finished; /* ... and after scene_finish(), too */
    struct tally *tally;
};

struct trial {
    const struct subject *subject;
    struct io_plan plan;
    struct io_report *report; /* in shared memory */
};

static unsigned long total_trials, total_wrong;

/* ---- one trial ---- */

static int act(void *context)
{
    struct trial *trial = context;

    fault_scene_begin(false);
    io_begin(&trial->plan, trial->report);
    return trial_command(trial->subject->scene->command);
}

/* Returns whether the run may wait for its archive, because a write to the
 * archive has failed. A drain ends although such a run is still open. */
static bool may_hold(const struct trial *trial)
{
    return atomic_load(&trial->report->archive_failed) > 0;
}

static bool may_end_so(const struct trial *trial, int end)
{
    const struct scene *scene = trial->subject->scene;
    bool serves = strncmp(scene->command, "worker", 6) == 0;

    if (atomic_load(&trial->report->syncs_failed) > 0)
        return end == EXIT_AGAIN;
    if (end == scene->exit_code || (end == EXIT_AGAIN && may_hold(trial)))
        return true;
    return !serves && (end == EXIT_NO_STORE || end == EXIT_AGAIN) &&
           atomic_load(&trial->report->failed) > 0;
}

static void show(const struct trial *trial, unsigned long n, const char *log,
    int end, const char *wrong, const char *found)
{
    const struct subject *subject = trial->subject;

    if (atomic_fetch_add(&subject->tally->wrong, 1) >= SHOWN_MAX)
        return;
    printf("FAILED  %s, %s, call %lu (%s): %s: %s\n%.3000s",
        subject->scene->name, subject->kind->name, n,
        io_report_text(trial->report), trial_end_name(end), wrong,
        log ? log : "");
    if (found)
        printf("-- found:\n%s-- after a clean run:\n%s", found, subject->state);
    (void)fflush(stdout);
}

/* Returns what is wrong, or NULL. If the command ended as it does without
 * failures, the folder must be complete. If it ended in another way,
 * scene_judge() finishes the work first. */
static const char *judge(
    const struct trial *trial, const char *folder, int end, char **ret_found)
{
    const struct subject *subject = trial->subject;

    if (end != subject->scene->exit_code)
        return scene_judge(
            subject->scene, folder, subject->finished, ret_found);
    *ret_found = scene_state(folder);
    if (!*ret_found || strcmp(*ret_found, subject->state) != 0)
        return "it says that it is done, and is not";
    return NULL;
}

static void try_one(const void *context, unsigned long n, const char *folder)
{
    const struct subject *subject = context;
    struct trial trial = {.subject = subject, .plan = subject->kind->plan};
    char *found = NULL, *log;
    const char *wrong;
    int end;

    trial.plan.first = n;
    trial.report = program_shared(sizeof *trial.report);
    trial_begin(subject->folder, folder);
    end = trial_fork(folder, act, &trial);
    log = trial_read(folder, "log");
    atomic_fetch_add(&subject->tally->trials, 1);
    atomic_fetch_add(
        &subject->tally->reached, atomic_load(&trial.report->failed) > 0);
    atomic_fetch_add(&subject->tally->ended_75, end == EXIT_AGAIN);
    if (!may_end_so(&trial, end))
        wrong = atomic_load(&trial.report->syncs_failed) > 0
                    ? "a failed fsync was passed over"
                    : "it must not end so";
    else
        wrong = judge(&trial, folder, end, &found);
    if (wrong)
        show(&trial, n, log, end, wrong, found);
    free(log);
    free(found);
    program_unshared(trial.report, sizeof *trial.report);
}

/* ---- a subject ---- */

/* Makes a run without failures, and keeps what is in its folder. Returns the
 * number of its calls; 0: it failed. */
static unsigned long begin(struct subject *subject)
{
    struct trial trial = {.subject = subject, .plan = subject->kind->plan};
    char *template = trial_inside(subject->folder, "template");
    char *clean = trial_inside(subject->folder, "clean");
    unsigned long count = 0;
    int end;

    trial.report = program_shared(sizeof *trial.report);
    trial_copy("/var/empty", template);
    if (scene_prepare(subject->scene, template)) {
        trial_copy(template, clean);
        end = trial_fork(clean, act, &trial);
        count = atomic_load(&trial.report->calls);
        subject->state = scene_state(clean);
        if (scene_finish(subject->scene, clean))
            subject->finished = scene_state(clean);
        if (end != subject->scene->exit_code || !subject->state ||
            !subject->finished)
            count = 0;
    }
    free(template);
    free(clean);
    return count;
}

/* Makes all trials of a scene and a kind of failure; n > 0: only that of the
 * n-th call. */
static void examine(const struct scene *scene, const struct io_kind *kind,
    unsigned long share, unsigned long seed, unsigned long n)
{
    struct subject subject = {.scene = scene, .kind = kind};
    struct tally *tally = subject.tally = program_shared(sizeof *tally);
    time_t started = time(NULL);
    unsigned long count;

    folder_make(subject.folder, "tableward-faults");
    count = begin(&subject);
    if (count == 0) {
        printf("FAILED  %s: without failures\n", scene->name);
        total_wrong++;
    } else if (n > 0) {
        trial_sweep(subject.folder, n, n, n - 1, try_one, &subject);
    } else {
        trial_sweep(subject.folder, count, count <= FEW ? 1 : share, seed,
            try_one, &subject);
    }
    printf("%-12s %-15s %5lu calls  %5lu trials  %5lu reached  %4lu ended 75  "
           "%lu wrong  %lld s\n",
        scene->name, kind->name, count, atomic_load(&tally->trials),
        atomic_load(&tally->reached), atomic_load(&tally->ended_75),
        atomic_load(&tally->wrong), (long long)(time(NULL) - started));
    (void)fflush(stdout);
    total_trials += atomic_load(&tally->trials);
    total_wrong += atomic_load(&tally->wrong);
    free(subject.state);
    free(subject.finished);
    folder_remove(subject.folder);
}

/* Ends the process if scene_name is not the name of a scene that writes, or
 * kind_name not that of a kind of failure. A name may be NULL: all. */
static void check_names(const char *scene_name, const char *kind_name)
{
    const struct scene *scene = scene_name ? scene_named(scene_name) : NULL;
    size_t at = 0;

    if (scene_name && (!scene || !scene->again[0])) {
        (void)fprintf(stderr, "faults: there is no scene '%s'%s\n", scene_name,
            scene ? " that writes" : "");
        exit(PROGRAM_USAGE);
    }
    while (
        kind_name && at < KIND_COUNT && strcmp(KINDS[at].name, kind_name) != 0)
        at++;
    if (at == KIND_COUNT) {
        (void)fprintf(
            stderr, "faults: there is no kind of failure '%s'\n", kind_name);
        exit(PROGRAM_USAGE);
    }
}

int main(int argc, char **argv)
{
    unsigned long share = trial_share(argc, argv);
    unsigned long n = argc > 4 ? strtoul(argv[4], NULL, 10) : 0;
    unsigned long seed = (unsigned long)time(NULL);

    check_names(argc > 2 ? argv[2] : NULL, argc > 3 ? argv[3] : NULL);
    setenv("FAULTS_AZURE", "AccountName=a;AccountKey=a2V5", 1);
    for (size_t i = 0; i < SCENE_COUNT; i++)
        for (size_t k = 0; k < KIND_COUNT; k++)
            if (SCENES[i].again[0] &&
                (argc <= 2 || strcmp(argv[2], SCENES[i].name) == 0) &&
                (argc <= 3 || strcmp(argv[3], KINDS[k].name) == 0))
                examine(&SCENES[i], &KINDS[k], share, seed, n);
    printf("faults: %lu trials of failing I/O (SHARE=%lu), %lu wrong\n",
        total_trials, share, total_wrong);
    return total_wrong == 0 ? 0 : 1;
}
