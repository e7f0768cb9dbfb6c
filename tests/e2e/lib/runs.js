// SPDX-License-Identifier: MIT
// Runs that are asked for and awaited, and what they did to a table.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const {key} = require('./model');
const {tail} = require('./program');

const is_write = (request) => request.service === 'table' &&
    !['page', 'get'].includes(request.kind);

const etags = (found) =>
    new Map(found.map((entity) => [key(entity), entity['odata.etag']]));

// run: `tableward run`, and what the ledger says of it afterwards.
async function run(suite, job, code = 0, args = []) {
  const id = `${job}-${suite.runs = (suite.runs || 0) + 1}`;
  const ended =
      await suite.command(['run', job, ...args, '--yes', '--id', id],
          {limit_ms: 900000});
  assert.strictEqual(ended.code, code, tail(ended.log));
  return {...ended, ledger: await suite.run_of(id)};
}

// again: the same by a worker, which bears more than the command: a service
// that cannot be reached at its start.
async function again(suite, job, code = 0) {
  const {store} = suite, id = await store.enqueue(job, {});
  const worker = suite.worker(), drained = () => suite.drain(worker, code);
  await (store.hurrying ? store.hurrying(drained) : drained());
  return {
    log: worker.log,
    ledger: await suite.ended(id, code === 0 ? 'succeeded' : 'failed'),
  };
}

// done: by the way that the store's faults let through.
const done = (suite, job, code) =>
    (suite.store.faulty ? again : run)(suite, job, code);

// named: the keys of all entities in the `failures:` files of a job that keeps
// them in this folder.
function named(suite, folder = 'failures') {
  const at = path.join(suite.folder, folder);
  const lines = !fs.existsSync(at) ? [] : fs.readdirSync(at).flatMap((name) =>
    fs.readFileSync(path.join(at, name), 'utf8').trim().split('\n'));
  return new Set(lines.map((line) => key(JSON.parse(line))));
}

// counts_cascade: the ledger counts a parent and the `below` under it. Where
// answers get lost, a parent whose delete was not answered, and is gone, may
// have been deleted by somebody else: it is not counted.
function counts_cascade(ledger, below, lossy) {
  const {EntitiesDeleted: deleted} = ledger;
  assert.ok(deleted === below + 1 || (lossy && deleted === below),
      `${deleted} deleted, of ${below} and their parent`);
}

module.exports = {
  is_write, etags, run, again, done, named, counts_cascade,
};
