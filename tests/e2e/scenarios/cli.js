// SPDX-License-Identifier: MIT
// Commands that an operator types, on Azurite, and a store that cannot be used:
// each has its exit code. tests/cli.sh has more, on an embedded store.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const jobs = require('../lib/jobs');
const {connection_string} = require('../lib/azurite');

async function usage(suite) {
  await jobs.open_flat(suite);
  // Goal: `run` does without a queue what the worker does; repeated, it does
  // nothing.
  await suite.judge('run deletes a channel, and says 0 when asked again',
      async () => {
        await jobs.store_channel(suite.store, 'Run', 150);
        const args = ['run', 'delete-channel', 'channel=Run', '--yes', '--id',
          'run-1'];
        const dry = await suite.ok([...args.slice(0, 3), '--dry-run']);
        assert.match(dry.out, /150/);
        assert.strictEqual((await suite.store.read('Blogs')).length, 150);
        const first = await suite.ok(args);
        assert.match(first.out, /^run-1$/m);
        await suite.same();
        await suite.ok(args);
        const {out} = await suite.ok(['status', 'run-1', '--json']);
        const [run] = JSON.parse(out);
        assert.strictEqual(run.State, 'succeeded');
        assert.strictEqual(run.EntitiesDeleted, 151);
        assert.strictEqual(run.Attempt, 1);
      });
  await suite.judge('count, jobs and check --online', async () => {
    for (const args of [['count', 'Blogs'], ['jobs'],
      ['jobs', 'delete-channel'], ['check', '--online']]) {
      const {out} = await suite.ok(args);
      assert.notStrictEqual(out, '');
    }
  });
  await suite.judge('cancel stops a run and keeps its tombstone', async () => {
    await suite.store.insert('Channels', [jobs.channel('Held')]);
    const id = await suite.store.enqueue('delete-channel', {channel: 'Held'});
    const {code, log} = await suite.command(['cancel', id]);
    // A message that no worker has received may have no run to cancel.
    assert.ok(code === 0 || code === 1 || code === 64, log);
    const end = await suite.program.end(suite.worker());
    assert.ok(end.code === 0 || end.code === 1);
    const left = (await suite.store.read('Channels')).length;
    assert.strictEqual(left, code === 0 ? 1 : 0);
  });
}

// Goal: if a store cannot be reached or refuses, the program exits with 69 and
// prints a sentence that says what to check, without a secret.
async function unreachable(suite) {
  await suite.open({jobs: {'delete-channel': jobs.flat}, tables: ['Blogs']});
  const {azurite, account} = suite.store;
  const other = Buffer.alloc(64, 7).toString('base64');
  const cases = [
    ['nobody answers', connection_string(account, azurite.key, 1, 1)],
    ['a wrong key', connection_string(
        account, other, azurite.table_port, azurite.queue_port)],
    ['a name that does not resolve', 'DefaultEndpointsProtocol=https;' +
        `AccountName=nobody;AccountKey=${azurite.key};` +
        'EndpointSuffix=storage.invalid'],
  ];
  for (const [what, STORAGE] of cases)
    await suite.judge(`unreachable: ${what}`, async () => {
      const {code, log} =
          await suite.command(['count', 'Blogs'], {env: {STORAGE}});
      assert.strictEqual(code, 69, log);
      assert.ok(!log.includes(other) && !log.includes(azurite.key));
      assert.doesNotMatch(log, /SharedKey \w+:/);
    });
  await suite.judge('unreachable: the worker at start, a wrong key',
      async () => {
        const [, [, STORAGE]] = cases;
        const {code, log} = await suite.command(['worker'], {env: {STORAGE}});
        assert.strictEqual(code, 69, log);
      });
}

// Goal: a folder that cannot be written is named in the error: a command exits
// with 69; the worker continues to try.
async function unwritable(suite) {
  await suite.open({jobs: {'delete-channel': jobs.flat}});
  await suite.judge('a data directory that cannot be written', async () => {
    const file = path.join(suite.folder, 'not-a-folder');
    fs.writeFileSync(file, '');
    const options = ['--config', suite.program.configure({
      stores: {main: {embedded: path.join(file, 't.db')}},
      jobs: {'delete-channel': jobs.flat},
    }, 'unwritable.yaml')];
    const count = await suite.program.run([...options, 'count', 'Blogs']);
    assert.strictEqual(count.code, 69, count.log);
    assert.match(count.log, /not-a-folder/);
    const worker = suite.program.start([...options, 'worker']);
    await suite.said(worker, /not-a-folder.*trying again/);
    await suite.stop(worker, 20000);
  });
}

module.exports = [
  {name: 'usage', stores: ['azurite'], seconds: 10, body: usage},
  {name: 'unreachable', stores: ['azurite'], seconds: 20, body: unreachable},
  {name: 'unwritable', stores: ['embedded'], seconds: 5, body: unwritable},
];
