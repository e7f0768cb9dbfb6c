// SPDX-License-Identifier: MIT
// What an operator does to runs at work: a run of every kind is paused, resumed
// and given another rate; a key is rotated under a worker. Each takes effect
// within 10 s, and the tables end as without it.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const {channel} = require('../lib/jobs');
const {sleep} = require('../lib/wait');

// Entities of each kind, and the rate at which they take a quarter of a minute.
const MANY = 600;
const SLOW = 40;
const FAST = 100000;
const EFFECT_MS = 10000;

const keys = Array.from({length: MANY}, (_, i) => String(i).padStart(4, '0'));
const entities = (partition) => keys.map(
    (RowKey) => ({PartitionKey: partition, RowKey, Title: `On ${RowKey}`}));

const jobs_at = (max_entities_per_second) => {
  const at = (job) => ({...job, max_entities_per_second});
  return {
    cascade: at({
      kind: 'cascade-delete', args: ['channel'], settle: '0s',
      parent: {
        table: 'Channels', partition_key: '{channel}', row_key: '',
        tombstone: {Deleted: true},
      },
      children: [{table: 'Blogs', partition_key: '{channel}'}],
    }),
    purge: at({kind: 'delete', table: 'Purged', all: true}),
    upgrade: at({
      kind: 'schema-upgrade', table: 'Upgraded',
      version: {property: 'V', absent: 1},
      versions: [{to: 2, steps: [
        {add: {property: 'Language', type: 'Edm.String', value: 'en'}}]}],
    }),
    copy: at({
      kind: 'copy', from: {table: 'Sources'},
      to: {table: 'Copies', partition_key: 'c_{PartitionKey}'},
    }),
    move: at({
      kind: 'move', from: {table: 'Here'},
      to: {table: 'There', partition_key: 'm_{PartitionKey}'},
    }),
  };
};
const KINDS = Object.keys(jobs_at(0));
const TABLES = ['Channels', 'Blogs', 'Purged', 'Upgraded', 'Sources', 'Copies',
  'Here', 'There'];

async function seed(suite) {
  await suite.store.insert('Channels', [channel('c')]);
  await suite.store.insert('Blogs', entities('c'));
  for (const table of ['Purged', 'Upgraded', 'Sources', 'Here'])
    await suite.store.insert(table, entities('p'));
  for (const kind of KINDS) {
    const args = kind === 'cascade' ? ['channel=c'] : [];
    await suite.program.ok(
        [...suite.options, 'enqueue', kind, ...args, '--id', kind],
        {env: suite.environment});
  }
}

// done: what a run has done so far, as the ledger has it.
const done = (run) => Number(run.EntitiesDeleted) + Number(run.EntitiesWritten);

// command: that it ends with 0 within the time in which it must take effect.
async function acts(suite, ...args) {
  const begun = Date.now();
  const {code, log} = await suite.command(args);
  assert.strictEqual(code, 0, log);
  assert.ok(Date.now() - begun < EFFECT_MS,
      `${args.join(' ')} took ${Date.now() - begun} ms`);
}

async function pause_all(suite, worker) {
  await Promise.all(KINDS.map((kind) => acts(suite, 'pause', kind)));
  const paused = await Promise.all(
      KINDS.map((kind) => suite.state(kind, ['paused'], worker)));
  await sleep(2000);
  for (const before of paused) {
    const now = await suite.run_of(before.Id);
    assert.strictEqual(now.State, 'paused');
    assert.strictEqual(done(now), done(before), `${before.Id} goes on`);
    assert.ok(done(now) < MANY, `${before.Id} was done already`);
  }
}

async function give_rate(suite, worker, rate) {
  suite.program.configure({...suite.configuration, jobs: jobs_at(rate)});
  worker.kill('SIGHUP');
  const begun = Date.now();
  // A move that was paused within a load waits 30 s for late inserts (A4).
  for (const kind of KINDS.filter((k) => k !== 'move'))
    await suite.state(kind, ['succeeded'], worker);
  assert.ok(Date.now() - begun < EFFECT_MS,
      `the new rate took ${Date.now() - begun} ms`);
  await suite.state('move', ['succeeded'], worker);
}

async function all_is_done(suite) {
  const counts = {Channels: 0, Blogs: 0, Purged: 0, Upgraded: MANY,
    Sources: MANY, Copies: MANY, Here: 0, There: MANY};
  for (const [table, count] of Object.entries(counts))
    assert.strictEqual((await suite.store.read(table)).length, count, table);
}

async function every_kind(suite) {
  await suite.open({jobs: jobs_at(SLOW), tables: TABLES, worker: {slots: 8}});
  await seed(suite);
  const worker = suite.worker([]);
  await suite.judge('a run of every kind is paused within 10 s', async () => {
    for (const kind of KINDS)
      await suite.state(kind, ['running'], worker);
    await sleep(3000);
    await pause_all(suite, worker);
  });
  await suite.judge('a run of every kind is resumed', async () => {
    for (const kind of KINDS) await acts(suite, 'resume', kind);
    for (const kind of KINDS) await suite.state(kind, ['running'], worker);
  });
  await suite.judge('a new rate takes effect within 10 s',
      () => give_rate(suite, worker, FAST));
  await suite.judge('nothing is lost by it', () => all_is_done(suite));
  worker.kill('SIGTERM');
  assert.strictEqual((await suite.program.end(worker)).code, 0);
}

// Goal: a key that was rotated holds runs; a new one in the file and SIGHUP let
// them go on, and no run has failed for it.
async function rotated(suite) {
  await suite.open({
    jobs: {purge: {kind: 'delete', table: 'Purged', store: 'cloud', all: true}},
    tables: ['Purged'],
  });
  const file = path.join(suite.folder, 'key');
  const right = suite.environment.STORAGE;
  const wrong = right.replace(/AccountKey=[^;]*/,
      `AccountKey=${Buffer.alloc(64, 'old').toString('base64')}`);
  suite.program.configure({
    ...suite.configuration,
    stores: {...suite.configuration.stores,
      cloud: {azure: {connection_string_file: file}}},
  });
  fs.writeFileSync(file, wrong);
  await suite.store.insert('Purged', entities('p'));
  const worker = suite.worker([]);
  await suite.judge('a rotated key holds a run', async () => {
    await suite.program.ok(
        [...suite.options, 'enqueue', 'purge', '--id', 'held'],
        {env: suite.environment});
    const run = await suite.state('held', ['waiting'], worker);
    assert.strictEqual(run.WaitsFor, 'store');
    assert.match(run.Error, /403 AuthenticationFailed/);
  });
  await suite.judge('SIGHUP reads the key again', async () => {
    fs.writeFileSync(file, right);
    worker.kill('SIGHUP');
    const run = await suite.state('held', ['succeeded'], worker);
    assert.strictEqual(run.Failures, 0);
    assert.strictEqual((await suite.store.read('Purged')).length, 0);
  });
  await suite.judge('no key is in the log', async () => {
    for (const text of [wrong, right])
      assert.ok(!worker.log.includes(/AccountKey=([^;]*)/.exec(text)[1]));
  });
  worker.kill('SIGTERM');
  assert.strictEqual((await suite.program.end(worker)).code, 0);
}

// Goal: what `status` costs does not grow with the runs that ended before.
async function many_ended(suite) {
  await suite.open({
    jobs: {purge: {kind: 'delete', table: 'Purged', all: true}},
    tables: ['Purged'],
  });
  await suite.program.ok(
      [...suite.options, 'run', 'purge', '--yes'], {env: suite.environment});
  const requests = async () => {
    const {code, log} = await suite.command(['--log-level', 'debug', 'status']);
    assert.strictEqual(code, 0, log);
    return log.split('\n').filter((line) => / debug store /.test(line)).length;
  };
  const few = await requests();
  assert.ok(few > 0);
  const day = new Date(Date.now() - 3 * 86400000).toISOString().slice(0, 10);
  await suite.store.insert('TablewardRuns', Array.from({length: 5000}, (_, i) => ({
    PartitionKey: 'purge', RowKey: `!ended!${day}!old${i}`, State: 'succeeded',
  })));
  await suite.judge('5,000 ended runs cost status no request', async () =>
    assert.strictEqual(await requests(), few));
}

module.exports = [
  {name: 'control of every kind', stores: ['limited', 'embedded'], seconds: 40,
    body: every_kind},
  {name: 'control rotated key', stores: ['limited'], seconds: 15, body: rotated},
  {name: 'control many ended runs', stores: ['limited'], seconds: 10,
    body: many_ended},
];
