// SPDX-License-Identifier: MIT
// What copies and moves cost in requests, counted in the service's log, and the
// largest entities that a move must move.
'use strict';

const assert = require('assert');
const {bare, holds, key, list} = require('../lib/model');
const {LEDGER} = require('../lib/proxy');
const {run} = require('../lib/runs');

const MANY = Number(process.env.E2E_SIZE || 200000);
const PAGE = 1000, LOAD = 1000, BATCH = 100;

const pad = (n) => String(n).padStart(7, '0');

async function open(suite, jobs, tables) {
  await suite.open({jobs, tables, worker: {visibility_timeout: '60s'}});
  // A request that is refused because of a limit is sent again, and would be
  // counted twice.
  await suite.store.azurite.control({account_limit: 0, partition_limit: 0});
}

// requests: returns the requests that the worker sent to tables other than the
// ledger during `work`.
async function requests({azurite, worker}, work) {
  await azurite.control({clear: true});
  await work();
  return (await azurite.log()).filter((r) => r.worker === worker &&
      r.service === 'table' && r.target !== LEDGER);
}

const is_page = (request) =>
    request.method === 'GET' && request.path.endsWith('()');

// hundreds: returns the number of started hundreds, summed over the partitions.
function hundreds(entities) {
  const sizes = new Map();
  for (const {PartitionKey: p} of entities) sizes.set(p, 1 + (sizes.get(p) || 0));
  return [...sizes.values()].reduce((sum, n) => sum + Math.ceil(n / BATCH), 0);
}

const ascending = (a, b) => key(a) < key(b) ? -1 : 1;

// ---- moves ----

const item = (partitions, rooms) => (n) => ({
  PartitionKey: `shelf${pad(n % partitions)}`, RowKey: pad(n), Value: n,
  Room: n % rooms,
});

// Row keys of the destinations. With `in order` the destinations have the order
// of their sources; with `mixed` those of several loads are mixed.
const KEYS = {
  'in order': {
    row_key: '{PartitionKey}_{RowKey}', of: (e) => `${e.PartitionKey}_${e.RowKey}`,
  },
  'mixed': {row_key: '{RowKey}', of: (e) => e.RowKey},
};

// [entities, source partitions, destination partitions, keys]
const SHAPES = [
  [1, 1, 1, 'in order'], [1000, 1, 1, 'in order'], [1001, 3, 40, 'in order'],
  [12345, 7, 33, 'in order'], [40000, 400, 10, 'in order'],
  [12345, 7, 33, 'mixed'],
];

// most: returns the maximum number of requests of a move of these items in
// loads of 1,000:
// - the pages of two rounds;
// - 4 for each load;
// - 2 for each started hundred of a destination partition of a load;
// - 1 for each started hundred of a source partition of a load.
function most(items, moved) {
  let sum = Math.ceil(items.length / PAGE) + 2;
  for (let at = 0; at < items.length; at += LOAD) {
    const load = items.slice(at, at + LOAD);
    sum += 4 + 2 * hundreds(load.map(moved)) + hundreds(load);
  }
  return sum;
}

// Goal: a move sends at most most() requests.
async function moves(suite) {
  const jobs = Object.fromEntries(SHAPES.map(([,,, order], i) => [`move-${i}`, {
    kind: 'move', from: {table: `From${i}`},
    to: {table: `To${i}`, partition_key: 'room{Room}',
      row_key: KEYS[order].row_key},
  }]));
  await open(suite, jobs,
      SHAPES.flatMap((_, i) => [`From${i}`, `To${i}`]));
  const {store} = suite;
  for (const [i, [count, from, to, order]] of SHAPES.entries())
    await suite.judge(`requests of a move of ${count} from ${from} partitions ` +
        `to ${to}, ${order}`, async () => {
      const items = list(count, item(from, to)).sort(ascending);
      const moved = (e) => ({...e, PartitionKey: `room${e.Room}`,
        RowKey: KEYS[order].of(e)});
      await store.insert(`From${i}`, items);
      const made = await requests(store, () => run(suite, `move-${i}`));
      await suite.holds(`To${i}`, items.map(moved));
      const bound = most(items, moved);
      console.log(`    (${count} from ${from} to ${to}, ${order}: ` +
          `${made.length} requests, at most ${bound})`);
      assert.ok(made.length <= bound, summary(made));
    });
}

function summary(made) {
  const kinds = {};
  for (const {target, method, path, status} of made) {
    const what = is_page({method, path}) ? 'page' : path.split('(')[0];
    const name = `${method} ${target} ${what} ${status}`;
    kinds[name] = (kinds[name] || 0) + 1;
  }
  return JSON.stringify(kinds);
}

// ---- a copy of few ----

// Goal: a copy of 10 entities does not read its destination table, which has
// 200,000 entities.
async function few(suite) {
  const small = (n) => ({PartitionKey: `p${n % 40}`, RowKey: pad(n), Value: n});
  await open(suite, {few: {kind: 'copy', from: {table: 'Few'},
    to: {table: 'Many', partition_key: 'q{Value}'}}}, ['Few', 'Many']);
  const {store} = suite;
  const there = list(MANY, small), sources = list(10, small);
  await suite.judge(`pages of a copy of 10 into a table of ${MANY}`, async () => {
    await store.insert('Many', there);
    await store.insert('Few', sources);
    for (const what of ['first', 'second']) {
      const made = await requests(store, () => run(suite, 'few'));
      const pages = made.filter(is_page).length;
      console.log(`    (${what} run: ${pages} pages of ${made.length} requests)`);
      assert.ok(pages <= 20, summary(made));
    }
    const copies = sources.map((e) => ({...e, PartitionKey: `q${e.Value}`}));
    holds('Many', [...there, ...copies], bare(await store.read('Many')));
  });
}

// ---- the largest ----

const LARGEST = 1024 * 1024 - 100;
const PROPERTIES = 252;

// bytes: returns the size, as the service counts it, of an entity whose
// properties are all text.
const bytes = ({PartitionKey, RowKey, ...more}) =>
  4 + 2 * (PartitionKey.length + RowKey.length) + Object.entries(more).reduce(
      (sum, [name, text]) => sum + 8 + 2 * name.length + 2 * text.length + 4, 0);

// widest: an entity of 252 properties; largest: one of 1 MiB less 100 bytes;
// both: both at once.
const texts = (count, length) => Object.fromEntries(
    list(count, (n) => [`P${String(n).padStart(3, '0')}`, 'x'.repeat(length)]));

function filled(entity) {
  const left = LARGEST - bytes(entity);
  return {...entity, P000: entity.P000 + 'y'.repeat(left / 2)};
}

const widest = (n) =>
  ({PartitionKey: 'w', RowKey: pad(n), ...texts(PROPERTIES, 3)});
const largest = (n) => filled(
    {PartitionKey: 'l', RowKey: pad(n), ...texts(18, 29000)});
const both = (n) => filled(
    {PartitionKey: 'b', RowKey: pad(n), ...texts(PROPERTIES, 2050)});

// Goal: every entity that the service can store can be moved.
async function sizes(suite) {
  await open(suite, {away: {kind: 'move', from: {table: 'Large'},
    to: {table: 'There', partition_key: 'far_{PartitionKey}'}}},
  ['Large', 'There']);
  const {store} = suite;
  const all = [...list(150, widest), ...list(30, largest), ...list(30, both)];
  await suite.judge('entities of 252 properties and of 1 MiB less 100 bytes move',
      async () => {
        assert.deepStrictEqual([largest(0), both(0)].map(bytes),
            [LARGEST, LARGEST]);
        for (const entity of all) await store.try_insert('Large', entity);
        const {ledger} = await run(suite, 'away');
        console.log(`    (${ledger.EntitiesDeleted} moved)`);
        assert.deepStrictEqual(await store.read('Large'), []);
        await suite.holds('There',
            all.map((e) => ({...e, PartitionKey: `far_${e.PartitionKey}`})));
      });
}

module.exports = [
  {name: 'costs of moves', stores: ['limited'], long: true, seconds: 60,
    body: moves},
  {name: 'costs of a copy of few', stores: ['limited'], long: true, seconds: 60,
    body: few},
  {name: 'largest moves', stores: ['limited'], long: true, seconds: 30,
    body: sizes},
];
