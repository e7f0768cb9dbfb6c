/* SPDX-License-Identifier: MIT */
/* Datagrams to the service manager, which a socket of this test receives. */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "worker/run/notify.h"

/* The service manager: a socket with a path in the test's folder, or an
 * abstract socket. */
struct manager {
    int fd;
    char name[100]; /* address, as written in $NOTIFY_SOCKET */
    char text[1024];
};

static struct manager manager;
static struct err err;

static void manager_open(bool abstract)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char folder[80];
    socklen_t len;

    manager.fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_true(manager.fd >= 0);
    if (abstract)
        (void)snprintf(manager.name, sizeof(manager.name), "@tableward-test-%d",
            (int)getpid());
    else
        (void)snprintf(manager.name, sizeof(manager.name), "%s/notify",
            getcwd(folder, sizeof(folder)));
    len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
                      strlen(manager.name));
    memcpy(address.sun_path, manager.name, strlen(manager.name));
    if (abstract)
        address.sun_path[0] = '\0';
    else
        (void)unlink(manager.name);
    assert_int_equal(bind(manager.fd, (struct sockaddr *)&address, len), 0);
}

static void manager_close(void)
{
    (void)close(manager.fd);
    if (manager.name[0] == '/')
        (void)unlink(manager.name);
}

static const char *heard(void)
{
    ssize_t len = recv(manager.fd, manager.text, sizeof(manager.text) - 1, 0);

    assert_true(len >= 0);
    manager.text[len] = '\0';
    return manager.text;
}

static void hears_everything(bool abstract)
{
    struct notify *notify;
    long long usec;

    manager_open(abstract);
    notify = notify_open(manager.name, "3000000", NULL, &err);
    assert_non_null(notify);
    notify_ready(notify);
    assert_string_equal(heard(), "READY=1");
    notify_status(notify, "%d of %d slots\nREADY=0", 1, 4);
    assert_string_equal(heard(), "STATUS=1 of 4 slots READY=0");
    notify_watchdog(notify);
    assert_string_equal(heard(), "WATCHDOG=1");
    notify_reloading(notify);
    assert_int_equal(
        sscanf(heard(), "RELOADING=1\nMONOTONIC_USEC=%lld", &usec), 1);
    assert_true(usec > 0);
    notify_stopping(notify);
    assert_string_equal(heard(), "STOPPING=1");
    assert_int_equal(notify_watchdog_ms(notify), 1500);
    notify_close(notify);
    manager_close();
}

TEST(a_socket_by_path_hears_everything)
{
    hears_everything(false);
}

TEST(an_abstract_socket_hears_everything)
{
    hears_everything(true);
}

TEST(without_a_socket_nothing_is_sent)
{
    struct notify *notify = notify_open(NULL, NULL, NULL, &err);

    assert_non_null(notify);
    notify_ready(notify);
    assert_int_equal(notify_watchdog_ms(notify), 0);
    notify_close(notify);
    notify_ready(NULL);
    assert_int_equal(notify_watchdog_ms(NULL), 0);
}

TEST(a_manager_that_is_gone_is_no_failure)
{
    struct notify *notify;

    manager_open(true);
    notify = notify_open(manager.name, NULL, NULL, &err);
    manager_close();
    notify_ready(notify);
    notify_close(notify);
}

TEST(another_process_s_watchdog_is_not_ours)
{
    struct notify *notify;
    char pid[20];

    manager_open(true);
    notify = notify_open(manager.name, "2000000", "1", &err);
    assert_int_equal(notify_watchdog_ms(notify), 0);
    notify_close(notify);
    (void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
    notify = notify_open(manager.name, "2000000", pid, &err);
    assert_int_equal(notify_watchdog_ms(notify), 1000);
    notify_close(notify);
    manager_close();
}

TEST(an_address_of_no_use_is_refused)
{
    assert_null(notify_open("relative", NULL, NULL, &err));
    assert_null(notify_open(
        "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        NULL, NULL, &err));
}
