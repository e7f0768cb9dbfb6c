/* SPDX-License-Identifier: MIT */
/* Opens a store from its entry of `stores:` in the configuration. */
#ifndef TW_STORE_OPEN_H
#define TW_STORE_OPEN_H

#include <stdbool.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"

struct settings_section;
struct store;

/* Which identity's access tokens the requests carry. */
enum store_identity {
    STORE_IDENTITY_NONE,
    STORE_IDENTITY_MANAGED,
    STORE_IDENTITY_WORKLOAD,
};

/* One store of `stores:`. Lives in the configuration's arena. */
struct store_config {
    const char *name;
    struct mark mark;
    bool is_azure;
    struct slice path; /* embedded: the file's absolute path */
    /* Exactly one of connection_string, connection_string_file and account is
     * set, and with account exactly one of key_file, sas_file and identity. */
    struct slice connection_string;
    struct slice connection_string_file;
    struct slice account;
    struct slice endpoint_suffix; /* only with account: the end of the
                                     endpoints' host names; empty:
                                     core.windows.net */
    struct slice key_file, sas_file;
    enum store_identity identity; /* may also be set with a connection string
                                     that has no credential */
    struct slice client_id;       /* client id of the identity; empty: none is
                                     named */
    bool allow_http;
    const char *unset; /* name of a required environment variable that is not
                          set; NULL: none */
};

/*
 * store_config_load: read one entry. Relative paths are relative to folder.
 * NULL: errors were added to problems.
 */
struct store_config *store_config_load(const char *name,
    const struct yaml_node *node, const char *folder, struct arena *arena,
    struct problems *problems);

/*
 * store_open: open the store; no request is sent. An embedded file is created
 * if missing. TW_INVALID: a wrong connection string or file, an unset variable,
 * http that is not allowed, or an identity that the environment does not have.
 * TW_FULL: the file cannot be created or written. Owned, for store_close().
 */
TW_MUST_USE enum tw_err store_open(
    const struct store_config *config, struct store **ret, struct err *err);

/* store_open_to_read: like store_open(), for a caller that writes nothing: if
 * an embedded file cannot be written, it is opened with store->read_only. */
TW_MUST_USE enum tw_err store_open_to_read(
    const struct store_config *config, struct store **ret, struct err *err);

/*
 * store_check: check the connection string of an azure store, and the file of
 * its credential, as store_open() does. An identity is not checked. A file that
 * does not exist, or that this user may not read, is not checked either:
 * *ret_unread is its path, else NULL. TW_INVALID: store_open() would refuse the
 * connection string or the file.
 */
TW_MUST_USE enum tw_err store_check(const struct store_config *config,
    const char **ret_unread, struct err *err);

/* The keys of `stores:`. */
extern const struct settings_section open_store_section;
extern const struct settings_section open_azure_section;

#endif
