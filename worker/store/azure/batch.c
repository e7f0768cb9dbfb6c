/* SPDX-License-Identifier: MIT */
/* Writes the multipart request of a batch, reads its multipart response. */
#include "worker/store/azure/batch.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "worker/base/text.h"
#include "worker/store/azure/answer.h"
#include "worker/store/azure/odata.h"

#define CRLF "\r\n"

/* ---- writing ---- */

static const struct verb {
    const char *method;
    bool on_entity; /* the URL names the entity, not the table */
    bool has_body;
    const char *headers;
} verbs[] = {
    [OPERATION_INSERT] = {"POST", false, true,
        "Prefer: return-no-content" CRLF},
    [OPERATION_REPLACE] = {"PUT", true, true, ""},
    [OPERATION_MERGE] = {"PATCH", true, true, ""},
    [OPERATION_DELETE] = {"DELETE", true, false, ""},
};

/* Used for merges instead of PATCH, which Cosmos DB does not support. */
static const struct verb post_merge = {
    "POST", true, true, "X-HTTP-Method: MERGE" CRLF};

void batch_add_type(const struct batch_style *style, struct buf *to)
{
    buf_add_format(to, "multipart/mixed; boundary=batch_%s", style->batch_id);
}

/* The text of operations of one type, which differ only in RowKey, ETag and
 * body. */
struct form {
    const struct verb *verb;
    struct buf head; /* text before the RowKey in the URL; if the URL has no
                        RowKey, text up to the URL's end */
    struct buf tail; /* text between RowKey (or URL) and ETag. It ends in
                        "If-Match: "; for an insert, which has no ETag, it
                        extends up to verb->headers */
};

/* Makes the text of operations of one type. The PartitionKey is that of the
 * batch's first operation. */
static void form_init(struct form *form, const struct batch_style *style,
    const struct batch *batch, enum operation_type type)
{
    const struct verb *verb = &verbs[type];
    struct buf *head = &form->head, *tail = &form->tail;

    if (style->post_merge && type == OPERATION_MERGE)
        verb = &post_merge;
    form->verb = verb;
    buf_init(head, SIZE_MAX / 2);
    buf_init(tail, SIZE_MAX / 2);
    buf_add_format(head,
        "--changeset_%s" CRLF "Content-Type: application/http" CRLF
        "Content-Transfer-Encoding: binary" CRLF CRLF "%s %s%s",
        style->changeset_id, verb->method, style->origin, style->path);
    if (verb->on_entity) {
        odata_add_entity_path_head(
            head, batch->table, batch->operations[0].entity.partition_key);
        buf_add_text(tail, ODATA_ENTITY_PATH_TAIL);
    } else {
        buf_add_format(head, "/%s", batch->table);
    }
    buf_add_text(tail,
        " HTTP/1.1" CRLF "Accept: application/json;odata=minimalmetadata" CRLF);
    if (verb->has_body)
        buf_add_text(tail, "Content-Type: application/json" CRLF);
    buf_add_text(tail, "DataServiceVersion: 3.0;" CRLF);
    if (type != OPERATION_INSERT)
        buf_add_text(tail, "If-Match: ");
}

static void add_operation(
    const struct form *form, const struct operation *operation, struct buf *to)
{
    const struct entity *entity = &operation->entity;

    buf_add_slice(to, buf_slice(&form->head));
    if (form->verb->on_entity)
        odata_add_url_key(to, entity->row_key);
    buf_add_slice(to, buf_slice(&form->tail));
    if (operation->type != OPERATION_INSERT) {
        buf_add_slice(to, entity->etag);
        buf_add_text(to, CRLF);
    }
    buf_add_text(to, form->verb->headers);
    buf_add_text(to, CRLF);
    if (form->verb->has_body)
        entity_write(entity, to);
    buf_add_text(to, CRLF);
}

static void add_operations(
    const struct batch_style *style, const struct batch *batch, struct buf *to)
{
    struct form forms[sizeof(verbs) / sizeof(verbs[0])] = {{.verb = NULL}};

    for (size_t i = 0; i < batch->count; i++) {
        const struct operation *operation = &batch->operations[i];
        struct form *form = &forms[operation->type];
        size_t before = to->len;

        if (form->verb == NULL)
            form_init(form, style, batch, operation->type);
        add_operation(form, operation, to);
        if (i == 0) /* all operations have a similar length */
            buf_reserve(to, (to->len - before) * batch->count);
    }
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        buf_done(&forms[i].head);
        buf_done(&forms[i].tail);
    }
}

void batch_write(
    const struct batch_style *style, const struct batch *batch, struct buf *to)
{
    buf_add_format(to,
        "--batch_%s" CRLF
        "Content-Type: multipart/mixed; boundary=changeset_%s" CRLF CRLF,
        style->batch_id, style->changeset_id);
    add_operations(style, batch, to);
    buf_add_format(to, "--changeset_%s--" CRLF "--batch_%s--" CRLF,
        style->changeset_id, style->batch_id);
}

/* ---- reading ---- */

/* The position of the reader within a part. */
enum place {
    BEFORE_STATUS, /* in the headers of a part of the multipart body, or between
                      parts */
    IN_HEADERS,
    IN_BODY,
};

struct reader {
    /* outer: boundary of the batch. inner: boundary of the changeset, which a
     * header in the body names. */
    struct slice outer, inner;
    struct batch_part *parts;
    size_t room, count;
    enum place place;
    struct batch_part part; /* the current part */
};

/* Removes the first line from *rest, and returns it without its line end. */
static struct slice take_line(struct slice *rest)
{
    const char *end = memchr(rest->at, '\n', rest->len);
    struct slice line = *rest;
    size_t used = rest->len;

    if (end != NULL) {
        line.len = (size_t)(end - rest->at);
        used = line.len + 1;
    }
    if (line.len > 0 && line.at[line.len - 1] == '\r')
        line.len--;
    rest->at += used;
    rest->len -= used;
    return line;
}

static bool begins_nocase(struct slice text, const char *prefix)
{
    size_t len = strlen(prefix);

    return text.len >= len && strncasecmp(text.at, prefix, len) == 0;
}

/* Returns the boundary parameter of a Content-Type; empty if there is none. */
static struct slice find_boundary(struct slice type)
{
    static const char name[] = "boundary=";
    const size_t len = sizeof(name) - 1;

    for (size_t i = 0; i + len < type.len; i++) {
        struct slice value = {type.at + i + len, type.len - i - len};
        bool quoted = value.at[0] == '"';
        size_t end = 0;

        if (strncasecmp(type.at + i, name, len) != 0)
            continue;
        value.at += quoted;
        value.len -= quoted;
        while (end < value.len && value.at[end] != (quoted ? '"' : ';') &&
               value.at[end] != ' ')
            end++;
        return (struct slice){value.at, end};
    }
    return (struct slice){NULL, 0};
}

static bool is_delimiter(struct slice line, struct slice boundary)
{
    struct slice rest = {line.at + 2, line.len - 2};

    return boundary.len > 0 && line.len > 2 && memcmp(line.at, "--", 2) == 0 &&
           slice_begins(rest, boundary);
}

/* Ends the current part. A part that ends within its headers is truncated and
 * does not count. */
static void end_part(struct reader *reader, const char *delimiter)
{
    struct slice *body = &reader->part.body;

    if (reader->place == IN_BODY) {
        body->len = (size_t)(delimiter - body->at);
        while (body->len > 0 && strchr("\r\n", body->at[body->len - 1]))
            body->len--;
        if (reader->count < reader->room)
            reader->parts[reader->count] = reader->part;
        reader->count++;
    }
    reader->part = (struct batch_part){0};
    reader->place = BEFORE_STATUS;
}

/* Reads a status line, such as "HTTP/1.1 204 No Content". */
static void read_status(struct reader *reader, struct slice line)
{
    struct slice number = {line.at + strlen("HTTP/1.1 "), 3};
    int64_t status;

    if (line.len >= strlen("HTTP/1.1 204") &&
        text_int64(number, 100, 599, &status)) {
        reader->part.status = (int)status;
        reader->place = IN_HEADERS;
    }
}

static struct slice header_value(struct slice line, size_t name_len)
{
    struct slice value = {line.at + name_len, line.len - name_len};

    while (value.len > 0 && value.at[0] == ' ') {
        value.at++;
        value.len--;
    }
    return value;
}

static void read_line(
    struct reader *reader, struct slice line, struct slice rest)
{
    switch (reader->place) {
    case BEFORE_STATUS:
        if (slice_begins(line, slice_of("HTTP/1.1 ")))
            read_status(reader, line);
        else if (begins_nocase(line, "Content-Type: multipart/"))
            reader->inner = find_boundary(line);
        break;
    case IN_HEADERS:
        if (begins_nocase(line, "ETag:"))
            reader->part.etag = header_value(line, strlen("ETag:"));
        if (line.len == 0) {
            reader->place = IN_BODY;
            reader->part.body.at = rest.at;
        }
        break;
    case IN_BODY:
        break;
    }
}

size_t batch_read(struct slice content_type, struct slice body,
    struct batch_part *parts, size_t room)
{
    struct reader reader = {.parts = parts, .room = room};

    if (!begins_nocase(content_type, "multipart/"))
        return 0;
    reader.outer = find_boundary(content_type);
    while (body.len > 0) {
        struct slice line = take_line(&body);

        if (is_delimiter(line, reader.outer) ||
            is_delimiter(line, reader.inner))
            end_part(&reader, line.at);
        else
            read_line(&reader, line, body);
    }
    end_part(&reader, body.at);
    return reader.count;
}

/* ---- judging ---- */

static bool is_success(const struct batch_part *part)
{
    return part->status >= 200 && part->status <= 299;
}

size_t batch_failed_index(char *message, size_t count)
{
    size_t digits = strspn(message, "0123456789");
    int64_t index;

    if (digits == 0 || message[digits] != ':')
        return count == 1 ? 0 : count;
    if (!text_int64(
            (struct slice){message, digits}, 0, (int64_t)count - 1, &index))
        index = (int64_t)count;
    memmove(message, message + digits + 1, strlen(message + digits + 1) + 1);
    return (size_t)index;
}

static void judge_refusal(
    const struct batch_part *part, size_t count, struct batch_answer *ret)
{
    struct answer_error error;

    answer_body_error(part->body, &error);
    ret->refused = true;
    ret->status = part->status;
    ret->failed = batch_failed_index(error.message, count);
    snprintf(ret->code, sizeof(ret->code), "%s", error.code);
    snprintf(ret->message, sizeof(ret->message), "%s", error.message);
}

void batch_judge(const struct batch_part *parts, size_t part_count,
    size_t count, struct batch_answer *ret)
{
    size_t good = 0;

    *ret = (struct batch_answer){.failed = count};
    if (part_count == 1 && !is_success(&parts[0])) {
        judge_refusal(&parts[0], count, ret);
        return;
    }
    while (good < part_count && good < count && is_success(&parts[good]))
        good++;
    ret->applied = good == count && part_count == count;
}
