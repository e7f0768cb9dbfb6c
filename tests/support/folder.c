/* SPDX-License-Identifier: MIT */
/* Folders for the files of a test: see folder.h. */
#include "tests/support/folder.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

static void die(const char *what)
{
    perror(what);
    exit(1);
}

void folder_make(char ret[FOLDER_BYTES], const char *name)
{
    const char *above = getenv("TMPDIR");

    (void)snprintf(ret, FOLDER_BYTES, "%s/%s.XXXXXX",
        above && *above ? above : "/tmp", name);
    if (!mkdtemp(ret))
        die(ret);
}

static int remove_one(
    const char *path, const struct stat *info, int type, struct FTW *where)
{
    return remove(path);
}

void folder_remove(const char *folder)
{
    if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 &&
        errno != ENOENT)
        die(folder);
}
