/* SPDX-License-Identifier: MIT */
/* Prints shell functions that list what may be completed on a command line; see
 * manual_sh_tables() in manual.h. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/settings.h"
#include "jobs/jobs.h"
#include "worker/base/slice.h"
#include "worker/cli/commands.h"
#include "worker/manual/manual.h"

/* The syntax of a shell for a table. Here a table is a shell function with
 * several rows. Each row has a pattern and words. The function prints the words
 * of the row whose pattern matches the argument of the function. */
struct shell {
    const char *begin;      /* printed before the table's name */
    const char *begin_end;  /* printed after the table's name */
    const char *row;        /* printed before the pattern of a row */
    const char *row_end;    /* printed after the pattern of a row, before the
                               words */
    const char *last;       /* printed after the last word of a row */
    const char *end;        /* printed after the last row */
    const char *apostrophe; /* printed for an apostrophe in a text in
                               apostrophes */
    const char *backslash;  /* printed for a backslash in a text in
                               apostrophes */
    const char *any; /* pattern that matches any text; printed after a text in
                        apostrophes */
};

static const struct shell SH = {
    .begin = "_tableward_",
    .begin_end = "() {\n    case $1 in\n",
    .row = "    ",
    .row_end = ") printf '%s\\n'",
    .last = " ;;\n",
    .end = "    esac\n}\n",
    .apostrophe = "'\\''",
    .backslash = "\\",
    .any = "*",
};

static const struct shell FISH = {
    .begin = "function _tableward_",
    .begin_end = "\n    switch \"$argv[1]\"\n",
    .row = "        case ",
    .row_end = "\n            printf '%s\\n'",
    .last = "\n",
    .end = "    end\nend\n",
    .apostrophe = "\\'",
    .backslash = "\\\\",
    .any = "'*'",
};

/* ---- words and rows ---- */

static void print_quoted(const struct shell *shell, const char *text)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs(shell->apostrophe, stdout);
        else if (*text == '\\')
            fputs(shell->backslash, stdout);
        else
            putchar(*text);
}

/* Print one word, with its description after a tab; description NULL: none. */
static void print_word(
    const struct shell *shell, const char *word, const char *description)
{
    fputs(" \\\n        '", stdout);
    print_quoted(shell, word);
    if (description) {
        putchar('\t');
        print_quoted(shell, description);
    }
    putchar('\'');
}

static void begin_table(const struct shell *shell, const char *name)
{
    printf("%s%s%s", shell->begin, name, shell->begin_end);
}

/* Print the beginning of a row. tail: a pattern without quotes that follows the
 * quoted pattern. */
static void begin_row(
    const struct shell *shell, const char *pattern, const char *tail)
{
    printf("%s'%s'%s%s", shell->row, pattern, tail, shell->row_end);
}

static void end_row(const struct shell *shell)
{
    fputs(shell->last, stdout);
}

static void end_table(const struct shell *shell)
{
    fputs(shell->end, stdout);
}

/* ---- options ---- */

static void print_options(
    const struct shell *shell, const struct command_option *option)
{
    char name[64];

    for (; option && option->help; option++) {
        (void)snprintf(name, sizeof(name), "--%s",
            command_option_form(option->option)->name);
        print_word(shell, name, option->help);
    }
}

static void print_options_table(const struct shell *shell)
{
    size_t count;
    const struct command *const *list = command_list(&count);

    begin_table(shell, "options");
    for (size_t i = 0; i < count; i++) {
        begin_row(shell, list[i]->name, "");
        print_options(shell, list[i]->options);
        print_options(shell, command_common_options());
        end_row(shell);
    }
    begin_row(shell, "", "");
    print_options(shell, command_common_options());
    end_row(shell);
    end_table(shell);
}

static void print_value_table(const struct shell *shell)
{
    begin_table(shell, "value");
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_form *form = command_option_form((enum option)i);
        const char *const *choices = command_option_choices((enum option)i);
        char name[64];

        if (!form->value)
            continue;
        (void)snprintf(name, sizeof(name), "--%s", form->name);
        begin_row(shell, name, "");
        if (!choices)
            print_word(shell, form->value, NULL);
        for (; choices && *choices; choices++)
            print_word(shell, *choices, NULL);
        end_row(shell);
    }
    end_table(shell);
}

/* ---- arguments ---- */

#define POSITIONS 4
#define WORDS_MAX 8

/* The words that are possible at each position of a command's arguments, read
 * from its usage. If the last position repeats ("..."), all later arguments are
 * like it. */
struct arguments {
    struct {
        struct slice words[WORDS_MAX];
        size_t count;
    } at[POSITIONS];
    size_t repeats; /* 1 + the index of the position that repeats; 0: none */
};

static bool is_there(
    const struct arguments *arguments, size_t position, struct slice word)
{
    for (size_t i = 0; i < arguments->at[position].count; i++)
        if (slice_equal(arguments->at[position].words[i], word))
            return true;
    return false;
}

static void add_argument(
    struct arguments *arguments, size_t position, struct slice word)
{
    size_t *count;

    if (position >= POSITIONS || is_there(arguments, position, word))
        return;
    count = &arguments->at[position].count;
    if (*count < WORDS_MAX)
        arguments->at[position].words[(*count)++] = word;
}

/* Does the option, such as "--filter", have a value? */
static bool has_value(struct slice word)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const struct option_form *form = command_option_form((enum option)i);

        if (slice_is((struct slice){word.at + 2, word.len - 2}, form->name))
            return form->value != NULL;
    }
    return false;
}

/* Read a usage text, such as "JOB [NAME=VALUE ...]", "list | show ID" or "TABLE
 * [--filter F]". */
static void read_usage(const char *usage, struct arguments *ret)
{
    size_t position = 0, len;
    bool is_value = false; /* the next word is the value of an option */

    *ret = (struct arguments){.repeats = 0};
    for (; *usage; usage += len) {
        usage += strspn(usage, " []");
        len = strcspn(usage, " []");
        if (len == 1 && *usage == '|') {
            position = 0;
        } else if (len == 3 && strncmp(usage, "...", 3) == 0) {
            ret->repeats = position;
        } else if (len > 2 && strncmp(usage, "--", 2) == 0) {
            is_value = has_value((struct slice){usage, len});
        } else if (is_value) {
            is_value = false;
        } else if (len > 0) {
            add_argument(ret, position, (struct slice){usage, len});
            position++;
        }
    }
}

static void print_arguments(
    const struct shell *shell, const char *command, const char *usage)
{
    struct arguments arguments;
    char text[64];

    read_usage(usage, &arguments);
    for (size_t i = 0; i < POSITIONS && arguments.at[i].count > 0; i++) {
        bool repeats = arguments.repeats == i + 1;

        if (repeats)
            (void)snprintf(text, sizeof(text), "%s:", command);
        else
            (void)snprintf(text, sizeof(text), "%s:%zu", command, i + 1);
        begin_row(shell, text, repeats ? shell->any : "");
        for (size_t k = 0; k < arguments.at[i].count; k++) {
            (void)snprintf(text, sizeof(text), "%.*s",
                SLICE_ARG(arguments.at[i].words[k]));
            print_word(shell, text, NULL);
        }
        end_row(shell);
    }
}

static void print_words_table(const struct shell *shell)
{
    size_t count;
    const struct command *const *list = command_list(&count);

    begin_table(shell, "words");
    for (size_t i = 0; i < count; i++)
        print_arguments(shell, list[i]->name, list[i]->arguments);
    end_table(shell);
}

/* ---- lists ---- */

static void print_kinds(const struct shell *shell)
{
    size_t count;
    const struct kind *const *kinds = jobs_kinds(&count);

    begin_row(shell, "KIND", "");
    for (size_t i = 0; i < count; i++)
        print_word(shell, kinds[i]->name, kinds[i]->summary);
    end_row(shell);
}

static void print_keys(
    const struct shell *shell, const struct settings_section *section)
{
    for (size_t i = 0; i < section->count; i++)
        print_word(shell, section->table[i].key, section->map);
}

static void print_lists_table(const struct shell *shell)
{
    size_t count;
    const struct command *const *commands = command_list(&count);
    const struct settings_section *const *sections;
    const struct kind *const *kinds;

    begin_table(shell, "list");
    begin_row(shell, "COMMAND", "");
    for (size_t i = 0; i < count; i++)
        print_word(shell, commands[i]->name, commands[i]->summary);
    end_row(shell);
    print_kinds(shell);
    begin_row(shell, "KEY", "");
    sections = command_help_sections(&count);
    for (size_t i = 0; i < count; i++)
        print_keys(shell, sections[i]);
    kinds = jobs_kinds(&count);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; kinds[i]->sections[k]; k++)
            print_keys(shell, kinds[i]->sections[k]);
    end_row(shell);
    end_table(shell);
}

static void print_tables(const struct shell *shell)
{
    print_options_table(shell);
    print_value_table(shell);
    print_words_table(shell);
    print_lists_table(shell);
}

void manual_sh_tables(void)
{
    print_tables(&SH);
}

void manual_fish_tables(void)
{
    print_tables(&FISH);
}
