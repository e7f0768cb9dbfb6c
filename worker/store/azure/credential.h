/* SPDX-License-Identifier: MIT */
/*
 * The account whose credential the requests of a store carry. When the
 * configuration is read again, the stores of the former one, whose runs go on,
 * share this with those of the new one: so a key that was rotated ahead is used
 * by all of them. Any thread may call any function.
 */
#ifndef TW_STORE_AZURE_CREDENTIAL_H
#define TW_STORE_AZURE_CREDENTIAL_H

struct account;
struct credential;

/* credential_new: takes account. With one reference. */
struct credential *credential_new(struct account *account);

/* credential_hold: one more reference; returns credential. credential_drop: the
 * last one frees. */
struct credential *credential_hold(struct credential *credential);
void credential_drop(struct credential *credential);

/* credential_account: the newest account. Owned: call account_free(). */
struct account *credential_account(struct credential *credential);

/* credential_replace: from now on the newest account is `account`, which is
 * taken. */
void credential_replace(struct credential *credential, struct account *account);

#endif
