/* SPDX-License-Identifier: MIT */
/* The newest account of a store. */
#include "worker/store/azure/credential.h"

#include <stdatomic.h>

#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/store/azure/account.h"

struct credential {
    struct platform_mutex mutex;
    struct account *account; /* owned; guarded by mutex */
    _Atomic unsigned references;
};

struct credential *credential_new(struct account *account)
{
    struct credential *credential = mem_alloc(sizeof(*credential));

    platform_mutex_init(&credential->mutex);
    credential->account = account;
    atomic_init(&credential->references, 1);
    return credential;
}

struct credential *credential_hold(struct credential *credential)
{
    atomic_fetch_add(&credential->references, 1);
    return credential;
}

void credential_drop(struct credential *credential)
{
    if (atomic_fetch_sub(&credential->references, 1) > 1)
        return;
    account_free(credential->account);
    platform_mutex_done(&credential->mutex);
    mem_free(credential);
}

struct account *credential_account(struct credential *credential)
{
    struct account *account;

    platform_lock(&credential->mutex);
    account = account_hold(credential->account);
    platform_unlock(&credential->mutex);
    return account;
}

void credential_replace(struct credential *credential, struct account *account)
{
    struct account *former;

    platform_lock(&credential->mutex);
    former = credential->account;
    credential->account = account;
    platform_unlock(&credential->mutex);
    account_free(former);
}
