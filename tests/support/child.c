/* SPDX-License-Identifier: MIT */
#include "tests/support/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

pid_t child_start(void (*body)(void *arg), void *arg)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        body(arg);
        _exit(0);
    }
    return child;
}

static int status_of(pid_t child)
{
    int status = 0;

    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

int child_end(pid_t child)
{
    int status = status_of(child);

    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int child_run(void (*body)(void *arg), void *arg)
{
    return child_end(child_start(body, arg));
}

void child_killed(pid_t child)
{
    assert_true(WIFSIGNALED(status_of(child)));
}
