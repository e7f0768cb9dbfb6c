/* SPDX-License-Identifier: MIT */
/* Messages and errors of the queue service, to and from XML. */
#include "worker/store/azure/queue_xml.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#include <libxml/parser.h>
#include <libxml/tree.h>

#include "worker/base/mem.h"
#include "worker/base/text.h"

static char *copy_text(const char *text)
{
    return mem_text(text, strlen(text));
}

void queue_xml_init(void)
{
    xmlMemSetup(mem_free, mem_alloc, mem_resize, copy_text);
    xmlInitParser();
}

/* A bare carriage return would be read as a line feed. */
static void add_escaped(struct buf *to, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        switch (text.at[i]) {
        case '&':
            buf_add_text(to, "&amp;");
            break;
        case '<':
            buf_add_text(to, "&lt;");
            break;
        case '>':
            buf_add_text(to, "&gt;");
            break;
        case '\r':
            buf_add_text(to, "&#xD;");
            break;
        default:
            buf_add_char(to, text.at[i]);
        }
    }
}

void queue_xml_write(struct slice text, struct buf *to)
{
    buf_add_text(to, "<QueueMessage><MessageText>");
    add_escaped(to, text);
    buf_add_text(to, "</MessageText></QueueMessage>");
}

static struct slice skip_byte_order_mark(struct slice body)
{
    if (slice_begins(body, slice_of("\xef\xbb\xbf"))) {
        body.at += 3;
        body.len -= 3;
    }
    return body;
}

/* A whole document, or NULL. An entity could only come from a document type,
 * which no answer has. */
static xmlDoc *parse(struct slice body)
{
    const int options = XML_PARSE_NONET | XML_PARSE_NOERROR |
                        XML_PARSE_NOWARNING | XML_PARSE_NOCDATA;
    xmlParserCtxt *context = xmlNewParserCtxt();
    xmlDoc *document = NULL;

    body = skip_byte_order_mark(body);
    if (body.len > 0 && body.len <= INT_MAX)
        document = xmlCtxtReadMemory(
            context, body.at, (int)body.len, NULL, "UTF-8", options);
    if (document != NULL &&
        (!context->wellFormed || context->errNo == XML_ERR_NO_MEMORY ||
            document->intSubset != NULL || document->extSubset != NULL)) {
        xmlFreeDoc(document);
        document = NULL;
    }
    xmlFreeParserCtxt(context);
    return document;
}

static bool is_element(const xmlNode *node, const char *name)
{
    return node != NULL && node->type == XML_ELEMENT_NODE &&
           strcasecmp((const char *)node->name, name) == 0;
}

static const xmlNode *find_child(const xmlNode *parent, const char *name)
{
    const xmlNode *node = parent->children;

    while (node != NULL && !is_element(node, name))
        node = node->next;
    return node;
}

/* The text of the child of that name, in arena; empty where there is none. */
static struct slice child_text(
    const xmlNode *parent, const char *name, struct arena *arena)
{
    const xmlNode *child = find_child(parent, name);
    struct slice text = {NULL, 0};
    xmlChar *content;

    if (child == NULL)
        return text;
    content = xmlNodeGetContent(child);
    text = arena_copy(arena, slice_of((const char *)content));
    xmlFree(content);
    return text;
}

static int64_t child_ticks(
    const xmlNode *parent, const char *name, struct arena *arena)
{
    int64_t ticks;

    return text_parse_http_date(child_text(parent, name, arena), &ticks) ? ticks
                                                                         : 0;
}

static enum tw_err read_message(const xmlNode *node, struct arena *arena,
    struct message *ret, struct err *err)
{
    struct slice count = child_text(node, "DequeueCount", arena);

    *ret = (struct message){
        .id = child_text(node, "MessageId", arena),
        .pop_receipt = child_text(node, "PopReceipt", arena),
        .text = child_text(node, "MessageText", arena),
        .inserted_ticks = child_ticks(node, "InsertionTime", arena),
        .next_visible_ticks = child_ticks(node, "TimeNextVisible", arena),
    };
    if (ret->id.len == 0 || ret->id.len >= QUEUE_ID_MAX)
        return err_fail(err, TW_INVALID, "a message has no usable MessageId");
    if (ret->pop_receipt.len >= QUEUE_RECEIPT_MAX)
        return err_fail(
            err, TW_INVALID, "a message has an overlong PopReceipt");
    if (ret->inserted_ticks == 0)
        return err_fail(
            err, TW_INVALID, "a message has no usable InsertionTime");
    if (count.len > 0 && !text_int64(count, 0, INT64_MAX, &ret->dequeue_count))
        return err_fail(
            err, TW_INVALID, "a message has no usable DequeueCount");
    return TW_OK;
}

static enum tw_err read_messages(
    const xmlNode *root, struct messages *ret, struct err *err)
{
    enum tw_err code = TW_OK;

    for (const xmlNode *node = root->children; node != NULL && code == TW_OK;
         node = node->next) {
        if (!is_element(node, "QueueMessage"))
            continue;
        if (ret->count == QUEUE_MAX_GET)
            return err_fail(err, TW_INVALID, "there are more than %d messages",
                QUEUE_MAX_GET);
        code = read_message(node, &ret->arena, &ret->list[ret->count], err);
        if (code == TW_OK)
            ret->count++;
    }
    return code;
}

/* The root of a document that must be of that name, or NULL with a
 * sentence. */
static const xmlNode *expect_root(
    xmlDoc *document, const char *name, struct err *err)
{
    const xmlNode *root =
        document != NULL ? xmlDocGetRootElement(document) : NULL;

    if (is_element(root, name))
        return root;
    err_fail(err, TW_INVALID,
        root == NULL ? "the body is not well-formed XML, %s was expected"
                     : "the body is XML, but not %s",
        name);
    return NULL;
}

enum tw_err queue_xml_messages(
    struct slice body, struct messages *ret, struct err *err)
{
    xmlDoc *document = parse(body);
    const xmlNode *root = expect_root(document, "QueueMessagesList", err);
    enum tw_err code = TW_INVALID;

    arena_clear(&ret->arena);
    ret->count = 0;
    if (root != NULL)
        code = read_messages(root, ret, err);
    if (code != TW_OK)
        ret->count = 0;
    xmlFreeDoc(document);
    return code;
}

static size_t read_queues(
    const xmlNode *queues, struct arena *arena, struct slice **ret_names)
{
    const xmlNode *first = queues != NULL ? queues->children : NULL;
    size_t room = 0, count = 0;

    for (const xmlNode *node = first; node != NULL; node = node->next)
        room += is_element(node, "Queue");
    *ret_names = arena_alloc(arena, (room + 1) * sizeof(**ret_names));
    for (const xmlNode *node = first; node != NULL; node = node->next)
        if (is_element(node, "Queue"))
            (*ret_names)[count++] = child_text(node, "Name", arena);
    return count;
}

enum tw_err queue_xml_queues(struct slice body, struct arena *arena,
    struct slice **ret_names, size_t *ret_count, struct slice *ret_marker,
    struct err *err)
{
    xmlDoc *document = parse(body);
    const xmlNode *root = expect_root(document, "EnumerationResults", err);

    if (root != NULL) {
        *ret_count = read_queues(find_child(root, "Queues"), arena, ret_names);
        *ret_marker = child_text(root, "NextMarker", arena);
    }
    xmlFreeDoc(document);
    return root != NULL ? TW_OK : TW_INVALID;
}

bool queue_xml_error(struct slice body, struct arena *arena,
    struct slice *ret_code, struct slice *ret_message)
{
    xmlDoc *document = parse(body);
    const xmlNode *root =
        document != NULL ? xmlDocGetRootElement(document) : NULL;
    bool is_error = is_element(root, "Error");

    if (is_error) {
        *ret_code = child_text(root, "Code", arena);
        *ret_message = child_text(root, "Message", arena);
    }
    xmlFreeDoc(document);
    return is_error;
}
