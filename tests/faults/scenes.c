/* SPDX-License-Identifier: MIT */
/* The scenes, and how their folders are filled. */
#include "tests/faults/scenes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/faults/state.h"
#include "tests/faults/trial.h"

/* One and a half visibility timeouts: every lease is over, and every message is
 * visible. But no run counts as an orphan yet. An attempt of an orphan would
 * begin without the run's message, and the message would then be hidden for
 * another visibility timeout. */
#define AHEAD_MS (3 * 60 * 1000)

#define JOB(name)                                                              \
    "  " name ":\n"                                                            \
    "    kind: cascade-delete\n"                                               \
    "    args: [channel]\n"                                                    \
    "    parent:\n"                                                            \
    "      table: Channels\n"                                                  \
    "      partition_key: \"{channel}\"\n"                                     \
    "      row_key: \"\"\n"                                                    \
    "      tombstone: {Deleted: true}\n"                                       \
    "    children:\n"                                                          \
    "      - table: Blogs\n"                                                   \
    "        partition_key: \"{channel}\"\n"                                   \
    "        children:\n"                                                      \
    "          - {table: Comments, partition_key: \"{PartitionKey}\","         \
    " row_key: \"{RowKey}\"}\n"                                                \
    "      - {table: Subscriptions, filter: \"Channel eq '{channel}'\"}\n"     \
    "    settle: 1s\n"                                                         \
    "    archive: archive\n"

static const char CONFIGURATION[] =
    "stores:\n"
    "  main: {embedded: " SCENE_FILE "}\n"
    "  cloud: {azure: {connection_string: \"${FAULTS_AZURE}\"}}\n"
    "default_store: main\n"
    "worker:\n"
    "  store: main\n"
    "  queues:\n"
    "    - {name: work}\n"
    "    - {name: channels, job: drop-channel, body: channel,"
    " encoding: text}\n"
    "  slots: 2\n"
    "  requests: 2\n"
    "  visibility_timeout: 2m\n"
    "  poll: {min: 1s, max: 2s}\n"
    "jobs:\n" JOB("delete-channel") JOB("drop-channel");

static const char CHANNELS[] =
    "{\"PartitionKey\":\"Football\",\"RowKey\":\"\",\"Title\":\"F\"}\n"
    "{\"PartitionKey\":\"Surf\",\"RowKey\":\"\",\"Title\":\"S\"}\n"
    "{\"PartitionKey\":\"Chess\",\"RowKey\":\"\",\"Title\":\"C\"}\n";

#define FOOTBALL                                                               \
    "{\"PartitionKey\":\"Football\",\"RowKey\":\"1\",\"Rating\":4.5}\n"        \
    "{\"PartitionKey\":\"Football\",\"RowKey\":\"2\",\"Rating\":3}\n"          \
    "{\"PartitionKey\":\"Football\",\"RowKey\":\"3\"}\n"

static const char BLOGS[] = FOOTBALL
    "{\"PartitionKey\":\"Chess\",\"RowKey\":\"1\",\"Text\":\"\\u20ac\"}\n";

static const char COMMENTS[] =
    "{\"PartitionKey\":\"Football\",\"RowKey\":\"1\",\"Text\":\"one\"}\n"
    "{\"PartitionKey\":\"Football\",\"RowKey\":\"2\",\"Text\":\"two\"}\n"
    "{\"PartitionKey\":\"Chess\",\"RowKey\":\"1\",\"Text\":\"three\"}\n";

static const char SUBSCRIPTIONS[] =
    "{\"PartitionKey\":\"ada\",\"RowKey\":\"1\",\"Channel\":\"Football\"}\n"
    "{\"PartitionKey\":\"bob\",\"RowKey\":\"1\",\"Channel\":\"Chess\"}\n";

#define FILL                                                                   \
    "import Channels channels.jsonl", "import Blogs blogs.jsonl",              \
        "import Comments comments.jsonl",                                      \
        "import Subscriptions subscriptions.jsonl"

#define RUN "run delete-channel channel=Football --id r1 --yes"
#define IMPORT "import Blogs blogs.jsonl --id i1"
#define ENQUEUE "enqueue delete-channel channel=Football --id r1"

/* WORKS: a command that can be finished after it was cut off. READS: a command
 * that only reads. SPEAKS: a command that uses the azure store. */
#define WORKS(named, line, code, ...)                                          \
    .name = (named), .command = (line), .exit_code = (code),                   \
    .again = {__VA_ARGS__}
#define READS(named, line) .name = (named), .command = (line)
#define SPEAKS(named, line, script)                                            \
    .name = (named), .command = (line), .service = (script)

#define BAD "put work {\"job\":"

const struct scene SCENES[] = {
    {WORKS("worker", "worker --drain", 0, "worker --drain"),
        .before = {FILL, ENQUEUE, "put channels Surf"}},
    {WORKS("poison", "worker --drain", 1, "worker --drain"),
        .before = {BAD, "put work {\"job\":\"nobody\"}"}},
    {WORKS("run", RUN, 0, RUN), .before = {FILL}},
    {WORKS("import", IMPORT, 0, IMPORT),
        .before = {"import Channels channels.jsonl"}},
    {WORKS("enqueue", ENQUEUE, 0, ENQUEUE), .before = {FILL}},
    {WORKS("cancel", "cancel r1", 0, "cancel r1", "worker --drain"),
        .before = {FILL, ENQUEUE}},
    {WORKS("poison drop", "poison drop --all", 0, "poison drop --all"),
        .before = {BAD, "worker --drain"}},
    {READS("export", "export Blogs -"), .before = {FILL}},
    {READS("count", "count Blogs --filter Rating~ge~3"), .before = {FILL}},
    {READS("census", "census Blogs --version-property Rating --json"),
        .before = {FILL}},
    {READS("status", "status --json"), .before = {FILL, ENQUEUE}},
    {READS("dry run", "run delete-channel channel=Football --dry-run"),
        .before = {FILL}},
    {READS("check", "check")},
    {READS("jobs", "jobs delete-channel")},
    {READS("poison list", "poison list"), .before = {BAD, "worker --drain"}},
    {SPEAKS("export cloud", "export Blogs - --store cloud", "pages")},
    {SPEAKS("count cloud", "count Blogs --store cloud", "pages")},
    {SPEAKS(
        "import cloud", "import Blogs football.jsonl --store cloud", "batch")},
};

const size_t SCENE_COUNT = sizeof(SCENES) / sizeof(SCENES[0]);

const struct scene *scene_named(const char *name)
{
    for (size_t i = 0; i < SCENE_COUNT; i++)
        if (strcmp(SCENES[i].name, name) == 0)
            return &SCENES[i];
    return NULL;
}

void fault_scene_begin(bool again)
{
    trial_later(again ? AHEAD_MS : 0);
}

/* Writes the first certificate of the system to root.pem, or an empty file. */
static void write_root(const char *folder)
{
    static const char end[] = "-----END CERTIFICATE-----\n";
    char *all = trial_read("/etc/ssl/certs", "ca-certificates.crt");
    char *at = all ? strstr(all, end) : NULL;

    if (at)
        at[sizeof(end) - 1] = '\0';
    trial_write(folder, "root.pem", at ? all : "");
    free(all);
}

/* In a child: carries out one line of scene.before. */
static int before(void *context)
{
    char *line = strdup(context), *rest = line;
    const char *queue;

    fault_scene_begin(false);
    if (strncmp(line, "put ", 4) != 0)
        return trial_command(line);
    rest += 4;
    queue = strsep(&rest, " ");
    state_put(SCENE_FILE, queue, rest);
    return 0;
}

bool scene_prepare(const struct scene *scene, const char *folder)
{
    size_t most = sizeof(scene->before) / sizeof(scene->before[0]);

    trial_write(folder, "tableward.yaml", CONFIGURATION);
    write_root(folder);
    trial_write(folder, "channels.jsonl", CHANNELS);
    trial_write(folder, "blogs.jsonl", BLOGS);
    trial_write(folder, "football.jsonl", FOOTBALL);
    trial_write(folder, "comments.jsonl", COMMENTS);
    trial_write(folder, "subscriptions.jsonl", SUBSCRIPTIONS);
    for (size_t i = 0; i < most && scene->before[i]; i++) {
        char *line = strdup(scene->before[i]);
        int end = trial_fork(folder, before, line);

        free(line);
        /* a worker that meets a poisoned message exits with 1 */
        if (end > 1) {
            char *log = trial_read(folder, "log");

            (void)fprintf(stderr, "%s: %s: %s\n%s", scene->name,
                scene->before[i], trial_end_name(end), log ? log : "");
            free(log);
            return false;
        }
    }
    return true;
}

static int do_again(void *context)
{
    fault_scene_begin(true);
    return trial_command(context);
}

bool scene_finish(const struct scene *scene, const char *folder)
{
    size_t most = sizeof(scene->again) / sizeof(scene->again[0]);

    for (size_t i = 0; i < most && scene->again[i]; i++) {
        char *line = strdup(scene->again[i]);
        int end = trial_fork(folder, do_again, line);

        free(line);
        /* 1: this worker has met the poisoned message */
        if (end != 0 && (end != 1 || scene->exit_code != 1))
            return false;
    }
    return true;
}

char *scene_state(const char *folder)
{
    static char file[] = SCENE_FILE;

    if (trial_fork(folder, state_print, file) != 0)
        return NULL;
    return trial_read(folder, "out");
}

const char *scene_judge(const struct scene *scene, const char *folder,
    const char *expected, char **ret_found)
{
    if (!scene_finish(scene, folder))
        return "what was cut off cannot be finished";
    *ret_found = scene_state(folder);
    if (!*ret_found || strcmp(*ret_found, expected) != 0)
        return "the store is not as after a clean run";
    return NULL;
}
