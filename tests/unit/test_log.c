/* SPDX-License-Identifier: MIT */
/* Log lines: their form, which no input can break. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "worker/base/json.h"
#include "worker/base/log.h"
#include "worker/base/platform.h"

static char logged[1 << 20];
static int saved_stderr = -1;

/* Returns 2024-02-03T04:05:06.789Z. */
static int64_t fixed_ticks(void)
{
    return INT64_C(638396640000000000) + 33 * INT64_C(864000000000) +
           INT64_C(147067899999);
}

static const struct platform_ops fixed = {.wall_ticks = fixed_ticks};

/* Sets the clock to fixed_ticks(), and redirects standard error to a file in
 * the test's directory. */
static void begin(enum log_level level, enum log_format format)
{
    int file = open("log", O_CREAT | O_TRUNC | O_RDWR | O_APPEND, 0600);

    assert_true(file >= 0);
    saved_stderr = dup(STDERR_FILENO);
    dup2(file, STDERR_FILENO);
    close(file);
    platform_use(&fixed);
    log_set(level, format);
}

/* Returns what was logged since begin(). */
static char *end(void)
{
    ssize_t got = pread(STDERR_FILENO, logged, sizeof(logged) - 1, 0);

    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    platform_use(NULL);
    log_set(LOG_INFO, LOG_TEXT);
    assert_true(got >= 0);
    logged[got] = '\0';
    return logged;
}

TEST(levels_below_the_one_set_are_silent)
{
    static const struct {
        enum log_level level;
        const char *lines;
    } cases[] = {
        {LOG_ERROR, "e"},
        {LOG_WARN, "ew"},
        {LOG_INFO, "ewi"},
        {LOG_DEBUG, "ewid"},
    };

    for (size_t i = 0; TEST_EACH(i, cases); i++) {
        const char *at, *line = cases[i].lines;

        begin(cases[i].level, LOG_TEXT);
        log_error("x", "e");
        log_warn("x", "w");
        log_info("x", "i");
        log_debug("x", "d");
        for (at = end(); (at = strstr(at, " x: ")) != NULL; at += 4)
            assert_int_equal(at[4], *line++);
        assert_int_equal(*line, '\0');
    }
}

TEST(names_of_levels_and_formats_are_exact)
{
    enum log_level level = LOG_ERROR;
    enum log_format format = LOG_TEXT;

    assert_true(log_level_named("debug", &level));
    assert_int_equal(level, LOG_DEBUG);
    assert_true(log_level_named("warn", &level));
    assert_int_equal(level, LOG_WARN);
    assert_false(log_level_named("Warn", &level));
    assert_false(log_level_named("", &level));
    assert_int_equal(level, LOG_WARN);
    assert_true(log_format_named("json", &format));
    assert_int_equal(format, LOG_JSON);
    assert_false(log_format_named("xml", &format));
    assert_int_equal(format, LOG_JSON);
}

TEST(no_input_breaks_a_text_line)
{
    begin(LOG_INFO, LOG_TEXT);
    log_info("run a\nb", "%s", "x\n2024 info fake: \x1b[2J\xff\xc3\xa9");
    end();
    assert_ptr_equal(strchr(logged, '\n'), logged + strlen(logged) - 1);
    assert_contains(
        logged, " run a\\x0ab: x\\x0a2024 info fake: \\x1b[2J\\xff\xc3\xa9\n");
}

TEST(no_input_breaks_a_json_line)
{
    char nasty[600];
    struct json *json;
    int at = 0;

    for (int byte = 1; byte < 256; byte++) {
        nasty[at++] = (char)byte;
        if (byte % 3 == 0)
            nasty[at++] = '"';
    }
    nasty[at] = '\0';
    begin(LOG_INFO, LOG_JSON);
    log_info(nasty, "%s", nasty);
    end();
    assert_ptr_equal(strchr(logged, '\n'), logged + strlen(logged) - 1);
    assert_ok(json_parse(slice_of(logged), 1, &json, NULL));
    assert_int_equal(json_count(json), 4);
    assert_true(slice_equal(json_string(json_get(json, "object")),
        json_string(json_get(json, "message"))));
    json_free(json);
}

TEST(a_long_message_is_cut_and_stays_valid)
{
    char *longer = malloc(100001);
    struct json *json;

    memset(longer, '\x01', 100000);
    longer[100000] = '\0';
    begin(LOG_INFO, LOG_JSON);
    log_info("x", "%s", longer);
    end();
    free(longer);
    assert_ok(json_parse(slice_of(logged), 1, &json, NULL));
    assert_contains(logged, "\\\\x01...\"}\n");
    json_free(json);
}

static void print_many(void *arg)
{
    for (int i = 0; i < 200; i++)
        log_info((const char *)arg, "%s", "the same words in every line");
}

TEST(lines_of_threads_do_not_mix)
{
    static char names[4][8] = {"one", "two", "three", "four"};
    struct platform_thread threads[4];
    int lines = 0;

    begin(LOG_INFO, LOG_TEXT);
    platform_use(NULL);
    for (int i = 0; i < 4; i++)
        platform_start(&threads[i], names[i], print_many, names[i]);
    for (int i = 0; i < 4; i++)
        platform_join(&threads[i]);
    end();
    for (char *line = strtok(logged, "\n"); line; line = strtok(NULL, "\n")) {
        char name[8], rest[40];

        assert_int_equal(
            sscanf(line, "%*24s info %7[a-z]: %39[^\n]", name, rest), 2);
        assert_string_equal(rest, "the same words in every line");
        lines++;
    }
    assert_int_equal(lines, 800);
}

TEST(logging_leaves_errno_alone)
{
    begin(LOG_INFO, LOG_TEXT);
    errno = ENOSPC;
    log_info("x", "y");
    assert_int_equal(errno, ENOSPC);
    end();
}

static const struct log_run whole = {
    .object = "run purge/7f3a",
    .job = "purge",
    .id = "7f3a",
    .args = "{\"channel\":\"Football\"}",
    .store = "main",
    .traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    .attempt = 2,
};

TEST(a_json_line_of_a_run_has_its_fields)
{
    static const struct log_number numbers[] = {
        {"duration_ms", 1500}, {"read", INT64_MAX}, {NULL, 0}};

    begin(LOG_INFO, LOG_JSON);
    log_run_line(LOG_INFO, &whole, numbers, "succeeded: %d read", 7);
    log_run_warn(&(struct log_run){.job = "purge"}, "is held");
    log_run_debug(&whole, "not shown");
    end();
    assert_string_equal(logged,
        "{\"time\":\"2024-02-03T04:05:06.789Z\",\"level\":\"info\","
        "\"object\":\"run purge/7f3a\",\"message\":\"succeeded: 7 read\","
        "\"job\":\"purge\",\"run\":\"7f3a\",\"attempt\":2,"
        "\"args\":{\"channel\":\"Football\"},\"store\":\"main\","
        "\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"traceparent\":"
        "\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\","
        "\"duration_ms\":1500,\"read\":9223372036854775807}\n"
        "{\"time\":\"2024-02-03T04:05:06.789Z\",\"level\":\"warn\","
        "\"object\":\"run\",\"message\":\"is held\",\"job\":\"purge\"}\n");
}

TEST(a_text_line_of_a_run_has_object_and_message)
{
    static const struct log_number numbers[] = {{"read", 7}, {NULL, 0}};

    begin(LOG_INFO, LOG_TEXT);
    log_run_line(LOG_ERROR, &whole, numbers, "failed: %s", "no");
    end();
    assert_string_equal(
        logged, "2024-02-03T04:05:06.789Z error run purge/7f3a: failed: no\n");
}

/* journald removes the priority: sd-daemon(3). */
TEST(lines_for_the_journal_begin_with_their_priority)
{
    struct stat info;
    char name[64];

    begin(LOG_INFO, LOG_TEXT);
    assert_int_equal(fstat(STDERR_FILENO, &info), 0);
    (void)snprintf(name, sizeof(name), "%ju:%ju", (uintmax_t)info.st_dev,
        (uintmax_t)info.st_ino);
    assert_int_equal(setenv("JOURNAL_STREAM", name, 1), 0);
    log_set(LOG_DEBUG, LOG_TEXT);
    log_error("x", "a");
    log_warn("x", "b");
    log_info("x", "c");
    log_debug("x", "d");
    log_set(LOG_INFO, LOG_JSON);
    log_info("x", "e");
    end();
    (void)unsetenv("JOURNAL_STREAM");
    log_set(LOG_INFO, LOG_TEXT);
    assert_string_equal(logged,
        "<3>2024-02-03T04:05:06.789Z error x: a\n"
        "<4>2024-02-03T04:05:06.789Z warn x: b\n"
        "<6>2024-02-03T04:05:06.789Z info x: c\n"
        "<7>2024-02-03T04:05:06.789Z debug x: d\n"
        "<6>{\"time\":\"2024-02-03T04:05:06.789Z\",\"level\":\"info\","
        "\"object\":\"x\",\"message\":\"e\"}\n");
}

/* A process inherits JOURNAL_STREAM even if its standard error was redirected.
 */
TEST(lines_elsewhere_have_no_priority)
{
    assert_int_equal(setenv("JOURNAL_STREAM", "1:2", 1), 0);
    begin(LOG_INFO, LOG_TEXT);
    log_error("x", "a");
    end();
    (void)unsetenv("JOURNAL_STREAM");
    assert_string_equal(logged, "2024-02-03T04:05:06.789Z error x: a\n");
}
