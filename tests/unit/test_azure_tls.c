/* SPDX-License-Identifier: MIT */
/* The certificates that https trusts are read once, and not for each
 * connection. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "worker/base/crypto.h"
#include "worker/base/platform.h"
#include "worker/store/azure/http.h"

/* A server for one connection, with a certificate that it has created itself.
 */
struct server {
    EVP_PKEY *key;
    X509 *certificate;
    SSL_CTX *context;
    int fd, port;
    struct platform_thread thread;
};

static void make_certificate(struct server *server)
{
    X509 *made = X509_new();
    X509_NAME *name = X509_get_subject_name(made);
    X509_EXTENSION *address =
        X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");

    server->key = EVP_EC_gen("P-256");
    ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
    X509_set_version(made, X509_VERSION_3);
    X509_gmtime_adj(X509_getm_notBefore(made), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made), 3600);
    X509_set_pubkey(made, server->key);
    X509_NAME_add_entry_by_txt(
        name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(made, name);
    X509_add_ext(made, address, -1);
    X509_EXTENSION_free(address);
    assert_true(X509_sign(made, server->key, EVP_sha256()) > 0);
    server->certificate = made;
}

static void make_socket(struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof(address);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(server->fd, 1), 0);
    assert_int_equal(
        getsockname(server->fd, (struct sockaddr *)&address, &len), 0);
    server->port = ntohs(address.sin_port);
}

static void serve(void *arg)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    struct server *server = arg;
    int fd = accept(server->fd, NULL, NULL);
    SSL *ssl = SSL_new(server->context);
    char request[4096];

    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1 && SSL_read(ssl, request, sizeof(request)) > 0)
        (void)!SSL_write(ssl, answer, sizeof(answer) - 1);
    SSL_free(ssl);
    close(fd);
}

static void server_start(struct server *server)
{
    make_certificate(server);
    make_socket(server);
    server->context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_use_certificate(server->context, server->certificate);
    SSL_CTX_use_PrivateKey(server->context, server->key);
    platform_start(&server->thread, "server", serve, server);
}

static void server_end(struct server *server)
{
    platform_join(&server->thread);
    close(server->fd);
    SSL_CTX_free(server->context);
    X509_free(server->certificate);
    EVP_PKEY_free(server->key);
}

static enum tw_err ask(const struct server *server)
{
    struct http *http = http_new();
    struct http_answer answer;
    struct err err;
    char url[64];
    enum tw_err outcome;
    bool pipe = platform_block_pipe();

    snprintf(url, sizeof(url), "https://127.0.0.1:%d/", server->port);
    http_answer_init(&answer);
    outcome = http_send(http,
        &(struct http_request){.method = "GET",
            .url = url,
            .peer = "the server",
            .no_proxy = true,
            .max_answer_bytes = 1000},
        NULL, &answer, &err);
    http_answer_done(&answer);
    http_free(http);
    if (pipe)
        platform_let_pipe();
    return outcome;
}

TEST(only_a_certificate_that_the_machine_trusts_is_taken)
{
    struct server server;
    FILE *file = fopen("root.pem", "w");

    server_start(&server);
    assert_int_equal(ask(&server), TW_BUSY);
    server_end(&server);

    server_start(&server);
    assert_int_equal(PEM_write_X509(file, server.certificate), 1);
    fclose(file);
    setenv("SSL_CERT_FILE", "root.pem", 1);
    assert_ok(ask(&server));
    unsetenv("SSL_CERT_FILE");
    server_end(&server);
}

/* Each connection used to read all trusted roots: 50 MiB with 32 request
 * threads. */
TEST(connections_share_the_trusted_roots)
{
    struct crypto_roots *roots = crypto_roots_new();
    SSL_CTX *first = SSL_CTX_new(TLS_client_method());
    SSL_CTX *second = SSL_CTX_new(TLS_client_method());

    crypto_roots_lend(roots, first);
    crypto_roots_lend(roots, second);
    assert_ptr_equal(
        SSL_CTX_get_cert_store(first), SSL_CTX_get_cert_store(second));
    SSL_CTX_free(first);
    SSL_CTX_free(second);
    crypto_roots_free(roots);
}
