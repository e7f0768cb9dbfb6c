/* SPDX-License-Identifier: MIT */
/* A stop signal ends the process within 5 s, whatever blocks. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "worker/base/log.h"
#include "worker/base/stop.h"
#include "worker/cli/command.h"
#include "worker/cli/signals.h"

static void log_signal(void *context, int number)
{
    log_error("process", "got signal %d", number);
}

/* Replaces standard error by a full pipe that no process reads. */
static void fill_standard_error(void)
{
    static const char bytes[4096];
    int ends[2];

    if (pipe(ends) != 0 || fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0)
        _exit(1);
    while (write(ends[1], bytes, sizeof(bytes)) > 0)
        ;
    if (fcntl(ends[1], F_SETFL, 0) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
        _exit(1);
}

/* Runs in a child process: sends SIGTERM to itself, and logs without end. After
 * 20 s the process is killed. */
static void log_until_killed(void)
{
    alarm(20);
    fill_standard_error();
    (void)signals_start(log_signal, NULL);
    kill(getpid(), SIGTERM);
    for (;;)
        log_error("process", "works");
}

TEST(a_stop_signal_ends_a_process_whose_log_takes_no_more_lines)
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        log_until_killed();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EXIT_STOPPED);
}

static void note_signal(void *context, int number)
{
    assert_int_equal(write(*(int *)context, "x", 1), 1);
}

/* signals_stop() also ends the guard, the thread that ends a process whose stop
 * takes too long. So this process continues. */
TEST(a_process_that_stops_in_time_ends_by_itself)
{
    struct signals *signals;
    int ends[2];
    char byte;

    assert_int_equal(pipe(ends), 0);
    signals = signals_start(note_signal, &ends[1]);
    kill(getpid(), SIGTERM);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    signals_stop(signals);
    signals_unblock();
    stop_forget();
    (void)close(ends[0]);
    (void)close(ends[1]);
}
