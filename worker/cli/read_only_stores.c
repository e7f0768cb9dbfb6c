/* SPDX-License-Identifier: MIT */
/* Wraps the stores of a job so that nothing can be written through them. */
#include "worker/cli/read_only_stores.h"

#include "worker/base/mem.h"
#include "worker/cli/command.h"
#include "worker/cli/say.h"
#include "worker/cli/session.h"
#include "worker/store/read_only.h"

void read_only_stores_init(
    struct read_only_stores *only, const struct job_stores *stores)
{
    only->stores = *stores;
    only->list = mem_array(stores->count, sizeof(struct store *));
    only->stores.stores = only->list;
    for (size_t i = 0; i < stores->count; i++)
        if (stores->stores[i])
            only->list[i] = read_only_new(stores->stores[i]);
}

void read_only_stores_explain(
    const struct read_only_stores *only, enum tw_err code, struct err *err)
{
    bool unreached = say_exit(code) == EXIT_UNREACHABLE;

    for (size_t i = 0; i < only->stores.count && unreached; i++)
        if (only->list[i] && read_only_failed(only->list[i])) {
            session_explain(only->list[i], code, err);
            return;
        }
}

void read_only_stores_done(struct read_only_stores *only)
{
    for (size_t i = 0; i < only->stores.count; i++)
        store_close(only->list[i]);
    mem_free(only->list);
}
