/* SPDX-License-Identifier: MIT */
/* Files that the user names: entities to import, and configurations. */
#include "tests/hostile/row.h"

#define KEYS "\"PartitionKey\":\"p\",\"RowKey\":\"r\""
#define LINES(...)                                                             \
    .command = "import Blogs in.jsonl --store main",                           \
    .files = {{"in.jsonl", {.before = __VA_ARGS__}}}, .code = 1
#define CSV(...)                                                               \
    .command = "import Blogs in.csv --store main",                             \
    .files = {{"in.csv", {.before = __VA_ARGS__}}}, .code = 1
#define YAML(text) .command = "check", .yaml = text, .code = 78

const struct row file_rows[] = {
    {"a line of 20 MB",
        LINES("{" KEYS ",\"A\":\"", "xxxxxxxxxx", 2000000, "\"}\n"),
        .says = "in.jsonl:1: "},
    {"a line of 200,000 properties", LINES("{" KEYS, ",\"p\":1", 200000, "}\n"),
        .says = "in.jsonl:1: "},
    {"a line of brackets", LINES("{" KEYS ",\"A\":", "[", 500000, "\n"),
        .says = "in.jsonl:1: "},
    {"a line that is a list", LINES("[", "1,", 100000, "1]\n"),
        .says = "a list is not an entity"},
    {"a million empty lines", LINES("", "\n", 1000000, "what\n"),
        .says = "in.jsonl:1000001: "},
    {"a line with a NUL", LINES("{" KEYS ",\"A\\u0000\":1}\n"),
        .says = "in.jsonl:1: "},
    {"a line that is not UTF-8", LINES("{" KEYS ",\"A\":\"\xc3\x28\"}\n"),
        .says = "in.jsonl:1: "},
    {"a key with a slash",
        LINES("{\"PartitionKey\":\"a/b\",\"RowKey\":\"\"}\n"),
        .says = "forbids in keys"},
    {"a key of 400 kB",
        LINES("{\"PartitionKey\":\"", "k", 400000, "\",\"RowKey\":\"\"}\n"),
        .says = "512 UTF-16 units"},
    {"a key that turns the text round",
        LINES("{\"PartitionKey\":\"\\u202egpj\\u009b/\",\"RowKey\":\"\"}\n"),
        .says = "\\u202egpj\\u009b"},
    {"a property twice", LINES("{" KEYS ",\"A\":1,\"\\u0041\":2}\n"),
        .says = "already has"},
    {"a type of nothing",
        LINES("{" KEYS ",\"A@odata.type\":\"Edm.What\",\"A\":\"1\"}\n"),
        .says = "'A'"},
    {"an Int64 of 400 digits",
        LINES("{" KEYS ",\"A@odata.type\":\"Edm.Int64\",\"A\":\"", "9", 400,
            "\"}\n"),
        .says = "'A'"},
    {"a Double beyond all", LINES("{" KEYS ",\"A\":1e999}\n"), .says = "'A'"},
    {"a file of NULs", LINES("", "\x01", 100000, "\n"), .says = "in.jsonl:1: "},
    {"no file at all", .command = "import Blogs none.jsonl --store main",
        .code = 1, .says = "none.jsonl"},
    {"a quote that is never closed",
        CSV("PartitionKey,RowKey,A\np,r,\"", "x\n", 3000000, ""),
        .says = "in.csv"},
    {"a header of 100,000 columns",
        CSV("PartitionKey,RowKey", ",A", 100000, "\np,r\n"), .says = "in.csv"},
    {"a row of 100,000 cells",
        CSV("PartitionKey,RowKey\np,r", ",", 100000, "\n"),
        .says = "in.csv:2: "},
    {"a CSV without keys", CSV("A,B\n1,2\n"), .says = "PartitionKey"},
    {"a CSV column twice", CSV("PartitionKey,RowKey,A,A\np,r,1,2\n"),
        .says = "A"},
    {"aliases of aliases",
        YAML("a: &a [x, x, x, x, x, x, x, x]\n"
             "b: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n"
             "c: &c [*b, *b, *b, *b, *b, *b, *b, *b]\n"
             "d: &d [*c, *c, *c, *c, *c, *c, *c, *c]\n"
             "e: &e [*d, *d, *d, *d, *d, *d, *d, *d]\n"
             "f: &f [*e, *e, *e, *e, *e, *e, *e, *e]\n"
             "g: &g [*f, *f, *f, *f, *f, *f, *f, *f]\n"
             "h: &h [*g, *g, *g, *g, *g, *g, *g, *g]\n"
             "jobs: *h\n"),
        .says = "tableward.yaml:"},
    {"an alias of itself", YAML("jobs: &a {x: *a}\n"),
        .says = "tableward.yaml:"},
    {"a key twice", YAML("jobs: {}\njobs: {}\n"), .says = "tableward.yaml:2"},
    {"an unclosed bracket", YAML("stores: {main: [\n"),
        .says = "tableward.yaml:"},
    {"a YAML with control characters", YAML("jobs: \"\x01\x9b\"\n"),
        .says = "tableward.yaml"},
    {"a YAML of tabs", YAML("stores:\n\tmain: {embedded: a}\n"),
        .says = "tableward.yaml:2"},
    {"two documents", YAML("stores: {}\n---\nstores: {}\n"),
        .says = "tableward.yaml"},
    {"a YAML that is a list", YAML("- a\n- b\n"), .says = "tableward.yaml:1"},
    {"a duration beyond all",
        YAML("stores: {main: {embedded: a.db}}\nworker: {visibility_timeout: "
             "99999999999999999999d}\njobs: {}\n"),
        .says = "visibility_timeout"},
    {"a configuration of brackets", .command = "check --config deep.yaml",
        .code = 78, .files = {{"deep.yaml", {"jobs: ", "[", 200000, "\n"}}},
        .says = "deep.yaml"},
    {"a configuration of 200,000 keys", .command = "check --config wide.yaml",
        .code = 78, .files = {{"wide.yaml", {"", "a: 1\n", 200000, ""}}},
        .says = "wide.yaml"},
};

const size_t file_row_count = sizeof(file_rows) / sizeof(file_rows[0]);
