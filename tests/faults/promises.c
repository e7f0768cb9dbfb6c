/* SPDX-License-Identifier: MIT */
/*
 * Compares what the embedded store answers to requests, while calls to the file
 * system fail, with what is in its file afterwards.
 *
 *   promises SHARE
 *
 * A run without failures counts the calls. For each n up to this number, a
 * child opens a file (a new one, or one that has entities already) and makes
 * several requests, one after the other. The n-th call fails: alone, with some
 * of the next calls or with all of them, as on a broken or a full disk. The
 * child keeps the answers in memory that the parent shares. After each write
 * the child reads the file: what was acknowledged must be there, and what was
 * refused must not be there.
 *
 * Then another child opens the file without failures, and checks the same. If
 * the first child ended before it got the answer to a request, this request
 * must be done as a whole or not at all. SQLite must find no error in the file.
 * After a failed fsync the process must have ended with 75.
 *
 * Exit code 1: a trial failed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/faults/inject.h"
#include "tests/faults/state.h"
#include "tests/faults/trial.h"
#include "tests/support/folder.h"
#include "tests/support/program.h"
#include "worker/store/embedded/embedded.h"
#include "worker/store/store.h"

#define EXIT_LIED 98 /* of a child: an answer of the store was wrong */
#define FILE_NAME "store.db"
#define TABLE "Things"
#define QUEUE "things"
#define PARTITIONS 8 /* one request inserts the entities of a partition */
#define ENTITIES 3   /* number of entities of a partition */
#define MESSAGES 3
#define WRITES IO_SET(IO_WRITE)

/* What the child knows of a request. */
enum told { NOT_ASKED, ASKED, DONE, REFUSED };

/* In memory that is shared with the parent. */
struct memory {
    struct io_report report;
    atomic_int opened, table, queue; /* enum told */
    atomic_int inserted[PARTITIONS]; /* each: ENTITIES entities "1" */
    atomic_int replaced, deleted;    /* of partition 0, of partition 1 */
    atomic_int put[MESSAGES];
    char lie[200]; /* what was wrong */
};

struct trial {
    struct io_plan plan;
    struct memory *memory;
};

static const struct io_kind KINDS[] = {
    {"one fails", {.calls = IO_ALL, .count = 1}},
    {"some fail", {.calls = IO_ALL, .count = 5}},
    {"all fail", {.calls = IO_ALL}},
    {"a sync fails", {.calls = IO_SET(IO_SYNC), .count = 1}},
    {"full once", {.calls = WRITES, .count = 1, .full = true}},
    {"full for ever", {.calls = WRITES, .full = true}},
};

#define KIND_COUNT (sizeof(KINDS) / sizeof(KINDS[0]))

static unsigned long total_trials, total_wrong;

/* ---- requests, in the child ---- */

static void keep(atomic_int *told, enum tw_err outcome)
{
    atomic_store(told, outcome == TW_OK ? DONE : REFUSED);
}

static const char *partition_name(unsigned i)
{
    static char name[16];

    (void)snprintf(name, sizeof name, "p%02u", i);
    return name;
}

/* Sends a batch for the three entities of a partition. etags: the result, which
 * the next batch for this partition needs. Entities of even partitions are so
 * long that the store keeps them partly outside the tree of keys. */
static enum tw_err send(struct store *store, unsigned partition,
    enum operation_type type, const char *value, struct batch_result *etags)
{
    static char text[9000];
    struct operation operations[ENTITIES];
    struct exchange exchange = {.deadline = NULL};
    struct batch batch = {TABLE, operations, ENTITIES};
    struct arena arena;
    enum tw_err outcome;

    arena_init(&arena);
    memset(text, 'x', sizeof text);
    for (unsigned i = 0; i < ENTITIES; i++) {
        char key[2] = {(char)('0' + i), '\0'};
        struct entity *entity = &operations[i].entity;

        entity_init(
            entity, &arena, slice_of(partition_name(partition)), slice_of(key));
        entity_set_string(entity, &arena, "Value", slice_of(value));
        if (partition % 2 == 0)
            entity_set_string(
                entity, &arena, "Long", (struct slice){text, sizeof text});
        if (type != OPERATION_INSERT)
            entity->etag = slice_of(etags->etags[i]);
        operations[i].type = type;
    }
    outcome = store_batch(store, &exchange, &batch, etags);
    arena_done(&arena);
    return outcome;
}

/* Returns how many entities of the partition have this value; -1: they could
 * not be read. */
static int count(struct store *store, unsigned partition, const char *value)
{
    struct scan_request request = {.table = TABLE,
        .partition_key = key_range_exact(slice_of(partition_name(partition)))};
    struct exchange exchange = {.deadline = NULL};
    struct page page;
    struct slice text;
    int found = 0;
    enum tw_err outcome;

    page_init(&page);
    outcome = store_scan(store, &exchange, &request, &page);
    for (size_t i = 0; i < page.count && outcome == TW_OK; i++) {
        const struct property *property =
            entity_find(&page.entities[i], slice_of("Value"));

        found += property && property_text(property, &page.arena, &text) &&
                 slice_is(text, value);
    }
    page_done(&page);
    if (outcome == TW_NOT_FOUND)
        return 0; /* there is no table */
    return outcome == TW_OK ? found : -1;
}

static bool is_lie(struct memory *memory, const char *what, unsigned i,
    int told, int found, int all)
{
    bool fits = found == -1 || (told == DONE && found == all) ||
                ((told == REFUSED || told == NOT_ASKED) && found == 0) ||
                (told == ASKED && (found == 0 || found == all));

    if (!fits)
        (void)snprintf(memory->lie, sizeof memory->lie,
            "%s %u: told %s, and %d of %d are there", what, i,
            told == DONE      ? "done"
            : told == REFUSED ? "not done"
                              : "nothing",
            found, all);
    return !fits;
}

/* Returns whether the entities that can be read are as the answers say. */
static bool holds_what_was_told(struct store *store, struct memory *memory)
{
    bool replaced = false, deleted = false;

    for (unsigned i = 0; i < PARTITIONS; i++) {
        int told = atomic_load(&memory->inserted[i]);
        int ones = count(store, i, "1"), twos = count(store, i, "2");

        if (ones < 0 || twos < 0)
            continue;
        replaced = i == 0 && twos > 0;
        deleted = i == 1 && told == DONE && ones == 0;
        if (replaced && is_lie(memory, "replace", i,
                            atomic_load(&memory->replaced), twos, ENTITIES))
            return false;
        if (i == 0 && !replaced && atomic_load(&memory->replaced) == DONE &&
            is_lie(memory, "replace", i, DONE, twos, ENTITIES))
            return false;
        if (i == 1 && atomic_load(&memory->deleted) != NOT_ASKED &&
            is_lie(memory, "delete", i, atomic_load(&memory->deleted),
                deleted ? ENTITIES : 0, ENTITIES))
            return false;
        if (!replaced && !deleted &&
            is_lie(memory, "insert", i, told, ones, ENTITIES))
            return false;
    }
    return true;
}

static bool write_all(struct store *store, struct memory *memory)
{
    static struct batch_result etags[PARTITIONS];

    for (unsigned i = 0; i < PARTITIONS; i++) {
        atomic_store(&memory->inserted[i], ASKED);
        keep(&memory->inserted[i],
            send(store, i, OPERATION_INSERT, "1", &etags[i]));
        if (!holds_what_was_told(store, memory))
            return false;
    }
    if (atomic_load(&memory->inserted[0]) == DONE) {
        atomic_store(&memory->replaced, ASKED);
        keep(&memory->replaced,
            send(store, 0, OPERATION_REPLACE, "2", &etags[0]));
    }
    if (atomic_load(&memory->inserted[1]) == DONE) {
        atomic_store(&memory->deleted, ASKED);
        keep(
            &memory->deleted, send(store, 1, OPERATION_DELETE, "1", &etags[1]));
    }
    return holds_what_was_told(store, memory);
}

/* Puts messages, gets one, and changes how long it is hidden. queue_holds()
 * counts the messages later. */
static void use_queue(struct store *store, struct memory *memory)
{
    struct exchange exchange = {.deadline = NULL};
    char receipt[QUEUE_RECEIPT_MAX];
    struct messages put, got;

    messages_init(&put);
    messages_init(&got);
    for (unsigned i = 0; i < MESSAGES; i++) {
        atomic_store(&memory->put[i], ASKED);
        keep(&memory->put[i], store_queue_put(store, &exchange, QUEUE,
                                  slice_of(partition_name(i)), 0, &put));
    }
    if (store_queue_get(store, &exchange, QUEUE, 1, 60, &got) == TW_OK &&
        got.count == 1) {
        struct message *message = &got.list[0];

        (void)snprintf(
            receipt, sizeof receipt, "%.*s", SLICE_ARG(message->pop_receipt));
        (void)!store_queue_renew(
            store, &exchange, QUEUE, message->id, receipt, 60);
        (void)!store_queue_renew(
            store, &exchange, QUEUE, message->id, receipt, 0);
    }
    messages_done(&got);
    messages_done(&put);
}

/* Returns whether each message that was put is there once, and no other
 * message. */
static bool queue_holds(struct store *store, struct memory *memory)
{
    struct exchange exchange = {.deadline = NULL};
    int64_t found = 0;
    int least = 0, most = 0;
    enum tw_err outcome = store_queue_count(store, &exchange, QUEUE, &found);

    for (unsigned i = 0; i < MESSAGES; i++) {
        least += atomic_load(&memory->put[i]) == DONE;
        most += atomic_load(&memory->put[i]) == DONE ||
                atomic_load(&memory->put[i]) == ASKED;
    }
    if (outcome == TW_NOT_FOUND)
        return least == 0;
    if (outcome == TW_OK && found >= least && found <= most)
        return true;
    (void)snprintf(memory->lie, sizeof memory->lie,
        "queue: %d to %d messages were put, %lld are there (%s)", least, most,
        (long long)found, err_name(outcome));
    return false;
}

static int act(void *context)
{
    struct trial *trial = context;
    struct memory *memory = trial->memory;
    struct exchange exchange = {.deadline = NULL};
    struct store *store = NULL;
    struct err err = {""};
    bool holds;
    enum tw_err outcome;

    trial_later(0);
    io_begin(&trial->plan, &memory->report);
    outcome = embedded_open("main", FILE_NAME, &store, &err);
    keep(&memory->opened, outcome);
    if (outcome != TW_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return outcome == TW_FULL || outcome == TW_BUSY ? 0 : EXIT_LIED;
    }
    keep(&memory->table, store_create_table(store, &exchange, TABLE));
    keep(&memory->queue, store_queue_create(store, &exchange, QUEUE));
    holds = write_all(store, memory);
    use_queue(store, memory);
    store_close(store);
    return holds ? 0 : EXIT_LIED;
}

/* ---- after the failures, in another child ---- */

static int look(void *context)
{
    struct memory *memory = context;
    struct store *store = NULL;
    struct err err;
    bool holds;

    trial_later(0);
    if (embedded_open("main", FILE_NAME, &store, &err) != TW_OK) {
        (void)snprintf(memory->lie, sizeof memory->lie, "%.190s", err.text);
        return EXIT_LIED;
    }
    holds = holds_what_was_told(store, memory) && queue_holds(store, memory);
    store_close(store);
    if (holds && !state_is_whole(FILE_NAME)) {
        (void)snprintf(memory->lie, sizeof memory->lie, "the file is damaged");
        holds = false;
    }
    return holds ? 0 : EXIT_LIED;
}

/* ---- trials ---- */

struct subject {
    const struct io_kind *kind;
    const char *what;
    char folder[FOLDER_BYTES];
    atomic_ulong *wrong; /* in shared memory */
    atomic_ulong *trials;
};

static void show(const struct subject *subject, const struct trial *trial,
    int end, const char *when)
{
    if (atomic_fetch_add(subject->wrong, 1) < SHOWN_MAX)
        printf("FAILED  %s, %s, call %lu (%s): %s %s: %s\n", subject->what,
            subject->kind->name, trial->plan.first,
            io_report_text(&trial->memory->report), trial_end_name(end), when,
            trial->memory->lie);
}

static void try_one(const void *context, unsigned long n, const char *folder)
{
    const struct subject *subject = context;
    struct trial trial = {.plan = subject->kind->plan};
    int end, expected;

    trial.plan.first = n;
    trial.memory = program_shared(sizeof *trial.memory);
    trial_begin(subject->folder, folder);
    end = trial_fork(folder, act, &trial);
    expected =
        atomic_load(&trial.memory->report.syncs_failed) > 0 ? EXIT_AGAIN : 0;
    atomic_fetch_add(subject->trials, 1);
    if (end != expected)
        show(subject, &trial, end, "while they failed");
    else if ((end = trial_fork(folder, look, trial.memory)) != 0)
        show(subject, &trial, end, "afterwards");
    program_unshared(trial.memory, sizeof *trial.memory);
}

/* Makes a file with messages of another queue, so many that the trees have more
 * than one level. */
static int fill(void *context)
{
    char name[16];

    for (unsigned i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof name, "message %u", i);
        state_put(FILE_NAME, "others", name);
    }
    return 0;
}

static void examine(const struct io_kind *kind, bool is_new,
    unsigned long share, unsigned long seed)
{
    struct subject subject = {
        .kind = kind, .what = is_new ? "a new file" : "a file in use"};
    struct trial clean = {.plan = kind->plan};
    time_t started = time(NULL);
    char *template, *folder;
    unsigned long calls = 0;

    subject.wrong = program_shared(sizeof *subject.wrong);
    subject.trials = program_shared(sizeof *subject.trials);
    clean.memory = program_shared(sizeof *clean.memory);
    folder_make(subject.folder, "tableward-faults");
    template = trial_inside(subject.folder, "template");
    folder = trial_inside(subject.folder, "clean");
    trial_copy("/var/empty", template);
    if (is_new || trial_fork(template, fill, NULL) == 0) {
        trial_copy(template, folder);
        if (trial_fork(folder, act, &clean) == 0 &&
            atomic_load(&clean.memory->inserted[PARTITIONS - 1]) == DONE &&
            trial_fork(folder, look, clean.memory) == 0)
            calls = atomic_load(&clean.memory->report.calls);
    }
    if (calls == 0) {
        printf("FAILED  %s: without failures: %s\n", subject.what,
            clean.memory->lie);
        total_wrong++;
    } else {
        trial_sweep(subject.folder, calls, calls <= FEW ? 1 : share, seed,
            try_one, &subject);
    }
    printf("%-13s %-14s %5lu calls  %5lu trials  %lu wrong  %lld s\n",
        subject.what, kind->name, calls, atomic_load(subject.trials),
        atomic_load(subject.wrong), (long long)(time(NULL) - started));
    (void)fflush(stdout);
    total_trials += atomic_load(subject.trials);
    total_wrong += atomic_load(subject.wrong);
    free(template);
    free(folder);
    folder_remove(subject.folder);
}

int main(int argc, char **argv)
{
    unsigned long share = trial_share(argc, argv);
    unsigned long seed = (unsigned long)time(NULL);

    for (size_t k = 0; k < KIND_COUNT; k++) {
        examine(&KINDS[k], true, share, seed);
        examine(&KINDS[k], false, share, seed);
    }
    printf("faults: %lu trials of what the store says (SHARE=%lu), %lu wrong\n",
        total_trials, share, total_wrong);
    return total_wrong == 0 ? 0 : 1;
}
