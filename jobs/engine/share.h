/* SPDX-License-Identifier: MIT */
/*
 * How far a scan has come in the range of its keys: the share of a run that
 * `status`, the log and the dashboard show.
 *
 * The share is computed from three keys: the first and the last key of the
 * range, and the present one. Of a resumed scan it is that of the earlier
 * attempt, and a part of the rest. The service sorts in one direction only, so
 * the last key is searched for, by some 20 requests for one entity each. So
 * only a run that has read many entities shows its share.
 */
#ifndef TW_JOBS_ENGINE_SHARE_H
#define TW_JOBS_ENGINE_SHARE_H

#include "worker/base/slice.h"

struct page;
struct pool_client;
struct scan_spec;
struct share;

/* So many entities the run must have read. */
#define SHARE_AFTER_ENTITIES 20000
/* The maximum number of requests for the last key. */
#define SHARE_MAX_REQUESTS 48

/* share_new: for a scan of spec, which is borrowed until share_free(), and must
 * have a run. Owned. */
struct share *share_new(
    struct pool_client *request_pool, const struct scan_spec *spec);
void share_free(struct share *share); /* NULL: nothing */

/*
 * share_note: the caller is going to work on page, the next one of the scan,
 * which has entities. Sets spec->run->share, which never falls during a scan,
 * and is never above 999. Makes the requests for the last key once. If they
 * fail, the share stays as it is.
 */
void share_note(struct share *share, const struct page *page);

/* share_between: where key is between first and last, in thousandths, 0 to 999;
 * -1: cannot be computed. A key is compared by the letters and digits behind
 * what first and last have in common. */
int share_between(struct slice first, struct slice last, struct slice key);

#endif
