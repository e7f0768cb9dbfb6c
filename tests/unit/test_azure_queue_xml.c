/* SPDX-License-Identifier: MIT */
/* Queue XML: the body of a message to the byte, responses, errors, and bodies
 * that must be refused. */
#include <stdio.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "worker/base/text.h"
#include "worker/store/azure/queue_xml.h"

#define BOM "\xef\xbb\xbf"
#define TIMES                                                                  \
    "<InsertionTime>Wed, 30 Oct 2019 19:51:16 GMT</InsertionTime>"             \
    "<ExpirationTime>Fri, 31 Dec 9999 23:59:59 GMT</ExpirationTime>"

static struct messages messages; /* messages of the last response */
static struct err err;

static int start(void **state)
{
    queue_xml_init();
    messages_init(&messages);
    return 0;
}

static int finish(void **state)
{
    messages_done(&messages);
    return 0;
}

static void check_body(const char *text, const char *expected)
{
    struct buf body;

    buf_init(&body, 4096);
    queue_xml_write(slice_of(text), &body);
    assert_string_equal(buf_text(&body), expected);
    buf_done(&body);
}

TEST(message_is_written_to_the_byte)
{
    static const char hello[] =
        "<QueueMessage><MessageText>hello</MessageText></QueueMessage>";

    assert_int_equal(strlen(hello), 61);
    check_body("hello", hello);
    check_body("", "<QueueMessage><MessageText></MessageText></QueueMessage>");
    check_body("{\"a\": \"<&>]]>\"}\r\n\t\xc3\xa9\xf0\x9f\x98\x80",
        "<QueueMessage><MessageText>{\"a\": \"&lt;&amp;&gt;]]&gt;\"}&#xD;\n"
        "\t\xc3\xa9\xf0\x9f\x98\x80</MessageText></QueueMessage>");
}

static enum tw_err read(const char *body)
{
    return queue_xml_messages(slice_of(body), &messages, &err);
}

static void expect_refused(const char *body)
{
    err.text[0] = '\0';
    if (read(body) != TW_INVALID)
        fail_msg("%s", body);
    assert_int_equal(messages.count, 0);
    assert_true(err.text[0] != '\0');
}

TEST(messages_are_read_by_name_in_any_order)
{
    const struct message *first = &messages.list[0];

    assert_ok(read(BOM
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
        "<QueueMessagesList>\n <QueueMessage><New><MessageId>no"
        "</MessageId></New><MessageText> a &lt;b&gt;&#xD;\n&#x1F600;"
        "<![CDATA[<c>]]> </MessageText><DequeueCount>3"
        "</DequeueCount>" TIMES "<TimeNextVisible>Wed, 30 Oct 2019 19:51:46 GMT"
        "</TimeNextVisible><PopReceipt>AgAA/zhl=</PopReceipt>"
        "<MessageId>17e942ab</MessageId></QueueMessage>"
        "<QueueMessage><MessageId>2</MessageId>" TIMES
        "<MessageText /></QueueMessage></QueueMessagesList>"));
    assert_int_equal(messages.count, 2);
    assert_true(slice_is(first->id, "17e942ab"));
    assert_true(slice_is(first->pop_receipt, "AgAA/zhl="));
    assert_true(slice_is(first->text, " a <b>\r\n\xf0\x9f\x98\x80<c> "));
    assert_int_equal(first->dequeue_count, 3);
    assert_int_equal(
        first->next_visible_ticks - first->inserted_ticks, 30 * TICKS_PER_S);
    assert_int_equal(messages.list[1].text.len, 0);
    assert_int_equal(messages.list[1].pop_receipt.len, 0);
    assert_int_equal(messages.list[1].dequeue_count, 0);
    assert_ok(read(BOM "<?xml version=\"1.0\"?><QueueMessagesList />"));
    assert_int_equal(messages.count, 0);
}

/* A list of one message, whose first element is its id. */
#define MESSAGE(id, more)                                                      \
    "<QueueMessagesList><QueueMessage><MessageId>" id "</MessageId>" more      \
    "</QueueMessage></QueueMessagesList>"

TEST(other_bodies_are_refused)
{
    static const char *const bodies[] = {
        "",
        "x",
        BOM,
        "{\"value\":[]}",
        "<QueueMessagesList>",
        "<QueueMessagesList></QueueMessagesList><a/>",
        "<html><body>ok</body></html>",
        "<QueueMessagesList><QueueMessage>" TIMES
        "</QueueMessage></QueueMessagesList>",
        MESSAGE("1", ""),
        MESSAGE("1", TIMES "<DequeueCount>-1</DequeueCount>"),
        MESSAGE("1", TIMES "<MessageText>\x01</MessageText>"),
        MESSAGE("1", TIMES "<MessageText>\xff</MessageText>"),
        MESSAGE("..", TIMES),
        MESSAGE("a/b", TIMES),
        /* document types and entities */
        "<!DOCTYPE QueueMessagesList [<!ENTITY a \"x\">]>"
        "<QueueMessagesList/>",
        "<!DOCTYPE QueueMessagesList SYSTEM \"file:///etc/passwd\">"
        "<QueueMessagesList/>",
        "<!DOCTYPE q [<!ENTITY e SYSTEM \"file:///etc/passwd\">]>" MESSAGE(
            "&e;", TIMES),
        "<!DOCTYPE q [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b "
        "\"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\">]><QueueMessagesList>&b;"
        "</QueueMessagesList>",
        "<QueueMessagesList>&undefined;</QueueMessagesList>",
    };

    for (size_t i = 0; TEST_EACH(i, bodies); i++)
        expect_refused(bodies[i]);
}

/* The buffers for ids and receipts have no room for texts of this length. The
 * service issues shorter ones. */
TEST(overlong_ids_and_receipts_are_refused)
{
    char text[300] = "", body[1000];

    memset(text, 'r', sizeof(text) - 1);
    snprintf(body, sizeof(body),
        MESSAGE("1", TIMES "<PopReceipt>%s</PopReceipt>"), text);
    expect_refused(body);
    snprintf(body, sizeof(body), MESSAGE("%s", TIMES), text);
    expect_refused(body);
}

/* The response is refused before any of its XML entities is expanded, which
 * would take a day. */
SCRATCH_TEST(document_type_is_refused_before_it_is_read)
{
    static const char body[] =
        "<?xml version=\"1.0\"?><!-- <a> --><!DOCTYPE q [<!ENTITY a \"aa\">"
        "<!ENTITY b \"&a;&a;&a;\">]><Error><Code>&b;</Code></Error>";
    struct slice code = {NULL, 0}, message = {NULL, 0};

    assert_fails(read(body), TW_INVALID, &err, "document type");
    assert_false(queue_xml_error(slice_of(body), &scratch, &code, &message));
}

/* Reads a list that contains `piece` count times. */
static enum tw_err read_repeated(
    const char *piece, size_t count, const char *before, const char *after)
{
    struct buf body;
    enum tw_err outcome;

    buf_init(&body, 4 * 1024 * 1024);
    buf_add_format(&body, "<QueueMessagesList>%s", before);
    for (size_t i = 0; i < count; i++)
        buf_add_text(&body, piece);
    buf_add_format(&body, "%s</QueueMessagesList>", after);
    assert_false(body.overflow);
    outcome = read(buf_text(&body));
    buf_done(&body);
    return outcome;
}

/* Fails unless a list may contain `piece` `most` times, but not `most` + 1
 * times. */
static void check_most(const char *piece, size_t most, const char *says)
{
    assert_ok(read_repeated(piece, most, "", ""));
    assert_fails(
        read_repeated(piece, most + 1, "", ""), TW_INVALID, &err, says);
}

TEST(what_a_body_costs_is_bounded)
{
    check_most("<a/>", 32766, "too many tags");
    check_most("<!-- <a> -->", 32766, "too many tags");
    check_most("<?a <a>?>", 32766, "too many tags");
    check_most("<a b='>' c=\"'\"/>", 512, "too many attributes");
    check_most("<QueueMessage><MessageId>1</MessageId>" TIMES
               "<MessageText>t</MessageText></QueueMessage>",
        32, "more than 32 messages");
    assert_fails(read_repeated("<a>", 62, "", "<b></b><b/><b></b>"), TW_INVALID,
        &err, "not well-formed");
    assert_fails(read_repeated("<a>", 64, "", ""), TW_INVALID, &err,
        "nested too deeply");
    assert_fails(read_repeated("<!--", 1, "", ""), TW_INVALID, &err, "cut off");
    assert_fails(
        read_repeated("\xff", 1, "", ""), TW_INVALID, &err, "not in UTF-8");
}

TEST(a_message_is_no_larger_than_a_queue_takes)
{
    static const char before[] =
        "<QueueMessage><MessageId>1</MessageId>" TIMES "<MessageText>";

    assert_ok(read_repeated("xxxxxxxx", QUEUE_MAX_MESSAGE_BYTES / 8, before,
        "</MessageText></QueueMessage>"));
    assert_fails(read_repeated("xxxxxxxx", QUEUE_MAX_MESSAGE_BYTES / 8, before,
                     "<!-- -->x</MessageText></QueueMessage>"),
        TW_INVALID, &err, "larger than 65536");
}

SCRATCH_TEST(errors_are_read_in_every_form)
{
    static const char *const bodies[] = {
        BOM "<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>C1</Code>"
            "<Message>M 1</Message><Detail>x</Detail></Error>",
        "<?xml version=\"1.0\"?><error xmlns=\"http://schemas.microsoft.com/"
        "ado/2007/08/dataservices/metadata\"><code>C1</code><message "
        "xml:lang=\"en-US\">M 1</message></error>",
        "<m:error xmlns:m=\"http://schemas.microsoft.com/ado/2007/08/"
        "dataservices/metadata\"><m:code>C1</m:code><m:message>M 1"
        "</m:message></m:error>",
    };
    struct slice code, message;

    for (size_t i = 0; TEST_EACH(i, bodies); i++) {
        assert_true(
            queue_xml_error(slice_of(bodies[i]), &scratch, &code, &message));
        assert_true(slice_is(code, "C1"));
        assert_true(slice_is(message, "M 1"));
    }
    assert_false(queue_xml_error(
        slice_of("<html><Code>C</Code></html>"), &scratch, &code, &message));
    assert_false(queue_xml_error(slice_of(""), &scratch, &code, &message));
}

int main(void)
{
    return test_run_all(start, finish);
}
