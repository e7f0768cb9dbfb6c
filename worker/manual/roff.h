/* SPDX-License-Identifier: MIT */
/* Text in the language of man pages: the macros of man(7), and no others. */
#ifndef TW_MANUAL_ROFF_H
#define TW_MANUAL_ROFF_H

/* roff_begin: the head of a page: its name in upper case, its section, the foot
 * and the title. */
void roff_begin(const char *name, int section, const char *date);

/* roff_section, roff_subsection: a heading. */
void roff_section(const char *heading);
void roff_subsection(const char *heading);

/*
 * roff_text: paragraphs of prose. Words between `backquotes` are printed bold.
 * A line break is a blank, an empty line begins a paragraph, and a line that
 * begins with two blanks is printed unchanged, as an example.
 */
void roff_text(const char *text);

/* roff_entry: a term (bold) with its explanation, indented. value: what follows
 * the term, in italics; NULL: nothing. */
void roff_entry(const char *term, const char *value, const char *explanation);

/* roff_example: lines that are printed as they are. */
void roff_example(const char *lines);

#endif
