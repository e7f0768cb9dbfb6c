/* SPDX-License-Identifier: MIT */
/* Inserts parents for cascades. */
#include "tests/support/cascade_job.h"

#include "worker/base/mem.h"
#include "worker/base/text.h"

void cascade_put_created(struct hosted *h, int64_t after_s, const char *more)
{
    char time[TEXT_TIME_MAX];
    char *properties = mem_format(
        "\"CreatedOn@odata.type\":\"Edm.DateTime\",\"CreatedOn\":\"%s\"%s%s",
        text_from_ticks(h->requested_ticks + after_s * TICKS_PER_S, time),
        more ? "," : "", more ? more : "");

    hosted_put(h, "Channels", "News", "", properties);
    mem_free(properties);
}
