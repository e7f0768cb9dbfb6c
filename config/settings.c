/* SPDX-License-Identifier: MIT */
/* Fills structs from maps by tables of keys, and reports problems in them. */
#include "config/settings.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"

/* The maximum length of a text after its variables are replaced. A variable may
 * hold a long list, but not the content of a large file. */
#define MAX_TEXT_BYTES ((size_t)1024 * 1024)
#define SENTENCE_MAX 2048

static bool is_plain(const struct yaml_node *node)
{
    return node->type == YAML_SCALAR && !node->quoted;
}

bool settings_is_null(const struct yaml_node *node)
{
    return is_plain(node) &&
           (node->text.len == 0 || slice_is(node->text, "null") ||
               slice_is(node->text, "~"));
}

/* Is node an unquoted null, boolean or number, and so not a text? */
static bool is_other_than_text(const struct yaml_node *node)
{
    double number;

    return is_plain(node) &&
           (settings_is_null(node) || slice_is(node->text, "true") ||
               slice_is(node->text, "false") ||
               text_double(node->text, &number));
}

/* ---- sentences ---- */

/* Is node an unquoted text such as {channel}? YAML reads it as a map with one
 * key and no value. */
static bool is_bare_template(const struct yaml_node *node)
{
    return node->type == YAML_MAP && node->count == 1 &&
           settings_is_null(node->items[0]);
}

static void add_found(struct buf *to, const struct yaml_node *node)
{
    if (node->type == YAML_LIST) {
        buf_add_text(to, "a list");
    } else if (is_bare_template(node)) {
        buf_add_format(to, "a map: write it in quotes, \"{%.*s}\"",
            SLICE_ARG(node->keys[0]->text));
    } else if (node->type == YAML_MAP) {
        buf_add_text(to, "a map");
    } else if (settings_is_null(node)) {
        buf_add_text(to, "nothing");
    } else {
        if (node->quoted)
            buf_add_text(to, "the text ");
        text_quote(to, node->text);
    }
}

void settings_wrong(struct problems *problems, const struct yaml_node *node,
    const char *what, const char *wants)
{
    struct buf found;

    buf_init(&found, SENTENCE_MAX);
    add_found(&found, node);
    problems_add(problems, node->mark, "%s must be %s, not %s", what, wants,
        buf_text(&found));
    buf_done(&found);
}

/* Add the names as a list, such as "red, green or blue". last: the separator
 * before the last name, such as " or ". */
static void add_names(
    struct buf *to, const char *const *names, size_t count, const char *last)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buf_add_text(to, i + 1 < count ? ", " : last);
        buf_add_text(to, names[i]);
    }
}

/* Report an unknown name with the nearest known one. `where` is the text that
 * follows the kind in the message, such as " in job x"; it may be empty. */
static void report_unknown(struct problems *problems, struct mark mark,
    const char *kind, struct slice word, const char *where,
    const char *const *names, size_t count)
{
    const char *near = text_nearest(word, names, count);
    struct buf text;

    buf_init(&text, SENTENCE_MAX);
    text_quote(&text, word);
    buf_add_text(&text, where);
    if (near != NULL) {
        buf_add_format(&text, ", did you mean '%s'?", near);
    } else if (count > 0) {
        buf_add_text(&text, ": expected ");
        add_names(&text, names, count, " or ");
    } else {
        buf_add_text(&text, ": none is configured");
    }
    problems_add(problems, mark, "unknown %s %s", kind, buf_text(&text));
    buf_done(&text);
}

void settings_unknown(struct problems *problems, struct mark mark,
    const char *kind, struct slice word, const char *const *names, size_t count)
{
    report_unknown(problems, mark, kind, word, "", names, count);
}

/* ---- texts and the environment ---- */

struct expansion {
    const struct yaml_node *scalar;
    bool is_template;
    struct buf text;
    const char **unset; /* as in settings_text() */
    struct arena *arena;
    struct problems *problems;
};

/* One ${NAME} or ${NAME:-default}. */
struct variable {
    char *name; /* NAME; owned */
    bool has_fallback;
    struct slice fallback;
};

static bool is_name_char(char c, bool first)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

/* Parse the variable at the start of text, which must begin with ${. Returns
 * the length of the variable in bytes; 0: invalid. */
static size_t parse_variable(struct slice text, struct variable *ret)
{
    const char *close = memchr(text.at, '}', text.len);
    size_t end = close ? (size_t)(close - text.at) : 0, at = 2;

    while (at < end && is_name_char(text.at[at], at == 2))
        at++;
    if (close == NULL || at == 2)
        return 0;
    if (at != end && (end - at < 2 || memcmp(text.at + at, ":-", 2) != 0))
        return 0;
    ret->name = mem_text(text.at + 2, at - 2);
    ret->has_fallback = at != end;
    if (ret->has_fallback)
        ret->fallback = (struct slice){text.at + at + 2, end - at - 2};
    return end + 1;
}

static void add_literally(struct expansion *expansion, struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        char c = value.at[i];

        if (expansion->is_template && (c == '{' || c == '}'))
            buf_add_char(&expansion->text, c);
        buf_add_char(&expansion->text, c);
    }
}

static bool meet_unset(struct expansion *expansion, const char *name)
{
    if (expansion->unset == NULL) {
        problems_add(expansion->problems, expansion->scalar->mark,
            "the environment variable %s is not set", name);
        return false;
    }
    if (*expansion->unset == NULL)
        *expansion->unset = arena_copy(expansion->arena, slice_of(name)).at;
    return true;
}

static bool add_value(
    struct expansion *expansion, const struct variable *variable)
{
    const char *value = getenv(variable->name);

    if (variable->has_fallback && (value == NULL || *value == '\0')) {
        add_literally(expansion, variable->fallback);
        return true;
    }
    if (value == NULL)
        return meet_unset(expansion, variable->name);
    if (!text_is_utf8(slice_of(value))) {
        problems_add(expansion->problems, expansion->scalar->mark,
            "the environment variable %s is not UTF-8", variable->name);
        return false;
    }
    add_literally(expansion, slice_of(value));
    return true;
}

/* Add the value of the variable at the start of *rest, which must begin with
 * ${, and remove the variable from *rest. */
static bool expand_variable(struct expansion *expansion, struct slice *rest)
{
    struct variable variable = {0};
    size_t len = parse_variable(*rest, &variable);
    bool done;

    if (len == 0) {
        problems_add(expansion->problems, expansion->scalar->mark,
            "${ begins an environment variable: write ${NAME} or "
            "${NAME:-default}");
        return false;
    }
    done = add_value(expansion, &variable);
    mem_free(variable.name);
    *rest = (struct slice){rest->at + len, rest->len - len};
    return done;
}

static bool expand(struct expansion *expansion)
{
    struct slice rest = expansion->scalar->text;
    bool good = true;

    while (rest.len > 0) {
        if (rest.len >= 2 && memcmp(rest.at, "${", 2) == 0) {
            size_t before = rest.len;

            good = expand_variable(expansion, &rest) && good;
            if (rest.len == before)
                return false;
        } else {
            buf_add_char(&expansion->text, *rest.at++);
            rest.len--;
        }
    }
    if (expansion->text.overflow) {
        problems_add(expansion->problems, expansion->scalar->mark,
            "this text is over 1 MiB once its environment variables are "
            "replaced");
        return false;
    }
    return good;
}

bool settings_text(const struct yaml_node *scalar, bool is_template,
    struct arena *arena, struct slice *ret, const char **unset,
    struct problems *problems)
{
    struct expansion expansion = {
        .scalar = scalar,
        .is_template = is_template,
        .unset = unset,
        .arena = arena,
        .problems = problems,
    };
    bool good = false;

    if (scalar->type != YAML_SCALAR || settings_is_null(scalar)) {
        settings_wrong(problems, scalar, "this key", "a text");
        return false;
    }
    buf_init(&expansion.text, MAX_TEXT_BYTES);
    good = expand(&expansion);
    if (good)
        *ret = arena_copy(arena, buf_slice(&expansion.text));
    if (expansion.text.at != NULL) /* the text may hold a connection string */
        crypto_wipe(expansion.text.at, expansion.text.room);
    buf_done(&expansion.text);
    return good;
}

/* ---- what each type accepts, in words ---- */

/* Add ms in the largest unit of which ms is a multiple. */
static void add_duration(struct buf *to, int64_t ms)
{
    static const struct {
        int64_t ms;
        const char *unit;
    } units[] = {
        {86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    size_t i = 0;

    while (ms % units[i].ms != 0)
        i++;
    if (ms == 0)
        i = 3;
    buf_add_format(to, "%" PRId64 "%s", ms / units[i].ms, units[i].unit);
}

static void add_size(struct buf *to, int64_t bytes)
{
    static const struct {
        int64_t bytes;
        const char *unit;
    } units[] = {
        {INT64_C(1) << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, ""}};
    size_t i = 0;

    while (bytes % units[i].bytes != 0)
        i++;
    if (bytes == 0)
        i = 3;
    buf_add_format(to, "%" PRId64 "%s", bytes / units[i].bytes, units[i].unit);
}

static void add_number(struct buf *to, int64_t number)
{
    buf_add_format(to, "%" PRId64, number);
}

/* How messages describe a type. */
static const struct {
    const char *wants;
    const char *example; /* example of a value; NULL: no example is printed */
    void (*add_limit)(struct buf *to, int64_t limit);
} words[] = {
    [SETTING_TEXT] = {"a text", NULL, NULL},
    [SETTING_INT] = {"a whole number", "4", add_number},
    [SETTING_DOUBLE] = {"a number", "0.5", add_number},
    [SETTING_BOOL] = {"true or false", NULL, NULL},
    [SETTING_DURATION_MS] = {"a duration", "30s", add_duration},
    [SETTING_SIZE_BYTES] = {"a size", "64KiB", add_size},
    [SETTING_CHOICE] = {"one of ", NULL, NULL},
    [SETTING_NODE] = {"anything", NULL, NULL},
};

static bool has_limits(const struct setting *setting)
{
    return setting->min != 0 || setting->max != 0;
}

static bool in_limits(const struct setting *setting, int64_t value)
{
    return !has_limits(setting) ||
           (value >= setting->min && value <= setting->max);
}

static void add_limits(struct buf *to, const struct setting *setting)
{
    void (*add_limit)(struct buf * to, int64_t limit) =
        words[setting->type].add_limit;

    if (!has_limits(setting) || add_limit == NULL)
        return;
    if (setting->max == INT64_MAX) {
        buf_add_text(to, ", at least ");
        add_limit(to, setting->min);
    } else {
        buf_add_text(to, ", from ");
        add_limit(to, setting->min);
        buf_add_text(to, " to ");
        add_limit(to, setting->max);
    }
}

static size_t count_choices(const struct setting *setting)
{
    size_t count = 0;

    while (setting->choices[count] != NULL)
        count++;
    return count;
}

/* Add a description of the values that setting accepts. example: an example of
 * a value, which is added; NULL: none. */
static void add_kind_of_value(
    struct buf *to, const struct setting *setting, const char *example)
{

    buf_add_text(to, words[setting->type].wants);
    if (setting->type == SETTING_CHOICE) {
        add_names(to, setting->choices, count_choices(setting), " or ");
    } else if (example != NULL) {
        buf_add_format(to, " such as %s", example);
    }
    add_limits(to, setting);
}

static void add_wants(struct buf *to, const struct setting *setting)
{
    const char *example = setting->fallback;

    if (example == NULL || words[setting->type].example == NULL ||
        strcmp(example, "0") == 0)
        example = words[setting->type].example;
    add_kind_of_value(to, setting, example);
}

static bool wrong(const struct setting *setting, const struct yaml_node *node,
    struct problems *problems)
{
    struct buf wants;

    buf_init(&wants, SENTENCE_MAX);
    add_wants(&wants, setting);
    settings_wrong(problems, node, setting->key, buf_text(&wants));
    buf_done(&wants);
    return false;
}

/* ---- reading one value ---- */

static bool read_text(const struct setting *setting,
    const struct yaml_node *node, struct arena *arena, void *field,
    struct problems *problems)
{
    if (node->type != YAML_SCALAR || is_other_than_text(node))
        return wrong(setting, node, problems);
    return settings_text(node, false, arena, field, NULL, problems);
}

static bool read_int(const struct setting *setting,
    const struct yaml_node *node, struct arena *arena, void *field,
    struct problems *problems)
{
    int64_t value;

    (void)arena;
    if (!is_plain(node) ||
        !text_int64(node->text, INT64_MIN, INT64_MAX, &value) ||
        !in_limits(setting, value))
        return wrong(setting, node, problems);
    *(int64_t *)field = value;
    return true;
}

static bool read_double(const struct setting *setting,
    const struct yaml_node *node, struct arena *arena, void *field,
    struct problems *problems)
{
    double value;

    (void)arena;
    if (!is_plain(node) || !text_double(node->text, &value))
        return wrong(setting, node, problems);
    if (has_limits(setting) &&
        (value < (double)setting->min || value > (double)setting->max))
        return wrong(setting, node, problems);
    *(double *)field = value;
    return true;
}

static bool read_bool(const struct setting *setting,
    const struct yaml_node *node, struct arena *arena, void *field,
    struct problems *problems)
{
    bool is_true = is_plain(node) && slice_is(node->text, "true");

    (void)arena;
    if (!is_true && !(is_plain(node) && slice_is(node->text, "false")))
        return wrong(setting, node, problems);
    *(bool *)field = is_true;
    return true;
}

/* Read a duration or a size, whose text `parse` accepts. */
static bool read_measure(const struct setting *setting,
    const struct yaml_node *node, struct arena *arena, void *field,
    struct problems *problems, bool (*parse)(struct slice text, int64_t *ret))
{
    struct slice text;
    int64_t value;

    if (node->type != YAML_SCALAR || settings_is_null(node))
        return wrong(setting, node, problems);
    if (!settings_text(node, false, arena, &text, NULL, problems))
        return false;
    if (!parse(text, &value) || !in_limits(setting, value))
        return wrong(setting, node, problems);
    *(int64_t *)field = value;
    return true;
}

static bool read_duration(const struct setting *setting,
    const struct yaml_node *node, struct arena *arena, void *field,
    struct problems *problems)
{
    return read_measure(
        setting, node, arena, field, problems, text_duration_ms);
}

static bool read_size(const struct setting *setting,
    const struct yaml_node *node, struct arena *arena, void *field,
    struct problems *problems)
{
    return read_measure(setting, node, arena, field, problems, text_size_bytes);
}

static bool read_choice(const struct setting *setting,
    const struct yaml_node *node, struct arena *arena, void *field,
    struct problems *problems)
{
    struct slice text;

    if (node->type != YAML_SCALAR || is_other_than_text(node))
        return wrong(setting, node, problems);
    if (!settings_text(node, false, arena, &text, NULL, problems))
        return false;
    for (int i = 0; setting->choices[i] != NULL; i++) {
        if (slice_is(text, setting->choices[i])) {
            *(int *)field = i;
            return true;
        }
    }
    settings_unknown(problems, node->mark, setting->key, text, setting->choices,
        count_choices(setting));
    return false;
}

static bool read_as_node(const struct setting *setting,
    const struct yaml_node *node, struct arena *arena, void *field,
    struct problems *problems)
{
    (void)setting;
    (void)arena;
    (void)problems;
    memcpy(field, &node, sizeof(node));
    return true;
}

/* The readers, by type. If the value is invalid, a reader adds a problem,
 * leaves the field unchanged and returns false. */
static bool (*const readers[])(const struct setting *setting,
    const struct yaml_node *node, struct arena *arena, void *field,
    struct problems *problems) = {
    [SETTING_TEXT] = read_text,
    [SETTING_INT] = read_int,
    [SETTING_DOUBLE] = read_double,
    [SETTING_BOOL] = read_bool,
    [SETTING_DURATION_MS] = read_duration,
    [SETTING_SIZE_BYTES] = read_size,
    [SETTING_CHOICE] = read_choice,
    [SETTING_NODE] = read_as_node,
};

/* ---- a whole map ---- */

/* Report `key` if it is the former name of a setting. False: it is not. */
static bool report_former(struct problems *problems,
    const struct yaml_node *key, const struct setting *table, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (table[i].former && slice_is(key->text, table[i].former)) {
            problems_add(problems, key->mark,
                "`%s` is a former key: write `%s`", table[i].former,
                table[i].key);
            return true;
        }
    }
    return false;
}

static void report_unknown_keys(const struct yaml_node *map, const char *what,
    const struct setting *table, size_t count, struct problems *problems)
{
    const char **names = mem_array(count, sizeof(char *));
    struct buf where;

    buf_init(&where, SENTENCE_MAX);
    buf_add_format(&where, " in %s", what);
    for (size_t i = 0; i < count; i++)
        names[i] = table[i].key;
    for (size_t k = 0; k < map->count; k++) {
        const struct yaml_node *key = map->keys[k];
        size_t i = 0;

        while (i < count && !slice_is(key->text, names[i]))
            i++;
        if (i == count && !report_former(problems, key, table, count))
            report_unknown(problems, key->mark, "key", key->text,
                buf_text(&where), names, count);
    }
    buf_done(&where);
    mem_free(names);
}

/* Set the field of a key that the file does not have. setting->fallback is
 * parsed as a text of the file is, so that defaults are written as in a file.
 */
static void use_fallback(
    const struct setting *setting, struct arena *arena, void *field)
{
    struct yaml_node node = {.type = YAML_SCALAR};
    struct problems problems;
    bool good;

    assert(setting->type != SETTING_NODE);
    node.quoted = setting->type == SETTING_TEXT;
    node.text = slice_of(setting->fallback);
    problems_init(&problems);
    good = readers[setting->type](setting, &node, arena, field, &problems);
    assert(good);
    (void)good;
    problems_done(&problems);
}

static void load_one(const struct yaml_node *map, const char *what,
    const struct setting *setting, struct arena *arena, void *into,
    struct problems *problems)
{
    const struct yaml_node *node = yaml_get(map, setting->key);
    void *field = (char *)into + setting->offset;

    if (node != NULL)
        readers[setting->type](setting, node, arena, field, problems);
    else if (setting->required)
        problems_add(problems, map ? map->mark : (struct mark){0},
            "%s lacks the key '%s'%s%s", what, setting->key,
            setting->help ? ": " : "", setting->help ? setting->help : "");
    else if (setting->fallback != NULL)
        use_fallback(setting, arena, field);
    else if (setting->type == SETTING_NODE)
        memcpy(field, &node, sizeof(node));
}

bool settings_load(const struct yaml_node *map, const char *what,
    const struct setting *table, size_t count, struct arena *arena, void *into,
    struct problems *problems)
{
    size_t errors = problems->errors;

    if (map != NULL && map->type != YAML_MAP) {
        settings_wrong(problems, map, what, "a map of keys");
        return false;
    }
    if (map != NULL)
        report_unknown_keys(map, what, table, count, problems);
    for (size_t i = 0; i < count; i++)
        load_one(map, what, &table[i], arena, into, problems);
    return problems->errors == errors;
}

/* ---- describing ---- */

void settings_describe(const struct setting *setting, struct buf *to)
{
    bool is_node = setting->type == SETTING_NODE;

    if (!is_node)
        add_kind_of_value(to, setting,
            setting->fallback ? NULL : words[setting->type].example);
    if (setting->required)
        buf_add_format(to, "%srequired", is_node ? "" : "; ");
    else if (setting->fallback)
        buf_add_format(
            to, "%sdefault: %s", is_node ? "" : "; ", setting->fallback);
}
