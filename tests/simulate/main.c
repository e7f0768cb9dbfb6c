/* SPDX-License-Identifier: MIT */
/*
 * simulate: plays seeds, many at a time.
 *
 *   simulate [--kind K] [--seeds N] [--from S] [--jobs J] [--stop-at-first]
 *   simulate [--kind K] --seed S [--verbose]
 *   simulate --measure
 *
 * Each seed is a simulation of one kind of job. The kinds take turns unless
 * --kind names one. For each seed that fails, prints a line "seed S failed:
 * why" and the command that plays it again. Exit code: 0 nothing failed, 1 a
 * seed failed, 64 wrong usage.
 *
 * Child processes play the seeds, some seeds each, for two reasons: the memory
 * of a crashed worker is never freed, and if a child dies, only one seed fails.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/simulate/sim.h"
#include "tests/support/program.h"
#include "worker/base/log.h"

#define JOBS_MAX 64
#define SEEDS_A_CHILD 50
#define SEED_MAX_S 120

/* A seed plays the kind at this index: the seed modulo the number of kinds. */
static const struct {
    const char *name;
    const struct sim_kind *kind;
} KINDS[] = {{"upgrade", &sim_upgrade}, {"cascade", &sim_cascade},
    {"delete", &sim_delete}, {"copy", &sim_copy}, {"move", &sim_move}};

#define KIND_COUNT (sizeof(KINDS) / sizeof(KINDS[0]))

struct options {
    uint64_t seeds, from;
    size_t kind; /* kind of all seeds; KIND_COUNT: the kinds take turns */
    unsigned jobs;
    bool one, verbose, stop_at_first, measure;
};

/* Message of a child about a seed: first that it begins, then its result. */
struct word {
    bool begins;
    struct sim_result result;
};

struct child {
    pid_t pid;
    int pipe;
    uint64_t at; /* its current seed */
    bool busy;   /* it has begun this seed and not ended it */
};

/* For one kind of trouble: the number of simulations that had it, and their
 * longest times. */
struct trouble_tally {
    uint64_t worlds;
    int64_t peace_ms, beside_ms;
};

struct tally {
    size_t kind; /* as in struct options */
    uint64_t of_kind[KIND_COUNT];
    uint64_t played, failed, requests, faults, runs, crashes, stalls, steps,
        taken_early, late_landed, late_taken, zombie_sent, zombie_taken, pauses;
    struct trouble_tally troubles[TROUBLES];
    int64_t calm_peace_ms;
    int64_t virtual_ms;
    double seconds;
};

/* ---- one seed ---- */

static size_t kind_of(uint64_t seed, size_t kind)
{
    return kind < KIND_COUNT ? kind : seed % KIND_COUNT;
}

static size_t kind_named(const char *name)
{
    size_t at = 0;

    while (at < KIND_COUNT && (!name || strcmp(KINDS[at].name, name) != 0))
        at++;
    return at;
}

static void play(uint64_t seed, size_t kind, bool trace, struct sim_result *ret)
{
    const struct sim_options options = {
        .seed = seed, .kind = KINDS[kind_of(seed, kind)].kind, .trace = trace};

    sim_play(&options, ret);
}

static void print_outcome(const struct sim_result *result)
{
    printf("seed %" PRIu64 ": hash %016" PRIx64 ", %" PRIu64
           " hand-offs, %u requests, %u faults, %u runs, %u crashes, %u "
           "stalls, %" PRId64 " virtual s\n",
        result->seed, result->hash, result->steps, result->requests,
        result->faults, result->runs, result->crashes, result->stalls,
        result->virtual_ms / 1000);
}

static void print_failed(uint64_t seed, size_t kind, const char *why)
{
    printf("seed %" PRIu64 " failed: %s\n"
           "    make simulate SEED=%" PRIu64 "%s%s\n",
        seed, why, seed, kind < KIND_COUNT ? " KIND=" : "",
        kind < KIND_COUNT ? KINDS[kind].name : "");
    (void)fflush(stdout);
}

/* ---- children ---- */

static void write_all(int fd, const void *what, size_t len)
{
    const char *at = what;

    while (len > 0) {
        ssize_t wrote = write(fd, at, len);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            _exit(2);
        at += wrote;
        len -= (size_t)wrote;
    }
}

static void __attribute__((noreturn))
be_child(int pipe, size_t kind, uint64_t from, uint64_t count)
{
    program_hush();
    for (uint64_t seed = from; seed < from + count; seed++) {
        struct word word = {.begins = true, .result = {.seed = seed}};

        write_all(pipe, &word, sizeof(word));
        (void)alarm(SEED_MAX_S);
        word.begins = false;
        play(seed, kind, false, &word.result);
        (void)alarm(0);
        write_all(pipe, &word, sizeof(word));
    }
    _exit(0);
}

static void start_child(
    struct child *child, size_t kind, uint64_t from, uint64_t count)
{
    int ends[2];

    if (pipe(ends) != 0)
        program_die("pipe");
    child->pid = program_fork();
    if (child->pid == 0) {
        (void)close(ends[0]);
        be_child(ends[1], kind, from, count);
    }
    (void)close(ends[1]);
    child->pipe = ends[0];
    child->busy = false;
}

static void count_troubles(struct tally *tally, const struct sim_result *result)
{
    for (size_t i = 0; i < TROUBLES; i++) {
        struct trouble_tally *of = &tally->troubles[i];

        if (!(result->troubles & 1U << i))
            continue;
        of->worlds++;
        if (result->peace_ms > of->peace_ms)
            of->peace_ms = result->peace_ms;
        if (result->beside_ms > of->beside_ms)
            of->beside_ms = result->beside_ms;
    }
    if (result->troubles == 0 && result->peace_ms > tally->calm_peace_ms)
        tally->calm_peace_ms = result->peace_ms;
}

static void count_result(struct tally *tally, const struct sim_result *result)
{
    tally->played++;
    tally->of_kind[kind_of(result->seed, tally->kind)]++;
    tally->requests += result->requests;
    tally->faults += result->faults;
    tally->runs += result->runs;
    tally->crashes += result->crashes;
    tally->stalls += result->stalls;
    tally->steps += result->steps;
    tally->taken_early += result->taken_early;
    tally->late_landed += result->late_landed;
    tally->late_taken += result->late_taken;
    tally->zombie_sent += result->zombie_sent;
    tally->zombie_taken += result->zombie_taken;
    tally->pauses += result->pauses;
    tally->virtual_ms += result->virtual_ms;
    count_troubles(tally, result);
    if (result->complaint[0]) {
        tally->failed++;
        print_failed(result->seed, tally->kind, result->complaint);
    }
}

static bool read_word(int fd, struct word *ret)
{
    char *at = (char *)ret;
    size_t left = sizeof(*ret);

    while (left > 0) {
        ssize_t got = read(fd, at, left);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        left -= (size_t)got;
    }
    return true;
}

static void child_died(struct child *child, struct tally *tally)
{
    char why[64];
    int status = program_wait(child->pid);

    (void)close(child->pipe);
    child->pid = 0;
    if (!child->busy)
        return;
    (void)snprintf(why, sizeof(why), "the process died (%s %d)",
        WIFSIGNALED(status) ? "signal" : "exit code",
        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    tally->played++;
    tally->of_kind[kind_of(child->at, tally->kind)]++;
    tally->failed++;
    print_failed(child->at, tally->kind, why);
}

static void hear(struct child *child, struct tally *tally, bool verbose)
{
    struct word word;

    if (!read_word(child->pipe, &word)) {
        child_died(child, tally);
        return;
    }
    child->at = word.result.seed;
    child->busy = word.begins;
    if (word.begins)
        return;
    if (verbose)
        print_outcome(&word.result);
    count_result(tally, &word.result);
}

/* ---- many seeds ---- */

static void feed(
    struct child *child, const struct options *options, uint64_t *next)
{
    uint64_t end = options->from + options->seeds;
    uint64_t count = end - *next;

    if (count > SEEDS_A_CHILD)
        count = SEEDS_A_CHILD;
    start_child(child, options->kind, *next, count);
    *next += count;
}

static void wait_for_words(
    struct child *children, const struct options *options, struct tally *tally)
{
    unsigned count = options->jobs;
    struct pollfd polls[JOBS_MAX];

    for (unsigned i = 0; i < count; i++)
        polls[i] = (struct pollfd){
            .fd = children[i].pid ? children[i].pipe : -1, .events = POLLIN};
    if (poll(polls, count, -1) < 0 && errno != EINTR)
        program_die("poll");
    for (unsigned i = 0; i < count; i++)
        if (children[i].pid && polls[i].revents != 0)
            hear(&children[i], tally, options->verbose);
}

static void end_children(struct child *children, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (children[i].pid) {
            (void)kill(children[i].pid, SIGKILL);
            (void)waitpid(children[i].pid, NULL, 0);
        }
}

/* Plays all seeds. If a child died in a seed, another child plays the rest of
 * its share. */
static void play_all(const struct options *options, struct tally *tally)
{
    struct child children[JOBS_MAX] = {{0}};
    uint64_t next = options->from, end = options->from + options->seeds;
    uint64_t share_end[JOBS_MAX] = {0};
    bool working = true;

    while (working) {
        working = false;
        for (unsigned i = 0; i < options->jobs; i++) {
            struct child *child = &children[i];

            if (!child->pid && child->busy && child->at + 1 < share_end[i]) {
                start_child(child, options->kind, child->at + 1,
                    share_end[i] - child->at - 1);
            } else if (!child->pid && next < end) {
                feed(child, options, &next);
                share_end[i] = next;
            } else if (!child->pid) {
                child->busy = false;
            }
            working = working || child->pid;
        }
        if (working)
            wait_for_words(children, options, tally);
        if (options->stop_at_first && tally->failed > 0)
            break;
    }
    end_children(children, options->jobs);
}

static void print_tally(
    const struct options *options, const struct tally *tally)
{
    double seeds = tally->played > 0 ? (double)tally->played : 1;

    printf("a seed: %.0f hand-offs, %.0f requests, %.1f faults, %.1f runs, "
           "%.1f crashes, %.1f stalls, %.0f virtual s\n",
        (double)tally->steps / seeds, (double)tally->requests / seeds,
        (double)tally->faults / seeds, (double)tally->runs / seeds,
        (double)tally->crashes / seeds, (double)tally->stalls / seeds,
        (double)tally->virtual_ms / 1000 / seeds);
    printf("landed late: %" PRIu64 ", of these taken: %" PRIu64
           "; started after a lease: %" PRIu64
           ", of the overtaken and taken: %" PRIu64 "\n",
        tally->late_landed, tally->late_taken, tally->zombie_sent,
        tally->zombie_taken);
    printf("taken from a process that had died before its lease expired: "
           "%" PRIu64 "\n",
        tally->taken_early);
    printf("paused by a person and resumed: %" PRIu64 "\n", tally->pauses);
    printf("worlds with:");
    for (size_t i = 0; i < TROUBLES; i++)
        printf("%s %s %" PRIu64 " (all done %" PRId64 " s after)",
            i > 0 ? "," : "", trouble_name((enum trouble)i),
            tally->troubles[i].worlds, tally->troubles[i].peace_ms / 1000);
    printf("; none of them: %" PRId64 " s\n", tally->calm_peace_ms / 1000);
    printf("a run beside the data that is gone: %" PRId64
           " s (refused), %" PRId64 " s (silent), %" PRId64
           " s (DNS hangs) at most\n",
        tally->troubles[TROUBLE_DATA_REFUSED].beside_ms / 1000,
        tally->troubles[TROUBLE_DATA_SILENT].beside_ms / 1000,
        tally->troubles[TROUBLE_DNS].beside_ms / 1000);
    printf("seeds of a kind:");
    for (size_t i = 0; i < KIND_COUNT; i++)
        printf("%s %" PRIu64 " %s", i > 0 ? "," : "", tally->of_kind[i],
            KINDS[i].kind->name);
    printf("\nsimulate: %" PRIu64 " seeds from %" PRIu64 ", %" PRIu64
           " failed, %.0f seeds a minute\n",
        tally->played, options->from, tally->failed,
        (double)tally->played * 60 / (tally->seconds > 0 ? tally->seconds : 1));
}

/* True if all seeds were played, or if --stop-at-first is set and a seed has
 * failed. */
static bool all_played(const struct options *options, const struct tally *tally)
{
    if (tally->played == options->seeds ||
        (options->stop_at_first && tally->failed > 0))
        return true;
    printf("simulate: %" PRIu64 " of %" PRIu64 " seeds were not played\n",
        options->seeds - tally->played, options->seeds);
    return false;
}

static int play_many(const struct options *options)
{
    struct tally tally = {.kind = options->kind};
    double begun_s = program_seconds();

    printf("seeds %" PRIu64 " to %" PRIu64 "\n", options->from,
        options->from + options->seeds - 1);
    (void)fflush(stdout);
    play_all(options, &tally);
    tally.seconds = program_seconds() - begun_s;
    print_tally(options, &tally);
    return tally.failed > 0 || !all_played(options, &tally) ? 1 : 0;
}

/* Plays one seed in a child. If the child dies, *ret says that the seed has
 * begun and not ended, even if the child died before it began. */
static void play_apart(const struct options *options, struct word *ret)
{
    struct tally tally = {.kind = options->kind};
    struct child child = {.at = options->from};

    *ret = (struct word){.begins = true, .result = {.seed = options->from}};
    start_child(&child, options->kind, options->from, 1);
    while (child.pid) {
        if (read_word(child.pipe, ret))
            child.busy = ret->begins;
        else
            child_died(&child, &tally);
    }
    print_outcome(&ret->result);
}

static bool are_equal(const struct word words[2])
{
    bool died = words[0].begins || words[1].begins;
    bool equal = !died && words[0].result.hash == words[1].result.hash;

    printf("the trace hashes are %s\n", died    ? "unknown: a process died"
                                        : equal ? "equal"
                                                : "NOT EQUAL");
    (void)fflush(stdout);
    return equal;
}

/* Plays one seed twice, each time in its own process, and compares the trace
 * hashes. */
static int play_one(const struct options *options)
{
    struct word words[2];
    bool equal;

    for (int i = 0; i < 2; i++)
        play_apart(options, &words[i]);
    equal = are_equal(words);
    if (options->verbose || words[0].result.complaint[0] || words[0].begins) {
        play(options->from, options->kind, true, &words[0].result);
    }
    if (words[0].result.complaint[0])
        printf("seed %" PRIu64 " failed: %s\n", options->from,
            words[0].result.complaint);
    return words[0].result.complaint[0] || !equal ? 1 : 0;
}

/* ---- the command line ---- */

static void read_options(int argc, char **argv, struct options *ret)
{
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i];

        if (strcmp(option, "--seeds") == 0) {
            ret->seeds = program_number(argv[++i]);
        } else if (strcmp(option, "--from") == 0) {
            ret->from = program_number(argv[++i]);
        } else if (strcmp(option, "--seed") == 0) {
            ret->from = program_number(argv[++i]);
            ret->one = true;
        } else if (strcmp(option, "--kind") == 0) {
            ret->kind = kind_named(argv[++i]);
            if (ret->kind == KIND_COUNT)
                exit(PROGRAM_USAGE);
        } else if (strcmp(option, "--jobs") == 0) {
            ret->jobs = (unsigned)program_number(argv[++i]);
        } else if (strcmp(option, "--stop-at-first") == 0) {
            ret->stop_at_first = true;
        } else if (strcmp(option, "--measure") == 0) {
            ret->measure = true;
        } else if (strcmp(option, "--verbose") == 0) {
            ret->verbose = true;
        } else {
            (void)fprintf(stderr,
                "usage: simulate [--kind K] [--seeds N] [--from S] [--jobs J] "
                "[--stop-at-first]\n"
                "       simulate [--kind K] --seed S [--verbose]\n"
                "       simulate --measure\n");
            exit(PROGRAM_USAGE);
        }
    }
}

int main(int argc, char **argv)
{
    struct options options = {.seeds = 200, .jobs = 2, .kind = KIND_COUNT};
    uint32_t fresh;

    if (getrandom(&fresh, sizeof(fresh), 0) != sizeof(fresh))
        return 2;
    options.from = (uint64_t)fresh * 1000;
    read_options(argc, argv, &options);
    if (options.jobs < 1 || options.jobs > JOBS_MAX || options.seeds < 1)
        return PROGRAM_USAGE;
    /* The log level is always the same: each log line reads the clock, and that
     * takes virtual time. */
    log_set(LOG_INFO, LOG_TEXT);
    if (options.measure) {
        program_hush();
        return sim_measure();
    }
    return options.one ? play_one(&options) : play_many(&options);
}
