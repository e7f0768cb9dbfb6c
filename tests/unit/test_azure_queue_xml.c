/* SPDX-License-Identifier: MIT */
/* Queue XML: the body of a message to the byte, responses, errors, and bodies
 * that must be refused. */
#include <stdio.h>
#include <string.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"
#include "worker/base/text.h"
#include "worker/store/azure/queue_xml.h"

#define BOM "\xef\xbb\xbf"
#define TIMES                                                                  \
    "<InsertionTime>Wed, 30 Oct 2019 19:51:16 GMT</InsertionTime>"             \
    "<ExpirationTime>Fri, 31 Dec 9999 23:59:59 GMT</ExpirationTime>"

static int start(void **state)
{
    queue_xml_init();
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

static enum tw_err read(const char *body, struct messages *messages)
{
    struct err err = {""};
    enum tw_err code = queue_xml_messages(slice_of(body), messages, &err);

    if (code != TW_OK) {
        assert_int_equal(messages->count, 0);
        assert_true(err.text[0] != '\0');
    }
    return code;
}

TEST(messages_are_read_by_name_in_any_order)
{
    struct messages messages;
    const struct message *first = &messages.list[0];

    messages_init(&messages);
    assert_ok(read(BOM
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
        "<QueueMessagesList>\n <QueueMessage><New><MessageId>no"
        "</MessageId></New><MessageText> a &lt;b&gt;&#xD;\n&#x1F600;"
        "<![CDATA[<c>]]> </MessageText><DequeueCount>3"
        "</DequeueCount>" TIMES "<TimeNextVisible>Wed, 30 Oct 2019 19:51:46 GMT"
        "</TimeNextVisible><PopReceipt>AgAA/zhl=</PopReceipt>"
        "<MessageId>17e942ab</MessageId></QueueMessage>"
        "<QueueMessage><MessageId>2</MessageId>" TIMES
        "<MessageText /></QueueMessage></QueueMessagesList>",
        &messages));
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
    assert_ok(
        read(BOM "<?xml version=\"1.0\"?><QueueMessagesList />", &messages));
    assert_int_equal(messages.count, 0);
    messages_done(&messages);
}

static void add_message(struct buf *body, int number)
{
    buf_add_format(body,
        "<QueueMessage><MessageId>%d</MessageId>" TIMES
        "<MessageText>t</MessageText></QueueMessage>",
        number);
}

TEST(at_most_32_messages_are_taken)
{
    struct messages messages;

    messages_init(&messages);
    for (int count = 32; count <= 33; count++) {
        struct buf body;

        buf_init(&body, 65536);
        buf_add_text(&body, "<QueueMessagesList>");
        for (int i = 0; i < count; i++)
            add_message(&body, i);
        buf_add_text(&body, "</QueueMessagesList>");
        assert_int_equal(
            read(buf_text(&body), &messages), count == 32 ? TW_OK : TW_INVALID);
        buf_done(&body);
    }
    messages_done(&messages);
}

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
        "<QueueMessagesList><QueueMessage><MessageId>1</MessageId>"
        "</QueueMessage></QueueMessagesList>",
        "<QueueMessagesList><QueueMessage><MessageId>1</MessageId>" TIMES
        "<DequeueCount>-1</DequeueCount></QueueMessage></QueueMessagesList>",
        "<QueueMessagesList><QueueMessage><MessageId>1</MessageId>" TIMES
        "<MessageText>\x01</MessageText></QueueMessage></QueueMessagesList>",
        "<QueueMessagesList><QueueMessage><MessageId>1</MessageId>" TIMES
        "<MessageText>\xff</MessageText></QueueMessage></QueueMessagesList>",
        "<QueueMessagesList><QueueMessage><MessageId>..</MessageId>" TIMES
        "</QueueMessage></QueueMessagesList>",
        "<QueueMessagesList><QueueMessage><MessageId>a/b</MessageId>" TIMES
        "</QueueMessage></QueueMessagesList>",
    };
    struct messages messages;

    messages_init(&messages);
    for (size_t i = 0; TEST_EACH(i, bodies); i++)
        if (read(bodies[i], &messages) != TW_INVALID)
            fail_msg("%s", bodies[i]);
    messages_done(&messages);
}

/* Longer ids and receipts than the service issues, for which the buffers have
 * no room. */
TEST(overlong_ids_and_receipts_are_refused)
{
    char text[300] = "", body[1000];
    struct messages messages;

    messages_init(&messages);
    memset(text, 'r', sizeof(text) - 1);
    snprintf(body, sizeof(body),
        "<QueueMessagesList><QueueMessage><MessageId>1</MessageId>" TIMES
        "<PopReceipt>%s</PopReceipt></QueueMessage></QueueMessagesList>",
        text);
    assert_int_equal(read(body, &messages), TW_INVALID);
    snprintf(body, sizeof(body),
        "<QueueMessagesList><QueueMessage><MessageId>%s</MessageId>" TIMES
        "</QueueMessage></QueueMessagesList>",
        text);
    assert_int_equal(read(body, &messages), TW_INVALID);
    messages_done(&messages);
}

/* Expanding the entities below would take a day. */
SCRATCH_TEST(document_type_is_refused_before_it_is_read)
{
    static const char body[] =
        "<?xml version=\"1.0\"?><!-- <a> --><!DOCTYPE q [<!ENTITY a "
        "\"aaaaaaaa\">"
        "<!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">"
        "<!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;\">"
        "<!ENTITY d \"&c;&c;&c;&c;&c;&c;&c;&c;\">"
        "<!ENTITY e \"&d;&d;&d;&d;&d;&d;&d;&d;\">"
        "<!ENTITY f \"&e;&e;&e;&e;&e;&e;&e;&e;\">"
        "<!ENTITY g \"&f;&f;&f;&f;&f;&f;&f;&f;\">"
        "<!ENTITY h \"&g;&g;&g;&g;&g;&g;&g;&g;\">"
        "<!ENTITY i \"&h;&h;&h;&h;&h;&h;&h;&h;\">]>"
        "<QueueMessagesList><a>&i;&i;&i;&i;</a></QueueMessagesList>";
    struct slice code = {NULL, 0}, message = {NULL, 0};
    struct messages messages;
    struct err err;

    messages_init(&messages);
    assert_int_equal(
        queue_xml_messages(slice_of(body), &messages, &err), TW_INVALID);
    assert_non_null(strstr(err.text, "document type"));
    assert_false(queue_xml_error(slice_of(body), &scratch, &code, &message));
    messages_done(&messages);
}

/* Reads a list that contains `piece` count times. */
static enum tw_err read_repeated(const char *piece, size_t count,
    const char *before, const char *after, struct err *err)
{
    struct messages messages;
    struct buf body;
    enum tw_err code;

    messages_init(&messages);
    buf_init(&body, 4 * 1024 * 1024);
    buf_add_format(&body, "<QueueMessagesList>%s", before);
    for (size_t i = 0; i < count; i++)
        buf_add_text(&body, piece);
    buf_add_format(&body, "%s</QueueMessagesList>", after);
    assert_false(body.overflow);
    code = queue_xml_messages(buf_slice(&body), &messages, err);
    buf_done(&body);
    messages_done(&messages);
    return code;
}

/* Checks that `piece` is accepted `most` times, and refused once more. */
static void check_most(const char *piece, size_t most, const char *before,
    const char *after, const char *says)
{
    struct err err = {.text = ""};

    if (read_repeated(piece, most, before, after, &err) != TW_OK)
        fail_msg("%zu of %s: %s", most, piece, err.text);
    assert_int_equal(
        read_repeated(piece, most + 1, before, after, &err), TW_INVALID);
    if (strstr(err.text, says) == NULL)
        fail_msg("%s: '%s'", piece, err.text);
}

TEST(what_a_body_costs_is_bounded)
{
    struct err err;

    check_most("<a/>", 32766, "", "", "too many tags");
    check_most("<!-- <a> -->", 32766, "", "", "too many tags");
    check_most("<?a <a>?>", 32766, "", "", "too many tags");
    check_most("<a b='>' c=\"'\"/>", 512, "", "", "too many attributes");
    assert_int_equal(
        read_repeated("<a>", 62, "", "<b></b><b/><b></b>", &err), TW_INVALID);
    assert_non_null(strstr(err.text, "not well-formed"));
    assert_int_equal(read_repeated("<a>", 64, "", "", &err), TW_INVALID);
    assert_non_null(strstr(err.text, "nested too deeply"));
    assert_int_equal(read_repeated("<!--", 1, "", "", &err), TW_INVALID);
    assert_non_null(strstr(err.text, "cut off"));
    assert_int_equal(read_repeated("\xff", 1, "", "", &err), TW_INVALID);
    assert_non_null(strstr(err.text, "not in UTF-8"));
}

TEST(a_message_is_no_larger_than_a_queue_takes)
{
    static const char before[] =
        "<QueueMessage><MessageId>1</MessageId>" TIMES "<MessageText>";
    struct err err;

    assert_ok(read_repeated("xxxxxxxx", QUEUE_MAX_MESSAGE_BYTES / 8, before,
        "</MessageText></QueueMessage>", &err));
    assert_int_equal(
        read_repeated("xxxxxxxx", QUEUE_MAX_MESSAGE_BYTES / 8, before,
            "<!-- -->x</MessageText></QueueMessage>", &err),
        TW_INVALID);
    assert_non_null(strstr(err.text, "larger than 65536"));
}

TEST(document_types_and_entities_are_refused)
{
    static const char *const bodies[] = {
        "<!DOCTYPE QueueMessagesList [<!ENTITY a \"x\">]>"
        "<QueueMessagesList/>",
        "<!DOCTYPE QueueMessagesList SYSTEM \"file:///etc/passwd\">"
        "<QueueMessagesList/>",
        "<!DOCTYPE q [<!ENTITY e SYSTEM \"file:///etc/passwd\">]>"
        "<QueueMessagesList><QueueMessage><MessageId>&e;</MessageId>" TIMES
        "</QueueMessage></QueueMessagesList>",
        "<!DOCTYPE q [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b "
        "\"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\">]><QueueMessagesList>&b;"
        "</QueueMessagesList>",
        "<QueueMessagesList>&undefined;</QueueMessagesList>",
    };
    struct messages messages;

    messages_init(&messages);
    for (size_t i = 0; TEST_EACH(i, bodies); i++)
        if (read(bodies[i], &messages) != TW_INVALID)
            fail_msg("%s", bodies[i]);
    messages_done(&messages);
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

    for (size_t i = 0; i < 3; i++) {
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
    return test_run_all(start, NULL);
}
