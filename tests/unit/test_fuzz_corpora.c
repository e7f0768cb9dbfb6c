/* SPDX-License-Identifier: MIT */
/*
 * Gives every seed of every fuzz target, and every input that once failed, to
 * its target without libFuzzer. The targets check what must hold for any input.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/fuzz/fuzz.h"
#include "tests/support/test.h"

#define TARGETS(each)                                                          \
    each(account) each(answer) each(batch) each(config) each(convert)          \
        each(csv) each(entity) each(filter) each(json) each(ledger)            \
            each(lines) each(message) each(queue_xml) each(source)             \
                each(template) each(text) each(token) each(upgrade)

#define DECLARE(name) int target_##name(const uint8_t *at, size_t len);
TARGETS(DECLARE)

static const struct target {
    const char *name;
    int (*run)(const uint8_t *at, size_t len);
} targets[] = {
#define ENTRY(name) {#name, target_##name},
    TARGETS(ENTRY)};
#define TARGET_COUNT (sizeof(targets) / sizeof(targets[0]))

/* Prints the file's name first, because a failure ends the process. */
static void run_file(const struct target *target, const char *path)
{
    static uint8_t bytes[1024 * 1024];
    FILE *file = fopen(path, "rb");
    size_t len;

    if (file == NULL)
        fail_msg("%s cannot be read", path);
    len = fread(bytes, 1, sizeof(bytes), file);
    fclose(file);
    fprintf(stderr, "%s\n", path);
    target->run(bytes, len);
}

/* Runs the target on each file of the folder. Returns the number of files; 0 if
 * there is no folder. */
static size_t run_folder(const struct target *target, const char *kind)
{
    const char *source = getenv("TABLEWARD_SOURCE");
    struct dirent *entry;
    char path[4096];
    size_t count = 0;
    DIR *folder;

    snprintf(path, sizeof(path), "%s/tests/fuzz/%s/%s", source ? source : ".",
        kind, target->name);
    folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char file[8192];

        if (entry->d_name[0] == '.')
            continue;
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        run_file(target, file);
        count++;
    }
    if (folder != NULL)
        closedir(folder);
    return count;
}

TEST(every_seed_holds)
{
    for (size_t i = 0; i < TARGET_COUNT; i++)
        if (run_folder(&targets[i], "corpus") == 0)
            fail_msg("%s has no seeds", targets[i].name);
}

TEST(what_once_failed_holds)
{
    for (size_t i = 0; i < TARGET_COUNT; i++)
        (void)run_folder(&targets[i], "found");
}

/* Each target gets the seed cut off at each place, and the seed with one byte
 * changed at each place. */
TEST(damaged_seeds_hold)
{
    static uint8_t bytes[512];
    const uint8_t seed[] =
        "{\"PartitionKey\":\"p\",\"RowKey\":\"r\",\"A\":1.5}";

    for (size_t i = 0; i < TARGET_COUNT; i++)
        for (size_t at = 0; at < sizeof(seed); at++) {
            memcpy(bytes, seed, sizeof(seed));
            targets[i].run(bytes, at);
            bytes[at] ^= 0x80;
            targets[i].run(bytes, sizeof(seed));
        }
}
