/* SPDX-License-Identifier: MIT */
/* Builds stores, jobs and settings from a configuration file. */
#include "worker/cli/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/settings.h"
#include "config/yaml.h"
#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/store.h"

#define BESIDE "tableward.yaml"
#define SYSTEM "/etc/tableward/tableward.yaml"

/* The maximum number of bytes that are read of the file: slightly more than
 * yaml_read() accepts, so that yaml_read() reports its limit. */
#define FILE_MAX_BYTES ((size_t)1024 * 1024 + 4096)
#define STORE_NAME_MAX 64

struct root {
    const struct yaml_node *default_store;
    const struct yaml_node *stores, *worker, *jobs;
};

static const struct setting ROOT_KEYS[] = {
    {.key = "default_store",
        .type = SETTING_NODE,
        .offset = SETTING_FIELD(struct root, default_store),
        .help =
            "the store of tables without `store:`, and of queues and ledger "
            "unless `worker:` has `store:`"},
    {.key = "stores",
        .type = SETTING_NODE,
        .offset = SETTING_FIELD(struct root, stores),
        .required = true,
        .help = "the stores of tables and queues, by name"},
    {.key = "worker",
        .type = SETTING_NODE,
        .offset = SETTING_FIELD(struct root, worker),
        .help = "queues, slots, time-outs"},
    {.key = "jobs",
        .type = SETTING_NODE,
        .offset = SETTING_FIELD(struct root, jobs),
        .help = "the jobs, by name"},
};

const struct settings_section load_section =
    SETTINGS_SECTION("the configuration", ROOT_KEYS);

const char *load_find(const char *named)
{
    const char *variable = getenv("TABLEWARD_CONFIG");

    if (named)
        return named;
    if (variable && *variable)
        return variable;
    if (access(BESIDE, F_OK) == 0)
        return BESIDE;
    return access(SYSTEM, F_OK) == 0 ? SYSTEM : NULL;
}

/* ---- the file ---- */

static enum tw_err cannot_read(const char *path, struct err *err)
{
    return err_fail(err, TW_INVALID, "the configuration %s cannot be read: %s",
        path, strerror(errno));
}

static enum tw_err read_all(
    const char *path, int fd, struct buf *to, struct err *err)
{
    char part[16384];
    ssize_t got;

    do {
        got = read(fd, part, sizeof(part));
        if (got > 0)
            buf_add(to, part, (size_t)got);
    } while ((got > 0 && !to->overflow) || (got < 0 && errno == EINTR));
    crypto_wipe(part, sizeof(part));
    if (to->overflow)
        return err_fail(err, TW_INVALID,
            "the configuration %s is larger than 1 MiB: is it another file?",
            path);
    return got < 0 ? cannot_read(path, err) : TW_OK;
}

static enum tw_err read_file(const char *path, struct buf *to, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    enum tw_err outcome;

    if (fd < 0)
        return cannot_read(path, err);
    outcome = read_all(path, fd, to, err);
    close(fd);
    return outcome;
}

/*
 * Returns the folder for relative paths. This is the first folder in
 * $STATE_DIRECTORY, whose folders are separated by colons; without that
 * variable, it is the absolute folder of the file at path.
 */
static const char *base_folder(const char *path, struct arena *arena)
{
    const char *state = getenv("STATE_DIRECTORY");
    char *real, *slash;
    struct slice folder;

    if (state && *state)
        return arena_copy(arena, (struct slice){state, strcspn(state, ":")}).at;
    real = realpath(path, NULL);
    if (!real)
        return ".";
    slash = strrchr(real, '/');
    folder = (struct slice){real, slash > real ? (size_t)(slash - real) : 1};
    folder = arena_copy(arena, folder);
    free(real);
    return folder.at;
}

/* ---- stores ---- */

static bool is_store_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.at[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
            !(c >= '0' && c <= '9') && c != '-' && c != '_')
            return false;
    }
    return name.len > 0 && name.len <= STORE_NAME_MAX;
}

static void make_room(struct load *load, size_t count)
{
    const char **names =
        arena_alloc(&load->arena, (count + 1) * sizeof(*names));

    load->configs =
        arena_alloc(&load->arena, (count + 1) * sizeof(*load->configs));
    load->open = arena_alloc(&load->arena, (count + 1) * sizeof(*load->open));
    load->wanted =
        arena_alloc(&load->arena, (count + 1) * sizeof(*load->wanted));
    load->later = arena_alloc(&load->arena, (count + 1) * sizeof(*load->later));
    load->stores.names = names;
    load->stores.stores = load->open;
}

static void add_store(
    struct load *load, const char *name, struct store_config *config)
{
    size_t at = load->stores.count++;
    const char **names = (const char **)(uintptr_t)load->stores.names;

    names[at] = name;
    load->configs[at] = config;
}

/* Read all stores. An invalid store stays in the list with its name and without
 * a configuration (NULL), so that no reference to it is reported as an unknown
 * store. */
static void load_stores(
    struct load *load, const struct yaml_node *node, struct problems *problems)
{
    make_room(load, node ? node->count : 0);
    if (!node)
        return;
    if (node->type != YAML_MAP || node->count == 0) {
        settings_wrong(problems, node, "stores",
            "a map of names, such as main: {embedded: tableward.db}");
        return;
    }
    for (size_t i = 0; i < node->count; i++) {
        struct slice name = node->keys[i]->text;

        if (!is_store_name(name)) {
            problems_add(problems, node->keys[i]->mark,
                "a store's name must be at most %d letters, digits, - and _",
                STORE_NAME_MAX);
            continue;
        }
        add_store(load, name.at,
            store_config_load(
                name.at, node->items[i], load->folder, &load->arena, problems));
    }
}

static void load_default_store(struct load *load, const struct root *root,
    const struct yaml_node *tree, struct problems *problems)
{
    const struct yaml_node *node = root->default_store;
    struct slice name;

    load->stores.by_default = load->stores.count == 1 ? 0 : load->stores.count;
    if (!node) {
        if (load->stores.count > 1)
            problems_add(problems, tree->mark,
                "`default_store:` is missing: there are %zu stores, so write "
                "the name of the store for tables without `store:`",
                load->stores.count);
        return;
    }
    if (!settings_text(node, false, &load->arena, &name, NULL, problems))
        return;
    load->stores.by_default = load_store_named(load, name.at);
    if (load->stores.by_default == load->stores.count && load->stores.count > 0)
        settings_unknown(problems, node->mark, "store", name,
            load->stores.names, load->stores.count);
}

size_t load_store_named(const struct load *load, const char *name)
{
    size_t i = 0;

    while (i < load->stores.count && strcmp(load->stores.names[i], name) != 0)
        i++;
    return i;
}

const char *load_store_nearest(const struct load *load, const char *name)
{
    return text_nearest(slice_of(name), load->stores.names, load->stores.count);
}

/* ---- reserved files ---- */

static bool is_file(const struct stat *is, const char *path)
{
    struct stat other;

    return stat(path, &other) == 0 && other.st_ino == is->st_ino &&
           other.st_dev == is->st_dev;
}

/* Is `is` (from stat()) the status of the embedded store's file at path, or of
 * one of SQLite's files beside that file? */
static bool is_of_store(const struct stat *is, const char *path)
{
    static const char *const ENDS[] = {"", "-wal", "-shm", "-journal"};
    bool found = false;

    for (size_t i = 0; i < sizeof(ENDS) / sizeof(ENDS[0]) && !found; i++) {
        char *file = mem_format("%s%s", path, ENDS[i]);

        found = is_file(is, file);
        mem_free(file);
    }
    return found;
}

bool load_keeps(const struct load *load, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    bool found = false;
    struct stat is;

    if ((standard ? fstat(STDIN_FILENO, &is) : stat(path, &is)) != 0 ||
        !S_ISREG(is.st_mode))
        return false;
    if (load->file && is_file(&is, load->file))
        return true;
    for (size_t i = 0; i < load->stores.count && !found; i++)
        found = load->configs[i] && !load->configs[i]->is_azure &&
                is_of_store(&is, load->configs[i]->path.at);
    return found;
}

/* ---- the whole ---- */

static void load_tree(
    struct load *load, const struct yaml_node *tree, struct problems *problems)
{
    struct root root = {.stores = NULL};

    settings_load(tree, "the configuration", ROOT_KEYS,
        sizeof(ROOT_KEYS) / sizeof(ROOT_KEYS[0]), &load->arena, &root,
        problems);
    load_stores(load, root.stores, problems);
    load_default_store(load, &root, tree, problems);
    jobs_load(root.jobs, &load->stores, &load->arena, &load->jobs, problems);
    setup_load(root.worker, &load->stores, &load->jobs, &load->arena,
        &load->setup, problems);
}

static enum tw_err open_later(
    void *owner, size_t index, struct store **ret, struct err *err);

static struct load *new_load(void)
{
    struct load *load = mem_alloc(sizeof(*load));

    arena_init(&load->arena);
    platform_mutex_init(&load->mutex);
    load->stores.open = open_later;
    load->stores.owner = load;
    load->definition.jobs = &load->jobs;
    load->definition.stores = &load->stores;
    load->definition.setup = &load->setup;
    return load;
}

static void set_folder(struct load *load, const char *folder)
{
    load->folder = folder;
    load->definition.archive_folder = folder;
}

/* Report the unset variables of the stores and jobs that `use` needs. Call even
 * after other problems, so that all are reported at once. */
static void want_used(
    struct load *load, enum load_use use, struct problems *problems)
{
    if (use == LOAD_SOME)
        return;
    if (load->setup.store < load->stores.count)
        load_want_store(load, load->setup.store, problems);
    for (size_t i = 0; i < load->jobs.count; i++)
        load_want_job(load, &load->jobs.list[i], problems);
    for (size_t i = 0; i < load->stores.count && use == LOAD_ALL; i++)
        load_want_store(load, i, problems);
    if (load->setup.unset)
        problems_add(problems, load->setup.unset_mark,
            "admin_token_file needs the environment variable %s, which is not "
            "set",
            load->setup.unset);
}

/* Overwrite and free the text of the configuration, because it may hold
 * secrets, and end the mem_wipe_moved(true) of load_read(). load_free()
 * overwrites the values read from the text. */
static void wipe_text(struct buf *text)
{
    if (text->at != NULL)
        crypto_wipe(text->at, text->room);
    buf_done(text);
    mem_wipe_moved(false);
}

enum tw_err load_read(const char *path, enum load_use use, struct load **ret,
    struct problems *problems, struct err *err)
{
    struct load *load = new_load();
    size_t errors = problems->errors;
    const struct yaml_node *tree;
    struct slice all;
    struct buf text;
    enum tw_err outcome;

    mem_wipe_moved(true);
    buf_init(&text, FILE_MAX_BYTES);
    outcome = read_file(path, &text, err);
    if (outcome != TW_OK)
        goto done;
    load->file = arena_copy(&load->arena, slice_of(path)).at;
    set_folder(load, base_folder(path, &load->arena));
    all = arena_copy(&load->arena, buf_slice(&text));
    tree = yaml_read(path, all, &load->arena, problems);
    if (tree) {
        load_tree(load, tree, problems);
        want_used(load, use, problems);
    }
    if (problems->errors > errors)
        outcome =
            err_fail(err, TW_INVALID, "the configuration %s is invalid", path);
    else
        *ret = load;
done:
    wipe_text(&text);
    if (outcome != TW_OK)
        load_free(load);
    return outcome;
}

struct load *load_environment(const char *connection_string)
{
    struct load *load = new_load();
    struct store_config *config = arena_alloc(&load->arena, sizeof(*config));
    struct problems none;

    config->name = "azure";
    config->is_azure = true;
    config->mark = (struct mark){"$AZURE_STORAGE_CONNECTION_STRING", 1, 1};
    config->connection_string =
        arena_copy(&load->arena, slice_of(connection_string));
    set_folder(load, ".");
    make_room(load, 1);
    add_store(load, config->name, config);
    problems_init(&none);
    setup_load(
        NULL, &load->stores, &load->jobs, &load->arena, &load->setup, &none);
    problems_done(&none);
    return load;
}

void load_free(struct load *load)
{
    if (!load)
        return;
    for (size_t i = 0; i < load->stores.count; i++) {
        store_close(load->open[i]);
        store_close(load->later[i]);
    }
    platform_mutex_done(&load->mutex);
    arena_wipe(&load->arena);
    mem_free(load);
}

/* ---- what a command needs ---- */

/* Calls call() once for each store that the job uses. */
struct each_store {
    struct load *load;
    const struct job *job;
    void (*call)(struct each_store *each, size_t store);
    bool *seen;
    struct problems *problems; /* list to which call() adds problems */
    enum tw_err outcome; /* that of the first store that could not be opened */
    size_t failed;
    struct err *err;
};

static void on_table(
    void *ctx, size_t store, const char *table, enum job_access access)
{
    struct each_store *each = ctx;

    (void)access;
    (void)table;
    if (each->seen[store])
        return;
    each->seen[store] = true;
    each->call(each, store);
}

static void for_each_store(struct each_store *each)
{
    each->seen = mem_array(each->load->stores.count + 1, sizeof(bool));
    each->job->kind->tables(each->job, on_table, each);
    mem_free(each->seen);
}

void load_want_store(struct load *load, size_t store, struct problems *problems)
{
    const struct store_config *config = load->configs[store];

    if (!config || !config->unset || load->wanted[store])
        return;
    load->wanted[store] = true;
    problems_add(problems, config->mark,
        "store %s needs the environment variable %s, which is not set",
        config->name, config->unset);
}

static void want(struct each_store *each, size_t store)
{
    load_want_store(each->load, store, each->problems);
}

void load_want_job(
    struct load *load, const struct job *job, struct problems *problems)
{
    struct each_store each = {
        .load = load, .job = job, .call = want, .problems = problems};

    if (job->unset)
        problems_add(problems, job->mark,
            "job %s needs the environment variable %s, which is not set",
            job->name, job->unset);
    for_each_store(&each);
}

bool load_is_new(const struct load *load, size_t store)
{
    const struct store_config *config = load->configs[store];

    return config && !config->is_azure && access(config->path.at, F_OK) != 0 &&
           errno == ENOENT;
}

/* Are a and b two different files with the same identity? Two paths of one file
 * have the same endpoint. */
static bool is_copy(const struct store *a, const struct store *b)
{
    const struct store_capabilities *first = &a->capabilities,
                                    *second = &b->capabilities;

    return first->local && second->local && first->identity &&
           second->identity && first->endpoint && second->endpoint &&
           strcmp(first->identity, second->identity) == 0 &&
           strcmp(first->endpoint, second->endpoint) != 0;
}

/* Refuses an embedded store if its file and the file of another open store are
 * copies of each other. Locks, intents and TablewardSource name a file by its
 * identity, so a run could change entities of the wrong file. */
static enum tw_err refuse_copy(const struct load *load, size_t store,
    const struct store *opened, struct err *err)
{
    for (size_t i = 0; i < load->stores.count; i++)
        if (i != store &&
            ((load->open[i] && is_copy(load->open[i], opened)) ||
                (load->later[i] && is_copy(load->later[i], opened))))
            return err_fail(err, TW_INVALID,
                "store %s: the files %s and %s (store %s) have the same "
                "identity, because one of them was made as a copy of the other "
                "(cp, VACUUM INTO): a job could change the wrong file. Stop "
                "all processes that use the copy, then give the copy, not the "
                "original, an identity of its own: sqlite3 COPY \"UPDATE "
                "identity SET id = lower(hex(randomblob(16)))\"",
                load->stores.names[store], load->configs[store]->path.at,
                load->configs[i]->path.at, load->stores.names[i]);
    return TW_OK;
}

/* Open the store. *ret is set only if the outcome is TW_OK. */
static enum tw_err open_at(struct load *load, size_t store, bool may_create,
    struct store **ret, struct err *err)
{
    const struct store_config *config = load->configs[store];
    struct store *opened = NULL;
    enum tw_err outcome;

    if (!may_create && load_is_new(load, store))
        return err_fail(err, TW_NOT_FOUND,
            "store %s: file %s does not exist yet: nothing has been stored",
            config->name, config->path.at);
    outcome = load->only_reads ? store_open_to_read(config, &opened, err)
                               : store_open(config, &opened, err);
    if (outcome == TW_OK)
        outcome = refuse_copy(load, store, opened, err);
    if (outcome == TW_OK)
        *ret = opened;
    else
        store_close(opened);
    return outcome;
}

enum tw_err load_store(
    struct load *load, size_t store, bool may_create, struct err *err)
{
    return load->open[store]
               ? TW_OK
               : open_at(load, store, may_create, &load->open[store], err);
}

/* Implements open of struct job_stores. A run's thread calls this while other
 * threads read open[], so the store is kept in later[]. */
static enum tw_err open_later(
    void *owner, size_t index, struct store **ret, struct err *err)
{
    struct load *load = owner;
    enum tw_err outcome = TW_OK;

    if (load->open[index]) {
        *ret = load->open[index];
        return TW_OK;
    }
    platform_lock(&load->mutex);
    if (!load->later[index])
        outcome = open_at(load, index, false, &load->later[index], err);
    *ret = load->later[index];
    platform_unlock(&load->mutex);
    return outcome;
}

static void open_one(struct each_store *each, size_t store)
{
    if (each->outcome != TW_OK)
        return;
    each->outcome = load_store(each->load, store, true, each->err);
    each->failed = store;
}

enum tw_err load_job_stores(struct load *load, const struct job *job,
    size_t *ret_store, struct err *err)
{
    struct each_store each = {
        .load = load, .job = job, .call = open_one, .err = err};

    for_each_store(&each);
    *ret_store = each.failed;
    return each.outcome;
}

static void release(struct definition *definition)
{
    load_free(definition->owner);
}

const struct definition *load_lend(const struct load *load)
{
    return &load->definition;
}

/* Returns the folder of the lock files. All processes that share an embedded
 * store must use the same folder, so the folder is beside the store's file,
 * after symbolic links are resolved. For an Azure store it is in
 * load->folder. */
static const char *lock_folder(struct load *load)
{
    size_t store = load->setup.store;
    const struct store_config *config =
        store < load->stores.count ? load->configs[store] : NULL;
    const char *folder;
    char *real;

    if (config == NULL || config->is_azure)
        return arena_format(&load->arena, "%s/tableward-locks", load->folder)
            .at;
    real = realpath(config->path.at, NULL);
    folder =
        arena_format(&load->arena, "%s-locks", real ? real : config->path.at)
            .at;
    free(real);
    return folder;
}

struct definition *load_definition(struct load *load)
{
    struct definition *definition = &load->definition;

    definition->lock_folder = lock_folder(load);
    definition->release = release;
    definition->owner = load;
    atomic_init(&definition->references, 1);
    return definition;
}
