/* SPDX-License-Identifier: MIT */
/* Answers of the table service: entities, pages of entities and lists of
 * tables. */
#include "tests/fuzz/fuzz.h"
#include "worker/base/json.h"
#include "worker/base/text.h"
#include "worker/store/azure/odata.h"

/* Each property must give a value of its own type only. */
static void check_values(const struct entity *entity, struct arena *arena)
{
    for (size_t i = 0; i < entity->property_count; i++) {
        const struct property *p = &entity->properties[i];
        int32_t int32;
        int64_t int64, ticks;
        double number;
        bool boolean;
        struct slice text;

        FUZZ_CHECK(property_int32(p, &int32) == (p->type == EDM_INT32));
        FUZZ_CHECK(property_int64(p, &int64) == (p->type == EDM_INT64));
        FUZZ_CHECK(property_double(p, &number) == (p->type == EDM_DOUBLE));
        FUZZ_CHECK(property_boolean(p, &boolean) == (p->type == EDM_BOOLEAN));
        FUZZ_CHECK(property_ticks(p, &ticks) == (p->type == EDM_DATETIME));
        FUZZ_CHECK(property_text(p, arena, &text) ==
                   (p->type == EDM_STRING || p->type == EDM_GUID ||
                       p->type == EDM_DATETIME || p->type == EDM_BINARY));
        FUZZ_CHECK(property_equal(p, p));
    }
}

/* Sets the values of all properties in another entity, which must be equal. */
static void check_values_anew(const struct entity *entity, struct arena *arena)
{
    struct entity other;

    entity_init(&other, arena, entity->partition_key, entity->row_key);
    for (size_t i = 0; i < entity->property_count; i++) {
        const struct property *p = &entity->properties[i];
        const char *name = arena_copy(arena, p->name).at;
        int32_t int32;
        int64_t int64;
        double number;
        bool boolean;
        struct slice text;

        if (property_int32(p, &int32))
            entity_set_int32(&other, arena, name, int32);
        else if (property_int64(p, &int64))
            entity_set_int64(&other, arena, name, int64);
        else if (property_double(p, &number))
            entity_set_double(&other, arena, name, number);
        else if (property_boolean(p, &boolean))
            entity_set_boolean(&other, arena, name, boolean);
        else if (property_ticks(p, &int64))
            entity_set_datetime(&other, arena, name, int64);
        else if (p->type == EDM_STRING && property_text(p, arena, &text))
            entity_set_string(&other, arena, name, text);
        else
            entity_set(&other, arena, p);
    }
    for (size_t i = 0; i < other.property_count; i++) {
        const struct property *p =
            entity_find(entity, other.properties[i].name);

        FUZZ_CHECK(p != NULL && p->type == other.properties[i].type);
        /* of integers, "-0" and "0" have the same value but other JSON */
        if (p->type != EDM_INT32 && p->type != EDM_INT64)
            FUZZ_CHECK(property_equal(p, &other.properties[i]));
    }
    fuzz_stored(&other, arena);
}

static void try_entity(struct slice text, struct arena *arena)
{
    struct entity entity, copy;
    struct err err = {{0}};
    size_t end;

    if (entity_parse(text, false, arena, &entity, &end, &err) != TW_OK) {
        fuzz_said(&err);
        return;
    }
    FUZZ_CHECK(end <= text.len);
    check_values(&entity, arena);
    if (entity_check(&entity, &err) != TW_OK) {
        fuzz_said(&err);
        return;
    }
    fuzz_stored(&entity, arena);
    check_values_anew(&entity, arena);
    entity_copy(&copy, arena, &entity);
    FUZZ_CHECK(fuzz_entities_equal(&copy, &entity));
}

/* ---- pages ---- */

static enum tw_err read_tables(
    struct slice body, bool need_keys, struct page *page, struct err *err)
{
    return odata_tables(body, page, err);
}

static void try_page(struct slice text,
    enum tw_err (*read)(
        struct slice body, bool need_keys, struct page *page, struct err *err),
    bool need_keys)
{
    struct err err = {{0}};
    struct page page;
    enum tw_err outcome;

    page_init(&page);
    outcome = read(arena_copy(&page.arena, text), need_keys, &page, &err);
    FUZZ_CHECK(
        outcome == TW_OK || outcome == TW_UNKNOWN || outcome == TW_INVALID);
    if (outcome != TW_OK)
        fuzz_said(&err);
    for (size_t i = 0; i < page.count && outcome == TW_OK; i++)
        check_values(&page.entities[i], &page.arena);
    page_done(&page);
}

static void write_page(
    const struct entity *entities, size_t count, struct buf *to)
{
    buf_add_text(to, "{\"odata.metadata\":\"x\",\"value\":[");
    for (size_t i = 0; i < count; i++) {
        buf_add_text(to, i > 0 ? "," : "");
        entity_write(&entities[i], to);
    }
    buf_add_text(to, "]}");
}

/* A page of these entities, as a service writes it, is read back the same. If
 * it is cut off anywhere, it is refused. */
static void page_is_read_back(struct fuzz_source *in)
{
    struct entity entities[3];
    struct page page;
    struct err err;
    struct buf *json = fuzz_buf();
    size_t count = (size_t)fuzz_below(in, 4), cut;

    for (size_t i = 0; i < count; i++)
        entities[i] = fuzz_entity(in);
    write_page(entities, count, json);
    page_init(&page);
    FUZZ_CHECK(odata_page(arena_copy(&page.arena, buf_slice(json)), true, &page,
                   &err) == TW_OK);
    FUZZ_CHECK(page.count == count);
    for (size_t i = 0; i < count; i++)
        FUZZ_CHECK(fuzz_entities_equal(&entities[i], &page.entities[i]));
    cut = (size_t)fuzz_below(in, json->len);
    page_done(&page);
    page_init(&page);
    FUZZ_CHECK(
        odata_page(arena_copy(&page.arena, (struct slice){json->at, cut}), true,
            &page, &err) == TW_UNKNOWN);
    page_done(&page);
}

static void entity_is_read_back(struct fuzz_source *in)
{
    struct entity entity = fuzz_entity(in);

    check_values(&entity, in->arena);
    fuzz_stored(&entity, in->arena);
    check_values_anew(&entity, in->arena);
}

/* ---- queries ---- */

/* No character may end a URL, and the path must name the keys. */
static void addresses_are_clean(struct fuzz_source *in)
{
    struct slice partition_key = fuzz_text(in, 20), row_key = fuzz_text(in, 20);
    struct continuation from = {.partition_key = fuzz_text(in, 20),
        .row_key = fuzz_text(in, 20),
        .more = true};
    struct scan_request request = {
        .table = "T",
        .partition_key = key_range_prefix(partition_key, in->arena),
        .row_key = key_range_exact(row_key),
        .top = (unsigned)fuzz_below(in, 1001),
        .from = from,
    };
    struct buf *path = fuzz_buf(), *plain = fuzz_buf(), *expected = fuzz_buf();

    odata_add_entity_path(path, "T", partition_key, row_key);
    FUZZ_CHECK(text_percent_decode(plain, buf_slice(path)));
    buf_add_text(expected, "/T(PartitionKey='");
    fuzz_add_doubled(expected, partition_key, "'");
    if (!memchr(
            partition_key.at ? partition_key.at : "", '\0', partition_key.len))
        FUZZ_CHECK(slice_begins(buf_slice(plain), buf_slice(expected)));
    odata_add_scan_query(path, &request);
    odata_add_tables_query(path, &from);
    for (size_t i = 0; i < path->len; i++)
        FUZZ_CHECK((unsigned char)path->at[i] > 0x20 &&
                   (unsigned char)path->at[i] < 0x7f && path->at[i] != '#');
}

FUZZ_TARGET(entity)
{
    try_entity(text, in->arena);
    try_page(text, odata_page, true);
    try_page(text, odata_page, false);
    try_page(text, odata_entity, true);
    try_page(text, read_tables, false);
    entity_is_read_back(in);
    fuzz_again(in);
    page_is_read_back(in);
    fuzz_again(in);
    addresses_are_clean(in);
}
