// SPDX-License-Identifier: MIT
// Moves: each entity that the application stored is in one place or in the
// other, once, also if keys are used again, a store has two names, or writers
// never rest.
'use strict';

const assert = require('assert');
const {holds, key, list} = require('../lib/model');
const {run} = require('../lib/runs');
const {Steady, of_all} = require('../lib/steady');
const {for_sdk} = require('../lib/store_azurite');
const {onto_itself} = require('../lib/two_names');

const pad = (n) => String(n).padStart(5, '0');

// item: returns an entity whose value tells which write stored it.
function item(n, value = 0, more = {}) {
  return {
    'PartitionKey': `shelf${n % 9}`, 'RowKey': pad(n), 'Value': value,
    'Archived': n % 3 === 0, 'Title': `Ünï ${n}`,
    'Views@odata.type': 'Edm.Int64', 'Views': String(9007199254740993n + BigInt(n)),
    'Score@odata.type': 'Edm.Double', 'Score': n + 0.5, ...more,
  };
}

async function open(suite, jobs, tables = ['Items', 'Old']) {
  await suite.open({jobs, tables});
  return await suite.store.front(tables);
}

async function assert_holds(front, table, entities) {
  holds(table, entities, await front.read(table));
}

const ARCHIVE = {
  kind: 'move', from: {table: 'Items', filter: 'Archived eq true'},
  to: {table: 'Old'},
};

// Goal: selected entities are moved to the other table; entities that are
// selected later are moved by the next run.
async function tables(suite) {
  const front = await open(suite, {archive: ARCHIVE});
  const items = list(600, (n) => item(n));
  const [old, kept] = [true, false].map((archived) =>
    items.filter((entity) => entity.Archived === archived));
  await front.insert('Items', items);
  await suite.judge('what is selected moves', async () => {
    const {ledger} = await run(suite, 'archive');
    assert.strictEqual(ledger.EntitiesDeleted, old.length);
    await assert_holds(front, 'Items', kept);
    await assert_holds(front, 'Old', old);
  });
  await suite.judge('what is selected later moves with the next run',
      async () => {
        const later = kept.splice(0, 25)
            .map((entity) => ({...entity, Archived: true}));
        for (const entity of later)
          await front.client('Items').updateEntity(for_sdk(entity), 'Replace');
        await run(suite, 'archive');
        await assert_holds(front, 'Items', kept);
        await assert_holds(front, 'Old', [...old, ...later]);
      });
}

const turn = (from, to) => ({
  kind: 'move', from: {table: 'Slots', partition_key: from},
  to: {table: 'Slots', partition_key: to},
});

// Goal: keys are used again: `cur` is moved to `old`, `new` to `cur`, and `cur`
// to `old` once more. An entity whose destination key is in use remains where
// it is and is named, and nothing is lost.
async function used_again(suite) {
  const jobs = {retire: turn('cur', 'old'), promote: turn('new', 'cur')};
  const front = await open(suite, jobs, ['Slots']);
  const slot = (PartitionKey, n, Value) =>
    ({PartitionKey, RowKey: pad(n), Value});
  const all = (partition, value) =>
    list(50, (n) => slot(partition, n, value));
  await front.insert('Slots', [...all('cur', 1), ...all('new', 2)]);
  await suite.judge('within one table', async () => {
    await run(suite, 'retire');
    await run(suite, 'promote');
    await assert_holds(front, 'Slots', [...all('old', 1), ...all('cur', 2)]);
  });
  await suite.judge('a source whose key is taken stays and is named',
      async () => {
        const {ledger, log} = await run(suite, 'retire', 1);
        assert.match(ledger.Error, /cur/, log);
        await assert_holds(front, 'Slots', [...all('old', 1), ...all('cur', 2)]);
      });
}

// Goal: a move of a table onto itself, under two names of one store, deletes
// nothing.
async function names(suite) {
  await onto_itself(suite, await open(suite, {}), 'move', 'Items',
      list(60, (n) => item(n)), ['fail', 'skip', 'accept_equal']);
}

// Goal: while writers write, each entity, with its last acknowledged value, is
// in one of the two tables, once, and no other entity is.
async function beside_writers(suite) {
  const everything = {kind: 'move', from: {table: 'Items'}, to: {table: 'Old'}};
  const front = await open(suite, {everything});
  const start = list(2000, (n) => item(n));
  await front.insert('Items', start);
  await suite.judge('no acknowledged write is lost, nothing is there twice',
      async () => {
        const writers = [0, 1, 2, 3].map((n) => new Steady(
            front.client('Items'), {seed: 21 + n, first: 10000 * (n + 1),
              rate: 40, in_flight: 1, make: item, allowed: [404, 412]})
            .start());
        await run(suite, 'everything');
        await Promise.all(writers.map((writer) => writer.stop()));
        assert.ok(writers.every((writer) => writer.writes > 0), 'no writes');
        const wanted = [...start, ...of_all(writers)];
        const found = [
          ...await front.read('Items'), ...await front.read('Old')];
        assert.strictEqual(new Set(found.map(key)).size, found.length);
        holds('both', wanted, found);
        await run(suite, 'everything');
        assert.deepStrictEqual(await front.read('Items'), []);
        await assert_holds(front, 'Old', wanted);
      });
}

// Goal: a move between two stores keeps values of every type.
async function between(suite) {
  await suite.open({
    jobs: {away: {...ARCHIVE, to: {store: 'cloud', table: 'Old'}}},
    tables: ['Items'],
  });
  const front = await suite.store.front(['Items']);
  const cloud = suite.store.cloud;
  const items = list(400, (n) => item(n));
  await front.insert('Items', items);
  await suite.judge('from one store to another', async () => {
    await run(suite, 'away');
    await assert_holds(front, 'Items', items.filter((i) => !i.Archived));
    await assert_holds(cloud, 'Old', items.filter((i) => i.Archived));
  });
}

module.exports = [
  {name: 'move tables', stores: ['azurite', 'embedded'], seconds: 8,
    body: tables},
  {name: 'move keys used again', stores: ['azurite', 'embedded'], seconds: 6,
    body: used_again},
  {name: 'move names', stores: ['azurite', 'embedded'], seconds: 6, body: names},
  {name: 'move writers', stores: ['azurite', 'embedded'], seconds: 15,
    body: beside_writers},
  {name: 'move between', stores: ['between'], seconds: 6, body: between},
];
