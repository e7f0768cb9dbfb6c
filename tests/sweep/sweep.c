/* SPDX-License-Identifier: MIT */
/*
 * The crash sweep: for each scenario and each request of an undisturbed run,
 * kills the worker with SIGKILL before the request is sent, after it took
 * effect, and after its response. Then another worker runs to the end, and a
 * judge compares the tables. In some scenarios an operator pauses or cancels
 * the run at another request (person.h). Each worker is a forked process on an
 * embedded file, on the virtual platform, whose clock skips the wait for the
 * end of a lease.
 *
 *   crash-sweep [--seed N] [--share K] [--stop-at-first 1]
 *               [SCENARIO [REQUEST asks] [REQUEST POINT]...]
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/folder.h"
#include "tests/support/program.h"
#include "tests/sweep/life.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

/* Number of streams: processes that run cases at the same time. Each stream has
 * a folder of its own and runs a part of the cases. */
#define STREAMS 2
#define KILLS_MAX 2
/* Maximum number of processes of a case with an operator. One of them is killed
 * and one ends with a paused run. */
#define LIVES_MAX 4
/* Maximum number of additional requests of a run that was paused. */
#define PAUSE_REQUESTS 10
/* In a scenario with an operator, each kill is combined with this number of
 * requests at which the operator asks. */
#define ASKS 3
/* A process that takes longer than this counts as hung. */
#define LIFE_MAX_S 120
#define REPORTED_MAX 20
/* On the command line, after the number of a request: the operator asks at this
 * request. */
#define ASKS_NAME "asks"

struct tally {
    unsigned long restarts, violations;
    unsigned long acted;   /* cases in which the front end acted */
    unsigned long stopped; /* cases in which the operator's pause or cancel took
                              effect */
};

/* Memory that a stream shares with the main process. */
struct shared {
    struct last_words words;
    struct tally tally;
};

struct sweep {
    uint64_t seed;
    unsigned long share, offset;
    bool stop_at_first; /* a stream stops at its first violation */
    char root[FOLDER_BYTES];
    /* Of the current scenario: */
    const struct scenario *scenario;
    struct stage stage;
    char *template; /* bytes of the store's initial file */
    size_t template_bytes;
    unsigned requests; /* number of requests of a run without kills */
    /* Of the stream: */
    unsigned stream;
    char folder[FOLDER_BYTES + 32];
    struct shared *shared;
};

/* ---- files ---- */

static void read_template(struct sweep *sweep, const char *path)
{
    struct stat info;
    int at = open(path, O_RDONLY | O_CLOEXEC);

    if (at < 0 || fstat(at, &info) != 0)
        program_die(path);
    sweep->template_bytes = (size_t)info.st_size;
    sweep->template = mem_alloc(sweep->template_bytes);
    if (read(at, sweep->template, sweep->template_bytes) != info.st_size)
        program_die(path);
    (void)close(at);
}

/* Sets up the folder of this stream as it must be before the first process of a
 * case starts. */
static void set_up(struct sweep *sweep)
{
    char path[FOLDER_BYTES + 64];
    int at;

    sweep->shared->words = (struct last_words){.acted = false};
    folder_remove(sweep->folder);
    if (mkdir(sweep->folder, 0700) != 0)
        program_die(sweep->folder);
    (void)snprintf(path, sizeof(path), "%s/store.db", sweep->folder);
    at = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (at < 0 || write(at, sweep->template, sweep->template_bytes) !=
                      (ssize_t)sweep->template_bytes)
        program_die(path);
    (void)close(at);
}

/* ---- one case: a list of kills, then a process that runs to the end ---- */

struct crash {
    struct kill_plan kills[KILLS_MAX];
    unsigned count;
    bool aloud;
    bool counted;     /* the requests of the last process are counted, to choose
                         a second kill */
    unsigned asks_at; /* number of the request at which the operator asks for
                       * a pause or cancel; 0: at none */
};

static uint64_t scatter(uint64_t value)
{
    value = (value ^ value >> 31) * 0x9e3779b97f4a7c15U;
    return value ^ value >> 29;
}

/* Returns the time until the next process begins. The time is longer than the
 * lease, or much longer. If no kill follows, the time may also be short: then
 * the next process polls the queue some hundred times until the lease expires.
 */
static int64_t pause_ms(uint64_t seed, bool last)
{
    static const int64_t PAUSES_MS[] = {
        200, 2 * SWEEP_VISIBILITY_TIMEOUT_S * 1000, 2 * 3600 * 1000};

    return last ? PAUSES_MS[scatter(seed) % 3]
                : PAUSES_MS[1 + scatter(seed) % 2];
}

static uint64_t seed_of(
    const struct sweep *sweep, const struct crash *crash, unsigned number)
{
    uint64_t seed = scatter(sweep->seed);

    for (unsigned i = 0; i < number; i++)
        seed = scatter(seed + crash->kills[i].request * 16 +
                       (unsigned)crash->kills[i].point + 1);
    return seed;
}

/* Runs process `number` (from 0) of a case, of which `killed` were killed
 * before, and returns its wait status. */
static int live(struct sweep *sweep, const struct crash *crash, unsigned number,
    unsigned killed, struct kill_plan plan)
{
    struct last_words *words = &sweep->shared->words;
    uint64_t seed = seed_of(sweep, crash, killed) + number - killed;
    bool last = killed == crash->count && !crash->counted;
    int64_t away_ms = number > 0 ? pause_ms(seed, last) : 0;
    struct life life = {.scenario = sweep->scenario,
        .stage = &sweep->stage,
        .folder = sweep->folder,
        .seed = seed,
        .boot_ms = LIFE_FIRST_MS,
        .wall_ticks = LIFE_FIRST_TICKS,
        .number = number,
        .killed = killed,
        .asks_at = crash->asks_at,
        .plan = plan,
        .aloud = crash->aloud,
        .words = words};
    pid_t child;

    if (number > 0) {
        life.boot_ms = words->boot_ms + away_ms;
        life.wall_ticks = words->wall_ticks + away_ms * TICKS_PER_MS;
    }
    words->why[0] = '\0';
    child = program_fork();
    if (child == 0) {
        if (!crash->aloud)
            program_hush();
        (void)alarm(LIFE_MAX_S);
        _exit(life_live(&life));
    }
    return program_wait(child);
}

static void report(
    struct sweep *sweep, const struct crash *crash, const char *why)
{
    char name[160];
    int len = snprintf(name, sizeof(name), "%s", sweep->scenario->name);

    if (crash->asks_at > 0)
        len += snprintf(name + len, sizeof(name) - (size_t)len,
            " %u " ASKS_NAME, crash->asks_at);
    for (unsigned i = 0; i < crash->count; i++)
        len += snprintf(name + len, sizeof(name) - (size_t)len, " %u %s",
            crash->kills[i].request, kill_point_name(crash->kills[i].point));
    if (++sweep->shared->tally.violations > REPORTED_MAX)
        return;
    printf("VIOLATION %s: %s\n    make crash-sweep SEED=%llu CASE=\"%s\"\n",
        name, why, (unsigned long long)sweep->seed, name);
}

/* True if the process has ended as it should. */
static bool lived(
    struct sweep *sweep, const struct crash *crash, unsigned number, int status)
{
    char why[96];

    if (number < crash->count
            ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
            : WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFSIGNALED(status))
        (void)snprintf(why, sizeof(why), "life %u ended by signal %d",
            number + 1, WTERMSIG(status));
    else
        (void)snprintf(why, sizeof(why), "life %u never came to request %u",
            number + 1,
            number < crash->count ? crash->kills[number].request : 0);
    report(sweep, crash,
        sweep->shared->words.why[0] ? sweep->shared->words.why : why);
    return false;
}

/* Runs a case. False: it was a violation, which is reported. */
static bool run_crash(struct sweep *sweep, const struct crash *crash)
{
    set_up(sweep);
    for (unsigned number = 0; number <= crash->count; number++) {
        struct kill_plan plan = {.request = 0};
        int status;

        if (number < crash->count)
            plan = crash->kills[number];
        status = live(sweep, crash, number, number, plan);

        sweep->shared->tally.restarts += number > 0;
        if (!lived(sweep, crash, number, status))
            return false;
    }
    sweep->shared->tally.acted += sweep->shared->words.acted;
    return true;
}

/* Runs a case with an operator and one kill. The kill happens at a request
 * whose number counts the requests of all processes of the case. If the case
 * makes fewer requests, no process is killed. */
static bool run_asked(struct sweep *sweep, const struct crash *crash)
{
    struct last_words *words = &sweep->shared->words;
    struct kill_plan plan = crash->kills[0];
    unsigned killed = 0;

    set_up(sweep);
    for (unsigned number = 0; !words->over; number++) {
        int status;

        if (number == LIVES_MAX) {
            report(sweep, crash, "the run does not end");
            return false;
        }
        status = live(sweep, crash, number, killed, plan);
        sweep->shared->tally.restarts += number > 0;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
            killed++;
            plan.request = 0;
        } else if (!lived(sweep, crash, crash->count, status)) {
            return false;
        } else if (plan.request > 0) {
            plan.request -= words->requests;
        }
    }
    sweep->shared->tally.stopped += words->stopped;
    return true;
}

static bool run_case(struct sweep *sweep, const struct crash *crash)
{
    return sweep->scenario->control == SWEEP_NOTHING ? run_crash(sweep, crash)
                                                     : run_asked(sweep, crash);
}

/* ---- a scenario ---- */

static bool chosen(const struct sweep *sweep, unsigned long number)
{
    if (sweep->stop_at_first && sweep->shared->tally.violations > 0)
        return false;
    return (number + sweep->offset) % sweep->share == 0;
}

/*
 * Runs the case once for each request of its second process, and kills that
 * process too, at this request. A process that waits for a lease polls its
 * queue a thousand times, so only its first requests are used.
 */
static void sweep_pairs(struct sweep *sweep, struct crash crash,
    unsigned long first, unsigned requests)
{
    unsigned long number = scatter(first) % 1000003;
    unsigned last = 2 * sweep->requests + 20;

    crash.count = 2;
    crash.counted = false;
    if (requests < last)
        last = requests;
    for (unsigned request = 1; request <= last; request++)
        for (int point = 0; point < KILL_POINTS; point++) {
            crash.kills[1] =
                (struct kill_plan){request, (enum kill_point)point};
            if (chosen(sweep, number++))
                (void)run_case(sweep, &crash);
        }
}

/* Runs the case ASKS times. In each, an operator asks at one request of an
 * undisturbed run, which the seed draws. */
static void sweep_asks(
    struct sweep *sweep, struct crash crash, unsigned long number)
{
    for (unsigned long i = 0; i < ASKS; i++) {
        uint64_t drawn = scatter(seed_of(sweep, &crash, 1) + i);

        crash.asks_at = (unsigned)(drawn % sweep->requests) + 1;
        if (chosen(sweep, number / STREAMS * ASKS + i))
            (void)run_case(sweep, &crash);
    }
}

/* Runs the case with this kill alone. If the scenario has pairs, runs it also
 * with every kill that can follow as the second one. */
static void sweep_kill(
    struct sweep *sweep, struct crash crash, unsigned long number)
{
    crash.counted = sweep->scenario->pairs;
    if (!crash.counted && !chosen(sweep, number / STREAMS))
        return;
    if (run_case(sweep, &crash) && crash.counted)
        sweep_pairs(sweep, crash, number, sweep->shared->words.requests);
}

/* Runs this stream's part of the cases of the scenario. */
static void sweep_part(struct sweep *sweep)
{
    bool asks = sweep->scenario->control != SWEEP_NOTHING;
    unsigned last = sweep->requests + (asks ? PAUSE_REQUESTS : 0);
    unsigned long number = 0;

    for (unsigned request = 1; request <= last; request++)
        for (int point = 0; point < KILL_POINTS; point++, number++)
            if (number % STREAMS == sweep->stream)
                (asks ? sweep_asks : sweep_kill)(sweep,
                    (struct crash){.kills = {{request, (enum kill_point)point}},
                        .count = 1},
                    number);
}

static void enter_stream(
    struct sweep *sweep, struct shared *shared, unsigned stream)
{
    sweep->stream = stream;
    sweep->shared = &shared[stream];
    (void)snprintf(sweep->folder, sizeof(sweep->folder), "%s/stream-%u",
        sweep->root, stream);
}

/* Reports a violation if count is 0 in a whole sweep: then the front end or the
 * operator was never tested. */
static void demand(const struct sweep *sweep, unsigned long count,
    const char *what, struct tally *tally)
{
    if (count > 0 || sweep->share > 1)
        return;
    printf("VIOLATION %s: %s\n", sweep->scenario->name, what);
    tally->violations++;
}

/* Runs all cases, in parallel streams. */
static struct tally sweep_all(struct sweep *sweep, struct shared *shared)
{
    struct tally total = {.restarts = 0};
    pid_t streams[STREAMS];

    for (unsigned i = 0; i < STREAMS; i++) {
        streams[i] = program_fork();
        if (streams[i] > 0)
            continue;
        enter_stream(sweep, shared, i);
        sweep_part(sweep);
        (void)fflush(stdout);
        _exit(0);
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        if (program_wait(streams[i]) != 0)
            shared[i].tally.violations++;
        total.restarts += shared[i].tally.restarts;
        total.violations += shared[i].tally.violations;
        total.acted += shared[i].tally.acted;
        total.stopped += shared[i].tally.stopped;
    }
    if (sweep->scenario->acts)
        demand(sweep, total.acted, "the front end never acted", &total);
    if (sweep->scenario->control != SWEEP_NOTHING)
        demand(
            sweep, total.stopped, "the person never stopped the run", &total);
    return total;
}

/* Creates the initial file of a scenario and runs it once without a kill.
 * False: this run went wrong. */
static bool begin_scenario(
    struct sweep *sweep, const struct scenario *scenario, struct shared *shared)
{
    struct crash clean = {.count = 0};
    char path[FOLDER_BYTES + 64];
    bool good;

    memset(shared, 0, STREAMS * sizeof(*shared));
    sweep->scenario = scenario;
    sweep->stage = (struct stage){.count = 0};
    enter_stream(sweep, shared, 0);
    folder_remove(sweep->folder);
    if (mkdir(sweep->folder, 0700) != 0)
        program_die(sweep->folder);
    life_prepare(scenario, &sweep->stage, sweep->folder);
    (void)snprintf(path, sizeof(path), "%s/store.db", sweep->folder);
    read_template(sweep, path);
    good = run_case(sweep, &clean);
    sweep->requests = shared[0].words.requests;
    return good;
}

static void end_scenario(struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->stage.count; i++)
        mem_free(sweep->stage.list[i].was);
    mem_free(sweep->stage.list);
    arena_done(&sweep->stage.arena);
    mem_free(sweep->template);
}

static struct tally run_scenario(struct sweep *sweep,
    const struct scenario *scenario, const struct crash *only)
{
    struct shared *shared = program_shared(STREAMS * sizeof(struct shared));
    double from = program_seconds();
    struct tally tally;

    if (!begin_scenario(sweep, scenario, shared)) {
        tally = shared[0].tally;
    } else if (only) {
        (void)run_case(sweep, only);
        tally = shared[0].tally;
    } else {
        tally = sweep_all(sweep, shared);
    }
    printf("%-15s %8u %6d %9lu %11lu %8.1f", scenario->name, sweep->requests,
        KILL_POINTS, tally.restarts, tally.violations,
        program_seconds() - from);
    if (scenario->acts)
        printf("  (the front end acted in %lu)", tally.acted);
    if (scenario->control != SWEEP_NOTHING)
        printf("  (the person stopped the run in %lu)", tally.stopped);
    printf("\n");
    end_scenario(sweep);
    program_unshared(shared, STREAMS * sizeof(*shared));
    return tally;
}

/* ---- the command ---- */

static void __attribute__((noreturn)) usage(void)
{
    size_t count;
    const struct scenario *all = scenarios(&count);

    (void)fprintf(stderr,
        "crash-sweep [--seed N] [--share K] [--stop-at-first 1] "
        "[SCENARIO [REQUEST asks] [REQUEST POINT]...]\n"
        "points: before-send after-commit after-answer\nscenarios:");
    for (size_t i = 0; i < count; i++)
        (void)fprintf(stderr, " %s", all[i].name);
    (void)fprintf(stderr, "\n");
    exit(PROGRAM_USAGE);
}

/* Reads "REQUEST asks" and up to KILLS_MAX times "REQUEST POINT". */
static void read_kills(char **words, struct crash *ret)
{
    for (; *words; words += 2) {
        struct kill_plan *kill = &ret->kills[ret->count];

        if (words[1] && strcmp(words[1], ASKS_NAME) == 0) {
            ret->asks_at = (unsigned)program_number(words[0]);
            continue;
        }
        if (ret->count++ == KILLS_MAX || !words[1] ||
            !kill_point_named(words[1], &kill->point))
            usage();
        kill->request = (unsigned)program_number(words[0]);
    }
    ret->aloud = true;
}

static char **read_options(struct sweep *sweep, char **words)
{
    for (; *words && strncmp(*words, "--", 2) == 0; words += 2) {
        if (strcmp(*words, "--seed") == 0)
            sweep->seed = program_number(words[1]);
        else if (strcmp(*words, "--share") == 0)
            sweep->share = program_number(words[1]);
        else if (strcmp(*words, "--stop-at-first") == 0)
            sweep->stop_at_first = program_number(words[1]) > 0;
        else
            usage();
    }
    if (sweep->share == 0)
        usage();
    return words;
}

/* Draws the seed and, if --share is given, which cases are run, so that each
 * sweep runs different cases. */
static void draw_share(struct sweep *sweep)
{
    uint64_t drawn;

    if (getrandom(&drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn))
        program_die("getrandom");
    if (sweep->seed == 0)
        sweep->seed = sweep->share > 1 ? drawn % 1000000 + 1 : 1;
    sweep->offset = scatter(sweep->seed) % sweep->share;
    printf("crash-sweep: seed %llu, every case from %lu in %lu\n",
        (unsigned long long)sweep->seed, sweep->offset, sweep->share);
}

static struct tally run_all(struct sweep *sweep, char **words)
{
    size_t count;
    const struct scenario *all = scenarios(&count);
    struct tally total = {.restarts = 0};
    struct crash only = {.count = 0};
    bool found = false, one = false;

    if (words[0] && words[1])
        read_kills(words + 1, &only);
    one = only.count > 0 || only.asks_at > 0;
    printf("%-15s %8s %6s %9s %11s %8s\n", "scenario", "requests", "points",
        "restarts", "violations", "seconds");
    for (size_t i = 0; i < count; i++) {
        struct tally tally;

        if (words[0] && strcmp(words[0], all[i].name) != 0)
            continue;
        found = true;
        tally = run_scenario(sweep, &all[i], one ? &only : NULL);
        total.restarts += tally.restarts;
        total.violations += tally.violations;
    }
    if (!found)
        usage();
    return total;
}

int main(int argc, char **argv)
{
    struct sweep sweep = {.share = 1};
    char **words = read_options(&sweep, argv + (argc > 0));
    double from = program_seconds();
    struct tally total;

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    draw_share(&sweep);
    folder_make(sweep.root, "crash-sweep");
    total = run_all(&sweep, words);
    folder_remove(sweep.root);
    printf("crash-sweep: %lu restarts, %lu violations, %.0f s\n",
        total.restarts, total.violations, program_seconds() - from);
    if (total.restarts == 0)
        printf("crash-sweep: nothing was tested: the share is too large, or "
               "no run reaches this kill\n");
    return total.violations > 0 || total.restarts == 0;
}
