/* SPDX-License-Identifier: MIT */
/*
 * Computes how far a scan has come in the range of its keys. This is the share
 * of a run that `status`, the log and the dashboard show.
 *
 * The share is computed from three keys: the first and the last key of the
 * range, and the present one. If the scan resumes, it begins with the share of
 * the earlier attempt. A store returns entities in ascending order only, so
 * about 20 requests, each for one entity, search for the last key. These
 * requests are made only when the run has read many entities, or the scan has
 * lasted for some time; before that, no share is computed.
 *
 * Entities that the run has handled before this scan (spec->done_before) count
 * too. The share is then the number of all entities handled so far, divided by
 * the number at the end of this scan, which is computed from the three keys.
 */
#ifndef TW_JOBS_ENGINE_SHARE_H
#define TW_JOBS_ENGINE_SHARE_H

#include "worker/base/slice.h"

struct entity;
struct pool_client;
struct scan_spec;
struct share;

/* The last key is searched for when the run has read SHARE_AFTER_ENTITIES
 * entities, or when the scan has lasted SHARE_AFTER_MS. By then the scan has
 * made so many requests that those of the search (usually about 20) do not
 * matter. */
#define SHARE_AFTER_ENTITIES 20000
#define SHARE_AFTER_MS 30000
/* The maximum number of requests that search for the last key. */
#define SHARE_MAX_REQUESTS 48

/* share_new: returns the share of a scan of spec, owned by the caller. spec is
 * borrowed until share_free(), and spec->run may not be NULL. */
struct share *share_new(
    struct pool_client *pool_client, const struct scan_spec *spec);
void share_free(struct share *share); /* NULL is allowed */

/*
 * share_note: record that all entities of the scan before the entity `present`
 * are done. Call it at least for the first entity of each page. Sets
 * spec->run->share, or *spec->share if that is not NULL. The share never falls
 * during a scan, and is never above 999. Once per scan, makes the requests that
 * search for the last key. If these requests fail, the share is not changed.
 */
void share_note(struct share *share, const struct entity *present);

/* share_between: returns how far key is between first and last, in thousandths
 * (0 to 999), or -1 if this cannot be computed. Ignores the beginning that
 * first and last have in common, and compares only letters and digits. */
int share_between(struct slice first, struct slice last, struct slice key);

#endif
