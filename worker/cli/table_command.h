/* SPDX-License-Identifier: MIT */
/* Shared by import, export, count, census and tables: opens a table of a store,
 * reads the options, and ends the process within 5 s of a stop signal. */
#ifndef TW_CLI_TABLE_COMMAND_H
#define TW_CLI_TABLE_COMMAND_H

#include <stdbool.h>

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/platform.h"
#include "worker/base/slice.h"
#include "worker/cli/command.h"
#include "worker/cli/session.h"
#include "worker/transfer/records.h"
#include "worker/transfer/transfer.h"

struct scan;
struct store;

struct table_command {
    const struct invocation *invocation;
    struct session session;
    bool opened; /* session_open() was called */
    struct arena arena;
    struct store *store; /* NULL: the store's file does not exist */
    const char *table;   /* NULL: the command is about all tables */
    struct slice filter;
    struct slice *select; /* NULL: all properties */
    size_t select_count;

    /* abort: called before the watcher ends the process because the command did
     * not end after a stop signal; NULL: none. Protected by session.mutex. */
    void (*abort)(void *context);
    void *abort_context;
    /* watched: the watcher was started. ended: the command has ended; under
     * session.mutex. */
    bool watched, ended;
    struct platform_thread watcher;
};

/*
 * table_command_open: read the configuration, the table's name, --filter,
 * --select and --store, and start the request pool. Returns an exit code; call
 * table_command_close() in any case. After this call the process ends with 75
 * at most 5 s after a stop signal. table_command_open_all: the same for a
 * command about all tables of the store.
 */
int table_command_open(struct table_command *command,
    const struct invocation *invocation, bool may_create);
int table_command_open_all(struct table_command *command,
    const struct invocation *invocation, bool may_create);
void table_command_close(struct table_command *command);

/* table_command_list: list the names of all tables of the store, in the order
 * of strcmp(); they live as long as command. Returns the store's outcome. */
TW_MUST_USE enum tw_err table_command_list(struct table_command *command,
    const char *const **ret, size_t *ret_count, struct err *err);

/* table_command_on_abort: set the abort callback; NULL: none. */
void table_command_on_abort(
    struct table_command *command, void (*abort)(void *context), void *context);

/* table_command_transfer: return what an import or an export needs; valid as
 * long as command. */
struct transfer table_command_transfer(struct table_command *command);

/* table_command_format: find the format of the file. It is the value of
 * --format; without --format the end of path (may be NULL) decides. Returns an
 * exit code. */
int table_command_format(const struct table_command *command, const char *path,
    enum records_format *ret);

/* table_command_choice: find the index of an option's value in choices
 * (NULL-terminated); *ret is unchanged if the option is not given. Returns an
 * exit code. */
int table_command_choice(const struct invocation *invocation,
    enum option option, const char *name, const char *const *choices, int *ret);

/* table_command_check_file: refuse path if it is the file of a store or of the
 * configuration. "-": the file that standard input is redirected from. Returns
 * an exit code. */
int table_command_check_file(
    const struct table_command *command, const char *path);

/* table_command_scan: scan the entities that filter matches, with the
 * properties of select. */
struct scan *table_command_scan(struct table_command *command);

/* table_command_failed: report an outcome other than TW_OK; returns an exit
 * code. */
int table_command_failed(
    struct table_command *command, enum tw_err outcome, struct err *err);

#endif
