/* SPDX-License-Identifier: MIT */
/*
 * From one Edm type to another. What each of the 64 ways does is one table in
 * convert.c, and the same table for people is jobs/conversions.md.
 *
 * Text to number is strict: the whole text, no spaces, no plus; leading zeros
 * are lost. Numbers to text are the shortest that read back the same, laid out
 * as JavaScript does. Times keep their ticks.
 */
#ifndef TW_JOBS_ENGINE_CONVERT_H
#define TW_JOBS_ENGINE_CONVERT_H

#include "worker/base/arena.h"
#include "worker/base/err.h"
#include "worker/store/entity.h"

#define CONVERT_TYPES 8 /* of enum edm_type */

enum convert_worth {
    CONVERT_EXACT,      /* nothing is lost: converted back, it is the same;
                           a text may come back in its usual spelling: true
                           for True, 1000 for 1e3                           */
    CONVERT_LOSSY,      /* something is lost, with some values at least     */
    CONVERT_IMPOSSIBLE, /* there is no such value                           */
};

/* One way. */
struct convert_way {
    enum convert_worth worth; /* of the worst value; a way that is exact or
                                 lossy may still refuse single values        */
    const char *how;          /* half a sentence for people: "ticks since
                                 0001-01-01" */
};

/* convert_way: the way from one type to another. Static. */
const struct convert_way *convert_way(enum edm_type from, enum edm_type to);

/*
 * convert_property: from's value as a property of type `to`, under the same
 * name. What it is made of lives in arena, or as long as from.
 *
 * CONVERT_EXACT       *ret is it.
 * CONVERT_LOSSY       *ret is it, and err says what this value loses: "its
 *                     fraction is lost".
 * CONVERT_IMPOSSIBLE  err says why, without the value: "an Edm.String that is
 *                     no integer". *ret is unchanged.
 */
enum convert_worth convert_property(const struct property *from,
    enum edm_type to, struct arena *arena, struct property *ret,
    struct err *err);

/*
 * convert_text: text as a property of that name and type: what the
 * configuration says or a template renders. As from an Edm.String, but a
 * lossy one is refused too. The name is borrowed, the value lives in arena.
 * TW_INVALID: err says why, without the text.
 */
TW_MUST_USE enum tw_err convert_text(struct slice name, struct slice text,
    enum edm_type to, struct arena *arena, struct property *ret,
    struct err *err);

#endif
