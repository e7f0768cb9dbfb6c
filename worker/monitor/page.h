/* SPDX-License-Identifier: MIT */
/* The files of the dashboard, which the assembler embeds in the program
 * unchanged. */
#ifndef TW_MONITOR_PAGE_H
#define TW_MONITOR_PAGE_H

#include <stddef.h>

#include "worker/base/slice.h"

struct page_file {
    const char *path; /* path of the URL */
    const char *content_type;
    struct slice text;
};

/* page_files: write the files to `to`. Their texts are static. */
#define PAGE_FILES 4
void page_files(struct page_file to[PAGE_FILES]);

#endif
