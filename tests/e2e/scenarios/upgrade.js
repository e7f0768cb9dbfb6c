// SPDX-License-Identifier: MIT
// Upgrades of a table that no other client writes to: entities of every type,
// version and kind, entities that cannot be upgraded, and the cost.
'use strict';

const assert = require('assert');
const upgrades = require('../lib/upgrades');
const {is_data} = require('../lib/proxy');
const {again, etags, is_write, run} = require('../lib/runs');
const {holds, list} = require('../lib/model');
const {step, document, typed, upgrade} = upgrades;

// ---- from version to version ----

// Goal: entities of all types, versions and kinds are upgraded to version 3,
// exactly and in one write each; a second run writes nothing.
async function chain(suite, count) {
  await suite.open({jobs: {'blogs': upgrade('Blogs', 3)}, tables: ['Blogs']});
  const {store} = suite;
  const blogs = list(count, (n) => upgrades.mixed(n));
  await store.insert('Blogs', blogs.map((e) => e.entity));
  const front = await store.front(['Blogs']);
  const at = (version) => blogs.filter((e) => e.at === version).length;
  let id, found;

  await suite.judge(`${count} entities`, async () => {
    id = await store.enqueue('blogs', {});
    await suite.drain();
  });
  await suite.judge('they are as the document says, types and all',
      async () => {
        found = await front.read('Blogs');
        holds('Blogs', blogs.map(upgrades.raised), found);
      });
  await suite.judge('the ledger counts what was done', async () => {
    const ledger = await suite.ended(id, 'succeeded');
    const due = at(1) + at(2);
    if (!store.faulty) assert.strictEqual(ledger.EntitiesWritten, due);
    assert.ok(ledger.EntitiesWritten <= due, ledger.EntitiesWritten);
    assert.ok(ledger.Rounds >= 2);
    assert.strictEqual(ledger.EntitiesFailed, 0);
    assert.strictEqual(Number(ledger.Behind), 0);
    assert.strictEqual(ledger.Failures, 0);
  });
  await suite.judge('a second run writes nothing', async () => {
    const first = store.proxy && store.proxy.requests.length;
    const {ledger} = await (store.faulty ? again : run)(suite, 'blogs');
    assert.strictEqual(ledger.EntitiesWritten, 0);
    assert.strictEqual(ledger.Rounds, 2);
    if (store.proxy) {
      const made = store.proxy.requests.slice(first).filter(is_data);
      assert.strictEqual(made.filter(is_write).length, 0);
      assert.ok(made.length <= 2 * Math.ceil(count / 1000) + 10,
          `${made.length} requests to the table`);
    }
    assert.deepStrictEqual(etags(await front.read('Blogs')), etags(found));
  });
}

// ---- what cannot be upgraded ----

const wide = (n, names) => ({
  ...upgrades.keys(n), Rating: '1',
  ...Object.fromEntries(
      list(names, (i) => [`P${i}`, i])),
});
const rated = (n, Rating) => ({...upgrades.keys(n), Rating});
const near_1_mib = (n) => ({
  ...rated(n, '1'), Big: 'B'.repeat(30000),
  ...Object.fromEntries(
      list(15, (i) => [`Fill${i}`, 'F'.repeat(31500)])),
});

// Goal: an entity that cannot be upgraded remains unchanged and is reported
// with its keys and a reason; the others are upgraded. `on_error` decides what
// happens when a conversion fails.
async function refusals(suite) {
  const job = (table, on_error, more = []) => ({
    kind: 'schema-upgrade', table,
    ...document([
      step('retype', 'Rating', {to: 'Edm.Double', on_error}), ...more]),
  });
  const copy = step('add', 'Copy', {type: 'Edm.String', value: '{Big}'});
  await suite.open({
    jobs: {
      'fails': job('Fails', 'fail',
          [copy, step('rename', 'Old', {to: 'New'})]),
      'skips': job('Skips', 'skip'), 'nulls': job('Nulls', 'null'),
    },
    tables: ['Fails', 'Skips', 'Nulls'],
  });
  const {store} = suite;
  const good = list(250, (n) => ({...rated(n, `${n}.5`), Big: 'b', Old: 'o'}));
  const bad = {
    // An entity may have 252 properties; Copy and the version are new.
    'too many properties': [{...wide(1001, 250), Big: 'b'}, /252|properties/],
    'too large': [near_1_mib(1002), /1 MiB|large|bytes/],
    'no number': [{...rated(1003, 'three'), Big: 'b'}, /Rating/],
    'a rename onto what exists':
        [{...rated(1004, '4'), Big: 'b', Old: 'o', New: 'n'}, /New/],
  };
  const left = Object.values(bad).map(([entity]) => entity);
  const words = list(3, (n) => rated(2000 + n, `no ${n}`));
  const plain = good.map(({Big, Old, ...kept}) => kept);
  await store.insert('Fails', [...good, ...left]);
  await store.insert('Skips', [...plain, ...words]);
  await store.insert('Nulls', [...plain, ...words]);
  const front = await store.front(['Fails', 'Skips', 'Nulls']);
  const converted = ({Rating, ...kept}) =>
      ({...kept, ...typed('Double', 'Rating', Number(Rating)), SchemaVersion: 2});

  await suite.judge('what cannot be upgraded is told, the rest upgraded',
      async () => {
        const {log, ledger} = await run(suite, 'fails', 1);
        const upgraded = good.map(({Old, ...kept}) =>
          ({...converted(kept), New: 'o', Copy: 'b'}));
        holds('Fails', [...upgraded, ...left], await front.read('Fails'));
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
    holds('Skips', [...plain.map(converted), ...words],
        await front.read('Skips'));
  });
  await suite.judge('on_error: null takes the property away', async () => {
    const {ledger} = await run(suite, 'nulls');
    assert.strictEqual(ledger.State, 'succeeded');
    const bare = words.map(({Rating, ...kept}) => ({...kept, SchemaVersion: 2}));
    holds('Nulls', [...plain.map(converted), ...bare],
        await front.read('Nulls'));
  });
  await suite.judge('one in the old type at the new version is converted',
      async () => {
        const odd = {...rated(3000, '1'), SchemaVersion: 2};
        await store.insert('Skips', [odd]);
        const {ledger} = await run(suite, 'skips');
        assert.strictEqual(ledger.EntitiesWritten, 1);
        holds('Skips', [...plain.map(converted), ...words, converted(odd)],
            await front.read('Skips'));
      });
}

// ---- expand, contract, dry run ----

const without_record = ({TablewardExpanded, ...kept}) => kept;

// Goal: after expand the entities have the properties of both versions, and
// each release writes its own; after contract there are only the new ones, and
// no write of either release is lost: an entity that both have written
// differently is named and unchanged.
async function phases(suite) {
  await suite.open({
    jobs: {
      'blogs': {
        kind: 'schema-upgrade', table: 'Blogs', ...document([
          step('rename', 'Text', {to: 'Body'}),
          step('retype', 'Views', {to: 'Edm.String', to_property: 'ViewsText'}),
          step('add', 'Language', {type: 'Edm.String', value: 'en'}),
          step('remove', 'Legacy'),
        ]),
      },
    },
    tables: ['Blogs'],
  });
  const {store} = suite;
  const old = list(1234, (n) => ({
    ...upgrades.keys(n), Text: `t${n}`, ...typed('Int64', 'Views', String(n)),
    Legacy: 'l', ...(n % 2 ? {SchemaVersion: 1} : {}),
  }));
  const both = old.map((entity, n) => ({
    ...entity, Body: entity.Text, ViewsText: String(n), Language: 'en',
    SchemaVersion: 2,
  }));
  const contracted =
      ({Text, Legacy, Views, 'Views@odata.type': _, ...kept}) => kept;
  await store.insert('Blogs', old);
  const front = await store.front(['Blogs']), sdk = front.client('Blogs');
  const hold = async (entities) => holds('Blogs', entities,
      (await front.read('Blogs')).map(without_record));
  const phase = (name, code = 0) =>
      run(suite, 'blogs', code, [`phase=${name}`]);

  await suite.judge('a dry run counts, and sends nothing but reads',
      async () => {
        const first = store.proxy && store.proxy.requests.length;
        const {code, out, log} =
            await suite.command(['run', 'blogs', '--dry-run']);
        assert.strictEqual(code, 0, log);
        assert.match(out, /1,?234/);
        for (const word of ['rename', 'retype', 'add', 'remove', 'absent'])
          assert.ok(out.includes(word), `${word} is not in:\n${out}`);
        if (store.proxy)
          assert.deepStrictEqual(store.proxy.requests.slice(first)
              .filter((r) => r.method !== 'GET').map((r) => r.url), []);
        await hold(old);
        assert.strictEqual((await store.runs()).length, 0);
      });
  await suite.judge('expand adds and keeps', async () => {
    const {ledger} = await phase('expand');
    assert.strictEqual(ledger.EntitiesWritten, old.length);
    await hold(both);
    assert.strictEqual((await phase('expand')).ledger.EntitiesWritten, 0);
  });
  const expected = both.map(contracted);
  const at = (n) => {
    const {PartitionKey, RowKey} = upgrades.keys(n);
    return {partitionKey: PartitionKey, rowKey: RowKey};
  };
  await suite.judge('two releases write', async () => {
    // The old release: a merge, a replace without the new properties, and a
    // replace that keeps the version that was read.
    await sdk.updateEntity({...at(1), Text: 'merged'}, 'Merge');
    await sdk.updateEntity({...at(2), Text: 'replaced', Views: {
      type: 'Int64', value: '22'}}, 'Replace');
    await sdk.updateEntity(
        {...at(3), Text: 'typed', SchemaVersion: 2}, 'Replace');
    // The new release: a merge, and a replace without the old properties.
    await sdk.updateEntity({...at(4), Body: 'new'}, 'Merge');
    await sdk.updateEntity({...at(5), Body: 'whole', SchemaVersion: 2}, 'Replace');
    // Both properties, with different values.
    await sdk.updateEntity({...at(6), Text: 'one', Body: 'two'}, 'Merge');
    expected[1].Body = 'merged';
    expected[2] = {...upgrades.keys(2), Body: 'replaced', ViewsText: '22',
      Language: 'en', SchemaVersion: 2};
    expected[3] = {...upgrades.keys(3), Body: 'typed', Language: 'en',
      SchemaVersion: 2};
    expected[4].Body = 'new';
    expected[5] = {...upgrades.keys(5), Body: 'whole', SchemaVersion: 2};
    expected[6] = {...both[6], Text: 'one', Body: 'two'};
  });
  await suite.judge('contract loses none of it, and names what both wrote',
      async () => {
        const {log, ledger} = await phase('contract', 1);
        assert.strictEqual(ledger.EntitiesFailed, 1);
        assert.ok(ledger.Error.includes(upgrades.keys(6).RowKey), ledger.Error);
        assert.match(log, /version 2, rename Text: Text and Body/);
        await hold(expected);
      });
  await suite.judge('corrected, it is contracted too', async () => {
    await sdk.updateEntity({...at(6), Text: 'two'}, 'Merge');
    expected[6] = contracted({...both[6], Body: 'two'});
    await phase('contract');
    await hold(expected);
    assert.strictEqual((await phase('contract')).ledger.EntitiesWritten, 0);
  });
}

// ---- what it costs ----

// [entities, partitions, KiB of each]
const SHAPES = [
  [0, 1, 0], [1, 1, 0], [100, 1, 0], [101, 1, 0], [1000, 3, 0],
  [1001, 40, 0], [2345, 7, 0], [60, 1, 150],
];

// Goal: a run sends at most ceil(N/1000) page requests for each round, more if
// entities are large; a batch for each started hundred entities or 4 MiB of
// each partition; and 10 more requests.
async function requests(suite) {
  const table = (i) => `Cost${i}`;
  await suite.open({
    jobs: Object.fromEntries(SHAPES.map((_, i) => [`cost-${i}`, {
      kind: 'schema-upgrade', table: table(i),
      ...document([
        step('add', 'Language', {type: 'Edm.String', value: 'en'})]),
    }])),
    tables: SHAPES.map((_, i) => table(i)),
    worker: {visibility_timeout: '60s'}, // no request times out early
  });
  const {store} = suite;
  for (const [i, [count, partitions, kib]] of SHAPES.entries())
    await suite.judge(`requests for ${count} entities of ${kib} KiB in ` +
        `${partitions} partitions`, async () => {
      const sizes = Array(partitions).fill(0);
      const entities = list(count, (n) => ({
        PartitionKey: `p${n % partitions}`, RowKey: `${sizes[n % partitions]++}`,
        ...Object.fromEntries(list(Math.ceil(kib / 30),
            (f) => [`Fill${f}`, 'x'.repeat(30 * 1024)])),
      }));
      await store.insert(table(i), entities);
      const first = store.proxy.requests.length;
      const {ledger} = await run(suite, `cost-${i}`);
      const made = store.proxy.requests.slice(first).filter(is_data);
      assert.ok(ledger.Rounds <= 2, `${ledger.Rounds} rounds`);
      const hundreds = sizes.reduce((sum, n) => sum + Math.ceil(n / 100), 0);
      const mib = Math.ceil(count * kib / (4096 - kib));
      const pages = Math.ceil(count / 1000) + Math.ceil(count * kib / 2048);
      const most = ledger.Rounds * pages + Math.max(hundreds, mib) + 10;
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
  {name: 'upgrade chain', stores: ['embedded'], seconds: 25,
    body: (suite) => chain(suite, 10000)},
  {name: 'upgrade chain', stores: ['azurite', 'azsim'], seconds: 30,
    body: (suite) => chain(suite, 1300)},
  {name: 'upgrade chain of 25, 000', stores: BOTH, long: true, seconds: 200,
    body: (suite) => chain(suite, 25000)},
  {name: 'upgrade refusals', stores: BOTH, seconds: 15, body: refusals},
  {name: 'upgrade phases', stores: BOTH, seconds: 10, body: phases},
  {name: 'upgrade requests', stores: ['azurite'], seconds: 15, body: requests},
];
