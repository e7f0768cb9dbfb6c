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

/* Adds text, escaped. A carriage return is escaped too, because XML parsers
 * read an unescaped one as a line feed. */
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

/* ---- before libxml2 sees a body ---- */

/*
 * The cost of a body is limited before libxml2 builds a tree of it. libxml2
 * needs some 120 bytes of memory for an element that takes 3 bytes in the body.
 * It compares each attribute of an element with all others. It expands the
 * entities of a document type, which can take hours for 500 bytes. No response
 * of the service has a document type. The response with the most tags, a list
 * of 5,000 queues, has 20,000.
 */
#define MAX_TAGS 32768
#define MAX_ATTRIBUTES 1024
#define MAX_DEPTH 64

struct budget {
    struct slice rest;
    unsigned tags, attributes, depth;
    const char *why; /* why the body is refused; NULL: it is not refused */
};

/* If rest begins with `from`, skips past the next `to`. Returns whether it
 * does. */
static bool skip_between(
    struct budget *budget, const char *from, const char *to)
{
    struct slice *rest = &budget->rest;
    const char *end;

    if (!slice_begins(*rest, slice_of(from)))
        return false;
    end = memmem(
        rest->at + strlen(from), rest->len - strlen(from), to, strlen(to));
    if (end == NULL) {
        budget->why = "it is cut off";
        return true;
    }
    end += strlen(to);
    rest->len -= (size_t)(end - rest->at);
    rest->at = end;
    return true;
}

/* Skips to the end of a tag, and counts its attributes. Quoted values are
 * skipped, because they may contain the characters that end a tag. */
static void count_tag(struct budget *budget)
{
    struct slice *rest = &budget->rest;
    bool closing = rest->len > 1 && rest->at[1] == '/';
    char quote = '\0', last = '\0';

    for (; rest->len > 0 && (quote != '\0' || *rest->at != '>');
         rest->at++, rest->len--) {
        last = *rest->at;
        if (quote != '\0') {
            quote = last == quote ? '\0' : quote;
        } else if (last == '"' || last == '\'') {
            quote = last;
            budget->attributes++;
        }
    }
    budget->tags++;
    if (closing && budget->depth > 0)
        budget->depth--;
    else if (!closing && last != '/')
        budget->depth++;
    if (budget->depth > MAX_DEPTH)
        budget->why = "its elements are nested too deeply";
    else if (budget->tags > MAX_TAGS)
        budget->why = "it has too many tags";
    else if (budget->attributes > MAX_ATTRIBUTES)
        budget->why = "it has too many attributes";
}

/* Counts one piece of markup that begins with '<'. */
static void count_markup(struct budget *budget)
{
    if (skip_between(budget, "<!--", "-->") ||
        skip_between(budget, "<![CDATA[", "]]>") ||
        skip_between(budget, "<?", "?>"))
        budget->tags++; /* libxml2 makes a node of this markup too */
    else if (slice_begins(budget->rest, slice_of("<!")))
        budget->why = "it has a document type, which no answer has";
    else
        count_tag(budget);
}

/* Returns why libxml2 must not read body; NULL: it may. A body that is not
 * UTF-8 is refused, so that libxml2 reads the characters that were counted
 * here. */
static const char *weigh(struct slice body)
{
    struct budget budget = {.rest = body};

    if (!text_is_utf8(body) || memchr(body.at, '\0', body.len) != NULL)
        return "it is not in UTF-8";
    while (budget.why == NULL) {
        struct slice *rest = &budget.rest;
        const char *next =
            rest->len > 0 ? memchr(rest->at, '<', rest->len) : NULL;

        if (next == NULL)
            break;
        rest->len -= (size_t)(next - rest->at);
        rest->at = next;
        count_markup(&budget);
    }
    return budget.why;
}

/* ---- reading ---- */

/* Returns the body as a document; NULL: libxml2 must not read the body, or the
 * body is empty or not well-formed. In the first case *ret_why is the reason,
 * otherwise NULL. ret_why may be NULL. */
static xmlDoc *parse(struct slice body, const char **ret_why)
{
    const int options = XML_PARSE_NONET | XML_PARSE_NOERROR |
                        XML_PARSE_NOWARNING | XML_PARSE_NOCDATA |
                        XML_PARSE_IGNORE_ENC;
    xmlParserCtxt *context;
    xmlDoc *document = NULL;
    const char *why = NULL;

    body = skip_byte_order_mark(body);
    if (body.len > 0 && body.len <= INT_MAX)
        why = weigh(body);
    if (ret_why != NULL)
        *ret_why = why;
    if (why != NULL || body.len == 0 || body.len > INT_MAX)
        return NULL;
    context = xmlNewParserCtxt();
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

/* Returns the text of the child with that name, in arena; empty if there is
 * none. */
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

/* Is the text of an element longer than a message may be? Call before the text
 * is copied. */
static bool is_overlong(const xmlNode *element)
{
    size_t len = 0;

    for (const xmlNode *node = element->children;
         node != NULL && len <= QUEUE_MAX_MESSAGE_BYTES; node = node->next)
        if (node->content != NULL)
            len += strlen((const char *)node->content);
    return len > QUEUE_MAX_MESSAGE_BYTES;
}

static bool has_overlong(const xmlNode *message)
{
    const xmlNode *node = message->children;

    while (
        node != NULL && !(node->type == XML_ELEMENT_NODE && is_overlong(node)))
        node = node->next;
    return node != NULL;
}

static enum tw_err read_message(const xmlNode *node, struct arena *arena,
    struct message *ret, struct err *err)
{
    struct slice count;

    if (has_overlong(node))
        return err_fail(err, TW_INVALID, "a message is larger than %d bytes",
            QUEUE_MAX_MESSAGE_BYTES);
    count = child_text(node, "DequeueCount", arena);
    *ret = (struct message){
        .id = child_text(node, "MessageId", arena),
        .pop_receipt = child_text(node, "PopReceipt", arena),
        .text = child_text(node, "MessageText", arena),
        .inserted_ticks = child_ticks(node, "InsertionTime", arena),
        .next_visible_ticks = child_ticks(node, "TimeNextVisible", arena),
    };
    /* The MessageId may become a run id, and a run id may become a file name.
     */
    if (!text_is_run_id(ret->id) || ret->id.len >= QUEUE_ID_MAX)
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
    enum tw_err outcome = TW_OK;

    for (const xmlNode *node = root->children; node != NULL && outcome == TW_OK;
         node = node->next) {
        if (!is_element(node, "QueueMessage"))
            continue;
        if (ret->count == QUEUE_MAX_GET)
            return err_fail(err, TW_INVALID, "there are more than %d messages",
                QUEUE_MAX_GET);
        outcome = read_message(node, &ret->arena, &ret->list[ret->count], err);
        if (outcome == TW_OK)
            ret->count++;
    }
    return outcome;
}

/* Returns the document of a list of messages, or NULL with an error text. */
static xmlDoc *parse_messages(struct slice body, struct err *err)
{
    static const char name[] = "QueueMessagesList";
    const char *why;
    xmlDoc *document = parse(body, &why);

    if (document == NULL) {
        err_fail(err, TW_INVALID,
            why != NULL ? "the body cannot be read: %s"
                        : "the body is not well-formed XML (%s was expected)",
            why != NULL ? why : name);
    } else if (!is_element(xmlDocGetRootElement(document), name)) {
        err_fail(err, TW_INVALID, "the body is XML, but not %s", name);
        xmlFreeDoc(document);
        document = NULL;
    }
    return document;
}

enum tw_err queue_xml_messages(
    struct slice body, struct messages *ret, struct err *err)
{
    xmlDoc *document = parse_messages(body, err);
    enum tw_err outcome = TW_INVALID;

    arena_clear(&ret->arena);
    ret->count = 0;
    if (document != NULL)
        outcome = read_messages(xmlDocGetRootElement(document), ret, err);
    if (outcome != TW_OK)
        ret->count = 0;
    xmlFreeDoc(document);
    return outcome;
}

bool queue_xml_error(struct slice body, struct arena *arena,
    struct slice *ret_code, struct slice *ret_message)
{
    xmlDoc *document = parse(body, NULL);
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
