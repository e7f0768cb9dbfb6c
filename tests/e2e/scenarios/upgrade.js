// SPDX-License-Identifier: MIT
// Upgrades of a table that nobody else writes to: what becomes of every type,
// version and kind of entity, what cannot be upgraded, and what it costs.
'use strict';

const assert = require('assert');
const upgrades = require('../lib/upgrades');
const {differ} = require('../lib/model');
const {is_data} = require('../lib/proxy');
const {tail} = require('../lib/program');
const {again, drain, etags, is_write, run} = require('../lib/runs');
const {step, typed, upgrade} = upgrades;

// ---- from version to version ----

// Goal: entities of all types, versions and kinds go to version 2, then 3,
// exactly, whichever of the two is asked for first; a second run finds nothing.
async function chain(suite, count) {
  await suite.open({
    jobs: {
      'blogs-v2': upgrade('Blogs', 1, 2), 'blogs-v3': upgrade('Blogs', 2, 3),
      'notes-v2': upgrade('Notes', 1, 2), 'notes-v3': upgrade('Notes', 2, 3),
    },
    tables: ['Blogs', 'Notes'],
  });
  const {store} = suite;
  const blogs = Array.from({length: count}, (_, n) => upgrades.mixed(n));
  const notes = blogs.slice(0, 700);
  await store.insert('Blogs', blogs.map((e) => e.entity));
  await store.insert('Notes', notes.map((e) => e.entity));
  const front = await store.front(['Blogs', 'Notes']);
  const at = (version, all) => all.filter((e) => e.at === version).length;
  const raised = (all) => all.map(upgrades.raised);

  let first_v2, first_v3, second_v2, second_v3;
  await suite.judge(`${count} entities, version 3 asked for before 2, and after`,
      async () => {
        first_v3 = await store.enqueue('blogs-v3', {});
        second_v2 = await store.enqueue('notes-v2', {});
        second_v3 = await store.enqueue('notes-v3', {});
        const worker = suite.worker();
        await suite.state(first_v3, ['waiting'], worker);
        first_v2 = await store.enqueue('blogs-v2', {});
        await drain(suite, worker);
      });
  const found = {};
  for (const [table, all, v2, v3] of [['Blogs', blogs, first_v2, first_v3],
    ['Notes', notes, second_v2, second_v3]]) {
    await suite.judge(`${table} are as the upgrades say, types and all`,
        async () => {
          found[table] = await front.read(table);
          assert.strictEqual(differ(table, raised(all), found[table]), '');
        });
    await suite.judge(`the ledger counts what was done to ${table}`,
        async () => {
          const second = await suite.ended(v2, 'succeeded');
          const third = await suite.ended(v3, 'succeeded');
          const to_2 = at(1, all), to_3 = at(1, all) + at(2, all);
          if (!store.faulty) {
            assert.strictEqual(second.EntitiesWritten, to_2);
            assert.strictEqual(third.EntitiesWritten, to_3);
          }
          assert.ok(second.EntitiesWritten <= to_2, second.EntitiesWritten);
          assert.ok(third.EntitiesWritten <= to_3, third.EntitiesWritten);
          assert.ok(second.Rounds >= 2 && third.Rounds >= 2);
          assert.strictEqual(second.EntitiesFailed + third.EntitiesFailed, 0);
          assert.strictEqual(third.Failures, 0);
        });
  }
  await suite.judge('a second run writes nothing', async () => {
    for (const job of ['blogs-v2', 'blogs-v3']) {
      const first = store.proxy && store.proxy.requests.length;
      const {ledger} = await (store.faulty ? again : run)(suite, job);
      assert.strictEqual(ledger.EntitiesWritten, 0);
      assert.strictEqual(ledger.Rounds, 1);
      if (!store.proxy) continue;
      const made = store.proxy.requests.slice(first).filter(is_data);
      assert.strictEqual(made.filter(is_write).length, 0);
      assert.ok(made.length <= Math.ceil(count / 1000) + 10,
          `${made.length} requests to the table`);
    }
    assert.deepStrictEqual(
        etags(await front.read('Blogs')), etags(found.Blogs));
  });
}

// ---- what cannot be upgraded ----

const wide = (n, names) => ({
  ...upgrades.keys(n), Rating: '1',
  ...Object.fromEntries(
      Array.from({length: names}, (_, i) => [`P${i}`, i])),
});
const rated = (n, Rating) => ({...upgrades.keys(n), Rating});
const near_1_mib = (n) => ({
  ...rated(n, '1'), Big: 'B'.repeat(30000),
  ...Object.fromEntries(
      Array.from({length: 15}, (_, i) => [`Fill${i}`, 'F'.repeat(31500)])),
});

// Goal: an entity that cannot be upgraded is left whole and told of, with keys
// and reason; the rest goes on. `on_error` decides about conversions.
async function refusals(suite) {
  const job = (table, on_error, more = []) => ({
    kind: 'schema-upgrade', table,
    version: {property: 'SchemaVersion', from: 1, to: 2},
    steps: [step('retype', 'Rating', {to: 'Edm.Double', on_error}), ...more],
  });
  const copy = step('add', 'Copy', {type: 'Edm.String', value: '{Big}'});
  await suite.open({
    jobs: {
      'fails': job('Fails', 'fail',
          [copy, step('rename', 'Old', {to: 'New'})]),
      'skips': job('Skips', 'skip'), 'nulls': job('Nulls', 'null'),
      'left-v2': job('Left', 'fail'), 'left-v3': {
        ...job('Left', 'fail'),
        version: {property: 'SchemaVersion', from: 2, to: 3},
        steps: [step('add', 'New', {type: 'Edm.String', value: 'n'})],
      },
    },
    tables: ['Fails', 'Skips', 'Nulls', 'Left'],
  });
  const {store} = suite;
  const good = Array.from({length: 250}, (_, n) =>
    ({...rated(n, `${n}.5`), Big: 'b', Old: 'o'}));
  const bad = {
    // 252 properties is what an entity may have; Copy and the version are new.
    'too many properties': [{...wide(1001, 250), Big: 'b'}, /252|properties/],
    'too large': [near_1_mib(1002), /1 MiB|large|bytes/],
    'no number': [{...rated(1003, 'three'), Big: 'b'}, /Rating/],
    'a rename onto what exists':
        [{...rated(1004, '4'), Big: 'b', Old: 'o', New: 'n'}, /New/],
  };
  const left = Object.values(bad).map(([entity]) => entity);
  const words = Array.from({length: 3}, (_, n) => rated(2000 + n, `no ${n}`));
  const plain = good.map(({Big, Old, ...kept}) => kept);
  await store.insert('Fails', [...good, ...left]);
  await store.insert('Skips', [...plain, ...words]);
  await store.insert('Nulls', [...plain, ...words]);
  await store.insert('Left', [...plain, ...words]);
  const front = await store.front(['Fails', 'Skips', 'Nulls', 'Left']);
  const converted = ({Rating, ...kept}) =>
      ({...kept, ...typed('Double', 'Rating', Number(Rating)), SchemaVersion: 2});

  await suite.judge('what cannot be upgraded is told, the rest upgraded',
      async () => {
        const {log, ledger} = await run(suite, 'fails', 1);
        const upgraded = good.map(({Old, ...kept}) =>
          ({...converted(kept), New: 'o', Copy: 'b'}));
        assert.strictEqual(differ('Fails', [...upgraded, ...left],
            await front.read('Fails')), '');
        assert.strictEqual(ledger.State, 'failed');
        assert.strictEqual(ledger.EntitiesFailed, left.length);
        assert.strictEqual(ledger.EntitiesWritten, good.length);
        for (const [entity, why] of Object.values(bad))
          for (const text of [log, ledger.Error]) {
            const line = text.split('\n').find((l) => l.includes(entity.RowKey));
            assert.ok(line, `${entity.RowKey} is not told of: ${text}`);
            assert.ok(line.includes(entity.PartitionKey), line);
            assert.match(line, why);
          }
        assert.ok(!log.includes('three'), 'a value is in the log');
      });
  await suite.judge('a second run tells the same, and writes nothing',
      async () => {
        const before = etags(await front.read('Fails'));
        const {ledger} = await run(suite, 'fails', 1);
        assert.strictEqual(ledger.EntitiesFailed, left.length);
        assert.strictEqual(ledger.EntitiesWritten, 0);
        assert.deepStrictEqual(etags(await front.read('Fails')), before);
      });
  await suite.judge('on_error: skip ends well, and counts', async () => {
    const {ledger} = await run(suite, 'skips');
    assert.strictEqual(ledger.State, 'succeeded');
    assert.strictEqual(ledger.EntitiesSkipped, words.length);
    assert.strictEqual(ledger.EntitiesFailed, 0);
    assert.strictEqual(differ('Skips', [...plain.map(converted), ...words],
        await front.read('Skips')), '');
  });
  await suite.judge('on_error: null takes the property away', async () => {
    const {ledger} = await run(suite, 'nulls');
    assert.strictEqual(ledger.State, 'succeeded');
    const bare = words.map(({Rating, ...kept}) => ({...kept, SchemaVersion: 2}));
    assert.strictEqual(differ('Nulls', [...plain.map(converted), ...bare],
        await front.read('Nulls')), '');
  });
  // Goal: what the first upgrade could not do holds the second up no longer
  // than the first one's run.
  await suite.judge('what the upgrade before has left behind is left alone',
      async () => {
        const third = await store.enqueue('left-v3', {});
        const second = await store.enqueue('left-v2', {});
        await drain(suite, suite.worker(), 1);
        assert.strictEqual(
            (await suite.ended(second, 'failed')).EntitiesFailed, words.length);
        assert.strictEqual((await suite.ended(third, 'succeeded'))
            .EntitiesWritten, plain.length);
        const raised = plain.map(
            (entity) => ({...converted(entity), New: 'n', SchemaVersion: 3}));
        assert.strictEqual(differ('Left', [...raised, ...words],
            await front.read('Left')), '');
      });
  await suite.judge('one in the old shape at the new version is told of',
      async () => {
        const odd = {...rated(3000, '1'), SchemaVersion: 2};
        await store.insert('Skips', [odd]);
        const {log, ledger} = await run(suite, 'skips');
        assert.strictEqual(ledger.EntitiesWritten, 0);
        assert.match(log, new RegExp(`${odd.PartitionKey}.*${odd.RowKey}`));
        assert.strictEqual(
            differ('Skips', [...plain.map(converted), ...words, odd],
                await front.read('Skips')), '');
      });
}

// ---- expand, contract, dry run ----

// Goal: contract refuses, and touches nothing, while anything is below; after
// expand both shapes stand side by side, after contract only the new one.
async function phases(suite) {
  const job = (phase) => ({
    kind: 'schema-upgrade', table: 'Blogs', phase,
    version: {property: 'SchemaVersion', from: 1, to: 2},
    steps: [
      step('rename', 'Text', {to: 'Body'}),
      step('retype', 'Views', {to: 'Edm.String', to_property: 'ViewsText'}),
      step('add', 'Language', {type: 'Edm.String', value: 'en'}),
      step('remove', 'Legacy'),
    ],
  });
  await suite.open({
    jobs: {
      'expand': job('expand'), 'contract': job('contract'),
      'blogs-v2': job('all'),
    },
    tables: ['Blogs'],
  });
  const {store} = suite;
  const old = Array.from({length: 1234}, (_, n) => ({
    ...upgrades.keys(n), Text: `t${n}`, ...typed('Int64', 'Views', String(n)),
    Legacy: 'l', ...(n % 2 ? {SchemaVersion: 1} : {}),
  }));
  const both = old.map((entity, n) => ({
    ...entity, Body: entity.Text, ViewsText: String(n), Language: 'en',
    SchemaVersion: 2,
  }));
  const narrow = both.map(
      ({Text, Legacy, Views, 'Views@odata.type': _, ...kept}) => kept);
  await store.insert('Blogs', old);
  const front = await store.front(['Blogs']);
  const holds = async (entities) => assert.strictEqual(
      differ('Blogs', entities, await front.read('Blogs')), '');

  await suite.judge('a dry run counts, and sends nothing but reads',
      async () => {
        const first = store.proxy && store.proxy.requests.length;
        const {code, out, log} =
            await suite.command(['run', 'blogs-v2', '--dry-run']);
        assert.strictEqual(code, 0, log);
        assert.match(out, /1,?234/);
        for (const word of ['rename', 'retype', 'add', 'remove', 'absent'])
          assert.ok(out.includes(word), `${word} is not in:\n${out}`);
        if (store.proxy)
          assert.deepStrictEqual(store.proxy.requests.slice(first)
              .filter((r) => r.method !== 'GET').map((r) => r.url), []);
        await holds(old);
        assert.strictEqual((await store.runs()).length, 0);
      });
  await suite.judge('contract refuses while entities are below', async () => {
    const before = etags(await front.read('Blogs'));
    const {log, ledger} = await run(suite, 'contract', 1);
    assert.match(log, /1,?234/);
    assert.ok(log.includes(old[0].RowKey), tail(log));
    assert.strictEqual(ledger.EntitiesWritten, 0);
    assert.deepStrictEqual(etags(await front.read('Blogs')), before);
  });
  await suite.judge('expand adds and keeps', async () => {
    const {ledger} = await run(suite, 'expand');
    assert.strictEqual(ledger.EntitiesWritten, old.length);
    await holds(both);
  });
  await suite.judge('contract refuses for a single one that is below',
      async () => {
        const late = {...old[7], ...upgrades.keys(9999)};
        await front.client('Blogs').createEntity(
            {partitionKey: late.PartitionKey, rowKey: late.RowKey, Text: 'x'});
        const {log} = await run(suite, 'contract', 1);
        assert.ok(log.includes(late.RowKey), tail(log));
        await front.client('Blogs').deleteEntity(
            late.PartitionKey, late.RowKey);
        await holds(both);
      });
  await suite.judge('contract takes the old ones away', async () => {
    const {ledger} = await run(suite, 'contract');
    assert.strictEqual(ledger.EntitiesWritten, old.length);
    await holds(narrow);
  });
  await suite.judge('expand and contract once more do nothing', async () => {
    for (const name of ['expand', 'contract'])
      assert.strictEqual((await run(suite, name)).ledger.EntitiesWritten, 0);
    await holds(narrow);
  });
}

// ---- what it costs ----

// [entities, partitions, KiB of each]
const SHAPES = [
  [0, 1, 0], [1, 1, 0], [100, 1, 0], [101, 1, 0], [1000, 3, 0],
  [1001, 40, 0], [2345, 7, 0], [60, 1, 150],
];

// Goal: ceil(N/1000) pages a pass, a batch per started hundred of each
// partition or 4 MiB, and 10 more.
async function requests(suite) {
  const table = (i) => `Cost${i}`;
  await suite.open({
    jobs: Object.fromEntries(SHAPES.map((_, i) => [`cost-${i}`, {
      kind: 'schema-upgrade', table: table(i),
      version: {property: 'SchemaVersion', from: 1, to: 2},
      steps: [step('add', 'Language', {type: 'Edm.String', value: 'en'})],
    }])),
    tables: SHAPES.map((_, i) => table(i)),
    worker: {visibility_timeout: '60s'}, // no request is given up too early
  });
  const {store} = suite;
  for (const [i, [count, partitions, kib]] of SHAPES.entries())
    await suite.judge(`requests for ${count} entities of ${kib} KiB in ` +
        `${partitions} partitions`, async () => {
      const sizes = Array(partitions).fill(0);
      const entities = Array.from({length: count}, (_, n) => ({
        PartitionKey: `p${n % partitions}`, RowKey: `${sizes[n % partitions]++}`,
        ...Object.fromEntries(Array.from({length: Math.ceil(kib / 30)},
            (_, f) => [`Fill${f}`, 'x'.repeat(30 * 1024)])),
      }));
      await store.insert(table(i), entities);
      const first = store.proxy.requests.length;
      const {ledger} = await run(suite, `cost-${i}`);
      const made = store.proxy.requests.slice(first).filter(is_data);
      assert.ok(ledger.Rounds <= 2, `${ledger.Rounds} passes`);
      const hundreds = sizes.reduce((sum, n) => sum + Math.ceil(n / 100), 0);
      const mib = Math.ceil(count * kib / (4096 - kib));
      const most = ledger.Rounds * Math.ceil(count / 1000) +
          Math.max(hundreds, mib) + 10;
      assert.ok(made.length <= most, `${made.length} requests, at most ` +
          `${most}:\n${made.map((r) => r.url).join('\n')}`);
      assert.strictEqual(ledger.EntitiesWritten, count);
      const written = made.reduce(
          (sum, r) => sum + (is_write(r) ? r.operations : 0), 0);
      assert.strictEqual(written, count);
    });
}

const BOTH = ['azurite', 'embedded'];
module.exports = [
  {
    name: 'upgrade chain', stores: ['embedded'], seconds: 25,
    body: (suite) => chain(suite, 10000),
  },
  {
    name: 'upgrade chain', stores: ['azurite', 'azsim'], seconds: 30,
    body: (suite) => chain(suite, 1300),
  },
  {
    name: 'upgrade chain of 25,000', stores: BOTH, long: true, seconds: 200,
    body: (suite) => chain(suite, 25000),
  },
  {name: 'upgrade refusals', stores: BOTH, seconds: 15, body: refusals},
  {name: 'upgrade phases', stores: BOTH, seconds: 10, body: phases},
  {name: 'upgrade requests', stores: ['azurite'], seconds: 15, body: requests},
];
