#!/usr/bin/env node
// SPDX-License-Identifier: MIT
/*
 * Puts the bugs of the bank into a copy of the sources, each behind a switch
 * that is read once at start: TABLEWARD_BUG=NAME. The sources themselves are
 * not changed.
 *
 *   weave.js BANK TARGET LIST [NAME...]
 *
 * TARGET gets worker/, jobs/ and config/ with the named bugs in them (all bugs,
 * if none is named), and LIST a line for each of these bugs: name, the tests
 * that must catch it, file, description. If the original text of one of these
 * bugs does not occur exactly once, or two bugs change the same text, weave.js
 * fails with a message: the source has changed, and the bank must be adapted.
 * The other bugs of the bank are not compared with the sources.
 */
"use strict";

const fs = require("fs");
const path = require("path");

const FOLDERS = ["worker", "jobs", "config"];
const SWITCH = "worker/base/bug";
const CATCHERS = /^(simulate( [a-z]+)?|crash-sweep [a-z-]+|unit [a-z0-9_]+)$/;

function fail(sentence) {
    console.error(`weave: ${sentence}`);
    process.exit(1);
}

// ---- the bank ----

/*
 * A bug is a few "word: text" lines and one or more changes. A change is
 *
 *   <<<< FILE
 *   the original text
 *   ====
 *   the text with the mistake; BUG is true if the bug is switched on
 *   >>>>
 */
class Reader {
    constructor(bank) {
        this.bank = bank;
        this.lines = fs.readFileSync(bank, "utf8").split("\n");
        this.at = 0;
    }

    fail(sentence) {
        fail(`${this.bank}:${this.at}: ${sentence}`);
    }

    next() {
        return this.at < this.lines.length ? this.lines[this.at++] : null;
    }

    until(mark) {
        const from = this.at;

        for (;;) {
            const line = this.next();

            if (line === null) this.fail(`no ${mark} any more`);
            if (line === mark) break;
        }
        return this.lines.slice(from, this.at - 1).join("\n");
    }

    change(file) {
        const line = this.at;

        return { file, line, from: this.until("===="), to: this.until(">>>>") };
    }

    bugs() {
        const bugs = [];

        for (let line = this.next(); line !== null; line = this.next()) {
            const word = /^(bug|caught|what): (.+)$/.exec(line);
            const bug = bugs[bugs.length - 1];

            if (line === "" || line.startsWith("#")) continue;
            if (word && word[1] === "bug")
                bugs.push({ name: word[2], caught: "", what: "", changes: [] });
            else if (word && bug)
                bug[word[1]] += (bug[word[1]] && " ") + word[2];
            else if (line.startsWith("<<<< ") && bug)
                bug.changes.push(this.change(line.slice(5)));
            else this.fail(`cannot read: ${line}`);
        }
        return bugs;
    }
}

function check(bugs) {
    const names = new Set();

    for (const bug of bugs) {
        if (!/^[a-z0-9-]+$/.test(bug.name)) fail(`${bug.name}: no good name`);
        if (names.has(bug.name)) fail(`${bug.name} is there twice`);
        for (const catcher of bug.caught.split(", "))
            if (!CATCHERS.test(catcher))
                fail(`${bug.name}: who is '${catcher}' to catch it?`);
        if (!bug.what || bug.changes.length === 0)
            fail(`${bug.name} does not say what it is, or changes nothing`);
        names.add(bug.name);
    }
}

// ---- the sources ----

function sources() {
    const files = new Map();

    for (const folder of FOLDERS) collect(folder, files);
    return files;
}

function collect(file, files) {
    if (fs.statSync(file).isDirectory())
        for (const name of fs.readdirSync(file))
            collect(path.join(file, name), files);
    else files.set(file, { text: fs.readFileSync(file), edits: [] });
}

// bare: returns a text without white space and comments, and the position of
// each remaining character: line breaks move when a name gets longer, and
// comments are rewritten.
function bare(text) {
    const skipped = /\s+|\/\*[^]*?(?:\*\/|$)|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^])/g;
    const places = [];
    let characters = "";

    for (const match of text.matchAll(skipped)) {
        const kept = (match[1] || "").replace(/\s/g, "");

        for (let i = 0, at = match.index; i < kept.length; at++)
            if (text[at] === kept[i]) {
                places.push(at);
                i++;
            }
        characters += kept;
    }
    return { characters, places };
}

function place(files, bug, number, change) {
    const where = `bug ${bug.name}, line ${change.line}`;
    const file = files.get(change.file);

    if (!file) fail(`${where}: there is no ${change.file}`);
    const text = file.text.toString();
    let at = text.indexOf(change.from);
    let end = at + change.from.length;

    if (at < 0) {
        const { characters, places } = bare(text);
        const from = bare(change.from).characters;
        const found = characters.indexOf(from);

        if (found < 0) fail(`${where}: ${change.file} no longer reads so`);
        if (characters.indexOf(from, found + 1) >= 0)
            fail(`${where}: ${change.file} reads so more than once`);
        at = places[found];
        end = places[found + from.length - 1] + 1;
    } else if (text.indexOf(change.from, at + 1) >= 0) {
        fail(`${where}: ${change.file} reads so more than once`);
    }
    if (!/\bBUG\b/.test(change.to)) fail(`${where}: no BUG in the mistake`);
    file.edits.push({
        bug,
        at,
        end,
        to: change.to.replace(/\bBUG\b/g, `(bug_on == ${number})`),
    });
}

function woven(name, file) {
    if (file.edits.length === 0) return file.text;
    const text = file.text.toString();
    let out = `#include "${SWITCH}.h"\n`;
    let at = 0;

    file.edits.sort((a, b) => a.at - b.at);
    for (const edit of file.edits) {
        if (edit.at < at) fail(`${name}: bug ${edit.bug.name} meets another`);
        out += text.slice(at, edit.at) + edit.to;
        at = edit.end;
    }
    return Buffer.from(out + text.slice(at));
}

// ---- the switch ----

const SWITCH_H = `/* Which bug is switched on: its number, or 0. */
#ifndef TW_BUG_H
#define TW_BUG_H

extern int bug_on;

#endif
`;

function switchSource(bugs) {
    const names = bugs.map((bug) => `    "${bug.name}",\n`).join("");

    return `/* Reads TABLEWARD_BUG before main(); "list" prints what there is. */
#include "${SWITCH}.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[] = {
${names}};
#define COUNT ((int)(sizeof(names) / sizeof(names[0])))

int bug_on;

static void list(void)
{
    for (int i = 0; i < COUNT; i++)
        printf("%s\\n", names[i]);
    exit(0);
}

__attribute__((constructor)) static void read_switch(void)
{
    const char *name = getenv("TABLEWARD_BUG");

    if (!name || !name[0])
        return;
    if (strcmp(name, "list") == 0)
        list();
    for (int i = 0; i < COUNT && bug_on == 0; i++)
        if (strcmp(name, names[i]) == 0)
            bug_on = i + 1;
    if (bug_on == 0) {
        fprintf(stderr, "TABLEWARD_BUG=%s: no such bug\\n", name);
        _exit(64);
    }
}
`;
}

// ---- the copy ----

// write: writes a file; an unchanged file keeps its time, so that it is not
// compiled again.
function write(file, content) {
    const bytes = Buffer.from(content);

    fs.mkdirSync(path.dirname(file), { recursive: true });
    if (fs.existsSync(file) && fs.readFileSync(file).equals(bytes)) return;
    fs.writeFileSync(file, bytes);
}

function removeOthers(folder, wanted) {
    if (!fs.existsSync(folder)) return;
    for (const name of fs.readdirSync(folder)) {
        const file = path.join(folder, name);

        if (fs.statSync(file).isDirectory()) removeOthers(file, wanted);
        else if (!wanted.has(file)) fs.unlinkSync(file);
    }
}

function link(target, name) {
    const at = path.join(target, name);
    const to = path.relative(target, name);

    if (!fs.existsSync(at)) fs.symlinkSync(to, at);
}

// chosen: returns the bugs with these names, in the order of the bank; all bugs
// if there are no names.
function chosen(bugs, names) {
    for (const name of names)
        if (!bugs.some((bug) => bug.name === name))
            fail(`there is no bug ${name}`);
    return names.length ? bugs.filter((bug) => names.includes(bug.name)) : bugs;
}

function main(bank, target, list, ...names) {
    const all = new Reader(bank).bugs();
    const bugs = chosen(all, names);
    const files = sources();
    const wanted = new Set();

    check(all);
    bugs.forEach((bug, index) =>
        bug.changes.forEach((change) => place(files, bug, index + 1, change))
    );
    for (const [name, file] of files) file.woven = woven(name, file);
    files.set(`${SWITCH}.h`, { woven: SWITCH_H });
    files.set(`${SWITCH}.c`, { woven: switchSource(bugs) });
    for (const [name, file] of files) {
        write(path.join(target, name), file.woven);
        wanted.add(path.join(target, name));
    }
    for (const folder of FOLDERS)
        removeOthers(path.join(target, folder), wanted);
    for (const name of ["tests", "Makefile"]) link(target, name);
    write(
        list,
        bugs
            .map((bug) =>
                [bug.name, bug.caught, bug.changes[0].file, bug.what].join("\t")
            )
            .join("\n") + "\n"
    );
}

process.chdir(path.join(__dirname, "../.."));
if (process.argv.length < 5) fail("weave.js BANK TARGET LIST [NAME...]");
main(...process.argv.slice(2));
