#!/usr/bin/env node
// SPDX-License-Identifier: MIT
/*
 * Writes a bug bank of small mechanical mistakes in the code of leases,
 * attempts, the ledger and requests: another comparison, an operator or a
 * number that is off by one, a statement left out. The choice depends on the
 * seed alone.
 *
 *   mutate.js BANK SEED COUNT [PATTERN]
 *
 * PATTERN: a regular expression; only mistakes whose "FILE: LINE -> MISTAKE"
 * matches it are drawn.
 *
 * tests/bugs/equivalent lists mistakes without a visible effect, each with the
 * reason; these are not drawn.
 */
"use strict";

const fs = require("fs");
const path = require("path");
const {random} = require("../e2e/lib/wait");

// The tests that must catch a mistake in the file, in this order.
const FILES = {
    "worker/run/lease.c":
        "unit lease, unit attempt, unit single, unit consumer, " +
        "simulate, simulate copy",
    "worker/run/attempt.c":
        "unit attempt, unit single, unit consumer, unit each_request, simulate, " +
        "simulate copy",
    "worker/run/renewer.c":
        "unit renewer, unit attempt, unit single, unit consumer, " +
        "simulate",
    "worker/run/ledger.c":
        "unit ledger, unit ledger_change, unit lease, unit attempt, " +
        "unit command_status, simulate",
    "worker/run/ledger_change.c":
        "unit ledger_change, unit ledger, unit lease, unit control, simulate",
    "worker/store/retry.c": "unit retry, unit request_pool, unit control, unit lease",
    "worker/store/breaker.c": "unit breaker, unit consumer",
    "worker/store/deadline.c": "unit deadline, unit request_pool, unit attempt, simulate",
    "worker/store/lease_clock.c":
        "unit lease_clock, unit deadline, unit attempt, simulate",
    "worker/store/request_pool.c":
        "unit request_pool, unit call, unit run, unit attempt, unit single, simulate",
    "worker/store/rate.c": "unit rate, unit rate_limiter",
    "worker/store/rate_limiter.c": "unit rate_limiter, unit request_pool, unit rate",
    "jobs/cascade/cascade.c":
        "unit cascade, unit cascade_marks, unit cascade_parent, " +
        "unit cascade_before, unit cascade_faults, unit cascade_checkpoint, " +
        "simulate",
};

// ---- mistakes in an expression ----

const OPERATORS = [
    [" == ", " != "], [" != ", " == "], [" < ", " <= "], [" <= ", " < "],
    [" > ", " >= "], [" >= ", " > "], [" && ", " || "], [" || ", " && "],
    [" + ", " - "], [" - ", " + "], [" * ", " + "],
];

function replaced(text, at, length, by) {
    return text.slice(0, at) + by + text.slice(at + length);
}

// mistakes: returns every expression that differs from this one in one place.
function mistakes(expression) {
    const found = [];
    const bare = expression.replace(/"(\\.|[^"\\])*"|'(\\.|[^'\\])*'/g,
        (text) => "_".repeat(text.length));

    for (const [from, to] of OPERATORS)
        for (let at = bare.indexOf(from); at >= 0;
            at = bare.indexOf(from, at + 1))
            found.push(replaced(expression, at, from.length, to));
    for (const number of bare.matchAll(/\b\d+\b/g))
        found.push(replaced(expression, number.index, number[0].length,
            String(Number(number[0]) + 1)));
    for (const not of bare.matchAll(/!(?=[a-z(])/g))
        found.push(replaced(expression, not.index, 1, ""));
    for (const constant of bare.matchAll(/\b(true|false)\b/g))
        found.push(replaced(expression, constant.index, constant[0].length,
            constant[0] === "true" ? "false" : "true"));
    return found;
}

// ---- mistakes in a line ----

const NUMBERS = "int|bool|size_t|ssize_t|u?int\\d+_t|unsigned|long|double";
const TYPES = `struct|enum|union|const|char|static|void|CURL|xmlDoc|${NUMBERS}`;
// Calls that are never left out: without them memory leaks, a lock is held for
// ever, or only a message for people changes.
const KEPT = /^(log_\w+|assert|\w*_lock|\w*_unlock|err_fail|err_put|err_prefix|\w+_done|\w+_free|\w+_init|\w+_new|mem_\w+|buf_\w+|platform_\w+|notify\w*|va_end)\(/;

const SHAPES = [
    {
        line: /^(\s+)(if|while) \((.*)\)( \{)?$/,
        mutate: ([, indent, word, condition, rest]) =>
            mistakes(condition).map((wrong) => ({
                wrong,
                to: `${indent}${word} (BUG ? (${wrong}) : (${condition}))` +
                    (rest || ""),
            })),
    },
    {
        line: /^(\s+)return (.+);$/,
        mutate: ([, indent, value]) =>
            mistakes(value).map((wrong) => ({
                wrong: `return ${wrong}`,
                to: `${indent}return BUG ? (${wrong}) : (${value});`,
            })),
    },
    {
        line: /^(\s+)([a-z_][\w.\[\]>-]*) (=|\+=|-=) (.+);$/,
        mutate: ([, indent, left, sign, right]) => [
            ...mistakes(right).map((wrong) => ({
                wrong: `${left} ${sign} ${wrong}`,
                to: `${indent}${left} ${sign} BUG ? (${wrong}) : (${right});`,
            })),
            {
                wrong: "nothing",
                to: `${indent}{ if (!BUG) { ${left} ${sign} ${right}; } }`,
            },
        ],
    },
    {
        declares: true,
        line: new RegExp(`^(\\s+(?:const )?(?:${NUMBERS}) \\w+) = (.+);$`),
        mutate: ([, left, value]) => mistakes(value).map((wrong) => ({
            wrong: `${left.trim()} = ${wrong}`,
            to: `${left} = BUG ? (${wrong}) : (${value});`,
        })),
    },
    {
        line: /^(\s+)((?:\+\+|--)?\*?[a-z_][\w.\[\]>-]*(?:\+\+|--)?);$/,
        mutate: ([, indent, statement]) => /\+\+|--/.test(statement)
            ? [{ wrong: "nothing", to: `${indent}{ if (!BUG) { ${statement}; } }` }]
            : [],
    },
    {
        line: /^(\s+)((?:\(void\)!?)?[a-z_]\w*\(.*\));$/,
        mutate: ([, indent, call]) => KEPT.test(call.replace(/^\(void\)!?/, ""))
            ? []
            : [{ wrong: "nothing", to: `${indent}{ if (!BUG) { ${call}; } }` }],
    },
];

function balanced(text) {
    let depth = 0;

    for (const c of text) {
        depth += c === "(" ? 1 : c === ")" ? -1 : 0;
        if (depth < 0) return false;
    }
    return depth === 0;
}

const isDeclaration = (line) => new RegExp(`^\\s+(${TYPES})\\b`).test(line);

// mutants: returns all mistakes of a line; none if it is not a whole statement,
// or is a declaration of anything but one number.
function mutants(line) {
    if (!balanced(line) || /BUG|\{0\}|\(struct/.test(line)) return [];
    for (const shape of SHAPES) {
        const match = shape.line.exec(line);

        if (match && (shape.declares || !isDeclaration(line)))
            return shape.mutate(match);
    }
    return [];
}

// ---- the bank ----

// context: returns the first of the lines that make the text unique in the
// file, ending with the line `at`; null if there are no such lines, or another
// mistake has changed one of them.
function context(lines, at, taken) {
    for (let first = at; first >= Math.max(0, at - 6); first--) {
        if (taken.has(first)) return null;
        const text = lines.slice(first, at + 1).join("\n");
        const all = lines.join("\n");

        if (all.indexOf(text) === all.lastIndexOf(text)) return first;
    }
    return null;
}

// begins: true if a statement begins in this line: it is neither the rest of a
// statement nor the value of a declaration.
function begins(lines, at) {
    const before = lines[at - 1].trim();

    return before === "" || /[;{}:]$|\*\/$/.test(before) ||
        /^(if|while|for) \(.*\)$/.test(before) || before === "else";
}

function known() {
    const file = path.join(__dirname, "equivalent");
    const lines = fs.readFileSync(file, "utf8").split("\n");

    return new Set(lines.filter((l) => l && !l.startsWith("#") && l[0] !== " "));
}

const identity = (file, line, mutant) =>
    `${file}: ${line.trim()} -> ${mutant.wrong}`;

function candidates() {
    const equivalent = known();
    const all = [];

    for (const file of Object.keys(FILES)) {
        const lines = fs.readFileSync(file, "utf8").split("\n");

        lines.forEach((line, at) => {
            if (at === 0 || !begins(lines, at)) return;
            for (const mutant of mutants(line)) {
                const name = identity(file, line, mutant);

                if (!equivalent.has(name))
                    all.push({ file, lines, at, mutant, name });
            }
        });
    }
    return all;
}

function main(bank, seed, count, pattern) {
    const draw = random(seed);
    const all = candidates().filter(({ name }) => pattern.test(name));
    const taken = new Map(Object.keys(FILES).map((file) => [file, new Set()]));
    const blocks = [];

    while (blocks.length < count && all.length > 0) {
        const [{ file, lines, at, mutant, name }] =
            all.splice(draw(all.length), 1);
        const first = context(lines, at, taken.get(file));

        if (first === null) continue;
        for (let i = first; i <= at; i++) taken.get(file).add(i);
        blocks.push([
            `bug: m${seed}-${blocks.length + 1}-` +
                `${path.basename(file, ".c").replace(/_/g, "-")}-${at + 1}`,
            `caught: ${FILES[file]}`,
            `what: ${name}`,
            `<<<< ${file}`,
            lines.slice(first, at + 1).join("\n"),
            "====",
            [...lines.slice(first, at), mutant.to].join("\n"),
            ">>>>", "",
        ].join("\n"));
    }
    fs.mkdirSync(path.dirname(bank), { recursive: true });
    fs.writeFileSync(bank, blocks.join("\n"));
}

process.chdir(path.join(__dirname, "../.."));
if (process.argv.length < 5 || process.argv.length > 6) {
    console.error("mutate.js BANK SEED COUNT [PATTERN]");
    process.exit(64);
}
main(process.argv[2], Number(process.argv[3]), Number(process.argv[4]),
    new RegExp(process.argv[5] || ""));
