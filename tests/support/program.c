/* SPDX-License-Identifier: MIT */
/* Helpers of test programs that are no unit tests. */
#include "tests/support/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void program_die(const char *what)
{
    perror(what);
    exit(1);
}

uint64_t program_number(const char *text)
{
    char *end;
    uint64_t value;

    errno = 0;
    value = strtoull(text ? text : "", &end, 10);
    if (!text || !*text || *end || errno != 0) {
        (void)fprintf(stderr, "'%s' is no number\n", text ? text : "");
        exit(PROGRAM_USAGE);
    }
    return value;
}

double program_seconds(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void program_hush(void)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (nowhere < 0 || dup2(nowhere, STDERR_FILENO) < 0)
        program_die("/dev/null");
    (void)close(nowhere);
}

pid_t program_fork(void)
{
    pid_t child;

    (void)fflush(NULL);
    child = fork();
    if (child < 0)
        program_die("fork");
    return child;
}

int program_wait(pid_t child)
{
    int status;

    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            program_die("waitpid");
    return status;
}

void *program_shared(size_t bytes)
{
    void *at = mmap(
        NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        program_die("mmap");
    return at;
}

void program_unshared(void *at, size_t bytes)
{
    if (munmap(at, bytes) != 0)
        program_die("munmap");
}
