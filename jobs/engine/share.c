/* SPDX-License-Identifier: MIT */
/* Searches for the last key of a range, and finds out where another key is
 * between the first and the last one. */
#include "jobs/engine/share.h"

#include <string.h>

#include "jobs/engine/call.h"
#include "jobs/engine/run.h"
#include "jobs/engine/scan.h"
#include "worker/base/buf.h"
#include "worker/base/mem.h"
#include "worker/base/platform.h"
#include "worker/store/store.h"

/* The characters that the search tries in a key. If the last key has other
 * characters, the search may end at an earlier key; the share is then too high,
 * and is limited to 999. */
#define CHAR_FIRST 0x20
#define CHAR_LAST 0x7e
/* Number of characters of a key that are compared, beginning where the first
 * and the last key differ. */
#define CHARS_COMPARED 5
/* Number of these characters that are searched for in the last key. */
#define CHARS_SEARCHED 3
/* Numbers of ranks: of the decimal digits, of the hexadecimal digits, and of
 * all characters. */
#define DIGITS 10
#define HEX_DIGITS 16
#define RANKS 37
#define THOUSAND 1000
/* If spec->done_before is not 0 and the scan does not resume, a share is
 * computed only after this part of the range, in thousandths, is done. Before
 * that, the number of entities in the range cannot be estimated. */
#define PART_KNOWN 20

struct share {
    struct pool_client *pool_client;
    const struct scan_spec *spec;
    bool noted;      /* the first_... are set */
    bool asked;      /* the requests for the last key were made, or cannot be
                        made */
    bool known;      /* last is set */
    bool in_one;     /* the range has one partition, so RowKeys are compared */
    size_t requests; /* number of requests made so far */
    int64_t began_ms, read_before; /* began_ms: platform_boot_ms() when the scan
                                    * began; read_before: counts.read of the run
                                    * at that time */
    int begun;   /* the share at the first page; more than 0 if an earlier
                    attempt has read some entities */
    int reached; /* the highest share so far */
    struct slice first_partition, first_row; /* first keys of the first page;
                                                owned */
    struct slice last;                       /* owned */
};

/* ---- interpolation ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Returns the rank of a character. An upper and a lower case letter have the
 * same rank, because keys rarely mix them. All characters between digits and
 * letters also share a rank, because keys rarely have many of them. */
static int rank(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'A' && c <= 'Z')
        return DIGITS + c - 'A';
    if (c >= 'a' && c <= 'z')
        return DIGITS + c - 'a';
    if ((unsigned char)c > 'z')
        return RANKS - 1;
    return c < '0' ? 0 : DIGITS;
}

static size_t common_len(struct slice a, struct slice b)
{
    size_t len = 0;

    while (len < a.len && len < b.len && a.at[len] == b.at[len])
        len++;
    return len;
}

/* Returns the number of ranks of the characters that other keys probably have
 * in the place of c: decimal digits, hexadecimal digits or all characters. */
static int base_of(char c)
{
    if (is_digit(c))
        return DIGITS;
    return (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f') ? HEX_DIGITS
                                                            : RANKS;
}

static int rank_at(struct slice key, size_t at)
{
    return at < key.len ? rank(key.at[at]) : 0;
}

int share_between(struct slice first, struct slice last, struct slice key)
{
    const struct slice keys[] = {first, last, key};
    size_t from = common_len(first, last);
    double numbers[] = {0, 0, 0}, unit = 1;
    double part;

    if (common_len(first, key) < from)
        return -1;
    /* Turn each key into a number whose digits are the ranks of its characters.
     */
    for (size_t at = from; at < from + CHARS_COMPARED; at++) {
        int base = DIGITS;

        for (size_t i = 0; i < 3; i++) {
            numbers[i] += rank_at(keys[i], at) * unit;
            if (at + 1 < keys[i].len && base_of(keys[i].at[at + 1]) > base)
                base = base_of(keys[i].at[at + 1]);
        }
        unit /= base;
    }
    if (numbers[1] <= numbers[0])
        return -1;
    part = (numbers[2] - numbers[0]) / (numbers[1] - numbers[0]);
    if (part < 0)
        return 0;
    return part < 1 ? (int)(part * THOUSAND) : THOUSAND - 1;
}

/* ---- the last key ---- */

static struct slice key_of(
    const struct share *share, const struct entity *entity)
{
    return share->in_one ? entity->row_key : entity->partition_key;
}

static struct slice first_of(const struct share *share)
{
    return share->in_one ? share->first_row : share->first_partition;
}

static struct scan_request request_from(
    const struct share *share, struct slice from)
{
    static const struct slice keys_only[1];
    struct scan_request request = {.table = share->spec->table,
        .partition_key = share->spec->partition_key,
        .select = keys_only,
        .top = 1};
    struct key_range *range = &request.partition_key;

    if (share->in_one) {
        request.partition_key = key_range_exact(share->first_partition);
        request.row_key = share->spec->row_key;
        range = &request.row_key;
    }
    range->has_from = true;
    range->from_exclusive = false;
    range->from = from;
    return request;
}

/* Find the first key that is not before `from`, a key within the range. The
 * job's own filter is not used, because a request with it takes long if few
 * entities match. If there is such a key, *ret_found becomes true, and *ret is
 * replaced by the key. False: a request failed, or too many requests were made.
 */
static bool find_key(
    struct share *share, struct slice from, bool *ret_found, struct slice *ret)
{
    struct scan_request request = request_from(share, from);
    struct page page;
    struct err ignored;
    bool good = true;

    page_init(&page);
    do {
        good = share->requests++ < SHARE_MAX_REQUESTS &&
               !run_stopping(share->spec->run) &&
               call_scan(share->pool_client, share->spec->store, &request,
                   &page, &ignored) == TW_OK;
        *ret_found = good && page.count > 0;
        request.from = page.next;
        if (*ret_found) {
            mem_free_slice(ret);
            *ret = mem_slice(key_of(share, &page.entities[0]));
        }
    } while (good && !*ret_found && request.from.more);
    page_done(&page);
    return good;
}

/* Is there a key that begins with the first `len` characters of share->last,
 * then has c or a later character? If so, it becomes share->last. */
static bool find_later(struct share *share, size_t len, int c, bool *ret_found)
{
    struct buf from;
    bool good;

    buf_init(&from, len + 2);
    buf_add_slice(&from, (struct slice){share->last.at, len});
    buf_add_char(&from, (char)c);
    good = find_key(share, buf_slice(&from), ret_found, &share->last);
    buf_done(&from);
    return good;
}

/* Returns the character of share->last at index `at` or, if share->last ends
 * there, a character before all others.
 */
static int char_at(const struct share *share, size_t at)
{
    return at < share->last.len ? (unsigned char)share->last.at[at]
                                : CHAR_FIRST - 1;
}

/* Among the keys that have the same first `at` characters as share->last, find
 * one whose next character is the last in order, and make it share->last. `at`
 * is at most the length of share->last. */
static bool raise_char(struct share *share, size_t at)
{
    int below = CHAR_LAST + 1, c = char_at(share, at) + 1;
    bool found;

    /* The next higher character is tried first: often no key has a higher one,
     * and one request then ends the search. */
    while (c < below) {
        if (!find_later(share, at, c, &found))
            return false;
        if (!found)
            below = c;
        c = char_at(share, at);
        c = c + 1 + (below - c - 1) / 2;
    }
    return true;
}

/* Search for the last key of the range (of PartitionKeys or of RowKeys),
 * beginning at the key of present, which exists. */
static bool search_last(struct share *share, const struct entity *present)
{
    mem_free_slice(&share->last);
    share->last = mem_slice(key_of(share, present));
    for (size_t at = 0;
         at <= share->last.len &&
         at < common_len(first_of(share), share->last) + CHARS_SEARCHED;
         at++)
        if (!raise_char(share, at))
            return false;
    return true;
}

/* Find the last PartitionKey or, if there is only one partition, the last
 * RowKey. */
static bool find_last(struct share *share, const struct entity *present)
{
    share->in_one = share->spec->partition_key.exact;
    if (!search_last(share, present))
        return false;
    if (share->in_one || !slice_equal(share->last, share->first_partition))
        return true;
    share->in_one = true;
    return search_last(share, present);
}

/* ---- public functions ---- */

struct share *share_new(
    struct pool_client *pool_client, const struct scan_spec *spec)
{
    struct share *share = mem_alloc(sizeof(*share));
    int before = atomic_load(&spec->run->share);

    share->pool_client = pool_client;
    share->spec = spec;
    share->begun = spec->resumed && before > 0 ? before : 0;
    share->reached =
        spec->done_before > 0 && before > 0 ? before : share->begun;
    share->began_ms = platform_boot_ms();
    share->read_before = atomic_load(&spec->run->counts.read);
    share->asked = !spec->store->capabilities.ordered;
    return share;
}

void share_free(struct share *share)
{
    if (!share)
        return;
    mem_free_slice(&share->first_partition);
    mem_free_slice(&share->first_row);
    mem_free_slice(&share->last);
    mem_free(share);
}

static void note_first(struct share *share, const struct entity *first)
{
    if (share->noted)
        return;
    share->noted = true;
    share->first_partition = mem_slice(first->partition_key);
    share->first_row = mem_slice(first->row_key);
}

/* Is the run large enough, or the scan so slow, that the requests for the last
 * key do not matter? */
static bool is_worth_it(const struct share *share)
{
    return atomic_load(&share->spec->run->counts.read) >=
               SHARE_AFTER_ENTITIES ||
           platform_boot_ms() - share->began_ms >= SHARE_AFTER_MS;
}

/* Returns the share of the run if `part`, in thousandths, of the scan's range
 * is done, or -1 if it is not known yet. */
static int share_of_run(const struct share *share, int part)
{
    double before = (double)share->spec->done_before;
    double read = (double)(atomic_load(&share->spec->run->counts.read) -
                           share->read_before);
    double all;

    if (share->begun > 0 || before <= 0)
        return share->begun + part * (THOUSAND - share->begun) / THOUSAND;
    if (part < PART_KNOWN || read <= 0)
        return -1;
    all = before + read * THOUSAND / part;
    part = (int)((before + read) * THOUSAND / all);
    return part < THOUSAND ? part : THOUSAND - 1;
}

void share_note(struct share *share, const struct entity *present)
{
    int part;

    note_first(share, present);
    if (!share->asked && is_worth_it(share)) {
        share->asked = true;
        share->known = find_last(share, present);
    }
    if (!share->known)
        return;
    part = share_between(first_of(share), share->last, key_of(share, present));
    if (part >= 0)
        part = share_of_run(share, part);
    if (part < 0)
        return;
    if (part > share->reached)
        share->reached = part;
    if (share->spec->share)
        *share->spec->share = share->reached;
    else
        atomic_store(&share->spec->run->share, share->reached);
}
