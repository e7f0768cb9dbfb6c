/* SPDX-License-Identifier: MIT */
/* Batches: the multipart request, and the multipart answer. */
#include <stdio.h>

#include "tests/fuzz/fuzz.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/azure/batch.h"

/* ---- written batches, read by a second reader ---- */

static const struct batch_style style = {
    .origin = "https://acct.table.core.windows.net",
    .path = "",
    .batch_id = "b1",
    .changeset_id = "c1",
};

/* Returns the text up to `end`, and removes both from *rest. */
static struct slice until(struct slice *rest, const char *end)
{
    struct slice text = *rest;
    const char *at = memmem(rest->at, rest->len, end, strlen(end));

    FUZZ_CHECK(at != NULL);
    text.len = (size_t)(at - rest->at);
    rest->at = at + strlen(end);
    rest->len -= text.len + strlen(end);
    return text;
}

static void expect(struct slice *rest, const char *text)
{
    if (!slice_begins(*rest, slice_of(text)))
        fuzz_same(slice_of(text), *rest, __FILE__, __LINE__);
    rest->at += strlen(text);
    rest->len -= strlen(text);
}

static void check_url(const struct batch *batch,
    const struct operation *operation, struct slice url, struct arena *arena)
{
    struct buf plain;
    struct buf *expected = fuzz_buf();

    buf_init(&plain, url.len);
    buf_add_format(expected, "%s/%s", style.origin, batch->table);
    FUZZ_CHECK(text_percent_decode(&plain, url));
    if (operation->type != OPERATION_INSERT) {
        buf_add_text(expected, "(PartitionKey=");
        for (int key = 0; key < 2; key++) {
            struct slice text = key ? operation->entity.row_key
                                    : operation->entity.partition_key;

            buf_add_text(expected, key ? ",RowKey='" : "'");
            fuzz_add_doubled(expected, text, "'");
            buf_add_char(expected, '\'');
        }
        buf_add_char(expected, ')');
    }
    FUZZ_SAME(buf_slice(&plain), buf_slice(expected));
    buf_done(&plain);
}

static void check_operation(const struct batch *batch,
    const struct operation *operation, struct slice *rest, struct arena *arena)
{
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE"};
    struct slice headers;
    struct entity entity;
    size_t end;

    expect(rest, "--changeset_c1\r\nContent-Type: application/http\r\n"
                 "Content-Transfer-Encoding: binary\r\n\r\n");
    FUZZ_SAME(until(rest, " "), slice_of(methods[operation->type]));
    check_url(batch, operation, until(rest, " HTTP/1.1\r\n"), arena);
    headers = until(rest, "\r\n\r\n");
    if (operation->type == OPERATION_INSERT) {
        FUZZ_CHECK(!memmem(headers.at, headers.len, "If-Match", 8));
    } else {
        (void)until(&headers, "If-Match: ");
        FUZZ_CHECK(slice_begins(headers, operation->entity.etag));
    }
    if (operation->type != OPERATION_DELETE) {
        FUZZ_CHECK(
            entity_parse(*rest, true, arena, &entity, &end, NULL) == TW_OK);
        FUZZ_CHECK(fuzz_entities_equal(&entity, &operation->entity));
        *rest = (struct slice){rest->at + end, rest->len - end};
    }
    expect(rest, "\r\n");
}

static void batch_is_read_back(struct fuzz_source *in)
{
    struct batch batch = fuzz_batch(in, 6);
    struct slice rest;
    struct buf *body = fuzz_buf();

    batch_write(&style, &batch, body);
    FUZZ_CHECK(!body->overflow);
    rest = buf_slice(body);
    expect(&rest,
        "--batch_b1\r\n"
        "Content-Type: multipart/mixed; boundary=changeset_c1\r\n\r\n");
    for (size_t i = 0; i < batch.count; i++)
        check_operation(&batch, &batch.operations[i], &rest, in->arena);
    expect(&rest, "--changeset_c1--\r\n--batch_b1--\r\n");
    FUZZ_CHECK(rest.len == 0);
}

/* ---- answers that are read ---- */

static void judge(
    const struct batch_part *parts, size_t read, size_t room, size_t count)
{
    struct batch_answer answer;
    size_t kept = read < room ? read : room;

    if (read > room)
        return;
    batch_judge(parts, kept, count, &answer);
    FUZZ_CHECK(!(answer.applied && answer.refused));
    FUZZ_CHECK(answer.failed <= count);
    if (answer.applied)
        FUZZ_CHECK(kept == count);
    if (answer.refused) {
        FUZZ_CHECK(kept == 1 && (answer.status < 200 || answer.status > 299));
        FUZZ_CHECK(strlen(answer.code) < sizeof(answer.code));
        FUZZ_CHECK(text_is_utf8(slice_of(answer.message)));
    }
}

static void try_answer(struct slice type, struct slice body)
{
    struct batch_part parts[8];
    size_t count = batch_read(type, body, parts, 8);

    for (size_t i = 0; i < count && i < 8; i++) {
        FUZZ_CHECK(parts[i].status >= 100 && parts[i].status <= 599);
        FUZZ_CHECK(
            parts[i].etag.len == 0 ||
            (parts[i].etag.at >= body.at &&
                parts[i].etag.at + parts[i].etag.len <= body.at + body.len));
        FUZZ_CHECK(
            parts[i].body.len == 0 ||
            (parts[i].body.at >= body.at &&
                parts[i].body.at + parts[i].body.len <= body.at + body.len));
    }
    for (size_t asked = 1; asked <= 3; asked++)
        judge(parts, count, 8, asked);
}

/* Reads the text as a body; then reads its first line as the Content-Type and
 * the rest as the body. */
static void try_bytes(struct slice text)
{
    const char *line = text.len ? memchr(text.at, '\n', text.len) : NULL;

    try_answer(slice_of("multipart/mixed; boundary=b"), text);
    if (line != NULL)
        try_answer((struct slice){text.at, (size_t)(line - text.at)},
            (struct slice){line + 1, text.len - (size_t)(line + 1 - text.at)});
}

/* The parts of an answer as the service writes it. */
struct made {
    size_t count;
    int status[5];
    struct slice etag[5], body[5];
};

static struct made make_answer(struct fuzz_source *in)
{
    static const int statuses[] = {204, 201, 404, 409, 412, 400, 503};
    struct made made = {.count = 1 + (size_t)fuzz_below(in, 5)};

    for (size_t i = 0; i < made.count; i++) {
        made.status[i] = FUZZ_PICK(in, statuses);
        made.etag[i] = fuzz_yes(in) ? fuzz_etag(in) : fuzz_none();
        made.body[i] = fuzz_yes(in) ? arena_format(in->arena,
                                          "{\"odata.error\":%u}", fuzz_byte(in))
                                    : fuzz_none();
    }
    return made;
}

static void write_answer(
    const struct made *made, const char *end, bool sloppy, struct buf *to)
{
    buf_add_format(to, "--bresp%sContent-Type: multipart/mixed; boundary=c%s%s",
        end, end, end);
    for (size_t i = 0; i < made->count; i++) {
        buf_add_format(to,
            "--c%sContent-Type: application/http%s%s%sHTTP/1.1 %d Word%s", end,
            end, end, sloppy ? "\r\n\r\n" : "", made->status[i], end);
        if (made->etag[i].len > 0)
            buf_add_format(to, "%s: %.*s%s", sloppy ? "etag" : "ETag",
                SLICE_ARG(made->etag[i]), end);
        buf_add_format(to, "DataServiceVersion: 3.0;%s%s%.*s%s", end, end,
            SLICE_ARG(made->body[i]), end);
    }
    if (!sloppy)
        buf_add_format(to, "--c--%s--bresp--%s", end, end);
}

static void answer_is_read_back(struct fuzz_source *in)
{
    struct made made = make_answer(in);
    bool sloppy = fuzz_yes(in);
    struct batch_part parts[5];
    struct buf *body = fuzz_buf();

    write_answer(&made, fuzz_yes(in) ? "\r\n" : "\n", sloppy, body);
    FUZZ_CHECK(batch_read(slice_of("Multipart/Mixed; Boundary=\"bresp\""),
                   buf_slice(body), parts, 5) == made.count);
    for (size_t i = 0; i < made.count; i++) {
        FUZZ_CHECK(parts[i].status == made.status[i]);
        FUZZ_SAME(parts[i].etag, made.etag[i]);
        FUZZ_SAME(parts[i].body, made.body[i]);
    }
}

/* Reads the index in a message such as "12:what", and removes it from the
 * message. The index must be below the count or, if the message has none, equal
 * to the count. */
static void try_index(struct slice text, struct arena *arena)
{
    for (size_t count = 1; count <= 100; count += 33) {
        struct slice copy = arena_copy(arena, text);
        char *message = mem_text(copy.at, strlen(copy.at));
        size_t index = batch_failed_index(message, count);

        FUZZ_CHECK(index <= count);
        FUZZ_CHECK(strlen(message) <= strlen(copy.at));
        mem_free(message);
    }
}

FUZZ_TARGET(batch)
{
    try_bytes(text);
    try_index(text, in->arena);
    batch_is_read_back(in);
    fuzz_again(in);
    answer_is_read_back(in);
}
