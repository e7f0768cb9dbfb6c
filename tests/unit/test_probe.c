/* SPDX-License-Identifier: MIT */
/* The probe, which finds out whether two names mean one store, before anything
 * is deleted. */
#include "jobs/engine/probe.h"
#include "jobs/engine/run.h"
#include "tests/support/faulty.h"
#include "tests/support/hosted.h"
#include "tests/support/test.h"
#include "worker/base/platform.h"
#include "worker/store/deadline.h"
#include "worker/store/embedded/embedded.h"
#include "worker/store/request_pool.h"

struct scene {
    struct hosted hosted;
    struct store *files[3]; /* the second store has the file of the first one */
    struct faulty faulty[3];
    struct store *one, *same, *other;
    struct deadline deadline;
    struct run run;
};

static struct store *open_file(
    struct scene *scene, const char *name, const char *file)
{
    const char *path =
        arena_format(&scene->hosted.arena, "%s/%s", scene->hosted.folder, file)
            .at;
    struct store *store;
    struct err err;

    assert_ok(embedded_open(name, path, &store, &err));
    return store;
}

static int set_up(void **state)
{
    static struct scene scene;

    hosted_init(&scene.hosted, "{}");
    scene.one = scene.files[0] = open_file(&scene, "one", "a.db");
    scene.same = scene.files[1] = open_file(&scene, "same", "a.db");
    scene.other = scene.files[2] = open_file(&scene, "other", "b.db");
    for (size_t i = 0; i < 3; i++)
        faulty_init(&scene.faulty[i], scene.files[i]);
    deadline_init(&scene.deadline, PLATFORM_NEVER, 1000);
    scene.run = (struct run){.job = "j",
        .pool_client =
            pool_client_new(scene.hosted.request_pool, &scene.deadline),
        .deadline = &scene.deadline};
    *state = &scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    pool_client_free(scene->run.pool_client);
    for (size_t i = 0; i < 3; i++) {
        faulty_done(&scene->faulty[i]);
        store_close(scene->files[i]);
    }
    hosted_done(&scene->hosted);
    return 0;
}

#define FIXTURE_TEST(name)                                                     \
    TEST_WITH(name, set_up, tear_down, struct scene *scene)

/* Makes the stores look like Azure stores with different host names: their
 * identities do not show which of them are one account. */
static void disguise(struct scene *scene)
{
    for (size_t i = 0; i < 3; i++) {
        struct store *store = &scene->faulty[i].outer.store;

        store->capabilities.kind = "azure";
        store->capabilities.endpoint = NULL;
        store->capabilities.identity = scene->files[i]->name;
    }
    scene->one = &scene->faulty[0].outer.store;
    scene->same = &scene->faulty[1].outer.store;
    scene->other = &scene->faulty[2].outer.store;
}

static bool same(struct scene *scene, struct store *a, struct store *b)
{
    struct err err;
    bool is_same;

    if (probe_same(&scene->run, a, b, &is_same, &err) != TW_OK)
        fail_msg("%s", err.text);
    return is_same;
}

FIXTURE_TEST(one_file_is_one_store)
{
    assert_true(same(scene, scene->one, scene->one));
    assert_true(same(scene, scene->one, scene->same));
    assert_false(same(scene, scene->one, scene->other));
}

FIXTURE_TEST(what_names_do_not_tell_the_stores_do)
{
    disguise(scene);
    assert_true(same(scene, scene->one, scene->same));
    assert_true(same(scene, scene->same, scene->one));
    assert_false(same(scene, scene->one, scene->other));
    assert_false(same(scene, scene->other, scene->one));
}

/* The table of the probe exists, and has no entity. */
FIXTURE_TEST(a_probe_leaves_no_entity)
{
    struct scan_request request = {.table = PROBE_TABLE};
    struct exchange exchange = {.deadline = NULL};
    struct page page;

    disguise(scene);
    (void)same(scene, scene->one, scene->other);
    page_init(&page);
    assert_ok(store_scan(scene->one, &exchange, &request, &page));
    assert_int_equal(page.count, 0);
    page_done(&page);
}

FAULTY_CHOICE(lose_first)
{
    /* Batch 0 fails in any case, because the table is missing. */
    if (call == CALL_BATCH && n == 1)
        return FAULT_LOSE_ANSWER;
    return FAULT_NONE;
}

FIXTURE_TEST(a_lost_answer_is_no_answer)
{
    disguise(scene);
    scene->faulty[0].choose = lose_first;
    assert_true(same(scene, scene->one, scene->same));
    assert_int_equal(scene->faulty[0].met[FAULT_LOSE_ANSWER], 1);
}

FAULTY_CHOICE(refuse_reads)
{
    return call == CALL_GET ? FAULT_REFUSED : FAULT_NONE;
}

FAULTY_CHOICE(refuse_writes)
{
    return call == CALL_BATCH ? FAULT_REFUSED : FAULT_NONE;
}

FAULTY_CHOICE(refuse_tables)
{
    return call == CALL_CREATE_TABLE ? FAULT_REFUSED : FAULT_NONE;
}

FAULTY_CHOICE(lose_writes)
{
    return call == CALL_BATCH && n > 0 ? FAULT_LOSE_REQUEST : FAULT_NONE;
}

/* If a request of the probe fails, it is not known whether the two names mean
 * one store, so nothing may be deleted. */
FIXTURE_TEST(what_cannot_be_stored_or_read_is_not_known)
{
    static const struct {
        size_t store; /* index of the store whose requests fail */
        enum fault (*choose)(void *ctx, enum store_call call, unsigned n);
        enum tw_err outcome;
    } cases[] = {
        {0, refuse_tables, TW_REFUSED},
        {0, lose_writes, TW_UNKNOWN},
        {0, refuse_writes, TW_REFUSED},
        {2, refuse_reads, TW_REFUSED},
    };

    disguise(scene);
    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct faulty *faulty = &scene->faulty[cases[i].store];
        struct err err;
        bool is_same;

        faulty->choose = cases[i].choose;
        assert_int_equal(probe_same(&scene->run, scene->one,
                             cases[i].store == 0 ? scene->same : scene->other,
                             &is_same, &err),
            cases[i].outcome);
        faulty->choose = NULL;
    }
}

FIXTURE_TEST(a_file_is_no_account)
{
    disguise(scene);
    assert_false(same(scene, scene->one, scene->files[0]));
}

/* A file whose identity cannot be read is probed like an account. */
FIXTURE_TEST(a_file_without_identity_is_asked)
{
    disguise(scene);
    for (size_t i = 0; i < 3; i++) {
        scene->faulty[i].outer.store.capabilities.kind = "embedded";
        scene->faulty[i].outer.store.capabilities.identity = NULL;
    }
    assert_true(same(scene, scene->one, scene->same));
    assert_false(same(scene, scene->one, scene->other));
}
