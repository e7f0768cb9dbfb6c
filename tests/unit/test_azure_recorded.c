/* SPDX-License-Identifier: MIT */
/*
 * Responses of the real services, read by this program's codecs: every exchange
 * of every recording in the folder that TABLEWARD_RECORDED names, and what must
 * be read from each. A recording is one JSON object with "exchanges":
 * [{"response": {"status", "headers", "body" or "body_base64"}}, ...].
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/test.h"
#include "worker/base/crypto.h"
#include "worker/base/json.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/store/azure/answer.h"
#include "worker/store/azure/batch.h"
#include "worker/store/azure/odata.h"
#include "worker/store/azure/queue_xml.h"

#define EXCHANGES_MAX 8
#define PARTS_MAX 128
#define FILE_MAX_BYTES (4 * 1024 * 1024)

/* What kind of response it is. */
enum kind {
    KIND_CHANGE, /* only status and header fields */
    KIND_ENTITY,
    KIND_PAGE,
    KIND_TABLES,
    KIND_BATCH,
    KIND_BATCH_WHOLE, /* a batch that was refused as a whole, with an error that
                         names an operation */
    KIND_MESSAGES,
};

struct expected {
    enum kind kind;
    enum tw_err outcome;
    const char *code; /* code of the error */
    size_t count;     /* number of entities, operations, messages or queues */
    size_t failed;    /* index of the refused operation */
    bool more;        /* there is a continuation token */
    const char *has;  /* text that show() must have written */
    bool again;       /* the same is expected as for the exchange before */
};

#define REFUSED(outcome_, code_)                                               \
    {                                                                          \
        .outcome = outcome_, .code = code_                                     \
    }
#define READ(kind_, count_, more_, has_)                                       \
    {                                                                          \
        .kind = kind_, .count = count_, .more = more_, .has = has_             \
    }
#define AGAIN                                                                  \
    {                                                                          \
        .again = true                                                          \
    }
#define DONE(has_) READ(KIND_CHANGE, 0, false, has_)
#define COUNT(has_) DONE("x-ms-approximate-messages-count " has_ "\n")
#define ENTITY(has_) READ(KIND_ENTITY, 1, false, has_)
#define PAGE(count_, has_) READ(KIND_PAGE, count_, false, has_)
#define MORE_PAGE(count_, has_) READ(KIND_PAGE, count_, true, has_)
#define MORE_TABLES(count_, has_) READ(KIND_TABLES, count_, true, has_)
#define MESSAGES(count_, has_) READ(KIND_MESSAGES, count_, false, has_)
#define APPLIED(count_, has_) READ(KIND_BATCH, count_, false, has_)

/* The properties of the entity that most recordings have. */
#define FILTERED                                                               \
    "Int32Value:Edm.Int32=123\n"                                               \
    "DoubleValue:Edm.Double=123.45\n"                                          \
    "BoolValue:Edm.Boolean=false\n"                                            \
    "StringValue:Edm.String=mystring\n"                                        \
    "DateValue:Edm.DateTime=2012-11-10T03:04:05.2Z\n"                          \
    "GuidValue:Edm.Guid=debc44d5-04a9-42ea-ab2f-4e2cb49ff833\n"                \
    "Int64Value:Edm.Int64=4294967296\n"                                        \
    "BinaryValue:Edm.Binary=AQIy\n"
#define STRING_REST                                                            \
    "binary:Edm.String=YmluYXJ5\n"                                             \
    "other:Edm.Int32=20\n"                                                     \
    "clsid:Edm.String=c9da6455-213d-42c9-9a79-3e9149a57833\n"
#define STRING_DATES                                                           \
    "Birthday:Edm.String=1973-10-04T00:00:00Z\n"                               \
    "birthday:Edm.String=1970-10-04T00:00:00Z\n"
#define COSMOS_DATES                                                           \
    "Birthday:Edm.DateTime=1973-10-04T00:00:00.0000000Z\n"                     \
    "birthday:Edm.DateTime=1970-10-04T00:00:00.0000000Z\n"
#define TYPES                                                                  \
    "age:Edm.Int32=39\n"                                                       \
    "sex:Edm.String=male\n"                                                    \
    "married:Edm.Boolean=true\n"                                               \
    "deceased:Edm.Boolean=false\n"                                             \
    "ratio:Edm.Double=3.1\n"                                                   \
    "evenratio:Edm.Double=3.0\n"                                               \
    "double:Edm.Double=5.0\n"                                                  \
    "large:Edm.Int32=933311100\n"
#define DATES                                                                  \
    "Birthday:Edm.DateTime=1973-10-04T00:00:00Z\n"                             \
    "birthday:Edm.DateTime=1970-10-04T00:00:00Z\n"
#define REST                                                                   \
    "binary:Edm.Binary=YmluYXJ5\n"                                             \
    "other:Edm.Int32=20\n"                                                     \
    "clsid:Edm.Guid=c9da6455-213d-42c9-9a79-3e9149a57833\n"
#define BLANKS                                                                 \
    "EmptyByte:Edm.Binary=\n"                                                  \
    "EmptyUnicode:Edm.String=\n"                                               \
    "SpacesOnlyByte:Edm.Binary=ICAg\n"                                         \
    "SpacesOnlyUnicode:Edm.String=   \n"                                       \
    "SpacesBeforeByte:Edm.Binary=ICAgVGV4dA==\n"                               \
    "SpacesBeforeUnicode:Edm.String=   Text\n"                                 \
    "SpacesAfterByte:Edm.Binary=VGV4dCAgIA==\n"                                \
    "SpacesAfterUnicode:Edm.String=Text   \n"
#define FOUR                                                                   \
    " 4\n"                                                                     \
    "age:Edm.String=abc\n"                                                     \
    "birthday:Edm.DateTime=1991-10-04T00:00:00Z\n"                             \
    "sex:Edm.String=female\n"                                                  \
    "sign:Edm.String=aquarius\n"
#define FOURTEEN                                                               \
    " 14\n"                                                                    \
    "Birthday:Edm.DateTime=1973-10-04T00:00:00Z\n"                             \
    "age:Edm.String=abc\n"
#define NON_FINITE                                                             \
    "inf:Edm.Double=Infinity\n"                                                \
    "negativeinf:Edm.Double=-Infinity\n"                                       \
    "nan:Edm.Double=NaN\n"

/* Recordings of one exchange, in which the request is refused. */
static const struct {
    const char *file; /* name of the file, without .json */
    enum tw_err outcome;
    const char *code;
} refusals[] = {
    {"cosmos-empty-partition-key-refused", TW_INVALID, "PropertiesNeedValue"},
    {"cosmos-insert-conflict", TW_CONFLICT, "EntityAlreadyExists"},
    {"cosmos-patch-refused", TW_INVALID, "InvalidInput"},
    {"queue-400-bad-authorization", TW_REFUSED, "InvalidAuthenticationInfo"},
    {"queue-403-sas-permission", TW_FORBIDDEN,
        "AuthorizationPermissionMismatch"},
    {"queue-403-sas-service", TW_FORBIDDEN, "AuthorizationServiceMismatch"},
    {"queue-create-invalid-name", TW_INVALID, "InvalidResourceName"},
    {"queue-delete-garbled-receipt", TW_INVALID, "InvalidQueryParameterValue"},
    {"queue-delete-message-not-found", TW_CONFLICT, "MessageNotFound"},
    {"queue-delete-missing", TW_NOT_FOUND, "QueueNotFound"},
    {"queue-get-too-many", TW_INVALID, "OutOfRangeQueryParameterValue"},
    {"queue-put-too-large", TW_TOO_LARGE, "RequestBodyTooLarge"},
    {"queue-put-ttl-below-visibility", TW_INVALID,
        "InvalidQueryParameterValue"},
    {"queue-text-invalid-xml-char", TW_INVALID, "InvalidXmlDocument"},
    {"queue-update-in-missing-queue", TW_NOT_FOUND, "QueueNotFound"},
    {"queue-update-message-not-found", TW_CONFLICT, "MessageNotFound"},
    {"table-400-filter-syntax", TW_INVALID, "InvalidInput"},
    {"table-400-property-name-too-long", TW_INVALID, "PropertyNameTooLong"},
    {"table-400-table-name-invalid", TW_INVALID, "InvalidResourceName"},
    {"table-400-too-many-properties", TW_INVALID, "TooManyProperties"},
    {"table-401-bearer-challenge", TW_REFUSED, "InvalidAuthenticationInfo"},
    {"table-403-authentication-failed-json", TW_REFUSED,
        "AuthenticationFailed"},
    {"table-403-authentication-failed-xml", TW_REFUSED, "AuthenticationFailed"},
    {"table-403-bearer-old-version", TW_REFUSED, "AuthenticationFailed"},
    {"table-403-role-missing", TW_FORBIDDEN, "AuthorizationPermissionMismatch"},
    {"table-403-sas-outside-key-range", TW_FORBIDDEN, "AuthorizationFailure"},
    {"table-415-media-type", TW_INVALID, "MediaTypeNotSupported"},
    {"table-acl-missing-table-xml", TW_NOT_FOUND, "TableNotFound"},
    {"table-delete-etag-mismatch", TW_CONFLICT, "UpdateConditionNotSatisfied"},
    {"table-delete-missing-accept-any-xml", TW_NOT_FOUND, "ResourceNotFound"},
    {"table-delete-missing-json", TW_NOT_FOUND, "ResourceNotFound"},
    {"table-delete-missing-table", TW_NOT_FOUND, "ResourceNotFound"},
    {"table-get-missing", TW_NOT_FOUND, "ResourceNotFound"},
    {"table-insert-conflict", TW_CONFLICT, "EntityAlreadyExists"},
    {"table-merge-patch-etag-mismatch", TW_CONFLICT,
        "UpdateConditionNotSatisfied"},
    {"table-merge-patch-missing", TW_NOT_FOUND, "ResourceNotFound"},
    {"table-replace-etag-mismatch", TW_CONFLICT, "UpdateConditionNotSatisfied"},
    {"table-replace-missing", TW_NOT_FOUND, "ResourceNotFound"},
};

/* Recordings of one batch, in which one operation is refused. */
static const struct {
    const char *file;
    size_t count, failed;
    enum tw_err outcome;
    const char *code;
} refused_batches[] = {
    {"cosmos-batch-fails-at-index-2", 3, 2, TW_CONFLICT, "EntityAlreadyExists"},
    {"cosmos-batch-single-etag-mismatch", 1, 0, TW_CONFLICT,
        "UpdateConditionNotSatisfied"},
    {"cosmos-batch-table-missing", 1, 0, TW_NOT_FOUND, "ResourceNotFound"},
    {"table-batch-delete-missing-at-index-1", 2, 1, TW_NOT_FOUND,
        "ResourceNotFound"},
    {"table-batch-different-partitions", 2, 1, TW_INVALID,
        "CommandsInBatchActOnDifferentPartitions"},
    {"table-batch-duplicate-row", 2, 1, TW_INVALID, "InvalidDuplicateRow"},
    {"table-batch-fails-at-index-2", 3, 2, TW_CONFLICT, "EntityAlreadyExists"},
    {"table-batch-get-alone-missing", 1, 0, TW_NOT_FOUND, "ResourceNotFound"},
    {"table-batch-put-and-delete-same-row", 2, 1, TW_INVALID,
        "InvalidDuplicateRow"},
    {"table-batch-single-delete-missing", 1, 0, TW_NOT_FOUND,
        "ResourceNotFound"},
    {"table-batch-single-etag-mismatch", 1, 0, TW_CONFLICT,
        "UpdateConditionNotSatisfied"},
    {"table-batch-single-insert-conflict", 1, 0, TW_CONFLICT,
        "EntityAlreadyExists"},
    {"table-batch-single-table-missing", 1, 0, TW_NOT_FOUND, "TableNotFound"},
    {"table-batch-table-missing-index-0", 3, 0, TW_NOT_FOUND, "TableNotFound"},
    {"table-batch-too-many-operations", 101, 99, TW_INVALID, "InvalidInput"},
};

/* All other recordings. */
static const struct recording {
    const char *file;
    size_t count;
    struct expected expected[EXCHANGES_MAX];
} recordings[] = {
    {"cosmos-429-then-200", 3,
        {REFUSED(TW_BUSY, "TooManyRequests"), AGAIN, PAGE(100, "")}},
    {"cosmos-batch-101-operations-applied", 1, {APPLIED(101, "204 W/")}},
    {"cosmos-batch-duplicate-row-2021-applied", 1, {APPLIED(2, "204 W/")}},
    {"cosmos-batch-duplicate-row-2022-refused", 1,
        {{.kind = KIND_BATCH_WHOLE,
            .count = 4,
            .failed = 3,
            .outcome = TW_INVALID,
            .code = "InvalidDuplicateRow"}}},
    {"cosmos-batch-mixed-success", 1,
        {APPLIED(6,
            "204 W/\"datetime'2021-04-07T19%3A49%3A59.9545352Z'\"\n204 "
            "\n204 W/\"datetime'2021-04-07T19%3A49%3A59.9562760Z'\"\n")}},
    {"cosmos-insert-all-types-and-get", 2,
        {ENTITY(TYPES COSMOS_DATES REST), AGAIN}},
    {"cosmos-post-merge", 2,
        {DONE("ETag W/"), ENTITY("etag:Edm.String=two\n")}},
    {"cosmos-query-pages", 3,
        {MORE_PAGE(2, "next "
                      "{\"token\":\"+RID:~oJF7AM4mMuMCAAAAAAAAAA==#RT:1#TRC:2#"
                      "ISV:2#IEO:65567#QCF:3#FPC:AQIAAAAAAAAABgAAAAAAAAA=\","
                      "\"range\":{\"min\":\"\",\"max\":\"FF\"}}|NA\n"),
            MORE_PAGE(2, ""), PAGE(2, "pk|1012345 ")}},
    {"queue-clear", 2, {DONE(""), MESSAGES(0, "")}},
    {"queue-create-new-and-again", 2, {DONE(""), DONE("")}},
    {"queue-create-other-metadata", 2,
        {DONE(""), REFUSED(TW_CONFLICT, "QueueAlreadyExists")}},
    {"queue-delete-then-create", 3,
        {DONE(""), REFUSED(TW_NOT_FOUND, ""),
            REFUSED(TW_BUSY, "QueueBeingDeleted")}},
    {"queue-get-four-share-receipt", 1,
        {MESSAGES(4,
            "fdb39e8d-fd73-4be0-a54b-ff5b473ecd48|"
            "AgAAAAMAAAAAAAAA9EBHcVuP1QE=|message1|1\n39216381-2a62-49d8-"
            "94ba-409cc777a033|AgAAAAMAAAAAAAAA9EBHcVuP1QE=|message2|"
            "1\neaa398b9-eda5-4f52-9372-524f0ea29282|"
            "AgAAAAMAAAAAAAAA9EBHcVuP1QE=|message3|1\n122258b5-c66e-4d13-"
            "ae04-9756bd99515c|AgAAAAMAAAAAAAAA9EBHcVuP1QE=|message4|1\n")}},
    {"queue-list-pages", 2, {DONE(""), DONE("")}},
    {"queue-metadata-count", 2,
        {MESSAGES(1, "78a1568c-0c64-4e39-aca7-803372f5d20c|"
                     "AgAAAAMAAAAAAAAAXHAQZluP1QE=||0\n"),
            COUNT("1")}},
    {"queue-peek-four", 1,
        {MESSAGES(4, "ae5fb0e7-98e6-4556-b73d-59afb5b41525||message1|0\n")}},
    {"queue-put-get-delete", 5,
        {MESSAGES(1, "17e942ab-bc07-427b-837f-5b076dfbef14|"
                     "AgAAAAMAAAAAAAAAvMFiZFuP1QE=||0\n"),
            MESSAGES(1, "17e942ab-bc07-427b-837f-5b076dfbef14|AgAAAAMAAAAAAAAA/"
                        "zhldluP1QE=|message1|1\n"),
            DONE(""),
            MESSAGES(3,
                "edcc05bf-a29d-4cb9-8bbb-649b5d80fe1d|"
                "AgAAAAMAAAAAAAAAbJNzdluP1QE=|message2|1\ne776e4ef-5047-4f14-"
                "9df0-8d8ec2757314|AgAAAAMAAAAAAAAAbJNzdluP1QE=|message3|1\n"),
            MESSAGES(0, "")}},
    {"queue-put-no-expiry", 2,
        {MESSAGES(1, "552739d6-9508-400b-900d-34bf7148f519|"
                     "AgAAAAMAAAAAAAAAl4nYZ1uP1QE=||0\n"),
            MESSAGES(1, "552739d6-9508-400b-900d-34bf7148f519||message1|0\n")}},
    {"queue-text-base64", 4,
        {MESSAGES(1, "AgAAAAMAAAAAAAAA2pSSdFuP1QE="), MESSAGES(1, "|eHl6|1\n"),
            MESSAGES(1, "c1f95138-76d0-4ce5-a3f6-6b3c71a15373|"),
            MESSAGES(1, "|AQ==|1\n")}},
    {"queue-text-empty", 3,
        {MESSAGES(1, "80720254-bab5-424a-afac-9704e32702d8|"
                     "AgAAAAMAAAAAAAAA0NXKOkdo1QE=||0\n"),
            MESSAGES(1, "80720254-bab5-424a-afac-9704e32702d8|||0\n"),
            MESSAGES(1, "80720254-bab5-424a-afac-9704e32702d8|"
                        "AgAAAAMAAAAAAAAA0qpAQUdo1QE=||1\n")}},
    {"queue-text-unicode-and-specials", 3,
        {MESSAGES(1, "c609a6e3-da86-4c92-a6aa-32e453e8bce7|"),
            MESSAGES(1, "|!@#$%^&*()_+`-=[]|};'\":,./?><`~漢字㒈"), AGAIN}},
    {"queue-update-content", 3,
        {MESSAGES(1, "|message1|1\n"), DONE("AwAAAAMAAAAAAAAAo2FbaluP1QEBAAAA"),
            MESSAGES(1, "|new text|2\n")}},
    {"queue-update-twice-new-receipts", 6,
        {MESSAGES(1, "|AgAAAAMAAAAAAAAA26R0JZEC2AE=|"),
            DONE("AwAAAAMAAAAAAAAAPSt2JZEC2AEAAAAA"),
            MESSAGES(1, "||message content.|0\n"),
            DONE("AwAAAAMAAAAAAAAAohwSJpEC2AEAAAAA"), MESSAGES(0, ""),
            MESSAGES(1, "||MESSAGE CONTENT2|0\n")}},
    {"queue-update-visibility-only", 3,
        {MESSAGES(1, "|message1|1\n"), DONE("AwAAAAMAAAAAAAAAPQcaaluP1QEBAAAA"),
            MESSAGES(1, "|message1|2\n")}},
    {"table-400-properties-need-value", 2,
        {REFUSED(TW_INVALID, "PropertiesNeedValue"), AGAIN}},
    {"table-acl-success-xml-bom", 1, {DONE("")}},
    {"table-batch-get-alone", 1,
        {APPLIED(1, "200 "
                    "W/"
                    "\"datetime'2017-01-05T03%3A24%3A59.5315504Z'\"\n{\"odata."
                    "metadata\"")}},
    {"table-batch-insert-one-with-body", 1,
        {APPLIED(1, "201 "
                    "W/"
                    "\"datetime'2020-09-16T18%3A39%3A21.0206119Z'\"\n{\"odata."
                    "metadata\"")}},
    {"table-batch-lf-relative-urls", 1, {APPLIED(1, "204 ")}},
    {"table-batch-mixed-success", 1, {APPLIED(6, "\n204 \n204 W/")}},
    {"table-batch-sas", 1, {APPLIED(10, "204 W/")}},
    {"table-being-deleted-30s", 3,
        {DONE(""), REFUSED(TW_BUSY, "TableBeingDeleted"), DONE("")}},
    {"table-being-deleted-60s", 4,
        {DONE(""), REFUSED(TW_BUSY, "TableBeingDeleted"), AGAIN, DONE("")}},
    {"table-binary-value", 2,
        {ENTITY("52.845819Z'\" 2021-05-26T15:47:52.845819Z "
                "1\nbinary:Edm.Binary=AQIDBAUGBwgJCg==\n"),
            AGAIN}},
    {"table-create-and-exists", 2,
        {DONE(""), REFUSED(TW_CONFLICT, "TableAlreadyExists")}},
    {"table-datetime-ticks", 4,
        {ENTITY("datetime1:Edm.DateTime=2013-08-22T01:12:06.2608595Z\n"), AGAIN,
            DONE("ETag W/"),
            ENTITY("datetime1:Edm.DateTime=2013-08-22T01:12:06."
                   "2608595Z\ndatetime2:Edm.DateTime=2020-08-22T01:12:06."
                   "260859Z\n")}},
    {"table-delete-etag-match", 3,
        {ENTITY("pk3801156d|rk3801156d "), DONE(""),
            REFUSED(TW_NOT_FOUND, "ResourceNotFound")}},
    {"table-double-and-int64-extremes", 1,
        {ENTITY("RegularDouble:Edm.Double=4.81516\nNanDouble:Edm.Double="
                "NaN\nPositiveInfinityDouble:Edm.Double="
                "Infinity\nNegativeInfinityDouble:Edm.Double=-"
                "Infinity\nMinDouble:Edm.Double=4.94065645841247E-"
                "324\nMaxDouble:Edm.Double=1.7976931348623157E+308\nMaxInt64:"
                "Edm.Int64=9223372036854775807\n")}},
    {"table-double-nan-infinity", 2, {ENTITY(NON_FINITE), AGAIN}},
    {"table-empty-and-blank-values", 2, {ENTITY(BLANKS), AGAIN}},
    {"table-empty-keys-get-and-delete", 3,
        {DONE("ETag W/"),
            ENTITY("\n| W/\"datetime'2022-02-01T20%3A52%3A38.1056981Z'\" "
                   "2022-02-01T20:52:38.1056981Z 1\n"),
            DONE("")}},
    {"table-filter-every-type", 8,
        {PAGE(1, FILTERED), AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN}},
    {"table-filter-or-and-precedence", 3,
        {PAGE(1, ""), PAGE(2, "IsAdmin:Edm.String=\n"), PAGE(0, "")}},
    {"table-filter-property-missing", 2, {PAGE(21, ""), PAGE(20, "")}},
    {"table-get-full-metadata", 1,
        {ENTITY("pkd1cb135f|rkd1cb135f "
                "W/\"datetime'2021-05-26T15%3A51%3A25.3008014Z'\" "
                "2021-05-26T15:51:25.3008014Z 13\n" TYPES DATES REST)}},
    {"table-get-no-metadata", 1,
        {ENTITY("pkab3d1289|rkab3d1289  2021-05-26T15:48:03.7656935Z 13\n" TYPES
                STRING_DATES STRING_REST)}},
    {"table-insert-all-types-and-get", 2,
        {ENTITY("age:Edm.Int64=39\nsex:Edm.String=male\nmarried:Edm.Boolean="
                "true\ndeceased:Edm.Boolean=false\nratio:Edm.Double=3."
                "1\nevenratio:Edm.Double=3.0\nlarge:Edm.Int64=933311100\n" DATES
                    REST),
            AGAIN}},
    {"table-insert-prefer-variants", 3,
        {ENTITY("pkf9414ad|rkf9414ad "), DONE("ETag W/"),
            ENTITY("pkf9414ad|rkf9414ad ")}},
    {"table-insert-typed-double-five", 2, {ENTITY(TYPES DATES REST), AGAIN}},
    {"table-int64-beyond-double", 4,
        {ENTITY("large:Edm.Int64=1125899906842624\n"), AGAIN,
            ENTITY("large:Edm.Int64=-1125899906842625\n"), AGAIN}},
    {"table-keys-with-quotes-url-wins", 6,
        {ENTITY("a''''b|a''''b "), DONE("ETag W/"), ENTITY("a''b|a''b "),
            DONE("ETag W/"), ENTITY("newField:Edm.String=newFieldValue\n"),
            DONE("")}},
    {"table-list-tables-continuation", 2,
        {MORE_TABLES(2, "listtable051291081| "),
            MORE_TABLES(2,
                "next "
                "1!48!bGlzdHRhYmxlM2NhYzE0YzMBMDFkNmQ1NTQ1Mzc2ODIzYw--|\n")}},
    {"table-merge-patch-if-match", 3,
        {ENTITY("pk236c150a|rk236c150a "), DONE("ETag W/"), ENTITY(FOURTEEN)}},
    {"table-merge-verb", 3,
        {DONE("ETag W/"), REFUSED(TW_NOT_FOUND, "ResourceNotFound"),
            REFUSED(TW_CONFLICT, "UpdateConditionNotSatisfied")}},
    {"table-null-property-not-stored", 2, {ENTITY("19.2262632Z 0\n"), AGAIN}},
    {"table-query-continuation-unicode-token", 2,
        {MORE_PAGE(
             5, "partition1-ô- -'-\"-%20-%27-pk|row-ô- -''-\"-%20-%27-rk10 "),
            MORE_PAGE(9, "next "
                         "1!40!cGFydGl0aW9uMS3DtC0gLSctIi0lMjAtJTI3LXBr|1!36!"
                         "cm93LcO0LSAtJyctIi0lMjAtJTI3LXJrOA--\n")}},
    {"table-query-filter-pages", 3, {MORE_PAGE(2, ""), AGAIN, PAGE(2, "")}},
    {"table-query-special-characters", 5,
        {ENTITY(":@|+,$ "), ENTITY(":@|=&  "), PAGE(2, ":@|+,$ "),
            PAGE(1, "Chars:Edm.String=?'/!_^#\n"),
            PAGE(1, "Chars:Edm.String=?\"\\{}<>%\n")}},
    {"table-replace-if-match", 3,
        {ENTITY("pk39e2157d|rk39e2157d "), DONE("ETag W/"), ENTITY(FOUR)}},
    {"table-sas-query", 1, {PAGE(1, TYPES DATES REST)}},
    {"table-select-keys-omitted", 2,
        {ENTITY("| W/\"datetime'2021-05-26T15%3A48%3A05.1796201Z'\"  "
                "2\nage:Edm.Int32=39\nratio:Edm.Double=3.1\n"),
            PAGE(2, "| W/\"datetime'2021-05-26T15%3A48%3A24.2997543Z'\"  "
                    "2\nage:Edm.Int32=39\nsex:Edm.String=male\n")}},
    {"table-select-missing-property", 1,
        {ENTITY("  2\nage:Edm.Int64=39\nsex:Edm.String=male\n")}},
    {"table-unicode-property-name", 2,
        {ENTITY("啊齄丂狛狜:Edm.String=ꀕ\n"),
            PAGE(2, "啊齄丂狛狜:Edm.String=hello\n")}},
    {"table-unicode-surrogate-pairs", 1,
        {PAGE(1, "gb18030:Edm.String=𡬁𠻝𩂻耨")}},
    {"table-unicode-value", 3,
        {ENTITY("Description:Edm.String=ꀕ\n"), AGAIN,
            PAGE(2, "Description:Edm.String=ꀕ\n")}},
    {"table-upsert-merge-existing-and-new", 5,
        {ENTITY("pk95761b92|rk95761b92 "), DONE("ETag W/"), ENTITY(FOURTEEN),
            DONE("ETag W/"), ENTITY(" 4\nage:Edm.String=abc\n")}},
    {"table-upsert-replace-existing-and-new", 5,
        {ENTITY("pkcc7c1c5e|rkcc7c1c5e "), DONE("ETag W/"), ENTITY(FOUR),
            DONE("ETag W/"), ENTITY(" 4\nage:Edm.String=abc\n")}},
};

#define COUNT_OF(list) (sizeof(list) / sizeof((list)[0]))

/* Returns the i-th recording of the three tables in *ret; false: there are no
 * more. */
static bool recording_at(size_t i, struct recording *ret)
{
    size_t k = i - COUNT_OF(refusals), n = k - COUNT_OF(refused_batches);

    if (i < COUNT_OF(refusals))
        *ret = (struct recording){refusals[i].file, 1,
            {REFUSED(refusals[i].outcome, refusals[i].code)}};
    else if (k < COUNT_OF(refused_batches))
        *ret = (struct recording){refused_batches[k].file, 1,
            {{.kind = KIND_BATCH,
                .count = refused_batches[k].count,
                .failed = refused_batches[k].failed,
                .outcome = refused_batches[k].outcome,
                .code = refused_batches[k].code}}};
    else if (n < COUNT_OF(recordings))
        *ret = recordings[n];
    else
        return false;
    return true;
}

/* ---- from a file to exchanges ---- */

static struct json *read_json(const char *folder, const char *file, char **text)
{
    char *path = mem_format("%s/%s.json", folder, file);
    FILE *in = fopen(path, "rb");
    struct json *json = NULL;
    struct err err = {""};
    size_t len;

    if (in == NULL)
        fail_msg("%s is missing", path);
    *text = mem_alloc(FILE_MAX_BYTES);
    len = fread(*text, 1, FILE_MAX_BYTES, in);
    fclose(in);
    assert_true(len < FILE_MAX_BYTES);
    if (json_parse((struct slice){*text, len}, 8, &json, &err) != TW_OK)
        fail_msg("%s: %s", path, err.text);
    mem_free(path);
    return json;
}

static void fill_answer(const struct json *response, struct http_answer *answer)
{
    const struct json *headers = json_get(response, "headers");
    const struct json *body = json_get(response, "body");
    int64_t status = 0;

    assert_true(json_int64(json_get(response, "status"), &status));
    answer->status = (int)status;
    for (size_t i = 0; i < json_count(headers); i++)
        http_answer_add(
            answer, json_name(headers, i), json_string(json_value(headers, i)));
    buf_init(&answer->body, FILE_MAX_BYTES);
    if (body != NULL)
        buf_add_slice(&answer->body, json_string(body));
    else
        assert_true(crypto_unbase64(
            &answer->body, json_string(json_get(response, "body_base64"))));
}

/* ---- what was read, as text ---- */

static void show_field(
    struct buf *to, const struct http_answer *answer, const char *name)
{
    struct slice value = http_answer_field(answer, name);

    if (value.len > 0)
        buf_add_format(to, "%s %.*s\n", name, SLICE_ARG(value));
}

/* Writes PartitionKey|RowKey, ETag, Timestamp and the number of properties,
 * then a line for each property. */
static void show_entity(
    struct buf *to, const struct entity *entity, struct arena *arena)
{
    buf_add_format(to, "%.*s|%.*s %.*s %.*s %zu\n",
        SLICE_ARG(entity->partition_key), SLICE_ARG(entity->row_key),
        SLICE_ARG(entity->etag), SLICE_ARG(entity->timestamp),
        entity->property_count);
    for (size_t i = 0; i < entity->property_count; i++) {
        const struct property *property = &entity->properties[i];
        struct slice text = property->json;

        property_text(property, arena, &text);
        if (text.len > 1 && text.at[0] == '"') /* types whose JSON is a
                                                  string */
            text = (struct slice){text.at + 1, text.len - 2};
        buf_add_format(to, "%.*s:%s=%.*s\n", SLICE_ARG(property->name),
            edm_type_name(property->type), SLICE_ARG(text));
    }
}

static void show_message(struct buf *to, const struct message *message)
{
    assert_true(message->inserted_ticks > TICKS_1970);
    buf_add_format(to, "%.*s|%.*s|%.*s|%d\n", SLICE_ARG(message->id),
        SLICE_ARG(message->pop_receipt), SLICE_ARG(message->text),
        (int)message->dequeue_count);
}

/* ---- reading, by kind ---- */

#define UNREADABLE SIZE_MAX

static size_t read_change(const struct http_answer *answer, struct buf *shown)
{
    show_field(shown, answer, "ETag");
    show_field(shown, answer, "x-ms-popreceipt");
    show_field(shown, answer, "x-ms-approximate-messages-count");
    return 0;
}

static size_t read_entities(enum kind kind, const struct http_answer *answer,
    struct buf *shown, struct err *err)
{
    struct slice body = buf_slice(&answer->body);
    struct page page;
    enum tw_err outcome;
    size_t count;

    page_init(&page);
    outcome = kind == KIND_ENTITY ? odata_entity(body, false, &page, err)
              : kind == KIND_PAGE ? odata_page(body, false, &page, err)
                                  : odata_tables(body, &page, err);
    buf_add_char(shown, '\n');
    for (size_t i = 0; i < page.count; i++)
        show_entity(shown, &page.entities[i], &page.arena);
    count = outcome == TW_OK ? page.count : UNREADABLE;
    page_done(&page);
    return count;
}

static size_t read_batch(const struct http_answer *answer, struct buf *shown)
{
    struct batch_part parts[PARTS_MAX];
    size_t count = batch_read(http_answer_field(answer, "Content-Type"),
        buf_slice(&answer->body), parts, PARTS_MAX);

    for (size_t i = 0; i < count && i < PARTS_MAX; i++)
        buf_add_format(shown, "\n%d %.*s%s%.*s", parts[i].status,
            SLICE_ARG(parts[i].etag), parts[i].body.len > 0 ? "\n" : "",
            SLICE_ARG(parts[i].body));
    return count;
}

static size_t read_messages(
    const struct http_answer *answer, struct buf *shown, struct err *err)
{
    struct messages messages;
    size_t count = UNREADABLE;

    messages_init(&messages);
    if (queue_xml_messages(buf_slice(&answer->body), &messages, err) == TW_OK)
        count = messages.count;
    for (size_t i = 0; i < messages.count; i++)
        show_message(shown, &messages.list[i]);
    messages_done(&messages);
    return count;
}

static size_t read_answer(enum kind kind, const struct http_answer *answer,
    struct buf *shown, struct err *err)
{
    if (kind == KIND_CHANGE)
        return read_change(answer, shown);
    if (kind == KIND_BATCH)
        return read_batch(answer, shown);
    if (kind == KIND_MESSAGES)
        return read_messages(answer, shown, err);
    return read_entities(kind, answer, shown, err);
}

/* ---- one exchange ---- */

/* Writes the continuation token of tables or entities; false: there is none. */
static bool show_continuation(
    const struct http_answer *answer, bool tables, struct buf *shown)
{
    struct slice first = http_answer_field(
        answer, tables ? "x-ms-continuation-NextTableName"
                       : "x-ms-continuation-NextPartitionKey");
    struct slice second =
        http_answer_field(answer, "x-ms-continuation-NextRowKey");

    if (first.len == 0)
        return false;
    buf_add_format(
        shown, "next %.*s|%.*s\n", SLICE_ARG(first), SLICE_ARG(second));
    return true;
}

static void check_refusal(
    const struct http_answer *answer, const struct expected *expected)
{
    struct answer_error error;

    answer_read_error(answer, &error);
    assert_string_equal(error.code, expected->code);
    for (int write = 0; write < 2; write++)
        assert_int_equal(answer_outcome(answer->status, error.code, write == 1),
            expected->outcome);
    assert_true(expected->code[0] == '\0' || error.message[0] != '\0');
    if (expected->kind == KIND_BATCH_WHOLE)
        assert_int_equal(batch_failed_index(error.message, expected->count),
            expected->failed);
}

static struct batch_answer judge_batch(
    const struct http_answer *answer, size_t operations)
{
    struct batch_part parts[PARTS_MAX];
    struct batch_answer got;
    size_t count = batch_read(http_answer_field(answer, "Content-Type"),
        buf_slice(&answer->body), parts, PARTS_MAX);

    batch_judge(parts, count, operations, &got);
    return got;
}

static void check_refused_batch(
    const struct http_answer *answer, const struct expected *expected)
{
    struct batch_answer got = judge_batch(answer, expected->count);

    assert_true(got.refused && !got.applied);
    assert_string_equal(got.code, expected->code);
    assert_int_equal(got.failed, expected->failed);
    assert_int_equal(
        answer_outcome(got.status, got.code, true), expected->outcome);
    assert_in_range(got.message[0], 'A', 'Z');
}

static void check_success(
    const struct http_answer *answer, const struct expected *expected)
{
    struct buf shown;
    struct err err = {""};

    buf_init(&shown, FILE_MAX_BYTES);
    assert_ok(answer_outcome(answer->status, "", true));
    assert_int_equal(
        read_answer(expected->kind, answer, &shown, &err), expected->count);
    assert_int_equal(
        show_continuation(answer, expected->kind == KIND_TABLES, &shown),
        expected->more);
    assert_contains(buf_text(&shown), expected->has);
    assert_true(answer_date_ticks(answer) > TICKS_1970);
    if (expected->kind == KIND_BATCH) {
        struct batch_answer got = judge_batch(answer, expected->count);

        assert_true(got.applied && !got.refused);
    }
    buf_done(&shown);
}

static void check_exchange(
    const struct json *response, const struct expected *expected)
{
    struct http_answer answer;

    http_answer_init(&answer);
    fill_answer(response, &answer);
    if (expected->outcome == TW_OK)
        check_success(&answer, expected);
    else if (expected->kind == KIND_BATCH)
        check_refused_batch(&answer, expected);
    else
        check_refusal(&answer, expected);
    http_answer_done(&answer);
}

static void check_recording(
    const char *folder, const struct recording *recording)
{
    char *text;
    struct json *json = read_json(folder, recording->file, &text);
    const struct json *exchanges = json_get(json, "exchanges");
    const struct expected *expected = NULL;
    size_t count = json_count(exchanges);

    if (count != recording->count)
        fail_msg("%s has %zu exchanges", recording->file, count);
    for (size_t i = 0; i < count; i++) {
        if (!recording->expected[i].again)
            expected = &recording->expected[i];
        test_case("%s, exchange %zu", recording->file, i);
        check_exchange(json_get(json_at(exchanges, i), "response"), expected);
    }
    json_free(json);
    mem_free(text);
}

/* ---- tests ---- */

static const char *folder_or_skip(void)
{
    const char *folder = getenv("TABLEWARD_RECORDED");

    if (folder == NULL || folder[0] == '\0') {
        print_message("TABLEWARD_RECORDED names no folder of recordings\n");
        skip();
    }
    return folder;
}

static void check_recordings_of(const char *service)
{
    const char *folder = folder_or_skip();
    struct recording recording;

    for (size_t i = 0; recording_at(i, &recording); i++)
        if (slice_begins(slice_of(recording.file), slice_of(service)))
            check_recording(folder, &recording);
}

TEST(answers_of_the_table_service_are_understood)
{
    check_recordings_of("table-");
}

TEST(answers_of_the_queue_service_are_understood)
{
    check_recordings_of("queue-");
}

TEST(answers_of_cosmos_db_are_understood)
{
    check_recordings_of("cosmos-");
}

static bool is_listed(struct slice file)
{
    struct recording recording;

    for (size_t i = 0; recording_at(i, &recording); i++)
        if (slice_begins(file, slice_of(recording.file)) &&
            file.len == strlen(recording.file) + strlen(".json"))
            return true;
    return false;
}

TEST(every_recording_is_listed)
{
    DIR *folder = opendir(folder_or_skip());
    const struct dirent *entry;
    size_t files = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        struct slice name = slice_of(entry->d_name);

        if (name.len < 5 || strcmp(name.at + name.len - 5, ".json") != 0)
            continue;
        files++;
        if (!is_listed(name))
            fail_msg("%s is not in the table", name.at);
    }
    closedir(folder);
    assert_int_equal(files,
        COUNT_OF(refusals) + COUNT_OF(refused_batches) + COUNT_OF(recordings));
}

static int start(void **state)
{
    queue_xml_init();
    return 0;
}

int main(void)
{
    return test_run_all(start, NULL);
}
