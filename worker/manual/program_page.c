/* SPDX-License-Identifier: MIT */
/* tableward(1): the commands with their options, and what is common to them. */
#include <stdio.h>

#include "worker/base/buf.h"
#include "worker/cli/command.h"
#include "worker/manual/manual.h"
#include "worker/manual/roff.h"

#define TEXT_MAX ((size_t)64 * 1024)

/* A term with its explanation. name NULL: the end of a list. */
struct term {
    const char *name, *value, *meaning;
};

static const struct term ENVIRONMENT[] = {
    {"TABLEWARD_CONFIG", NULL, "The configuration, if there is no `--config`."},
    {"AZURE_STORAGE_CONNECTION_STRING", NULL,
        "If there is no configuration: the store of `export`, `import`, "
        "`count`, `census` and `tables`."},
    {"STATE_DIRECTORY", NULL,
        "The folder at which relative paths of the configuration start; "
        "without it the folder of the configuration. systemd sets it for the "
        "service. Commands in a shell need the same value, or they use other "
        "files."},
    {"CREDENTIALS_DIRECTORY", NULL,
        "Set by systemd: the folder of the credentials that the unit loads. "
        "The configuration names them as `${CREDENTIALS_DIRECTORY}/NAME`."},
    {"NOTIFY_SOCKET", NULL,
        "`worker`: the socket of the service manager, which gets READY=1 when "
        "messages are received, STATUS=, RELOADING=1, STOPPING=1 and "
        "WATCHDOG=1. See sd_notify(3)."},
    {"WATCHDOG_USEC", NULL,
        "`worker`: the time, in microseconds, within which the service manager "
        "expects WATCHDOG=1 again."},
    {NULL, NULL, NULL},
};

static const struct term EXIT_CODES[] = {
    {"0", NULL, "Done, or nothing was left to do."},
    {"1", NULL,
        "A run failed or was poisoned, lines were rejected, `verify` found a "
        "difference, `status --failing` found something. The last line on "
        "standard error is the reason."},
    {"64", NULL,
        "Wrong usage: an unknown command, job, option or argument, or `--yes` "
        "is missing."},
    {"69", NULL, "The store cannot be reached, or it refuses the credentials."},
    {"75", NULL, "Stopped before the end; the run can be continued."},
    {"78", NULL,
        "The configuration is invalid; every mistake is printed with its "
        "place."},
    {NULL, NULL, NULL},
};

static const struct term FILES[] = {
    {"./tableward.yaml", NULL,
        "The configuration, if neither `--config` nor `$TABLEWARD_CONFIG` "
        "names one. Completions of a shell do not read it, because pressing "
        "Tab in a folder of somebody else must send no requests to the stores "
        "of a file found there."},
    {"/etc/tableward/tableward.yaml", NULL,
        "The configuration, if ./tableward.yaml does not exist either. As "
        "installed it serves no queue: edit it."},
    {"/etc/tableward/storage", NULL,
        "The connection string, key or SAS that `tableward.service` gives the "
        "worker as the credential `storage`. Readable for root alone."},
    {"/var/lib/tableward", NULL,
        "The state directory of `tableward.service`: embedded stores, "
        "archives and failures."},
    {NULL, NULL, NULL},
};

static const char *const EXAMPLES =
    "`run` with `--dry-run` says what a job would do and cost:\n"
    "\n"
    "  tableward run delete-channel channel=Football --dry-run\n"
    "\n"
    "Put the message that a front end would put, and see what became of it:\n"
    "\n"
    "  tableward enqueue delete-channel channel=Football\n"
    "  tableward status\n"
    "\n"
    "Commands in a shell need the folders of the service to find its embedded "
    "store:\n"
    "\n"
    "  sudo STATE_DIRECTORY=/var/lib/tableward \\\n"
    "      CREDENTIALS_DIRECTORY=/etc/tableward tableward status\n"
    "\n"
    "For monitoring, a command that prints nothing and exits with 0, unless a "
    "run has failed, is poisoned or held, or a queue is late:\n"
    "\n"
    "  tableward status --failing --older 30m\n";

static void print_terms(const char *heading, const struct term *terms)
{
    roff_section(heading);
    for (; terms->name; terms++)
        roff_entry(terms->name, terms->value, terms->meaning);
}

/* ---- commands ---- */

static void print_option(const struct command_option *option)
{
    const struct option_form *form = command_option_form(option->option);
    char name[64];

    (void)snprintf(name, sizeof(name), "--%s", form->name);
    roff_entry(name, form->value, option->help);
}

static void print_command(const struct command *command)
{
    const struct command_option *option = command->options;
    struct buf text;

    buf_init(&text, TEXT_MAX);
    buf_add_format(&text, "tableward %s%s%s", command->name,
        command->arguments[0] ? " " : "", command->arguments);
    roff_subsection(buf_text(&text));
    buf_clear(&text);
    buf_add_format(&text, "%c%s.\n", command->summary[0] - 'a' + 'A',
        command->summary + 1);
    if (command->details)
        buf_add_format(&text, "\n%s", command->details);
    roff_text(buf_text(&text));
    buf_done(&text);
    for (; option && option->help; option++)
        print_option(option);
}

static void print_commands(void)
{
    size_t count;
    const struct command *const *list = command_list(&count);

    roff_section("COMMANDS");
    for (size_t i = 0; i < count; i++)
        print_command(list[i]);
}

static void print_common_options(void)
{
    const struct command_option *option = command_common_options();

    roff_section("OPTIONS");
    roff_text("Every command takes these options. Options may be anywhere on "
              "the line, as `--name value` or `--name=value`; what follows "
              "`--` is no option.");
    for (; option->help; option++)
        print_option(option);
}

void manual_program_page(const char *date)
{
    roff_begin("TABLEWARD", 1, date);
    roff_section("NAME");
    puts("tableward \\- finishes long work on Azure Tables that a queue asks "
         "for");
    roff_section("SYNOPSIS");
    puts("\\fBtableward\\fP [\\fIOPTIONS\\fP] \\fICOMMAND\\fP "
         "[\\fIARGUMENTS\\fP]");
    roff_section("DESCRIPTION");
    roff_text("tableward deletes, upgrades, copies and moves entities of Azure "
              "Table storage, or of an embedded store in one file, as jobs "
              "that its configuration defines: see tableward.yaml(5). A front "
              "end puts a small message on a queue; `tableward worker` does "
              "the work in batches, and deletes the message only when the work "
              "is complete. A worker can be killed at any instant: another "
              "one, on any machine, continues, and the tables end as after one "
              "undisturbed run.\n\nResults go to standard output, everything "
              "else to standard error.\n");
    print_commands();
    print_common_options();
    print_terms("EXIT STATUS", EXIT_CODES);
    print_terms("ENVIRONMENT", ENVIRONMENT);
    print_terms("FILES", FILES);
    roff_section("EXAMPLES");
    roff_text(EXAMPLES);
    roff_section("SEE ALSO");
    puts("\\fBtableward.yaml\\fP(5), \\fBsystemctl\\fP(1), "
         "\\fBjournalctl\\fP(1)");
    roff_text("\nThe folder doc/tableward of the installation has README.md, "
              "the guide to the kinds of job and examples of configurations.");
}
