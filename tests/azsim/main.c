/* SPDX-License-Identifier: MIT */
/*
 * azsim: Azure's Table and Queue service on loopback ports, over embedded
 * stores in memory, for tests.
 *
 *   azsim [--key BASE64] [--second-key BASE64] [--workers N] [--clock FILE]
 *       [--file DB]
 *
 * --key: the key of every account; without it, the key of the emulator's
 * well-known account.
 * --second-key: a second key of every account; without it, the same key.
 * --workers: for each worker there is a pair of ports, so that the log can tell
 * the workers apart; all pairs serve the same accounts.
 * --clock: a file with the struct of tests/support/bent_platform.h.
 * --file: an embedded store that other processes have open too, in place of
 * stores in memory.
 *
 * Prints one line for each worker,
 *
 *   worker 0: table 40001, queue 40002
 *
 * then "ready". Ends at the end of its standard input.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/azsim/azsim.h"
#include "tests/azsim/catalog.h"
#include "tests/azsim/journal.h"
#include "tests/azsim/knobs.h"
#include "tests/azsim/limits.h"
#include "tests/azsim/queue_service.h"
#include "tests/azsim/server.h"
#include "tests/support/bent_platform.h"
#include "worker/base/buf.h"
#include "worker/base/crypto.h"
#include "worker/base/text.h"

#define DEFAULT_KEY                                                            \
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOt" \
    "r/KBHBeksoGMGw=="

struct options {
    const char *key, *second_key, *clock, *file;
    unsigned workers;
};

static void usage(void)
{
    (void)fprintf(stderr,
        "usage: azsim [--key BASE64] [--second-key BASE64] [--workers N] "
        "[--clock FILE] [--file DB]\n");
    exit(64);
}

static struct options read_options(int count, char **words)
{
    static const struct option known[] = {{"key", 1, NULL, 'k'},
        {"second-key", 1, NULL, 's'}, {"workers", 1, NULL, 'w'},
        {"clock", 1, NULL, 'c'}, {"file", 1, NULL, 'f'}, {0}};
    struct options options = {.key = DEFAULT_KEY, .workers = 1};
    int64_t workers = 1;
    int option;

    while ((option = getopt_long(count, words, "", known, NULL)) != -1) {
        if (option == 'k')
            options.key = optarg;
        else if (option == 's')
            options.second_key = optarg;
        else if (option == 'c')
            options.clock = optarg;
        else if (option == 'f')
            options.file = optarg;
        else if (option != 'w' ||
                 !text_int64(slice_of(optarg), 1, KNOBS_MAX_WORKERS, &workers))
            usage();
    }
    options.workers = (unsigned)workers;
    return options;
}

static struct crypto_hmac_key *read_key(const char *base64)
{
    struct crypto_hmac_key *key;
    struct buf bytes;

    buf_init(&bytes, 1024);
    if (!crypto_unbase64(&bytes, slice_of(base64)))
        usage();
    key = crypto_hmac_key_new(buf_slice(&bytes));
    buf_done(&bytes);
    return key;
}

static void print_ports(const struct server *server, unsigned workers)
{
    for (unsigned i = 0; i < workers; i++)
        (void)printf("worker %u: table %u, queue %u\n", i,
            server_port(server, i, 0), server_port(server, i, 1));
    (void)printf("ready\n");
    (void)fflush(stdout);
}

static void wait_for_end(void)
{
    char byte;

    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
}

int main(int count, char **words)
{
    struct options options = read_options(count, words);
    struct bend *bend = bent_platform_use(options.clock);
    struct azsim azsim = {
        .catalog = catalog_new(options.file),
        .gates = gates_new(),
        .limits = limits_new(),
        .journal = journal_new(),
        .keys = {read_key(options.key),
            read_key(options.second_key ? options.second_key : options.key)},
    };
    struct server *server;

    (void)signal(SIGPIPE, SIG_IGN);
    queue_service_init();
    server = server_start(&azsim, bend, options.workers);
    if (server == NULL) {
        (void)fprintf(stderr, "azsim: no port can be opened\n");
        return 1;
    }
    print_ports(server, options.workers);
    wait_for_end();
    server_stop(server);
    catalog_free(azsim.catalog);
    gates_free(azsim.gates);
    limits_free(azsim.limits);
    journal_free(azsim.journal);
    crypto_hmac_key_free(azsim.keys[0]);
    crypto_hmac_key_free(azsim.keys[1]);
    return 0;
}
