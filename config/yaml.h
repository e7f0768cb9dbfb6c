/* SPDX-License-Identifier: MIT */
/*
 * A YAML file as a tree of nodes with their positions. The only module that
 * calls libyaml. The file must be one document in UTF-8, at most 1 MiB long.
 * The keys of its mappings must be scalars, each unique in its mapping. Tags,
 * anchors and aliases are refused; aliases would let a small file expand to a
 * large one.
 */
#ifndef TW_CONFIG_YAML_H
#define TW_CONFIG_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include "config/problems.h"
#include "worker/base/arena.h"
#include "worker/base/slice.h"

enum yaml_type { YAML_SCALAR, YAML_LIST, YAML_MAP };

struct yaml_node {
    enum yaml_type type;
    struct mark mark;  /* where the node begins */
    bool quoted;       /* scalar in quotes: a text, never a number or null */
    struct slice text; /* text of a scalar, with a NUL after its last byte */
    size_t count;      /* items of a list or members of a map */
    struct yaml_node **items; /* list items, or values of a map */
    struct yaml_node **keys;  /* keys of a map; keys[i] belongs to items[i] */
};

/*
 * yaml_read: parse text; messages use `file` as its name. Nodes live in arena.
 * NULL: parsing ended at a problem (a syntax error, an alias, an anchor, a
 * second document, more than 64 levels, bytes that are not UTF-8). Duplicate
 * keys, tags and NUL characters are added to problems but do not end the
 * parsing, so that the caller can report problems of the content too. So a tree
 * is valid only if problems->errors did not grow. An empty text is an empty
 * map.
 */
struct yaml_node *yaml_read(const char *file, struct slice text,
    struct arena *arena, struct problems *problems);

/* yaml_get: find the value of key in map. NULL: there is no such key, or map is
 * not a YAML_MAP. */
struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);

#endif
