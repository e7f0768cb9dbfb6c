/* SPDX-License-Identifier: MIT */
/*
 * The account whose credential the requests of a store carry. When the
 * configuration is read again, a new store is opened, and runs in progress keep
 * the old store of the same name. Both stores share one struct credential, so
 * that the requests of both are signed with the newest key. Any thread may call
 * any function.
 */
#ifndef TW_STORE_AZURE_CREDENTIAL_H
#define TW_STORE_AZURE_CREDENTIAL_H

struct account;
struct credential;

/* credential_new: make a credential with one reference. Takes ownership of
 * account. */
struct credential *credential_new(struct account *account);

/* credential_hold: add a reference; returns credential. credential_drop: remove
 * a reference; removing the last one frees credential. */
struct credential *credential_hold(struct credential *credential);
void credential_drop(struct credential *credential);

/* credential_account: return the newest account. Owned: call account_free(). */
struct account *credential_account(struct credential *credential);

/* credential_replace: from now on the newest account is `account`. Takes
 * ownership of account. */
void credential_replace(struct credential *credential, struct account *account);

#endif
