/* SPDX-License-Identifier: MIT */
/* tableward.yaml(5): every key, from the tables that read a configuration. */
#include <stdio.h>

#include "config/settings.h"
#include "jobs/jobs.h"
#include "worker/base/buf.h"
#include "worker/cli/commands.h"
#include "worker/manual/manual.h"
#include "worker/manual/roff.h"

#define TEXT_MAX ((size_t)64 * 1024)

static const char *const DESCRIPTION =
    "One YAML file says where tables and queues are, which queues a worker "
    "serves, and which jobs there are. It is the first of these that is given "
    "or exists: `--config`, `$TABLEWARD_CONFIG`, `./tableward.yaml`, "
    "`/etc/tableward/tableward.yaml`. "
    "`tableward check` validates it and prints every mistake with its place; "
    "`tableward init` writes a commented file to start from. A worker reads "
    "its file again on SIGHUP (`systemctl reload`); an invalid file is "
    "refused, "
    "and the old configuration stays.\n"
    "\n"
    "`${NAME}` and `${NAME:-default}` in a text are replaced from the "
    "environment. Relative paths start at `$STATE_DIRECTORY`, else at the "
    "folder of the file. Durations are written `500ms`, `30s`, `5m`, `2h` or "
    "`90d`. A text with a brace, or one that looks like a number, is written "
    "in quotes. Anchors, aliases and tags of YAML are refused.\n"
    "\n"
    "A text with braces is a template: an argument of the job or a property "
    "of the entity, or an expression over them. The file jobs/templates.md of "
    "the documentation has all functions.\n";

static const char *const EXAMPLE =
    "stores:\n"
    "  main: {embedded: tableward.db}\n"
    "\n"
    "jobs:\n"
    "  delete-channel:\n"
    "    kind: cascade-delete\n"
    "    args: [channel]\n"
    "    parent:\n"
    "      table: Channels\n"
    "      partition_key: \"{channel}\"\n"
    "      row_key: \"\"\n"
    "      tombstone: {Deleted: true}\n"
    "    children:\n"
    "      - {table: Blogs, partition_key: \"{channel}\"}\n";

static void print_key(const struct setting *setting)
{
    struct buf text, values;

    buf_init(&values, TEXT_MAX);
    buf_init(&text, TEXT_MAX);
    settings_describe(setting, &values);
    buf_add_text(&text, setting->help);
    if (values.len > 0)
        buf_add_format(&text, " (%s)", buf_text(&values));
    roff_entry(setting->key, NULL, buf_text(&text));
    buf_done(&text);
    buf_done(&values);
}

static void print_section(const char *prefix, const struct settings_section *is)
{
    char heading[128];

    (void)snprintf(heading, sizeof(heading), "%s%s", prefix, is->map);
    roff_subsection(heading);
    for (size_t i = 0; i < is->count; i++)
        print_key(&is->table[i]);
}

static void print_kind_args(const struct kind *kind)
{
    struct buf text;

    if (kind->arg_count == 0)
        return;
    roff_text("Every run accepts these arguments, although the job does not "
              "declare them:");
    buf_init(&text, TEXT_MAX);
    for (size_t i = 0; i < kind->arg_count; i++) {
        const struct kind_arg *arg = &kind->args[i];

        buf_clear(&text);
        for (size_t k = 0; arg->choices && arg->choices[k]; k++)
            buf_add_format(&text, "%s%s", k == 0 ? "" : ", ", arg->choices[k]);
        buf_add_format(&text, " (default: %s)", arg->fallback);
        roff_entry(arg->name, NULL, buf_text(&text));
    }
    buf_done(&text);
}

static void print_kind(const struct kind *kind)
{
    char prefix[64], text[256];

    (void)snprintf(text, sizeof(text), "kind: %s", kind->name);
    roff_subsection(text);
    (void)snprintf(text, sizeof(text), "%s.", kind->summary);
    roff_text(text);
    print_kind_args(kind);
    (void)snprintf(prefix, sizeof(prefix), "%s: ", kind->name);
    for (size_t i = 0; kind->sections[i]; i++)
        print_section(prefix, kind->sections[i]);
}

void manual_settings_page(const char *date)
{
    size_t count;
    const struct settings_section *const *sections =
        command_help_sections(&count);
    const struct kind *const *kinds;

    roff_begin("TABLEWARD.YAML", 5, date);
    roff_section("NAME");
    puts("tableward.yaml \\- the configuration of tableward");
    roff_section("DESCRIPTION");
    roff_text(DESCRIPTION);
    roff_section("KEYS");
    for (size_t i = 0; i < count; i++)
        print_section("", sections[i]);
    roff_section("KINDS OF JOB");
    kinds = jobs_kinds(&count);
    for (size_t i = 0; i < count; i++)
        print_kind(kinds[i]);
    roff_section("EXAMPLES");
    roff_text("A minimal configuration: one file as store, the queue "
              "`tableward`, and one job.");
    roff_example(EXAMPLE);
    roff_section("SEE ALSO");
    puts("\\fBtableward\\fP(1)");
    roff_text("\nThe folder doc/tableward of the installation has a commented "
              "configuration with every key, the guide to the kinds of job, "
              "and examples of each.");
}
