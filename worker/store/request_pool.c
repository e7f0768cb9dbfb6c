/* SPDX-License-Identifier: MIT */
/*
 * Request pool: a pool of threads, each of which makes one exchange at a time.
 *
 * How work moves between threads: a task waits in its client's list. Every
 * event that may let a task start (a submit, the end of an exchange, a due
 * time) calls dispatch(), which takes startable tasks, client by client, and
 * gives each to an idle request thread or, while there are fewer threads than
 * configured, to a new one. The most recently idle thread is used first,
 * because its connection is open, and no more threads exist than were ever
 * needed at once. A task whose caller waits for it (request_pool_call()) is
 * given back to the caller, who makes the exchange. This saves two thread
 * switches. If tasks wait for a time, one idle request thread, the timer,
 * sleeps until the first of them is due.
 *
 * One lock, request_pool->mutex, guards every field below and the private
 * fields of each task; it is never held during an exchange.
 */
#include "worker/store/request_pool.h"

#include <assert.h>
#include <string.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/base/stop.h"
#include "worker/store/rate_limiter.h"

/* Maximum time that request_pool_spend() waits before it returns. */
#define SPEND_WAIT_MS 250

/* A task whose deadline leaves too little time checks the deadline again after
 * this time. */
#define DEADLINE_WAIT_MS 10

#define US_PER_MS 1000
#define US_PER_S 1000000

struct pool_thread {
    struct request_pool *request_pool;
    struct platform_thread thread;
    struct platform_cond wake; /* signalled when the thread is given a task, or
                                  the pool closes */
    struct pool_request *task;
    struct pool_thread *next_idle;
};

/* A limit of entities sent a second. */
struct ceiling {
    char *job;     /* the job whose runs share the ceiling; NULL: all jobs share
                      it */
    int64_t per_s; /* 0: no limit */
    int64_t free_us; /* when the ceiling allows the next entities, boot clock */
    struct ceiling *next;
};

struct pool_client {
    struct request_pool *request_pool;
    const struct deadline *deadline;
    const char *traceparent; /* the run's traceparent; NULL: none */
    bool watches; /* the stores of the client's tasks are watched for silence */
    const struct store *ledger; /* the store whose tables are not watched for
                                   silence */
    struct ceiling *ceiling;    /* ceiling of the client's job; NULL: none */
    struct pool_client *next;   /* next client of the pool; all clients form a
                                   ring */
    struct pool_request *first; /* waiting tasks, in order of submission */
    struct pool_request *last;
    size_t running;
    uint64_t ended;
    int64_t requests, throttled;
    bool indeterminate; /* a write may still be applied later */
    int64_t hurry_ms;   /* see request_pool_hurry(); PLATFORM_NEVER: no hurry */
    _Atomic bool hung;  /* during that hurry a request was given up, so later
                           tasks of the client end unsent */
    int64_t reach_until_ms; /* see request_pool_reach_until(); PLATFORM_NEVER:
                               no limit */
    bool stopped;
    struct platform_cond changed; /* signalled when a task ended or was given to
                                     its caller, or the client is stopped */
};

struct request_pool {
    struct stop_hook stop;
    struct platform_mutex mutex;
    struct pool_thread *request_pool;
    unsigned count; /* how many tasks may be in flight */
    unsigned started;
    unsigned busy;              /* number of tasks in flight, including those on
                                   callers' threads */
    struct pool_request *calls; /* tasks in flight on their callers' threads */
    struct pool_thread *idle;   /* most recently idle first */
    struct pool_thread
        *timer; /* the idle request thread that sleeps until due_ms, or NULL */
    int64_t timer_ms; /* when the timer wakes up */
    int64_t due_ms;   /* when the next waiting task may start */
    bool closing;

    struct pool_client *turn; /* next client to serve; NULL: no clients */
    size_t bytes;             /* the part of the budget that tasks in flight
                                 use */
    struct rate_limiter *limiter;
    struct ceiling ceiling;   /* ceiling of all jobs together */
    struct ceiling *ceilings; /* a ceiling for each job that ran */
};

/* Does the budget allow the task? A task that is larger than the whole budget
 * runs alone. */
static bool fits_budget(
    const struct request_pool *request_pool, const struct pool_request *task)
{
    return request_pool->bytes == 0 ||
           (task->bytes <= REQUEST_POOL_BUDGET_BYTES &&
               request_pool->bytes <= REQUEST_POOL_BUDGET_BYTES - task->bytes);
}

static void append(struct pool_client *client, struct pool_request *task)
{
    task->next = NULL;
    if (client->last)
        client->last->next = task;
    else
        client->first = task;
    client->last = task;
}

/* Removes task from the client's list; false: it is not there. */
static bool unlink_task(struct pool_client *client, struct pool_request *task)
{
    struct pool_request **at = &client->first, *before = NULL;

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

static void finish(struct pool_request *task, enum tw_err outcome)
{
    struct pool_client *client = task->client;

    task->outcome = outcome;
    task->done = true;
    client->ended++;
    platform_wake_all(&client->changed);
}

/* Ends the task with TW_STOPPED and the text `why`, followed by the error text
 * of the last try, if there was one. */
static void finish_stopped(struct pool_request *task, const char *why)
{
    if (task->retry.tries == 0)
        (void)err_fail(&task->last.err, TW_STOPPED, "%s", why);
    else
        err_prefix(&task->last.err, "%s", why);
    finish(task, TW_STOPPED);
}

static int64_t deadline_of(const struct pool_request *task)
{
    const struct deadline *deadline = task->client->deadline;

    return deadline ? atomic_load(&deadline->at_ms) : PLATFORM_NEVER;
}

/* Makes the task wait until retry_ms, or the deadline if that is earlier.
 * Unless the deadline is moved meanwhile, the task ends at the deadline. */
static void wait_until(struct pool_request *task, int64_t retry_ms)
{
    int64_t deadline_ms = deadline_of(task);

    if (retry_ms > task->client->hurry_ms)
        retry_ms = task->client->hurry_ms;
    task->retry_ms = retry_ms;
    task->not_before_ms = retry_ms < deadline_ms ? retry_ms : deadline_ms;
}

/* Did the task wait only for its deadline, which was moved? Then the task waits
 * again. */
static bool waits_longer(struct pool_request *task, int64_t now_ms)
{
    if (task->not_before_ms > now_ms || task->retry_ms <= now_ms ||
        deadline_of(task) <= now_ms)
        return false;
    wait_until(task, task->retry_ms);
    return true;
}

/* Returns when the task may be sent: after the waits of the rate limit and of
 * its store's silence (silence.h). Returns now_ms for a task that is
 * refused. */
static int64_t free_ms(struct request_pool *request_pool,
    const struct pool_request *task, int64_t now_ms)
{
    int64_t rate_ms =
        rate_limiter_free_ms(request_pool->limiter, task->key, now_ms);
    int64_t wait_ms =
        task->watched ? silence_wait_ms(&task->store->silence, now_ms) : 0;
    int64_t quiet_ms;

    /* A refused task need not wait, because it is not sent. */
    if (task->watched &&
        silence_refuses(&task->store->silence, now_ms, &quiet_ms))
        return now_ms;
    if (rate_ms > task->client->hurry_ms)
        rate_ms = task->client->hurry_ms;
    return rate_ms > now_ms + wait_ms ? rate_ms : now_ms + wait_ms;
}

/*
 * Returns the first task of client that may start now. *blocked: the memory
 * budget does not allow this task. In that case no other task may start,
 * because large tasks would starve otherwise.
 */
static struct pool_request *startable(
    struct pool_client *client, int64_t now_ms, bool *blocked)
{
    struct request_pool *request_pool = client->request_pool;
    struct pool_request *task;
    int64_t from_ms;

    for (task = client->first; task; task = task->next) {
        if (waits_longer(task, now_ms) || task->not_before_ms > now_ms) {
            if (task->not_before_ms < request_pool->due_ms)
                request_pool->due_ms = task->not_before_ms;
            continue;
        }
        from_ms = free_ms(request_pool, task, now_ms);
        if (from_ms > now_ms) {
            if (from_ms < request_pool->due_ms)
                request_pool->due_ms = from_ms;
            continue;
        }
        *blocked = !fits_budget(request_pool, task);
        return *blocked ? NULL : task;
    }
    return NULL;
}

/* Takes the next task out of its list, round robin over the clients. */
static struct pool_request *take(
    struct request_pool *request_pool, int64_t now_ms)
{
    struct pool_client *client = request_pool->turn;
    struct pool_request *task = NULL;
    bool blocked = false;

    request_pool->due_ms = PLATFORM_NEVER;
    if (!client)
        return NULL;
    do {
        task = startable(client, now_ms, &blocked);
        if (task || blocked)
            break;
        client = client->next;
    } while (client != request_pool->turn);
    if (task) {
        (void)unlink_task(client, task);
        request_pool->turn = client->next;
    }
    return task;
}

static void occupy(struct request_pool *request_pool, struct pool_request *task,
    int64_t now_ms)
{
    task->most = rate_limiter_page(request_pool->limiter, task->key);
    task->expected = task->entities > 0 ? task->entities : 1;
    if (task->scans && task->most != 0 && task->most < task->expected)
        task->expected = task->most;
    task->came = task->expected;
    task->left_ms = now_ms;
    rate_limiter_send(request_pool->limiter, task->key, now_ms, task->expected);
    task->refused = task->watched && silence_refuses(&task->store->silence,
                                         now_ms, &task->quiet_ms);
    task->useless =
        task->refused && silence_is_useless(&task->store->silence, now_ms);
    if (task->watched && !task->refused)
        silence_begin(&task->store->silence, now_ms);
    request_pool->bytes += task->bytes;
    request_pool->busy++;
    task->client->running++;
}

/* Did the service refuse the request because it is busy? An overloaded Azure
 * service also responds 500 OperationTimedOut. */
static bool is_refused(const struct exchange *last)
{
    return retry_is_throttled(last) || last->http_status == 500;
}

/* Was the request served? Does not use the status, because an embedded store
 * has none. */
static bool is_served(const struct exchange *last, enum tw_err outcome)
{
    return last->sent_ms != 0 && !is_refused(last) && outcome != TW_BUSY &&
           outcome != TW_UNKNOWN && outcome != TW_STOPPED;
}

static bool is_unanswered(const struct exchange *last, enum tw_err outcome)
{
    return last->http_status == 0 && !last->breaker_open && !last->hurried &&
           (outcome == TW_BUSY || outcome == TW_UNKNOWN);
}

/* Returns what the end of the request shows about the store. A head without its
 * complete body counts as no response. */
static enum silence_end silence_end_of(
    const struct exchange *last, enum tw_err outcome)
{
    if (last->hurried || (last->breaker_open && last->sent_ms == 0))
        return SILENCE_UNTOLD;
    if ((outcome == TW_BUSY || outcome == TW_UNKNOWN) &&
        last->http_status < 400)
        return SILENCE_NO_RESPONSE;
    return last->sent_ms != 0 && outcome != TW_STOPPED ? SILENCE_RESPONSE
                                                       : SILENCE_UNTOLD;
}

/* Does the response serve nothing (busy, a service error, a proxy's page)? The
 * 409 of a table that is being deleted does not count. */
static bool is_useless(const struct exchange *last, enum tw_err outcome)
{
    return last->http_status != 0 && !retry_is_locked(last) &&
           (outcome == TW_BUSY || outcome == TW_UNKNOWN);
}

/* Records the outcome for the silence of the task's store. If the task had no
 * response, or was not served, it is not tried again while requests to the
 * store are refused. */
static void note_silence(
    struct pool_request *task, enum tw_err outcome, int64_t now_ms)
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

static void leave_calls(
    struct request_pool *request_pool, struct pool_request *task)
{
    struct pool_request **at = &request_pool->calls;

    while (*at && *at != task)
        at = &(*at)->next;
    if (*at)
        *at = task->next;
}

static void vacate(struct request_pool *request_pool, struct pool_request *task,
    enum tw_err outcome, int64_t now_ms)
{
    bool refused = is_refused(&task->last);

    rate_limiter_answered(request_pool->limiter, task->key,
        &(struct rate_answer){.sent_ms = task->left_ms,
            .now_ms = now_ms,
            .expected = task->expected,
            .entities = task->last.sent_ms == 0 ? 0 : task->came,
            .refused = refused,
            .served = is_served(&task->last, outcome),
            .silent = is_unanswered(&task->last, outcome)});
    if (task->watched && !task->refused)
        note_silence(task, outcome, now_ms);
    leave_calls(request_pool, task);
    request_pool->bytes -= task->bytes;
    request_pool->busy--;
    task->client->running--;
}

/* Returns task if its store is silent and task was sent before `first` (or
 * `first` is NULL); otherwise `first`. */
static const struct pool_request *earlier_in_silence(
    const struct pool_request *first, const struct pool_request *task,
    int64_t now_ms)
{
    if (!task || !task->watched || task->refused ||
        !silence_is_silent(&task->store->silence, now_ms))
        return first;
    return !first || task->left_ms < first->left_ms ? task : first;
}

/* Returns the oldest of the requests in flight to silent stores. */
static const struct pool_request *first_in_silence(
    const struct request_pool *request_pool, int64_t now_ms)
{
    const struct pool_request *first = NULL;

    for (unsigned i = 0; i < request_pool->started; i++)
        first = earlier_in_silence(
            first, request_pool->request_pool[i].task, now_ms);
    for (const struct pool_request *call = request_pool->calls; call;
         call = call->next)
        first = earlier_in_silence(first, call, now_ms);
    return first;
}

/* Is task to be given up, because its store is silent? comes: a part of the
 * response has arrived. Call with the lock held. */
static bool gives_up_in_silence(
    struct pool_request *task, bool comes, int64_t now_ms)
{
    struct silence *silence;

    if (!task->watched)
        return false;
    silence = &task->store->silence;
    if (comes)
        silence_move(silence, now_ms);
    return silence_is_silent(silence, now_ms) &&
           first_in_silence(task->client->request_pool, now_ms) != task;
}

static bool gives_up(void *context, bool comes)
{
    struct pool_request *task = context;
    struct pool_client *client = task->client;
    int64_t now_ms = platform_boot_ms();
    bool give_up;

    platform_lock(&client->request_pool->mutex);
    give_up = gives_up_in_silence(task, comes, now_ms);
    if (!give_up && now_ms >= client->hurry_ms) {
        client->hung = true;
        task->last.hurried = true;
        give_up = true;
    }
    platform_unlock(&client->request_pool->mutex);
    return give_up;
}

static enum tw_err make_exchange(struct pool_request *task)
{
    const struct deadline *deadline = task->client->deadline;

    task->last = (struct exchange){.deadline = deadline,
        .traceparent = task->client->traceparent,
        .retry_after_ms = -1,
        .gives_up = gives_up,
        .context = task};
    if (task->refused) {
        task->last.breaker_open = true;
        return err_fail(&task->last.err, TW_BUSY, "store '%s' %s for %lld s",
            task->store->name,
            task->useless ? "responds, but has served no request"
                          : "does not respond: a request had no response",
            (long long)(task->quiet_ms + 999) / 1000);
    }
    if (task->client->hung)
        return err_fail(&task->last.err, TW_STOPPED,
            "stopped; nothing was sent, because an earlier request had no "
            "response");
    if (!deadline_is_open(deadline, platform_boot_ms()))
        return err_fail(&task->last.err, TW_STOPPED,
            "the deadline has passed; nothing was sent");
    return task->send(task, &task->last);
}

static bool given_up(const struct pool_request *task)
{
    const struct deadline *deadline = task->client->deadline;

    return task->client->stopped || task->client->hung || task->cancelled ||
           stop_is_asked() || (deadline && atomic_load(&deadline->shut));
}

/* Was nothing sent, because too little time was left until the deadline? A
 * renewal of the lease may move the deadline soon, so this does not count as a
 * try. */
static bool waits_for_deadline(
    const struct pool_request *task, enum tw_err outcome, int64_t now_ms)
{
    return outcome == TW_STOPPED && task->last.sent_ms == 0 &&
           !given_up(task) &&
           deadline_may_reopen(task->client->deadline, now_ms);
}

/* Was the service never reached, and would the next try be later than an
 * operator waits (request_pool_reach_until())? */
static bool is_out_of_reach(const struct pool_request *task, int64_t next_ms)
{
    return !task->last.reached && task->client->reach_until_ms < next_ms;
}

/* May the task be tried again? While the store does not respond, no task waits
 * for another try. */
static bool may_retry(struct pool_request *task, enum tw_err outcome)
{
    if (!retry_may_follow(&task->retry, &task->last) || task->last.breaker_open)
        return false;
    return outcome == TW_BUSY || (outcome == TW_UNKNOWN && task->repeatable);
}

/* Call when the store of `ended` does not respond. Tasks of the same store that
 * wait for their next try become due, and end at once. If the store is silent,
 * only tasks that are watched for silence become due. */
static void hasten(
    struct request_pool *request_pool, const struct pool_request *ended)
{
    struct pool_client *client = request_pool->turn;

    do {
        for (struct pool_request *task = client->first; task; task = task->next)
            if (task->store == ended->store && task->retry.tries > 0 &&
                (task->watched || !ended->refused))
                task->not_before_ms = task->retry_ms = INT64_MIN;
        client = client->next;
    } while (client != request_pool->turn);
}

/*
 * Call when an exchange has ended. Ends the task, or returns it to its list
 * with the time of its next try.
 */
static void finish_or_retry(
    struct pool_request *task, enum tw_err outcome, int64_t now_ms)
{
    struct pool_client *client = task->client;

    if (waits_for_deadline(task, outcome, now_ms)) {
        task->retry.tries--;
        task->not_before_ms = now_ms + DEADLINE_WAIT_MS;
        append(client, task);
        return;
    }
    if (task->last.breaker_open)
        hasten(client->request_pool, task);
    if (!may_retry(task, outcome)) {
        finish(task, outcome);
        return;
    }
    if (given_up(task) || now_ms >= client->hurry_ms) {
        finish_stopped(task, "stopped before the request was retried");
        return;
    }
    wait_until(task, now_ms + retry_delay_ms(&task->retry, &task->last));
    if (is_out_of_reach(task, task->retry_ms))
        finish(task, outcome);
    else
        append(client, task);
}

static void dispatch(struct request_pool *request_pool);

/* Call with the lock held, which is released during the exchange. Makes one try
 * of the task. */
static void try_task(
    struct request_pool *request_pool, struct pool_request *task)
{
    int64_t ended_ms;
    enum tw_err outcome;

    retry_begin(&task->retry);
    platform_unlock(&request_pool->mutex);
    outcome = make_exchange(task);
    ended_ms = platform_boot_ms();
    platform_lock(&request_pool->mutex);
    if (task->last.sent_ms != 0)
        task->client->requests++;
    if (retry_is_throttled(&task->last))
        task->client->throttled++;
    if (outcome == TW_UNKNOWN && !task->repeatable && task->store &&
        task->store->capabilities.late_writes)
        task->client->indeterminate = true;
    vacate(request_pool, task, outcome, ended_ms);
    finish_or_retry(task, outcome, ended_ms);
}

static void work(struct pool_thread *pool_thread)
{
    struct request_pool *request_pool = pool_thread->request_pool;

    try_task(request_pool, pool_thread->task);
    pool_thread->task = NULL;
    pool_thread->next_idle = request_pool->idle;
    request_pool->idle = pool_thread;
    dispatch(request_pool);
}

/* Lets an idle thread sleep until it is woken or, if it is the timer, until the
 * next task is due. Lock held; released meanwhile. */
static void rest(struct pool_thread *pool_thread)
{
    struct request_pool *request_pool = pool_thread->request_pool;
    int64_t until_ms = PLATFORM_NEVER;

    if (request_pool->timer == pool_thread)
        until_ms = request_pool->timer_ms = request_pool->due_ms;
    (void)platform_wait(&pool_thread->wake, &request_pool->mutex, until_ms);
    if (request_pool->timer == pool_thread) {
        request_pool->timer = NULL;
        dispatch(request_pool);
    }
}

static void pool_thread_body(void *arg)
{
    struct pool_thread *pool_thread = arg;
    struct request_pool *request_pool = pool_thread->request_pool;

    platform_lock(&request_pool->mutex);
    while (pool_thread->task || !request_pool->closing) {
        if (pool_thread->task)
            work(pool_thread);
        else
            rest(pool_thread);
    }
    platform_unlock(&request_pool->mutex);
}

static struct pool_thread *start_pool_thread(struct request_pool *request_pool)
{
    struct pool_thread *pool_thread =
        &request_pool->request_pool[request_pool->started++];

    pool_thread->request_pool = request_pool;
    platform_cond_init(&pool_thread->wake);
    return pool_thread;
}

/* Hands task to its caller, to an idle request thread or to a new one. Call
 * only while fewer tasks are in flight than the pool allows. */
static void give(struct request_pool *request_pool, struct pool_request *task)
{
    struct pool_thread *pool_thread = request_pool->idle;

    if (task->by_caller) {
        task->given = true;
        task->next = request_pool->calls;
        request_pool->calls = task;
        platform_wake_all(&task->client->changed);
        return;
    }
    if (pool_thread) {
        request_pool->idle = pool_thread->next_idle;
        if (request_pool->timer == pool_thread)
            request_pool->timer = NULL;
        pool_thread->task = task;
        platform_wake_all(&pool_thread->wake);
        return;
    }
    pool_thread = start_pool_thread(request_pool);
    pool_thread->task = task;
    platform_start(
        &pool_thread->thread, "request", pool_thread_body, pool_thread);
}

/* Makes an idle request thread wake up when the next waiting task is due. */
static void set_timer(struct request_pool *request_pool)
{
    struct pool_thread *pool_thread;

    if (request_pool->due_ms == PLATFORM_NEVER)
        return;
    if (request_pool->timer) {
        if (request_pool->due_ms < request_pool->timer_ms)
            platform_wake_all(&request_pool->timer->wake);
        return;
    }
    pool_thread = request_pool->idle;
    if (pool_thread) {
        request_pool->timer = pool_thread;
        request_pool->timer_ms = request_pool->due_ms;
        platform_wake_all(&pool_thread->wake);
    } else if (request_pool->started < request_pool->count) {
        pool_thread = start_pool_thread(request_pool);
        pool_thread->next_idle = NULL;
        request_pool->idle = request_pool->timer = pool_thread;
        request_pool->timer_ms = request_pool->due_ms;
        platform_start(
            &pool_thread->thread, "request", pool_thread_body, pool_thread);
    }
}

/* Call with the lock held. Starts the tasks that may start. */
static void dispatch(struct request_pool *request_pool)
{
    while (request_pool->busy < request_pool->count) {
        int64_t now_ms = platform_boot_ms();
        struct pool_request *task = take(request_pool, now_ms);

        if (!task)
            break;
        occupy(request_pool, task, now_ms);
        give(request_pool, task);
    }
    /* The pool is full, so no timer is needed for the tasks that wait: the end
     * of a task in flight calls dispatch(). */
    if (request_pool->busy >= request_pool->count)
        request_pool->due_ms = PLATFORM_NEVER;
    set_timer(request_pool);
}

static void let_client_go(struct pool_client *client)
{
    struct pool_request *task = client->first, *next;

    for (; task; task = next) {
        next = task->next;
        if (task->retry.tries == 0)
            continue;
        (void)unlink_task(client, task);
        finish_stopped(task, "stopped before the request was retried");
    }
}

/* Called when the process ends: ends all tasks that wait for another try. */
static void let_go(void *context)
{
    struct request_pool *request_pool = context;
    struct pool_client *client;

    platform_lock(&request_pool->mutex);
    client = request_pool->turn;
    while (client) {
        let_client_go(client);
        client = client->next != request_pool->turn ? client->next : NULL;
    }
    platform_unlock(&request_pool->mutex);
}

struct request_pool *request_pool_new(
    unsigned count, int64_t max_entities_per_second)
{
    struct request_pool *request_pool = mem_alloc(sizeof *request_pool);

    assert(count >= 1 && count <= REQUEST_POOL_MAX);
    platform_mutex_init(&request_pool->mutex);
    request_pool->request_pool =
        mem_array(REQUEST_POOL_MAX, sizeof *request_pool->request_pool);
    request_pool->count = count;
    request_pool->due_ms = PLATFORM_NEVER;
    request_pool->ceiling.per_s = max_entities_per_second;
    request_pool->limiter = rate_limiter_new();
    request_pool->stop =
        (struct stop_hook){.told = let_go, .context = request_pool};
    stop_hook_add(&request_pool->stop);
    return request_pool;
}

void request_pool_set_count(struct request_pool *request_pool, unsigned count)
{
    assert(count >= 1 && count <= REQUEST_POOL_MAX);
    platform_lock(&request_pool->mutex);
    request_pool->count = count;
    dispatch(request_pool);
    platform_unlock(&request_pool->mutex);
}

void request_pool_free(struct request_pool *request_pool)
{
    if (!request_pool)
        return;
    stop_hook_remove(&request_pool->stop);
    platform_lock(&request_pool->mutex);
    assert(!request_pool->turn);
    request_pool->closing = true;
    for (unsigned i = 0; i < request_pool->started; i++)
        platform_wake_all(&request_pool->request_pool[i].wake);
    platform_unlock(&request_pool->mutex);
    for (unsigned i = 0; i < request_pool->started; i++) {
        platform_join(&request_pool->request_pool[i].thread);
        platform_cond_done(&request_pool->request_pool[i].wake);
    }
    while (request_pool->ceilings) {
        struct ceiling *ceiling = request_pool->ceilings;

        request_pool->ceilings = ceiling->next;
        mem_free(ceiling->job);
        mem_free(ceiling);
    }
    rate_limiter_free(request_pool->limiter);
    platform_mutex_done(&request_pool->mutex);
    mem_free(request_pool->request_pool);
    mem_free(request_pool);
}

struct pool_client *pool_client_new(
    struct request_pool *request_pool, const struct deadline *deadline)
{
    struct pool_client *client = mem_alloc(sizeof *client);

    client->request_pool = request_pool;
    client->deadline = deadline;
    client->reach_until_ms = client->hurry_ms = PLATFORM_NEVER;
    platform_cond_init(&client->changed);
    platform_lock(&request_pool->mutex);
    if (request_pool->turn) {
        client->next = request_pool->turn->next;
        request_pool->turn->next = client;
    } else {
        client->next = client;
        request_pool->turn = client;
    }
    platform_unlock(&request_pool->mutex);
    return client;
}

void request_pool_reach_until(struct pool_client *client, int64_t until_ms)
{
    platform_lock(&client->request_pool->mutex);
    client->reach_until_ms = until_ms;
    platform_unlock(&client->request_pool->mutex);
}

void request_pool_watch_silence(
    struct pool_client *client, const struct store *ledger)
{
    platform_lock(&client->request_pool->mutex);
    client->watches = true;
    client->ledger = ledger;
    platform_unlock(&client->request_pool->mutex);
}

bool request_pool_is_silent(
    struct request_pool *request_pool, const struct store *store)
{
    int64_t quiet_ms;
    bool silent;

    platform_lock(&request_pool->mutex);
    silent = silence_refuses(&store->silence, platform_boot_ms(), &quiet_ms);
    platform_unlock(&request_pool->mutex);
    return silent;
}

double request_pool_rate(struct request_pool *request_pool,
    const struct store *store, bool of_partition)
{
    double per_s;

    platform_lock(&request_pool->mutex);
    per_s = rate_limiter_rate(request_pool->limiter, store, of_partition);
    platform_unlock(&request_pool->mutex);
    return per_s;
}

static void stop(struct pool_client *client)
{
    client->stopped = true;
    while (client->first) {
        struct pool_request *task = client->first;

        (void)unlink_task(client, task);
        finish_stopped(task, "stopped before the request was sent");
    }
    platform_wake_all(&client->changed);
}

static void leave_ring(struct pool_client *client)
{
    struct request_pool *request_pool = client->request_pool;
    struct pool_client *before = client;

    while (before->next != client)
        before = before->next;
    before->next = client->next;
    if (request_pool->turn == client)
        request_pool->turn = client->next == client ? NULL : client->next;
}

void pool_client_free(struct pool_client *client)
{
    struct request_pool *request_pool;

    if (!client)
        return;
    request_pool = client->request_pool;
    platform_lock(&request_pool->mutex);
    stop(client);
    while (client->running > 0)
        (void)platform_wait(
            &client->changed, &request_pool->mutex, PLATFORM_NEVER);
    leave_ring(client);
    dispatch(request_pool);
    platform_unlock(&request_pool->mutex);
    platform_cond_done(&client->changed);
    mem_free(client);
}

/* Call with the lock held. Puts the task into the client's list, and starts it
 * if it may start. */
static void submit(
    struct pool_client *client, struct pool_request *task, bool by_caller)
{
    struct request_pool *request_pool = client->request_pool;

    task->by_caller = by_caller;
    task->given = false;
    task->last = (struct exchange){.retry_after_ms = -1};
    task->retry = (struct retry){0};
    task->done = task->cancelled = false;
    task->client = client;
    task->key = (struct rate_key){.partition = task->partition};
    /* An embedded store is not rate limited. */
    if (task->store && task->store->capabilities.late_writes)
        task->key.account =
            rate_limiter_account(request_pool->limiter, task->store);
    task->watched = client->watches && task->store &&
                    task->store->capabilities.late_writes &&
                    !store_same(task->store, client->ledger);
    task->not_before_ms =
        task->from_ms < client->hurry_ms ? task->from_ms : client->hurry_ms;
    task->retry_ms = INT64_MIN;
    if (client->stopped) {
        finish_stopped(task, "stopped before the request was sent");
    } else {
        append(client, task);
        dispatch(request_pool);
    }
}

void request_pool_submit(struct pool_client *client, struct pool_request *task)
{
    platform_lock(&client->request_pool->mutex);
    submit(client, task, false);
    platform_unlock(&client->request_pool->mutex);
}

/* Call with the lock held. Ends the task if it is not in flight. A task in
 * flight is not tried again. */
static void give_up(struct pool_client *client, struct pool_request *task)
{
    if (unlink_task(client, task))
        finish_stopped(task, "cancelled before the request was sent");
    task->cancelled = true;
}

void request_pool_give_up(struct pool_client *client, struct pool_request *task)
{
    struct request_pool *request_pool = client->request_pool;

    platform_lock(&request_pool->mutex);
    give_up(client, task);
    dispatch(request_pool);
    platform_unlock(&request_pool->mutex);
}

void request_pool_cancel(struct pool_client *client, struct pool_request *task)
{
    struct request_pool *request_pool = client->request_pool;

    platform_lock(&request_pool->mutex);
    give_up(client, task);
    while (!task->done)
        (void)platform_wait(
            &client->changed, &request_pool->mutex, PLATFORM_NEVER);
    dispatch(request_pool);
    platform_unlock(&request_pool->mutex);
}

bool request_pool_done(
    struct pool_client *client, const struct pool_request *task)
{
    bool done;

    platform_lock(&client->request_pool->mutex);
    done = task->done;
    platform_unlock(&client->request_pool->mutex);
    return done;
}

void request_pool_wait(struct pool_client *client, struct pool_request *task)
{
    struct request_pool *request_pool = client->request_pool;

    platform_lock(&request_pool->mutex);
    while (!task->done)
        (void)platform_wait(
            &client->changed, &request_pool->mutex, PLATFORM_NEVER);
    platform_unlock(&request_pool->mutex);
}

uint64_t request_pool_wait_any(struct pool_client *client, uint64_t seen)
{
    struct request_pool *request_pool = client->request_pool;
    uint64_t ended;

    platform_lock(&request_pool->mutex);
    while (client->ended <= seen && (client->running > 0 || client->first))
        (void)platform_wait(
            &client->changed, &request_pool->mutex, PLATFORM_NEVER);
    ended = client->ended;
    platform_unlock(&request_pool->mutex);
    return ended;
}

enum tw_err request_pool_call(
    struct pool_client *client, struct pool_request *task)
{
    struct request_pool *request_pool = client->request_pool;

    platform_lock(&request_pool->mutex);
    submit(client, task, true);
    while (!task->done) {
        if (task->given) {
            task->given = false;
            try_task(request_pool, task);
            dispatch(request_pool);
        } else {
            (void)platform_wait(
                &client->changed, &request_pool->mutex, PLATFORM_NEVER);
        }
    }
    platform_unlock(&request_pool->mutex);
    return task->outcome;
}

void request_pool_stop(struct pool_client *client)
{
    struct request_pool *request_pool = client->request_pool;

    platform_lock(&request_pool->mutex);
    stop(client);
    dispatch(request_pool);
    platform_unlock(&request_pool->mutex);
}

void request_pool_hurry(struct pool_client *client, int64_t wait_ms)
{
    struct request_pool *request_pool = client->request_pool;

    platform_lock(&request_pool->mutex);
    client->hurry_ms = wait_ms == PLATFORM_NEVER ? PLATFORM_NEVER
                                                 : platform_boot_ms() + wait_ms;
    client->hung = false;
    for (struct pool_request *task = client->first; task; task = task->next)
        if (task->not_before_ms > client->hurry_ms)
            task->not_before_ms = task->retry_ms = client->hurry_ms;
    dispatch(request_pool);
    platform_unlock(&request_pool->mutex);
}

int64_t request_pool_throttled(const struct pool_client *client)
{
    int64_t throttled;

    platform_lock(&client->request_pool->mutex);
    throttled = client->throttled;
    platform_unlock(&client->request_pool->mutex);
    return throttled;
}

bool request_pool_is_indeterminate(const struct pool_client *client)
{
    bool indeterminate;

    platform_lock(&client->request_pool->mutex);
    indeterminate = client->indeterminate;
    platform_unlock(&client->request_pool->mutex);
    return indeterminate;
}

int64_t request_pool_requests(const struct pool_client *client)
{
    int64_t requests;

    platform_lock(&client->request_pool->mutex);
    requests = client->requests;
    platform_unlock(&client->request_pool->mutex);
    return requests;
}

/* ---- ceilings ---- */

/* Returns the ceiling of job, created with max_entities_per_second at the first
 * call. Call with the lock held. */
static struct ceiling *ceiling_of(struct request_pool *request_pool,
    const char *job, int64_t max_entities_per_second)
{
    struct ceiling *ceiling = request_pool->ceilings;

    while (ceiling && strcmp(ceiling->job, job) != 0)
        ceiling = ceiling->next;
    if (!ceiling) {
        ceiling = mem_alloc(sizeof *ceiling);
        ceiling->job = mem_text(job, strlen(job));
        ceiling->per_s = max_entities_per_second;
        ceiling->next = request_pool->ceilings;
        request_pool->ceilings = ceiling;
    }
    return ceiling;
}

void request_pool_set_ceiling(struct request_pool *request_pool,
    const char *job, int64_t max_entities_per_second)
{
    struct ceiling *ceiling;

    platform_lock(&request_pool->mutex);
    ceiling = job ? ceiling_of(request_pool, job, 0) : &request_pool->ceiling;
    ceiling->per_s = max_entities_per_second;
    ceiling->free_us = 0; /* earlier entities do not count */
    platform_unlock(&request_pool->mutex);
}

void pool_client_of(struct pool_client *client, const char *job,
    int64_t max_entities_per_second)
{
    struct request_pool *request_pool = client->request_pool;

    platform_lock(&request_pool->mutex);
    client->ceiling = ceiling_of(request_pool, job, max_entities_per_second);
    platform_unlock(&request_pool->mutex);
}

int64_t pool_client_ceiling(const struct pool_client *client)
{
    struct request_pool *request_pool = client->request_pool;
    int64_t of_job, of_all;

    platform_lock(&request_pool->mutex);
    of_job = client->ceiling ? client->ceiling->per_s : 0;
    of_all = request_pool->ceiling.per_s;
    platform_unlock(&request_pool->mutex);
    if (of_job == 0 || (of_all > 0 && of_all < of_job))
        return of_all;
    return of_job;
}

void pool_client_trace(struct pool_client *client, const char *traceparent)
{
    client->traceparent = traceparent;
}

/* Returns when the ceiling allows the next entities, rounded up to ms. */
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

bool request_pool_spend(struct pool_client *client, unsigned count)
{
    struct request_pool *request_pool = client->request_pool;
    int64_t until_ms, job_ms, now_ms;
    bool free;

    platform_lock(&request_pool->mutex);
    now_ms = platform_boot_ms();
    until_ms = ceiling_ms(&request_pool->ceiling);
    job_ms = ceiling_ms(client->ceiling);
    if (job_ms > until_ms)
        until_ms = job_ms;
    free = client->stopped || !deadline_is_open(client->deadline, now_ms) ||
           now_ms >= until_ms;
    if (!free) {
        if (until_ms > now_ms + SPEND_WAIT_MS)
            until_ms = now_ms + SPEND_WAIT_MS;
        (void)platform_wait(&client->changed, &request_pool->mutex, until_ms);
    } else {
        take_from(&request_pool->ceiling, count, now_ms);
        take_from(client->ceiling, count, now_ms);
    }
    platform_unlock(&request_pool->mutex);
    return free;
}
