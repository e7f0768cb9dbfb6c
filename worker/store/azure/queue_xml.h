/* SPDX-License-Identifier: MIT */
/*
 * The XML of the queue service, and of errors. Only queue_xml.c uses libxml2,
 * which has no network access. A body with a document type or entities, with
 * more than 32,768 tags, 1,024 attributes or 64 levels, or with invalid UTF-8
 * is refused before libxml2 reads it.
 *
 * Source: Queue service REST, "Put message", "Get messages", "List queues".
 */
#ifndef TW_STORE_AZURE_QUEUE_XML_H
#define TW_STORE_AZURE_QUEUE_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/base/arena.h"
#include "worker/base/buf.h"
#include "worker/base/err.h"
#include "worker/base/slice.h"
#include "worker/store/store.h"

/* queue_xml_init: call before any thread reads XML; may be repeated. */
void queue_xml_init(void);

/*
 * queue_xml_write: add the body that puts a message. text must consist of valid
 * XML characters (store_queue_put() checks this):
 *
 *   <QueueMessage><MessageText>a &lt; b</MessageText></QueueMessage>
 */
void queue_xml_write(struct slice text, struct buf *to);

/*
 * queue_xml_messages: read the response to Put, Get or Peek into ret, which is
 * initialised; its previous content is discarded. TW_INVALID: the body is not a
 * list of messages, or is refused for one of the reasons above; ret is then
 * empty.
 */
TW_MUST_USE enum tw_err queue_xml_messages(
    struct slice body, struct messages *ret, struct err *err);

/*
 * queue_xml_error: copy code and message of an error body, <Error><Code>,
 * <error><code> or <m:error><m:code>, into arena. False: the body has another
 * form.
 */
bool queue_xml_error(struct slice body, struct arena *arena,
    struct slice *ret_code, struct slice *ret_message);

#endif
