/* SPDX-License-Identifier: MIT */
/*
 * Lines of a file that is imported, and of an archive that is opened again
 * after a crash cut off its last line.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/engine/archive.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/folder.h"
#include "worker/store/canonical.h"
#include "worker/transfer/entity_line.h"
#include "worker/transfer/lines.h"

/* ---- import ---- */

/* Writes the entity as export does. It must be read back with the same
 * properties and, exported again, give the same text. */
static void check_canonical(const struct entity *entity, struct arena *arena)
{
    struct entity spelled, again;
    struct buf *line = fuzz_buf(), *second = fuzz_buf();
    bool blank;

    canonical_entity(entity, arena, &spelled);
    entity_write(&spelled, line);
    FUZZ_CHECK(entity_line(buf_slice(line), false, arena, &again, &blank,
                   NULL) == TW_OK);
    FUZZ_CHECK(!blank && again.property_count == entity->property_count);
    for (size_t i = 0; i < entity->property_count; i++) {
        const struct property *same =
            entity_find(&again, entity->properties[i].name);

        FUZZ_CHECK(same && property_equal(same, &entity->properties[i]));
    }
    canonical_entity(&again, arena, &spelled);
    entity_write(&spelled, second);
    FUZZ_SAME(buf_slice(second), buf_slice(line));
}

static void try_line(struct slice line, bool first, struct arena *arena)
{
    struct entity entity;
    struct err err = {{0}};
    bool blank = false;

    if (entity_line(line, first, arena, &entity, &blank, &err) != TW_OK) {
        fuzz_said(&err);
    } else if (!blank) {
        fuzz_same_line(&entity, arena);
        check_canonical(&entity, arena);
    }
}

/* Returns the line that begins at *at. A second implementation, which only
 * looks for the end of the line. */
static struct slice oracle_line(struct slice text, size_t *at)
{
    struct slice line = {text.at + *at, 0};

    while (*at < text.len && text.at[*at] != '\n') {
        line.len++;
        (*at)++;
    }
    *at += *at < text.len;
    return line;
}

static bool is_utf16(struct slice text)
{
    return slice_begins(text, slice_of("\xFF\xFE")) ||
           slice_begins(text, slice_of("\xFE\xFF"));
}

static void refuse_file(struct lines *lines)
{
    struct slice line;
    struct err err = {{0}};
    bool end;

    FUZZ_CHECK(lines_next(lines, &line, &end, &err) == TW_INVALID);
    fuzz_said(&err);
}

static void read_file(
    struct lines *lines, struct slice text, struct arena *arena)
{
    struct slice line;
    struct err err;
    bool end = false;
    size_t at = 0;
    uint64_t number = 0;

    for (;;) {
        FUZZ_CHECK(lines_next(lines, &line, &end, &err) == TW_OK);
        FUZZ_CHECK(end == (at == text.len));
        if (end)
            break;
        number++;
        FUZZ_SAME(line, oracle_line(text, &at));
        FUZZ_CHECK(lines_number(lines) == number);
        FUZZ_CHECK(lines_share(lines) >= -1 && lines_share(lines) <= 1000);
        try_line(line, number == 1, arena);
    }
}

static void try_file(struct slice text, struct arena *arena)
{
    struct fuzz_file file = fuzz_file(text);
    struct lines *lines;
    struct err err;

    FUZZ_CHECK(lines_open(file.path, NULL, &lines, &err) == TW_OK);
    if (is_utf16(text))
        refuse_file(lines);
    else
        read_file(lines, text, arena);
    lines_close(lines);
    fuzz_file_done(&file);
}

/* ---- archives ---- */

static char folder[FOLDER_BYTES];
static char archive_file[FOLDER_BYTES + 32];

static void remove_folder(void)
{
    folder_remove(folder);
}

static void make_folder(void)
{
    char path[FOLDER_BYTES + 32];

    if (archive_file[0] != '\0')
        return;
    folder_make(folder, "tableward-fuzz");
    atexit(remove_folder);
    snprintf(path, sizeof(path), "%s/job", folder);
    FUZZ_CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof(path), "%s/job/run", folder);
    FUZZ_CHECK(mkdir(path, 0700) == 0);
    snprintf(
        archive_file, sizeof(archive_file), "%s/job/run/2-Blogs.jsonl", folder);
}

static void put_file(struct slice text)
{
    int fd = open(archive_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    FUZZ_CHECK(fd >= 0 && write(fd, text.at, text.len) == (ssize_t)text.len);
    close(fd);
}

static void get_file(struct buf *to)
{
    int fd = open(archive_file, O_RDONLY);
    char part[4096];
    ssize_t got;

    FUZZ_CHECK(fd >= 0);
    while ((got = read(fd, part, sizeof(part))) > 0)
        buf_add(to, part, (size_t)got);
    close(fd);
}

/* Opens an archive with this content again and adds entities: the old content
 * must stay up to its last whole line, followed by the new lines. */
static void archive_goes_on(struct slice before, struct fuzz_source *in)
{
    const struct archive_run run = {
        .job = "job", .id = "run", .epoch = 2, .requested_ticks = 7};
    struct entity entities[2] = {fuzz_entity(in), fuzz_entity(in)};
    struct archive *archive;
    struct buf *expected = fuzz_buf(), *found = fuzz_buf();
    struct err err = {{0}};

    while (before.len > 0 && before.at[before.len - 1] != '\n')
        before.len--;
    buf_add_slice(expected, before);
    FUZZ_CHECK(archive_open(folder, &run, &archive, &err) == TW_OK);
    for (size_t i = 0; i < 2; i++) {
        FUZZ_CHECK(archive_add(archive, "Blogs", &entities[i], &err) == TW_OK);
        entity_write(&entities[i], expected);
        buf_add_char(expected, '\n');
        fuzz_same_line(&entities[i], in->arena);
    }
    FUZZ_CHECK(archive_sync(archive, &err) == TW_OK);
    archive_close(archive);
    get_file(found);
    FUZZ_SAME(buf_slice(found), buf_slice(expected));
}

FUZZ_TARGET(lines)
{
    try_file(text, in->arena);
    make_folder();
    put_file(text);
    archive_goes_on(text, in);
}
