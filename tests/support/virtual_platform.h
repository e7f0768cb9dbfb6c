/* SPDX-License-Identifier: MIT */
/*
 * A platform with virtual clocks. Its threads are coroutines on one thread of
 * the operating system. One thread runs at a time; at each lock, wait, start
 * and virtual_yield(), a seed decides which thread runs next. The true clock
 * moves only by waiting (apart from the costs below): when all threads wait, it
 * jumps to the time at which the first of them is due. So the same seed gives
 * exactly the same execution, an hour of waiting costs nothing, and a process
 * can be stalled or crashed at any point.
 *
 * Each hand-off from one thread to the next takes up to 60 us of virtual time,
 * sometimes up to 4 ms, and each reading of a clock 1 us. One wait in 64 ends
 * without a cause.
 *
 * The caller of virtual_run() is "the outside". It may use locks, waits,
 * threads and clocks too, but other threads run only while it waits. Threads,
 * locks and waits that began on one virtual platform must end on it.
 *
 * A "process" is a group of these threads with its own clocks and randomness.
 * The memory of a crashed process is never freed. So a test with many
 * executions forks a child for every few of them: the memory goes with the
 * child.
 *
 * Not simulated: time that libraries ask the operating system for, and threads
 * that libraries start.
 */
#ifndef TW_TESTS_VIRTUAL_PLATFORM_H
#define TW_TESTS_VIRTUAL_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>

/* platform_boot_id() of every process, unless virtual_set_boot_id() sets
 * another one. */
#define VIRTUAL_BOOT_ID "00000000-0000-4000-8000-000000000001"

/* Why virtual_run() returned. */
enum virtual_end {
    VIRTUAL_DONE,     /* every thread has ended, or was crashed */
    VIRTUAL_STUCK,    /* all threads wait for ever: a deadlock */
    VIRTUAL_TOO_LONG, /* the limit of steps or of virtual time was reached */
};

struct virtual_options {
    uint64_t seed;
    int64_t boot_ms;      /* platform_boot_ms() at the beginning */
    int64_t wall_ticks;   /* platform_wall_ticks() at the beginning */
    int64_t limit_ms;     /* virtual time that may pass; 0: 1000 hours */
    uint64_t limit_steps; /* hand-offs; 0: 10 million */
};

/*
 * virtual_platform_use: begins a virtual platform in place of the platform in
 * use. If that is a virtual platform, it is ended, and its threads never run
 * again.
 * virtual_platform_end: goes back to the real platform.
 */
void virtual_platform_use(const struct virtual_options *options);
void virtual_platform_end(void);

/* virtual_process: makes a process. Returns its id: 1, 2, ... The id 0 is the
 * outside. It has the true clocks, so tests use it as the service. */
int virtual_process(const char *name);

/* virtual_start: starts a thread in `process`. This thread is never joined. If
 * it calls platform_start(), the new thread belongs to the same process. */
void virtual_start(
    int process, const char *name, void (*body)(void *arg), void *arg);

/* virtual_run: runs the threads until one of the reasons in enum virtual_end
 * ends this, and returns the reason. Only the outside calls it. */
enum virtual_end virtual_run(void);

/* virtual_self: returns the process of the running thread; 0: the outside. */
int virtual_self(void);

/* virtual_yield: lets another thread run, if the seed says so. Does nothing
 * when the outside calls it. */
void virtual_yield(void);

/* virtual_sleep: the calling thread sleeps for ms. */
void virtual_sleep(int64_t ms);

/*
 * virtual_mask, virtual_unmask: between these calls, which may be nested, the
 * calling thread is a request inside the service. It runs without a hand-off,
 * is neither stalled nor crashed, and reads the true clocks. A wait for a time
 * makes the clock jump to this time. A wait for another thread ends the process
 * with a message.
 */
void virtual_mask(void);
void virtual_unmask(void);

/*
 * virtual_leave, virtual_return: between these calls the calling thread is a
 * request that has left its process. It is not stalled with its process, and it
 * sleeps by the true clock. These calls must not be nested.
 */
void virtual_leave(void);
void virtual_return(void);

/*
 * virtual_crash: ends all threads of the process. If the caller is one of them,
 * the call does not return.
 * virtual_stall: stops all threads of the process for ms, as SIGSTOP does.
 * virtual_stall_thread: stops only those threads of the process that have this
 * name.
 * virtual_step_clocks: adds wall_ms and boot_ms to the clocks of the process;
 * negative numbers put them back.
 * virtual_pause: as virtual_stall(), but the clocks of the process stand still
 * too, as when a hypervisor pauses a machine. Does nothing and returns false if
 * the process is stalled already.
 */
void virtual_crash(int process);
void virtual_stall(int process, int64_t ms);
void virtual_stall_thread(int process, const char *name, int64_t ms);
void virtual_step_clocks(int process, int64_t wall_ms, int64_t boot_ms);
bool virtual_pause(int process, int64_t ms);

/* virtual_set_boot_id: sets platform_boot_id() of a process, as if it ran on
 * another machine. */
void virtual_set_boot_id(int process, const char *boot_id);

/* virtual_alive: returns whether the process has a thread that has not
 * ended. */
bool virtual_alive(int process);

/* virtual_ms: returns the true boot clock.
 * virtual_random: returns a number below `below` (> 0), by the seed. Tests use
 * it to decide what happens. */
int64_t virtual_ms(void);
uint64_t virtual_random(uint64_t below);

/*
 * virtual_note: adds a message to the hash of the execution. If virtual_trace()
 * is on, it is also printed, with the time, process and thread.
 * virtual_hash: returns a hash of all notes and hand-offs so far. Equal seeds
 * give equal hashes.
 */
void virtual_note(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
void virtual_trace(bool on);
uint64_t virtual_hash(void);
uint64_t virtual_steps(void); /* hand-offs so far */

#endif
