/* SPDX-License-Identifier: MIT */
/*
 * Threads as coroutines, a clock that jumps, and a seed that decides.
 *
 * A lock has only a pointer to the thread that has it: the member `virtual` of
 * a mutex. The member `virtual` of a thread points to its coroutine. A
 * condition needs no data, because each waiting thread knows what it waits for.
 * So these objects need no allocation, and a crashed process leaves nothing
 * behind in them.
 */
#include "tests/support/virtual_platform.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "worker/base/hash.h"
#include "worker/base/platform.h"
#include "worker/base/stop.h"
#include "worker/base/text.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define WITH_ASAN 1
#endif
#ifdef __SANITIZE_THREAD__
#define WITH_TSAN 1
#endif

#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif
#ifndef __x86_64__
#include <ucontext.h>
#endif

#define STACK_BYTES ((size_t)512 * 1024)
#define GUARD_BYTES ((size_t)64 * 1024)
#define NAME_MAX_BYTES 15

#define US_PER_MS 1000
#define TICKS_PER_US 10
#define NEVER_US INT64_MAX

#define DEFAULT_LIMIT_MS ((int64_t)1000 * 3600 * 1000)
#define DEFAULT_LIMIT_STEPS 10000000

/* A hand-off takes at most STEP_US; one in LONG_STEP_ODDS takes up to
 * LONG_STEP_US more. */
#define STEP_US 60
#define LONG_STEP_US 4000
#define LONG_STEP_ODDS 64

/* One wait in SPURIOUS_ODDS ends without a cause. */
#define SPURIOUS_ODDS 64

struct process {
    char name[NAME_MAX_BYTES + 1];
    int id;
    char boot_id[40];
    uint64_t random;
    int64_t boot_shift_us, wall_shift_us;
    int64_t stalled_until_us;
    bool crashed;
};

struct thread {
    struct thread *next; /* in the list of all threads */
    struct process *process;
    char name[NAME_MAX_BYTES + 1];
    uint64_t number;
    void (*body)(void *arg);
    void *arg;

    bool listed; /* is in world.live */
    bool waits;  /* for one of the next two members, not just for its turn */
    const void *waits_for; /* a mutex, condition or thread; NULL: only a time */
    int64_t until_ms;      /* on the clock of its process */
    int64_t stalled_until_us;
    unsigned masked;
    bool away;       /* has left its process: see virtual_leave() */
    bool wants_lock; /* counted in world.lock_waiters */
    bool over;

    void *stack;
    int error; /* errno while the thread does not run */
#ifdef __x86_64__
    void *at; /* its stack pointer while the thread does not run */
#else
    ucontext_t context;
#endif
#ifdef WITH_ASAN
    void *fake_stack;
    const void *bottom;
    size_t size;
#endif
#ifdef WITH_TSAN
    void *fiber;
#endif
};

static struct {
    bool used;
    int64_t now_us, limit_us, wall_shift_ticks;
    uint64_t steps, limit_steps, hash, number;
    uint64_t chooser, decider; /* random number generators */
    uint64_t lock_odds;        /* one lock in lock_odds hands over */
    bool tracing;

    struct process **processes; /* index: the id */
    int process_count;
    struct thread *all;
    struct thread **live, **able; /* not yet ended; may run now */
    size_t live_count, live_max;
    size_t lock_waiters;

    struct thread outside, *current;
    enum virtual_end end;
} world;

/* Unused stacks, linked by their first word. They are kept for the next virtual
 * platform. */
static void *free_stacks;

static void __attribute__((noreturn, format(printf, 1, 2)))
wrong(const char *format, ...)
{
    va_list args;

    (void)fprintf(stderr, "virtual world: ");
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fprintf(stderr, " (%s of process %d, step %llu)\n",
        world.current->name, world.current->process->id,
        (unsigned long long)world.steps);
    abort();
}

static void *must_have(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* ---- randomness: splitmix64 ---- */

static uint64_t draw(uint64_t *generator)
{
    *generator += 0x9e3779b97f4a7c15U;
    return hash_mix(*generator);
}

/* Returns a number below limit. The distribution is not uniform if limit is
 * near 2^64, but no caller uses such a limit. */
static uint64_t draw_below(uint64_t *generator, uint64_t limit)
{
    return draw(generator) % limit;
}

static bool one_in(uint64_t odds)
{
    return draw_below(&world.chooser, odds) == 0;
}

static void stir(uint64_t value)
{
    world.hash = hash_mix(world.hash ^ value) + 0x9e3779b97f4a7c15U;
}

/* ---- stacks ---- */

static void *stack_take(void)
{
    void *stack = free_stacks;

    if (stack) {
#ifdef WITH_ASAN
        /* the last thread on this stack did not return from its functions */
        __asan_unpoison_memory_region(stack, STACK_BYTES - GUARD_BYTES);
#endif
        free_stacks = *(void **)stack;
        return stack;
    }
    stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE) != 0)
        abort();
    return (char *)stack + GUARD_BYTES;
}

static void stack_give(void *stack)
{
#ifdef WITH_ASAN
    __asan_unpoison_memory_region(stack, sizeof(void *));
#endif
    *(void **)stack = free_stacks;
    free_stacks = stack;
}

/* ---- the switch from thread to thread ---- */

#ifdef __x86_64__
/* Saves on the stack of the running thread the registers that a call must
 * preserve, and continues on the stack `to`. */
void virtual_switch(void **from, void *to);
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden virtual_switch\n"
        ".globl virtual_switch\n"
        ".type virtual_switch, @function\n"
        "virtual_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size virtual_switch, . - virtual_switch\n");

#define SAVED_WORDS 6

/* Prepares an empty stack on which the first switch "returns" to begin(). */
static void prepare(struct thread *thread, void (*begin)(void))
{
    void **top =
        (void **)(void *)((char *)thread->stack + STACK_BYTES - GUARD_BYTES);

    *--top = NULL; /* begin() never returns */
    *--top = (void *)(uintptr_t)begin;
    for (int i = 0; i < SAVED_WORDS; i++)
        *--top = NULL;
    thread->at = top;
}

static void jump(struct thread *from, struct thread *to)
{
    virtual_switch(&from->at, to->at);
}
#else
static void prepare(struct thread *thread, void (*begin)(void))
{
    if (getcontext(&thread->context) != 0)
        abort();
    thread->context.uc_stack.ss_sp = thread->stack;
    thread->context.uc_stack.ss_size = STACK_BYTES - GUARD_BYTES;
    makecontext(&thread->context, begin, 0);
}

static void jump(struct thread *from, struct thread *to)
{
    if (swapcontext(&from->context, &to->context) != 0)
        abort();
}
#endif

/* Tells the sanitizers which stack is used next. */
static void leave(struct thread *from, struct thread *to)
{
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(
        from->listed || from == &world.outside ? &from->fake_stack : NULL,
        to->bottom, to->size);
#endif
#ifdef WITH_TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
}

static void arrive(struct thread *self)
{
#ifdef WITH_ASAN
    const void *bottom;
    size_t size;

    __sanitizer_finish_switch_fiber(self->fake_stack, &bottom, &size);
    if (!world.outside.bottom) { /* the first switch comes from the outside */
        world.outside.bottom = bottom;
        world.outside.size = size;
    }
#endif
}

static void switch_to(struct thread *to)
{
    struct thread *from = world.current;

    from->error = errno;
    world.current = to;
    leave(from, to);
    jump(from, to);
    arrive(from);
    errno = from->error;
}

/* ---- the choice of the next thread ---- */

static bool outside(void)
{
    return world.current == &world.outside;
}

static int64_t later(int64_t one_us, int64_t other_us)
{
    return one_us > other_us ? one_us : other_us;
}

/* Converts until_ms, a time on the process's clock, to the true clock. */
static int64_t true_us(const struct process *process, int64_t until_ms)
{
    if (until_ms > INT64_MAX / US_PER_MS / 2)
        return NEVER_US;
    return until_ms * US_PER_MS - process->boot_shift_us;
}

/* Returns the time from which thread may run. */
static int64_t due_us(const struct thread *thread)
{
    int64_t stalled_us;

    if (thread->away)
        return thread->waits ? true_us(world.processes[0], thread->until_ms)
                             : 0;
    stalled_us =
        later(thread->stalled_until_us, thread->process->stalled_until_us);

    if (!thread->waits)
        return stalled_us;
    return later(true_us(thread->process, thread->until_ms), stalled_us);
}

static void list(struct thread *thread)
{
    if (world.live_count == world.live_max) {
        world.live_max = world.live_max * 2 + 16;
        world.live = must_have(
            realloc(world.live, world.live_max * sizeof(struct thread *)));
        world.able = must_have(
            realloc(world.able, world.live_max * sizeof(struct thread *)));
    }
    world.live[world.live_count++] = thread;
    thread->listed = true;
}

static void unlist(struct thread *thread)
{
    size_t at = 0;

    while (world.live[at] != thread)
        at++;
    memmove(&world.live[at], &world.live[at + 1],
        (--world.live_count - at) * sizeof(struct thread *));
    thread->listed = false;
}

/* Puts the threads that may run now into world.able, and returns their number.
 * *ret_next_us: when the next of the other threads is due. */
static size_t find_able(int64_t *ret_next_us)
{
    size_t count = 0;

    *ret_next_us = NEVER_US;
    for (size_t i = 0; i < world.live_count; i++) {
        int64_t at_us = due_us(world.live[i]);

        if (at_us <= world.now_us)
            world.able[count++] = world.live[i];
        else if (at_us < *ret_next_us)
            *ret_next_us = at_us;
    }
    return count;
}

/* Returns the thread that runs next, or the outside if the run has ended. */
static struct thread *choose(void)
{
    int64_t next_us;
    size_t count = find_able(&next_us);

    if (world.live_count == 0) {
        world.end = VIRTUAL_DONE;
        return &world.outside;
    }
    if (count == 0 && next_us == NEVER_US) {
        world.end = VIRTUAL_STUCK;
        return &world.outside;
    }
    if (count == 0) {
        world.now_us = next_us;
        count = find_able(&next_us);
    }
    if (world.steps >= world.limit_steps || world.now_us >= world.limit_us) {
        world.end = VIRTUAL_TOO_LONG;
        return &world.outside;
    }
    return world.able[count == 1 ? 0 : draw_below(&world.chooser, count)];
}

/* Lets the chosen thread run, which may be the calling thread. If the caller
 * waits for something, it must have set this in its struct thread. */
static void hand_over(void)
{
    struct thread *next;

    world.steps++;
    world.now_us += 1 + (int64_t)draw_below(&world.chooser, STEP_US);
    if (one_in(LONG_STEP_ODDS))
        world.now_us += (int64_t)draw_below(&world.chooser, LONG_STEP_US);
    next = choose();
    stir(next->number);
    if (next != world.current)
        switch_to(next);
}

/* Waits. The outside is in world.live only while it waits. */
static void wait_for(const void *what, int64_t until_ms)
{
    struct thread *self = world.current;

    if (self->masked)
        wrong("waits while it is masked");
    self->waits = true;
    self->waits_for = what;
    self->until_ms = until_ms;
    if (outside())
        list(self);
    hand_over();
    if (outside()) {
        unlist(self);
        if (self->waits && due_us(self) > world.now_us)
            wrong("the outside waits for ever");
    }
    self->waits = false;
}

static void wake(const void *what)
{
    for (size_t i = 0; i < world.live_count; i++)
        if (world.live[i]->waits && world.live[i]->waits_for == what)
            world.live[i]->waits = false;
}

/* With a chance of 1 in odds, lets another thread run first. */
static void offer(uint64_t odds)
{
    if (!outside() && !world.current->masked && one_in(odds))
        hand_over();
}

/* ---- threads ---- */

/* Leaves a thread that has ended, and never returns to it. */
static void __attribute__((noreturn)) go_away(void)
{
    hand_over();
    abort();
}

static void drop(struct thread *thread)
{
    unlist(thread);
    thread->over = true;
    world.lock_waiters -= thread->wants_lock;
    stack_give(thread->stack);
}

static void begin(void)
{
    struct thread *self = world.current;

    arrive(self);
    self->body(self->arg);
    if (self->masked)
        wrong("ends masked");
    drop(self);
    wake(self);
    go_away();
}

static struct thread *spawn(struct process *process, const char *name,
    void (*body)(void *arg), void *arg)
{
    struct thread *thread = must_have(calloc(1, sizeof(*thread)));

    thread->process = process;
    thread->body = body;
    thread->arg = arg;
    thread->number = ++world.number;
    (void)snprintf(
        thread->name, sizeof(thread->name), "%.*s", NAME_MAX_BYTES, name);
    thread->stack = stack_take();
    prepare(thread, begin);
#ifdef WITH_ASAN
    thread->bottom = thread->stack;
    thread->size = STACK_BYTES - GUARD_BYTES;
#endif
#ifdef WITH_TSAN
    thread->fiber = __tsan_create_fiber(0);
#endif
    thread->next = world.all;
    world.all = thread;
    list(thread);
    return thread;
}

/* ---- clocks ---- */

/* Returns the process whose clocks and randomness the caller gets. */
static struct process *seen(void)
{
    return world.current->masked ? world.processes[0] : world.current->process;
}

static const char *virtual_boot_id(void)
{
    return seen()->boot_id;
}

/* Each reading takes 1 us, so that time passes in a loop that reads the
 * clock. */
static int64_t virtual_boot_ms(void)
{
    return (++world.now_us + seen()->boot_shift_us) / US_PER_MS;
}

static int64_t virtual_wall_ticks(void)
{
    return (++world.now_us + seen()->wall_shift_us) * TICKS_PER_US +
           world.wall_shift_ticks;
}

static void virtual_bytes(void *to, size_t len)
{
    unsigned char *at = to;

    while (len > 0) {
        uint64_t word = draw(&seen()->random);
        size_t part = len < sizeof(word) ? len : sizeof(word);

        memcpy(at, &word, part);
        at += part;
        len -= part;
    }
}

/* ---- locks ---- */

static void mutex_init(struct platform_mutex *mutex)
{
    mutex->virtual = NULL;
}

static void mutex_done(struct platform_mutex *mutex)
{
    if (mutex->virtual)
        wrong("a mutex ends while it is held");
}

/* Takes the mutex. Other threads run only if one of them has the mutex. */
static void take(struct platform_mutex *mutex)
{
    while (mutex->virtual) {
        world.current->wants_lock = true;
        world.lock_waiters++;
        wait_for(mutex, PLATFORM_NEVER);
        world.current->wants_lock = false;
        world.lock_waiters--;
    }
    mutex->virtual = world.current;
}

static void lock(struct platform_mutex *mutex)
{
    offer(world.lock_odds);
    take(mutex);
}

static void unlock(struct platform_mutex *mutex)
{
    if (mutex->virtual != world.current)
        wrong("unlocks a mutex that it does not hold");
    mutex->virtual = NULL;
    if (world.lock_waiters > 0)
        wake(mutex);
}

static void cond_init(struct platform_cond *cond)
{
    cond->virtual = NULL;
}

static void cond_done(struct platform_cond *cond)
{
    for (size_t i = 0; i < world.live_count; i++)
        if (world.live[i]->waits && world.live[i]->waits_for == cond)
            wrong(
                "a condition ends while %s waits for it", world.live[i]->name);
}

/* No other thread runs while this one is masked, so the clock jumps to
 * until_ms. */
static bool wait_masked(int64_t until_ms)
{
    int64_t until_us = true_us(seen(), until_ms);

    if (until_us == NEVER_US)
        wrong("waits for ever while it is masked");
    world.now_us = later(world.now_us, until_us);
    return false;
}

static bool wait(
    struct platform_cond *cond, struct platform_mutex *mutex, int64_t until_ms)
{
    bool spurious;

    if (mutex->virtual != world.current)
        wrong("waits without its mutex");
    if (world.current->masked)
        return wait_masked(until_ms);
    spurious = one_in(SPURIOUS_ODDS);
    unlock(mutex);
    wait_for(spurious ? NULL : cond, spurious ? virtual_boot_ms() : until_ms);
    take(mutex);
    return until_ms == PLATFORM_NEVER || virtual_boot_ms() < until_ms;
}

static void wake_all(struct platform_cond *cond)
{
    wake(cond);
}

static void start(struct platform_thread *thread, const char *name,
    void (*body)(void *arg), void *arg)
{
    thread->virtual = spawn(world.current->process, name, body, arg);
    offer(2);
}

static void join(struct platform_thread *thread)
{
    struct thread *other = thread->virtual;

    offer(2);
    while (!other->over)
        wait_for(other, PLATFORM_NEVER);
    thread->virtual = NULL;
}

/* ---- the platform ---- */

static const struct platform_ops ops = {
    .boot_id = virtual_boot_id,
    .boot_ms = virtual_boot_ms,
    .wall_ticks = virtual_wall_ticks,
    .random = virtual_bytes,
    .mutex_init = mutex_init,
    .mutex_done = mutex_done,
    .lock = lock,
    .unlock = unlock,
    .cond_init = cond_init,
    .cond_done = cond_done,
    .wait = wait,
    .wake_all = wake_all,
    .start = start,
    .join = join,
};

static struct process *process_of(int id)
{
    assert(id >= 0 && id < world.process_count);
    return world.processes[id];
}

int virtual_process(const char *name)
{
    struct process *process = must_have(calloc(1, sizeof(*process)));
    int id = world.process_count++;

    world.processes = must_have(realloc(world.processes,
        (size_t)world.process_count * sizeof(struct process *)));
    world.processes[id] = process;
    process->id = id;
    process->random = draw(&world.decider);
    virtual_set_boot_id(id, VIRTUAL_BOOT_ID);
    (void)snprintf(
        process->name, sizeof(process->name), "%.*s", NAME_MAX_BYTES, name);
    return id;
}

static void end_threads(void)
{
    struct thread *thread;

    while ((thread = world.all)) {
        world.all = thread->next;
        if (thread->listed)
            stack_give(thread->stack);
#ifdef WITH_TSAN
        __tsan_destroy_fiber(thread->fiber);
#endif
        free(thread);
    }
}

static void end_world(void)
{
    if (!world.used)
        return;
    if (!outside())
        wrong("ended from inside");
    end_threads();
    for (int i = 0; i < world.process_count; i++)
        free(world.processes[i]);
    free(world.processes);
    free(world.live);
    free(world.able);
}

void virtual_platform_end(void)
{
    end_world();
    memset(&world, 0, sizeof(world));
    platform_use(NULL);
}

void virtual_platform_use(const struct virtual_options *options)
{
    int64_t limit_ms =
        options->limit_ms > 0 ? options->limit_ms : DEFAULT_LIMIT_MS;

    virtual_platform_end();
    world.used = true;
    world.now_us = options->boot_ms * US_PER_MS;
    world.wall_shift_ticks = options->wall_ticks - world.now_us * TICKS_PER_US;
    world.limit_us = world.now_us + limit_ms * US_PER_MS;
    world.limit_steps =
        options->limit_steps > 0 ? options->limit_steps : DEFAULT_LIMIT_STEPS;
    world.chooser = hash_mix(options->seed + 1);
    world.decider = hash_mix(~options->seed);
    world.hash = world.chooser;
    world.lock_odds = (uint64_t)2 << draw_below(&world.chooser, 6);
    (void)virtual_process("outside");
    world.current = &world.outside;
    world.outside.process = world.processes[0];
    memcpy(world.outside.name, "outside", sizeof("outside"));
#ifdef WITH_TSAN
    world.outside.fiber = __tsan_get_current_fiber();
#endif
    platform_use(&ops);
}

void virtual_start(
    int process, const char *name, void (*body)(void *arg), void *arg)
{
    if (process_of(process)->crashed)
        wrong("a thread for a crashed process");
    (void)spawn(process_of(process), name, body, arg);
}

enum virtual_end virtual_run(void)
{
    if (!outside())
        wrong("virtual_run() inside");
    if (world.live_count == 0)
        return VIRTUAL_DONE;
    hand_over();
    return world.end;
}

int virtual_self(void)
{
    return world.current->process->id;
}

void virtual_yield(void)
{
    offer(1);
}

void virtual_sleep(int64_t ms)
{
    struct thread *self = world.current;
    int64_t until_ms = (self->away ? virtual_ms() : virtual_boot_ms()) + ms;

    if (self->masked)
        (void)wait_masked(until_ms);
    else
        wait_for(NULL, until_ms);
}

/* ---- crashes and stalls ---- */

static bool is_held_up(const struct thread *thread)
{
    return thread->process->crashed || due_us(thread) > world.now_us;
}

/* Applies a crash or a stall of the calling thread's process to the thread
 * itself. */
static void suffer(void)
{
    struct thread *self = world.current;

    if (self->masked || outside() || !is_held_up(self))
        return;
    if (!self->process->crashed) {
        hand_over();
        return;
    }
    drop(self);
    go_away();
}

void virtual_mask(void)
{
    world.current->masked++;
}

void virtual_unmask(void)
{
    assert(world.current->masked > 0);
    world.current->masked--;
    suffer();
}

void virtual_leave(void)
{
    world.current->away = true;
}

void virtual_return(void)
{
    world.current->away = false;
    suffer();
}

void virtual_crash(int process)
{
    struct process *crashed = process_of(process);

    if (process == 0)
        wrong("the outside cannot crash");
    crashed->crashed = true;
    stop_forget(); /* the hooks of its threads were on their stacks */
    for (size_t i = world.live_count; i-- > 0;)
        if (world.live[i]->process == crashed && world.live[i] != world.current)
            drop(world.live[i]);
    suffer();
}

void virtual_stall(int process, int64_t ms)
{
    struct process *stalled = process_of(process);

    stalled->stalled_until_us =
        later(stalled->stalled_until_us, world.now_us + ms * US_PER_MS);
    suffer();
}

void virtual_stall_thread(int process, const char *name, int64_t ms)
{
    for (size_t i = 0; i < world.live_count; i++) {
        struct thread *thread = world.live[i];

        if (thread->process->id == process && strcmp(thread->name, name) == 0)
            thread->stalled_until_us =
                later(thread->stalled_until_us, world.now_us + ms * US_PER_MS);
    }
    suffer();
}

void virtual_step_clocks(int process, int64_t wall_ms, int64_t boot_ms)
{
    process_of(process)->wall_shift_us += wall_ms * US_PER_MS;
    process_of(process)->boot_shift_us += boot_ms * US_PER_MS;
}

bool virtual_pause(int process, int64_t ms)
{
    if (process_of(process)->stalled_until_us > world.now_us)
        return false;
    virtual_step_clocks(process, -ms, -ms);
    virtual_stall(process, ms);
    return true;
}

void virtual_set_boot_id(int process, const char *boot_id)
{
    struct process *booted = process_of(process);

    (void)snprintf(booted->boot_id, sizeof(booted->boot_id), "%s", boot_id);
}

bool virtual_alive(int process)
{
    for (size_t i = 0; i < world.live_count; i++)
        if (world.live[i]->process->id == process)
            return true;
    return false;
}

/* ---- clocks, random numbers and notes for tests ---- */

int64_t virtual_ms(void)
{
    return world.now_us / US_PER_MS;
}

uint64_t virtual_random(uint64_t below)
{
    return draw_below(&world.decider, below);
}

void virtual_note(const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    stir((uint64_t)world.now_us);
    stir(world.current->number);
    for (const char *at = text; *at; at++)
        stir((unsigned char)*at);
    if (world.tracing)
        (void)fprintf(stderr, "%12.6f %6llu %s/%s: %s\n",
            (double)world.now_us / 1e6, (unsigned long long)world.steps,
            world.current->process->name, world.current->name, text);
}

void virtual_trace(bool on)
{
    world.tracing = on;
}

uint64_t virtual_hash(void)
{
    return world.hash;
}

uint64_t virtual_steps(void)
{
    return world.steps;
}
