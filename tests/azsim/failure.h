/* SPDX-License-Identifier: MIT */
/*
 * The refusals of the service: the error code, HTTP status and message of each.
 *
 * Source: Azure Storage REST, "Status and error codes".
 */
#ifndef TW_AZSIM_FAILURE_H
#define TW_AZSIM_FAILURE_H

enum failure {
    FAIL_NONE,
    FAIL_AUTHENTICATION,
    FAIL_BATCH_MIXED_PARTITIONS,
    FAIL_BATCH_DUPLICATE,
    FAIL_BODY_TOO_LARGE,
    FAIL_ENTITY_EXISTS,
    FAIL_ENTITY_TOO_LARGE,
    FAIL_FORMAT,
    FAIL_INPUT,
    FAIL_INTERNAL,
    FAIL_INVALID_NAME,
    FAIL_KEY,
    FAIL_KEYS_MISSING,
    FAIL_MESSAGE_MISSING,
    FAIL_METHOD,
    FAIL_MISSING_HEADER,
    FAIL_NOT_IMPLEMENTED,
    FAIL_OUT_OF_RANGE,
    FAIL_PROPERTY_NAME,
    FAIL_QUEUE_DELETED,
    FAIL_QUEUE_EXISTS,
    FAIL_QUEUE_MISSING,
    FAIL_RECEIPT,
    FAIL_RESOURCE_MISSING,
    FAIL_SERVER_BUSY,
    FAIL_TABLE_DELETED,
    FAIL_TABLE_EXISTS,
    FAIL_TABLE_MISSING,
    FAIL_TIMED_OUT,
    FAIL_TOO_MANY_PROPERTIES,
    FAIL_UPDATE_CONDITION,
    FAIL_VALUE_TOO_LARGE,
    FAIL_VERSION,
    FAIL_XML,
};

struct failure_text {
    int status;
    const char *code, *message;
};

/* failure_text: returns the text of any failure but FAIL_NONE. Static. */
const struct failure_text *failure_text(enum failure failure);

/* failure_reason: returns the reason phrase of an HTTP status. Static. */
const char *failure_reason(int status);

#endif
