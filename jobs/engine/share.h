/* SPDX-License-Identifier: MIT */
/*
 * Computes how far a scan has come in the range of its keys. This is the share
 * of a run that `status`, the log and the dashboard show.
 *
 * The share is computed from three keys: the first and the last key of the
 * range, and the present one. If the scan resumes, it begins with the share of
 * the earlier attempt. The service sorts in one direction only, so the last key
 * is searched for, by some 20 requests for one entity each. Therefore only a
 * run that has read many entities, or a scan that has lasted for a while, has a
 * share.
 *
 * If the run has handled other entities before this scan (spec->done_before),
 * these count too. The share is then the number of all entities handled so far,
 * divided by the number at the end of this scan, which is computed from the
 * three keys.
 */
#ifndef TW_JOBS_ENGINE_SHARE_H
#define TW_JOBS_ENGINE_SHARE_H

#include "worker/base/slice.h"

struct entity;
struct pool_client;
struct scan_spec;
struct share;

/* The last key is searched for when the run has read SHARE_AFTER_ENTITIES
 * entities, or when the scan has lasted SHARE_AFTER_MS. In that time a service
 * answers so many requests that 20 more do not matter. */
#define SHARE_AFTER_ENTITIES 20000
#define SHARE_AFTER_MS 30000
/* The maximum number of requests that search for the last key. */
#define SHARE_MAX_REQUESTS 48

/* share_new: returns the share of a scan of spec, owned by the caller. spec is
 * borrowed until share_free(), and spec->run may not be NULL. */
struct share *share_new(
    struct pool_client *request_pool, const struct scan_spec *spec);
void share_free(struct share *share); /* NULL is allowed */

/*
 * share_note: the caller has come to present, an entity of the scan: all
 * entities before it are done. Call it at least for the first entity of each
 * page. Sets spec->run->share, or *spec->share if that is not NULL. The share
 * never falls during a scan, and is never above 999. Makes the requests for the
 * last key once. If they fail, the share stays as it is.
 */
void share_note(struct share *share, const struct entity *present);

/* share_between: returns where key is between first and last, in thousandths (0
 * to 999), or -1 if this cannot be computed. The keys are compared by the
 * letters and digits after the beginning that first and last have in common. */
int share_between(struct slice first, struct slice last, struct slice key);

#endif
