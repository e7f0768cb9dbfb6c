/* SPDX-License-Identifier: MIT */
/* Prints the requests and escapes of man(7). */
#include "worker/manual/roff.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "worker/base/slice.h"

/* The length at which lines of the page's source are broken, not counting
 * escapes. No line is longer than 80 bytes with its escapes. */
#define WIDTH 60

/* Print one character of text, escaped. line_begins: true at the beginning of a
 * line, where a dot or an apostrophe would be a request. A hyphen that is not
 * escaped would be printed as a typographical one, which cannot be pasted into
 * a shell. */
static void print_char(char c, bool line_begins)
{
    if (line_begins && (c == '.' || c == '\''))
        fputs("\\&", stdout);
    if (c == '\\')
        fputs("\\e", stdout);
    else if (c == '-')
        fputs("\\-", stdout);
    else if (c == '~')
        fputs("\\(ti", stdout);
    else if (c == '^')
        fputs("\\(ha", stdout);
    else if (c == '`')
        fputs("\\(ga", stdout);
    else if (c == '\'')
        fputs("\\(aq", stdout);
    else
        putchar(c);
}

static void print_line(struct slice line)
{
    for (size_t i = 0; i < line.len; i++)
        print_char(line.at[i], i == 0);
    putchar('\n');
}

/* Print text in quotes, as one word of a request. */
static void print_quoted(const char *text)
{
    putchar('"');
    for (; *text; text++)
        if (*text == '"')
            fputs("\\(dq", stdout);
        else
            print_char(*text, false);
    putchar('"');
}

void roff_begin(const char *name, int section, const char *date)
{
    printf(".\\\" Made by the build from the program's own tables.\n");
    printf(".TH %s %d %s \"tableward %s\" \"%s\"\n", name, section, date,
        TABLEWARD_VERSION, section == 1 ? "User Commands" : "File Formats");
    /* Paragraphs are not hyphenated and have ragged right margins, so that
     * names of keys and options stay whole. */
    printf(".nh\n.ad l\n");
}

static void heading(const char *macro, const char *text)
{
    printf(".%s ", macro);
    print_quoted(text);
    putchar('\n');
}

void roff_section(const char *text)
{
    heading("SH", text);
}

void roff_subsection(const char *text)
{
    heading("SS", text);
}

/* ---- prose ---- */

/* The position of the next word. */
struct prose {
    size_t column; /* column in the line of the page's source; 0: a new line */
    bool bold;     /* the text is between two backquotes */
};

static void print_word(struct prose *prose, struct slice word)
{
    if (prose->column > 0 && prose->column + word.len >= WIDTH) {
        putchar('\n');
        prose->column = 0;
    } else if (prose->column > 0) {
        putchar(' ');
        prose->column++;
    }
    for (size_t i = 0; i < word.len; i++) {
        if (word.at[i] == '`') {
            prose->bold = !prose->bold;
            fputs(prose->bold ? "\\fB" : "\\fP", stdout);
        } else {
            print_char(word.at[i], prose->column == 0);
        }
        prose->column++;
    }
}

static void end_line(struct prose *prose)
{
    if (prose->column > 0)
        putchar('\n');
    prose->column = 0;
}

static void print_words(struct prose *prose, struct slice line)
{
    for (size_t at = 0; at < line.len;) {
        size_t end = at;

        while (end < line.len && line.at[end] != ' ')
            end++;
        if (end > at)
            print_word(prose, (struct slice){line.at + at, end - at});
        at = end + 1;
    }
}

static bool is_example(struct slice line)
{
    return line.len > 2 && line.at[0] == ' ' && line.at[1] == ' ';
}

static struct slice next_line(const char **text)
{
    size_t len = strcspn(*text, "\n");
    struct slice line = {*text, len};

    *text += (*text)[len] ? len + 1 : len;
    return line;
}

void roff_text(const char *text)
{
    struct prose prose = {0, false};
    bool example = false;

    while (*text) {
        struct slice line = next_line(&text);

        if (is_example(line) != example) {
            end_line(&prose);
            puts(example ? ".EE" : ".EX");
            example = !example;
        }
        if (example) {
            print_line(line);
        } else if (line.len == 0) {
            end_line(&prose);
            if (*text && !is_example((struct slice){text, strlen(text)}))
                puts(".PP");
        } else {
            print_words(&prose, line);
        }
    }
    end_line(&prose);
    if (example)
        puts(".EE");
}

void roff_entry(const char *term, const char *value, const char *explanation)
{
    puts(".TP");
    fputs("\\fB", stdout);
    for (const char *c = term; *c; c++)
        print_char(*c, false);
    fputs("\\fP", stdout);
    if (value) {
        fputs(" \\fI", stdout);
        for (const char *c = value; *c; c++)
            print_char(*c, false);
        fputs("\\fP", stdout);
    }
    putchar('\n');
    roff_text(explanation);
}

void roff_example(const char *lines)
{
    puts(".PP\n.EX");
    while (*lines)
        print_line(next_line(&lines));
    puts(".EE");
}
