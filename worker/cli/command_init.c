/* SPDX-License-Identifier: MIT */
/*
 * `tableward init [FILE]`: writes config/tableward.yaml, which the assembler
 * embeds in the program unchanged.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "worker/base/err.h"
#include "worker/cli/commands.h"
#include "worker/cli/say.h"

__asm__(".pushsection .rodata\n"
        ".balign 8\n"
        ".hidden tableward_init_len\n"
        ".hidden tableward_init_text\n"
        ".global tableward_init_len\n"
        ".global tableward_init_text\n"
        "tableward_init_len: .quad tableward_init_end - tableward_init_text\n"
        "tableward_init_text: .incbin \"config/tableward.yaml\"\n"
        "tableward_init_end:\n"
        ".popsection\n");

extern const uint64_t tableward_init_len __attribute__((visibility("hidden")));
extern const char tableward_init_text[] __attribute__((visibility("hidden")));

static enum tw_err write_all(int fd, const char *at, size_t len)
{
    while (len > 0) {
        ssize_t put = write(fd, at, len);

        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return TW_FULL;
        at += put;
        len -= (size_t)put;
    }
    return TW_OK;
}

/* Write the configuration to the file. Removes the file if it could not be
 * written completely. */
static int fill(int fd, const char *path)
{
    int cause = 0;

    if (write_all(fd, tableward_init_text, tableward_init_len) != TW_OK ||
        fsync(fd) != 0)
        cause = errno;
    if (close(fd) != 0 && cause == 0)
        cause = errno;
    if (cause == 0)
        return EXIT_DONE;
    (void)unlink(path);
    say("%s cannot be written: %s", path, strerror(cause));
    return EXIT_FAILED;
}

static int run(const struct invocation *invocation)
{
    const char *path =
        invocation->arg_count > 0 ? invocation->args[0] : "tableward.yaml";
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    int code;

    if (fd < 0) {
        say(errno == EEXIST ? "%s exists already and was not changed: "
                              "remove it, or name another file (%s)"
                            : "%s cannot be written: %s",
            path, strerror(errno));
        return EXIT_FAILED;
    }
    code = fill(fd, path);
    if (code == EXIT_DONE)
        printf("%s was written; `tableward check` validates it\n", path);
    return code;
}

const struct command command_init = {
    .name = "init",
    .arguments = "[FILE]",
    .summary = "writes a commented configuration to start from",
    .details = "Writes FILE, or tableward.yaml in the current folder, and "
               "never overwrites a file. The\nconfiguration has an embedded "
               "store and an example of each kind of job.\n",
    .max_args = 1,
    .run = run,
};
