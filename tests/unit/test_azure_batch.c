/* SPDX-License-Identifier: MIT */
/* Multipart batches: requests to the byte, and responses, which are read
 * leniently. */
#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "worker/store/azure/batch.h"

#define BATCH_ID "00000000-0000-0000-0000-000000000001"
#define CHANGESET_ID "00000000-0000-0000-0000-000000000002"
#define ETAG "W/\"datetime'2021-06-04T21%3A59%3A51.4109869Z'\""

static const struct batch_style storage = {
    .origin = "https://acct.table.core.windows.net",
    .path = "",
    .batch_id = BATCH_ID,
    .changeset_id = CHANGESET_ID,
};

/* Makes one operation of each type, with RowKeys 0 to 3. */
static void fill(struct operation operations[4], struct arena *arena)
{
    static const char *const row_keys[] = {"0", "1", "it's", "3"};

    for (int i = 0; i < 4; i++) {
        struct entity *entity = &operations[i].entity;

        operations[i].type = (enum operation_type)i;
        entity_init(entity, arena, slice_of("p"), slice_of(row_keys[i]));
        entity_set_int32(entity, arena, "n", i);
        if (i > 0)
            entity->etag = slice_of(ETAG);
    }
}

#define PART_HEAD                                                              \
    "--changeset_" CHANGESET_ID "\r\n"                                         \
    "Content-Type: application/http\r\n"                                       \
    "Content-Transfer-Encoding: binary\r\n"                                    \
    "\r\n"
#define ACCEPT "Accept: application/json;odata=minimalmetadata\r\n"
#define JSON "Content-Type: application/json\r\n"
#define VERSION "DataServiceVersion: 3.0;\r\n"
#define HEAD                                                                   \
    "--batch_" BATCH_ID "\r\n"                                                 \
    "Content-Type: multipart/mixed; boundary=changeset_" CHANGESET_ID "\r\n"   \
    "\r\n"
#define TAIL "--changeset_" CHANGESET_ID "--\r\n--batch_" BATCH_ID "--\r\n"

/* Makes a batch of `count` operations of fill(), beginning with operation
 * `first`; fails unless the batch is written as `expected`. */
static void check_written(const struct batch_style *style, size_t first,
    size_t count, const char *expected)
{
    struct operation operations[4];
    struct batch batch = {"T", operations + first, count};
    struct buf body;

    fill(operations, &scratch);
    buf_init(&body, 65536);
    batch_write(style, &batch, &body);
    assert_string_equal(buf_text(&body), expected);
    buf_done(&body);
}

SCRATCH_TEST(each_operation_is_written_to_the_byte)
{
    check_written(&storage, 0, 4,
        HEAD PART_HEAD
        "POST https://acct.table.core.windows.net/T HTTP/1.1\r\n" ACCEPT JSON
            VERSION "Prefer: return-no-content\r\n\r\n"
        "{\"PartitionKey\":\"p\",\"RowKey\":\"0\",\"n\":0}\r\n" PART_HEAD
        "PUT https://acct.table.core.windows.net/T(PartitionKey='p',"
        "RowKey='1') HTTP/1.1\r\n" ACCEPT JSON VERSION "If-Match: " ETAG
        "\r\n\r\n"
        "{\"PartitionKey\":\"p\",\"RowKey\":\"1\",\"n\":1}\r\n" PART_HEAD
        "PATCH https://acct.table.core.windows.net/T(PartitionKey='p',"
        "RowKey='it%27%27s') HTTP/1.1\r\n" ACCEPT JSON VERSION "If-Match: " ETAG
        "\r\n\r\n"
        "{\"PartitionKey\":\"p\",\"RowKey\":\"it's\",\"n\":2}\r\n" PART_HEAD
        "DELETE https://acct.table.core.windows.net/T(PartitionKey='p',"
        "RowKey='3') HTTP/1.1\r\n" ACCEPT VERSION "If-Match: " ETAG
        "\r\n\r\n\r\n" TAIL);
}

SCRATCH_TEST(cosmos_merges_by_post)
{
    struct batch_style cosmos = storage;

    cosmos.post_merge = true;
    check_written(&cosmos, 2, 1,
        HEAD PART_HEAD
        "POST https://acct.table.core.windows.net/T(PartitionKey='p',"
        "RowKey='it%27%27s') HTTP/1.1\r\n" ACCEPT JSON VERSION "If-Match: " ETAG
        "\r\nX-HTTP-Method: MERGE\r\n\r\n"
        "{\"PartitionKey\":\"p\",\"RowKey\":\"it's\",\"n\":2}\r\n" TAIL);
}

/* ---- responses ---- */

#define ANSWER_TYPE "multipart/mixed; boundary=batchresponse_b"
#define ANSWER_HEAD                                                            \
    "--batchresponse_b\r\n"                                                    \
    "Content-Type: multipart/mixed; boundary=changesetresponse_c\r\n\r\n"
#define ANSWER_PART                                                            \
    "--changesetresponse_c\r\nContent-Type: application/http\r\n"              \
    "Content-Transfer-Encoding: binary\r\n\r\n"
#define ANSWER_TAIL "--changesetresponse_c--\r\n--batchresponse_b--\r\n"

static const char applied[] = ANSWER_HEAD ANSWER_PART
    "HTTP/1.1 204 No Content\r\nX-Content-Type-Options: nosniff\r\n"
    "ETag: " ETAG "\r\n\r\n\r\n" ANSWER_PART
    "HTTP/1.1 204 No Content\r\nDataServiceVersion: "
    "1.0;\r\n\r\n\r\n" ANSWER_TAIL;

#define REFUSED(status, json)                                                  \
    ANSWER_HEAD ANSWER_PART "HTTP/1.1 " status                                 \
                            "\r\nContent-Type: application/json\r\n\r\n" json  \
                            "\r\n" ANSWER_TAIL
#define ERROR(code, message)                                                   \
    "{\"odata.error\":{\"code\":\"" code                                       \
    "\",\"message\":{\"lang\":\"en-US\",\"value\":\"" message                  \
    "\\nRequestId:1\\nTime:2\"}}}"

static struct batch_part parts[4];

static size_t read_parts(const char *type, const char *body)
{
    return batch_read(slice_of(type), slice_of(body), parts, 4);
}

/* Returns how a response with this body is understood, if the batch had `count`
 * operations. */
static struct batch_answer judge(struct slice body, size_t count)
{
    struct batch_answer answer;

    batch_judge(parts, batch_read(slice_of(ANSWER_TYPE), body, parts, 4), count,
        &answer);
    return answer;
}

static void expect_nonsense(struct slice body, size_t count)
{
    struct batch_answer answer = judge(body, count);

    assert_false(answer.applied);
    assert_false(answer.refused);
    assert_int_equal(answer.failed, count);
}

TEST(other_number_of_parts_makes_no_sense)
{
    expect_nonsense(slice_of(applied), 1);
    expect_nonsense(slice_of(applied), 3);
}

TEST(answer_cut_off_anywhere_is_not_applied)
{
    /* After the headers of the last part there are only boundaries, which may
     * be missing. */
    size_t enough = strlen(applied) - strlen("\n\r\n" ANSWER_TAIL);

    assert_true(judge(slice_of(applied), 2).applied);
    for (size_t len = 0; len < enough; len++)
        expect_nonsense((struct slice){applied, len}, 2);
}

TEST(answer_is_read_with_lf_junk_and_no_end)
{
    static const char body[] =
        "\n\n--batchresponse_b\n"
        "content-type: multipart/mixed; boundary=\"changesetresponse_c\"\n\n"
        "\n--changesetresponse_c\nX: y\n\njunk\n\n"
        "HTTP/1.1 201 Created\netag:  e1\nX-New: 1\n\n{\"a\":\n1}\n\n"
        "--changesetresponse_c\n\nHTTP/1.1 204 No Content\nETag: e2\n\n";

    assert_int_equal(
        read_parts("multipart/mixed;boundary=\"batchresponse_b\"", body), 2);
    assert_int_equal(parts[0].status, 201);
    assert_true(slice_is(parts[0].etag, "e1"));
    assert_true(slice_is(parts[0].body, "{\"a\":\n1}"));
    assert_int_equal(parts[1].status, 204);
    assert_true(slice_is(parts[1].etag, "e2"));
}

/* The response has two parts, and the second one is an error. No service sends
 * such a response. */
TEST(a_success_beside_a_failure_makes_no_sense)
{
    static const struct batch_part mixed[] = {
        {.status = 204}, {.status = 409}, {.status = 100}};
    struct batch_answer answer;

    batch_judge(mixed, 2, 2, &answer);
    assert_false(answer.applied);
    assert_false(answer.refused);
    batch_judge(mixed + 1, 2, 2, &answer);
    assert_false(answer.applied);
    batch_judge(mixed + 2, 1, 1, &answer);
    assert_false(answer.applied);
    assert_true(answer.refused);
}

TEST(refusal_names_its_operation)
{
    static const struct {
        const char *body;
        size_t count, failed;
        int status;
        const char *code, *message;
    } cases[] = {
        {REFUSED("409 Conflict", ERROR("EntityAlreadyExists", "2:Exists.")), 3,
            2, 409, "EntityAlreadyExists", "Exists."},
        {REFUSED("404 Not Found", ERROR("TableNotFound", "0:No table.")), 3, 0,
            404, "TableNotFound", "No table."},
        {REFUSED("412 Precondition Failed",
             ERROR("UpdateConditionNotSatisfied", "Not met.")),
            1, 0, 412, "UpdateConditionNotSatisfied", "Not met."},
        {REFUSED("404 Not Found", ERROR("ResourceNotFound", "Gone.")), 2, 2,
            404, "ResourceNotFound", "Gone."},
        {REFUSED("400 Bad Request", ERROR("InvalidInput", "99:Too many.")), 3,
            3, 400, "InvalidInput", "Too many."},
        {REFUSED("400 Bad Request", ERROR("InvalidInput", "12 things.")), 3, 3,
            400, "InvalidInput", "12 things."},
        {REFUSED("302 Found", ""), 1, 0, 302, "", ""},
        {REFUSED("500 Internal Server Error", ""), 2, 2, 500, "", ""},
        {REFUSED("429 Too Many Requests", "<html>"), 2, 2, 429, "", ""},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        struct batch_answer answer =
            judge(slice_of(cases[i].body), cases[i].count);

        assert_true(answer.refused);
        assert_false(answer.applied);
        assert_int_equal(answer.failed, cases[i].failed);
        assert_int_equal(answer.status, cases[i].status);
        assert_string_equal(answer.code, cases[i].code);
        assert_string_equal(answer.message, cases[i].message);
    }
}

TEST(other_bodies_are_no_answer)
{
    static const char junk[] =
        "HTTP/1.1 2\n\nHTTP/1.1 abc\r\n\r\n--\n--batchresponse_b";

    assert_int_equal(read_parts("text/html", applied), 0);
    assert_int_equal(read_parts("", applied), 0);
    assert_int_equal(read_parts(ANSWER_TYPE, ""), 0);
    assert_int_equal(read_parts(ANSWER_TYPE, junk), 0);
}

TEST(parts_beyond_the_room_are_counted)
{
    struct batch_part part;
    struct batch_answer answer;

    assert_int_equal(
        batch_read(slice_of(ANSWER_TYPE), slice_of(applied), &part, 1), 2);
    batch_judge(&part, 2, 1, &answer);
    assert_false(answer.applied);
}
