/* SPDX-License-Identifier: MIT */
/*
 * Runs a command and measures it:
 *
 *   measure FILE COMMAND [ARGUMENT ...]
 *
 * writes "SECONDS CPU_SECONDS PEAK_KIB" to FILE (time from start to end, user
 * and system time, peak resident memory) and exits as the command did; 126: it
 * could not be run or was killed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXIT_CANNOT 126

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int write_result(const char *path, double took, const struct rusage *use)
{
    FILE *file = fopen(path, "w");

    if (!file)
        return -1;
    /* ru_maxrss is in KiB on Linux. */
    fprintf(file, "%.3f %.3f %ld\n", took,
        seconds(use->ru_utime) + seconds(use->ru_stime), use->ru_maxrss);
    return fclose(file);
}

int main(int argc, char **argv)
{
    double started = now();
    struct rusage use;
    int status;
    pid_t child;

    if (argc < 3) {
        fprintf(stderr, "usage: measure FILE COMMAND [ARGUMENT ...]\n");
        return EXIT_CANNOT;
    }
    child = fork();
    if (child == 0) {
        execvp(argv[2], argv + 2);
        perror(argv[2]);
        _exit(EXIT_CANNOT);
    }
    if (child < 0 || wait4(child, &status, 0, &use) != child) {
        perror("measure");
        return EXIT_CANNOT;
    }
    if (write_result(argv[1], now() - started, &use) != 0) {
        perror(argv[1]);
        return EXIT_CANNOT;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_CANNOT;
}
