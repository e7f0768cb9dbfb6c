/* SPDX-License-Identifier: MIT */
/*
 * One scanner for flat objects and whole texts. The scanner checks all text
 * that it moves past. So a slice of scanned text, such as a string that is
 * decoded later, is known to be valid.
 *
 * The members of a flat object are collected in a list that the caller keeps; a
 * whole text becomes a tree in an arena. Both take at most O(n log n) time for
 * a text of length n.
 */
#include "worker/base/json.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "worker/base/mem.h"
#include "worker/base/text.h"

/* ---- reading ---- */

struct scan {
    const char *start;
    const char *at;
    const char *end;
    struct arena *arena; /* memory of decoded names and strings */
    struct err *err;
    size_t values_left, max_values;
};

static enum tw_err refuse_at(
    const struct scan *scan, const char *at, const char *what)
{
    return err_fail(scan->err, TW_INVALID, "not valid JSON at byte %zu: %s",
        (size_t)(at - scan->start), what);
}

static enum tw_err refuse(const struct scan *scan, const char *what)
{
    return refuse_at(
        scan, scan->at, scan->at == scan->end ? "it ends too early" : what);
}

static void skip_blanks(struct scan *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\n' ||
                                       *scan->at == '\r' || *scan->at == '\t'))
        scan->at++;
}

/* Move past c, if c is the next character. */
static bool accept(struct scan *scan, char c)
{
    if (scan->at == scan->end || *scan->at != c)
        return false;
    scan->at++;
    return true;
}

static bool accept_after_blanks(struct scan *scan, char c)
{
    skip_blanks(scan);
    return accept(scan, c);
}

/* Returns the code unit of the four hex digits at `at`, or -1. */
static int hex_unit(const char *at, const char *end)
{
    int unit = 0;

    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;

        if (digit < 0)
            return -1;
        unit = unit << 4 | digit;
    }
    return unit;
}

/* A string that was scanned and not decoded. */
struct string {
    struct slice raw; /* text of the string, with both quotes */
    bool escaped, has_nul;
};

/* Is c, after a backslash, a valid escape of two characters? */
static bool is_short_escape(char c)
{
    switch (c) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        return true;
    default:
        return false;
    }
}

/* Read the escape whose backslash is next. */
static enum tw_err scan_escape(struct scan *scan, struct string *string)
{
    int unit;

    string->escaped = true;
    if (scan->end - scan->at < 2)
        return refuse_at(scan, scan->end, "it ends too early");
    if (scan->at[1] == 'u') {
        unit = hex_unit(scan->at + 2, scan->end);
        if (unit < 0)
            return refuse(scan, "\\u needs four hex digits");
        string->has_nul |= unit == 0;
        scan->at += 6;
        return TW_OK;
    }
    if (!is_short_escape(scan->at[1]))
        return refuse(scan, "an unknown escape");
    scan->at += 2;
    return TW_OK;
}

/* A number with `byte` in each of its eight bytes. */
#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
#define HIGH_BITS EACH(0x80)

/*
 * Returns a number in which the high bit of a byte is set if the same byte of
 * `eight` is a quote, a backslash or a control character. Only the lowest set
 * bit is reliable: higher bits may be wrong, because the subtraction borrows
 * from higher bytes.
 */
static uint64_t find_stops(uint64_t eight)
{
    uint64_t quote = eight ^ EACH('"'), backslash = eight ^ EACH('\\');

    return (((quote - EACH(1)) & ~quote) |
               ((backslash - EACH(1)) & ~backslash) |
               ((eight - EACH(0x20)) & ~eight)) &
           HIGH_BITS;
}

/* Like find_stops(), but only for backslashes. */
static uint64_t find_backslash(uint64_t eight)
{
    uint64_t backslash = eight ^ EACH('\\');

    return (backslash - EACH(1)) & ~backslash & HIGH_BITS;
}

/* Returns the eight bytes at `at` as a number whose lowest byte is the first
 * one. */
static uint64_t load_eight(const char *at)
{
    uint64_t eight;

    memcpy(&eight, at, sizeof(eight));
    return le64toh(eight);
}

/* Returns the number of bytes before the first byte whose high bit is set in
 * stops. */
static size_t before_stop(uint64_t stops)
{
    return stops ? (size_t)__builtin_ctzll(stops) / 8 : sizeof(stops);
}

/* Move past the bytes of a string that need no check, up to a quote, a
 * backslash or a control character. *ret_ascii: all of them are ASCII. */
static void skip_plain(struct scan *scan, bool *ret_ascii)
{
    const char *at = scan->at;
    uint64_t seen = 0, stops = 0;

    while (stops == 0 && scan->end - at >= (ptrdiff_t)sizeof(uint64_t)) {
        uint64_t eight = load_eight(at);

        seen |= eight;
        stops = find_stops(eight);
        at += before_stop(stops);
    }
    while (stops == 0 && at < scan->end && *at != '"' && *at != '\\' &&
           (unsigned char)*at >= 0x20)
        seen |= (unsigned char)*at++;
    *ret_ascii = (seen & HIGH_BITS) == 0;
    scan->at = at;
}

/* Read the string whose quote is next. */
static enum tw_err scan_string(struct scan *scan, struct string *ret)
{
    const char *from = scan->at++;
    enum tw_err outcome = TW_OK;

    *ret = (struct string){0};
    while (outcome == TW_OK) {
        const char *run = scan->at;
        bool ascii;

        skip_plain(scan, &ascii);
        if (!ascii && !text_is_utf8((struct slice){run, scan->at - run}))
            return refuse_at(scan, run, "a string that is not UTF-8");
        if (accept(scan, '"'))
            break;
        if (scan->at < scan->end && *scan->at == '\\')
            outcome = scan_escape(scan, ret);
        else
            outcome = refuse(scan, "a control character in a string");
    }
    ret->raw = (struct slice){from, (size_t)(scan->at - from)};
    return outcome;
}

static void skip_digits(struct scan *scan)
{
    while (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
        scan->at++;
}

/* Move past digits; false: the next character is no digit. */
static bool accept_digits(struct scan *scan)
{
    const char *from = scan->at;

    skip_digits(scan);
    return scan->at > from;
}

static enum tw_err scan_number(struct scan *scan)
{
    accept(scan, '-');
    if (!accept(scan, '0') && !accept_digits(scan))
        return refuse(scan, "a number needs a digit here");
    if (accept(scan, '.') && !accept_digits(scan))
        return refuse(scan, "a number needs a digit after its point");
    if (accept(scan, 'e') || accept(scan, 'E')) {
        if (!accept(scan, '+'))
            accept(scan, '-');
        if (!accept_digits(scan))
            return refuse(scan, "a number needs a digit in its exponent");
    }
    if (scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9')
        return refuse(scan, "a number with a leading zero");
    return TW_OK;
}

/* Read true, false or null. */
static enum tw_err scan_word(struct scan *scan, enum json_type *ret_type)
{
    static const struct {
        struct slice word;
        enum json_type type;
    } words[] = {
        {{"true", 4}, JSON_BOOLEAN},
        {{"false", 5}, JSON_BOOLEAN},
        {{"null", 4}, JSON_NULL},
    };
    struct slice rest = {scan->at, (size_t)(scan->end - scan->at)};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (!slice_begins(rest, words[i].word))
            continue;
        *ret_type = words[i].type;
        scan->at += words[i].word.len;
        return TW_OK;
    }
    return refuse(scan, "a value is needed here");
}

/* Move to the first byte of the next value, and count it in the budget. */
static enum tw_err begin_value(struct scan *scan)
{
    skip_blanks(scan);
    if (scan->at == scan->end)
        return refuse(scan, "");
    if (scan->values_left == 0)
        return err_fail(scan->err, TW_INVALID,
            "JSON of more than %zu values, which is the maximum, at byte %zu",
            scan->max_values, (size_t)(scan->at - scan->start));
    scan->values_left--;
    return TW_OK;
}

/* Read the next value. Call only if it is neither an array nor an object. */
static enum tw_err scan_scalar(struct scan *scan, struct json_member *ret)
{
    const char *from = scan->at;
    struct string string = {0};
    enum tw_err outcome;

    if (*from == '"') {
        ret->type = JSON_STRING;
        outcome = scan_string(scan, &string);
    } else if (*from == '-' || (*from >= '0' && *from <= '9')) {
        ret->type = JSON_NUMBER;
        outcome = scan_number(scan);
    } else {
        outcome = scan_word(scan, &ret->type);
    }
    ret->escaped = string.escaped;
    ret->raw = (struct slice){from, (size_t)(scan->at - from)};
    return outcome;
}

/* ---- decoding ---- */

/* Returns the UTF-16 unit of a \uXXXX at `at`; 0: there is no \uXXXX. */
static unsigned escaped_unit(const char *at, size_t len)
{
    unsigned unit = 0;

    if (len < 6 || at[0] != '\\' || at[1] != 'u')
        return 0;
    for (size_t i = 2; i < 6; i++) {
        char c = at[i];
        unsigned digit =
            c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;

        unit = unit * 16 + digit;
    }
    return unit;
}

bool json_has_lone_surrogate(struct slice raw)
{
    size_t step;

    for (size_t i = 0; i < raw.len; i += step) {
        unsigned unit = escaped_unit(raw.at + i, raw.len - i);

        step = raw.at[i] == '\\' ? 2 : 1;
        if (unit < 0xd800 || unit > 0xdfff)
            continue;
        if (unit > 0xdbff || raw.len - i < 12)
            return true;
        unit = escaped_unit(raw.at + i + 6, raw.len - i - 6);
        if (unit < 0xdc00 || unit > 0xdfff)
            return true;
        step = 12;
    }
    return false;
}

/* Decode the \u escape at `at`, or the two escapes of a surrogate pair, to
 * *ret_to. A lone surrogate becomes U+FFFD. Returns the end of the escape. */
static const char *decode_unit(const char *at, const char *end, char **ret_to)
{
    int unit = hex_unit(at + 2, end), low = -1;
    uint32_t c = (uint32_t)unit;

    at += 6;
    if (unit >= 0xd800 && unit < 0xe000) {
        c = 0xfffd;
        if (unit < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u')
            low = hex_unit(at + 2, end);
        if (low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((uint32_t)(unit - 0xd800) << 10) +
                (uint32_t)(low - 0xdc00);
            at += 6;
        }
    }
    *ret_to += text_put(c, *ret_to);
    return at;
}

static char decode_short(char c)
{
    switch (c) {
    case 'b':
        return '\b';
    case 'f':
        return '\f';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return c; /* a quote, a backslash or a slash */
    }
}

/* Copy the bytes before the next backslash, or before `end` if there is no
 * backslash. Up to eight bytes after the copy are overwritten with garbage;
 * they are within the output buffer, if the output so far is not longer than
 * the input. Returns the end of the copied input. */
static const char *copy_plain(const char *at, const char *end, char **ret_to)
{
    char *to = *ret_to;
    uint64_t stops = 0;

    while (stops == 0 && end - at >= (ptrdiff_t)sizeof(uint64_t)) {
        memcpy(to, at, sizeof(uint64_t));
        stops = find_backslash(load_eight(at));
        to += before_stop(stops);
        at += before_stop(stops);
    }
    while (stops == 0 && at < end && *at != '\\')
        *to++ = *at++;
    *ret_to = to;
    return at;
}

/* Decode a string with escapes, which scan_string() has checked, into arena. No
 * escape is shorter than its decoded character. */
static struct slice decode(struct slice raw, struct arena *arena)
{
    const char *at = raw.at + 1, *end = raw.at + raw.len - 1;
    char *text = arena_alloc(arena, raw.len), *to = text;

    for (;;) {
        at = copy_plain(at, end, &to);
        if (at == end)
            break;
        if (at[1] == 'u') {
            at = decode_unit(at, end, &to);
        } else {
            *to++ = decode_short(at[1]);
            at += 2;
        }
    }
    return (struct slice){text, (size_t)(to - text)};
}

static struct slice text_of(struct slice raw, bool escaped, struct arena *arena)
{
    return escaped ? decode(raw, arena)
                   : (struct slice){raw.at + 1, raw.len - 2};
}

/* Read "name": and move to the value. */
static enum tw_err scan_name(struct scan *scan, struct json_member *ret)
{
    struct string string;
    enum tw_err outcome;

    skip_blanks(scan);
    if (scan->at == scan->end || *scan->at != '"')
        return refuse(scan, "a name in double quotes is needed here");
    ret->name_at = scan->at;
    outcome = scan_string(scan, &string);
    if (outcome != TW_OK)
        return outcome;
    if (string.has_nul)
        return refuse_at(scan, ret->name_at, "a name with a NUL");
    if (!accept_after_blanks(scan, ':'))
        return refuse(scan, "a colon is needed here");
    ret->name = text_of(string.raw, string.escaped, scan->arena);
    return TW_OK;
}

/* ---- duplicate names ---- */

/* The largest number of names that are compared pairwise; more names are
 * sorted. */
#define FEW_NAMES 24

/* The names in an array of members, or of structs that begin with a member. */
struct names {
    const struct json_member *first;
    size_t stride, count;
};

static const struct json_member *member_at(
    const struct names *names, size_t index)
{
    return (const void *)((const char *)names->first + index * names->stride);
}

static struct slice name_at(const struct names *names, size_t index)
{
    return member_at(names, index)->name;
}

/* Compares two names: by length, then by bytes. */
static int compare_names(struct slice a, struct slice b)
{
    if (a.len != b.len)
        return a.len < b.len ? -1 : 1;
    return a.len == 0 ? 0 : memcmp(a.at, b.at, a.len);
}

/* Merge the sorted runs from[0..middle) and from[middle..count) into to. */
static void merge_runs(const struct names *names, const uint32_t *from,
    size_t middle, size_t count, uint32_t *to)
{
    size_t a = 0, b = middle;

    for (size_t i = 0; i < count; i++) {
        bool second =
            a == middle || (b < count && compare_names(name_at(names, from[b]),
                                             name_at(names, from[a])) < 0);

        to[i] = from[second ? b++ : a++];
    }
}

/*
 * Write the indices of names to sorted, ordered by name; equal names keep the
 * order of the text. sorted has room for twice the number of names. A merge
 * sort, because its time is O(n log n) for every input.
 */
static void sort_names(const struct names *names, uint32_t *sorted)
{
    size_t count = names->count;
    uint32_t *from = sorted, *to = sorted + count;

    for (size_t i = 0; i < count; i++)
        from[i] = (uint32_t)i;
    for (size_t run = 1; run < count; run *= 2) {
        uint32_t *merged = to;

        for (size_t at = 0; at < count; at += 2 * run) {
            size_t both = count - at < 2 * run ? count - at : 2 * run;

            merge_runs(
                names, from + at, both < run ? both : run, both, to + at);
        }
        to = from;
        from = merged;
    }
    if (from != sorted)
        memcpy(sorted, from, count * sizeof(*sorted));
}

/* Returns the first member whose name an earlier member has; NULL: all names
 * are different. sorted: the result of sort_names(); NULL: the names are few,
 * and are compared pairwise. */
static const struct json_member *find_repeated(
    const struct names *names, const uint32_t *sorted)
{
    size_t first = names->count;

    if (sorted) {
        for (size_t i = 1; i < names->count; i++)
            if (sorted[i] < first && slice_equal(name_at(names, sorted[i - 1]),
                                         name_at(names, sorted[i])))
                first = sorted[i];
    } else {
        for (size_t i = 1; i < first; i++)
            for (size_t before = 0; before < i; before++)
                if (slice_equal(name_at(names, before), name_at(names, i)))
                    first = i;
    }
    return first < names->count ? member_at(names, first) : NULL;
}

static enum tw_err check_names(
    const struct scan *scan, const struct names *names, const uint32_t *sorted)
{
    const struct json_member *repeated = find_repeated(names, sorted);

    return repeated ? refuse_at(scan, repeated->name_at,
                          "a name that this object already has")
                    : TW_OK;
}

/* ---- flat objects ---- */

/* The annotations of an object. The last value of each name replaces earlier
 * ones. */
struct annotations {
    struct slice prefix; /* prefix of annotation names; if its `at` is NULL, no
                            name is an annotation */
    size_t places[JSON_MAX_ANNOTATIONS];
    size_t count;
};

/* Returns the index at which the last member of the list is to be stored. If it
 * repeats an annotation, that is the index of the earlier annotation; else it
 * is the member's present index. */
static size_t place_of_last(
    struct annotations *annotations, const struct json_members *members)
{
    size_t last = members->count;
    struct slice name = members->list[last].name;

    if (!annotations->prefix.at || !slice_begins(name, annotations->prefix))
        return last;
    for (size_t i = 0; i < annotations->count; i++)
        if (slice_equal(members->list[annotations->places[i]].name, name))
            return annotations->places[i];
    if (annotations->count < JSON_MAX_ANNOTATIONS)
        annotations->places[annotations->count++] = last;
    return last;
}

static void make_room(struct json_members *members)
{
    if (members->count < members->room)
        return;
    members->room = members->room ? 2 * members->room : 32;
    members->list =
        mem_resize(members->list, members->room * sizeof(*members->list));
}

static enum tw_err scan_member(struct scan *scan,
    struct annotations *annotations, struct json_members *members)
{
    struct json_member *member;
    size_t place;
    enum tw_err outcome;

    make_room(members);
    member = &members->list[members->count];
    outcome = scan_name(scan, member);
    if (outcome == TW_OK)
        outcome = begin_value(scan);
    if (outcome == TW_OK && (*scan->at == '{' || *scan->at == '['))
        outcome = refuse(scan, "nested too deeply");
    if (outcome == TW_OK)
        outcome = scan_scalar(scan, member);
    if (outcome != TW_OK)
        return outcome;
    place = place_of_last(annotations, members);
    members->list[place] = *member;
    members->count += place == members->count;
    return TW_OK;
}

static enum tw_err scan_members(
    struct scan *scan, const char *annotation, struct json_members *members)
{
    struct annotations annotations = {.prefix = slice_of(annotation)};
    enum tw_err outcome = begin_value(scan);

    if (outcome != TW_OK)
        return outcome;
    if (!accept(scan, '{'))
        return refuse(scan, "an object is needed here");
    if (accept_after_blanks(scan, '}'))
        return TW_OK;
    do
        outcome = scan_member(scan, &annotations, members);
    while (outcome == TW_OK && accept_after_blanks(scan, ','));
    if (outcome == TW_OK && !accept_after_blanks(scan, '}'))
        outcome = refuse(scan, "a comma or } is needed here");
    return outcome;
}

static struct names names_of(const struct json_members *members)
{
    return (struct names){
        members->list, sizeof(*members->list), members->count};
}

/* Returns the indices of the members, sorted by name. NULL: there are at most
 * FEW_NAMES members, which are not sorted. */
static const uint32_t *sort_members(struct json_members *members)
{
    const struct names names = names_of(members);

    if (names.count <= FEW_NAMES)
        return NULL;
    if (members->by_name_room < 2 * names.count) {
        members->by_name_room = 2 * members->room;
        members->by_name = mem_resize(members->by_name,
            members->by_name_room * sizeof(*members->by_name));
    }
    sort_names(&names, members->by_name);
    return members->by_name;
}

void json_members_init(struct json_members *members)
{
    *members = (struct json_members){0};
}

void json_members_done(struct json_members *members)
{
    mem_free(members->list);
    mem_free(members->by_name);
    json_members_init(members);
}

/* Begin a scan at the start of text. */
static struct scan scan_of(
    struct slice text, size_t max_values, struct arena *arena, struct err *err)
{
    return (struct scan){
        .start = text.at,
        .at = text.at,
        .end = text.len ? text.at + text.len : text.at,
        .arena = arena,
        .err = err,
        .values_left = max_values,
        .max_values = max_values,
    };
}

enum tw_err json_flat_object(struct slice text, const char *annotation,
    struct arena *arena, struct json_members *members, size_t *ret_end,
    struct err *err)
{
    /* 1 more, because the object itself counts as a value. */
    struct scan scan = scan_of(text, 1 + JSON_MAX_MEMBERS, arena, err);
    struct names names;
    enum tw_err outcome;

    members->count = 0;
    outcome = scan_members(&scan, annotation, members);
    if (outcome == TW_OK) {
        names = names_of(members);
        outcome = check_names(&scan, &names, sort_members(members));
    }
    if (outcome == TW_OK)
        *ret_end = (size_t)(scan.at - scan.start);
    else
        members->count = 0;
    return outcome;
}

/* Find name by binary search. Returns its index, or names->count if it is not
 * found. */
static size_t search(
    const struct names *names, const uint32_t *sorted, struct slice name)
{
    size_t from = 0, below = names->count;

    while (from < below) {
        size_t middle = from + (below - from) / 2;
        int order = compare_names(name, name_at(names, sorted[middle]));

        if (order == 0)
            return sorted[middle];
        if (order < 0)
            below = middle;
        else
            from = middle + 1;
    }
    return names->count;
}

size_t json_members_find(const struct json_members *members, struct slice name)
{
    const struct names names = names_of(members);
    size_t i = 0;

    if (names.count > FEW_NAMES)
        return search(&names, members->by_name, name);
    while (i < names.count && !slice_equal(members->list[i].name, name))
        i++;
    return i;
}

struct slice json_member_text(
    const struct json_member *member, struct arena *arena)
{
    assert(member->type == JSON_STRING);
    return text_of(member->raw, member->escaped, arena);
}

bool json_unquote(struct slice raw, struct arena *arena, struct slice *ret)
{
    struct scan scan = scan_of(raw, 1, arena, NULL);
    struct string string;

    if (raw.len == 0 || raw.at[0] != '"' ||
        scan_string(&scan, &string) != TW_OK || scan.at != scan.end)
        return false;
    *ret = text_of(raw, string.escaped, arena);
    return true;
}

/* ---- whole texts ---- */

struct json {
    struct json_member member; /* has a name only if it is a member of an
                                  object */
    struct slice text;         /* decoded text of a string */
    struct json *children;     /* `count` values, in the document's arena */
    size_t count;
};

/* What json_parse() returns: the root value, and the arena of the whole
 * tree. */
struct document {
    struct json root; /* must be first: json_free() casts a pointer to root to
                         the document */
    struct arena arena;
};

struct tree {
    struct scan scan;
    unsigned depth_left;
    /* Children of the open containers; children of the innermost container are
     * last. */
    struct json *stack;
    size_t stack_count, stack_room;
};

/* Add child to the children of the innermost open container. */
static void push(struct tree *tree, const struct json *child)
{
    if (tree->stack_count == tree->stack_room) {
        tree->stack_room = tree->stack_room ? 2 * tree->stack_room : 32;
        tree->stack =
            mem_resize(tree->stack, tree->stack_room * sizeof(*tree->stack));
    }
    tree->stack[tree->stack_count++] = *child;
}

/* Move children from the stack, beginning at index `from`, to value. */
static void adopt(struct tree *tree, struct json *value, size_t from)
{
    size_t count = tree->stack_count - from;

    value->count = count;
    tree->stack_count = from;
    if (count == 0)
        return;
    value->children =
        arena_alloc(tree->scan.arena, count * sizeof(*value->children));
    memcpy(
        value->children, tree->stack + from, count * sizeof(*value->children));
}

static enum tw_err check_children(const struct tree *tree, size_t from)
{
    const struct names names = {&tree->stack[from].member, sizeof(*tree->stack),
        tree->stack_count - from};
    uint32_t *sorted = NULL;
    enum tw_err outcome;

    if (names.count > FEW_NAMES) {
        sorted = mem_array(2 * names.count, sizeof(*sorted));
        sort_names(&names, sorted);
    }
    outcome = check_names(&tree->scan, &names, sorted);
    mem_free(sorted);
    return outcome;
}

static enum tw_err read_value(struct tree *tree, struct json *value);

/* Read the children of a container and its closing bracket. */
static enum tw_err read_children(struct tree *tree, bool object)
{
    struct scan *scan = &tree->scan;
    char close = object ? '}' : ']';

    if (accept_after_blanks(scan, close))
        return TW_OK;
    do {
        struct json child = {0};
        enum tw_err outcome = object ? scan_name(scan, &child.member) : TW_OK;

        if (outcome == TW_OK)
            outcome = read_value(tree, &child);
        if (outcome != TW_OK)
            return outcome;
        push(tree, &child);
    } while (accept_after_blanks(scan, ','));
    if (!accept_after_blanks(scan, close))
        return refuse(scan, object ? "a comma or } is needed here"
                                   : "a comma or ] is needed here");
    return TW_OK;
}

/* Read an array or an object, whose bracket is next. */
static enum tw_err read_container(struct tree *tree, struct json *value)
{
    const char *from = tree->scan.at;
    bool object = *from == '{';
    size_t first = tree->stack_count;
    enum tw_err outcome;

    if (tree->depth_left == 0)
        return refuse(&tree->scan, "nested too deeply");
    tree->depth_left--;
    tree->scan.at++;
    outcome = read_children(tree, object);
    if (outcome == TW_OK && object && tree->stack_count > first)
        outcome = check_children(tree, first);
    if (outcome != TW_OK)
        return outcome;
    tree->depth_left++;
    adopt(tree, value, first);
    value->member.type = object ? JSON_OBJECT : JSON_ARRAY;
    value->member.raw = (struct slice){from, (size_t)(tree->scan.at - from)};
    return TW_OK;
}

static enum tw_err read_value(struct tree *tree, struct json *value)
{
    enum tw_err outcome = begin_value(&tree->scan);

    if (outcome != TW_OK)
        return outcome;
    if (*tree->scan.at == '{' || *tree->scan.at == '[')
        return read_container(tree, value);
    outcome = scan_scalar(&tree->scan, &value->member);
    if (outcome == TW_OK && value->member.type == JSON_STRING)
        value->text = json_member_text(&value->member, tree->scan.arena);
    return outcome;
}

static enum tw_err read_text(struct tree *tree, struct json *root)
{
    enum tw_err outcome = read_value(tree, root);

    if (outcome != TW_OK)
        return outcome;
    skip_blanks(&tree->scan);
    return tree->scan.at == tree->scan.end
               ? TW_OK
               : refuse(&tree->scan, "text after the end of the value");
}

enum tw_err json_parse(
    struct slice text, unsigned max_depth, struct json **ret, struct err *err)
{
    struct document *document = mem_alloc(sizeof(*document));
    struct tree tree = {
        .scan = scan_of(text, JSON_MAX_VALUES, &document->arena, err),
        .depth_left = max_depth,
    };
    enum tw_err outcome;

    assert(max_depth <= JSON_DEPTH_LIMIT);
    arena_init(&document->arena);
    outcome = read_text(&tree, &document->root);
    mem_free(tree.stack);
    if (outcome == TW_OK)
        *ret = &document->root;
    else
        json_free(&document->root);
    return outcome;
}

void json_free(struct json *json)
{
    struct document *document = (struct document *)json;

    if (!document)
        return;
    arena_done(&document->arena);
    mem_free(document);
}

enum json_type json_type(const struct json *json)
{
    return json->member.type;
}

struct slice json_raw(const struct json *json)
{
    return json->member.raw;
}

struct slice json_string(const struct json *json)
{
    assert(json->member.type == JSON_STRING);
    return json->text;
}

bool json_boolean(const struct json *json)
{
    assert(json->member.type == JSON_BOOLEAN);
    return slice_is(json->member.raw, "true");
}

bool json_int64(const struct json *json, int64_t *ret)
{
    return json->member.type == JSON_NUMBER &&
           text_int64(json->member.raw, INT64_MIN, INT64_MAX, ret);
}

size_t json_count(const struct json *json)
{
    return json->count;
}

const struct json *json_at(const struct json *array, size_t index)
{
    assert(index < array->count);
    return &array->children[index];
}

const struct json *json_get(const struct json *object, const char *name)
{
    if (object->member.type != JSON_OBJECT)
        return NULL;
    for (size_t i = 0; i < object->count; i++)
        if (slice_is(object->children[i].member.name, name))
            return &object->children[i];
    return NULL;
}

struct slice json_name(const struct json *object, size_t index)
{
    return json_at(object, index)->member.name;
}

const struct json *json_value(const struct json *object, size_t index)
{
    return json_at(object, index);
}

/* ---- writing ---- */

/* Is c an ASCII character that needs no escape? */
static bool is_plain(char c)
{
    return c >= ' ' && c < 0x7f && c != '"' && c != '\\';
}

/* Returns the number of plain characters (is_plain()) at the start of text. */
static size_t plain_prefix(struct slice text)
{
    size_t len = 0;
    uint64_t stops = 0;

    while (stops == 0 && text.len - len >= sizeof(uint64_t)) {
        uint64_t eight = load_eight(text.at + len);
        uint64_t rubout = eight ^ EACH(0x7f);

        stops = find_stops(eight) | (((rubout - EACH(1)) | eight) & HIGH_BITS);
        len += before_stop(stops);
    }
    while (stops == 0 && len < text.len && is_plain(text.at[len]))
        len++;
    return len;
}

/* Returns the escape of two characters for c, or NULL if c has none. */
static const char *short_escape(char c)
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        return NULL;
    }
}

void json_add_escaped(struct buf *to, struct slice text)
{
    size_t from = 0, len;

    buf_reserve(to, text.len);
    for (size_t i = 0; i < text.len; i += len) {
        const struct slice rest = {text.at + i, text.len - i};
        const char *escape;
        uint32_t c = 0;

        len = plain_prefix(rest);
        if (len > 0)
            continue;
        escape = short_escape(text.at[i]);
        if (escape)
            len = 1;
        else
            c = text_decode(rest, &len);
        if (!escape && !text_is_hidden(c))
            continue;
        buf_add(to, text.at + from, i - from);
        from = i + len;
        if (escape)
            buf_add(to, escape, 2);
        else
            buf_add_format(to, "\\u%04x", (unsigned)c);
    }
    if (from < text.len)
        buf_add(to, text.at + from, text.len - from);
}

void json_add_string(struct buf *to, struct slice text)
{
    buf_add_char(to, '"');
    json_add_escaped(to, text);
    buf_add_char(to, '"');
}
