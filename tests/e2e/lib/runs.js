// SPDX-License-Identifier: MIT
// Helpers that run a job to its end and examine what it did to a table.
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

// run: runs the command `tableward run`; returns its result and the run's
// ledger entity.
async function run(suite, job, code = 0, args = []) {
  const id = `${job}-${suite.runs = (suite.runs || 0) + 1}`;
  const ended =
      await suite.command(['run', job, ...args, '--yes', '--id', id],
          {limit_ms: 900000});
  assert.strictEqual(ended.code, code, tail(ended.log));
  return {...ended, ledger: await suite.run_of(id)};
}

// again: like run, but a worker runs the job. Unlike the command, a worker may
// be started while the service cannot be reached.
async function again(suite, job, code = 0) {
  const {store} = suite, id = await store.enqueue(job, {});
  const worker = suite.worker(), drained = () => suite.drain(worker, code);
  await (store.hurrying ? store.hurrying(drained) : drained());
  return {
    log: worker.log,
    ledger: await suite.ended(id, code === 0 ? 'succeeded' : 'failed'),
  };
}

// done: runs a job by a worker if the store has faults, else by the command.
const done = (suite, job, code) =>
    (suite.store.faulty ? again : run)(suite, job, code);

// named: returns the keys of all entities in the files of this folder, to which
// `failures:` of a job refers.
function named(suite, folder = 'failures') {
  const at = path.join(suite.folder, folder);
  const lines = !fs.existsSync(at) ? [] : fs.readdirSync(at).flatMap((name) =>
    fs.readFileSync(path.join(at, name), 'utf8').trim().split('\n'));
  return new Set(lines.map((line) => key(JSON.parse(line))));
}

// counts_cascade: throws unless the ledger counts a parent and the `below`
// entities under it as deleted. lossy: responses may be lost, so the parent may
// be missing in the count: if the delete of a parent gets no response and the
// parent is gone, somebody else may have deleted it.
function counts_cascade(ledger, below, lossy) {
  const {EntitiesDeleted: deleted} = ledger;
  assert.ok(deleted === below + 1 || (lossy && deleted === below),
      `${deleted} deleted, of ${below} and their parent`);
}

module.exports = {
  is_write, etags, run, again, done, named, counts_cascade,
};
