/* SPDX-License-Identifier: MIT */
/*
 * Scenes: the commands of tableward that run while something fails, each with
 * the folder in which it starts. A scene is a command line as a user types it,
 * so that the configuration, the stores, the engine and the output all take
 * part.
 */
#ifndef TW_TESTS_FAULTS_SCENES_H
#define TW_TESTS_FAULTS_SCENES_H

#include <stdbool.h>
#include <stddef.h>

#define SCENE_FILE "store.db" /* the embedded store */

struct scene {
    const char *name;
    /* Carried out before `command`: command lines, or "put QUEUE TEXT". */
    const char *before[8];
    const char *command;
    int exit_code; /* exit code of `command` without failures */
    /* The commands that finish the work after `command` was cut off; NULL:
     * there is nothing to finish, because `command` only reads. */
    const char *again[3];
    /* The script of the server behind the azure store `cloud` (see
     * service.h). */
    const char *service; /* NULL: the scene does not use this store */
};

extern const struct scene SCENES[];
extern const size_t SCENE_COUNT;

/* scene_named: returns the scene with this name; NULL: there is none. */
const struct scene *scene_named(const char *name);

/* scene_prepare: fills an empty folder. False: this failed; the error was
 * printed. */
bool scene_prepare(const struct scene *scene, const char *folder);

/* fault_scene_begin: called in the child of a trial: sets its clocks. again:
 * the child finishes the work of another child: its clocks are so far ahead
 * that the leases of that child are over. */
void fault_scene_begin(bool again);

/* scene_finish: carries out scene.again, after `command` was cut off. False:
 * one of its commands failed. */
bool scene_finish(const struct scene *scene, const char *folder);

/* scene_state: returns what is in the folder (see state.h). Owned; NULL: it
 * cannot be read; the file `log` says why. */
char *scene_state(const char *folder);

/* scene_judge: calls scene_finish(), and compares the folder with `expected`,
 * the state after a run without failures. NULL: they are equal; else what is
 * wrong. *ret_found: the state of the folder, owned. */
const char *scene_judge(const struct scene *scene, const char *folder,
    const char *expected, char **ret_found);

#endif
