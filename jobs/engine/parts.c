/* SPDX-License-Identifier: MIT */
/* Reads a table in several parts at once. */
#include "jobs/engine/parts.h"

#include <stdlib.h>
#include <string.h>

#include "worker/base/arena.h"
#include "worker/base/mem.h"
#include "worker/store/filter.h"
#include "worker/store/store.h"

/* Distance of the sampled keys at the beginning, in entities. A part with fewer
 * entities is not worth a request. */
#define FIRST_EVERY 64

struct parts {
    struct scan *scans[PARTS_MAX];
    size_t count, next;
    struct scan *last; /* scan whose page was returned last, or NULL */
    size_t pages;      /* number of pages that the closed scans received */
};

/* ---- choosing the bounds ---- */

void parts_sample_clear(struct parts_sample *sample)
{
    for (size_t i = 0; i < sample->count; i++)
        mem_free_slice(&sample->keys[i]);
    *sample = (struct parts_sample){.count = 0};
}

/* Double the distance between the sampled keys, by removing every other key. */
static void thin_out(struct parts_sample *sample)
{
    size_t count = 0;

    for (size_t i = 0; i < sample->count; i++) {
        if (i % 2 == 0)
            mem_free_slice(&sample->keys[i]);
        else
            sample->keys[count++] = sample->keys[i];
    }
    sample->count = count;
    sample->every *= 2;
}

void parts_sample_add(struct parts_sample *sample, const struct entity *entity)
{
    if (sample->every == 0)
        sample->every = sample->left = FIRST_EVERY;
    if (--sample->left > 0)
        return;
    if (sample->count == PARTS_SAMPLE_KEYS)
        thin_out(sample);
    sample->left = sample->every;
    sample->bytes = entity_size(entity);
    sample->keys[sample->count++] = mem_slice(entity->partition_key);
}

static int compare_keys(const void *left, const void *right)
{
    return slice_compare(
        *(const struct slice *)left, *(const struct slice *)right);
}

/* Do all stores agree which keys are before `key`? Stores order characters
 * beyond U+D7FF differently, so `key` may not have such a character. */
static bool is_ordered_alike(struct slice key)
{
    for (size_t i = 0; i < key.len; i++)
        if ((unsigned char)key.at[i] >= 0xee)
            return false;
    return true;
}

/* May one part of range end before key, and the next part begin with key? */
static bool can_part(const struct key_range *range, struct slice key)
{
    return is_ordered_alike(key) && !range->exact &&
           key_range_has(range, key) &&
           !(range->has_from && slice_equal(range->from, key));
}

/* Choose up to PARTS_MAX - 1 keys as bounds within range. */
static size_t choose_bounds(const struct parts_sample *sample,
    const struct key_range *range, struct slice *bounds)
{
    struct slice sorted[PARTS_SAMPLE_KEYS];
    size_t count = 0;

    memcpy(sorted, sample->keys, sample->count * sizeof(*sorted));
    qsort(sorted, sample->count, sizeof(*sorted), compare_keys);
    for (size_t i = 1; i < PARTS_MAX && sample->count >= PARTS_MAX; i++) {
        struct slice key = sorted[i * sample->count / PARTS_MAX];

        if (can_part(range, key) &&
            slice_compare(count > 0 ? bounds[count - 1] : sorted[0], key) < 0)
            bounds[count++] = key;
    }
    return count;
}

/* Returns the number of comparisons in the filter of a request for one part.
 * The comparisons of PartitionKeys are not counted, because the bounds of the
 * part replace them. */
static size_t comparisons_of(const struct scan_spec *spec)
{
    const struct key_range *row = &spec->row_key;
    const struct filter *filter;
    struct arena arena;
    size_t count = FILTER_MAX_COMPARISONS;

    arena_init(&arena);
    if (filter_parse(spec->filter, &arena, &filter, NULL) == TW_OK)
        count = filter_comparisons(filter) + row->has_from +
                (row->has_below && !row->exact);
    arena_done(&arena);
    return count;
}

/* May the table be read in parts? Only if the scan does not resume, and the
 * filter has room for both bounds of a part. */
static bool may_part(const struct scan_spec *spec)
{
    return !spec->resumed && comparisons_of(spec) + 2 <= FILTER_MAX_COMPARISONS;
}

/* ---- reading ---- */

struct parts *parts_open(struct pool_client *pool_client,
    const struct scan_spec *spec, const struct parts_sample *sample)
{
    struct parts *parts = mem_alloc(sizeof(*parts));
    struct slice bounds[PARTS_MAX - 1];
    bool parted = sample && may_part(spec);
    size_t count =
        parted ? choose_bounds(sample, &spec->partition_key, bounds) : 0;
    struct scan_spec part = *spec;

    if (count > 0) { /* all parts together take at most twice the memory of one
                      * scan */
        part.page_bytes = SCAN_PAGE_BYTES / 2;
        part.entity_bytes = sample->bytes;
        part.tells_share = false;
    }
    for (size_t i = 0; i <= count; i++) {
        struct key_range *range = &part.partition_key;

        *range = spec->partition_key;
        if (i > 0) {
            range->has_from = true;
            range->from_exclusive = false;
            range->from = bounds[i - 1];
        }
        if (i < count) {
            range->has_below = true;
            range->below = bounds[i];
        }
        parts->scans[parts->count++] = scan_open(pool_client, &part);
    }
    return parts;
}

/* Reads one page of each part in turn. While the caller works on a page, the
 * next pages of all parts are in flight. */
enum tw_err parts_next(
    struct parts *parts, const struct page **ret, struct err *err)
{
    if (parts->last && parts->count > 1)
        scan_drop_page(parts->last);
    parts->last = NULL;
    *ret = NULL;
    while (parts->count > 0) {
        size_t turn = parts->next % parts->count;
        struct scan *scan = parts->scans[turn];
        enum tw_err outcome = scan_next(scan, ret, err);

        parts->next = turn + 1;
        parts->last = *ret ? scan : NULL;
        if (outcome != TW_OK || *ret)
            return outcome;
        parts->pages += scan_pages(scan);
        scan_close(scan);
        parts->count--;
        memmove(&parts->scans[turn], &parts->scans[turn + 1],
            (parts->count - turn) * sizeof(*parts->scans));
        parts->next = turn;
    }
    return TW_OK;
}

size_t parts_pages(const struct parts *parts)
{
    size_t pages = parts->pages;

    for (size_t i = 0; i < parts->count; i++)
        pages += scan_pages(parts->scans[i]);
    return pages;
}

void parts_close(struct parts *parts)
{
    if (!parts)
        return;
    for (size_t i = 0; i < parts->count; i++)
        scan_give_up(parts->scans[i]);
    for (size_t i = 0; i < parts->count; i++)
        scan_close(parts->scans[i]);
    mem_free(parts);
}
