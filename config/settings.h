/* SPDX-License-Identifier: MIT */
/*
 * Tables of typed keys that describe the maps of the configuration.
 * settings_load() fills a struct from a map. It reports every unknown key (with
 * the nearest valid key), every value of a wrong type and every value out of
 * range, each with its position. The keys themselves are defined by the modules
 * that use them.
 */
#ifndef TW_CONFIG_SETTINGS_H
#define TW_CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/problems.h"
#include "config/yaml.h"
#include "worker/base/arena.h"
#include "worker/base/buf.h"

enum setting_type {
    SETTING_TEXT,        /* struct slice; a number must be in quotes    */
    SETTING_INT,         /* int64_t                                     */
    SETTING_DOUBLE,      /* double                                      */
    SETTING_BOOL,        /* bool: true or false                         */
    SETTING_DURATION_MS, /* int64_t, in milliseconds */
    SETTING_SIZE_BYTES,  /* int64_t, in bytes */
    SETTING_CHOICE,      /* int: index into choices                     */
    SETTING_NODE, /* const struct yaml_node *: the caller reads it; NULL: the
                     key is absent */
};

struct setting {
    const char *key;
    enum setting_type type;
    size_t offset; /* offset of the field in the struct that is filled */
    bool required;
    const char *fallback; /* default as written in a file; NULL: the field is
                             not changed if the key is absent */
    int64_t min, max;     /* limits of a number; both 0: no limits */
    const char *const *choices; /* names of the choices, NULL-terminated; for
                                   SETTING_CHOICE only */
    const char *help;           /* description of the key, one line */
    const char *former; /* former name of the key, which is refused with a hint;
                           NULL: none */
};

#define SETTING_FIELD(type, field) offsetof(type, field)

/* A table of keys and the name of the map that it describes ("worker"), for
 * `tableward help config`. */
struct settings_section {
    const char *map;
    const struct setting *table;
    size_t count;
};

/* SETTINGS_SECTION: initialise a struct settings_section with a table that is
 * an array. */
#define SETTINGS_SECTION(map, table)                                           \
    {                                                                          \
        map, table, sizeof(table) / sizeof((table)[0])                         \
    }

/* settings_describe: add a text that says which values are valid, such as "a
 * whole number, from 1 to 256; default: 16". For a SETTING_NODE only "required"
 * or the default is added, because setting->help describes its values. */
void settings_describe(const struct setting *setting, struct buf *to);

/*
 * settings_load: read map into the struct `into`, as table[0..count-1]
 * describes. If map is NULL, it is read as a map without keys; a node that is
 * not a YAML_MAP is a problem. `what` is the name of the map in messages
 * ("worker", "job delete-channel"). In texts, durations, sizes and choices
 * ${NAME} is replaced by the environment variable; an unset variable is a
 * problem. False: problems were added; the fields of valid keys are set
 * nevertheless. Texts live in arena, with a NUL after their last byte.
 */
bool settings_load(const struct yaml_node *map, const char *what,
    const struct setting *table, size_t count, struct arena *arena, void *into,
    struct problems *problems);

/*
 * settings_text: read the text of a scalar into *ret, with ${NAME} and
 * ${NAME:-default} replaced from the environment; the default is used if the
 * variable is unset or empty. A `$` that is not followed by `{` is literal. If
 * is_template is true, braces from the environment or from a default are
 * doubled, so that they are not read as a template.
 *
 * If `unset` is NULL, an unset variable is a problem. If `unset` is not NULL,
 * *unset becomes the name of the first unset variable, and the command that
 * needs the value reports the problem. *unset is unchanged if all variables are
 * set. False: a problem was added (an unset variable; or the node is a list, a
 * map or null; or ${ is not closed).
 */
bool settings_text(const struct yaml_node *scalar, bool is_template,
    struct arena *arena, struct slice *ret, const char **unset,
    struct problems *problems);

/*
 * settings_wrong: add the problem "WHAT must be WANTS, not ...". For a caller
 * that reads a node itself: settings_wrong(problems, node, "args", "a list").
 */
void settings_wrong(struct problems *problems, const struct yaml_node *node,
    const char *what, const char *wants);

/* settings_is_null: is the value empty, null or ~? */
bool settings_is_null(const struct yaml_node *node);

/* settings_unknown: add "unknown KIND 'word', did you mean 'near'?", or, if no
 * name is near, "unknown KIND 'word': expected a, b or c" ("none is configured"
 * if count is 0). */
void settings_unknown(struct problems *problems, struct mark mark,
    const char *kind, struct slice word, const char *const *names,
    size_t count);

#endif
