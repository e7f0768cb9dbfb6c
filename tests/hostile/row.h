/* SPDX-License-Identifier: MIT */
/*
 * One hostile case: what the program meets, and how it must end. Every case is
 * one row of a table; case.c plays it in a process and a directory of its own.
 *
 * Wherever a text stands, $PORT is the port of the row's server, $AUTH what
 * follows "Authorization: " in the request that is answered, $DIR the
 * directory.
 */
#ifndef TW_TESTS_HOSTILE_ROW_H
#define TW_TESTS_HOSTILE_ROW_H

#include <stdbool.h>
#include <stddef.h>

/* before, count times unit, after: what is large is never held whole. */
struct piece {
    const char *before, *unit;
    size_t count;
    const char *after;
};

enum ending {
    END_KEEP,   /* the connection stays                        */
    END_CLOSE,  /* it is closed in order                       */
    END_RESET,  /* it is reset                                 */
    END_SILENT, /* nothing more comes until the other side goes */
    END_DRIP,   /* a byte a second comes, for ever             */
};

/* What the server answers to a request whose head has `match` in it. */
struct answer {
    const char *match; /* NULL: every request */
    unsigned times;    /* so often, then the next row counts; 0: always */
    const char *head;  /* status line and fields, without the empty line; NULL:
                          the body is sent as it is                        */
    struct piece body;
    bool unframed; /* no Content-Length is added */
    enum ending ending;
};

struct file {
    const char *name;
    struct piece content;
};

/* Put into the embedded store before the program starts. */
struct plant {
    const char *queue; /* a message's, or NULL: an entity's */
    const char *table, *partition_key, *row_key;
    struct piece text; /* of the message; or properties, without braces */
};

struct row {
    const char *name;
    const char *command; /* words with a blank between; '_' within one is one */
    const char *jobs;    /* below `jobs:`; NULL: none */
    const char *yaml;    /* the whole configuration instead */
    struct file files[2];
    struct answer answers[4];
    struct plant plants[4];
    int code;         /* how it ends */
    const char *says; /* somewhere in what it prints; NULL: nothing of note */
    const char *also; /* the same, for a second thing */
    bool hides_signature; /* what it prints has no signature of a request */
    bool is_worker;       /* what was asked of another queue must be done; then
                             SIGTERM must end it with `code`               */
    unsigned stop_after_ms; /* SIGTERM comes so late; 0: none does */
};

extern const struct row answer_rows[], file_rows[], ledger_rows[];
extern const size_t answer_row_count, file_row_count, ledger_row_count;

/* What a program may take: memory, and time until it ends, or ends after a
 * signal. */
struct limits {
    unsigned mebibytes;
    unsigned ms;
};

/* case_run: play one row with the program; false: *why (of size bytes) says
 * what was wrong. Changes the directory. */
bool case_run(const struct row *row, const char *program,
    const struct limits *limits, char *why, size_t size);

#endif
