/* SPDX-License-Identifier: MIT */
/* The judges: see judge.h. */
#include "tests/sweep/judge.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/run/setup.h"

#define LINE_MAX_BYTES ((size_t)8 * 1024 * 1024)

/* ---- the stage, in order ---- */

static int compare(const char *table, const struct entity *entity,
    const struct sweep_entity *other)
{
    int order = strcmp(table, other->table);

    if (order == 0)
        order =
            slice_compare(entity->partition_key, other->entity.partition_key);
    if (order == 0)
        order = slice_compare(entity->row_key, other->entity.row_key);
    return order;
}

static const struct stage *sorted_stage;

static int compare_places(const void *a, const void *b)
{
    const struct sweep_entity *one = &sorted_stage->list[*(const size_t *)a];
    const struct sweep_entity *other = &sorted_stage->list[*(const size_t *)b];

    return compare(one->table, &one->entity, other);
}

/* Sorts the list; parents are indices, which are adjusted. */
static void sort_stage(struct stage *stage)
{
    size_t count = stage->count;
    size_t *order = mem_alloc(count * sizeof(*order));
    size_t *place = mem_alloc(count * sizeof(*place));
    struct sweep_entity *list = mem_alloc(count * sizeof(*list));

    for (size_t i = 0; i < count; i++)
        order[i] = i;
    sorted_stage = stage;
    qsort(order, count, sizeof(*order), compare_places);
    for (size_t i = 0; i < count; i++)
        place[order[i]] = i;
    for (size_t i = 0; i < count; i++) {
        list[i] = stage->list[order[i]];
        if (list[i].parent != NO_PARENT)
            list[i].parent = place[list[i].parent];
    }
    mem_free(stage->list);
    mem_free(order);
    mem_free(place);
    stage->list = list;
    stage->room = count;
}

size_t judge_find(
    const struct stage *stage, const char *table, const struct entity *entity)
{
    size_t from = 0, below = stage->count;

    while (from < below) {
        size_t middle = from + (below - from) / 2;
        int order = compare(table, entity, &stage->list[middle]);

        if (order == 0)
            return middle;
        if (order < 0)
            below = middle;
        else
            from = middle + 1;
    }
    return stage->count;
}

/* ---- tables ---- */

char *judge_text(const struct entity *entity)
{
    struct buf text;

    buf_init(&text, LINE_MAX_BYTES);
    buf_add_slice(&text, entity->etag);
    buf_add_char(&text, ' ');
    buf_add_slice(&text, entity->timestamp);
    buf_add_char(&text, ' ');
    entity_write(entity, &text);
    return buf_take(&text);
}

static bool see(void *ctx, const char *table, const struct entity *entity)
{
    struct judge_visitor *visitor = ctx;

    return strcmp(table, LEDGER_TABLE) == 0 ||
           visitor->visit(visitor, table, entity, visitor->err);
}

bool judge_visit(
    struct store *store, struct judge_visitor *visitor, struct err *err)
{
    visitor->err = err;
    return direct_each_table(store, see, visitor);
}

bool judge_wrong_at(struct err *err, const char *table,
    const struct entity *entity, const char *what)
{
    return judge_wrong(
        err, "%s: %.*s/%.*s %s", table, ENTITY_KEYS(entity), what);
}

static bool remember(struct judge_visitor *visitor, const char *table,
    const struct entity *entity, struct err *err)
{
    size_t at = judge_find(visitor->stage, table, entity);

    if (at == visitor->stage->count)
        return judge_wrong_at(err, table, entity, "was put there by nobody");
    visitor->stage->list[at].was = judge_text(entity);
    return true;
}

void judge_remember(struct stage *stage, struct store *store)
{
    struct judge_visitor visitor = {.visit = remember, .stage = stage};
    struct err err = {0};

    sort_stage(stage);
    if (!judge_visit(store, &visitor, &err)) {
        (void)fprintf(stderr, "sweep: %s\n", err.text);
        exit(1);
    }
    for (size_t i = 0; i < stage->count; i++) {
        if (stage->list[i].later)
            stage->list[i].was = judge_text(&stage->list[i].entity);
        else if (!stage->list[i].was)
            abort();
    }
}

/* Returns the part of the text after ETag and Timestamp. */
static const char *properties_of(const char *text)
{
    return strchr(text, '{');
}

static bool is_spared(const struct scene *scene, const struct sweep_entity *one)
{
    return !one->doomed || (one->again && scene->acted);
}

/* True if the entity, given as text, is in a state that is allowed. */
static bool is_as_it_may_be(const struct scene *scene,
    const struct sweep_entity *known, const char *text)
{
    if (known->later || (known->again && scene->acted))
        return scene->acted &&
               strcmp(properties_of(text), properties_of(known->was)) == 0;
    /* A parent that the run deletes has a tombstone. */
    return strcmp(text, known->was) == 0 ||
           (known->doomed && known->parent == NO_PARENT);
}

static bool look(struct judge_visitor *visitor, const char *table,
    const struct entity *entity, struct err *err)
{
    const struct scene *scene = visitor->scene;
    size_t at = judge_find(scene->stage, table, entity);
    const struct sweep_entity *known = &scene->stage->list[at];
    char *text;
    bool good;

    if (at == scene->stage->count)
        return judge_wrong_at(err, table, entity, "was put there by nobody");
    visitor->seen[at] = true;
    text = judge_text(entity);
    good = is_as_it_may_be(scene, known, text);
    mem_free(text);
    return good || judge_wrong_at(err, table, entity, "was changed");
}

static bool judge_one(const struct scene *scene, const bool *seen, size_t at,
    bool over, struct err *err)
{
    const struct sweep_entity *each = &scene->stage->list[at];
    bool spared = is_spared(scene, each);
    const char *what = NULL;

    if (each->later && !scene->acted)
        return true;
    if (spared && !seen[at])
        what = "is gone, and should not be";
    else if (!spared && seen[at] && over)
        what = "is still there, and the run has succeeded";
    else if (!spared && seen[at] && each->parent != NO_PARENT &&
             !seen[each->parent])
        what = "is still there, and its parent is gone";
    return !what || judge_wrong_at(err, each->table, &each->entity, what);
}

/* ---- the archive ---- */

static bool read_line(const struct scene *scene, char **last, const char *table,
    const char *line, struct err *err)
{
    struct arena arena;
    struct entity entity;
    size_t at;
    bool good = true;

    arena_init(&arena);
    if (entity_parse(slice_of(line), true, &arena, &entity, NULL, err) != TW_OK)
        good = false;
    else if ((at = judge_find(scene->stage, table, &entity)) ==
             scene->stage->count)
        good =
            judge_wrong(err, "the archive of %s has an unknown entity", table);
    else {
        mem_free(last[at]);
        last[at] = mem_text(line, strlen(line));
    }
    arena_done(&arena);
    return good;
}

/* Reads one file, EPOCH-TABLE.jsonl: the last line of a key counts; an
 * incomplete last line is ignored. */
static bool read_file(const struct scene *scene, char **last,
    const char *folder, const char *name, struct err *err)
{
    const char *dash = strchr(name, '-');
    char *path = mem_format("%s/%s", folder, name);
    char *table = mem_format("%s", dash ? dash + 1 : name);
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    bool good = true;

    if (strlen(table) > strlen(".jsonl"))
        table[strlen(table) - strlen(".jsonl")] = '\0';
    if (!file)
        good = judge_wrong(err, "%s: %s", path, strerror(errno));
    while (good && (len = getline(&line, &room, file)) > 0) {
        if (line[len - 1] != '\n')
            break;
        line[len - 1] = '\0';
        good = read_line(scene, last, table, line, err);
    }
    if (file)
        (void)fclose(file);
    free(line);
    mem_free(table);
    mem_free(path);
    return good;
}

static int is_archive(const struct dirent *entry)
{
    return strstr(entry->d_name, ".jsonl") != NULL;
}

/* Sets last[i] to the last line of the archive for entity i of the stage. */
static bool read_archive(
    const struct scene *scene, char **last, struct err *err)
{
    char *folder =
        mem_format("%s/archive/%s/%s", scene->folder, SWEEP_JOB, SWEEP_ID);
    struct dirent **names = NULL;
    int count = scandir(folder, &names, is_archive, versionsort);
    bool good = true;

    for (int i = 0; i < count; i++) {
        if (good)
            good = read_file(scene, last, folder, names[i]->d_name, err);
        free(names[i]);
    }
    free(names);
    mem_free(folder);
    return good;
}

/* True if each deleted entity is in the archive as it was. */
static bool judge_archive(
    const struct scene *scene, const bool *seen, struct err *err)
{
    size_t count = scene->stage->count;
    char **last = mem_alloc(count * sizeof(*last));
    bool good = read_archive(scene, last, err);

    for (size_t i = 0; good && i < count; i++) {
        const struct sweep_entity *each = &scene->stage->list[i];

        if (seen[i] || is_spared(scene, each) || (each->later && !scene->acted))
            continue;
        if (!last[i] || strcmp(last[i], properties_of(each->was)) != 0)
            good = judge_wrong_at(err, each->table, &each->entity,
                last[i] ? "is gone and other in the archive"
                        : "is gone and not in the archive");
    }
    for (size_t i = 0; i < count; i++)
        mem_free(last[i]);
    mem_free(last);
    return good;
}

/* Judges tables and archive. over: the run has succeeded. */
static bool judge_tables(const struct scene *scene, bool over, struct err *err)
{
    bool *seen = mem_alloc(scene->stage->count * sizeof(*seen));
    struct judge_visitor visitor = {
        .visit = look, .scene = scene, .seen = seen};
    bool good = judge_visit(scene->store, &visitor, err);

    for (size_t i = 0; good && i < scene->stage->count; i++)
        good = judge_one(scene, seen, i, over, err);
    if (good && scene->scenario->archived)
        good = judge_archive(scene, seen, err);
    mem_free(seen);
    return good;
}

/* ---- ledger and queues ---- */

bool judge_read_run(const struct scene *scene, const char *job, const char *id,
    struct ledger_run *ret, struct err *err)
{
    struct exchange exchange = {0};
    enum tw_err outcome =
        ledger_get(scene->store, &exchange, slice_of(job), slice_of(id), ret);

    return outcome == TW_OK || outcome == TW_NOT_FOUND ||
           judge_wrong(err, "%s", exchange.err.text);
}

bool judge_run(const struct scene *scene, const char *job,
    struct ledger_run *ret, struct err *err)
{
    if (!judge_read_run(scene, job, SWEEP_ID, ret, err))
        return false;
    return !judge_needs_message(ret) ||
           direct_messages(scene->store, SWEEP_QUEUE) >= 1 ||
           judge_wrong(err, "the message is gone, and the run is %s",
               ledger_state_name(ret->state));
}

bool judge_queues(const struct scene *scene, int64_t copies, struct err *err)
{
    int64_t poison =
        direct_messages(scene->store, SWEEP_QUEUE SETUP_POISON_SUFFIX);

    if (direct_messages(scene->store, SWEEP_QUEUE) != 0)
        return judge_wrong(err, "the queue still holds a message");
    /* If a worker was killed before it knew that its poison copy was stored,
     * the next worker puts another one. */
    return (poison >= copies && poison <= copies + copies * scene->killed) ||
           judge_wrong(err, "the poison queue holds %lld messages, not %lld",
               (long long)poison, (long long)copies);
}

static enum ledger_state wanted_end(
    const struct scene *scene, const struct ledger_run *run)
{
    if (scene->scenario->control != SWEEP_CANCEL)
        return scene->scenario->end;
    return run->state == LEDGER_SUCCEEDED && !scene->stopped ? LEDGER_SUCCEEDED
                                                             : LEDGER_CANCELLED;
}

bool judge_needs_message(const struct ledger_run *run)
{
    return !ledger_state_ended(run->state) && run->state != LEDGER_PAUSED;
}

static size_t count_doomed(const struct scene *scene)
{
    const struct stage *stage = scene->stage;
    size_t count = 0;

    for (size_t i = 0; i < stage->count; i++)
        count +=
            stage->list[i].doomed && (scene->acted || !stage->list[i].later);
    return count;
}

static bool judge_counts(
    const struct scene *scene, const struct ledger_run *run, struct err *err)
{
    int64_t doomed = (int64_t)count_doomed(scene);
    bool exact = scene->killed == 0 && run->state != LEDGER_CANCELLED;

    /* After a kill the counts are lower bounds. */
    if (run->failed > 0)
        return judge_wrong(err, "%lld entities failed", (long long)run->failed);
    if (run->deleted > doomed || (exact && run->deleted != doomed))
        return judge_wrong(err, "the ledger counts %lld deleted of %lld",
            (long long)run->deleted, (long long)doomed);
    return true;
}

bool judge_no_marker(
    const struct scene *scene, const char *job, struct err *err)
{
    struct exchange exchange = {0};
    struct page page;
    bool good = true;

    page_init(&page);
    if (ledger_scan_index(scene->store, &exchange,
            &(struct ledger_index_scan){.job = slice_of(job)},
            (struct continuation){0}, &page) != TW_OK)
        good = judge_wrong(err, "%s", exchange.err.text);
    else if (page.count > 0 || page.next.more)
        good = judge_wrong(err, "the index lists a run that has ended as open");
    page_done(&page);
    return good;
}

bool judge_run_end(const struct scene *scene, const char *job,
    const struct ledger_run *run, struct err *err)
{
    enum ledger_state end = wanted_end(scene, run);

    if (run->state != end)
        return judge_wrong(err, "the run is %s, not %s: %.*s",
            ledger_state_name(run->state), ledger_state_name(end),
            SLICE_ARG(run->error));
    if (run->owner.len > 0)
        return judge_wrong(err, "the run that has ended has an owner");
    return judge_queues(scene, end == LEDGER_FAILED, err) &&
           judge_no_marker(scene, job, err);
}

bool judge_cascade(const struct scene *scene, struct err *err)
{
    struct ledger_run run;
    bool good;

    ledger_run_init(&run);
    good = judge_run(scene, SWEEP_JOB, &run, err) &&
           judge_tables(scene, run.state == LEDGER_SUCCEEDED, err) &&
           (!scene->ended || (judge_run_end(scene, SWEEP_JOB, &run, err) &&
                                 judge_counts(scene, &run, err)));
    ledger_run_done(&run);
    return good;
}
