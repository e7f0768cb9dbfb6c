/* SPDX-License-Identifier: MIT */
/* Watching a file that other processes write. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "worker/store/watch.h"

#define PATH_BYTES (FOLDER_BYTES + 32)

struct scene {
    char folder[FOLDER_BYTES], path[PATH_BYTES];
    struct watch *watch;
    atomic_uint told;
};

static void note(void *context)
{
    struct scene *scene = context;

    atomic_fetch_add(&scene->told, 1);
}

static void write_to(const struct scene *scene, const char *name)
{
    char path[PATH_BYTES];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", scene->folder, name);
    file = fopen(path, "a");
    assert_non_null(file);
    assert_true(fputs("x", file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void wait_until_told(struct scene *scene, unsigned times)
{
    while (atomic_load(&scene->told) < times)
        (void)usleep(1000);
}

static void begin(struct scene *scene)
{
    test_folder(scene->folder);
    (void)snprintf(
        scene->path, sizeof(scene->path), "%s/store.db", scene->folder);
    scene->watch = watch_begin(scene->path, note, scene);
    assert_non_null(scene->watch);
}

static void end(struct scene *scene)
{
    watch_end(scene->watch);
}

TEST_FIXTURE(scene, struct scene, begin, end)

#define SCENE_TEST(name)                                                       \
    TEST_WITH(name, scene_set_up, scene_tear_down, struct scene *scene)

/* The callback is called several times for one write, because a write may
 * become visible only a moment later. */
TEST(it_tells_of_what_is_written_to_the_file_and_its_log)
{
    static const char *const names[] = {"store.db", "store.db-wal"};

    for (size_t i = 0; TEST_EACH(i, names); i++) {
        struct scene scene = {.watch = NULL};

        begin(&scene);
        write_to(&scene, names[i]);
        wait_until_told(&scene, 5);
        end(&scene);
    }
}

/* The last write is to the watched file itself. When this write is reported,
 * the events of the earlier writes have been read. */
SCENE_TEST(it_tells_of_no_other_file)
{
    write_to(scene, "other");
    write_to(scene, "store");
    write_to(scene, "store.db-journal");
    (void)usleep(50000);
    assert_int_equal(atomic_load(&scene->told), 0);
    write_to(scene, "store.db");
    wait_until_told(scene, 1);
}

SCENE_TEST(once_it_has_ended_it_tells_of_nothing)
{
    unsigned told;

    write_to(scene, "store.db");
    wait_until_told(scene, 1);
    watch_end(scene->watch);
    scene->watch = NULL;
    told = atomic_load(&scene->told);
    write_to(scene, "store.db");
    (void)usleep(50000);
    assert_int_equal(atomic_load(&scene->told), told);
}

TEST(a_folder_that_is_not_there_cannot_be_watched)
{
    assert_null(watch_begin("/nowhere/at/all/store.db", note, NULL));
    watch_end(NULL);
}
