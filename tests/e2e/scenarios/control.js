// SPDX-License-Identifier: MIT
// What an operator does to runs at work: a run of every kind is paused, resumed
// and given another rate; a key is rotated under a worker. Each takes effect
// within 10 s, and the tables end as without it.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const {channel} = require('../lib/jobs');
const {each, sleep} = require('../lib/wait');

// Entities of each kind, and the rate at which they take 40 s.
const MANY = 600;
const SLOW = 15;
const FAST = 100000;
const EFFECT_MS = 10000;

const keys = Array.from({length: MANY}, (_, i) => String(i).padStart(4, '0'));
const entities = (partition) => keys.map(
    (RowKey) => ({PartitionKey: partition, RowKey, Title: `On ${RowKey}`}));

// jobs_of: one of each kind, on tables of its own whose names end with n.
const jobs_of = (max_entities_per_second, n) => {
  const at = (job) => ({...job, max_entities_per_second});
  return {
    [`cascade-${n}`]: at({
      kind: 'cascade-delete', args: ['channel'], settle: '0s',
      parent: {
        table: `Channels${n}`, partition_key: '{channel}', row_key: '',
        tombstone: {Deleted: true},
      },
      children: [{table: `Blogs${n}`, partition_key: '{channel}'}],
    }),
    [`purge-${n}`]: at({kind: 'delete', table: `Purged${n}`, all: true}),
    [`upgrade-${n}`]: at({
      kind: 'schema-upgrade', table: `Upgraded${n}`,
      version: {property: 'V', absent: 1},
      versions: [{to: 2, steps: [
        {add: {property: 'Language', type: 'Edm.String', value: 'en'}}]}],
    }),
    [`copy-${n}`]: at({
      kind: 'copy', from: {table: `Sources${n}`},
      to: {table: `Copies${n}`, partition_key: 'c_{PartitionKey}'},
    }),
    [`move-${n}`]: at({
      kind: 'move', from: {table: `Here${n}`},
      to: {table: `There${n}`, partition_key: 'm_{PartitionKey}'},
    }),
  };
};
const TABLES = ['Channels', 'Blogs', 'Purged', 'Upgraded', 'Sources', 'Copies',
  'Here', 'There'];
const numbers = (count) => Array.from({length: count}, (_, n) => n);
const jobs_at = (rate, count) =>
  Object.assign({}, ...numbers(count).map((n) => jobs_of(rate, n)));
const tables_of = (count) =>
  numbers(count).flatMap((n) => TABLES.map((table) => `${table}${n}`));

// seed: the tables, and a message for each job; the run's id is the job's name.
async function seed(suite, count) {
  for (const n of numbers(count)) {
    await suite.store.insert(`Channels${n}`, [channel('c')]);
    await suite.store.insert(`Blogs${n}`, entities('c'));
    for (const table of ['Purged', 'Upgraded', 'Sources', 'Here'])
      await suite.store.insert(`${table}${n}`, entities('p'));
  }
  for (const job of Object.keys(jobs_at(0, count))) {
    const args = job.startsWith('cascade') ? ['channel=c'] : [];
    await suite.program.ok(
        [...suite.options, 'enqueue', job, ...args, '--id', job],
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

// pause_all: a few at a time, as one person would.
async function pause_all(suite, runs, worker) {
  const paused = [];
  await each(runs, 5, async (run) => {
    await acts(suite, 'pause', run);
    paused.push(await suite.state(run, ['paused'], worker));
  });
  await sleep(2000);
  for (const before of paused) {
    const now = await suite.run_of(before.Id);
    assert.strictEqual(now.State, 'paused');
    assert.strictEqual(done(now), done(before), `${before.Id} goes on`);
    assert.ok(done(now) < MANY, `${before.Id} was done already`);
  }
}

async function give_rate(suite, count, runs, worker, rate) {
  suite.program.configure({...suite.configuration, jobs: jobs_at(rate, count)});
  worker.kill('SIGHUP');
  const begun = Date.now();
  // A move that was paused within a load waits 30 s for late inserts (A4).
  const moves = runs.filter((run) => run.startsWith('move'));
  for (const run of runs.filter((r) => !moves.includes(r)))
    await suite.state(run, ['succeeded'], worker);
  assert.ok(Date.now() - begun < EFFECT_MS,
      `the new rate took ${Date.now() - begun} ms`);
  for (const run of moves) await suite.state(run, ['succeeded'], worker);
}

async function all_is_done(suite, count) {
  const counts = {Channels: 0, Blogs: 0, Purged: 0, Upgraded: MANY,
    Sources: MANY, Copies: MANY, Here: 0, There: MANY};
  for (const n of numbers(count))
    for (const [table, many] of Object.entries(counts))
      assert.strictEqual(
          (await suite.store.read(`${table}${n}`)).length, many, table);
}

// count: how many runs of each kind there are at once.
const every_kind = (count) => async (suite) => {
  const runs = Object.keys(jobs_at(SLOW, count));
  await suite.open({jobs: jobs_at(SLOW, count), tables: tables_of(count),
    worker: {slots: runs.length + 3}});
  await seed(suite, count);
  const worker = suite.worker([]);
  await suite.judge(`${runs.length} runs are paused, each within 10 s`,
      async () => {
        for (const run of runs) await suite.state(run, ['running'], worker);
        await sleep(3000);
        await pause_all(suite, runs, worker);
      });
  await suite.judge(`${runs.length} runs are resumed`, async () => {
    await each(runs, 5, (run) => acts(suite, 'resume', run));
    for (const run of runs) await suite.state(run, ['running'], worker);
  });
  await suite.judge('a new rate takes effect within 10 s',
      () => give_rate(suite, count, runs, worker, FAST));
  await suite.judge('nothing is lost by it', () => all_is_done(suite, count));
  worker.kill('SIGTERM');
  assert.strictEqual((await suite.program.end(worker)).code, 0);
};

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
    body: every_kind(1)},
  {name: 'control of ten of every kind', stores: ['limited', 'embedded'],
    seconds: 300, long: true, body: every_kind(10)},
  {name: 'control rotated key', stores: ['limited'], seconds: 15, body: rotated},
  {name: 'control many ended runs', stores: ['limited'], seconds: 10,
    body: many_ended},
];
