// SPDX-License-Identifier: MIT
// What an operator does to running jobs: a run of every kind is paused, resumed
// and given another rate; a key is rotated. Each of these takes effect within
// 10 s. The tables end as if the operator had done nothing.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const {request} = require('../lib/ask');
const {channel, flat} = require('../lib/jobs');
const {LEDGER} = require('../lib/proxy');
const {each, sleep, until} = require('../lib/wait');
const {list} = require('../lib/model');

// Number of entities of each run.
const MANY = 600;
const FAST = 100000;
const EFFECT_MS = 10000;
// Number of concurrent runs of each kind, and their rate (entities a second).
// The runs of FEW last 40 s. The runs of TEN last 120 s, because pausing all of
// them takes a minute. With a visibility timeout of 60 s a lease is renewed
// every 5 s, and the renewal shows the operator's command to the owner of the
// lease.
const FEW = {count: 1, rate: 15, worker: {}};
const TEN = {
  count: 10, rate: 5, worker: {visibility_timeout: '60s', requests: 32},
};

const keys = list(MANY, (i) => String(i).padStart(4, '0'));
const entities = (partition) => keys.map(
    (RowKey) => ({PartitionKey: partition, RowKey, Title: `On ${RowKey}`}));

// jobs_of: returns a job of each kind, on its own tables, whose names end with
// n.
const jobs_of = (max_entities_per_second, n) => {
  const at = (job) => ({...job, max_entities_per_second});
  return {
    [`cascade-${n}`]: at({
      ...flat, parent: {...flat.parent, table: `Channels${n}`},
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
const numbers = (count) => list(count, (n) => n);
const jobs_at = (rate, count) =>
  Object.assign({}, ...numbers(count).map((n) => jobs_of(rate, n)));
const tables_of = (count) =>
  numbers(count).flatMap((n) => TABLES.map((table) => `${table}${n}`));

// seed: fills the tables and enqueues a run of each job; the run's id is the
// job's name.
async function seed(suite, count) {
  for (const n of numbers(count)) {
    await suite.store.insert(`Channels${n}`, [channel('c')]);
    await suite.store.insert(`Blogs${n}`, entities('c'));
    for (const table of ['Purged', 'Upgraded', 'Sources', 'Here'])
      await suite.store.insert(`${table}${n}`, entities('p'));
  }
  for (const job of Object.keys(jobs_at(0, count))) {
    const args = job.startsWith('cascade') ? ['channel=c'] : [];
    await suite.ok(['enqueue', job, ...args, '--id', job]);
  }
}

// done: returns how many entities a run has deleted and written so far, by the
// ledger.
const done = (run) =>
  Number(run.EntitiesDeleted || 0) + Number(run.EntitiesWritten || 0);

// has_begun: true if the run has done something. A move counts nothing before
// its first load is complete.
const has_begun = (run) => done(run) > 0 || run.Kind === 'move';

// runs_of: returns these runs from the ledger.
const runs_of = async (suite, ids) =>
  (await suite.store.runs()).filter((run) => ids.includes(run.Id));

const kind_of = (run) => run.replace(/-\d+$/, '');

// Delays: the longest delay of each kind of job, for one command.
class Delays {
  longest = new Map();

  // note: notes that the run has now done what was asked at `begun`; throws if
  // it took too long.
  note(run, begun) {
    const ms = Date.now() - begun, kind = kind_of(run);
    this.longest.set(kind, Math.max(ms, this.longest.get(kind) || 0));
    assert.ok(ms < EFFECT_MS, `${run} took ${ms} ms`);
  }

  text() {
    return [...this.longest].map(
        ([kind, ms]) => `${kind} ${(ms / 1000).toFixed(1)} s`).join(', ');
  }
}

// asked: gives a command for each run, several at a time, and waits until the
// run has one of `states`; throws if it takes too long. Returns the runs.
async function asked(suite, worker, command, runs, states) {
  const delays = new Delays(), found = [];
  await each(runs, Object.keys(jobs_of(0, 0)).length, async (run) => {
    const begun = Date.now();
    await suite.ok([command, run]);
    found.push(await suite.state(run, states, worker));
    delays.note(run, begun);
  });
  console.log(`    ${suite.Store.name}: ${command}, longest delay: ` +
      delays.text());
  return found;
}

const contents = async (suite, count) => JSON.stringify(
    await Promise.all(tables_of(count).map((t) => suite.store.read(t))));

// pause_all: pauses all runs. No run may have ended before it is paused, and a
// paused run may write nothing.
async function pause_all(suite, count, runs, worker) {
  const paused = await asked(suite, worker, 'pause', runs, ['paused']);
  const before = await contents(suite, count);
  for (const run of paused)
    assert.ok(has_begun(run) && done(run) < MANY,
        `${run.Id}: ${done(run)} done`);
  await sleep(2000);
  const now = await runs_of(suite, runs);
  assert.ok(now.every((run) => run.State === 'paused'),
      'a paused run continues');
  assert.ok(await contents(suite, count) === before, 'a paused run writes');
}

// is_faster: true if the run has ended or has done more than the former rate
// allows.
const is_faster = (run, before, rate, ms) => run.State === 'succeeded' ||
    done(run) > done(before) + rate * (ms / 1000 + EFFECT_MS / 1000);

// give_rate: sets a new rate; each run must use it in time. This does not hold
// for a move that was paused within a load: it first waits 30 s, until no late
// insert can arrive (A4).
async function give_rate(suite, {count, rate}, runs, worker) {
  const delays = new Delays();
  const before = new Map((await runs_of(suite, runs)).map((r) => [r.Id, r]));
  const slow = new Set(runs.filter((run) => !run.startsWith('move')));
  suite.program.configure({...suite.configuration, jobs: jobs_at(FAST, count)});
  const begun = Date.now();
  worker.kill('SIGHUP');
  await until('all runs are faster', async () => {
    for (const run of await runs_of(suite, [...slow])) {
      const ms = Date.now() - begun;
      if (!is_faster(run, before.get(run.Id), rate, ms)) continue;
      slow.delete(run.Id);
      delays.note(run.Id, begun);
    }
    return slow.size === 0;
  });
  console.log(`    ${suite.Store.name}: new rate, longest delay: ` +
      delays.text());
  for (const run of runs) await suite.state(run, ['succeeded'], worker);
}

async function all_is_done(suite, count, runs) {
  const counts = {Channels: 0, Blogs: 0, Purged: 0, Upgraded: MANY,
    Sources: MANY, Copies: MANY, Here: 0, There: MANY};
  for (const n of numbers(count))
    for (const [table, many] of Object.entries(counts))
      assert.strictEqual(
          (await suite.store.read(`${table}${n}`)).length, many, table);
  for (const run of await runs_of(suite, runs))
    assert.strictEqual(run.Failures, 0, `${run.Id} has failed`);
}

// every_kind: `count` runs of each kind are paused, resumed and given another
// rate.
const every_kind = ({count, rate, worker: options}) => async (suite) => {
  const runs = Object.keys(jobs_at(rate, count));
  await suite.open({jobs: jobs_at(rate, count), tables: tables_of(count),
    worker: {slots: runs.length + 3, ...options}});
  await seed(suite, count);
  const worker = suite.worker([]);
  await suite.judge(`${runs.length} runs are paused, each within 10 s`,
      async () => {
        for (const run of runs) await suite.state(run, ['running'], worker);
        await until('every run has begun its work', async () =>
          (await runs_of(suite, runs)).every(has_begun));
        await pause_all(suite, count, runs, worker);
      });
  await suite.judge(`${runs.length} runs are resumed, each within 10 s`, () =>
    asked(suite, worker, 'resume', runs, ['running', 'waiting']));
  await suite.judge('a new rate takes effect within 10 s',
      () => give_rate(suite, {count, rate}, runs, worker));
  await suite.judge('nothing is lost by it',
      () => all_is_done(suite, count, runs));
  await suite.stop(worker);
};

// Goal: a key is rotated. Until the worker knows the new key, its runs are
// held. Once this key is in the file and SIGHUP was sent, they continue, and
// none has failed.
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
    await suite.ok(['enqueue', 'purge', '--id', 'held']);
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
  await suite.stop(worker);
}

// Goal: the second key is written to the file and SIGHUP is sent; then the
// first key is regenerated: no run is disturbed, neither a running one nor a
// later one.
async function rotated_ahead(suite) {
  await suite.open({
    jobs: {purge: {kind: 'delete', args: ['key'], table: 'Purged',
      partition_key: '{key}', max_entities_per_second: 60}},
    tables: ['Purged'],
  });
  const {azurite} = suite.store;
  const file = path.join(suite.folder, 'key');
  const first = suite.environment.STORAGE;
  const second = first.replace(/AccountKey=[^;]*/,
      `AccountKey=${azurite.second_key}`);
  const stores = {};
  for (const name of Object.keys(suite.configuration.stores))
    stores[name] = {azure: {connection_string_file: file}};
  fs.writeFileSync(file, first);
  await suite.store.insert('Purged', entities('p'));
  await suite.store.insert('Purged', entities('q'));
  suite.program.configure({...suite.configuration, stores});
  const ask = (id, key) =>
    suite.ok(['enqueue', 'purge', `key=${key}`, '--id', id]);
  await ask('before', 'p');
  const worker = suite.worker([]);
  try {
    await suite.judge('no run notices a key that is rotated ahead', async () => {
      await suite.state('before', ['running'], worker);
      // Reloads twice: at the second reload the configuration that the first
      // one replaced still has runs.
      for (let reloads = 1; reloads <= 2; reloads++) {
        fs.writeFileSync(file, reloads === 1 ? first + ';' : second);
        worker.kill('SIGHUP');
        await until(`reload ${reloads}`, () =>
          worker.log.split('configuration reloaded').length > reloads);
      }
      await azurite.control({keys: 2});
      await ask('after', 'q');
      for (const id of ['before', 'after'])
        await until(`${id} has succeeded`, () =>
          worker.log.includes(`run purge/${id}: succeeded`), 60000);
      assert.ok(!/ 403 |outage|attempt 2/.test(worker.log), worker.log);
    });
  } finally {
    await azurite.control({keys: 3});
  }
  await suite.judge('each run took one attempt', async () => {
    for (const id of ['before', 'after'])
      assert.strictEqual(
          Number((await suite.state(id, ['succeeded'], worker)).Attempt), 1);
    assert.strictEqual((await suite.store.read('Purged')).length, 0);
  });
  await suite.stop(worker);
}

const ENDED = 3000;
const READINGS = [
  ['status'], ['status', '--limit', '5'], ['status', '--state', 'succeeded'],
  ['status', '--state', 'failed,paused'], ['status', '--failing'],
  ['status', 'first'], ['status', 'fir'], ['status', 'old-000'],
];

// ended_like: imports a copy of run `first` and of its ledger index row, as a
// worker has written them, for each id from `from` to before `to`. The times of
// a copy are three days earlier, at the same time of day.
async function ended_like(suite, from, to) {
  const {out} = await suite.ok(['export', LEDGER, '-']);
  const model = out.split('\n').filter((line) => /[!"]first"/.test(line));
  assert.strictEqual(model.length, 2, out);
  const day = new Date(Date.now() - 3 * 86400000).toISOString().slice(0, 10);
  const lines = [];
  for (let i = from; i < to; i++)
    for (const line of model)
      lines.push(line
          .replaceAll('first"', `old-${String(i).padStart(4, '0')}"`)
          .replace(/20\d\d-\d\d-\d\d(?=[T!])/g, day) + '\n');
  await suite.ok(['import', LEDGER, '-'], {input: lines.join('')});
}

// table_requests: returns how many requests to tables the program sends during
// `work`, by azsim's log. Requests to queues are not counted: a worker polls
// all the time.
async function table_requests(suite, work) {
  await suite.store.azurite.control({clear: true});
  await work();
  return (await suite.store.azurite.log()).filter((entry) =>
    entry.worker === suite.store.worker && entry.service === 'table').length;
}

// costs: returns the number of requests of each command in READINGS and of the
// dashboard's first page.
async function costs(suite, port) {
  const all = [];
  for (const args of READINGS)
    all.push([args.join(' '),
      await table_requests(suite, () => suite.ok(args))]);
  await until('the worker is idle', async () =>
    await table_requests(suite, () => sleep(1000)) === 0);
  all.push(['dashboard', await table_requests(suite, async () => {
    for (const page of ['/api/overview', '/api/runs'])
      await until(`${page} is there`, async () =>
        (await request(port, 'GET', page)).status === 200);
  })]);
  assert.ok(all.every(([, count]) => count > 0), JSON.stringify(all));
  return all;
}

// Goal: the number of requests of `status` and of the dashboard does not grow
// with the number of ended runs.
async function many_ended(suite) {
  await suite.open({
    jobs: {purge: {kind: 'delete', table: 'Purged', all: true}},
    tables: ['Purged'],
    worker: {listen: '127.0.0.1:0'},
  });
  await suite.ok(['run', 'purge', '--yes', '--id', 'first']);
  await ended_like(suite, 0, 10);
  const worker = suite.worker([]);
  const [, port] = await suite.said(worker, /listens on \S+ \(port (\d+)\)/);
  const few = await costs(suite, port);
  await ended_like(suite, 10, ENDED);
  await suite.judge(`${ENDED} ended runs cost status and the dashboard no ` +
      'request', async () =>
    assert.deepStrictEqual(await costs(suite, port), few));
  console.log('    requests: ' +
      few.map(([name, count]) => `${name} ${count}`).join(', '));
  await suite.stop(worker);
}

module.exports = [
  {name: 'control of every kind', stores: ['limited', 'embedded'], seconds: 40,
    body: every_kind(FEW)},
  {name: 'control of ten of every kind', stores: ['limited', 'embedded'],
    seconds: 120, long: true, body: every_kind(TEN)},
  {name: 'control rotated key', stores: ['limited'], seconds: 15, body: rotated},
  {name: 'control key rotated ahead', stores: ['limited'], seconds: 25,
    body: rotated_ahead},
  {name: 'control many ended runs', stores: ['limited'], seconds: 15,
    body: many_ended},
];
