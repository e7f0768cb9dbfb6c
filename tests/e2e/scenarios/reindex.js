// SPDX-License-Identifier: MIT
// Copies under other keys, beside their sources: built, repaired and pruned,
// while the application writes the sources, and whoever is killed on the way.
'use strict';

const assert = require('assert');
const crypto = require('crypto');
const upgrades = require('../lib/upgrades');
const {PATIENT} = require('../lib/migrations');
const {kill_in_turn, kill_in_time} = require('../lib/kills');
const {differ, key} = require('../lib/model');
const {is_data} = require('../lib/proxy');
const {done, etags, is_write, run} = require('../lib/runs');
const {random, seed_of_run} = require('../lib/wait');
const {for_sdk} = require('../lib/store_azurite');
const {typed} = upgrades;

const pad = (n, digits) => String(n).padStart(digits, '0');
const MARK = 'TablewardSource';

// ---- shoes, and what is kept of them ----

const JOB = {
  kind: 'reindex', table: 'Footwear', max_passes: 100, copies: [
    {row_key: 'size:{Size:02}_{Model}_{RowKey}', properties: ['Brand', 'Name']},
    {row_key: 'model:{Model}_{RowKey}'},
    {partition_key: 'sale_{hash(RowKey, 4)}', row_key: '{PartitionKey}_{RowKey}',
      properties: {drop: ['Photo'], rename: {Name: 'Title'},
        set: {Cheap: '{Size}'}}},
  ],
};
const JOBS = {index: JOB};

const shoe = (n, more = {}) => ({
  PartitionKey: `brand${n % 7}`, RowKey: pad(n, 6), Size: n % 50,
  Model: `m${n % 23} 'q' ☃`, Brand: `b${n % 7}`, Name: `shoe ${n} \u{1F600}`,
  ...typed('Int64', 'Views', String(9007199254740993n + BigInt(n))),
  ...typed('Double', 'Price', n / 4), Sold: n % 2 === 0,
  ...typed('DateTime', 'Since', '2024-02-29T12:34:56.1234567Z'),
  ...typed('Binary', 'Photo', Buffer.from(`${n}\0\xff`).toString('base64')),
  ...more,
});

// pick: these properties, with their types.
const pick = (entity, names) => Object.fromEntries(Object.entries(entity)
    .filter(([name]) => names.includes(name.replace('@odata.type', ''))));

const hash = (text, n) => crypto.createHash('sha256').update(text).digest()
    .readBigUInt64BE(0) % BigInt(n);

// copies: of one shoe, without what says where they come from.
function copies(s) {
  const {Photo, 'Photo@odata.type': _, Name, ...others} = s;
  return [
    {...pick(s, ['PartitionKey', 'Brand', 'Name']),
      RowKey: `size:${pad(s.Size, 2)}_${s.Model}_${s.RowKey}`},
    {...s, RowKey: `model:${s.Model}_${s.RowKey}`},
    {...others, PartitionKey: `sale_${hash(s.RowKey, 4)}`,
      RowKey: `${s.PartitionKey}_${s.RowKey}`, Title: Name,
      Cheap: String(s.Size)},
  ];
}

// judge: the table holds these shoes, a right copy of each thrice, which says
// where it comes from, and nothing else.
async function judge(front, shoes, others = []) {
  const found = await front.read('Footwear');
  const bare = found.map(({[MARK]: _, ...entity}) => entity);
  assert.strictEqual(differ('Footwear',
      [...shoes, ...shoes.flatMap(copies), ...others], bare), '');
  const of = new Map(shoes.flatMap((s) =>
    copies(s).map((c) => [key(c), [s.PartitionKey, s.RowKey]])));
  for (const entity of found) {
    const source = of.get(key(entity));
    assert.strictEqual(MARK in entity, source !== undefined, key(entity));
    if (!source) continue;
    const said = JSON.parse(entity[MARK]);
    assert.deepStrictEqual(said.key, source);
    assert.deepStrictEqual([said.table, said.job], ['Footwear', 'index']);
  }
  return found;
}

const without_mark = (found) => found.filter((e) => !(MARK in e));

// ---- in step ----

// Goal: copies of every type are built; a second run writes nothing; what was
// changed, deleted, spoilt or lost by others comes into step again, and no run
// ever touches a source.
async function in_step(suite, count) {
  await suite.open({
    jobs: JOBS, tables: ['Footwear'],
    worker: suite.Store.name === 'azsim' ? {} : PATIENT,
  });
  const {store} = suite;
  let shoes = Array.from({length: count}, (_, n) => shoe(n));
  await store.insert('Footwear', shoes);
  const front = await store.front(['Footwear']);
  const made = (first) => store.proxy &&
      store.proxy.requests.slice(first).filter(is_data);
  const mark = () => store.proxy && store.proxy.requests.length;

  await suite.judge(`copies of ${count} are built`, async () => {
    const before = etags(await front.read('Footwear'));
    const {ledger} = await done(suite, 'index');
    const found = await judge(front, shoes);
    assert.deepStrictEqual(etags(without_mark(found)), before);
    if (!store.faulty)
      assert.strictEqual(ledger.EntitiesWritten, 3 * count);
    const sides = JSON.parse(ledger.Verification);
    assert.strictEqual(sides.expected, 3 * count);
    assert.strictEqual(sides.copies, 3 * count);
    assert.strictEqual(sides.surplus, 0);
    assert.strictEqual(sides.source, sides.destination);
  });
  await suite.judge('a second run writes nothing', async () => {
    const before = etags(await front.read('Footwear')), first = mark();
    const {ledger} = await done(suite, 'index');
    assert.strictEqual(ledger.EntitiesWritten + ledger.EntitiesDeleted, 0);
    assert.deepStrictEqual(etags(await front.read('Footwear')), before);
    if (!store.proxy || store.faulty) return;
    assert.strictEqual(made(first).filter(is_write).length, 0);
    const most = 2 * Math.ceil(4 * count / 1000) + 10;
    assert.ok(made(first).length <= most, `${made(first).length} requests`);
  });
  await suite.judge('what has changed comes into step', async () => {
    const client = front.client('Footwear');
    const gone = (e) => client.deleteEntity(e.PartitionKey, e.RowKey);
    const put = (e) => client.upsertEntity(for_sdk(e), 'Replace');
    // New keys for some copies, other values for all of one.
    shoes[1] = shoe(1, {Size: 49});
    shoes[2] = shoe(2, {Brand: 'new'});
    shoes[3] = shoe(3, {Model: 'new', ...typed('Double', 'Price', 0.5)});
    for (const n of [1, 2, 3]) await put(shoes[n]);
    for (const n of [4, 5]) await gone(shoes[n]);
    // Copies that others have lost, changed, or made their own.
    const [size, model, sale] = copies(shoes[6]);
    await gone(size);
    await client.updateEntity({partitionKey: model.PartitionKey,
      rowKey: model.RowKey, Brand: 'spoilt'}, 'Merge');
    await client.updateEntity({partitionKey: sale.PartitionKey,
      rowKey: sale.RowKey, More: 'than was copied'}, 'Merge');
    shoes = [...shoes.slice(0, 4), ...shoes.slice(6), shoe(count)];
    await put(shoes.at(-1));
    const before = etags(without_mark(await front.read('Footwear')));
    const {ledger} = await done(suite, 'index');
    const found = await judge(front, shoes);
    assert.deepStrictEqual(etags(without_mark(found)), before);
    if (store.faulty) return;
    // 1: a key and two values, 2 and 3: all three, 6: all three, one new.
    assert.strictEqual(ledger.EntitiesWritten, 3 + 3 + 3 + 3 + 3);
    // The old keys of 1 and 3, and all of 4 and 5.
    assert.strictEqual(ledger.EntitiesDeleted, 1 + 2 + 3 + 3);
  });
  await suite.judge('a dry run counts, and touches nothing', async () => {
    const before = etags(await front.read('Footwear'));
    const ended = await suite.command(['run', 'index', '--dry-run']);
    if (store.faulty) return;
    assert.strictEqual(ended.code, 0, ended.log);
    const said = (n) => n.toLocaleString('en');
    assert.ok(ended.out.includes(`Footwear: ${said(shoes.length)} entit`));
    assert.ok(ended.out.includes(
        `Footwear, copies: ${said(3 * shoes.length)} entit`), ended.out);
    assert.ok(ended.out.includes(
        `stay where they are right: ${3 * shoes.length}`), ended.out);
    assert.deepStrictEqual(etags(await front.read('Footwear')), before);
  });
}

// Goal: what stands at a copy's keys and is no copy stays, or is replaced where
// the job says so; two sources at the same keys and one that cannot be copied
// are told; the rest is done.
async function refusals(suite) {
  const job = (table, more) => ({kind: 'reindex', table,
    copies: [{row_key: 'size:{Size:02}', properties: ['Name']}], ...more});
  await suite.open({
    jobs: {
      fails: job('Fails'), skips: job('Skips', {on_conflict: 'skip'}),
      replaces: job('Replaces', {on_conflict: 'replace'}), twice: job('Twice'),
    },
    tables: ['Fails', 'Skips', 'Replaces', 'Twice'],
  });
  const {store} = suite;
  const one = {PartitionKey: 'p', RowKey: '1', Size: 1, Name: 'one'};
  const two = {PartitionKey: 'p', RowKey: '2', Size: 2, Name: 'two'};
  const lacking = {PartitionKey: 'p', RowKey: '3', Name: 'no size'};
  // Another one's: it stands where the copy of the first is to be, and has one
  // of its own.
  const theirs = {PartitionKey: 'p', RowKey: 'size:01', Size: 9, Name: 'theirs'};
  const copy = (s) => ({PartitionKey: 'p', RowKey: `size:0${s.Size}`,
    Name: s.Name});
  const bare = async (table) => (await store.read(table))
      .map(({[MARK]: _, ...entity}) => entity);

  for (const [name, code, more] of [['fails', 1, [lacking]], ['skips', 0, []]])
    await suite.judge(`on_conflict: ${name.slice(0, -1)}`, async () => {
      const table = name[0].toUpperCase() + name.slice(1);
      const all = [one, two, theirs, ...more];
      await store.insert(table, all);
      const {ledger, log} = await run(suite, name, code);
      assert.strictEqual(differ(table,
          [...all, copy(two), copy(theirs)], await bare(table)), '');
      if (code === 0) return assert.ok(ledger.EntitiesSkipped >= 1);
      assert.strictEqual(ledger.EntitiesFailed, 2);
      for (const part of ["'p' / '1'", "'p' / '3'", 'Size'])
        assert.ok((ledger.Error + log).includes(part), ledger.Error);
    });
  await suite.judge('on_conflict: replace', async () => {
    await store.insert('Replaces', [one, two, {...theirs, Size: 1}]);
    await run(suite, 'replaces');
    assert.strictEqual(differ('Replaces', [one, two, copy(one), copy(two)],
        await bare('Replaces')), '');
  });
  await suite.judge('two sources at the same keys', async () => {
    const same = {...two, RowKey: '4', Size: 1};
    await store.insert('Twice', [one, two, same]);
    const {ledger} = await run(suite, 'twice', 1);
    assert.ok(ledger.EntitiesFailed >= 1);
    assert.match(ledger.Error, /each source needs keys of its own/);
    const found = await bare('Twice'); // one of the two was first
    const first = found.find((e) => e.RowKey === 'size:01');
    const winner = first.Name === same.Name ? same : one;
    assert.strictEqual(differ('Twice',
        [one, two, same, copy(two), copy(winner)], found), '');
    const dry = await suite.command(['run', 'twice', '--dry-run']);
    assert.match(dry.out, /another's copy has the same keys: at least 1/);
  });
}

// ---- others write meanwhile ----

// Goal: four writers add, change, rename and delete shoes while runs keep the
// copies; once they rest, a run brings all into step, and no acknowledged write
// to a source is lost.
async function writers(suite, count, seconds) {
  await suite.open({jobs: JOBS, tables: ['Footwear'], worker: PATIENT});
  const {store} = suite;
  const seed = seed_of_run(), draw = random(seed);
  const known = new Map(Array.from({length: count}, (_, n) => [n, shoe(n)]));
  await store.insert('Footwear', [...known.values()]);
  const front = await store.front(['Footwear']);
  const client = front.client('Footwear');
  let over = false, next = count, runs = 0;
  const tally = {changed: 0, added: 0, deleted: 0};

  // Each has shoes of its own, and nobody else touches them: a refusal would
  // mean that a run has written to a source.
  const write = async (i) => {
    while (!over) {
      const n = draw(Math.floor(count / 4)) * 4 + i, what = draw(4);
      if (what === 0) {
        const added = next++;
        await client.createEntity(for_sdk(shoe(added)));
        known.set(added, shoe(added));
        tally.added++;
      } else if (known.has(n) && what === 1) {
        const {PartitionKey, RowKey} = known.get(n);
        await client.deleteEntity(PartitionKey, RowKey);
        known.delete(n);
        tally.deleted++;
      } else if (known.has(n)) {
        const changed = shoe(n, {Size: draw(50), Model: `w${draw(9)}`});
        const {etag} = await client.getEntity(
            changed.PartitionKey, changed.RowKey);
        await client.updateEntity(for_sdk(changed), 'Replace', {etag});
        known.set(n, changed);
        tally.changed++;
      }
    }
  };
  await suite.judge('four writers while copies are kept', async () => {
    const writing = Promise.all([0, 1, 2, 3].map(write));
    writing.catch(() => {});
    setTimeout(() => (over = true), seconds * 1000);
    while (!over) {
      await run(suite, 'index');
      runs++;
    }
    await writing;
    await run(suite, 'index');
    console.log(`    (seed ${seed}: ${JSON.stringify(tally)} in ${runs} runs)`);
    await judge(front, [...known.values()]);
  });
}

// ---- kills ----

async function open_swept(suite, count) {
  await suite.open({jobs: JOBS, tables: ['Footwear'],
    worker: {visibility_timeout: '2s', lanes: 4, max_attempts: 100}});
  const shoes = Array.from({length: count}, (_, n) => shoe(n));
  await suite.store.insert('Footwear', shoes);
  return shoes;
}

// spoil: sources go and change behind a run that has ended well.
async function spoil(client, shoes) {
  const left = [];
  for (const [n, s] of shoes.entries()) {
    if (n % 40 === 0) await client.deleteEntity(s.PartitionKey, s.RowKey);
    else if (n % 40 === 1) {
      left.push(shoe(n, {Size: 51, Model: 'other'}));
      await client.updateEntity(for_sdk(left.at(-1)), 'Replace', {etag: '*'});
    } else left.push(s);
  }
  return left;
}

// Goal: killed while it builds and while it mends, at requests drawn, before
// they reached the service, after they took effect and after their answer: the
// copies end in step, and no source is touched.
async function kills(suite, count, times) {
  let shoes = await open_swept(suite, count);
  const seed = seed_of_run(), draw = random(seed);
  const swept = async (what, most) => {
    const id = await suite.store.enqueue('index', {});
    const killed = await kill_in_turn(suite, times, most, draw);
    const ledger = await suite.ended(id, 'succeeded');
    console.log(`    (seed ${seed}, ${what}: ${killed} kills, ` +
        `${ledger.Attempt} attempts)`);
    assert.ok(killed > 0, `seed ${seed}`);
    await judge(suite.store, shoes);
  };
  await suite.judge(`${times} kills while copies of ${count} are built`,
      () => swept('built', 8));
  shoes = await spoil(suite.store.client('Footwear'), shoes);
  await suite.judge(`${times} kills while they are mended`,
      () => swept('mended', 12));
}

// Goal: the same, where no request can be seen: killed after a time, drawn.
async function timed_kills(suite, count, times) {
  const shoes = await open_swept(suite, count);
  const seed = seed_of_run(), draw = random(seed);
  await suite.judge(`${times} kills while copies of ${count} are built`,
      async () => {
        const id = await suite.store.enqueue('index', {});
        const killed = await kill_in_time(suite, times, 150, draw);
        await suite.ended(id, 'succeeded');
        console.log(`    (seed ${seed}: ${killed} kills)`);
        assert.ok(killed > 0, `seed ${seed}`);
        await judge(suite.store, shoes);
      });
}

const BOTH = ['azurite', 'embedded'];
module.exports = [
  {
    name: 'reindex in step', stores: [...BOTH, 'azsim'], seconds: 15,
    body: (suite) => in_step(suite, 700),
  },
  {
    name: 'reindex 10,000 in step', stores: BOTH, long: true, seconds: 100,
    body: (suite) => in_step(suite, 10000),
  },
  {name: 'reindex refusals', stores: BOTH, seconds: 6, body: refusals},
  {
    name: 'reindex writers', stores: BOTH, phase: 2, seconds: 12,
    body: (suite) => writers(suite, 400, 4),
  },
  {
    name: 'reindex writers for a minute', stores: BOTH, phase: 2, long: true,
    seconds: 90, body: (suite) => writers(suite, 4000, 60),
  },
  {
    name: 'reindex kills', stores: ['embedded'], phase: 3, seconds: 15,
    body: (suite) => timed_kills(suite, 2500, 3),
  },
  {
    // Whoever takes over waits for what may still land there.
    name: 'reindex kills', stores: ['azurite'], phase: 3, long: true,
    seconds: 260, body: (suite) => kills(suite, 400, 3),
  },
];
