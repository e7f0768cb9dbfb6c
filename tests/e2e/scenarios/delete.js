// SPDX-License-Identifier: MIT
// Delete jobs: the selected entities of a table are deleted, by keys and
// properties of every type; entities that other writers change meanwhile;
// kills; cost.
'use strict';

const assert = require('assert');
const upgrades = require('../lib/upgrades');
const {kill_in_turn, kill_in_time} = require('../lib/kills');
const {is_data} = require('../lib/proxy');
const {done, is_write, run} = require('../lib/runs');
const {Steady, of_all} = require('../lib/steady');
const {random, seed_of_run} = require('../lib/wait');
const {tail} = require('../lib/program');
const {list} = require('../lib/model');
const {blog, typed} = upgrades;

const purge = (table, more) => ({kind: 'delete', table, ...more});
const DRAFTS = {drafts: purge('Blogs', {filter: 'Draft eq true'})};
const pad = (n, digits = 5) => String(n).padStart(digits, '0');

// ---- what is deleted ----

// The cases. Each has its own table: the job's name, the job, its arguments,
// the entities of the table, and which of them the job must delete (`goes`).
const at = (PartitionKey, RowKey, more = {}) => ({PartitionKey, RowKey, ...more});
const rows = (keys, more) => keys.map((k) => at('p', k, more));
const partitions = (keys) => keys.map((k) => at(k, 'r', {N: 1}));

// Keys that are neighbours in the order of one store and far apart in that of
// another.
const ODD_KEYS = ['', ' ', '!', 'A', 'a', 'a\u{1F600}', 'a\uD7FF', 'a\uE000',
  'a\uFFFD', 'b', "b'", 'b\u{10FFFD}', 'ü', '\uE000', '\uFFFD', '\u{10000}'];

// between: compares by UTF-16 units, as JavaScript does.
const between = (key, from, below) => key >= from && key < below;

const CASES = [
  {
    name: 'months', job: {args: ['from', 'below'],
      partition_key_from: '{from}', partition_key_below: '{below}'},
    args: {from: '2024-02', below: '2024-04'},
    entities: partitions(['2024-01_z', '2024-02', '2024-02_a', '2024-03_z',
      '2024-04', '2024-04_a', '2025']),
    goes: (e) => between(e.PartitionKey, '2024-02', '2024-04'),
  },
  {
    name: 'rows', job: {args: ['first'], partition_key: 'p',
      row_key_from: '{first}'},
    args: {first: 'a\uE000'}, entities: [...rows(ODD_KEYS), ...partitions(['q'])],
    goes: (e) => e.PartitionKey === 'p' && e.RowKey >= 'a\uE000',
  },
  {
    name: 'rows-below', job: {args: ['end'], row_key_below: '{end}'},
    args: {end: 'a\u{1F600}'}, entities: rows(ODD_KEYS),
    goes: (e) => e.RowKey < 'a\u{1F600}',
  },
  {
    name: 'prefix', job: {args: ['who'], partition_key_prefix: '{who}_',
      filter: "Who eq '{who}'"},
    args: {who: "O'Neil"},
    entities: [at("O'Neil_1", '1', {Who: "O'Neil"}),
      at("O'Neil_2", '2', {Who: "O'Neil_2"}), at("O'Neil", '3', {Who: "O'Neil"}),
      at("O'Neil_Ann_1", '4', {Who: "O'Neil_Ann"})],
    goes: (e) => e.RowKey === '1',
  },
  {
    name: 'one', job: {args: ['p', {r: {allow_empty: true}}],
      partition_key: '{p}', row_key: '{r}'},
    args: {p: 'p', r: ''}, entities: rows(['', ' ', '0']),
    goes: (e) => e.RowKey === '',
  },
  {
    name: 'number', job: {filter: 'N eq 0'},
    entities: [...rows(['1'], {N: 0}), ...rows(['2'], {N: 1}),
      ...rows(['3'], {N: '0'}), ...rows(['4'], {N: false}), ...rows(['5'], {})],
    goes: (e) => e.RowKey === '1',
  },
  {
    name: 'time', job: {args: ['before'], filter: "At lt datetime'{before}'"},
    args: {before: '2024-01-01T00:00:00Z'},
    entities: [
      at('p', 'before', typed('DateTime', 'At', '2023-12-31T23:59:59.9999999Z')),
      at('p', 'then', typed('DateTime', 'At', '2024-01-01T00:00:00Z')),
      at('p', 'text', {At: '2023-01-01T00:00:00Z'}), at('p', 'none'),
    ],
    goes: (e) => e.RowKey === 'before',
  },
  {
    name: 'long', job: {filter: 'Views gt 9007199254740992L and Yes eq true'},
    entities: [['1', '9007199254740993', true], ['2', '9007199254740992', true],
      ['3', '9007199254740993', false]].map(([k, views, Yes]) =>
      at('p', k, {...typed('Int64', 'Views', views), Yes})),
    goes: (e) => e.RowKey === '1',
  },
  {
    name: 'everything', job: {all: true},
    entities: list(1234, (n) => blog(n)), goes: () => true,
  },
  {name: 'nothing', job: {all: true}, entities: [], goes: () => true},
];

// Goal: each job deletes exactly the entities that it selects, by properties of
// every type and by every sort of key; the dry run said so before and changed
// nothing; a second run finds nothing.
async function selections(suite) {
  const table = (name) => `T${name.replace('-', '')}`;
  const jobs = Object.fromEntries(CASES.map(
      ({name, job}) => [name, purge(table(name), job)]));
  await suite.open({jobs, tables: CASES.map(({name}) => table(name))});
  for (const {name, args = {}, entities, goes} of CASES) {
    const doomed = entities.filter(goes).length;
    suite.scenario(`${name}: ${doomed} of ${entities.length} go`, {
      seed: (s) => s.put(table(name), ...entities),
      async ask(s, self) {
        if (!s.store.faulty) await dry_run(s, name, args, doomed);
        self.id = await s.store.enqueue(name, args);
      },
      async expect(s, self) {
        s.model.remove(table(name), goes);
        const ledger = await s.ended(self.id, 'succeeded');
        if (!s.store.faulty) assert.strictEqual(ledger.EntitiesDeleted, doomed);
        assert.ok(ledger.EntitiesDeleted <= doomed, ledger.EntitiesDeleted);
        assert.strictEqual(ledger.EntitiesFailed, 0);
        assert.strictEqual(ledger.Rounds, 1);
      },
    });
  }
  await suite.play();
  await suite.judge('a second run finds nothing', async () => {
    const {ledger} = await done(suite, 'number');
    assert.strictEqual(ledger.EntitiesDeleted, 0);
    await suite.same();
  });
}

async function dry_run(suite, job, args, doomed) {
  const ended = await suite.command(['run', job, '--dry-run',
    ...Object.entries(args).map(([name, value]) => `${name}=${value}`)]);
  assert.strictEqual(ended.code, 0, tail(ended.log));
  const said = `: ${doomed.toLocaleString('en')} entit`;
  assert.ok(ended.out.includes(said), `not '${said}': ${ended.out}`);
}

// Goal: the command `run` shows what it would do, and does it only with --yes;
// a missing table and arguments that would select everything make it fail and
// change nothing.
async function by_hand(suite) {
  await suite.open({
    jobs: {
      ...DRAFTS,
      missing: purge('Nowhere', {all: true}),
      prefixed: purge('Blogs', {args: [{start: {allow_empty: true}}],
        partition_key_prefix: '{start}', filter: 'Draft eq true'}),
    },
    tables: ['Blogs'],
  });
  const entities = list(300, (n) => ({...blog(n), Draft: n % 3 === 0}));
  await suite.store.insert('Blogs', entities);
  const all_are_there = async () => await suite.holds('Blogs', entities);

  await suite.judge('without --yes nothing goes', async () => {
    const ended = await suite.command(['run', 'drafts']);
    assert.strictEqual(ended.code, 64, tail(ended.log));
    await all_are_there();
  });
  await suite.judge('a table that is missing is named', async () => {
    const {ledger, log} = await run(suite, 'missing', 1);
    assert.match(ledger.Error, /Nowhere/);
    assert.match(log, /Nowhere/);
  });
  await suite.judge('an empty prefix does not take everything', async () => {
    const ended =
        await suite.command(['run', 'prefixed', 'start=', '--yes']);
    assert.notStrictEqual(ended.code, 0);
    assert.match(ended.log, /which would select everything/);
    await all_are_there();
  });
  await suite.judge('with --yes what is selected goes', async () => {
    const {ledger} = await run(suite, 'drafts');
    assert.strictEqual(ledger.EntitiesDeleted, 100);
    await suite.holds('Blogs', entities.filter((e) => !e.Draft));
  });
}

// ---- while others write ----

// Goal: four writers publish posts, make drafts of them and delete some, each
// with the ETag that it knows, while delete runs run: only entities that are
// drafts at that moment are deleted, and no acknowledged write is lost.
async function writers(suite, count, seconds) {
  await suite.open({jobs: DRAFTS, tables: ['Blogs']});
  const make = (n, Value) =>
    at(`p${n % 8}`, pad(n), {Draft: (n + Value) % 3 === 0, Value});
  await suite.store.insert('Blogs', list(count, (n) => make(n, 0)));
  const client = (await suite.store.front(['Blogs'])).client('Blogs');
  const seed = seed_of_run();
  const all = [0, 1, 2, 3].map((i) => new Steady(client, {
    seed: seed + i, rate: 40, in_flight: 1, make, first: count + i, step: 4,
    allowed: [404],
    numbers: list(count, (n) => n).filter((n) => n % 4 === i),
  }));
  await suite.judge('four writers while drafts are purged', async () => {
    let runs = 0, deleted = 0;
    for (const writer of all) writer.start();
    for (const end = Date.now() + seconds * 1000; Date.now() < end; runs++) {
      const {ledger} = await run(suite, 'drafts');
      deleted += ledger.EntitiesDeleted;
      assert.strictEqual(ledger.EntitiesFailed, 0);
    }
    for (const writer of all) await writer.stop();
    const writes = all.reduce((sum, writer) => sum + writer.writes, 0);
    const gone = all.flatMap(({left, stored}) =>
      [...left].map((n) => make(n, stored.get(n).value)));
    console.log(`    (seed ${seed}: ${writes} writes, ${deleted} deleted in ` +
        `${runs} runs, ${gone.length} missed by their writers)`);
    assert.deepStrictEqual(gone.filter((e) => !e.Draft), [], `seed ${seed}`);
    assert.ok(writes > 0 && deleted > 0 && gone.length > 0);
  });
  await suite.judge('a last purge leaves exactly what is no draft', async () => {
    await run(suite, 'drafts');
    await suite.holds(
        'Blogs', of_all(all).filter((e) => !e.Draft), `seed ${seed}`);
  });
}

// Goal: an entity that is published between read and delete remains; an entity
// that is changed but still a draft is deleted; both cost one read, and the
// rest of the batch is done.
async function between_read_and_delete(suite) {
  await suite.open({jobs: DRAFTS, tables: ['Blogs']});
  const {store} = suite, {proxy} = store;
  const entities = list(100, (n) => at('p', pad(n), {Draft: true}));
  await store.insert('Blogs', entities);
  await suite.judge('drafts that are changed under way', async () => {
    let once = false;
    proxy.before = async (request) => {
      if (request.kind !== 'batch' || request.table !== 'Blogs' || once) return;
      once = true;
      const blogs = store.client('Blogs');
      const change = (n, more) => blogs.updateEntity(
          {partitionKey: 'p', rowKey: pad(n), ...more}, 'Merge');
      await change(41, {Draft: false});
      await change(42, {Title: 'still a draft'});
      await blogs.deleteEntity('p', pad(43));
    };
    const first = proxy.requests.length;
    const {ledger} = await run(suite, 'drafts');
    const made = proxy.requests.slice(first).filter(is_data);
    assert.ok(once, 'no batch was seen');
    await suite.holds('Blogs', [{...entities[41], Draft: false}]);
    assert.strictEqual(ledger.EntitiesSkipped, 1);
    assert.strictEqual(ledger.EntitiesFailed, 0);
    assert.ok(made.length <= 9, made.map((r) => r.kind).join(' '));
  });
  proxy.before = async () => {};
}

// ---- kills ----

const numbered = (count) => list(count,
    (n) => at(`p${pad(n % 30, 2)}`, pad(n), {Draft: n % 5 !== 0}));
const kept = (entities) => entities.filter((e) => !e.Draft);

// open_swept: opens a suite with a table that no other client writes to.
async function open_swept(suite, count) {
  await suite.open({
    jobs: DRAFTS, tables: ['Blogs'],
    worker: {visibility_timeout: '2s', requests: 4, max_attempts: 100},
  });
  const entities = numbered(count);
  await suite.store.insert('Blogs', entities);
  return entities;
}

// Goal: with kills at random requests, before they reached the service, after
// they took effect and after their response: the selected entities are deleted,
// and all others are unchanged.
async function kills(suite, count, times) {
  const entities = await open_swept(suite, count);
  const seed = seed_of_run(), draw = random(seed);
  await suite.judge(`${times} kills while ${count} are purged`, async () => {
    const id = await suite.store.enqueue('drafts', {});
    const killed = await kill_in_turn(suite, times, 4, draw);
    const ledger = await suite.ended(id, 'succeeded');
    console.log(`    (seed ${seed}: ${killed} kills, ${ledger.Attempt} ` +
        'attempts)');
    assert.ok(killed > times / 2, `seed ${seed}: ${killed} kills`);
    await suite.holds('Blogs', kept(entities), `seed ${seed}`);
  });
}

// Goal: the same, on a store whose requests cannot be observed: each worker is
// killed after a random time. If every worker was done before its kill, the
// drafts are stored again, and the times are halved.
async function timed_kills(suite, count, times) {
  const entities = await open_swept(suite, count);
  const seed = seed_of_run(), draw = random(seed);
  const drafts = entities.filter((e) => e.Draft);
  await suite.judge(`${times} kills while ${count} are purged`, async () => {
    let killed = 0;
    for (let most_ms = 64; killed === 0; most_ms /= 2) {
      assert.ok(most_ms >= 1, `seed ${seed}: every worker was done before`);
      if (most_ms < 64) await suite.store.insert('Blogs', drafts);
      const id = await suite.store.enqueue('drafts', {});
      killed = await kill_in_time(suite, times, most_ms, draw);
      await suite.ended(id, 'succeeded');
      await suite.holds('Blogs', kept(entities), `seed ${seed}`);
    }
    console.log(`    (seed ${seed}: ${killed} kills)`);
  });
}

// ---- what it costs ----

const SHAPES = [
  {count: 0, in: 1}, {count: 100, in: 1}, {count: 1001, in: 1},
  {count: 2345, in: 7}, {count: 40, in: 40},
];

// Goal: a run sends at most a page request for each started thousand of
// entities, a batch for each started hundred of each partition, and ten more
// requests; every entity is sent once.
async function requests(suite) {
  const table = (i) => `Cost${i}`;
  await suite.open({
    jobs: Object.fromEntries(SHAPES.map(
        (_, i) => [`cost-${i}`, purge(table(i), {all: true})])),
    tables: SHAPES.map((_, i) => table(i)),
    worker: {visibility_timeout: '60s'},
  });
  const {store} = suite;
  for (const [i, shape] of SHAPES.entries())
    await suite.judge(`requests for ${shape.count} entities in ${shape.in} ` +
        'partitions', async () => {
      const sizes = Array(shape.in).fill(0);
      await store.insert(table(i), list(shape.count, (n) =>
        at(`p${pad(n % shape.in, 2)}`, pad(sizes[n % shape.in]++), {N: n})));
      const first = store.proxy.requests.length;
      const {ledger} = await run(suite, `cost-${i}`);
      const made = store.proxy.requests.slice(first).filter(is_data);
      const most = Math.ceil(shape.count / 1000) +
          sizes.reduce((sum, n) => sum + Math.ceil(n / 100), 0) + 10;
      assert.ok(made.length <= most, `${made.length} requests, at most ${most}`);
      assert.strictEqual(ledger.EntitiesDeleted, shape.count);
      assert.strictEqual(made.reduce(
          (sum, r) => sum + (is_write(r) ? r.operations : 0), 0), shape.count);
      assert.deepStrictEqual(await store.read(table(i)), []);
    });
}

const BOTH = ['azurite', 'embedded'];
module.exports = [
  {name: 'delete selections', stores: [...BOTH, 'azsim'], seconds: 15,
    body: selections},
  {name: 'delete by hand', stores: BOTH, seconds: 6, body: by_hand},
  {name: 'delete writers', stores: BOTH, phase: 2, seconds: 10,
    body: (suite) => writers(suite, 800, 4)},
  {name: 'delete writers for a minute', stores: BOTH, phase: 2, long: true,
    seconds: 70, body: (suite) => writers(suite, 8000, 60)},
  {name: 'delete between', stores: ['azurite'], phase: 2, seconds: 5,
    body: between_read_and_delete},
  {name: 'delete kills', stores: ['azurite'], phase: 3, seconds: 15,
    body: (suite) => kills(suite, 1500, 3)},
  {name: 'delete kills', stores: ['embedded'], phase: 3, seconds: 15,
    body: (suite) => timed_kills(suite, 12000, 3)},
  {name: 'delete 30 kills', stores: ['azurite'], phase: 3, long: true,
    seconds: 120, body: (suite) => kills(suite, 8000, 30)},
  {name: 'delete requests', stores: ['azurite'], seconds: 10, body: requests},
];
