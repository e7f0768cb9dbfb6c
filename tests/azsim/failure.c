/* SPDX-License-Identifier: MIT */
/* The refusals of the service, one line each. */
#include "tests/azsim/failure.h"

#include <stddef.h>

static const struct failure_text TEXTS[] = {
    [FAIL_NONE] = {200, "", ""},
    [FAIL_AUTHENTICATION] = {403, "AuthenticationFailed",
        "Server failed to authenticate the request. Make sure the value of "
        "Authorization header is formed correctly including the signature."},
    [FAIL_BATCH_MIXED_PARTITIONS] = {400,
        "CommandsInBatchActOnDifferentPartitions",
        "All commands in a batch must operate on same entity group."},
    [FAIL_BATCH_DUPLICATE] = {400, "InvalidDuplicateRow",
        "The batch request contains multiple changes with same row key. An "
        "entity can appear only once in a batch request."},
    [FAIL_BODY_TOO_LARGE] = {413, "RequestBodyTooLarge",
        "The request body is too large and exceeds the maximum permissible "
        "limit."},
    [FAIL_ENTITY_EXISTS] = {409, "EntityAlreadyExists",
        "The specified entity already exists."},
    [FAIL_ENTITY_TOO_LARGE] = {400, "EntityTooLarge",
        "The entity is larger than the maximum allowed size (1MB)."},
    [FAIL_FORMAT] = {415, "AtomFormatNotSupported",
        "Atom format is not supported."},
    [FAIL_INPUT] = {400, "InvalidInput",
        "One of the request inputs is not valid."},
    [FAIL_INTERNAL] = {500, "InternalError",
        "Server encountered an internal error. Please try again after some "
        "time."},
    [FAIL_INVALID_NAME] = {400, "InvalidResourceName",
        "The specifed resource name contains invalid characters."},
    [FAIL_KEY] = {400, "OutOfRangeInput",
        "One of the request inputs is out of range."},
    [FAIL_KEYS_MISSING] = {400, "PropertiesNeedValue",
        "The values are not specified for all properties in the entity."},
    [FAIL_MESSAGE_MISSING] = {404, "MessageNotFound",
        "The specified message does not exist."},
    [FAIL_METHOD] = {405, "UnsupportedHttpVerb",
        "The resource doesn't support specified Http Verb."},
    [FAIL_MISSING_HEADER] = {400, "MissingRequiredHeader",
        "An HTTP header that's mandatory for this request is not specified."},
    [FAIL_NOT_IMPLEMENTED] = {501, "NotImplemented",
        "The requested operation is not implemented on the specified "
        "resource."},
    [FAIL_OUT_OF_RANGE] = {400, "OutOfRangeQueryParameterValue",
        "One of the query parameters specified in the request URI is outside "
        "the permissible range."},
    [FAIL_PROPERTY_NAME] = {400, "PropertyNameInvalid",
        "The property name is invalid."},
    [FAIL_QUEUE_DELETED] = {409, "QueueBeingDeleted",
        "The specified queue is being deleted."},
    [FAIL_QUEUE_EXISTS] = {409, "QueueAlreadyExists",
        "The specified queue already exists."},
    [FAIL_QUEUE_MISSING] = {404, "QueueNotFound",
        "The specified queue does not exist."},
    [FAIL_RECEIPT] = {400, "InvalidQueryParameterValue",
        "Value for one of the query parameters specified in the request URI "
        "is invalid."},
    [FAIL_RESOURCE_MISSING] = {404, "ResourceNotFound",
        "The specified resource does not exist."},
    [FAIL_SERVER_BUSY] = {503, "ServerBusy",
        "The server is currently unable to receive requests. Please retry "
        "your request."},
    [FAIL_TABLE_DELETED] = {409, "TableBeingDeleted",
        "The specified table is being deleted. Try operation later."},
    [FAIL_TABLE_EXISTS] = {409, "TableAlreadyExists",
        "The table specified already exists."},
    [FAIL_TABLE_MISSING] = {404, "TableNotFound",
        "The table specified does not exist."},
    [FAIL_TIMED_OUT] = {500, "OperationTimedOut",
        "Operation could not be completed within the specified time."},
    [FAIL_TOO_MANY_PROPERTIES] = {400, "TooManyProperties",
        "The entity contains more properties than allowed. Each entity can "
        "include up to 252 properties to store data."},
    [FAIL_UPDATE_CONDITION] = {412, "UpdateConditionNotSatisfied",
        "The update condition specified in the request was not satisfied."},
    [FAIL_VALUE_TOO_LARGE] = {400, "PropertyValueTooLarge",
        "The property value exceeds the maximum allowed size (64KB)."},
    [FAIL_VERSION] = {400, "InvalidHeaderValue",
        "The value for one of the HTTP headers is not in the correct "
        "format."},
    [FAIL_XML] = {400, "InvalidXmlDocument",
        "XML specified is not syntactically valid."},
};

const struct failure_text *failure_text(enum failure failure)
{
    return &TEXTS[failure];
}

const char *failure_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } REASONS[] = {{200, "OK"}, {201, "Created"}, {202, "Accepted"},
        {204, "No Content"}, {400, "Bad Request"}, {403, "Forbidden"},
        {404, "Not Found"}, {405, "Method Not Allowed"}, {409, "Conflict"},
        {412, "Precondition Failed"}, {413, "Request Entity Too Large"},
        {415, "Unsupported Media Type"}, {500, "Internal Server Error"},
        {501, "Not Implemented"}, {503, "Service Unavailable"}};

    for (size_t i = 0; i < sizeof(REASONS) / sizeof(REASONS[0]); i++)
        if (REASONS[i].status == status)
            return REASONS[i].reason;
    return "Unknown";
}
