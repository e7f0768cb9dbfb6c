/* SPDX-License-Identifier: MIT */
/* The program that the build runs: prints one page or table. */
#include "worker/manual/manual.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const char *date = argc > 2 ? argv[2] : "";

    if (strcmp(what, "tableward.1") == 0) {
        manual_program_page(date);
    } else if (strcmp(what, "tableward.yaml.5") == 0) {
        manual_settings_page(date);
    } else if (strcmp(what, "sh") == 0) {
        manual_sh_tables();
    } else if (strcmp(what, "fish") == 0) {
        manual_fish_tables();
    } else {
        fprintf(stderr,
            "usage: manual tableward.1 DATE | tableward.yaml.5 DATE | sh | "
            "fish\n");
        return 64;
    }
    return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
