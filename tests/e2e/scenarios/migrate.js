// SPDX-License-Identifier: MIT
// Migrations of a table that nobody else writes to: by month, back again and
// to an index, what stands in the way already, and two sources with one key.
'use strict';

const assert = require('assert');
const migrations = require('../lib/migrations');
const {differ, key} = require('../lib/model');
const {is_data} = require('../lib/proxy');
const {done, etags, is_write} = require('../lib/runs');
const {
  PROVENANCE, PATIENT, blogs, copy_of, near, far, migrate, holds, untold, untouched,
  verified, missing_in,
} = migrations;

const made_since = (proxy, first) => proxy.requests.slice(first).filter(is_data);

// ---- there, back again, and to an index ----

// Goal: blogs of ten years by month, back again, and by rating: every value
// equal, type by type, nothing left over and nothing missing; a second run
// writes nothing; a move leaves nothing behind.
async function round(suite, count) {
  const jobs = (store, from = near(store), to = far(store)) => ({
    'by-month': migrate(
        [from, 'Blogs'], [to, 'ByMonth'], 'month', {verify: true}),
    'back': migrate([to, 'ByMonth'], [from, 'Back'], 'back', {verify: true}),
    'by-rating': migrate(
        [from, 'Blogs'], [to, 'ByRating'], 'rating', {verify: true}),
    'moved': migrate([from, 'Blogs'], [to, 'Moved'], 'month',
        {mode: 'move', verify: true}),
  });
  await suite.open({
    jobs, tables: ['Blogs'],
    worker: suite.Store.name === 'azsim' ? {} : PATIENT,
  });
  const {store} = suite, from = near(store), to = far(store);
  const all = blogs(count);
  const expected = (design) => all.map((entity) => copy_of(design, entity));
  await store.insert('Blogs', all);
  const fronts = {}; // by store, once its tables are there
  const read = async (side, table) =>
      await (fronts[side.name] || side.store).read(table);

  const copied = (what, job, side, table, design) => suite.judge(
      `${count} blogs ${what}`, async () => {
        const {ledger} = await done(suite, job);
        holds(table, expected(design), await read(side, table));
        assert.strictEqual(ledger.EntitiesFailed, 0);
        assert.strictEqual(ledger.EntitiesDeleted, 0);
        if (!store.faulty) assert.strictEqual(ledger.EntitiesWritten, count);
        verified(ledger, count);
      });
  await copied('by month', 'by-month', to, 'ByMonth', 'month');
  await copied('back again', 'back', from, 'Back', 'same');
  await copied('to an index by rating', 'by-rating', to, 'ByRating', 'rating');

  // From here on the official SDK and raw answers judge what is embedded, too.
  const here = store.cloud ? ['Blogs', 'Back'] :
    ['Blogs', 'Back', 'ByMonth', 'ByRating'];
  fronts.main = await store.front(here);
  const found = {};
  await suite.judge('the service itself says the same, and the sources are ' +
      'untouched', async () => {
    holds('Back', all, found.Back = await read(from, 'Back'));
    assert.strictEqual(
        differ('Blogs', all, found.Blogs = await read(from, 'Blogs')), '');
    for (const [table, design] of [['ByMonth', 'month'], ['ByRating', 'rating']])
      holds(table, expected(design), found[table] = await read(to, table));
  });
  await suite.judge('each copy names its source and the ETag that was copied',
      async () => {
        for (const [table, design, job] of
          [['ByMonth', 'month', 'by-month'], ['ByRating', 'rating', 'by-rating']])
          assert.deepStrictEqual(untold(found.Blogs, found[table], design, {
            job, table: 'Blogs', embedded: from.embedded,
          }).slice(0, 3), []);
        assert.deepStrictEqual(untold(found.ByMonth, found.Back, 'back', {
          job: 'back', table: 'ByMonth', embedded: to.embedded,
        }).slice(0, 3), []);
      });
  await suite.judge('a second run of each writes nothing', async () => {
    const pages = Math.ceil(count / 1000);
    for (const job of ['by-month', 'back', 'by-rating']) {
      const first = store.proxy && store.proxy.requests.length;
      const {ledger} = await done(suite, job);
      assert.strictEqual(ledger.EntitiesWritten, 0);
      assert.strictEqual(ledger.EntitiesDeleted, 0);
      verified(ledger, count);
      if (!store.proxy) continue;
      const made = made_since(store.proxy, first);
      assert.strictEqual(made.filter(is_write).length, 0);
      assert.ok(made.length <= 2 * pages + 10, `${job}: ${made.length} requests`);
    }
    for (const [side, table] of [[from, 'Blogs'], [from, 'Back'],
      [to, 'ByMonth'], [to, 'ByRating']])
      assert.deepStrictEqual(
          etags(await read(side, table)), etags(found[table]), table);
  });
  await suite.judge(`a move of ${count} blogs leaves nothing behind`,
      async () => {
        const {ledger} = await done(suite, 'moved');
        assert.strictEqual((await read(from, 'Blogs')).length, 0);
        holds('Moved', expected('month'), await to.store.read('Moved'));
        if (!store.faulty) {
          assert.strictEqual(ledger.EntitiesWritten, count);
          assert.strictEqual(ledger.EntitiesDeleted, count);
        }
        assert.strictEqual(ledger.EntitiesFailed, 0);
        assert.ok(ledger.Verification, 'no Verification');
        const again = (await done(suite, 'moved')).ledger;
        assert.strictEqual(again.EntitiesWritten + again.EntitiesDeleted, 0);
        holds('Moved', expected('month'), await to.store.read('Moved'));
      });
}

// ---- what stands there already ----

const IN_THE_WAY = {
  fail: {code: 1, counter: 'EntitiesFailed', makes: (copy, other) => other},
  skip: {code: 0, counter: 'EntitiesSkipped', makes: (copy, other) => other},
  replace: {code: 0, makes: (copy) => copy},
  merge: {code: 0, makes: (copy, other) => ({...other, ...copy})},
};

// Goal: where the destination holds equal and different entities of others,
// each on_conflict does what it says, to those that differ and to no other.
async function conflicts(suite, count) {
  await suite.open({
    jobs: (store) => Object.fromEntries(Object.keys(IN_THE_WAY).map((way) => [
      `to-${way}`, migrate([near(store), 'Blogs'], [far(store), `To${way}`],
          'hash', {on_conflict: way}),
    ])), tables: ['Blogs'], worker: PATIENT,
  });
  const {store} = suite, to = far(store);
  const all = blogs(3 * count);
  const copies = all.map((entity) => copy_of('hash', entity));
  const equal = copies.slice(0, count), absent = copies.slice(2 * count);
  const apart = copies.slice(count, 2 * count), others = apart.map(other_than);
  const losers = all.slice(count, 2 * count);
  await store.insert('Blogs', all);
  for (const way of Object.keys(IN_THE_WAY)) {
    const table = `To${way}`, {code, counter, makes} = IN_THE_WAY[way];
    await to.store.create(table);
    await to.store.insert(table, [...equal, ...others]);
    const end = [...equal, ...absent,
      ...apart.map((copy, i) => makes(copy, others[i]))];

    await suite.judge(`${count} equal and ${count} different entities, ` +
        `on_conflict: ${way}`, async () => {
      const before = etags(await to.store.read(table));
      const {log, ledger} = await done(suite, `to-${way}`, code);
      const found = await to.store.read(table);
      holds(table, end, found);
      untouched(before, found, [...equal, ...counter ? others : []]);
      if (!store.faulty)
        assert.strictEqual(ledger.EntitiesWritten, count * (counter ? 1 : 2));
      for (const each of ['EntitiesFailed', 'EntitiesSkipped'])
        assert.strictEqual(ledger[each], each === counter ? count : 0, each);
      if (code === 1) assert.deepStrictEqual(
          missing_in(log, losers).slice(0, 3), []);
      unequal_provenance(found, [...equal, ...(counter ? others : [])]);
    });
    await suite.judge(`the same again, on_conflict: ${way}`, async () => {
      const before = await to.store.read(table);
      const {ledger} = await done(suite, `to-${way}`, code);
      assert.strictEqual(ledger.EntitiesWritten, 0);
      if (counter) assert.strictEqual(ledger[counter], count);
      const found = await to.store.read(table);
      holds(table, end, found);
      assert.deepStrictEqual(etags(found), etags(before));
    });
  }
}

// other_than: what somebody else has put where a copy is to be.
const other_than = ({PartitionKey, RowKey, Title, Rating}) => ({
  PartitionKey, RowKey, Title: `not ${Title}`, Rating: String(Rating), Extra: 'x',
});

// unequal_provenance: exactly these have none.
function unequal_provenance(found, without) {
  const names = new Set(without.map(key));
  for (const entity of found)
    assert.strictEqual(entity[PROVENANCE] === undefined,
        names.has(key(entity)), `${key(entity)}: ${entity[PROVENANCE]}`);
}

// Goal: a move takes away those whose copy is stored, equal ones too, and no
// source that skip or fail has left uncopied.
async function conflicts_of_moves(suite, count) {
  const names = Object.keys(IN_THE_WAY);
  await suite.open({
    jobs: (store) => Object.fromEntries(names.map((way) => [
      `move-${way}`, migrate([near(store), `From${way}`],
          [far(store), `To${way}`], 'month',
          {on_conflict: way, mode: 'move', verify: true}),
    ])), worker: PATIENT,
  });
  const {store} = suite, to = far(store);
  const all = blogs(3 * count);
  const copies = all.map((entity) => copy_of('month', entity));
  const equal = copies.slice(0, count), absent = copies.slice(2 * count);
  const apart = copies.slice(count, 2 * count), others = apart.map(other_than);
  const losers = all.slice(count, 2 * count);
  for (const way of names) {
    const {code, counter, makes} = IN_THE_WAY[way];
    await store.create(`From${way}`);
    await store.insert(`From${way}`, all);
    await to.store.create(`To${way}`);
    await to.store.insert(`To${way}`, [...equal, ...others]);
    await suite.judge(`a move, on_conflict: ${way}`, async () => {
      for (let again = 0; again < 2; again++) {
        const {log, ledger} = await done(suite, `move-${way}`, code);
        assert.strictEqual(differ(`From${way}`, counter ? losers : [],
            await store.read(`From${way}`)), '');
        holds(`To${way}`, [...equal, ...absent,
          ...apart.map((copy, i) => makes(copy, others[i]))],
        await to.store.read(`To${way}`));
        if (counter) assert.strictEqual(ledger[counter], count);
        if (code === 1)
          assert.deepStrictEqual(missing_in(log, losers).slice(0, 3), []);
        if (again) assert.strictEqual(ledger.EntitiesWritten, 0);
      }
    });
  }
}

// ---- two sources, one key ----

// Goal: what is stored keeps the key, the others stay where they are, all of
// them are told of with both keys, and the run ends 1; also in one of several
// copies.
async function collisions(suite) {
  const by_title = {partition_key: 'all', row_key: '{Title}'};
  const job = (store, table, more) => ({
    kind: 'migrate', from: {table},
    to: {store: far(store).name, table: `${table}To`, ...by_title}, ...more,
  });
  await suite.open({
    jobs: (store) => ({
      'copied': job(store, 'Copied', {on_conflict: 'replace'}),
      'moved': job(store, 'Moved',
          {mode: 'move', on_conflict: 'replace', verify: true}),
      'twice': job(store, 'Twice', {
        mode: 'move', to: [
          {store: far(store).name, table: 'TwiceAll', partition_key: 'all'},
          {store: far(store).name, table: 'TwiceTo', ...by_title},
        ],
      }),
    }), tables: ['Copied', 'Moved', 'Twice'], worker: PATIENT,
  });
  const {store} = suite, to = far(store);
  // 160 sources in 8 partitions for 60 keys.
  const all = Array.from({length: 160}, (_, n) => ({
    PartitionKey: `p${n % 8}`, RowKey: `r${migrations.digits(n, 3)}`,
    Title: `t${n % 60}`, Number: n,
  }));
  const key_of = (entity) => JSON.stringify(['all', entity.Title]);
  for (const table of ['Copied', 'Moved', 'Twice'])
    await store.insert(table, all);

  // won: the sources whose copies are stored; an error unless there is exactly
  // one for each key, and what is stored is made of it.
  const won = async (table) => {
    const found = await to.store.read(table);
    const of = new Map(all.map((entity) => [key(entity), entity]));
    const winners = found.map((copy) =>
        of.get(JSON.stringify(JSON.parse(copy[PROVENANCE]).key)));
    holds(table, winners.map((entity) =>
      ({...entity, PartitionKey: 'all', RowKey: entity.Title})), found);
    assert.strictEqual(new Set(winners.map(key_of)).size, 60);
    return winners;
  };
  for (const [job, table] of [['copied', 'Copied'], ['moved', 'Moved']])
    await suite.judge(`collisions of sources that are ${job}`, async () => {
      let before;
      for (let again = 0; again < 2; again++) {
        const {log, ledger} = await done(suite, job, 1);
        const winners = await won(`${table}To`);
        if (before) assert.deepStrictEqual(winners.map(key), before);
        before = winners.map(key);
        const losers = all.filter((e) => !winners.includes(e));
        assert.strictEqual(ledger.EntitiesFailed, losers.length);
        assert.deepStrictEqual(missing_in(log, losers).slice(0, 3), []);
        assert.ok(
            losers.some((e) => ledger.Error.includes(e.RowKey)), ledger.Error);
        assert.strictEqual(differ(table, job === 'copied' ? all : losers,
            await store.read(table)), '');
        if (again) assert.strictEqual(ledger.EntitiesWritten, 0);
      }
    });
  await suite.judge('a collision in one of two copies keeps the source',
      async () => {
        const {log, ledger} = await done(suite, 'twice', 1);
        const winners = await won('TwiceTo');
        const losers = all.filter((e) => !winners.includes(e));
        assert.strictEqual(ledger.EntitiesFailed, losers.length);
        assert.deepStrictEqual(missing_in(log, losers).slice(0, 3), []);
        assert.strictEqual(
            differ('Twice', losers, await store.read('Twice')), '');
        const first = await to.store.read('TwiceAll');
        const there = new Set(first.map((e) => e.RowKey));
        for (const {RowKey} of winners) assert.ok(there.has(RowKey), RowKey);
      });
}

const BOTH = ['azurite', 'embedded'];
const ALL = [...BOTH, 'between'];
module.exports = [
  {
    name: 'migrate round', stores: ALL, seconds: 12,
    body: (suite) => round(suite, 1100),
  },
  {
    name: 'migrate round', stores: ['azsim'], seconds: 40,
    body: (suite) => round(suite, 200),
  },
  {
    name: 'migrate round of 2,000', stores: ['azsim'], long: true, seconds: 100,
    body: (suite) => round(suite, 2000),
  },
  {
    name: 'migrate round of 50,000', stores: ALL, long: true, seconds: 600,
    body: (suite) => round(suite, 50000),
  },
  {
    name: 'migrate conflicts', stores: BOTH, seconds: 10,
    body: (suite) => conflicts(suite, 60),
  },
  {
    name: 'migrate conflicts of 1,000', stores: ALL, long: true,
    seconds: 120, body: (suite) => conflicts(suite, 1000),
  },
  {
    name: 'migrate conflicts of moves', stores: BOTH, seconds: 8,
    body: (suite) => conflicts_of_moves(suite, 25),
  },
  {
    name: 'migrate conflicts of moves of 1,000', stores: ALL, long: true,
    seconds: 120, body: (suite) => conflicts_of_moves(suite, 1000),
  },
  {name: 'migrate collisions', stores: ALL, seconds: 6, body: collisions},
];
