/* SPDX-License-Identifier: MIT */
/*
 * Folders for the files of a test. They are made in $TMPDIR, without it in
 * /tmp. Nothing here uses the product.
 */
#ifndef TW_TESTS_SUPPORT_FOLDER_H
#define TW_TESTS_SUPPORT_FOLDER_H

#define FOLDER_BYTES 128 /* of a path, with its end */

/* folder_make: a new, empty folder, whose name begins with that. Its path is in
 * ret. Without it no test can go on: if it cannot be made, the program ends. */
void folder_make(char ret[FOLDER_BYTES], const char *name);

/* folder_remove: with all that is in it. A folder that does not exist is none
 * to remove. */
void folder_remove(const char *folder);

#endif
