/* SPDX-License-Identifier: MIT */
/*
 * Lanes: a pool of threads, each of which makes one attempt at a time.
 *
 * Who moves work to whom: a task waits in its client's list. Whoever changes
 * what may start (a submit, an attempt that ended, a moment that came) calls
 * dispatch(), which takes tasks that may start, client by client, and hands
 * each to an idle lane, or to a new one while there are fewer than wanted.
 * The lane that rested last is used first: its connection is warm, and no more
 * threads exist than were ever needed at once. A task whose caller waits for
 * it (lanes_call()) is handed back to the caller, who makes the attempt: two
 * changes of thread less. Where tasks wait for a moment, one idle lane, the
 * timer, sleeps until the first of them is due.
 *
 * One lock, lanes->mutex, guards every field below and the lanes' own fields
 * of each task; it is never held during an attempt.
 */
#include "worker/store/lanes.h"

#include <assert.h>
#include <string.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/stop.h"
#include "worker/store/rate_limiter.h"

/* How often a wait for the ceiling lets its owner look about. */
#define SPEND_LOOK_MS 250

/* How soon a task that met a deadline with too little time left asks again. */
#define DEADLINE_LOOK_MS 10

#define US_PER_MS 1000
#define US_PER_S 1000000

struct lane {
    struct lanes *lanes;
    struct platform_thread thread;
    struct platform_cond wake; /* a task was given, or the lanes close */
    struct lanes_task *task;
    struct lane *next_idle;
};

/* So many entities a second may be sent. */
struct ceiling {
    char *job;       /* of all its runs together; NULL: of all jobs */
    int64_t per_s;   /* 0: any number */
    int64_t free_us; /* when it allows the next ones, boot clock */
    struct ceiling *next;
};

struct lanes_client {
    struct lanes *lanes;
    const struct deadline *deadline;
    bool watches;               /* the silence of all stores ... */
    const struct store *ledger; /* ... except of this one's tables */
    struct ceiling *ceiling;    /* its job's; NULL: of none */
    struct lanes_client *next;  /* a ring */
    struct lanes_task *first;   /* waiting, in the order they came */
    struct lanes_task *last;
    size_t running;
    uint64_t ended;
    int64_t requests, throttled;
    bool unsure;            /* a write may still arrive at its store */
    int64_t hurry_ms;       /* then no task waits any more; PLATFORM_NEVER */
    int64_t reach_until_ms; /* until then what it asks must have been sent a
                               request; PLATFORM_NEVER: no matter */
    bool stopped;
    struct platform_cond changed; /* a task ended, or the client is stopped */
};

struct lanes {
    struct stop_hook stop;
    struct platform_mutex mutex;
    struct lane *lanes;
    unsigned count, started;
    unsigned busy;            /* tasks under way, callers' own too */
    struct lanes_task *calls; /* under way on their callers' threads */
    struct lane *idle;        /* the one that rested last first */
    struct lane *timer; /* the idle lane that sleeps until due_ms, or NULL */
    int64_t timer_ms;   /* until when it sleeps */
    int64_t due_ms;     /* when the next waiting task may start */
    bool closing;

    struct lanes_client *turn; /* whose turn it is; NULL: no clients */
    size_t bytes;              /* of the tasks under way */
    struct rate_limiter *limiter;
    struct ceiling ceiling;   /* of all jobs */
    struct ceiling *ceilings; /* of each job that ran */
};

/* A task that is larger than the whole budget runs alone. */
static bool fits_budget(
    const struct lanes *lanes, const struct lanes_task *task)
{
    return lanes->bytes == 0 ||
           (task->bytes <= LANES_BUDGET_BYTES &&
               lanes->bytes <= LANES_BUDGET_BYTES - task->bytes);
}

static void append(struct lanes_client *client, struct lanes_task *task)
{
    task->next = NULL;
    if (client->last)
        client->last->next = task;
    else
        client->first = task;
    client->last = task;
}

/* unlink_task: false: it does not wait. */
static bool unlink_task(struct lanes_client *client, struct lanes_task *task)
{
    struct lanes_task **at = &client->first, *before = NULL;

    while (*at && *at != task) {
        before = *at;
        at = &before->next;
    }
    if (!*at)
        return false;
    *at = task->next;
    if (client->last == task)
        client->last = before;
    task->next = NULL;
    return true;
}

static void finish(struct lanes_task *task, enum tw_err outcome)
{
    struct lanes_client *client = task->client;

    task->outcome = outcome;
    task->done = true;
    client->ended++;
    platform_wake_all(&client->changed);
}

/* What was said of the last try, if there was one, stays readable. */
static void finish_stopped(struct lanes_task *task, const char *why)
{
    if (task->retry.tries == 0)
        (void)err_fail(&task->last.err, TW_STOPPED, "%s", why);
    else
        err_prefix(&task->last.err, "%s", why);
    finish(task, TW_STOPPED);
}

static int64_t deadline_of(const struct lanes_task *task)
{
    const struct deadline *deadline = task->client->deadline;

    return deadline ? atomic_load(&deadline->at_ms) : PLATFORM_NEVER;
}

/* No longer than until the deadline, which may be another one then: only if
 * nobody has moved it the task is over. */
static void wait_until(struct lanes_task *task, int64_t retry_ms)
{
    int64_t deadline_ms = deadline_of(task);

    if (retry_ms > task->client->hurry_ms)
        retry_ms = task->client->hurry_ms;
    task->retry_ms = retry_ms;
    task->not_before_ms = retry_ms < deadline_ms ? retry_ms : deadline_ms;
}

/* It waited for its deadline only, and that was moved. */
static bool waits_longer(struct lanes_task *task, int64_t now_ms)
{
    if (task->not_before_ms > now_ms || task->retry_ms <= now_ms ||
        deadline_of(task) <= now_ms)
        return false;
    wait_until(task, task->retry_ms);
    return true;
}

/* When task may leave, by what is known of its store. */
static int64_t free_ms(
    struct lanes *lanes, const struct lanes_task *task, int64_t now_ms)
{
    int64_t rate_ms = rate_limiter_free_ms(lanes->limiter, task->key, now_ms);
    int64_t wait_ms =
        task->watched ? silence_wait_ms(&task->store->silence, now_ms) : 0;
    int64_t quiet_ms;

    /* It is not even sent. */
    if (task->watched &&
        silence_refuses(&task->store->silence, now_ms, &quiet_ms))
        return now_ms;
    if (rate_ms > task->client->hurry_ms)
        rate_ms = task->client->hurry_ms;
    return rate_ms > now_ms + wait_ms ? rate_ms : now_ms + wait_ms;
}

/*
 * The first task of client that may start now. *blocked: the budget is what
 * stops it; then nobody else may start either, or large ones would starve.
 */
static struct lanes_task *startable(
    struct lanes_client *client, int64_t now_ms, bool *blocked)
{
    struct lanes *lanes = client->lanes;
    struct lanes_task *task;
    int64_t from_ms;

    for (task = client->first; task; task = task->next) {
        if (waits_longer(task, now_ms) || task->not_before_ms > now_ms) {
            if (task->not_before_ms < lanes->due_ms)
                lanes->due_ms = task->not_before_ms;
            continue;
        }
        from_ms = free_ms(lanes, task, now_ms);
        if (from_ms > now_ms) {
            if (from_ms < lanes->due_ms)
                lanes->due_ms = from_ms;
            continue;
        }
        *blocked = !fits_budget(lanes, task);
        return *blocked ? NULL : task;
    }
    return NULL;
}

/* Takes the next task out of its list, round robin over the clients. */
static struct lanes_task *take(struct lanes *lanes, int64_t now_ms)
{
    struct lanes_client *client = lanes->turn;
    struct lanes_task *task = NULL;
    bool blocked = false;

    lanes->due_ms = PLATFORM_NEVER;
    if (!client)
        return NULL;
    do {
        task = startable(client, now_ms, &blocked);
        if (task || blocked)
            break;
        client = client->next;
    } while (client != lanes->turn);
    if (task) {
        (void)unlink_task(client, task);
        lanes->turn = client->next;
    }
    return task;
}

static void occupy(struct lanes *lanes, struct lanes_task *task, int64_t now_ms)
{
    task->most = rate_limiter_page(lanes->limiter, task->key);
    task->expected = task->entities > 0 ? task->entities : 1;
    if (task->scans && task->most != 0 && task->most < task->expected)
        task->expected = task->most;
    task->came = task->expected;
    task->left_ms = now_ms;
    rate_limiter_send(lanes->limiter, task->key, now_ms, task->expected);
    task->refused = task->watched && silence_refuses(&task->store->silence,
                                         now_ms, &task->quiet_ms);
    task->useless =
        task->refused && silence_is_useless(&task->store->silence, now_ms);
    if (task->watched && !task->refused)
        silence_begin(&task->store->silence, now_ms);
    lanes->bytes += task->bytes;
    lanes->busy++;
    task->client->running++;
}

/* Azure also says 500 OperationTimedOut where it is asked too much. */
static bool is_refused(const struct exchange *last)
{
    return retry_is_throttled(last) || last->http_status == 500;
}

/* An embedded store has no statuses. */
static bool is_served(const struct exchange *last, enum tw_err outcome)
{
    return last->sent_ms != 0 && !is_refused(last) && outcome != TW_BUSY &&
           outcome != TW_UNKNOWN && outcome != TW_STOPPED;
}

static bool is_unanswered(const struct exchange *last, enum tw_err outcome)
{
    return last->http_status == 0 && !last->breaker_open &&
           (outcome == TW_BUSY || outcome == TW_UNKNOWN);
}

/* The head of a response whose body never comes is none. */
static enum silence_end silence_end_of(
    const struct exchange *last, enum tw_err outcome)
{
    if (last->breaker_open && last->sent_ms == 0)
        return SILENCE_UNTOLD;
    if ((outcome == TW_BUSY || outcome == TW_UNKNOWN) &&
        last->http_status < 400)
        return SILENCE_NO_RESPONSE;
    return last->sent_ms != 0 && outcome != TW_STOPPED ? SILENCE_RESPONSE
                                                       : SILENCE_UNTOLD;
}

/* A response that is of no use: busy, an error of the service, a proxy's page.
 * Not that one table is being deleted. */
static bool is_useless(const struct exchange *last, enum tw_err outcome)
{
    return last->http_status != 0 && !retry_is_locked(last) &&
           (outcome == TW_BUSY || outcome == TW_UNKNOWN);
}

/* What had no response, or was not served, where there is none for others, is
 * not tried again. */
static void note_silence(
    struct lanes_task *task, enum tw_err outcome, int64_t now_ms)
{
    struct silence *silence = &task->store->silence;
    enum silence_end end = silence_end_of(&task->last, outcome);
    bool useless = is_useless(&task->last, outcome);

    silence_end(silence, now_ms, task->left_ms, end);
    if (useless || is_served(&task->last, outcome))
        silence_note_served(silence, now_ms, !useless);
    task->refused = (end == SILENCE_NO_RESPONSE || useless) &&
                    silence_refuses(silence, now_ms, &task->quiet_ms);
    task->last.breaker_open |= task->refused;
}

static void leave_calls(struct lanes *lanes, struct lanes_task *task)
{
    struct lanes_task **at = &lanes->calls;

    while (*at && *at != task)
        at = &(*at)->next;
    if (*at)
        *at = task->next;
}

static void vacate(struct lanes *lanes, struct lanes_task *task,
    enum tw_err outcome, int64_t now_ms)
{
    bool refused = is_refused(&task->last);

    rate_limiter_answered(lanes->limiter, task->key,
        &(struct rate_answer){.sent_ms = task->left_ms,
            .now_ms = now_ms,
            .expected = task->expected,
            .entities = task->last.sent_ms == 0 ? 0 : task->came,
            .refused = refused,
            .served = is_served(&task->last, outcome),
            .silent = is_unanswered(&task->last, outcome)});
    if (task->watched && !task->refused)
        note_silence(task, outcome, now_ms);
    leave_calls(lanes, task);
    lanes->bytes -= task->bytes;
    lanes->busy--;
    task->client->running--;
}

/* Whichever left first: `first`, or task, if its store is silent. */
static const struct lanes_task *earlier_in_silence(
    const struct lanes_task *first, const struct lanes_task *task,
    int64_t now_ms)
{
    if (!task || !task->watched || task->refused ||
        !silence_is_silent(&task->store->silence, now_ms))
        return first;
    return !first || task->left_ms < first->left_ms ? task : first;
}

/* Of all requests to stores that are silent the one that left first. */
static const struct lanes_task *first_in_silence(
    const struct lanes *lanes, int64_t now_ms)
{
    const struct lanes_task *first = NULL;

    for (unsigned i = 0; i < lanes->started; i++)
        first = earlier_in_silence(first, lanes->lanes[i].task, now_ms);
    for (const struct lanes_task *call = lanes->calls; call; call = call->next)
        first = earlier_in_silence(first, call, now_ms);
    return first;
}

static bool gives_up(void *context, bool comes)
{
    struct lanes_task *task = context;
    struct lanes *lanes = task->client->lanes;
    struct silence *silence = &task->store->silence;
    int64_t now_ms = platform_boot_ms();
    bool give_up;

    platform_lock(&lanes->mutex);
    if (comes)
        silence_move(silence, now_ms);
    give_up = silence_is_silent(silence, now_ms) &&
              first_in_silence(lanes, now_ms) != task;
    platform_unlock(&lanes->mutex);
    return give_up;
}

static enum tw_err make_exchange(struct lanes_task *task)
{
    const struct deadline *deadline = task->client->deadline;

    task->last = (struct exchange){.deadline = deadline, .retry_after_ms = -1};
    if (task->watched) {
        task->last.gives_up = gives_up;
        task->last.context = task;
    }
    if (task->refused) {
        task->last.breaker_open = true;
        return err_fail(&task->last.err, TW_BUSY, "store '%s' %s for %lld s",
            task->store->name,
            task->useless ? "responds, but has served no request"
                          : "does not respond: a request had no response",
            (long long)(task->quiet_ms + 999) / 1000);
    }
    if (!deadline_is_open(deadline, platform_boot_ms()))
        return err_fail(&task->last.err, TW_STOPPED,
            "the time of the run is over, nothing more is sent");
    return task->send(task, &task->last);
}

static bool given_up(const struct lanes_task *task)
{
    const struct deadline *deadline = task->client->deadline;

    return task->client->stopped || task->cancelled || stop_is_asked() ||
           (deadline && atomic_load(&deadline->shut));
}

/* Nothing was sent, for want of time until the deadline; the lease is being
 * renewed, so there may be more of it in a moment. That is no try. */
static bool waits_for_deadline(
    const struct lanes_task *task, enum tw_err outcome, int64_t now_ms)
{
    return outcome == TW_STOPPED && task->last.sent_ms == 0 &&
           !given_up(task) &&
           deadline_may_reopen(task->client->deadline, now_ms);
}

/* A person waits, the service was never reached, and there was time enough. */
static bool is_out_of_reach(const struct lanes_task *task, int64_t next_ms)
{
    return !task->last.reached && task->client->reach_until_ms < next_ms;
}

/* While the store does not respond, nothing waits for another try. */
static bool may_retry(struct lanes_task *task, enum tw_err outcome)
{
    if (!retry_may_follow(&task->retry, &task->last) || task->last.breaker_open)
        return false;
    return outcome == TW_BUSY || (outcome == TW_UNKNOWN && task->repeatable);
}

/* The store does not respond: what waits for its next try is over at once; of a
 * store that is silent only what is watched for that. */
static void hasten(struct lanes *lanes, const struct lanes_task *ended)
{
    struct lanes_client *client = lanes->turn;

    do {
        for (struct lanes_task *task = client->first; task; task = task->next)
            if (task->store == ended->store && task->retry.tries > 0 &&
                (task->watched || !ended->refused))
                task->not_before_ms = task->retry_ms = INT64_MIN;
        client = client->next;
    } while (client != lanes->turn);
}

/*
 * An attempt has ended: the task is over, or goes back to its list with the
 * moment of its next try.
 */
static void settle(struct lanes_task *task, enum tw_err outcome, int64_t now_ms)
{
    struct lanes_client *client = task->client;

    if (waits_for_deadline(task, outcome, now_ms)) {
        task->retry.tries--;
        task->not_before_ms = now_ms + DEADLINE_LOOK_MS;
        append(client, task);
        return;
    }
    if (task->last.breaker_open)
        hasten(client->lanes, task);
    if (!may_retry(task, outcome)) {
        finish(task, outcome);
        return;
    }
    if (given_up(task) || now_ms >= client->hurry_ms) {
        finish_stopped(task, "stopped before it was tried again");
        return;
    }
    wait_until(task, now_ms + retry_delay_ms(&task->retry, &task->last));
    if (is_out_of_reach(task, task->retry_ms))
        finish(task, outcome);
    else
        append(client, task);
}

static void dispatch(struct lanes *lanes);

/* With the lock held; it is given up for the attempt. */
static void try_task(struct lanes *lanes, struct lanes_task *task)
{
    int64_t ended_ms;
    enum tw_err outcome;

    retry_begin(&task->retry);
    platform_unlock(&lanes->mutex);
    outcome = make_exchange(task);
    ended_ms = platform_boot_ms();
    platform_lock(&lanes->mutex);
    if (task->last.sent_ms != 0)
        task->client->requests++;
    if (retry_is_throttled(&task->last))
        task->client->throttled++;
    if (outcome == TW_UNKNOWN && !task->repeatable && task->store &&
        task->store->traits.late_writes)
        task->client->unsure = true;
    vacate(lanes, task, outcome, ended_ms);
    settle(task, outcome, ended_ms);
}

static void work(struct lane *lane)
{
    struct lanes *lanes = lane->lanes;

    try_task(lanes, lane->task);
    lane->task = NULL;
    lane->next_idle = lanes->idle;
    lanes->idle = lane;
    dispatch(lanes);
}

/* With the lock held. */
static void rest(struct lane *lane)
{
    struct lanes *lanes = lane->lanes;
    int64_t until_ms = PLATFORM_NEVER;

    if (lanes->timer == lane)
        until_ms = lanes->timer_ms = lanes->due_ms;
    (void)platform_wait(&lane->wake, &lanes->mutex, until_ms);
    if (lanes->timer == lane) {
        lanes->timer = NULL;
        dispatch(lanes);
    }
}

static void lane_body(void *arg)
{
    struct lane *lane = arg;
    struct lanes *lanes = lane->lanes;

    platform_lock(&lanes->mutex);
    while (lane->task || !lanes->closing) {
        if (lane->task)
            work(lane);
        else
            rest(lane);
    }
    platform_unlock(&lanes->mutex);
}

static struct lane *start_lane(struct lanes *lanes)
{
    struct lane *lane = &lanes->lanes[lanes->started++];

    lane->lanes = lanes;
    platform_cond_init(&lane->wake);
    return lane;
}

/* give: task to its caller, to an idle lane or to a new one; there is one. */
static void give(struct lanes *lanes, struct lanes_task *task)
{
    struct lane *lane = lanes->idle;

    if (task->by_caller) {
        task->given = true;
        task->next = lanes->calls;
        lanes->calls = task;
        platform_wake_all(&task->client->changed);
        return;
    }
    if (lane) {
        lanes->idle = lane->next_idle;
        if (lanes->timer == lane)
            lanes->timer = NULL;
        lane->task = task;
        platform_wake_all(&lane->wake);
        return;
    }
    lane = start_lane(lanes);
    lane->task = task;
    platform_start(&lane->thread, "lane", lane_body, lane);
}

/* Somebody must be awake when the next waiting task is due. */
static void set_timer(struct lanes *lanes)
{
    struct lane *lane;

    if (lanes->due_ms == PLATFORM_NEVER)
        return;
    if (lanes->timer) {
        if (lanes->due_ms < lanes->timer_ms)
            platform_wake_all(&lanes->timer->wake);
        return;
    }
    lane = lanes->idle;
    if (lane) {
        lanes->timer = lane;
        lanes->timer_ms = lanes->due_ms;
        platform_wake_all(&lane->wake);
    } else if (lanes->started < lanes->count) {
        lane = start_lane(lanes);
        lane->next_idle = NULL;
        lanes->idle = lanes->timer = lane;
        lanes->timer_ms = lanes->due_ms;
        platform_start(&lane->thread, "lane", lane_body, lane);
    }
}

/* With the lock held: start what may start. */
static void dispatch(struct lanes *lanes)
{
    while (lanes->busy < lanes->count) {
        int64_t now_ms = platform_boot_ms();
        struct lanes_task *task = take(lanes, now_ms);

        if (!task)
            break;
        occupy(lanes, task, now_ms);
        give(lanes, task);
    }
    /* Whatever comes due waits for one that is under way. */
    if (lanes->busy >= lanes->count)
        lanes->due_ms = PLATFORM_NEVER;
    set_timer(lanes);
}

static void let_client_go(struct lanes_client *client)
{
    struct lanes_task *task = client->first, *next;

    for (; task; task = next) {
        next = task->next;
        if (task->retry.tries == 0)
            continue;
        (void)unlink_task(client, task);
        finish_stopped(task, "stopped before it was tried again");
    }
}

/* The process is to end: nothing is tried again. */
static void let_go(void *context)
{
    struct lanes *lanes = context;
    struct lanes_client *client;

    platform_lock(&lanes->mutex);
    client = lanes->turn;
    while (client) {
        let_client_go(client);
        client = client->next != lanes->turn ? client->next : NULL;
    }
    platform_unlock(&lanes->mutex);
}

struct lanes *lanes_new(unsigned count, int64_t max_entities_per_second)
{
    struct lanes *lanes = mem_alloc(sizeof *lanes);

    assert(count >= 1 && count <= 256);
    platform_mutex_init(&lanes->mutex);
    lanes->lanes = mem_array(count, sizeof *lanes->lanes);
    lanes->count = count;
    lanes->due_ms = PLATFORM_NEVER;
    lanes->ceiling.per_s = max_entities_per_second;
    lanes->limiter = rate_limiter_new();
    lanes->stop = (struct stop_hook){.told = let_go, .context = lanes};
    stop_hook_add(&lanes->stop);
    return lanes;
}

void lanes_free(struct lanes *lanes)
{
    if (!lanes)
        return;
    stop_hook_remove(&lanes->stop);
    platform_lock(&lanes->mutex);
    assert(!lanes->turn);
    lanes->closing = true;
    for (unsigned i = 0; i < lanes->started; i++)
        platform_wake_all(&lanes->lanes[i].wake);
    platform_unlock(&lanes->mutex);
    for (unsigned i = 0; i < lanes->started; i++) {
        platform_join(&lanes->lanes[i].thread);
        platform_cond_done(&lanes->lanes[i].wake);
    }
    while (lanes->ceilings) {
        struct ceiling *ceiling = lanes->ceilings;

        lanes->ceilings = ceiling->next;
        mem_free(ceiling->job);
        mem_free(ceiling);
    }
    rate_limiter_free(lanes->limiter);
    platform_mutex_done(&lanes->mutex);
    mem_free(lanes->lanes);
    mem_free(lanes);
}

struct lanes_client *lanes_client_new(
    struct lanes *lanes, const struct deadline *deadline)
{
    struct lanes_client *client = mem_alloc(sizeof *client);

    client->lanes = lanes;
    client->deadline = deadline;
    client->reach_until_ms = client->hurry_ms = PLATFORM_NEVER;
    platform_cond_init(&client->changed);
    platform_lock(&lanes->mutex);
    if (lanes->turn) {
        client->next = lanes->turn->next;
        lanes->turn->next = client;
    } else {
        client->next = client;
        lanes->turn = client;
    }
    platform_unlock(&lanes->mutex);
    return client;
}

void lanes_reach_until(struct lanes_client *client, int64_t until_ms)
{
    platform_lock(&client->lanes->mutex);
    client->reach_until_ms = until_ms;
    platform_unlock(&client->lanes->mutex);
}

void lanes_watch_silence(
    struct lanes_client *client, const struct store *ledger)
{
    platform_lock(&client->lanes->mutex);
    client->watches = true;
    client->ledger = ledger;
    platform_unlock(&client->lanes->mutex);
}

bool lanes_is_silent(struct lanes *lanes, const struct store *store)
{
    int64_t quiet_ms;
    bool silent;

    platform_lock(&lanes->mutex);
    silent = silence_refuses(&store->silence, platform_boot_ms(), &quiet_ms);
    platform_unlock(&lanes->mutex);
    return silent;
}

static void stop(struct lanes_client *client)
{
    client->stopped = true;
    while (client->first) {
        struct lanes_task *task = client->first;

        (void)unlink_task(client, task);
        finish_stopped(task, "stopped before it was sent");
    }
    platform_wake_all(&client->changed);
}

static void leave_ring(struct lanes_client *client)
{
    struct lanes *lanes = client->lanes;
    struct lanes_client *before = client;

    while (before->next != client)
        before = before->next;
    before->next = client->next;
    if (lanes->turn == client)
        lanes->turn = client->next == client ? NULL : client->next;
}

void lanes_client_free(struct lanes_client *client)
{
    struct lanes *lanes;

    if (!client)
        return;
    lanes = client->lanes;
    platform_lock(&lanes->mutex);
    stop(client);
    while (client->running > 0)
        (void)platform_wait(&client->changed, &lanes->mutex, PLATFORM_NEVER);
    leave_ring(client);
    dispatch(lanes);
    platform_unlock(&lanes->mutex);
    platform_cond_done(&client->changed);
    mem_free(client);
}

/* With the lock held. */
static void submit(struct lanes_client *client, struct lanes_task *task,
    int64_t not_before_ms, bool by_caller)
{
    struct lanes *lanes = client->lanes;

    task->by_caller = by_caller;
    task->given = false;
    task->last = (struct exchange){.retry_after_ms = -1};
    task->retry = (struct retry){0};
    task->done = task->cancelled = false;
    task->client = client;
    task->key = (struct rate_key){.partition = task->partition};
    /* An embedded store refuses nothing for being too much. */
    if (task->store && task->store->traits.late_writes)
        task->key.account = rate_limiter_account(lanes->limiter, task->store);
    task->watched = client->watches && task->store &&
                    task->store->traits.late_writes &&
                    !store_same(task->store, client->ledger);
    task->not_before_ms =
        not_before_ms < client->hurry_ms ? not_before_ms : client->hurry_ms;
    task->retry_ms = INT64_MIN;
    if (client->stopped) {
        finish_stopped(task, "stopped before it was sent");
    } else {
        append(client, task);
        dispatch(lanes);
    }
}

void lanes_submit_at(
    struct lanes_client *client, struct lanes_task *task, int64_t not_before_ms)
{
    platform_lock(&client->lanes->mutex);
    submit(client, task, not_before_ms, false);
    platform_unlock(&client->lanes->mutex);
}

void lanes_submit(struct lanes_client *client, struct lanes_task *task)
{
    lanes_submit_at(client, task, INT64_MIN);
}

/* Lock held. */
static void give_up(struct lanes_client *client, struct lanes_task *task)
{
    if (unlink_task(client, task))
        finish_stopped(task, "given up before it was sent");
    task->cancelled = true;
}

void lanes_give_up(struct lanes_client *client, struct lanes_task *task)
{
    struct lanes *lanes = client->lanes;

    platform_lock(&lanes->mutex);
    give_up(client, task);
    dispatch(lanes);
    platform_unlock(&lanes->mutex);
}

void lanes_cancel(struct lanes_client *client, struct lanes_task *task)
{
    struct lanes *lanes = client->lanes;

    platform_lock(&lanes->mutex);
    give_up(client, task);
    while (!task->done)
        (void)platform_wait(&client->changed, &lanes->mutex, PLATFORM_NEVER);
    dispatch(lanes);
    platform_unlock(&lanes->mutex);
}

bool lanes_done(struct lanes_client *client, const struct lanes_task *task)
{
    bool done;

    platform_lock(&client->lanes->mutex);
    done = task->done;
    platform_unlock(&client->lanes->mutex);
    return done;
}

void lanes_wait(struct lanes_client *client, struct lanes_task *task)
{
    struct lanes *lanes = client->lanes;

    platform_lock(&lanes->mutex);
    while (!task->done)
        (void)platform_wait(&client->changed, &lanes->mutex, PLATFORM_NEVER);
    platform_unlock(&lanes->mutex);
}

uint64_t lanes_wait_any(struct lanes_client *client, uint64_t seen)
{
    struct lanes *lanes = client->lanes;
    uint64_t ended;

    platform_lock(&lanes->mutex);
    while (client->ended <= seen && (client->running > 0 || client->first))
        (void)platform_wait(&client->changed, &lanes->mutex, PLATFORM_NEVER);
    ended = client->ended;
    platform_unlock(&lanes->mutex);
    return ended;
}

static void work_as_caller(struct lanes *lanes, struct lanes_task *task)
{
    task->given = false;
    try_task(lanes, task);
    dispatch(lanes);
}

enum tw_err lanes_call(struct lanes_client *client, struct lanes_task *task)
{
    return lanes_call_at(client, task, INT64_MIN);
}

enum tw_err lanes_call_at(
    struct lanes_client *client, struct lanes_task *task, int64_t not_before_ms)
{
    struct lanes *lanes = client->lanes;

    platform_lock(&lanes->mutex);
    submit(client, task, not_before_ms, true);
    while (!task->done) {
        if (task->given)
            work_as_caller(lanes, task);
        else
            (void)platform_wait(
                &client->changed, &lanes->mutex, PLATFORM_NEVER);
    }
    platform_unlock(&lanes->mutex);
    return task->outcome;
}

void lanes_stop(struct lanes_client *client)
{
    struct lanes *lanes = client->lanes;

    platform_lock(&lanes->mutex);
    stop(client);
    dispatch(lanes);
    platform_unlock(&lanes->mutex);
}

void lanes_hurry(struct lanes_client *client, int64_t wait_ms)
{
    struct lanes *lanes = client->lanes;

    platform_lock(&lanes->mutex);
    client->hurry_ms = wait_ms == PLATFORM_NEVER ? PLATFORM_NEVER
                                                 : platform_boot_ms() + wait_ms;
    for (struct lanes_task *task = client->first; task; task = task->next)
        if (task->not_before_ms > client->hurry_ms)
            task->not_before_ms = task->retry_ms = client->hurry_ms;
    dispatch(lanes);
    platform_unlock(&lanes->mutex);
}

int64_t lanes_throttled(const struct lanes_client *client)
{
    int64_t throttled;

    platform_lock(&client->lanes->mutex);
    throttled = client->throttled;
    platform_unlock(&client->lanes->mutex);
    return throttled;
}

bool lanes_unsure(const struct lanes_client *client)
{
    bool unsure;

    platform_lock(&client->lanes->mutex);
    unsure = client->unsure;
    platform_unlock(&client->lanes->mutex);
    return unsure;
}

int64_t lanes_requests(const struct lanes_client *client)
{
    int64_t requests;

    platform_lock(&client->lanes->mutex);
    requests = client->requests;
    platform_unlock(&client->lanes->mutex);
    return requests;
}

/* ---- ceilings ---- */

/* Of that job, known from the first time on; that high then. Lock held. */
static struct ceiling *ceiling_of(
    struct lanes *lanes, const char *job, int64_t max_entities_per_second)
{
    struct ceiling *ceiling = lanes->ceilings;

    while (ceiling && strcmp(ceiling->job, job) != 0)
        ceiling = ceiling->next;
    if (!ceiling) {
        ceiling = mem_alloc(sizeof *ceiling);
        ceiling->job = mem_text(job, strlen(job));
        ceiling->per_s = max_entities_per_second;
        ceiling->next = lanes->ceilings;
        lanes->ceilings = ceiling;
    }
    return ceiling;
}

void lanes_set_ceiling(
    struct lanes *lanes, const char *job, int64_t max_entities_per_second)
{
    struct ceiling *ceiling;

    platform_lock(&lanes->mutex);
    ceiling = job ? ceiling_of(lanes, job, 0) : &lanes->ceiling;
    ceiling->per_s = max_entities_per_second;
    ceiling->free_us = 0; /* what was sent before counts no more */
    platform_unlock(&lanes->mutex);
}

void lanes_client_of(struct lanes_client *client, const char *job,
    int64_t max_entities_per_second)
{
    struct lanes *lanes = client->lanes;

    platform_lock(&lanes->mutex);
    client->ceiling = ceiling_of(lanes, job, max_entities_per_second);
    platform_unlock(&lanes->mutex);
}

/* When it allows the next entities, rounded up to ms. */
static int64_t ceiling_ms(const struct ceiling *ceiling)
{
    if (!ceiling || ceiling->per_s == 0)
        return INT64_MIN;
    return (ceiling->free_us + US_PER_MS - 1) / US_PER_MS;
}

static void take_from(struct ceiling *ceiling, unsigned count, int64_t now_ms)
{
    if (!ceiling || ceiling->per_s == 0)
        return;
    if (ceiling->free_us < now_ms * US_PER_MS)
        ceiling->free_us = now_ms * US_PER_MS;
    ceiling->free_us += (int64_t)count * US_PER_S / ceiling->per_s;
}

bool lanes_spend(struct lanes_client *client, unsigned count)
{
    struct lanes *lanes = client->lanes;
    int64_t until_ms, job_ms, now_ms;
    bool free;

    platform_lock(&lanes->mutex);
    now_ms = platform_boot_ms();
    until_ms = ceiling_ms(&lanes->ceiling);
    job_ms = ceiling_ms(client->ceiling);
    if (job_ms > until_ms)
        until_ms = job_ms;
    free = client->stopped || !deadline_is_open(client->deadline, now_ms) ||
           now_ms >= until_ms;
    if (!free) {
        if (until_ms > now_ms + SPEND_LOOK_MS)
            until_ms = now_ms + SPEND_LOOK_MS;
        (void)platform_wait(&client->changed, &lanes->mutex, until_ms);
    } else {
        take_from(&lanes->ceiling, count, now_ms);
        take_from(client->ceiling, count, now_ms);
    }
    platform_unlock(&lanes->mutex);
    return free;
}
