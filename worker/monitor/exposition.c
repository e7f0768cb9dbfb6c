/* SPDX-License-Identifier: MIT */
/* Prometheus' text format 0.0.4. */
#include "worker/monitor/exposition.h"

#include <inttypes.h>

void exposition_family(
    struct buf *to, const char *name, const char *type, const char *help)
{
    buf_add_format(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_value(struct buf *to, const char *value)
{
    for (; *value; value++) {
        switch (*value) {
        case '\\':
            buf_add_text(to, "\\\\");
            break;
        case '"':
            buf_add_text(to, "\\\"");
            break;
        case '\n':
            buf_add_text(to, "\\n");
            break;
        default:
            buf_add_char(to, *value);
        }
    }
}

static void add_name(struct buf *to, const char *name, const char *suffix,
    const struct exposition_label *labels, size_t count)
{
    buf_add_text(to, name);
    buf_add_text(to, suffix);
    for (size_t i = 0; i < count; i++) {
        buf_add_text(to, i == 0 ? "{" : ",");
        buf_add_text(to, labels[i].name);
        buf_add_text(to, "=\"");
        add_value(to, labels[i].value);
        buf_add_char(to, '"');
    }
    buf_add_text(to, count > 0 ? "} " : " ");
}

void exposition_sample(struct buf *to, const char *name, const char *suffix,
    const struct exposition_label *labels, size_t count, double value)
{
    add_name(to, name, suffix, labels, count);
    buf_add_format(to, "%.15g\n", value);
}

void exposition_count(struct buf *to, const char *name, const char *suffix,
    const struct exposition_label *labels, size_t count, int64_t value)
{
    add_name(to, name, suffix, labels, count);
    buf_add_format(to, "%" PRId64 "\n", value);
}
