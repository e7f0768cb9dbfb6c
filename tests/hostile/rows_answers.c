/* SPDX-License-Identifier: MIT */
/*
 * Answers of a service, or of a proxy in front of it. If the answer is always
 * the same error, the program makes RETRY_TRIES attempts; the header in AZURE
 * makes it wait only 1 ms between them.
 */
#include "tests/hostile/row.h"

#define AZURE "x-ms-version: 2019-02-02\r\nx-ms-retry-after-ms: 1\r\n"
#define OK "HTTP/1.1 200 OK\r\n" AZURE
#define KEYS "\"PartitionKey\":\"p\",\"RowKey\":\"r\""
#define ETAG "\"odata.etag\":\"W/\\\"e\\\"\","
#define PAGE(entities)                                                         \
    {                                                                          \
        .before = "{\"value\":[" entities "]}"                                 \
    }
#define ONE                                                                    \
    {                                                                          \
        .head = OK, .body = PAGE("{" ETAG KEYS "}")                            \
    }
#define COUNTED .command = "count Blogs", .code = 0, .says = "1"
/* The program succeeds, because only the first answer is bad. */
#define ONCE(...) COUNTED, .answers = {{.times = 1, __VA_ARGS__}, ONE}
#define NOT_COUNTED .command = "count Blogs", .code = 69
#define EXPORTED(ends) .command = "export Blogs out.jsonl", .code = ends
#define STOPPED .stop_after_ms = 1000, .code = 75, .says = "stopped"
/* An error with this message. */
#define REFUSED(text)                                                          \
    .head = "HTTP/1.1 400 No\r\n" AZURE,                                       \
    .body = {.before = "{\"odata.error\":{\"code\":\"Bad\",\"message\":"       \
                       "{\"value\":\"" text "\"}}}"}
#define PROXY "check the endpoint and any proxy"

/* The parts of an answer to a batch that changes entities: one PART for
 * each. */
#define PART                                                                   \
    "--c\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 204 No "            \
    "Content\r\nETag: W/\"e\"\r\n\r\n\r\n"
#define BATCH "HTTP/1.1 202 Accepted\r\n" AZURE
#define MIXED "Content-Type: multipart/mixed; boundary=b\r\n"
#define PARTS(parts)                                                           \
    "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n" parts           \
    "--c--\r\n--b--\r\n"
#define IMPORTED                                                               \
    .command = "import Blogs in.jsonl",                                        \
    .files = {{"in.jsonl", {.before = "{" KEYS ",\"A\":1}\n"}}}

/* The configuration for `enqueue`. This command writes the run's entity and its
 * ledger index row, and then puts a message. */
#define CLOUD(credentials)                                                     \
    "stores:\n  cloud: {azure: {connection_string: \"DefaultEndpointsProtocol" \
    "=http;AccountName=acct;" credentials                                      \
    ";TableEndpoint=http://127.0.0.1:$PORT/acct;"                              \
    "QueueEndpoint=http://127.0.0.1:$PORT/acct\"}}\n"                          \
    "worker:\n  queues: [{name: tableward}]\n"                                 \
    "  poll: {min: 100ms, max: 300ms}\njobs:\n"                                \
    "  good:\n    kind: cascade-delete\n    args: [channel]\n"                 \
    "    parent: {table: Channels, partition_key: \"{channel}\", row_key: "    \
    "\"\", tombstone: {Deleted: true}}\n"                                      \
    "    children: [{table: Blogs, partition_key: \"{channel}\"}]\n"
#define KEY "AccountKey=c2VjcmV0LWtleS1ieXRlcw=="
#define SIGNATURE "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3A"
#define SAS "SharedAccessSignature=sv=2019-02-02&sig=" SIGNATURE "%3D"
#define SERVED                                                                 \
    .command = "worker", .yaml = CLOUD(KEY), .stop_after_ms = 1200, .code = 0
#define CREATED                                                                \
    {.match = "PUT /", .head = "HTTP/1.1 201 Created\r\n" AZURE},              \
    {                                                                          \
        .match = "POST /", .head = "HTTP/1.1 204 No Content\r\n" AZURE,        \
        .unframed = true, .body = {                                            \
            .before = "\r\n"                                                   \
        }                                                                      \
    }
#define GOT .match = "/tableward/messages"
#define MESSAGE                                                                \
    "<MessageId>1</MessageId><InsertionTime>Mon, 01 Jan 2024 00:00:00 "        \
    "GMT</InsertionTime><PopReceipt>r</PopReceipt>"
#define PUT_FAILED                                                             \
    .command = "enqueue good channel=a --id a", .yaml = CLOUD(KEY), .code = 69

/* A job whose tables are in the hostile store. The configuration also has the
 * job of the other queue, whose tables are in the embedded store. */
#define BAD                                                                    \
    "  bad:\n    kind: cascade-delete\n    args: [channel]\n"                  \
    "    parent: {table: Channels, partition_key: \"{channel}\", row_key: "    \
    "\"\", tombstone: {Deleted: true}}\n"                                      \
    "    children: [{table: Blogs, partition_key: \"{channel}\"}]\n"           \
    "    settle: 0s\n"
#define BESIDE                                                                 \
    .command = "worker", .jobs = BAD, .is_worker = true,                       \
    .plants = {{.queue = "tableward",                                          \
        .text = {.before = "{\"job\":\"bad\",\"id\":\"x\",\"args\":{"          \
                           "\"channel\":\"x\"}}"}}}

const struct row answer_rows[] = {
    /* ---- answers that are not HTTP ---- */
    {"reset at once", ONCE(.ending = END_RESET, .body = {.before = ""})},
    {"closed at once", ONCE(.ending = END_CLOSE, .body = {.before = ""})},
    {"garbage", ONCE(.ending = END_CLOSE,
                    .body = {.before = "\x16\x03\x01 what\r\n\r\n"})},
    {"an endless status line",
        ONCE(.ending = END_CLOSE,
            .body = {"HTTP/1.1 200 ", "OK", 4000000, ""})},
    {"an endless header field",
        ONCE(.head = OK "X: ", .unframed = true, .ending = END_CLOSE,
            .body = {"", "xxxxxxxx", 4000000, ""})},
    {"endless header fields",
        ONCE(.ending = END_CLOSE, .body = {OK, "A: b\r\n", 1000000, ""})},
    {"endless interim answers",
        ONCE(.ending = END_CLOSE,
            .body = {"", "HTTP/1.1 100 Continue\r\n\r\n", 1000000, ""})},
    {"folded header fields", NOT_COUNTED,
        .answers = {{.head = OK "x-ms-continuation-NextPartitionKey: a\r\n "
                                "b\r\n",
            .ending = END_CLOSE,
            .body = PAGE("")}},
        .says = "continues in the next line"},
    /* ---- lengths ---- */
    {"two different lengths",
        ONCE(.head = OK "Content-Length: 5\r\n", .body = PAGE(""))},
    {"the same length twice",
        ONCE(.head = OK "Content-Length: 12\r\n", .body = PAGE(""))},
    {"two lengths for a write", IMPORTED,
        .answers = {{.match = "$batch",
                        .head = BATCH MIXED "Content-Length: 5\r\n",
                        .body = {.before = PARTS(PART)}},
            {.match = "PartitionKey='p'",
                .head = "HTTP/1.1 404 No\r\n" AZURE,
                .body = {.before = "{\"odata.error\":{\"code\":\"Resource"
                                   "NotFound\"}}"}}},
        .code = 69, .says = "more than one Content-Length"},
    {"a length that is not a number",
        ONCE(.head = OK "Content-Length: 5, 5\r\n", .unframed = true,
            .body = {.before = "\r\n12345"}, .ending = END_CLOSE)},
    {"a negative length",
        ONCE(.head = OK "Content-Length: -1\r\n", .unframed = true,
            .body = {.before = "\r\n"}, .ending = END_CLOSE)},
    {"a length and chunks", ONCE(.head = OK "Transfer-Encoding: chunked\r\n",
                                .body = {.before = "0\r\n\r\n"})},
    {"a page cut off",
        ONCE(.head = OK "Content-Length: 999\r\n", .unframed = true,
            .body = {.before = "\r\n{\"value\":["}, .ending = END_CLOSE)},
    {"a page that trailers continue", .command = "count Blogs", .code = 0,
        .answers =
            {{.times = 1,
                 .head = OK "Transfer-Encoding: chunked\r\n",
                 .unframed = true,
                 .body = {.before = "\r\nc\r\n{\"value\":[]}\r\n0\r\n"
                                    "x-ms-continuation-NextPartitionKey: "
                                    "a\r\nHTTP/1.1 404 Gone: 1\r\n\r\n"}},
                {.head = OK "x-ms-client-request-id: wrong\r\n",
                    .body = PAGE("")}},
        .says = "0\n"},
    /* ---- answers that are not from the service ---- */
    {"a portal", NOT_COUNTED,
        .answers = {{.head = OK, .body = {.before = "<html>Log in</html>"}}},
        .says = PROXY},
    {"a page without x-ms-version", NOT_COUNTED,
        .answers = {{.head = "HTTP/1.1 200 OK\r\nx-ms-retry-after-ms: 1\r\n",
            .body = PAGE("")}},
        .says = "x-ms-version"},
    {"an answer to another request",
        ONCE(.head = OK "x-ms-client-request-id: other\r\n", .body = PAGE(""))},
    {"a redirect", NOT_COUNTED,
        .answers = {{.head = "HTTP/1.1 302 Found\r\nLocation: "
                             "http://127.0.0.1:1/\r\n"}},
        .says = "redirects to another address"},
    {"a status of no meaning", NOT_COUNTED,
        .answers = {{.head = "HTTP/1.1 999 What\r\nx-ms-retry-after-ms: "
                             "1\r\n"}},
        .says = "999"},
    {"a refusal in control characters", .command = "count Blogs", .code = 1,
        .answers = {{REFUSED("\\u001b[2J\\u009b\\u202e")}},
        .says = "400 Bad:  [2J\\u009b\\u202e"},
    {"a refusal with a document type", NOT_COUNTED,
        .answers = {{.head = "HTTP/1.1 400 No\r\n" AZURE,
            .body = {"<!DOCTYPE q [<!ENTITY a \"aaaaaaaaaaaaaaaa\">",
                "<!ENTITY b \"&a;&a;&a;&a;&a;&a;\">", 100,
                "]><Error><Code>&b;</Code></Error>"}}},
        .says = "400"},
    {"a refusal of a million values", NOT_COUNTED,
        .answers = {{.head = "HTTP/1.1 400 No\r\n" AZURE,
            .body = {"{\"odata.error\":[", "1,", 500000, "1]}"}}},
        .says = "400"},
    {"a refusal of a million elements", NOT_COUNTED,
        .answers = {{.head = "HTTP/1.1 400 No\r\n" AZURE,
            .body = {"<Error>", "<a/>", 250000, "</Error>"}}},
        .says = "400"},
    {"a retry in an hour", .command = "count Blogs",
        .answers = {{.head = "HTTP/1.1 503 Busy\r\nRetry-After: 3600\r\n"}},
        .stop_after_ms = 500, .code = 75, .says = "stopped"},
    /* ---- lists of tables ---- */
    {"tables whose names leave the folder", .command = "export --all out",
        .code = 0,
        .answers = {{.head = OK,
            .body = {.before = "{\"value\":[{\"TableName\":\"../../x\"},"
                               "{\"TableName\":\"\\u001b[2J\"}]}"}}},
        .says = "a table is left out: invalid table name '../../x'",
        .also = "0 tables exported"},
    {"tables without an end", .command = "tables", .code = 69,
        .answers = {{.head = OK "x-ms-continuation-NextTableName: again\r\n",
            .body = {.before = "{\"value\":[{\"TableName\":\"Blogs\"}]}"}}},
        .says = PROXY},
    /* ---- credentials ---- */
    {"the signature as the message", .command = "count Blogs", .code = 1,
        .hides_signature = true, .answers = {{REFUSED("you sent $AUTH")}},
        .says = "*****"},
    {"the signature as the request id", NOT_COUNTED, .hides_signature = true,
        .answers = {{.head = "HTTP/1.1 404 No\r\n" AZURE
                             "x-ms-request-id: $AUTH\r\n"}},
        .says = "*****"},
    {"the signature as the code, in the log", .hides_signature = true,
        .command = "count Blogs --log-level debug", .code = 1,
        .answers = {{.head = "HTTP/1.1 418 No\r\n" AZURE
                             "x-ms-error-code: $AUTH\r\n"}},
        .says = "418"},
    {"the signature as a property", .hides_signature = true, EXPORTED(69),
        .answers = {{.head = OK, .body = PAGE("{" ETAG KEYS ",\"$AUTH\":[]}")}},
        .says = "contains the signature"},
    {"the signature as an entity's key", .hides_signature = true, EXPORTED(69),
        .answers = {{.head = OK,
            .body = PAGE("{" ETAG "\"PartitionKey\":\"$AUTH\",\"RowKey\":"
                         "\"\"}")}},
        .says = "contains the signature"},
    {"the SAS as the message", .command = "count Blogs", .code = 1,
        .yaml = CLOUD(SAS), .answers = {{REFUSED("see " SIGNATURE "=.")}},
        .says = "see ***********************************=."},
    /* ---- pages ---- */
    {"the same continuation for ever", NOT_COUNTED,
        .answers = {{.head = OK "x-ms-continuation-NextPartitionKey: a\r\n",
            .body = PAGE("")}},
        .says = "would never end"},
    {"the same page for ever", NOT_COUNTED,
        .answers = {{.head = OK "x-ms-continuation-NextPartitionKey: a\r\n",
            .body = PAGE("{" ETAG KEYS "}")}},
        .says = "would never end"},
    {"a page of a million entities", NOT_COUNTED,
        .answers = {{.head = OK,
            .body = {"{\"value\":[", "{" KEYS "},", 120000, "{" KEYS "}]}"}}},
        .says = "more than 1000"},
    {"a page of braces", NOT_COUNTED,
        .answers = {{.head = OK,
            .body = {"{\"value\":[", "{},", 1300000, "{}]}"}}},
        .says = PROXY},
    {"a page of brackets", NOT_COUNTED,
        .answers = {{.head = OK, .body = {"{\"value\":", "[", 4000000, ""}}},
        .says = PROXY},
    {"a page of annotations", NOT_COUNTED,
        .answers = {{.head = OK,
            .body = {"{", "\"a\":1,", 500000, "\"value\":[]}"}}},
        .says = PROXY},
    {"an annotation of values", NOT_COUNTED,
        .answers = {{.head = OK,
            .body = {"{\"a\":[", "1,", 2000000, "1],\"value\":[]}"}}},
        .says = PROXY},
    {"a page without an end", EXPORTED(1),
        .answers = {{.head = OK, .body = {"{\"value\":[", " ", 40000000, ""}}},
        .says = "more than"},
    {"an entity of 200,000 properties", EXPORTED(1),
        .answers = {{.head = OK,
            .body = {"{\"value\":[{" ETAG KEYS, ",\"p\":1", 200000, "}]}"}}},
        .says = "more than 1025 values"},
    {"an entity of 256 properties", EXPORTED(1),
        .answers = {{.head = OK,
            .body = {"{\"value\":[{" ETAG KEYS, ",\"p\":1", 256, "}]}"}}},
        .says = "a name that this object already has"},
    {"an entity of the largest text", EXPORTED(0),
        .answers = {{.head = OK,
            .body = {"{\"value\":[{" ETAG KEYS ",\"A\":\"", "\\u20ac", 170000,
                "\"}]}"}}},
        .says = "1"},
    {"an entity nested deeply", EXPORTED(69),
        .answers = {{.head = OK,
            .body = {"{\"value\":[{" KEYS ",\"A\":", "[", 100000, "1}]}"}}},
        .says = PROXY},
    {"a number beyond its type", EXPORTED(1),
        .answers = {{.head = OK, .body = PAGE("{" KEYS ",\"A\":2147483648}")}},
        .says = "'A'"},
    {"a text that is not UTF-8", EXPORTED(1),
        .answers = {{.head = OK, .body = PAGE("{" KEYS ",\"A\":\"\xff\"}")}},
        .says = "not UTF-8"},
    {"a tablename of nothing", .command = "check --online", .code = 69,
        .yaml = CLOUD(KEY),
        .answers = {{.match = "/Tables",
            .head = OK,
            .body = PAGE("{\"TableName\":5}")}},
        .says = "TableName"},
    /* ---- batches ---- */
    {"a batch answered by a portal", IMPORTED,
        .answers = {{.match = "$batch",
            .head = OK,
            .body = {.before = "<html>"}}},
        STOPPED},
    {"a batch of more parts than operations", IMPORTED,
        .answers = {{.match = "$batch",
            .head = BATCH MIXED,
            .body = {PARTS(""), PART, 100000, ""}}},
        STOPPED},
    {"a batch of empty lines", IMPORTED,
        .answers = {{.match = "$batch",
            .head = BATCH MIXED,
            .body = {"--b\r\n", "\r\n", 8000000, ""}}},
        STOPPED},
    /* ---- slowness ---- */
    {"a byte a second", .command = "count Blogs", STOPPED,
        .answers = {{.head = OK "Content-Length: 1000\r\n",
            .unframed = true,
            .body = {.before = "\r\n{\"value\":["},
            .ending = END_DRIP}}},
    {"a byte a second to a write", IMPORTED, STOPPED,
        .answers = {{.match = "$batch",
            .head = BATCH "Content-Length: 99\r\n",
            .unframed = true,
            .body = {.before = "\r\n"},
            .ending = END_DRIP}}},
    {"a byte a second of head", .command = "export Blogs -", STOPPED,
        .answers = {{.body = {.before = "HTTP/1.1 "}, .ending = END_DRIP}}},
    {"silence before a run", .command = "run good channel=a --yes --reopen",
        .yaml = CLOUD(KEY), STOPPED,
        .answers = {{.body = {.before = ""}, .ending = END_SILENT}}},
    {"silence", .command = "census Blogs", STOPPED,
        .answers = {{.body = {.before = ""}, .ending = END_SILENT}}},
    {"a closed port", .command = "status", .code = 69,
        .yaml = "stores:\n  far: {azure: {connection_string: \"Default"
                "EndpointsProtocol=http;AccountName=acct;AccountKey=AAAA;"
                "TableEndpoint=http://127.0.0.1:1/acct;QueueEndpoint="
                "http://127.0.0.1:1/acct\"}}\n"
                "worker:\n  queues: [{name: tableward}]\njobs: {}\n",
        .says = "store far: ", .also = "127.0.0.1 port 1"},
    {"a worker's byte a second", BESIDE,
        .answers = {{.head = OK "Content-Length: 1000\r\n",
            .unframed = true,
            .body = {.before = "\r\n{"},
            .ending = END_DRIP}}},
    {"a worker's silence", BESIDE,
        .answers = {{.body = {.before = ""}, .ending = END_SILENT}}},
    {"a worker's portal", BESIDE,
        .answers = {{.head = "HTTP/1.1 200 OK\r\n",
            .body = {.before = "<html>"}}}},
    {"a worker's endless page", BESIDE,
        .answers = {{.head = OK "x-ms-continuation-NextPartitionKey: a\r\n",
            .body = {"{\"value\":[", " ", 1000000, "]}"}}}},
    {"a worker's refused signature", BESIDE, .hides_signature = true,
        .answers = {{.head = "HTTP/1.1 403 No\r\nx-ms-request-id: $AUTH\r\n",
            .body = {.before =
                         "{\"odata.error\":{\"code\":\"Authentication"
                         "Failed\",\"message\":{\"value\":\"$AUTH\"}}}"}}},
        .says = "check the account key"},
    /* ---- messages ---- */
    {"messages with a document type", SERVED,
        .answers = {CREATED,
            {GOT, .head = OK,
                .body = {"<!DOCTYPE q [<!ENTITY a \"aaaaaaaa\"><!ENTITY b \"",
                    "&a;", 60,
                    "\">]><QueueMessagesList>&b;</QueueMessages"
                    "List>"}}},
        .says = "document type"},
    {"messages of 16 MB of elements", SERVED,
        .answers = {CREATED, {GOT, .head = OK,
                                 .body = {"<QueueMessagesList>", "<a/>",
                                     4000000, "</QueueMessagesList>"}}},
        .says = "too many tags"},
    {"messages of attributes", SERVED,
        .answers = {CREATED,
            {GOT, .head = OK,
                .body = {"<QueueMessagesList", " a=''", 200000, "/>"}}},
        .says = "too many attributes"},
    {"messages nested deeply", SERVED,
        .answers = {CREATED,
            {GOT, .head = OK,
                .body = {"<QueueMessagesList>", "<a>", 1000000, ""}}},
        .says = "nested too deeply"},
    {"more messages than were asked for", SERVED,
        .answers = {CREATED, {GOT, .head = OK,
                                 .body = {"<QueueMessagesList>",
                                     "<QueueMessage>" MESSAGE "</QueueMessage>",
                                     33, "</QueueMessagesList>"}}},
        .says = "messages"},
    {"a message of 15 MB", SERVED,
        .answers = {CREATED,
            {GOT, .head = OK,
                .body = {"<QueueMessagesList><QueueMessage>" MESSAGE
                         "<MessageText>",
                    "xxxxxxxxxxxxxxx", 600000,
                    "</MessageText></QueueMessage></QueueMessagesList>"}}},
        .says = "a message is larger"},
    {"a put message with a document type", PUT_FAILED,
        .answers = {{.match = "GET /",
                        .head = "HTTP/1.1 404 No\r\n" AZURE,
                        .body = {.before = "{\"odata.error\":{\"code\":"
                                           "\"ResourceNotFound\"}}"}},
            {.match = "$batch",
                .head = BATCH MIXED,
                .body = {.before = PARTS(PART PART)}},
            {.match = "/messages",
                .head = "HTTP/1.1 201 Created\r\n" AZURE,
                .body = {.before = "<!DOCTYPE a><QueueMessagesList/>"}}},
        .says = "document type"},
};

const size_t answer_row_count = sizeof(answer_rows) / sizeof(answer_rows[0]);
