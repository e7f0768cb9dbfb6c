/* SPDX-License-Identifier: MIT */
/* Formats the differences that a kind has found. */
#include "worker/cli/verification.h"

#include <inttypes.h>

#include "worker/base/json.h"
#include "worker/base/text.h"
#include "worker/cli/say.h"

#define FIRST_KEYS                                                             \
    (sizeof((struct job_difference){0}.first_keys) / sizeof(const char *))

int64_t verification_count(const struct job_verification *verification)
{
    int64_t count = 0;

    for (size_t i = 0; i < verification->count; i++)
        count += verification->differences[i].count;
    return count;
}

static void add_difference(
    const struct job_difference *difference, struct buf *to)
{
    buf_add_format(to, "%s: ", difference->what);
    print_count(to, difference->count);
    buf_add_char(to, '\n');
    for (size_t i = 0; i < FIRST_KEYS && difference->first_keys[i]; i++) {
        buf_add_text(to, "  ");
        text_visible(to, slice_of(difference->first_keys[i]));
        buf_add_char(to, '\n');
    }
}

void verification_add_text(const struct job *job,
    const struct job_verification *verification, struct buf *to)
{
    bool different = verification_count(verification) > 0;

    buf_add_format(to, "%s: ", job->name);
    print_number(to, verification->read, "entity", "entities");
    buf_add_text(to, different ? " compared" : " compared, no difference");
    if (verification->note)
        buf_add_format(to, "; %s", verification->note);
    buf_add_char(to, '\n');
    for (size_t i = 0; i < verification->count && different; i++)
        add_difference(&verification->differences[i], to);
}

static void add_difference_json(
    const struct job_difference *difference, struct buf *to)
{
    buf_add_text(to, "{\"What\":");
    json_add_string(to, slice_of(difference->what));
    buf_add_format(to, ",\"Count\":%" PRId64 ",\"First\":[", difference->count);
    for (size_t i = 0; i < FIRST_KEYS && difference->first_keys[i]; i++) {
        if (i > 0)
            buf_add_char(to, ',');
        json_add_string(to, slice_of(difference->first_keys[i]));
    }
    buf_add_text(to, "]}");
}

void verification_add_json(const struct job *job,
    const struct job_verification *verification, struct buf *to)
{
    buf_add_text(to, "{\"Job\":");
    json_add_string(to, slice_of(job->name));
    buf_add_text(to, ",\"Kind\":");
    json_add_string(to, slice_of(job->kind->name));
    buf_add_format(to, ",\"EntitiesRead\":%" PRId64 ",\"Differences\":[",
        verification->read);
    for (size_t i = 0; i < verification->count; i++) {
        if (i > 0)
            buf_add_char(to, ',');
        add_difference_json(&verification->differences[i], to);
    }
    buf_add_char(to, ']');
    if (verification->note) {
        buf_add_text(to, ",\"Note\":");
        json_add_string(to, slice_of(verification->note));
    }
    buf_add_text(to, "}\n");
}
