/* SPDX-License-Identifier: MIT */
/*
 * A world of its own: threads are coroutines on one thread of the system, one
 * runs at a time, and a seed decides which goes on at each lock, wait, start
 * and virtual_yield(). Its clock moves only by waiting: when every thread
 * waits, it jumps to the first that is due. So a seed replays exactly, an hour
 * costs nothing, and a process can be stalled or crashed at any point.
 *
 * Each hand-off costs up to 60 us of its time, now and then 4 ms, and each look
 * at a clock 1 us. One wait in 64 ends without a cause.
 *
 * The outside may use locks, waits, threads and clocks too. It gives way to
 * others only where it has to wait. What one world began must end in it.
 *
 * A "process" is a group of these threads with clocks and randomness of its
 * own. What a crashed one held in memory is lost to us too (never freed): run
 * many worlds in a forked child and let it end.
 *
 * Not in it: time that libraries ask the system for, and threads they start.
 */
#ifndef TW_TESTS_VIRTUAL_PLATFORM_H
#define TW_TESTS_VIRTUAL_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>

/* platform_boot_id() of every process that was told no other. */
#define VIRTUAL_BOOT_ID "00000000-0000-4000-8000-000000000001"

/* Why virtual_run() came back. */
enum virtual_end {
    VIRTUAL_DONE,     /* every thread has ended, or was crashed */
    VIRTUAL_STUCK,    /* all wait for ever: a deadlock */
    VIRTUAL_TOO_LONG, /* the limit of steps or of virtual time is over */
};

struct virtual_options {
    uint64_t seed;
    int64_t boot_ms;      /* clocks at the beginning; as platform_boot_ms() */
    int64_t wall_ticks;   /* as platform_wall_ticks() */
    int64_t limit_ms;     /* virtual time that may pass; 0: 1000 hours */
    uint64_t limit_steps; /* hand-offs; 0: 10 million */
};

/*
 * virtual_platform_use: begin a world, in place of the one in use; ends the
 * last one (its threads are given up). virtual_platform_end: back to the real
 * one.
 */
void virtual_platform_use(const struct virtual_options *options);
void virtual_platform_end(void);

/* virtual_process: a new process; ids count from 1. 0 is the outside, where
 * the caller of virtual_run() is; its clocks are the true ones ("service"). */
int virtual_process(const char *name);

/* virtual_start: a thread of process that nobody joins. platform_start() in a
 * thread starts another of the same process. */
void virtual_start(
    int process, const char *name, void (*body)(void *arg), void *arg);

/* virtual_run: until there is nothing left to do. From the outside only. */
enum virtual_end virtual_run(void);

/* virtual_self: the process of the running thread; 0: the outside. */
int virtual_self(void);

/* virtual_yield: somebody else may run now. Nothing from the outside. */
void virtual_yield(void);

/* virtual_sleep: the calling thread waits so long. */
void virtual_sleep(int64_t ms);

/*
 * virtual_mask: while masked (calls nest), the calling thread goes on without
 * a hand-off, is neither stalled nor crashed, and reads the true clocks: a
 * request that is inside the service. It must not wait for another thread:
 * that ends the process with a message. A wait for a moment jumps there.
 */
void virtual_mask(void);
void virtual_unmask(void);

/*
 * virtual_leave, virtual_return: in between the calling thread is a request
 * that has left its process: no stall holds it up, and its sleeps are on the
 * true clock. Do not nest.
 */
void virtual_leave(void);
void virtual_return(void);

/*
 * virtual_crash: none of its threads ever goes on. Does not return when the
 * caller is one of them. virtual_stall: none goes on for so long (SIGSTOP).
 * virtual_stall_thread: the same for its threads of that name alone.
 * virtual_step_clocks: what its clocks show jumps, back where negative.
 * virtual_pause: virtual_stall(), and all of its clocks stand still meanwhile
 * (a hypervisor); nothing where it is stalled already.
 */
void virtual_crash(int process);
void virtual_stall(int process, int64_t ms);
void virtual_stall_thread(int process, const char *name, int64_t ms);
void virtual_step_clocks(int process, int64_t wall_ms, int64_t boot_ms);
bool virtual_pause(int process, int64_t ms);

/* virtual_set_boot_id: what platform_boot_id() is for a process from now on: it
 * runs on another machine. */
void virtual_set_boot_id(int process, const char *boot_id);

/* virtual_alive: has it a thread that has not ended? */
bool virtual_alive(int process);

/* virtual_ms: the true boot clock. virtual_random: of the world's seed, for
 * whoever decides what happens; below > 0. */
int64_t virtual_ms(void);
uint64_t virtual_random(uint64_t below);

/*
 * virtual_note: something worth comparing happened; with virtual_trace() on it
 * is printed too, with the moment, process and thread. virtual_hash: of all
 * notes and hand-offs so far: equal for equal seeds.
 */
void virtual_note(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
void virtual_trace(bool on);
uint64_t virtual_hash(void);
uint64_t virtual_steps(void); /* hand-offs so far */

#endif
