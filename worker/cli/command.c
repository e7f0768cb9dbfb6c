/* SPDX-License-Identifier: MIT */
/* Reads the command line, finds the command, and prints help from the table. */
#include "worker/cli/command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "worker/base/log.h"
#include "worker/base/mem.h"
#include "worker/base/text.h"
#include "worker/cli/commands.h"
#include "worker/cli/say.h"

/* All commands, in the order of the help. Add a new command here. */
static const struct command *const COMMANDS[] = {
    &command_init,
    &command_worker,
    &command_run,
    &command_enqueue,
    &command_status,
    &command_pause,
    &command_resume,
    &command_finish,
    &command_cancel,
    &command_poison,
    &command_verify,
    &command_convert,
    &command_jobs,
    &command_check,
    &command_import,
    &command_export,
    &command_count,
    &command_census,
    &command_tables,
    &command_version,
    &command_help_command,
};

#define COUNT_OF(table) (sizeof(table) / sizeof((table)[0]))
#define COMMAND_COUNT COUNT_OF(COMMANDS)

static const struct option_form FORMS[OPTION_COUNT] = {
    [OPTION_HELP] = {"help", NULL},
    [OPTION_VERSION] = {"version", NULL},
    [OPTION_CONFIG] = {"config", "FILE"},
    [OPTION_LOG_LEVEL] = {"log-level", "LEVEL"},
    [OPTION_LOG_FORMAT] = {"log-format", "FORMAT"},
    [OPTION_ACCEPT_DEFINITION] = {"accept-definition", NULL},
    [OPTION_ACCEPT_DELETES] = {"accept-deletes", NULL},
    [OPTION_ALL] = {"all", NULL},
    [OPTION_COUNT_ENTITIES] = {"count", NULL},
    [OPTION_DELAY] = {"delay", "DURATION"},
    [OPTION_DRAIN] = {"drain", NULL},
    [OPTION_DRY_RUN] = {"dry-run", NULL},
    [OPTION_FAILING] = {"failing", NULL},
    [OPTION_FILTER] = {"filter", "F"},
    [OPTION_FORCE] = {"force", NULL},
    [OPTION_FORMAT] = {"format", "FORMAT"},
    [OPTION_ID] = {"id", "ID"},
    [OPTION_JOB] = {"job", "JOB"},
    [OPTION_JSON] = {"json", NULL},
    [OPTION_LIMIT] = {"limit", "N"},
    [OPTION_NOW] = {"now", NULL},
    [OPTION_OLDER] = {"older", "DURATION"},
    [OPTION_ON_CONFLICT] = {"on-conflict", "WHAT"},
    [OPTION_ON_ERROR] = {"on-error", "WHAT"},
    [OPTION_ONLINE] = {"online", NULL},
    [OPTION_QUEUE] = {"queue", "Q"},
    [OPTION_QUEUES] = {"queues", NULL},
    [OPTION_REJECTED] = {"rejected", "FILE"},
    [OPTION_REOPEN] = {"reopen", NULL},
    [OPTION_REPAIR] = {"repair", NULL},
    [OPTION_SELECT] = {"select", "P,P"},
    [OPTION_SINCE] = {"since", "DURATION"},
    [OPTION_STATE] = {"state", "S,S"},
    [OPTION_STORE] = {"store", "S"},
    [OPTION_VECTORS] = {"vectors", "N"},
    [OPTION_VERSION_PROPERTY] = {"version-property", "P"},
    [OPTION_WATCH] = {"watch", NULL},
    [OPTION_YES] = {"yes", NULL},
};

/* The options that every command takes. */
static const struct command_option COMMON[] = {
    {OPTION_CONFIG, "the configuration file; default: $TABLEWARD_CONFIG, "
                    "./tableward.yaml, /etc/tableward/tableward.yaml"},
    {OPTION_LOG_LEVEL, "error, warn, info (the default) or debug"},
    {OPTION_LOG_FORMAT, "text (the default), or json (one object a line)"},
    {OPTION_HELP, "print this help"},
    {OPTION_VERSION, "print the version"},
    {OPTION_COUNT, NULL},
};

/* The valid values of options that accept only certain values. */
static const char *const LOG_LEVELS[] = {
    "error", "warn", "info", "debug", NULL};
static const char *const LOG_FORMATS[] = {"text", "json", NULL};
static const char *const FILE_FORMATS[] = {"json", "csv", NULL};
static const char *const ON_CONFLICT[] = {
    "fail", "skip", "replace", "merge", NULL};
static const char *const ON_ERROR[] = {"fail", "skip", NULL};
static const char *const STATES[] = {"queued", "running", "waiting", "paused",
    "succeeded", "failed", "poisoned", "cancelled", NULL};

static const char *const *const CHOICES[OPTION_COUNT] = {
    [OPTION_LOG_LEVEL] = LOG_LEVELS,
    [OPTION_LOG_FORMAT] = LOG_FORMATS,
    [OPTION_FORMAT] = FILE_FORMATS,
    [OPTION_ON_CONFLICT] = ON_CONFLICT,
    [OPTION_ON_ERROR] = ON_ERROR,
    [OPTION_STATE] = STATES,
};

const struct option_form *command_option_form(enum option option)
{
    return &FORMS[option];
}

const char *const *command_option_choices(enum option option)
{
    return CHOICES[option];
}

const struct command_option *command_common_options(void)
{
    return COMMON;
}

const struct command *const *command_list(size_t *ret_count)
{
    *ret_count = COMMAND_COUNT;
    return COMMANDS;
}

const struct command *command_named(const char *name, const char **ret_near)
{
    const char *names[COMMAND_COUNT];

    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(COMMANDS[i]->name, name) == 0)
            return COMMANDS[i];
        names[i] = COMMANDS[i]->name;
    }
    *ret_near = text_nearest(slice_of(name), names, COMMAND_COUNT);
    return NULL;
}

/* ---- help ---- */

static void print_options(
    const char *title, const struct command_option *options)
{
    char form[64];

    if (!options)
        return;
    printf("\n%s:\n", title);
    for (; options->help; options++) {
        const struct option_form *is = &FORMS[options->option];

        snprintf(form, sizeof(form), "--%s%s%s", is->name, is->value ? " " : "",
            is->value ? is->value : "");
        printf("  %-22s %s\n", form, options->help);
    }
}

static void print_program_help(void)
{
    printf("tableward keeps tables in agreement: it finishes long work on "
           "Azure Tables.\n\nUsage: tableward [OPTIONS] COMMAND ...\n\n"
           "Commands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-10s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    print_options("Options (anywhere on the command line)", COMMON);
    printf("\n`tableward help COMMAND` explains a command.\n\nExit codes: 0 "
           "done, 1 a run failed, 64 wrong usage, 69 the store cannot "
           "be\nreached or refuses the credentials, 75 stopped before the end, "
           "78 the\nconfiguration is invalid.\n");
}

void command_help(const struct command *command)
{
    if (!command) {
        print_program_help();
        return;
    }
    printf("Usage: tableward %s%s%s\n\n%s.\n", command->name,
        command->arguments[0] ? " " : "", command->arguments, command->summary);
    if (command->details)
        printf("\n%s", command->details);
    print_options("Options", command->options);
    print_options("Common options", COMMON);
}

/* ---- options ---- */

/* The options and other words of argv, before the command is known. */
struct line {
    const char *values[OPTION_COUNT];
    const char **words; /* the words that are not options; owned */
    size_t word_count;
};

static bool takes(const struct command *command, enum option option)
{
    const struct command_option *own = command->options;

    for (size_t i = 0; COMMON[i].help; i++)
        if (COMMON[i].option == option)
            return true;
    for (; own && own->help; own++)
        if (own->option == option)
            return true;
    return false;
}

static const char *nearest_option(const struct command *command, const char *to)
{
    const char *names[OPTION_COUNT];
    size_t count = 0;

    for (int i = 0; i < OPTION_COUNT; i++)
        if (!command || takes(command, (enum option)i))
            names[count++] = FORMS[i].name;
    return text_nearest(slice_of(to), names, count);
}

static int unknown_option(const struct command *command, const char *word)
{
    char name[64], near[64];
    const char *found;

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="), word);
    found = nearest_option(command, name + strspn(name, "-"));
    snprintf(near, sizeof(near), "--%s", found ? found : "");
    if (command)
        return print_usage("%s has no option '%s'%s%s%s", command->name, name,
            found ? ", did you mean '" : "", found ? near : "",
            found ? "'?" : "");
    return print_unknown("option", name, found ? near : NULL);
}

static enum option find_option(const char *name, size_t len)
{
    int i = 0;

    while (i < OPTION_COUNT && (strlen(FORMS[i].name) != len ||
                                   memcmp(FORMS[i].name, name, len) != 0))
        i++;
    return (enum option)i;
}

/* Read an option: a word that begins with a hyphen. If the option has a value
 * that is not in this word, read the value from the next word. */
static int read_option(char **argv, int argc, int *at, struct line *line)
{
    const char *word = argv[*at], *name = word + 2;
    size_t len = strcspn(name, "=");
    enum option option;

    if (strcmp(word, "-h") == 0) {
        line->values[OPTION_HELP] = "";
        return EXIT_DONE;
    }
    option = word[1] == '-' ? find_option(name, len) : OPTION_COUNT;
    if (option == OPTION_COUNT)
        return unknown_option(NULL, word);
    if (!FORMS[option].value) {
        line->values[option] = "";
        return name[len] == '='
                   ? print_usage("--%s takes no value", FORMS[option].name)
                   : EXIT_DONE;
    }
    if (name[len] == '=')
        line->values[option] = name + len + 1;
    else if (*at + 1 < argc)
        line->values[option] = argv[++*at];
    else
        return print_usage("--%s needs a value: --%s %s", FORMS[option].name,
            FORMS[option].name, FORMS[option].value);
    return EXIT_DONE;
}

static int read_line(int argc, char **argv, struct line *line)
{
    bool options = true;
    int code = EXIT_DONE;

    for (int i = 1; i < argc && code == EXIT_DONE; i++) {
        if (options && strcmp(argv[i], "--") == 0)
            options = false;
        else if (options && argv[i][0] == '-' && argv[i][1])
            code = read_option(argv, argc, &i, line);
        else
            line->words[line->word_count++] = argv[i];
    }
    return code;
}

static int set_log(const struct line *line)
{
    const char *level = line->values[OPTION_LOG_LEVEL];
    const char *format = line->values[OPTION_LOG_FORMAT];
    enum log_level shown = LOG_INFO;
    enum log_format form = LOG_TEXT;

    if (level && !log_level_named(level, &shown))
        return print_usage(
            "--log-level must be error, warn, info or debug, not '%s'", level);
    if (format && !log_format_named(format, &form))
        return print_usage(
            "--log-format must be text or json, not '%s'", format);
    log_set(shown, form);
    return EXIT_DONE;
}

/* ---- the command ---- */

static int check_args(const struct invocation *invocation)
{
    const struct command *command = invocation->command;
    size_t count = 0;

    while (command->required && command->required[count])
        count++;
    if (invocation->arg_count < count)
        return print_usage("%s needs %s: tableward %s %s", command->name,
            command->required[invocation->arg_count], command->name,
            command->arguments);
    if (invocation->arg_count > command->max_args)
        return print_usage("%s: unexpected argument '%s': tableward %s %s",
            command->name, invocation->args[command->max_args], command->name,
            command->arguments);
    return EXIT_DONE;
}

static int check_options(const struct invocation *invocation)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (invocation->values[i] &&
            !takes(invocation->command, (enum option)i)) {
            char word[64];

            snprintf(word, sizeof(word), "--%s", FORMS[i].name);
            return unknown_option(invocation->command, word);
        }
    return EXIT_DONE;
}

static int run_command(const struct line *line, const struct command *command)
{
    struct invocation invocation = {
        .command = command,
        .args = line->words + 1,
        .arg_count = line->word_count - 1,
    };
    int code;

    memcpy(invocation.values, line->values, sizeof(line->values));
    code = check_options(&invocation);
    if (code == EXIT_DONE)
        code = check_args(&invocation);
    return code == EXIT_DONE ? command->run(&invocation) : code;
}

static int dispatch(const struct line *line)
{
    const struct command *command = NULL;
    const char *near = NULL;
    int code = set_log(line);

    if (code != EXIT_DONE)
        return code;
    if (line->word_count > 0) {
        command = command_named(line->words[0], &near);
        if (!command)
            return print_unknown("command", line->words[0], near);
    }
    if (line->values[OPTION_HELP]) {
        command_help(command);
        return EXIT_DONE;
    }
    if (line->values[OPTION_VERSION])
        return command_version.run(NULL);
    if (!command)
        return print_usage("a command is missing: `tableward help` lists them");
    return run_command(line, command);
}

/* If a standard stream is closed, open /dev/null in its place. Otherwise a
 * file that is opened later would get the number of the stream, and receive
 * messages. /dev/null is opened for the wrong direction, so that reading or
 * writing fails as before. */
static void fill_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* Disable core files, because memory holds keys. Ignore SIGPIPE, so that a
 * write to a closed pipe returns an error. */
static void harden(void)
{
    const struct rlimit none = {0, 0};

    signal(SIGPIPE, SIG_IGN);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* Search the whole line for --log-format first, so that a mistake anywhere in
 * the line is reported in that format. */
static void set_format_early(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--log-format=json") == 0 ||
            (strcmp(argv[i], "--log-format") == 0 && i + 1 < argc &&
                strcmp(argv[i + 1], "json") == 0))
            log_set(LOG_INFO, LOG_JSON);
}

int command_main(int argc, char **argv)
{
    struct line line = {.word_count = 0};
    int code;

    fill_standard_streams();
    harden();
    mem_keep_little();
    log_set(LOG_INFO, LOG_TEXT);
    set_format_early(argc, argv);
    line.words = mem_array((size_t)argc + 1, sizeof(*line.words));
    code = read_line(argc, argv, &line);
    if (code == EXIT_DONE)
        code = dispatch(&line);
    mem_free(line.words);
    return print_output_end(code);
}
