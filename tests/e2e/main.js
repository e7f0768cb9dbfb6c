// SPDX-License-Identifier: MIT
// Runs the suites of scenarios/, several at a time, and prints the counts.
//
//   node main.js [--long] [WORD ...]     suites whose name contains a WORD, as
//                                        azurite-kill-sweep
//
// Environment:
//   TABLEWARD        the program
//   TABLEWARD_UNDER  the command under which the program runs (valgrind)
//   E2E_MODULES      the folder with the npm packages (Azurite, SDKs)
//   E2E_AT_ONCE=n    runs n suites at a time
//   E2E_SIZE, E2E_SECONDS, E2E_KILLS  make the longest suites shorter
//
// After a failure:
//   E2E_SEED=n       repeats the kills of the run that printed this seed
//   E2E_LOGS=FOLDER  keeps the workers' logs
//   KEEP=1           keeps the folders
//   E2E_TIMES=1      prints how long each suite took
'use strict';

const fs = require('fs');
const os = require('os');
const path = require('path');
const {Azurite} = require('./lib/azurite');
const {Suite} = require('./lib/suite');
const {each} = require('./lib/wait');
const {AzsimStore} = require('./lib/store_azsim');
const {AzuriteStore} = require('./lib/store_azurite');
const {BetweenStore} = require('./lib/store_between');
const {EmbeddedStore} = require('./lib/store_embedded');
const {IdentityStore} = require('./lib/store_identity');
const secrets = require('./lib/secrets');
const {LimitedStore} = require('./lib/store_limited');

const STORES = {
  azurite: AzuriteStore, azsim: AzsimStore, between: BetweenStore,
  embedded: EmbeddedStore, identity: IdentityStore, limited: LimitedStore,
};

// number: suites with short leases run in later phases, because they need a
// machine that is not busy with the 12,000 blogs of another suite.
// at_once: how many suites of the phase run at a time. There are several,
// because most suites wait more than they compute.
const PHASES = [
  {number: 1, at_once: 4}, {number: 2, at_once: 3}, {number: 3, at_once: 3},
];

// Returns the full name of a suite, such as azurite-kill-sweep. A WORD selects
// the suite if this name contains it.
function full_name(suite) {
  return `${suite.store} ${suite.name}`.replace(/ /g, '-');
}

// suites: returns the suites [{name, store, body}] that the words select. Exits
// if a word selects none, because a misspelt word would leave its suite out.
function suites(words, long) {
  const folder = path.join(__dirname, 'scenarios');
  const all = [];
  for (const file of fs.readdirSync(folder).sort())
    for (const suite of require(path.join(folder, file)))
      for (const store of suite.stores)
        if (long || !suite.long) all.push({...suite, store});
  for (const word of words)
    if (!all.some((s) => full_name(s).includes(word)))
      die(`no suite's name contains "${word}"` +
          `${long ? '' : '; long suites are run only with --long'}`);
  return all
      .filter((s) => words.length === 0 ||
          words.some((w) => full_name(s).includes(w)))
      .sort((a, b) => (b.seconds || 10) - (a.seconds || 10));
}

function die(why) {
  console.error(`e2e: ${why}`);
  process.exit(64);
}

async function main() {
  const long = process.argv.includes('--long');
  const words = process.argv.slice(2).filter((a) => a !== '--long');
  const all = suites(words, long);
  const counts = {passed: 0, failed: 0};
  const work = fs.mkdtempSync(path.join(os.tmpdir(), 'tableward-e2e.'));
  const azurite = await Azurite.start(process.env.E2E_MODULES);
  const bench = {program: path.resolve(process.env.TABLEWARD), work, azurite};
  const report = (suite, name, error) => {
    counts[error ? 'failed' : 'passed']++;
    console.log(`${error ? 'FAILED' : 'ok'} ${suite.Store.name}: ${name}`);
    if (error) console.log(`    ${indent(error)}`);
  };
  const play = async ({name, store, body}) => {
    const suite = new Suite(name, STORES[store], bench, report);
    const started = Date.now();
    try {
      await body(suite);
    } catch (error) {
      report(suite, name, error);
    } finally {
      suite.close();
    }
    const seconds = ((Date.now() - started) / 1000).toFixed(1);
    if (process.env.E2E_TIMES) console.log(`    (${store} ${name}: ${seconds} s)`);
  };
  try {
    for (const {number, at_once} of PHASES)
      await each(all.filter((s) => (s.phase || 1) === number),
          Number(process.env.E2E_AT_ONCE || at_once), play);
  } finally {
    await azurite.stop();
  }
  for (const hit of secrets.hits) console.log(`FAILED ${hit}`);
  counts.failed += secrets.hits.length;
  console.log(`secrets: ${secrets.count()} looked for in ` +
      `${secrets.outputs()} outputs, ${secrets.hits.length} found`);
  console.log(`e2e: ${counts.passed} passed, ${counts.failed} failed`);
  process.exit(counts.failed === 0 && counts.passed > 0 ? 0 : 1);
}

function indent(error) {
  const text = error.stack.includes('AssertionError') ||
      error.message.includes('\n') ? error.message : error.stack;
  return text.split('\n').slice(0, 25).join('\n    ');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
