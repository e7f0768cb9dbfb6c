/* SPDX-License-Identifier: MIT */
/*
 * One hostile case: what the program receives, and how it must end. Each case
 * is one row of a table; case.c runs it in a process and a directory of its
 * own.
 *
 * In any text, $PORT stands for the port of the row's server, $AUTH for the
 * text after "Authorization: " in the request that is answered, and $DIR for
 * the directory.
 */
#ifndef TW_TESTS_HOSTILE_ROW_H
#define TW_TESTS_HOSTILE_ROW_H

#include <stdbool.h>
#include <stddef.h>

/* A text: `before`, then `count` times `unit`, then `after`. A large text is
 * never in memory as a whole. */
struct piece {
    const char *before, *unit;
    size_t count;
    const char *after;
};

enum ending {
    END_KEEP,   /* the connection stays open */
    END_CLOSE,  /* the connection is closed */
    END_RESET,  /* the connection is reset */
    END_SILENT, /* nothing more is sent until the client disconnects */
    END_DRIP,   /* a byte is sent every second, for ever */
};

/* What the server answers to a request whose head has `match` in it. */
struct answer {
    const char *match; /* NULL: every request */
    unsigned times;   /* how many requests get this answer; after them, the next
                         answer in the list counts; 0: no limit */
    const char *head; /* status line and fields, without the empty line; NULL:
                         only the body is sent, as it is */
    struct piece body;
    bool unframed; /* no Content-Length is added */
    enum ending ending;
};

struct file {
    const char *name;
    struct piece content;
};

/* A message or an entity that is put into the embedded store before the program
 * starts. */
struct plant {
    const char *queue; /* the queue of a message; NULL: an entity */
    const char *table, *partition_key, *row_key;
    struct piece text; /* text of the message, or the entity's properties as
                          JSON without the outer braces */
};

struct row {
    const char *name;
    const char *command; /* words with a blank between them; ~ stands for a
                            blank inside a word */
    const char *jobs;    /* below `jobs:`; NULL: none */
    const char *yaml; /* the whole configuration, in place of the default one */
    struct file files[2];
    struct answer answers[4];
    struct plant plants[4];
    int code;             /* exit code */
    const char *says;     /* part of the output; NULL: not checked */
    const char *also;     /* another part of the output; NULL: not checked */
    bool hides_signature; /* the output must not contain a signature of a
                             request */
    bool is_worker; /* the command is a worker: it must handle a message on
                     * the queue `other`; then SIGTERM is sent, and the exit
                     * code must be `code` */
    unsigned stop_after_ms; /* SIGTERM is sent after this time; 0: never */
};

extern const struct row answer_rows[], file_rows[], ledger_rows[];
extern const size_t answer_row_count, file_row_count, ledger_row_count;

/* Limits of a program: memory, and time until it ends by itself or after a
 * signal. */
struct limits {
    unsigned mebibytes;
    unsigned ms;
};

/* case_run: runs one row with the program. False: why (of size bytes) says what
 * was wrong. Changes the current directory. */
bool case_run(const struct row *row, const char *program,
    const struct limits *limits, char *why, size_t size);

#endif
