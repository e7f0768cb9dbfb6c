/* SPDX-License-Identifier: MIT */
/* One scan for the children of many entities. */
#include "jobs/cascade/ranges.h"

#include "worker/base/mem.h"

/* Number of wasted scans after which each entity gets its own scan. A scan is
 * wasted if it served only one entity, because it saved no request. */
#define WASTED_MAX 2

/* Some pages are read only to get from one span to the next. Their number may
 * exceed `helped` (the number of entities for which no scan had to be opened)
 * by this number. Beyond this limit one scan per entity is cheaper. */
#define GAP_MAX_PAGES 2

struct range_scan {
    struct pool_client *pool_client;
    struct scan *scan; /* the open scan; NULL: none is open */
    struct arena arena;
    struct span span; /* range of the open scan; in arena */
    struct slice low; /* keys below this were skipped or returned; in arena */
    bool at_end;      /* no keys remain, because a span without an end was
                         returned */
    const struct page *page;
    size_t at;       /* index of the first entity of page that was neither
                        skipped nor returned */
    bool ended;      /* the scan has no further page */
    unsigned served; /* number of entities that the open scan has served, the
                        first one included */
    unsigned wasted; /* number of wasted scans */
    unsigned helped; /* number of entities served by a scan that was already
                        open */
    unsigned gaps;   /* number of pages that all scans read between spans */
    size_t pages;    /* number of pages that closed scans read */
    size_t scans;    /* number of scans opened */
    bool is_useful;
    enum tw_err failed; /* outcome that ended a scan, or TW_OK */
};

/* ---- spans ---- */

/* Do UTF-16 order and code point order agree about which keys are before bound?
 */
static bool is_plain(struct slice bound)
{
    static const unsigned char first_lead = 0xee; /* first byte of U+E000 in
                                                     UTF-8 */

    for (size_t i = 0; i < bound.len; i++)
        if ((unsigned char)bound.at[i] >= first_lead)
            return false;
    return true;
}

static bool is_everything(const struct key_range *range)
{
    return !range->has_from && !range->has_below;
}

/* Returns key with a space appended. Keys contain no character below the space,
 * so the result is the least key that is greater than key. */
static struct slice just_above(struct slice key, struct arena *arena)
{
    return arena_format(arena, "%.*s ", SLICE_ARG(key));
}

static void set_bounds(
    struct span *span, const struct key_range *range, struct arena *arena)
{
    span->from = range->has_from ? range->from : slice_of("");
    span->ends = range->exact || range->has_below;
    if (range->exact)
        span->below = just_above(range->from, arena);
    else if (range->has_below)
        span->below = range->below;
}

struct span span_of(const struct scan_spec *spec, struct arena *arena)
{
    struct span span = {.kind = SPAN_NONE};

    if (spec->partition_key.exact) {
        span.kind = SPAN_ROWS;
        span.partition_key = spec->partition_key.from;
        if (!is_everything(&spec->row_key)) {
            set_bounds(&span, &spec->row_key, arena);
        } else { /* the keys are all of one partition */
            span.kind = SPAN_PARTITIONS;
            set_bounds(&span, &spec->partition_key, arena);
        }
    } else if (is_everything(&spec->row_key) &&
               !is_everything(&spec->partition_key)) {
        span.kind = SPAN_PARTITIONS;
        set_bounds(&span, &spec->partition_key, arena);
    }
    if (!is_plain(span.from) || (span.ends && !is_plain(span.below)))
        span.kind = SPAN_NONE;
    return span;
}

static bool same_stretch(const struct span *a, const struct span *b)
{
    return a->kind == b->kind && a->kind != SPAN_NONE &&
           (a->kind == SPAN_PARTITIONS ||
               slice_equal(a->partition_key, b->partition_key));
}

/* Is the end of span `b` at or before the end of span `a`? */
static bool ends_within(const struct span *a, const struct span *b)
{
    return !a->ends || (b->ends && slice_compare(b->below, a->below) <= 0);
}

static struct slice key_of(const struct span *span, const struct entity *entity)
{
    return span->kind == SPAN_ROWS ? entity->row_key : entity->partition_key;
}

/* ---- the scan ---- */

struct range_scan *range_scan_new(struct pool_client *pool_client)
{
    struct range_scan *ranges = mem_alloc(sizeof(*ranges));

    ranges->pool_client = pool_client;
    ranges->is_useful = true;
    arena_init(&ranges->arena);
    return ranges;
}

static void close_scan(struct range_scan *ranges)
{
    if (!ranges->scan)
        return;
    ranges->pages += scan_pages(ranges->scan);
    scan_close(ranges->scan);
    ranges->scan = NULL;
    ranges->page = NULL;
    if (ranges->served <= 1 && ++ranges->wasted == WASTED_MAX)
        ranges->is_useful = false;
}

void range_scan_free(struct range_scan *ranges)
{
    if (!ranges)
        return;
    close_scan(ranges);
    arena_done(&ranges->arena);
    mem_free(ranges);
}

bool range_scan_is_useful(const struct range_scan *ranges)
{
    return ranges->is_useful;
}

void range_scan_give_up(struct range_scan *ranges)
{
    close_scan(ranges);
    ranges->is_useful = false;
}

static bool covers(const struct range_scan *ranges, const struct span *span)
{
    return ranges->scan && !ranges->at_end &&
           same_stretch(&ranges->span, span) &&
           ends_within(&ranges->span, span) &&
           slice_compare(span->from, ranges->low) >= 0;
}

static enum tw_err next_page(struct range_scan *ranges, struct err *err)
{
    ranges->failed = scan_next(ranges->scan, &ranges->page, err);
    ranges->at = 0;
    ranges->ended = ranges->failed == TW_OK && ranges->page == NULL;
    return ranges->failed;
}

/* Skip the entities before span, and read further pages if necessary. *ret
 * becomes true when the scan is at an entity of span or after span, or has
 * ended; false: too many pages were read. */
static enum tw_err pass_by(struct range_scan *ranges, const struct span *span,
    bool *ret, struct err *err)
{
    *ret = true;
    while (!ranges->ended) {
        const struct page *page = ranges->page;
        enum tw_err outcome;

        while (page && ranges->at < page->count &&
               slice_compare(
                   key_of(span, &page->entities[ranges->at]), span->from) < 0)
            ranges->at++;
        if (page && ranges->at < page->count)
            return TW_OK;
        if (++ranges->gaps > ranges->helped + GAP_MAX_PAGES) {
            *ret = ranges->is_useful = false;
            return TW_OK;
        }
        outcome = next_page(ranges, err);
        if (outcome != TW_OK)
            return outcome;
    }
    return TW_OK;
}

enum tw_err range_scan_seek(struct range_scan *ranges, const struct span *span,
    bool *ret, struct err *err)
{
    enum tw_err outcome = TW_OK;

    *ret = false;
    if (ranges->failed != TW_OK)
        return ranges->failed;
    *ret = covers(ranges, span);
    if (*ret)
        outcome = pass_by(ranges, span, ret, err);
    if (outcome != TW_OK || !*ret) {
        close_scan(ranges);
        return outcome;
    }
    ranges->served++;
    ranges->helped++;
    return TW_OK;
}

static void set_range(struct scan_spec *spec, const struct span *span)
{
    struct key_range range = {.has_from = span->from.len > 0,
        .has_below = span->ends,
        .from = span->from,
        .below = span->below};

    if (span->kind == SPAN_ROWS) {
        spec->partition_key = key_range_exact(span->partition_key);
        spec->row_key = range;
    } else {
        spec->partition_key = range;
        spec->row_key = (struct key_range){0};
    }
}

bool range_scan_open(struct range_scan *ranges, struct scan_spec *spec,
    const struct span *span, const struct span *last)
{
    close_scan(ranges);
    if (!ranges->is_useful)
        return false;
    if (!same_stretch(span, last) || !span->ends ||
        slice_compare(span->from, last->from) >= 0) {
        ranges->served = 0;
        if (++ranges->wasted >= WASTED_MAX)
            ranges->is_useful = false;
        return false;
    }
    arena_clear(&ranges->arena);
    ranges->span = *last;
    if (last->ends && slice_compare(span->below, last->below) > 0)
        ranges->span.below = span->below;
    ranges->span.partition_key =
        arena_copy(&ranges->arena, span->partition_key);
    ranges->span.from = arena_copy(&ranges->arena, span->from);
    ranges->span.below = arena_copy(&ranges->arena, ranges->span.below);
    ranges->low = ranges->span.from;
    ranges->at_end = ranges->ended = false;
    ranges->at = 0;
    ranges->served = 1;
    set_range(spec, &ranges->span);
    ranges->scan = scan_open(ranges->pool_client, spec);
    ranges->scans++;
    return true;
}

/* Call when all of span was returned. After that the scan can serve only spans
 * that begin at or after the end of span. */
static void finish(struct range_scan *ranges, const struct span *span)
{
    ranges->at_end = !span->ends;
    if (span->ends)
        ranges->low = arena_copy(&ranges->arena, span->below);
}

enum tw_err range_scan_next(struct range_scan *ranges, const struct span *span,
    struct entity **ret, size_t *ret_count, struct err *err)
{
    *ret_count = 0;
    while (!ranges->ended) {
        const struct page *page = ranges->page;
        size_t begin, end;
        enum tw_err outcome;

        while (page && ranges->at < page->count &&
               slice_compare(
                   key_of(span, &page->entities[ranges->at]), span->from) < 0)
            ranges->at++;
        begin = end = ranges->at;
        while (page && end < page->count &&
               (!span->ends || slice_compare(key_of(span, &page->entities[end]),
                                   span->below) < 0))
            end++;
        if (end > begin) {
            *ret = &page->entities[begin];
            *ret_count = end - begin;
            ranges->at = end;
            return TW_OK;
        }
        if (page && begin < page->count)
            break;
        outcome = next_page(ranges, err);
        if (outcome != TW_OK)
            return outcome;
    }
    finish(ranges, span);
    return TW_OK;
}

size_t range_scan_pages(const struct range_scan *ranges)
{
    return ranges->pages + (ranges->scan ? scan_pages(ranges->scan) : 0);
}

size_t range_scan_scans(const struct range_scan *ranges)
{
    return ranges->scans;
}
