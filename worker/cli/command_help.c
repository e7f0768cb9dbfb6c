/* SPDX-License-Identifier: MIT */
/* `tableward help [COMMAND | KIND | config [KEY]]`. The help of the
 * configuration comes from the tables that settings_load() uses. */
#include <stdio.h>
#include <string.h>

#include "config/settings.h"
#include "jobs/jobs.h"
#include "worker/cli/commands.h"
#include "worker/cli/load.h"
#include "worker/cli/say.h"
#include "worker/run/setup.h"
#include "worker/store/open.h"

#define NAME_WIDTH 24

/* Sections in the order of a configuration; the sections of the kinds are
 * printed after them. */
static const struct settings_section *const SECTIONS[] = {
    &load_section,
    &open_store_section,
    &open_azure_section,
    &setup_worker_section,
    &setup_queue_section,
    &setup_poll_section,
    &jobs_common_section,
    &jobs_arg_section,
};

#define SECTION_COUNT (sizeof(SECTIONS) / sizeof(SECTIONS[0]))

const struct settings_section *const *command_help_sections(size_t *ret_count)
{
    *ret_count = SECTION_COUNT;
    return SECTIONS;
}

static void print_key(const struct setting *setting)
{
    struct buf described;

    buf_init(&described, 4096);
    settings_describe(setting, &described);
    printf("  %-*s %s\n", NAME_WIDTH, setting->key, setting->help);
    if (described.len > 0)
        printf("  %-*s %s\n", NAME_WIDTH, "", buf_text(&described));
    buf_done(&described);
}

/* Print the key of the section that is named `key`, or all keys if `key` is
 * NULL. Returns the number of printed keys. */
static size_t print_section(
    const struct settings_section *section, const char *key)
{
    size_t printed = 0;

    for (size_t i = 0; i < section->count; i++) {
        if (key && strcmp(section->table[i].key, key) != 0)
            continue;
        if (printed++ == 0)
            printf("\n%s:\n", section->map);
        print_key(&section->table[i]);
    }
    return printed;
}

static size_t print_kind_sections(const struct kind *kind, const char *key)
{
    size_t printed = 0;

    for (size_t i = 0; kind->sections[i]; i++)
        printed += print_section(kind->sections[i], key);
    return printed;
}

/* ---- the configuration ---- */

static void print_config(void)
{
    size_t kind_count;
    const struct kind *const *kinds = jobs_kinds(&kind_count);

    printf("The keys of a configuration, map by map. ${NAME} in a text is "
           "replaced by the\nenvironment variable. `tableward init` writes a "
           "commented example.\n");
    for (size_t i = 0; i < SECTION_COUNT; i++)
        (void)print_section(SECTIONS[i], NULL);
    printf("\nKinds of job (`tableward help KIND` lists the keys of one):\n");
    for (size_t i = 0; i < kind_count; i++)
        printf("  %-*s %s\n", NAME_WIDTH, kinds[i]->name, kinds[i]->summary);
}

static int print_config_key(const char *key)
{
    size_t kind_count, printed = 0;
    const struct kind *const *kinds = jobs_kinds(&kind_count);

    for (size_t i = 0; i < SECTION_COUNT; i++)
        printed += print_section(SECTIONS[i], key);
    for (size_t i = 0; i < kind_count; i++)
        printed += print_kind_sections(kinds[i], key);
    if (printed == 0)
        return print_usage("no map of a configuration has the key '%s': "
                           "`tableward help config` lists them",
            key);
    return EXIT_DONE;
}

/* ---- a kind ---- */

static void print_kind_arg(const struct kind_arg *arg)
{
    printf("  %-*s ", NAME_WIDTH, arg->name);
    for (size_t i = 0; arg->choices && arg->choices[i]; i++)
        printf("%s%s", i == 0 ? "" : ", ", arg->choices[i]);
    printf(" (default: %s)\n", arg->fallback);
}

static void print_kind(const struct kind *kind)
{
    printf("%s: %s.\n", kind->name, kind->summary);
    (void)print_kind_sections(kind, NULL);
    (void)print_section(&jobs_common_section, NULL);
    if (kind->arg_count > 0)
        printf("\narguments that every run has:\n");
    for (size_t i = 0; i < kind->arg_count; i++)
        print_kind_arg(&kind->args[i]);
}

static int run(const struct invocation *invocation)
{
    const char *word = invocation->arg_count > 0 ? invocation->args[0] : NULL;
    bool config = word && strcmp(word, "config") == 0;
    const struct kind *kind = word ? jobs_kind(slice_of(word)) : NULL;
    const struct command *command = NULL;
    const char *near = NULL;

    if (invocation->arg_count > 1 && !config)
        return print_usage("help %s takes no further argument", word);
    if (invocation->arg_count > 1)
        return print_config_key(invocation->args[1]);
    if (config)
        print_config();
    else if (kind)
        print_kind(kind);
    else if (word && !(command = command_named(word, &near)))
        return print_unknown("command", word, near);
    else
        command_help(command);
    return EXIT_DONE;
}

const struct command command_help_command = {
    .name = "help",
    .arguments = "[COMMAND | KIND | config [KEY]]",
    .summary = "lists the commands, or explains a command, kind of job or key",
    .max_args = 2,
    .run = run,
};
