/* SPDX-License-Identifier: MIT */
/*
 * The kind cascade-delete: front ends create, change and delete channels and
 * the entities under them, and request runs that delete channels; a model knows
 * what the tables may contain.
 *
 * Front ends obey the rules for writers:
 *
 * - a parent is created by an insert;
 * - no child is added if the parent is missing or has a tombstone;
 * - a front end that has looked for the tombstone writes within six tenths of
 *   the settle time;
 * - an entity is deleted, or changed so that its rule no longer finds it, only
 *   when nothing is under it.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/cascade/rules.h"
#include "tests/simulate/book.h"
#include "tests/simulate/front.h"
#include "tests/simulate/sim.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/text.h"

#define THINGS_MAX 512
#define CHANNELS_MAX 3
#define KINDS_MAX 5
#define TABLES_MAX 4
/* Keys end with a number below this, so that keys are used again. */
#define NUMBERS 12
#define MOST_ALIVE 40

/* ---- shapes of trees ---- */

/* Entities that one rule finds. In the templates of keys: %c is the channel, %a
 * the RowKey of the entity above, %n a number. */
struct kind_of_thing {
    const char *table;
    int above; /* index of the kind above it; -1: the parent */
    const char *partition_key, *row_key;
    const char
        *link; /* property that the filter of the rule reads; NULL: none */
    bool to_channel; /* the link names the channel; else the RowKey of the
                        entity above */
};

struct shape {
    const char *parent_table, *parent_row_key;
    const char *children; /* YAML, below `children:` */
    struct kind_of_thing kinds[KINDS_MAX];
    const char *tables[TABLES_MAX + 1];
};

static const struct shape SHAPES[] = {
    {"Channels", "", "      - {table: Blogs, partition_key: \"{what}\"}\n",
        {{"Blogs", -1, "%c", "b%n", NULL, false}}, {"Channels", "Blogs"}},
    {"Channels", "",
        "      - table: Blogs\n"
        "        partition_key: \"{what}\"\n"
        "        children:\n"
        "          - {table: Comments, partition_key: \"{PartitionKey}\", "
        "row_key_prefix: \"{RowKey}_\", filter: \"Blog eq '{RowKey}'\"}\n"
        "      - {table: ByMonth, partition_key_prefix: \"{what}_\", "
        "filter: \"Channel eq '{what}'\"}\n",
        {{"Blogs", -1, "%c", "b%n", NULL, false},
            {"Comments", 0, "%c", "%a_%n", "Blog", false},
            {"ByMonth", -1, "%c_%n", "x", "Channel", true}},
        {"Channels", "Blogs", "Comments", "ByMonth"}},
    {"Channels", "",
        "      - table: Blogs\n"
        "        partition_key: \"{what}\"\n"
        "        children:\n"
        "          - table: Comments\n"
        "            partition_key: \"{PartitionKey}\"\n"
        "            filter: \"Blog eq '{RowKey}'\"\n"
        "            children:\n"
        "              - {table: Likes, partition_key: \"{RowKey}\"}\n"
        "          - {table: Likes, partition_key: \"{RowKey}\"}\n",
        {{"Blogs", -1, "%c", "%cb%n", NULL, false},
            {"Comments", 0, "%c", "%a_%n", "Blog", false},
            {"Likes", 1, "%a", "l%n", NULL, false},
            {"Likes", 0, "%a", "l%n", NULL, false}},
        {"Channels", "Blogs", "Comments", "Likes"}},
    {"Things", "", /* one table for parents, children and grandchildren */
        "      - table: Things\n"
        "        partition_key: \"{what}\"\n"
        "        row_key_prefix: \"b\"\n"
        "        children:\n"
        "          - {table: Things, partition_key: \"{PartitionKey}\", "
        "row_key_prefix: \"c{RowKey}_\"}\n",
        {{"Things", -1, "%c", "b%n", NULL, false},
            {"Things", 0, "%c", "c%a_%n", NULL, false}},
        {"Things"}},
    {"Things", "", /* the parent itself matches its rule */
        "      - {table: Things, partition_key: \"{what}\"}\n",
        {{"Things", -1, "%c", "b%n", NULL, false}}, {"Things"}},
    {"Nodes", "root", /* the same, with three levels */
        "      - table: Nodes\n"
        "        filter: \"Parent eq '{what}'\"\n"
        "        children:\n"
        "          - table: Nodes\n"
        "            row_key_prefix: \"{RowKey}.\"\n"
        "            filter: \"Parent eq '{RowKey}'\"\n"
        "            children:\n"
        "              - {table: Nodes, row_key_prefix: \"{RowKey}.\", "
        "filter: \"Parent eq '{RowKey}'\"}\n",
        {{"Nodes", -1, "n", "%c.%n", "Parent", true},
            {"Nodes", 0, "n", "%a.%n", "Parent", false},
            {"Nodes", 1, "m%n", "%a.%n", "Parent", false}},
        {"Nodes"}},
    {"Channels", "", /* two rules find the same entities */
        "      - table: Blogs\n"
        "        partition_key: \"{what}\"\n"
        "        children:\n"
        "          - {table: Comments, partition_key: \"{RowKey}\"}\n"
        "      - {table: Blogs, filter: \"Channel eq '{what}'\"}\n",
        {{"Blogs", -1, "%c", "%cb%n", "Channel", true},
            {"Comments", 0, "%a", "c%n", NULL, false}},
        {"Channels", "Blogs", "Comments"}},
    {"Channels", "",
        "      - {table: Subscriptions, filter: \"Channel eq '{what}'\"}\n",
        {{"Subscriptions", -1, "user%n", "%c", "Channel", true}},
        {"Channels", "Subscriptions"}},
};

/* ---- the model ---- */

/* An entity as the service has it now. */
struct thing {
    const char *table;
    struct slice partition_key, row_key;
    int kind;    /* index of its kind; -1: a parent */
    int channel; /* index */
    int above;   /* index of the thing above it; -1: the channel's parent */
    bool alive, away; /* away: it was changed so that no rule finds it */
    unsigned busy;    /* number of front ends that are about to add a child to
                         it */
    struct slice line, etag;

    /* Only of parents. */
    struct slice owner; /* TablewardRun */
    bool bare;          /* it consists only of a tombstone */
    int64_t created_ticks, inserted_ms;
};

struct channel {
    const char *name;
    int parent;       /* index of the newest parent, which may be deleted */
    bool unfinished;  /* a run of this channel was cancelled */
    bool left_to_run; /* a front end deleted the parent, and put a message for a
                         run that deletes the children */
};

struct cascade_state {
    struct sim *sim;
    const struct shape *shape;
    const char *settle[SIM_DEFINITIONS];
    int64_t settle_ms;     /* the shortest settle time of both versions of the
                              job */
    bool created;          /* the job has `created: CreatedOn` */
    bool archives, counts; /* the job has archive: or refuse_above: */
    struct arena arena;
    struct thing things[THINGS_MAX];
    int count, alive;
    struct channel channels[CHANNELS_MAX];
    int channel_count;
};

static int find_alive(const struct cascade_state *s, const char *table,
    const struct entity *entity)
{
    for (int i = s->count - 1; i >= 0; i--) {
        const struct thing *thing = &s->things[i];

        if (thing->alive && strcmp(thing->table, table) == 0 &&
            slice_equal(thing->partition_key, entity->partition_key) &&
            slice_equal(thing->row_key, entity->row_key))
            return i;
    }
    return -1;
}

static struct thing *parent_of(struct cascade_state *s, int channel)
{
    int parent = s->channels[channel].parent;

    return parent >= 0 && s->things[parent].alive ? &s->things[parent] : NULL;
}

/* Returns the first thing that exists under the thing at index (-1: the
 * channel's parent), or NULL. */
static const struct thing *first_under(
    const struct cascade_state *s, int channel, int index)
{
    for (int i = 0; i < s->count; i++) {
        const struct thing *thing = &s->things[i];

        if (thing->alive && !thing->away && thing->kind >= 0 &&
            thing->channel == channel && thing->above == index)
            return thing;
    }
    return NULL;
}

static struct slice line_of(
    struct cascade_state *s, const struct entity *entity)
{
    struct buf text;
    struct slice line;

    buf_init(&text, 1024 * 1024);
    entity_write(entity, &text);
    line = arena_copy(&s->arena, buf_slice(&text));
    buf_done(&text);
    return line;
}

static struct slice owner_of(
    struct cascade_state *s, const struct entity *entity)
{
    const struct property *property =
        entity_find(entity, slice_of(CASCADE_OWNER));
    struct slice owner = {0};

    if (property)
        (void)property_text(property, &s->arena, &owner);
    return owner;
}

static bool has_tombstone(const struct entity *entity)
{
    const struct property *property = entity_find(entity, slice_of("Deleted"));
    bool deleted;

    return property && property_boolean(property, &deleted) && deleted;
}

/* ---- the archive ---- */

/* True if the file at path contains line. */
static bool is_in_file(const char *path, struct slice line)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t room = 0;
    bool found = false;

    if (!file)
        return false;
    if (getdelim(&text, &room, '\0', file) > 0)
        found = memmem(text, strlen(text), line.at, line.len) != NULL;
    free(text);
    (void)fclose(file);
    return found;
}

/* True if any archive file of the run contains line; each epoch has its own
 * file. */
static bool is_archived(
    struct cascade_state *s, const struct sim_run *run, struct slice line)
{
    char *files = mem_format("%s/kept/%s/*.jsonl*", s->sim->folder, run->key);
    glob_t paths = {.gl_pathc = 0};
    bool found = false;

    (void)glob(files, 0, NULL, &paths);
    for (size_t i = 0; i < paths.gl_pathc && !found; i++)
        found = is_in_file(paths.gl_pathv[i], line);
    globfree(&paths);
    mem_free(files);
    return found;
}

/* True if the archive of a cancelled run contains line. Such a run still
 * deletes until it learns that it was cancelled, even if another run has taken
 * its tombstone over. */
static bool is_archived_by_cancelled(struct cascade_state *s, struct slice line)
{
    char *above = mem_format("%s/kept/", s->sim->folder);
    char *folders = mem_format("%s" SIM_JOB "/*", above);
    glob_t paths = {.gl_pathc = 0};
    bool found = false;

    (void)glob(folders, 0, NULL, &paths);
    for (size_t i = 0; i < paths.gl_pathc && !found; i++) {
        const struct sim_run *run = book_find(
            s->sim->book, slice_of(paths.gl_pathv[i] + strlen(above)));

        found = run && run->now.state == LEDGER_CANCELLED &&
                is_archived(s, run, line);
    }
    globfree(&paths);
    mem_free(folders);
    mem_free(above);
    return found;
}

/* Returns the entity as an archive has it: without the name of the run that has
 * marked it. */
static struct slice unowned(struct cascade_state *s, const struct thing *thing)
{
    struct entity whole;

    if (thing->owner.len == 0)
        return thing->line;
    if (entity_parse(thing->line, true, &s->arena, &whole, NULL, NULL) != TW_OK)
        sim_complain(s->sim, "a line of the model cannot be read");
    whole = entity_without(&whole, slice_of(CASCADE_OWNER), &s->arena);
    return line_of(s, &whole);
}

static void judge_archive(struct cascade_state *s, const struct thing *thing,
    const struct sim_run *run)
{
    struct slice line = unowned(s, thing);

    if (s->archives && run && !thing->bare && !is_archived(s, run, line) &&
        !is_archived_by_cancelled(s, line))
        sim_complain(s->sim, "%s %.*s/%.*s is not in the archive of %s",
            thing->table, ENTITY_KEYS(thing), run->key);
}

/* ---- what a run may do ---- */

#define WHERE(thing)                                                           \
    (thing)->table, SLICE_ARG((thing)->partition_key),                         \
        SLICE_ARG((thing)->row_key)

/* Returns the run that `owner` names, if this run may work on the channel, else
 * NULL. A cancelled run may continue until it learns that it was cancelled. */
static const struct sim_run *open_run(
    struct cascade_state *s, struct slice owner, const struct channel *channel)
{
    const struct sim_run *run = book_find(s->sim->book, owner);

    if (!run || run->acquired_ms == 0 || strcmp(run->what, channel->name) != 0)
        return NULL;
    return !run->ended || run->now.state == LEDGER_CANCELLED ? run : NULL;
}

/* True if the run is in its last phase, which deletes only the parent. */
static bool is_in_last_phase(const struct sim_run *run)
{
    return slice_is(run->now.phase, "parent");
}

static void judge_child_delete(struct cascade_state *s, int index)
{
    const struct thing *thing = &s->things[index], *below;
    const struct thing *parent = parent_of(s, thing->channel);
    const struct sim_run *run =
        parent ? open_run(s, parent->owner, &s->channels[thing->channel])
               : NULL;

    if (thing->away)
        sim_complain(
            s->sim, "%s %.*s/%.*s is no child, and was deleted", WHERE(thing));
    else if (!run)
        sim_complain(s->sim,
            "%s %.*s/%.*s is deleted without the tombstone of an open run",
            WHERE(thing));
    else if (is_in_last_phase(run))
        sim_complain(
            s->sim, "%s %.*s/%.*s is deleted in the last phase", WHERE(thing));
    judge_archive(s, thing, run);
    below = first_under(s, thing->channel, index);
    if (below)
        sim_complain(s->sim,
            "%s %.*s/%.*s is deleted before %s %.*s/%.*s under it",
            WHERE(thing), WHERE(below));
}

static void judge_parent_delete(struct cascade_state *s, int index)
{
    const struct thing *thing = &s->things[index], *below;
    const struct sim_run *run =
        open_run(s, thing->owner, &s->channels[thing->channel]);

    if (!run)
        sim_complain(s->sim,
            "parent %.*s is deleted without the tombstone of an open run",
            SLICE_ARG(thing->partition_key));
    else if (!is_in_last_phase(run))
        sim_complain(s->sim, "parent %.*s is deleted in phase '%.*s'",
            SLICE_ARG(thing->partition_key), SLICE_ARG(run->now.phase));
    below = first_under(s, thing->channel, -1);
    if (below)
        sim_complain(s->sim,
            "parent %.*s is deleted before %s %.*s/%.*s under it",
            SLICE_ARG(thing->partition_key), WHERE(below));
}

/* Judges the merge of a tombstone into a parent that exists. */
static void judge_tombstone(struct cascade_state *s, const struct thing *thing,
    const struct entity *entity, struct slice owner)
{
    const struct sim_run *run =
        open_run(s, owner, &s->channels[thing->channel]);
    const struct sim_run *other = book_find(s->sim->book, thing->owner);

    if (!run)
        sim_complain(s->sim, "parent %.*s is marked by %.*s, no open run of it",
            SLICE_ARG(thing->partition_key), SLICE_ARG(owner));
    else if (other && other != run && !other->ended)
        sim_complain(s->sim, "parent %.*s is taken from a run that is open",
            SLICE_ARG(thing->partition_key));
    else if (thing->owner.len == 0 && s->created &&
             thing->created_ticks >= run->now.requested_ticks + TICKS_PER_S)
        sim_complain(s->sim, "parent %.*s is newer than the request",
            SLICE_ARG(thing->partition_key));
    if (thing->owner.len == 0 || !slice_equal(thing->owner, owner))
        judge_archive(s, thing, run);
    if (entity->property_count != 2 || !has_tombstone(entity))
        sim_complain(s->sim, "parent %.*s: more than the tombstone is merged",
            SLICE_ARG(thing->partition_key));
}

static int channel_named(const struct cascade_state *s, struct slice name)
{
    int i = 0;

    while (i < s->channel_count && !slice_is(name, s->channels[i].name))
        i++;
    return i;
}

/* Judges the insert of a tombstone where there is no parent. */
static void judge_bare(struct cascade_state *s, const char *table,
    const struct entity *entity, struct slice owner)
{
    int channel = channel_named(s, entity->partition_key);
    const struct sim_run *run = NULL;

    if (channel < s->channel_count)
        run = open_run(s, owner, &s->channels[channel]);
    if (strcmp(table, s->shape->parent_table) != 0 ||
        !slice_is(entity->row_key, s->shape->parent_row_key) ||
        channel == s->channel_count || !has_tombstone(entity) ||
        entity->property_count != 2)
        sim_complain(s->sim, "%s %.*s/%.*s: inserted, and no tombstone", table,
            ENTITY_KEYS(entity));
    else if ((!run || is_in_last_phase(run)) &&
             !book_was_paused(s->sim->book, owner))
        sim_complain(s->sim,
            "a tombstone of %.*s lands, which has no more use for it in %s",
            SLICE_ARG(owner), s->channels[channel].name);
}

/* ---- what the service has carried out ---- */

/* Merges a tombstone into a parent of the model. */
static void merge(struct cascade_state *s, struct thing *thing,
    const struct entity *change, struct slice owner)
{
    struct entity whole;

    if (entity_parse(thing->line, true, &s->arena, &whole, NULL, NULL) != TW_OK)
        sim_complain(s->sim, "a line of the model cannot be read");
    for (size_t i = 0; i < change->property_count; i++)
        entity_set(&whole, &s->arena, &change->properties[i]);
    thing->line = line_of(s, &whole);
    thing->owner = owner;
}

static void add_bare(
    struct cascade_state *s, const struct entity *entity, struct slice owner)
{
    int channel = channel_named(s, entity->partition_key);
    struct thing *thing;

    if (channel == s->channel_count || s->count == THINGS_MAX)
        return;
    thing = &s->things[s->count];
    *thing = (struct thing){.table = s->shape->parent_table,
        .kind = -1,
        .channel = channel,
        .above = -1,
        .alive = true,
        .bare = true,
        .owner = owner,
        .partition_key = arena_copy(&s->arena, entity->partition_key),
        .row_key = arena_copy(&s->arena, entity->row_key),
        .line = line_of(s, entity),
        .inserted_ms = virtual_ms()};
    s->channels[channel].parent = s->count++;
    s->alive++;
}

static void bury(struct cascade_state *s, struct thing *thing)
{
    thing->alive = false;
    s->alive--;
}

static void judge_worker(struct cascade_state *s, const char *table,
    const struct operation *operation)
{
    const struct entity *entity = &operation->entity;
    int index = find_alive(s, table, entity);
    struct slice owner = owner_of(s, entity);

    if (operation->type == OPERATION_INSERT) {
        judge_bare(s, table, entity, owner);
        add_bare(s, entity, owner);
    } else if (index < 0) {
        sim_complain(s->sim, "%s %.*s/%.*s: nobody has written it", table,
            ENTITY_KEYS(entity));
    } else if (operation->type == OPERATION_MERGE &&
               s->things[index].kind < 0) {
        judge_tombstone(s, &s->things[index], entity, owner);
        merge(s, &s->things[index], entity, owner);
    } else if (operation->type != OPERATION_DELETE) {
        sim_complain(s->sim, "%s %.*s/%.*s is overwritten by a worker",
            WHERE(&s->things[index]));
    } else {
        if (s->things[index].kind < 0)
            judge_parent_delete(s, index);
        else
            judge_child_delete(s, index);
        bury(s, &s->things[index]);
    }
}

/* Judges the writes of workers and updates the model with them. Of every write
 * it notes the new ETag. Front ends update the rest of the model themselves. */
static void changed(void *state, const struct sim_change *change)
{
    struct cascade_state *s = state;
    int index;

    if (change->by_worker)
        judge_worker(s, change->table, change->operation);
    index = find_alive(s, change->table, &change->operation->entity);
    if (index >= 0)
        s->things[index].etag = arena_copy(&s->arena, slice_of(change->etag));
}

/* Judges a run that has ended: a run that succeeded must have deleted its
 * parent. */
static void run_ended(void *state, const struct sim_run *run)
{
    struct cascade_state *s = state;
    int channel = channel_named(s, slice_of(run->what));
    const struct thing *parent;

    if (channel == s->channel_count)
        return;
    if (run->now.state == LEDGER_CANCELLED) {
        s->channels[channel].unfinished = true;
        return;
    }
    if (run->now.state != LEDGER_SUCCEEDED) {
        sim_complain(s->sim, "%s has ended %s: %.*s", run->key,
            ledger_state_name(run->now.state), SLICE_ARG(run->now.error));
        return;
    }
    parent = parent_of(s, channel);
    if (!parent || parent->inserted_ms >= run->acquired_ms)
        return;
    if (!s->created ||
        parent->created_ticks < run->now.requested_ticks + TICKS_PER_S)
        sim_complain(
            s->sim, "%s has succeeded, and its parent is there", run->key);
}

/* ---- front ends: writing ---- */

/* Inserts an entity and adds it to the model at the moment at which the service
 * carries out the insert. */
static bool insert(
    struct cascade_state *s, struct thing *thing, const struct entity *entity)
{
    char etag[96];
    enum tw_err outcome;

    virtual_mask();
    outcome = sim_write(s->sim, thing->table, OPERATION_INSERT, entity, etag);
    if (outcome == TW_OK) {
        thing->alive = true;
        thing->line = line_of(s, entity);
        thing->etag = arena_copy(&s->arena, slice_of(etag));
        thing->inserted_ms = virtual_ms();
        if (thing->kind < 0)
            s->channels[thing->channel].parent = s->count;
        s->things[s->count++] = *thing;
        s->alive++;
    }
    virtual_unmask();
    return outcome == TW_OK;
}

static bool replace(struct cascade_state *s, struct thing *thing,
    const struct entity *entity, bool away)
{
    enum tw_err outcome;

    virtual_mask();
    outcome = sim_write(s->sim, thing->table, OPERATION_REPLACE, entity, NULL);
    if (outcome == TW_OK) {
        thing->line = line_of(s, entity);
        thing->away = away;
    }
    virtual_unmask();
    return outcome == TW_OK;
}

static void create_parent(struct cascade_state *s, int channel)
{
    struct thing thing = {.table = s->shape->parent_table,
        .kind = -1,
        .channel = channel,
        .above = -1,
        .partition_key = slice_of(s->channels[channel].name),
        .row_key = slice_of(s->shape->parent_row_key)};
    struct entity entity;

    if (s->count == THINGS_MAX)
        return;
    thing.created_ticks = sim_now_ticks();
    entity_init(&entity, &s->arena, thing.partition_key, thing.row_key);
    entity_set_datetime(&entity, &s->arena, "CreatedOn", thing.created_ticks);
    entity_set_string(&entity, &s->arena, "Title", thing.partition_key);
    (void)insert(s, &thing, &entity);
}

/* Returns a key by its template. */
static struct slice key_of(struct arena *arena, const char *template,
    const char *channel, struct slice above, unsigned number)
{
    struct buf text;
    struct slice key;

    buf_init(&text, 4096);
    for (; *template; template ++) {
        if (*template != '%')
            buf_add_char(&text, *template);
        else if (*++template == 'c')
            buf_add_text(&text, channel);
        else if (*template == 'a')
            buf_add_slice(&text, above);
        else
            buf_add_format(&text, "%u", number);
    }
    key = arena_copy(arena, buf_slice(&text));
    buf_done(&text);
    return key;
}

/* Inserts an entity of this kind under the thing at index above (-1: the
 * parent). */
static void insert_child(
    struct cascade_state *s, int channel, int kind, int above)
{
    const struct kind_of_thing *what = &s->shape->kinds[kind];
    const char *name = s->channels[channel].name;
    struct slice row_key_above =
        above < 0 ? slice_of("") : s->things[above].row_key;
    unsigned number = sim_draw(NUMBERS);
    struct entity entity;
    struct thing thing = {.table = what->table,
        .kind = kind,
        .channel = channel,
        .above = above,
        .partition_key =
            key_of(&s->arena, what->partition_key, name, row_key_above, number),
        .row_key =
            key_of(&s->arena, what->row_key, name, row_key_above, number)};

    if (s->count == THINGS_MAX)
        return;
    entity_init(&entity, &s->arena, thing.partition_key, thing.row_key);
    if (what->link)
        entity_set_string(&entity, &s->arena, what->link,
            what->to_channel ? slice_of(name) : row_key_above);
    entity_set_int32(&entity, &s->arena, "N", (int32_t)number);
    (void)insert(s, &thing, &entity);
}

/* Returns one of the kinds below the kind `above`, or -1. */
static int kind_below(const struct cascade_state *s, int above)
{
    int found = -1;

    for (int kind = 0; kind < KINDS_MAX && s->shape->kinds[kind].table; kind++)
        if (s->shape->kinds[kind].above == above &&
            (found < 0 || sim_chance(50)))
            found = kind;
    return found;
}

/* Returns the index of a random child that exists, or -1. */
static int some_child(const struct cascade_state *s)
{
    int start = s->count > 0 ? (int)sim_draw((unsigned)s->count) : 0;

    for (int i = 0; i < s->count; i++) {
        int index = (start + i) % s->count;
        const struct thing *thing = &s->things[index];

        if (thing->alive && thing->kind >= 0 && !thing->away)
            return index;
    }
    return -1;
}

/* ---- front ends: what they do ---- */

/* Reads the parent, as a front end must: true if it exists and has no
 * tombstone. */
static bool parent_is_free(struct cascade_state *s, int channel)
{
    struct page page;
    bool is_free;

    page_init(&page);
    is_free = sim_get(s->sim, s->shape->parent_table,
                  slice_of(s->channels[channel].name),
                  slice_of(s->shape->parent_row_key), &page) &&
              !has_tombstone(&page.entities[0]);
    page_done(&page);
    return is_free;
}

/*
 * Looks for the tombstone, waits, and inserts the child. If front ends and runs
 * keep the rules, the entity above still exists then.
 */
static void adds_child(struct cascade_state *s, int channel)
{
    int above = sim_chance(40) ? -1 : some_child(s);
    unsigned slow_ms = (unsigned)(s->settle_ms * 6 / 10);
    int kind;

    if (above >= 0)
        channel = s->things[above].channel;
    kind = kind_below(s, above < 0 ? -1 : s->things[above].kind);
    if (kind < 0 || s->alive >= MOST_ALIVE)
        return;
    if (above >= 0)
        s->things[above].busy++;
    virtual_mask();
    if (parent_is_free(s, channel)) {
        if (slow_ms > 0) {
            virtual_unmask();
            front_thinks(slow_ms);
            virtual_mask();
        }
        if (above >= 0 && !s->things[above].alive)
            sim_complain(s->sim,
                "%s %.*s/%.*s has gone while a child came in time",
                WHERE(&s->things[above]));
        insert_child(s, channel, kind, above);
    }
    virtual_unmask();
    if (above >= 0)
        s->things[above].busy--;
}

/* True if nothing is under the thing and no front end is about to add a child
 * to it. */
static bool is_leaf(const struct cascade_state *s, int index)
{
    const struct thing *thing = &s->things[index];

    return thing->busy == 0 && !first_under(s, thing->channel, index);
}

/* Replaces a child, sometimes so that no rule finds it any more. */
static void changes_child(struct cascade_state *s)
{
    int index = some_child(s);
    struct thing *thing;
    const char *link;
    struct entity entity;
    struct page page;
    bool away;

    if (index < 0)
        return;
    thing = &s->things[index];
    link = s->shape->kinds[thing->kind].link;
    page_init(&page);
    if (sim_get(s->sim, thing->table, thing->partition_key, thing->row_key,
            &page)) {
        entity_copy(&entity, &s->arena, &page.entities[0]);
        front_thinks(500);
        virtual_mask();
        away = link && s->shape->kinds[thing->kind].to_channel == false &&
               sim_chance(30) && thing->alive && is_leaf(s, index);
        entity_set_int32(
            &entity, &s->arena, "Touched", (int32_t)sim_draw(1000));
        if (away)
            entity_set_string(&entity, &s->arena, link, slice_of("elsewhere"));
        if (thing->alive)
            (void)replace(s, thing, &entity, away);
        virtual_unmask();
    }
    page_done(&page);
}

static void deletes_child(struct cascade_state *s)
{
    int index = some_child(s);
    struct thing *thing;
    struct entity entity;

    if (index < 0)
        return;
    virtual_mask();
    thing = &s->things[index];
    entity = (struct entity){.partition_key = thing->partition_key,
        .row_key = thing->row_key,
        .etag = thing->etag};
    if (is_leaf(s, index) && sim_write(s->sim, thing->table, OPERATION_DELETE,
                                 &entity, NULL) == TW_OK)
        bury(s, thing);
    virtual_unmask();
}

/* Changes the parent if it has no tombstone. */
static void changes_parent(struct cascade_state *s, int channel)
{
    struct entity entity;
    struct page page;

    page_init(&page);
    if (sim_get(s->sim, s->shape->parent_table,
            slice_of(s->channels[channel].name),
            slice_of(s->shape->parent_row_key), &page) &&
        !has_tombstone(&page.entities[0])) {
        struct thing *thing = parent_of(s, channel);

        entity_copy(&entity, &s->arena, &page.entities[0]);
        entity_set_int32(
            &entity, &s->arena, "Touched", (int32_t)sim_draw(1000));
        front_thinks(300);
        virtual_mask();
        if (thing && thing->alive)
            (void)replace(s, thing, &entity, false);
        virtual_unmask();
    }
    page_done(&page);
}

/* Deletes the parent and requests a run that deletes the children. */
static void deletes_parent(struct cascade_state *s, int channel)
{
    struct thing *thing;
    struct entity entity;

    virtual_mask();
    thing = parent_of(s, channel);
    if (thing && thing->owner.len == 0) {
        entity = (struct entity){.partition_key = thing->partition_key,
            .row_key = thing->row_key,
            .etag = thing->etag};
        if (sim_write(s->sim, thing->table, OPERATION_DELETE, &entity, NULL) ==
            TW_OK) {
            bury(s, thing);
            s->channels[channel].left_to_run = true;
            sim_enqueue(s->sim, s->channels[channel].name, "", false, 0);
        }
    }
    virtual_unmask();
}

static void acts(void *state)
{
    struct cascade_state *s = state;
    int channel = (int)sim_draw((unsigned)s->channel_count);
    unsigned drawn = sim_draw(100);

    if (drawn < 40)
        adds_child(s, channel);
    else if (drawn < 55)
        changes_child(s);
    else if (drawn < 62)
        deletes_child(s);
    else if (drawn < 66)
        changes_parent(s, channel);
    else if (drawn < 80)
        create_parent(s, channel);
    else if (drawn < 84)
        deletes_parent(s, channel);
    else if (drawn < 96)
        front_asks(s->sim, s->channels[channel].name);
    else if (drawn < 98)
        sim_ask(s->sim);
    else
        sim_enqueue_garbage(s->sim);
}

/* ---- the kind ---- */

static void draw_settle(struct cascade_state *s)
{
    static const struct {
        const char *text;
        int64_t last_ms;
    } SETTLES[] = {{"0s", 0}, {"200ms", 200}, {"1s", 1000}, {"3s", 3000},
        {"[100ms, 2s]", 2000}, {"[1s, 5s]", 5000}, {"[500ms, 1s, 10s]", 10000}};

    s->settle_ms = INT64_MAX;
    for (unsigned n = 0; n < SIM_DEFINITIONS; n++) {
        unsigned drawn = sim_draw(sizeof(SETTLES) / sizeof(SETTLES[0]));

        s->settle[n] = SETTLES[drawn].text;
        if (SETTLES[drawn].last_ms < s->settle_ms)
            s->settle_ms = SETTLES[drawn].last_ms;
    }
}

static void *begin(struct sim *sim)
{
    static const char *const NAMES[] = {"News", "New", "News2"};
    struct cascade_state *s = mem_alloc(sizeof(*s));
    unsigned tree = sim_draw(16);

    s->sim = sim;
    sim->state = s; /* from now on each write is judged */
    arena_init(&s->arena);
    s->shape = &SIM_PICK(SHAPES);
    s->created = sim_chance(75);
    s->archives = sim_chance(15);
    s->counts = sim_chance(15);
    draw_settle(s);
    for (int i = 0; s->shape->tables[i]; i++)
        sim_create_table(sim, s->shape->tables[i]);
    s->channel_count = 1 + (int)sim_draw(CHANNELS_MAX);
    for (int i = 0; i < s->channel_count; i++) {
        s->channels[i] = (struct channel){.name = NAMES[i], .parent = -1};
        if (sim_chance(75))
            create_parent(s, i);
    }
    for (unsigned i = 0; i < tree; i++)
        adds_child(s, (int)sim_draw((unsigned)s->channel_count));
    return s;
}

static char *job(void *state, unsigned n)
{
    const struct cascade_state *s = state;

    return mem_format(SIM_JOB
        ":\n"
        "    kind: cascade-delete\n"
        "    args: [" SIM_ARGUMENT "]\n"
        "    parent: {table: %s, partition_key: \"{what}\", row_key: \"%s\", "
        "tombstone: {Deleted: true}%s}\n"
        "    settle: %s\n%s%s"
        "    children:\n%s",
        s->shape->parent_table, s->shape->parent_row_key,
        s->created ? ", created: CreatedOn" : "", s->settle[n],
        s->archives ? "    archive: kept\n" : "",
        s->counts ? "    refuse_above: 100000\n" : "", s->shape->children);
}

/* ---- the end ---- */

static void judge_stored(
    void *state, const char *table, const struct entity *entity)
{
    struct cascade_state *s = state;
    int index = find_alive(s, table, entity);
    struct slice line = line_of(s, entity);
    const struct thing *thing;

    if (index < 0) {
        sim_complain(s->sim, "%s %.*s/%.*s is there, and should not be", table,
            ENTITY_KEYS(entity));
        return;
    }
    thing = &s->things[index];
    if (!slice_equal(thing->etag, entity->etag) ||
        !slice_equal(thing->line, line))
        sim_complain(s->sim, "%s %.*s/%.*s was touched: %.*s, not %.*s",
            WHERE(thing), SLICE_ARG(line), SLICE_ARG(thing->line));
}

/* True if the tombstone of this parent may remain. A cancelled run leaves its
 * tombstone. A run whose worker was paused may insert a tombstone after the
 * parent was deleted. */
static bool may_stay(const struct cascade_state *s, const struct thing *parent)
{
    const struct sim_run *run = book_find(s->sim->book, parent->owner);

    return (run && run->now.state == LEDGER_CANCELLED) ||
           (parent->bare && book_was_paused(s->sim->book, parent->owner));
}

static bool is_unfinished(
    const struct cascade_state *s, const struct channel *channel)
{
    return channel->unfinished ||
           (channel->left_to_run && book_has_lost(s->sim->book));
}

/* Complains of a tombstone that is left, and of a child without the entity
 * above it. Children may remain without their parent if the run that should
 * delete them was cancelled, or if its message was lost with the queue. */
static void judge_alive(struct cascade_state *s, const struct thing *thing)
{
    if (thing->owner.len > 0 && !may_stay(s, thing))
        sim_complain(s->sim, "parent %.*s is left with the tombstone of %.*s",
            SLICE_ARG(thing->partition_key), SLICE_ARG(thing->owner));
    if (thing->kind < 0 || thing->away)
        return;
    if (is_unfinished(s, &s->channels[thing->channel]) &&
        !parent_of(s, thing->channel))
        return;
    if (thing->above >= 0 ? !s->things[thing->above].alive
                          : !parent_of(s, thing->channel))
        sim_complain(
            s->sim, "%s %.*s/%.*s is left without a parent", WHERE(thing));
}

static void end(void *state)
{
    struct cascade_state *s = state;
    int stored = 0;

    for (int i = 0; s->shape->tables[i]; i++)
        stored += sim_each(s->sim, s->shape->tables[i], judge_stored, s);
    if (stored != s->alive)
        sim_complain(s->sim, "%d entities are there, and %d should be", stored,
            s->alive);
    for (int i = 0; i < s->count; i++)
        if (s->things[i].alive)
            judge_alive(s, &s->things[i]);
    arena_done(&s->arena);
    mem_free(s);
}

const struct sim_kind sim_cascade = {
    .name = "cascade-delete",
    .begin = begin,
    .job = job,
    .front = {.act = acts, .acts = 20, .pauses_ms = {50, 500, 2000, 5000}},
    .changed = changed,
    .run_ended = run_ended,
    .end = end,
};
