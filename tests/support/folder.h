/* SPDX-License-Identifier: MIT */
/*
 * Folders for the files of a test. They are made in $TMPDIR or, if it is not
 * set, in /tmp. This file uses nothing of the product.
 */
#ifndef TW_TESTS_SUPPORT_FOLDER_H
#define TW_TESTS_SUPPORT_FOLDER_H

#define FOLDER_BYTES 128 /* of a path, with its zero byte */

/* folder_make: makes a new, empty folder, whose name begins with `name`, and
 * writes its path to ret. If this fails, the program ends, because no test can
 * run without the folder. */
void folder_make(char ret[FOLDER_BYTES], const char *name);

/* folder_remove: removes the folder with all files and folders in it. Does
 * nothing if it does not exist. */
void folder_remove(const char *folder);

#endif
