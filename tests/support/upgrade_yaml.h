/* SPDX-License-Identifier: MIT */
/* The parts of a schema-upgrade job in the configuration. */
#ifndef TW_TESTS_SUPPORT_UPGRADE_YAML_H
#define TW_TESTS_SUPPORT_UPGRADE_YAML_H

/* A job begins with HEAD, which is TOP, VERSION and VERSIONS. The steps of
 * version 2 follow. The steps of version 3 follow NEXT_VERSION. */
#define TOP "up:\n  kind: schema-upgrade\n  table: Blogs\n"
#define VERSION "  version: {property: V, absent: 1}\n"
#define VERSIONS "  versions:\n  - to: 2\n    steps:\n"
#define HEAD TOP VERSION VERSIONS
#define NEXT_VERSION "  - to: 3\n    steps:\n"

/* One step, in a line of its own. type is without "Edm."; further keys of a
 * retype may follow the type: RETYPE("A", "Int32, lossy: true"). */
#define ADD(property, type, value)                                             \
    "    - add: {property: " property ", type: Edm." type ", value: " value    \
    "}\n"
#define SET(property, type, value)                                             \
    "    - set: {property: " property ", type: Edm." type ", value: " value    \
    "}\n"
#define RENAME(property, to)                                                   \
    "    - rename: {property: " property ", to: " to "}\n"
#define RETYPE(property, type)                                                 \
    "    - retype: {property: " property ", to: Edm." type "}\n"
#define REMOVE(property) "    - remove: {property: " property "}\n"

#endif
