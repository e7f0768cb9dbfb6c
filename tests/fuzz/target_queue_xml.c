/* SPDX-License-Identifier: MIT */
/* The queue service's XML: messages, queues, errors. */
#include <inttypes.h>

#include <libxml/parser.h>
#include <libxml/tree.h>

#include "tests/fuzz/fuzz.h"
#include "worker/base/text.h"
#include "worker/store/azure/queue_xml.h"

/* ---- any text ---- */

static void try_messages(struct slice text)
{
    struct messages messages;
    struct err err = {{0}};

    messages_init(&messages);
    if (queue_xml_messages(text, &messages, &err) != TW_OK) {
        fuzz_said(&err);
        FUZZ_CHECK(messages.count == 0);
    }
    FUZZ_CHECK(messages.count <= QUEUE_MAX_GET);
    for (size_t i = 0; i < messages.count; i++) {
        const struct message *message = &messages.list[i];

        FUZZ_CHECK(message->id.len > 0 && message->id.len < QUEUE_ID_MAX);
        FUZZ_CHECK(message->pop_receipt.len < QUEUE_RECEIPT_MAX);
        FUZZ_CHECK(message->inserted_ticks > 0);
        FUZZ_CHECK(message->dequeue_count >= 0);
        FUZZ_CHECK(text_is_utf8(message->text));
    }
    messages_done(&messages);
}

static void try_others(struct slice text, struct arena *arena)
{
    struct slice code, message;

    if (queue_xml_error(text, arena, &code, &message))
        FUZZ_CHECK(text_is_utf8(code) && text_is_utf8(message));
}

/* ---- requests that are written ---- */

static void message_is_read_back(struct fuzz_source *in)
{
    struct slice text = fuzz_xml_text(in, 100);
    struct buf *body = fuzz_buf();
    xmlDoc *document;
    xmlNode *root;
    xmlChar *content;

    queue_xml_write(text, body);
    document = xmlReadMemory(body->at, (int)body->len, NULL, "UTF-8",
        XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    FUZZ_CHECK(document != NULL);
    root = xmlDocGetRootElement(document);
    FUZZ_CHECK(xmlStrEqual(root->name, (const xmlChar *)"QueueMessage"));
    FUZZ_CHECK(
        xmlStrEqual(root->children->name, (const xmlChar *)"MessageText"));
    FUZZ_CHECK(root->children->next == NULL);
    content = xmlNodeGetContent(root->children);
    FUZZ_SAME(slice_of((const char *)content), text);
    xmlFree(content);
    xmlFreeDoc(document);
}

/* ---- answers as the service writes them ---- */

static struct message make_message(struct fuzz_source *in)
{
    return (struct message){
        .id = fuzz_word(in, 1, QUEUE_ID_MAX - 1),
        .pop_receipt = fuzz_word(in, 1, QUEUE_RECEIPT_MAX - 1),
        .text = fuzz_xml_text(in, 40),
        .inserted_ticks = fuzz_ticks(in) / TICKS_PER_S * TICKS_PER_S,
        .next_visible_ticks = fuzz_ticks(in) / TICKS_PER_S * TICKS_PER_S,
        .dequeue_count = (int64_t)fuzz_below(in, INT64_MAX),
    };
}

/* Adds text in its escaped form, cut out of the output of queue_xml_write(). */
static void add_text(struct buf *to, struct slice text)
{
    struct buf *body = fuzz_buf();
    static const char before[] = "<QueueMessage><MessageText>",
                      after[] = "</MessageText></QueueMessage>";

    queue_xml_write(text, body);
    buf_add(to, body->at + strlen(before),
        body->len - strlen(before) - strlen(after));
}

static void write_message(const struct message *message, struct buf *to)
{
    char time[TEXT_TIME_MAX];

    buf_add_format(to, "<QueueMessage><MessageId>%.*s</MessageId>",
        SLICE_ARG(message->id));
    buf_add_format(to, "<InsertionTime>%s</InsertionTime>",
        text_http_date(message->inserted_ticks, time));
    buf_add_format(
        to, "<PopReceipt>%.*s</PopReceipt>", SLICE_ARG(message->pop_receipt));
    buf_add_format(to, "<TimeNextVisible>%s</TimeNextVisible>",
        text_http_date(message->next_visible_ticks, time));
    buf_add_format(to, "<DequeueCount>%" PRId64 "</DequeueCount><MessageText>",
        message->dequeue_count);
    add_text(to, message->text);
    buf_add_text(to, "</MessageText></QueueMessage>\r\n");
}

static void answer_is_read_back(struct fuzz_source *in)
{
    size_t count = (size_t)fuzz_below(in, 5);
    struct message made[5];
    struct messages read;
    struct buf *body = fuzz_buf();

    buf_add_text(body, fuzz_yes(in) ? "\xef\xbb\xbf" : "");
    buf_add_text(
        body, "<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList>");
    for (size_t i = 0; i < count; i++) {
        made[i] = make_message(in);
        write_message(&made[i], body);
    }
    buf_add_text(body, "</QueueMessagesList>");
    messages_init(&read);
    FUZZ_CHECK(queue_xml_messages(buf_slice(body), &read, NULL) == TW_OK);
    FUZZ_CHECK(read.count == count);
    for (size_t i = 0; i < count; i++) {
        const struct message *a = &made[i], *b = &read.list[i];

        FUZZ_SAME(a->id, b->id);
        FUZZ_SAME(a->pop_receipt, b->pop_receipt);
        FUZZ_SAME(a->text, b->text);
        FUZZ_CHECK(a->inserted_ticks == b->inserted_ticks &&
                   a->next_visible_ticks == b->next_visible_ticks &&
                   a->dequeue_count == b->dequeue_count);
    }
    messages_done(&read);
}

FUZZ_TARGET(queue_xml)
{
    queue_xml_init();
    try_messages(text);
    try_others(text, in->arena);
    message_is_read_back(in);
    fuzz_again(in);
    answer_is_read_back(in);
}
