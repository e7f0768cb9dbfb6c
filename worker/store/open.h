/* SPDX-License-Identifier: MIT */
/* From one entry of `stores:` in the configuration to an open store. */
#ifndef TW_STORE_OPEN_H
#define TW_STORE_OPEN_H

#include <stdbool.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct store;

/* What `stores:` says of one store. Lives in the configuration's arena. */
struct store_config {
    const char *name;
    struct mark mark;
    bool is_azure;
    struct slice path;              /* embedded: the file, absolute */
    struct slice connection_string; /* one of these four ways ... */
    struct slice connection_string_file;
    struct slice account; /* ... the last two with account */
    struct slice key_file, sas_file;
    bool allow_http;
    const char *unset; /* an environment variable it needs that is not set */
};

/*
 * store_config_load: read one entry. folder is where relative paths start.
 * NULL: problems has been added to.
 */
struct store_config *store_config_load(const char *name,
    const struct yaml_node *node, const char *folder, struct arena *arena,
    struct problems *problems);

/*
 * store_open: make it ready; no request is sent. The embedded file is created
 * where it is missing. TW_INVALID: a wrong connection string or file, an unset
 * variable, http where it is not allowed. TW_FULL: the file cannot be created
 * or written. Owned; store_close() ends it.
 */
TW_MUST_USE enum tw_err store_open(
    const struct store_config *config, struct store **ret, struct err *err);

#endif
