/* SPDX-License-Identifier: MIT */
/* Text in the language of man pages: the macros of man(7), and no others. */
#ifndef TW_MANUAL_ROFF_H
#define TW_MANUAL_ROFF_H

/* roff_begin: print the head of a page. name: the name of the page, in upper
 * case; section: its number; date: for the foot. */
void roff_begin(const char *name, int section, const char *date);

/* roff_section, roff_subsection: print a heading. */
void roff_section(const char *heading);
void roff_subsection(const char *heading);

/*
 * roff_text: print paragraphs of prose. Words between `backquotes` are printed
 * bold. A line break counts as a blank, an empty line begins a paragraph, and a
 * line that begins with two blanks is printed unchanged, as an example.
 */
void roff_text(const char *text);

/* roff_entry: print a term (bold) with its explanation, indented. value: what
 * follows the term, in italics; NULL: nothing follows. */
void roff_entry(const char *term, const char *value, const char *explanation);

/* roff_example: print the lines unchanged. */
void roff_example(const char *lines);

#endif
