// SPDX-License-Identifier: MIT
// A configuration in which one store has two names, as users may write it.
'use strict';

const fs = require('fs');
const path = require('path');
const {connection_string} = require('./azurite');

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

module.exports = {two_names};
