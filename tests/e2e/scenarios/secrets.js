// SPDX-License-Identifier: MIT
// Where a worker keeps its secrets: not in its environment, and in its memory
// only the decoded key, with which it signs requests.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const {request} = require('../lib/ask');
const {copies} = require('../lib/memory_of');
const secrets = require('../lib/secrets');
const {list} = require('../lib/model');

const TOKEN = 'memory-0123456789abcdef-token';

// check: asks the worker's server whether the token is right.
const check = (port) => request(port, 'POST', '/api/check', {
  body: '{}', headers: {
    'Content-Type': 'application/json', 'X-Tableward': '1',
    'Authorization': `Bearer ${TOKEN}`,
  },
});

// from_files: starts a worker whose secrets are in files; returns {worker,
// port}.
async function from_files(suite) {
  const write = (name, text) =>
    fs.writeFileSync(path.join(suite.folder, name), `${text}\n`);
  write('storage', suite.environment.STORAGE);
  write('token', TOKEN);
  secrets.keep(TOKEN);
  const file = suite.program.configure({
    ...suite.configuration,
    stores: {main: {azure: {connection_string_file: 'storage'}}},
    worker: {...suite.configuration.worker, listen: '127.0.0.1:0',
      admin_token_file: 'token'},
  }, 'files.yaml');
  const worker = suite.program.start(['--config', file, 'worker']);
  const [, port] = await suite.said(worker, /listens on \S+ \(port (\d+)\)/);
  return {worker, port};
}

const of_process = (worker, file) =>
  fs.readFileSync(`/proc/${worker.child.pid}/${file}`, 'latin1');

async function kept(suite) {
  await suite.open({
    jobs: {purge: {kind: 'delete', table: 'Purged', all: true}},
    tables: ['Purged'],
  });
  const key = /AccountKey=([^;]*)/.exec(suite.environment.STORAGE)[1];
  await suite.store.insert('Purged', list(300, (i) =>
    ({PartitionKey: 'p', RowKey: String(i)})));
  const {worker, port} = await from_files(suite);
  await suite.store.enqueue('purge', {}, {id: 'purge'});
  await suite.state('purge', ['succeeded'], worker);
  assert.strictEqual((await check(port)).status, 200);
  const found = (what) => copies(worker.child.pid, Buffer.from(what));
  let may_read = true;
  try {
    found(key);
  } catch (error) {
    if (!['EACCES', 'EPERM'].includes(error.code)) throw error;
    console.log('    skipped: only root may read the memory of a worker');
    may_read = false;
  }
  if (may_read)
    await suite.judge('no secret in environment, command line or memory', () => {
      for (const file of ['environ', 'cmdline'])
        for (const text of [key, TOKEN])
          assert.ok(!of_process(worker, file).includes(text), file);
      assert.ok(found('Purged') > 0, 'the search finds nothing at all');
      assert.strictEqual(found(key), 0, 'the key as text');
      assert.strictEqual(found(key.slice(20, 52)), 0, 'a piece of the key');
      assert.strictEqual(found(TOKEN), 0, 'the admin token');
      console.log(`    (the key is there, decoded, ${found(
          Buffer.from(key, 'base64'))} times)`);
    });
  await suite.stop(worker);
}

module.exports = [
  {name: 'secrets in memory', stores: ['limited'], seconds: 10, body: kept},
];
