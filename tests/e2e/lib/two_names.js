// SPDX-License-Identifier: MIT
// A store that has two names, as users may configure it.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const {connection_string} = require('./azurite');
const {holds} = require('./model');
const {tail} = require('./program');

// two_names: writes a configuration with these jobs in which `main` and `other`
// are the same store: one account by two host names, or one file by two paths.
// Returns the options of the command.
function two_names(suite, jobs) {
  const {store, folder, configuration} = suite;
  const link = path.join(folder, 'beside.db');
  let other = {embedded: link};
  if (suite.Store.name === 'azurite')
    other = {azure: {connection_string: connection_string(store.account,
        store.azurite.key, store.azurite.table_port, store.azurite.queue_port)
        .replaceAll('127.0.0.1', 'localhost')}};
  else if (!fs.existsSync(link))
    fs.symlinkSync(path.join(folder, 'tableward.db'), link);
  return ['--config', suite.program.configure({...configuration, jobs,
    stores: {...configuration.stores, other}}, 'names.yaml')];
}

// onto_itself: runs a job of this kind from the table to itself under another
// name of its store, with each on_conflict: no entity may change.
async function onto_itself(suite, front, kind, table, entities, conflicts) {
  await front.insert(table, entities);
  for (const on_conflict of conflicts)
    await suite.judge(`onto itself under another name, ${on_conflict}`,
        async () => {
          const options = two_names(suite, {onto: {
            kind, from: {table}, on_conflict,
            to: {table: table.toLowerCase(), store: 'other'}}});
          const {code, log} = await suite.program.run(
              [...options, 'run', 'onto', '--yes'], {env: suite.environment});
          assert.ok([1, 64, 78].includes(code), `${code}: ${tail(log)}`);
          holds(table, entities, await front.read(table));
        });
}

module.exports = {onto_itself};
