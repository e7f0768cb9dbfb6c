/* SPDX-License-Identifier: MIT */
/*
 * Expand, two releases that write during and after it, and contract, over a
 * store that fails at random, with attempts that are stopped or killed
 * anywhere. A list has every write that was acknowledged; none of them may be
 * lost (tests/support/releases.h). An entity that cannot be brought to the
 * newest version is reported.
 *
 *   TABLEWARD_SEEDS=5000  that many storms instead of the everyday number
 *   TABLEWARD_SEED=17     only that storm
 */
#include "tests/support/storm.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fast_platform.h"
#include "tests/support/faulty.h"
#include "tests/support/releases.h"
#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/store/deadline.h"

#define EVERYDAY_SEEDS 60
#define THINGS 12
#define ATTEMPTS_MAX 200
/* After so many attempts no request fails, so that the storm ends. */
#define STORMY_ATTEMPTS 15

/* One entity, and the writes that were acknowledged. */
struct thing {
    char row_key[8];
    struct release_state is;
    bool named;
};

struct storm {
    struct hosted h;
    struct faulty faulty;
    struct store *stores[1];
    struct releases *releases;
    struct thing things[THINGS];
    enum release_way ways[1 + RELEASE_GROUP_MAX]; /* first: the old release */
    size_t way_count;
    unsigned write_share; /* writes before a request, in thousandths */
    bool old_writes, new_writes;
    bool converted; /* a round of expand has read the entity */
    int value;      /* the next value to write */
    uint64_t seed, dice;
    unsigned faulty_share;
    bool clear; /* no request fails any more */
    unsigned asked, kill_at;
    bool killed;
    struct storm_saves saves;
    char complaint[2048];
};

static void complain(struct storm *s, const char *what, const char *row_key)
{
    if (!s->complaint[0])
        (void)snprintf(
            s->complaint, sizeof(s->complaint), "%s: %s", row_key, what);
}

/* ---- the releases ---- */

static struct store *inner(struct storm *s)
{
    return s->h.store;
}

static bool store_one(struct storm *s, enum operation_type type,
    struct thing *thing, const struct release_state *state, struct slice etag)
{
    struct exchange exchange = {.deadline = NULL};
    struct operation operation = {
        .type = type, .entity = releases_entity(s->releases, state)};
    const struct batch batch = {"Blogs", &operation, 1};
    struct batch_result *result = mem_alloc(sizeof(*result));
    enum tw_err outcome;

    operation.entity.row_key = slice_of(thing->row_key);
    operation.entity.etag = etag;
    outcome = store_batch(inner(s), &exchange, &batch, result);
    mem_free(result);
    return outcome == TW_OK;
}

static void read_one(struct storm *s, struct thing *thing, struct page *page)
{
    struct exchange exchange = {.deadline = NULL};

    assert_ok(store_get(inner(s), &exchange, "Blogs", slice_of("p"),
        slice_of(thing->row_key), page));
    releases_read(s->releases, &page->entities[0], &thing->is);
}

static void judge(struct storm *s, struct thing *thing, enum release_end end)
{
    const char *lost = releases_lost(s->releases, &thing->is, end);

    if (lost)
        complain(s, lost, thing->row_key);
}

/* The ETag is read right before the write, so the write succeeds. */
static void write_one(struct storm *s, uint64_t *dice)
{
    struct thing *thing = &s->things[storm_roll(dice, THINGS)];
    size_t way = storm_roll(dice, (unsigned)s->way_count);
    struct release_state now;
    struct page page;
    bool writes;

    if (way == 0 ? !s->old_writes : !s->new_writes)
        return;
    page_init(&page);
    read_one(s, thing, &page);
    judge(s, thing, RELEASE_OPEN);
    now = thing->is;
    if (s->ways[way] == OLD_DYNAMIC && storm_roll(dice, 4) == 0)
        writes = releases_remove_old(s->releases, &now, s->converted);
    else
        writes = releases_write(s->releases, &now, s->ways[way], s->value);
    s->value += 2;
    if (writes &&
        store_one(s, OPERATION_REPLACE, thing, &now, page.entities[0].etag))
        thing->is = now;
    releases_clear(s->releases);
    page_done(&page);
}

/* ---- faults ---- */

/* Called for every request of the run; the lock of the faulty store is held. */
FAULTY_CHOICE(weather)
{
    static const enum fault SCANS[] = {FAULT_BUSY, FAULT_ERROR,
        FAULT_LOSE_REQUEST, FAULT_SHORT_PAGE, FAULT_EMPTY_PAGE};
    static const enum fault GETS[] = {
        FAULT_BUSY, FAULT_ERROR, FAULT_LOSE_REQUEST};
    static const enum fault BATCHES[] = {FAULT_UNSENT, FAULT_BUSY, FAULT_ERROR,
        FAULT_LOSE_REQUEST, FAULT_LOSE_ANSWER, FAULT_LATE, FAULT_TWICE,
        FAULT_TWICE_UNSEEN, FAULT_NO_INDEX, FAULT_ONE_KEY};
    struct storm *s = ctx;
    uint64_t dice =
        storm_mix(s->seed ^ storm_mix(n * 3 + (unsigned)call) ^ s->asked);

    s->asked++;
    if (s->asked == s->kill_at) {
        s->killed = true;
        deadline_close(s->h.deadline);
    }
    while (storm_roll(&dice, 1000) < s->write_share)
        write_one(s, &dice);
    if (s->clear || storm_roll(&dice, 1000) >= s->faulty_share)
        return FAULT_NONE;
    switch (call) {
    case CALL_SCAN:
        return STORM_PICK(&dice, SCANS);
    case CALL_GET:
        return STORM_PICK(&dice, GETS);
    case CALL_BATCH:
        return STORM_PICK(&dice, BATCHES);
    default:
        return FAULT_NONE;
    }
}

/* ---- attempts ---- */

static void keep_save(struct hosted *h)
{
    struct storm *s = h->owner;

    storm_save(&s->saves, h);
}

static void name_failed(struct hosted *h, const struct run_failure *failure)
{
    struct storm *s = h->owner;

    for (size_t i = 0; i < THINGS; i++)
        if (slice_is(failure->row_key, s->things[i].row_key))
            s->things[i].named = true;
    if (!failure->step || !strstr(failure->step, "version 2"))
        complain(s, "it is named without a step", "a failure");
}

/* Makes one attempt, which is stopped or killed somewhere, or not. */
static enum run_end attempt(struct storm *s)
{
    unsigned way = s->clear ? 0 : storm_roll(&s->dice, 3);
    enum run_end end;

    s->kill_at = way == 1 ? s->asked + 1 + storm_roll(&s->dice, 30) : 0;
    s->killed = false;
    s->h.stop_after = way == 2 ? (int64_t)storm_roll(&s->dice, 8) : -1;
    end = hosted_attempt(&s->h, "up", "");
    s->h.previous_owner_crashed = s->killed;
    if (!s->killed)
        return end;
    storm_forget_some(&s->saves, &s->h, &s->dice);
    return RUN_LEASE_LOST;
}

/* Makes attempts until the run ends. False: the run has failed. */
static bool run(struct storm *s, const char *phase, bool stormy)
{
    unsigned attempts = 0;
    enum run_end end;

    hosted_forget(&s->h, phase);
    s->h.kind_arg = phase;
    s->saves.count = 0;
    do {
        s->clear = !stormy || attempts > STORMY_ATTEMPTS;
        for (size_t i = 0; i < THINGS; i++)
            s->things[i].named = false;
        end = attempt(s);
        if (attempts++ > ATTEMPTS_MAX)
            complain(s, "the run does not end", s->h.err.text);
    } while (end != RUN_SUCCEEDED && end != RUN_FAILED && !s->complaint[0]);
    if (end == RUN_FAILED && s->h.failed == 0 &&
        !strstr(s->h.err.text, "(Behind)"))
        complain(s, s->h.err.text, "the run failed");
    return end == RUN_SUCCEEDED;
}

/* ---- a storm ---- */

static void draw_ways(struct storm *s)
{
    unsigned group = storm_roll(&s->dice, RELEASE_GROUPS);

    s->ways[s->way_count++] = (enum release_way)storm_roll(&s->dice, NEW_MERGE);
    for (size_t i = 0; i < RELEASE_GROUP_MAX; i++)
        if (RELEASE_GROUP[group][i] != RELEASE_WAYS)
            s->ways[s->way_count++] = RELEASE_GROUP[group][i];
}

static void storm_init(struct storm *s, uint64_t seed)
{
    static const unsigned SHARES[] = {0, 30, 100, 250};
    static const unsigned WRITES[] = {50, 300, 600, 850};
    bool lossy;

    s->seed = storm_mix(seed);
    s->dice = s->seed;
    lossy = storm_roll(&s->dice, 2);
    s->faulty_share = SHARES[storm_roll(&s->dice, 4)];
    s->write_share = WRITES[storm_roll(&s->dice, 4)];
    s->releases = releases_new(lossy);
    draw_ways(s);
    hosted_begin(
        &s->h, lossy ? RELEASE_LOSSY : RELEASE_RENAME, "Blogs TablewardRuns");
    s->value = 1001;
    for (int i = 0; i < THINGS; i++) {
        struct thing *thing = &s->things[i];

        (void)snprintf(thing->row_key, sizeof(thing->row_key), "e%02d", i);
        thing->is = releases_begin(s->releases, s->value);
        s->value += 2;
        assert_true(
            store_one(s, OPERATION_INSERT, thing, &thing->is, slice_of("")));
    }
    releases_clear(s->releases);
    faulty_init(&s->faulty, s->h.store);
    s->faulty.outer.store.capabilities.ordered = storm_roll(&s->dice, 5) > 0;
    s->faulty.outer.store.capabilities.late_writes = true;
    s->faulty.late_ms = storm_roll(&s->dice, 2000);
    s->faulty.page_max =
        storm_roll(&s->dice, 2) == 0 ? 1 + storm_roll(&s->dice, 7) : 0;
    s->faulty.ctx = s;
    s->faulty.choose = weather;
    s->stores[0] = &s->faulty.outer.store;
    s->h.stores.stores = s->stores;
    s->h.owner = s;
    s->h.saved = keep_save;
    s->h.failing = name_failed;
}

static void storm_done(struct storm *s)
{
    faulty_done(&s->faulty);
    hosted_done(&s->h);
    releases_free(s->releases);
    storm_saves_done(&s->saves);
}

static void write_between(struct storm *s, unsigned most)
{
    for (unsigned left = storm_roll(&s->dice, most); left > 0; left--)
        write_one(s, &s->dice);
}

static void judge_all(struct storm *s, bool contracted)
{
    for (size_t i = 0; i < THINGS; i++) {
        struct thing *thing = &s->things[i];
        struct page page;

        page_init(&page);
        read_one(s, thing, &page);
        judge(s, thing,
            !contracted    ? RELEASE_OPEN
            : thing->named ? RELEASE_NAMED
                           : RELEASE_CONTRACTED);
        releases_clear(s->releases);
        page_done(&page);
    }
}

/* The old release does not write any more. Runs expand until nothing is behind,
 * as contract needs it. */
static void expand_to_the_end(struct storm *s)
{
    bool writes = s->new_writes;

    s->new_writes = false;
    (void)run(s, "expand", storm_roll(&s->dice, 2));
    if (s->h.behind != 0)
        complain(s, "nobody writes, and it is behind", "expand");
    s->new_writes = writes;
}

static void play(struct storm *s)
{
    s->old_writes = true;
    write_between(s, 8);
    (void)run(s, "expand", true);
    judge_all(s, false);
    s->converted = s->new_writes = true;
    write_between(s, 30);
    if (storm_roll(&s->dice, 2))
        (void)run(s, "expand", true);
    judge_all(s, false);
    s->old_writes = false;
    expand_to_the_end(s);
    /* The last writes of the old release, which no round of expand has read. */
    s->old_writes = true;
    write_between(s, 10);
    s->old_writes = false;
    (void)run(s, "contract", true);
    judge_all(s, false);
    s->new_writes = false;
    (void)run(s, "contract", false);
    judge_all(s, true);
}

static void storm(uint64_t seed, bool alone)
{
    struct storm *s = mem_alloc(sizeof(*s));

    storm_init(s, seed);
    play(s);
    if (s->complaint[0])
        fail_msg(
            "TABLEWARD_SEED=%llu: %s", (unsigned long long)seed, s->complaint);
    storm_done(s);
    mem_free(s);
}

TEST(no_write_is_lost_in_any_storm)
{
    storm_each_seed(storm, EVERYDAY_SEEDS);
}

int main(void)
{
    fast_platform_use();
    log_set(LOG_ERROR, LOG_TEXT);
    return test_run_all(NULL, NULL);
}
