/* SPDX-License-Identifier: MIT */
/*
 * Scenes: what tableward is asked to do while something fails, with the folder
 * in which it begins. Each is a command line as a user gives it, so that
 * reading the configuration, the stores, the engine and the output all take
 * part.
 */
#ifndef TW_TESTS_FAULTS_SCENES_H
#define TW_TESTS_FAULTS_SCENES_H

#include <stdbool.h>
#include <stddef.h>

#define SCENE_FILE "store.db" /* the embedded store */

struct scene {
    const char *name;
    /* What is done before: command lines, or "put QUEUE TEXT". */
    const char *before[8];
    const char *command;
    int exit_code; /* of command when nothing fails */
    /* What finishes the work after command has been cut off; NULL: nothing is
     * to be finished, command only reads. */
    const char *again[3];
    /* The azure store `cloud` behind a script: what service.c has. */
    const char *service; /* NULL: none */
};

extern const struct scene SCENES[];
extern const size_t SCENE_COUNT;

/* scene_named: NULL: there is none of that name. */
const struct scene *scene_named(const char *name);

/* scene_prepare: fill an empty folder. False: it failed, and said why. */
bool scene_prepare(const struct scene *scene, const char *folder);

/* fault_scene_begin: for the body of a trial: the clocks of the process that
 * may fail, and (again) of those that finish its work: what it leased is over.
 */
void fault_scene_begin(bool again);

/* scene_finish: after command was cut off: do what scene.again says. False:
 * a step of it failed. */
bool scene_finish(const struct scene *scene, const char *folder);

/* scene_state: what the folder holds (state.h). Owned; NULL: it cannot be
 * read, and `log` says why. */
char *scene_state(const char *folder);

/* scene_judge: finish, and compare with the state that a clean run left. NULL:
 * it is the same; else what is wrong, and *ret_found is the state, owned. */
const char *scene_judge(const struct scene *scene, const char *folder,
    const char *expected, char **ret_found);

#endif
