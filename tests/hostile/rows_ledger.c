/* SPDX-License-Identifier: MIT */
/* Messages on a queue and entities of the ledger, as written by anyone with the
 * right to write there. In every row with a worker, a run on the queue `other`
 * must succeed nevertheless. */
#include "tests/hostile/row.h"

#define SERVED .command = "worker", .is_worker = true
#define SENT(...)                                                              \
    SERVED, .plants = {{.queue = "tableward", .text = {.before = __VA_ARGS__}}}
/* The ledger's entity of run x, and the message for this run. */
#define KEPT(...)                                                              \
    SERVED, .plants = {{.queue = "tableward",                                  \
                           .text = {.before = "{\"job\":\"good\",\"id\":"      \
                                              "\"x\",\"args\":{\"channel\":"   \
                                              "\"x\"}}"}},                     \
                {.table = "TablewardRuns",                                     \
                    .partition_key = "good",                                   \
                    .row_key = "x",                                            \
                    .text = {.before = __VA_ARGS__}},                          \
                {.table = "TablewardRuns",                                     \
                    .partition_key = "good",                                   \
                    .row_key = "!open!x",                                      \
                    .text = {.before = "\"State\":\"queued\""}}}
#define RUN                                                                    \
    "\"State\":\"queued\",\"Queue\":\"tableward\",\"Args\":\"{\\\"channel\\\"" \
    ":\\\"x\\\"}\""
#define INDEX(id)                                                              \
    SERVED, .plants = {{.table = "TablewardRuns",                              \
                .partition_key = "good",                                       \
                .row_key = "!open!" id,                                        \
                .text = {.before = "\"State\":\"queued\""}}}
#define STATUS(id, ...) .command = "status", LISTED(id, __VA_ARGS__)
#define LISTED(id, ...)                                                        \
    .plants = {{.table = "TablewardRuns",                                      \
                   .partition_key = "good",                                    \
                   .row_key = id,                                              \
                   .text = {.before = __VA_ARGS__}},                           \
        {.table = "TablewardRuns",                                             \
            .partition_key = "good",                                           \
            .row_key = "!open!" id,                                            \
            .text = {.before = "\"State\":\"queued\""}}}
#define TEN "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

const struct row ledger_rows[] = {
    /* ---- messages ---- */
    {"an empty message", SENT(""), .says = "tableward"},
    {"a message of blanks", SENT("", " ", 60000, ""), .says = "tableward"},
    {"a message of brackets", SENT("{\"job\":", "[", 60000, ""),
        .says = "nested too deeply"},
    {"a message of values", SENT("[", "1,", 30000, "1]"), .says = "tableward"},
    {"a message of names",
        SENT("{\"job\":\"good\",\"args\":{", "\"channel\":\"a\",", 4000,
            "\"b\":\"\"}}"),
        .says = "already has"},
    {"a message of 4,000 arguments",
        SENT("{\"job\":\"good\",\"args\":{\"a", "\":\"1\",\"a", 8000,
            "\":\"\"}}"),
        .says = "already has"},
    {"a message cut off", SENT("{\"job\":\"good\",\"args\":{\"chan"),
        .says = "ends too early"},
    {"a message in no base64", SENT("AAAA!AAAA="), .says = "tableward"},
    {"a message for no job", SENT("{\"job\":\"\\u202e\\u009b\",\"args\":{}}"),
        .says = "\\u202e\\u009b"},
    {"a message with the id ..",
        SENT("{\"job\":\"good\",\"id\":\"..\",\"args\":{\"channel\":\"x\"}}"),
        .says = "id"},
    {"a message with an empty id",
        SENT("{\"job\":\"good\",\"id\":\"\",\"args\":{\"channel\":\"x\"}}"),
        .says = "id"},
    {"a message with an id of 400 characters",
        SENT("{\"job\":\"good\",\"id\":\"", TEN, 40,
            "\",\"args\":{\"channel\":\"x\"}}"),
        .says = "id"},
    {"a message with an id of a lock",
        SENT("{\"job\":\"good\",\"id\":\"!open!a\",\"args\":{\"channel\":"
             "\"x\"}}"),
        .says = "id"},
    {"a message from the year 99999",
        SENT("{\"job\":\"good\",\"id\":\"x\",\"at\":\"99999-01-01T00:00:00Z\","
             "\"args\":{\"channel\":\"x\"}}"),
        .says = "at"},
    {"a message with a key of 400 characters",
        SENT("{\"job\":\"good\",\"id\":\"x\",\"args\":{\"channel\":\"", TEN, 60,
            "\"}}"),
        .says = "512"},
    {"a message with a slash for a key",
        SENT("{\"job\":\"good\",\"id\":\"x\",\"args\":{\"channel\":\"a/"
             "b\"}}"),
        .says = "forbids in keys"},
    /* ---- the ledger ---- */
    {"a run of an unknown State", KEPT("\"State\":\"asleep\",\"Args\":\"{}\"")},
    {"a run whose State is a number", KEPT("\"State\":5"), .says = "State"},
    {"a run without a State", KEPT("\"Args\":\"{}\""), .says = "State"},
    {"a run of Attempt INT32_MAX", KEPT(RUN ",\"Attempt\":2147483647")},
    {"a run of Attempt INT32_MIN", KEPT(RUN ",\"Attempt\":-2147483648")},
    {"a run of Epoch INT32_MAX", KEPT(RUN ",\"Epoch\":2147483647")},
    {"a run of Failures INT32_MAX", KEPT(RUN ",\"Failures\":2147483647")},
    {"a run of Silent INT32_MAX", KEPT(RUN ",\"Silent\":2147483647")},
    {"a run of negative counters",
        KEPT(RUN ",\"EntitiesDeleted@odata.type\":\"Edm.Int64\","
                 "\"EntitiesDeleted\":\"-9223372036854775808\"")},
    {"a run of full counters",
        KEPT(RUN ",\"EntitiesDeleted@odata.type\":\"Edm.Int64\","
                 "\"EntitiesDeleted\":\"9223372036854775807\","
                 "\"Transactions@odata.type\":\"Edm.Int64\","
                 "\"Transactions\":\"9223372036854775807\",\"Throttled\":"
                 "2147483647")},
    {"a run leased for ever",
        KEPT(RUN ",\"Owner\":\"x\",\"LeaseUntil@odata.type\":\"Edm.DateTime\","
                 "\"LeaseUntil\":\"9999-12-31T23:59:59Z\"")},
    {"a run from before time",
        KEPT(RUN ",\"RequestedAt@odata.type\":\"Edm.DateTime\","
                 "\"RequestedAt\":\"1601-01-01T00:00:00Z\","
                 "\"ResumesAt@odata.type\":\"Edm.DateTime\","
                 "\"ResumesAt\":\"9999-12-31T23:59:59Z\"")},
    {"a run of a newer Format", KEPT(RUN ",\"Format\":2147483647")},
    {"a run with arguments of brackets",
        KEPT("\"State\":\"queued\",\"Args\":\"", "[", 30000, "\"")},
    {"a run with a checkpoint of brackets",
        KEPT(RUN ",\"Checkpoint\":\"", "[", 30000, "\"")},
    {"a run with a checkpoint of values",
        KEPT(RUN ",\"Checkpoint\":\"[", "1,", 15000, "1]\"")},
    {"a run with a cascade's checkpoint of another",
        KEPT(RUN ",\"Phase\":\"parent\",\"Checkpoint\":\"{\\\"v\\\":1e999}\"")},
    {"a run under control of nobody",
        KEPT(RUN ",\"Control\":\"\\u202e\\u009b[2J\"")},
    {"an index row of no run", INDEX("gone")},
    {"an index row of the id ..", INDEX("..")},
    {"an index row of an empty id", INDEX("")},
    {"an index row of 400 characters", INDEX(HUNDRED HUNDRED HUNDRED HUNDRED)},
    {"a status of the id ..", STATUS("..", RUN), .code = 0, .says = ".."},
    {"a status of an empty id", STATUS("", RUN), .code = 0},
    {"a status of 400 characters", STATUS(HUNDRED HUNDRED HUNDRED HUNDRED, RUN),
        .code = 0, .says = TEN},
    {"a status that turns the text round",
        STATUS("\xe2\x80\xae"
               "a",
            RUN ",\"Error\":\"\\u202e\\u009b\""),
        .code = 0, .says = "\\u202e"},
    {"a status in JSON that turns the text round",
        LISTED("x", RUN ",\"Note\":\"\\u202e\\u009b\""),
        .command = "status x --json", .code = 0, .says = "\\u202e\\u009b"},
    {"a status of an unknown State", STATUS("x", "\"State\":\"asleep\""),
        .code = 0, .says = "asleep"},
    {"a status of Attempt INT32_MAX",
        STATUS("x", RUN ",\"Attempt\":2147483647"), .code = 0, .says = "x"},
};

const size_t ledger_row_count = sizeof(ledger_rows) / sizeof(ledger_rows[0]);
