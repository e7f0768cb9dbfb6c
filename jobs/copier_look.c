/* SPDX-License-Identifier: MIT */
/*
 * Two sides summed. Of a copy, the sources say what there should be. Of a move
 * they are gone: there each copy says what was copied, in its provenance.
 */
#include "jobs/copier_look.h"

#include "worker/base/mem.h"

/* ---- a look ---- */

static void expect(
    struct copier *c, const struct entity *source, struct arena *scratch)
{
    struct entity copies[COPYING_MAX_TARGETS];
    struct err why;

    if (!copier_is_source(c, source, scratch))
        return;
    if (!copier_make(c, source, scratch, copies, &why)) {
        copier_tell_failed(c, source, why.text);
        return;
    }
    for (size_t i = 0; i < c->rules->target_count; i++)
        tally_add(c->tally, TALLY_EXPECTED, c->table_of[i], &copies[i],
            c->rules->provenance);
}

static enum tw_err expect_page(struct copier *c, void *context,
    const struct page *page, struct arena *scratch, struct err *err)
{
    (void)context;
    (void)err;
    for (size_t i = 0; i < page->count; i++) {
        expect(c, &page->entities[i], scratch);
        arena_clear(scratch);
    }
    return TW_OK;
}

/* Where copies are all ours, an equal entity that is none is no copy yet. */
static void meet(struct copier *c, size_t table, const struct entity *entity,
    struct arena *scratch)
{
    struct provenance provenance;
    bool ours =
        copier_reads_ours(c, &c->tables[table], entity, scratch, &provenance);

    if (ours || !c->rules->owns)
        tally_add(c->tally, ours ? TALLY_OURS : TALLY_ELSE, table, entity,
            c->rules->provenance);
}

static enum tw_err meet_page(struct copier *c, void *context,
    const struct page *page, struct arena *scratch, struct err *err)
{
    const size_t *table = context;

    (void)err;
    for (size_t i = 0; i < page->count; i++) {
        meet(c, *table, &page->entities[i], scratch);
        arena_clear(scratch);
    }
    return TW_OK;
}

enum tw_err copier_look_run(struct copier *c, struct err *err)
{
    const struct copier_reader expected = {expect_page, NULL};
    enum tw_err outcome;

    copier_forget(c);
    if (!c->tally)
        c->tally = tally_new();
    tally_clear(c->tally);
    outcome = copier_scan_sources(c, false, &expected, err);
    for (size_t i = 0; i < c->table_count && outcome == TW_OK; i++) {
        const struct copier_reader met = {meet_page, &i};

        outcome = copier_scan_table(c, &c->tables[i], &met, err);
    }
    return outcome;
}

/* ---- what was moved ---- */

struct moved {
    const struct copier_table *table;
    int64_t count, others;
    struct digest recorded, now;
};

static void compare(struct copier *c, struct moved *moved,
    const struct entity *copy, struct arena *scratch)
{
    struct provenance provenance;
    struct digest recorded;

    if (!copier_reads_ours(c, moved->table, copy, scratch, &provenance) ||
        !slice_is(provenance.run, c->run->id) ||
        !digest_parse(provenance.digest, &recorded)) {
        moved->others++;
        return;
    }
    moved->count++;
    digest_add(&moved->recorded, recorded);
    digest_add(&moved->now, entity_digest(copy, c->rules->provenance));
    if (provenance_is_intact(&provenance, copy, c->rules->provenance))
        return;
    c->findings.changed++;
    copier_differs(c, moved->table->place.table, copy->partition_key,
        copy->row_key, "changed");
}

static enum tw_err compare_page(struct copier *c, void *context,
    const struct page *page, struct arena *scratch, struct err *err)
{
    (void)err;
    for (size_t i = 0; i < page->count; i++) {
        compare(c, context, &page->entities[i], scratch);
        arena_clear(scratch);
    }
    return TW_OK;
}

/* ---- Verification ---- */

static void tell(struct copier *c, int64_t expected, int64_t copies,
    int64_t others, const struct digest *source,
    const struct digest *destination)
{
    char of_source[2 * DIGEST_BYTES + 1], of_destination[2 * DIGEST_BYTES + 1];
    char *text;

    digest_text(source, of_source);
    digest_text(destination, of_destination);
    text = mem_format("{\"expected\":%lld,\"copies\":%lld,\"others\":%lld,"
                      "\"surplus\":%lld,\"changed\":%lld,\"source\":\"%s\","
                      "\"destination\":\"%s\",\"differences\":[%s]}",
        (long long)expected, (long long)copies, (long long)others,
        (long long)c->findings.surplus, (long long)c->findings.changed,
        of_source, of_destination, buf_text(&c->findings.differences));
    c->run->host->verified(c->run, slice_of(text));
    mem_free(text);
}

enum tw_err copier_look_moved(struct copier *c, struct err *err)
{
    struct moved moved = {.count = 0};
    const struct copier_reader reader = {compare_page, &moved};
    enum tw_err outcome = TW_OK;

    for (size_t i = 0; i < c->table_count && outcome == TW_OK; i++) {
        moved.table = &c->tables[i];
        outcome = copier_scan_table(c, &c->tables[i], &reader, err);
    }
    if (outcome == TW_OK)
        tell(c, moved.count, moved.count, moved.others, &moved.recorded,
            &moved.now);
    return outcome;
}

/* In a bucket that does not agree, what is of others and equal to a copy was
 * met by the mend that followed, one by one. */
void copier_look_tell(struct copier *c)
{
    struct digest source = tally_sum(c->tally, TALLY_EXPECTED);
    int64_t copies;
    struct digest destination = tally_there(c->tally, &copies);
    int64_t others =
        tally_count(c->tally, TALLY_OURS) + tally_count(c->tally, TALLY_ELSE);

    copies += c->findings.equal;
    digest_add(&destination, c->findings.equal_sum);
    others -= others < copies ? others : copies;
    tell(c, tally_count(c->tally, TALLY_EXPECTED), copies, others, &source,
        &destination);
}
