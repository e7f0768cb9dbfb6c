// SPDX-License-Identifier: MIT
// Which properties, copies and sources a migration is about, what cannot be
// copied, what is refused, and what a comparison of both sides finds.
'use strict';

const assert = require('assert');
const migrations = require('../lib/migrations');
const {differ, key} = require('../lib/model');
const {tail} = require('../lib/program');
const {etags, run} = require('../lib/runs');
const {typed} = require('../lib/upgrades');
const {
  PROVENANCE, PATIENT, blog, blogs, copy_of, near, far, migrate, bare, holds, untouched,
  verified, missing_in,
} = migrations;

// ---- which properties, which copies, which sources ----

const GUID = '0c9d6455-213d-42c9-9a79-3e9149a57833';
const TIME = '2024-02-29T23:59:59.9999999Z';

// [what, the job's additions, what becomes of a copy]
const SHAPES = {
  'keep': [{properties: {keep: ['Title', 'Views', 'CreatedOn', 'Odd']}},
    (copy) => pick(copy, ['Title', 'Views', 'CreatedOn', 'Odd'])],
  'drop': [{properties: {drop: ['Text', 'Bytes', 'Absent']}},
    ({Text, Bytes, 'Bytes@odata.type': _, ...kept}) => kept],
  'rename': [{properties: {rename: {Text: 'Body', Views: 'Seen'}}},
    ({Text, Views, 'Views@odata.type': _, ...kept}) =>
      ({...kept, Body: Text, ...typed('Int64', 'Seen', Views)})],
  'set': [{
    properties: {
      set: {
        Rating: 9, Yes: true, No: false, Large: 9000000000, Word: 'w5',
        Line: '{Number}: {Title}', Big: {type: 'Edm.Int64', value: 5},
        Real: {type: 'Edm.Double', value: 1},
        Time: {type: 'Edm.DateTime', value: TIME},
        Which: {type: 'Edm.Guid', value: GUID},
        Raw: {type: 'Edm.Binary', value: 'AAEC/v8='},
        Year: {type: 'Edm.Int32', value: '{year(CreatedOn)}'},
      },
    },
  }, (copy) => ({
    ...copy, Rating: 9, Yes: true, No: false,
    ...typed('Int64', 'Large', '9000000000'), Word: 'w5',
    Line: `${copy.Number}: ${copy.Title}`, ...typed('Int64', 'Big', '5'),
    ...typed('Double', 'Real', 1), ...typed('DateTime', 'Time', TIME),
    ...typed('Guid', 'Which', GUID), ...typed('Binary', 'Raw', 'AAEC/v8='),
    Year: Number(copy.CreatedOn.slice(0, 4)),
  })],
  'all of them': [{
    properties: {
      keep: ['Title', 'Text', 'Rating'], rename: {Title: 'Name'},
      set: {Text: '{Text}!', Title: 'new'},
    },
  }, (copy) => ({
    ...pick(copy, ['Rating']), Name: copy.Title, Text: `${copy.Text}!`,
    Title: 'new',
  })],
};

const pick = (entity, names) => Object.fromEntries(
    Object.entries(entity).filter(([name]) =>
      ['PartitionKey', 'RowKey', ...names].includes(name.split('@')[0])));

// Goal: properties are kept, dropped, renamed and set, with the types that are
// asked for; a source has several copies; a selection, arguments, `strip` and a
// name for the provenance do what they say.
async function shapes(suite, count) {
  const tables = ['Blogs', 'Footwear'];
  const table_of = (name) => `To${name.replace(/ /g, '')}`;
  await suite.open({
    jobs: (store, from = near(store), to = far(store)) => ({
      ...Object.fromEntries(Object.entries(SHAPES).map(([name, [more]]) => [
        name.replace(/ /g, '-'), migrate([from, 'Blogs'],
            [to, table_of(name)], 'month', {verify: true, ...more}),
      ])),
      'footwear': {
        kind: 'migrate', from: {table: 'Footwear'}, verify: true, to: [
          {store: to.name, table: 'Index', row_key: 'size:{Size:02}_{Model}'},
          {store: to.name, table: 'Index', row_key: 'model:{Model}_{Size:02}'},
          {store: to.name, table: 'Everything', partition_key: 'all',
            row_key: '{PartitionKey}_{RowKey}'},
        ],
      },
      'stripped': migrate([from, 'Blogs'], [to, 'Stripped'], 'week',
          {strip: true, verify: true}),
      'chosen': migrate([from, 'Blogs'], [to, 'Chosen'], 'rating', {
        args: ['channel'], provenance: 'Origin', verify: true,
        from: {table: 'Blogs', partition_key: '{channel}', filter: 'Rating ge 4'},
      }),
    }), tables, worker: PATIENT,
  });
  const {store} = suite, to = far(store);
  const all = blogs(count);
  const by = (design) => all.map((entity) => copy_of(design, entity));
  await store.insert('Blogs', all);

  for (const [name, [, makes]] of Object.entries(SHAPES))
    await suite.judge(`properties: ${name}`, async () => {
      const {ledger} = await run(suite, name.replace(/ /g, '-'));
      holds(table_of(name), by('month').map(makes),
          await to.store.read(table_of(name)));
      verified(ledger, count);
    });
  await suite.judge('three copies of each source', async () => {
    const shoes = Array.from({length: 240}, (_, n) => ({
      PartitionKey: `brand${n % 3}`, RowKey: `${n}`, Size: n % 20 + 30,
      Model: `m${Math.floor(n / 20)}`,
    }));
    await store.insert('Footwear', shoes);
    const {ledger} = await run(suite, 'footwear');
    holds('Index', shoes.flatMap((shoe) => [
      {...shoe, RowKey: `size:${shoe.Size}_${shoe.Model}`},
      {...shoe, RowKey: `model:${shoe.Model}_${shoe.Size}`},
    ]), await to.store.read('Index'));
    holds('Everything', shoes.map((shoe) => ({
      ...shoe, PartitionKey: 'all', RowKey: `${shoe.PartitionKey}_${shoe.RowKey}`,
    })), await to.store.read('Everything'));
    assert.strictEqual(ledger.EntitiesWritten, 3 * shoes.length);
    verified(ledger, 3 * shoes.length);
    assert.strictEqual((await run(suite, 'footwear')).ledger.EntitiesWritten, 0);
  });
  await suite.judge('strip leaves no provenance, and nothing to do again',
      async () => {
        for (let again = 0; again < 2; again++) {
          const {ledger} = await run(suite, 'stripped');
          const found = await to.store.read('Stripped');
          assert.strictEqual(differ('Stripped', by('week'), found), '');
          if (again) assert.strictEqual(ledger.EntitiesWritten, 0);
          verified(ledger, count);
        }
      });
  await suite.judge('a selection, by an argument and a filter', async () => {
    const {PartitionKey: channel} = all[0];
    const chosen = all.filter(
        (e) => e.PartitionKey === channel && e.Rating >= 4);
    assert.ok(chosen.length > 0);
    const {ledger} = await run(suite, 'chosen', 0, [`channel=${channel}`]);
    const found = await to.store.read('Chosen');
    assert.strictEqual(differ('Chosen',
        chosen.map((e) => copy_of('rating', e)), bare(found, 'Origin')), '');
    for (const {Origin} of found)
      assert.strictEqual(JSON.parse(Origin).job, 'chosen');
    verified(ledger, chosen.length);
  });
  await suite.judge('the sources are as they were', async () =>
    assert.strictEqual(differ('Blogs', all, await store.read('Blogs')), ''));
}

// ---- what cannot be copied ----

const wide = (names) => Object.fromEntries(
    Array.from({length: names}, (_, i) => [`P${i}`, i]));
const near_1_mib = Object.fromEntries(
    Array.from({length: 16}, (_, i) => [`Fill${i}`, 'F'.repeat(32000)]));

// Sources that cannot be copied: [the source, why].
const UNFIT = [
  [{Slug: 'a/b'}, /\/|forbid|character/i],
  [{Slug: 'a\\b'}, /\\|forbid|character/i],
  [{Slug: 'a#b'}, /#|forbid|character/i],
  [{Slug: 'a?b'}, /\?|forbid|character/i],
  [{Slug: 'a\tb'}, /forbid|character|control/i],
  [{Slug: 'k'.repeat(600)}, /512|1 KiB|1024|long/i],
  [{}, /Slug/],
  [{Slug: 5}, /Slug/],
  [{Slug: 's', New: 'is there', Old: 'o'}, /New/],
  [{Slug: 'wide', ...wide(251)}, /252|properties/],
  [{Slug: 'large', ...near_1_mib, More: 'F'.repeat(11600)},
    /1 MiB|large|bytes/],
];

// Goal: a source that cannot be copied is told of, with keys and reason, and
// stays where it is, also in a move; the rest goes on, and the run ends 1.
async function refusals(suite) {
  const job = (table, store, more) => ({
    kind: 'migrate', from: {table}, properties: {rename: {Old: 'New'}},
    to: {
      store: far(store).name, table: `${table}To`,
      partition_key: '{lower(Slug)}', row_key: '{PartitionKey} {RowKey}',
    }, ...more,
  });
  await suite.open({
    jobs: (store) => ({
      'copied': job('Copied', store), 'moved': job('Moved', store,
          {mode: 'move', verify: true}),
      'itself': {
        kind: 'migrate', from: {table: 'Itself', filter: 'Rating ge 3'},
        to: {table: 'Itself', partition_key: '{PartitionKey}_copy'},
        properties: {set: {Rating: {type: 'Edm.Int32', value: '{Next}'}}},
      },
    }), tables: ['Copied', 'Moved', 'Itself'], worker: PATIENT,
  });
  const {store} = suite, to = far(store);
  const good = Array.from({length: 300}, (_, n) => ({
    PartitionKey: `p${n % 3}`, RowKey: `good${n}`, Slug: `s${n % 7}`, Old: `o${n}`,
  }));
  const bad = UNFIT.map(([entity, why], n) =>
    [{PartitionKey: `p${n % 3}`, RowKey: `bad${n}x`, ...entity}, why]);
  const left = bad.map(([entity]) => entity);
  const copies = good.map(({Old, ...e}) => ({
    ...e, New: Old, PartitionKey: e.Slug, RowKey: `${e.PartitionKey} ${e.RowKey}`,
  }));
  for (const [job, table] of [['copied', 'Copied'], ['moved', 'Moved']]) {
    await store.insert(table, [...good, ...left]);
    await suite.judge(`what cannot be ${job} is told, the rest is ${job}`,
        async () => {
          for (let again = 0; again < 2; again++) {
            const {log, ledger} = await run(suite, job, 1);
            holds(`${table}To`, copies, await to.store.read(`${table}To`));
            assert.strictEqual(differ(table,
                job === 'copied' ? [...good, ...left] : left,
                await store.read(table)), '');
            assert.strictEqual(ledger.State, 'failed');
            assert.strictEqual(ledger.EntitiesFailed, left.length);
            assert.strictEqual(
                ledger.EntitiesWritten, again ? 0 : good.length);
            tells_of(bad, log);
            assert.ok(left.some((e) => ledger.Error.includes(e.RowKey)));
            assert.ok(!log.includes('is there'), 'a value is in the log');
          }
        });
  }
  await suite.judge('a copy that the same pass would take for a source',
      async () => {
        const of = (n, Rating, Next) =>
          ({PartitionKey: 'p', RowKey: `x${n}x`, Rating, Next});
        const loops = [of(1, 3, 3), of(2, 4, 5)];
        const ends = [of(3, 3, 2), of(4, 5, 0)];
        const spared = [of(5, 1, 5)];
        await store.insert('Itself', [...loops, ...ends, ...spared]);
        const {log, ledger} = await run(suite, 'itself', 1);
        assert.strictEqual(ledger.EntitiesFailed, loops.length);
        assert.deepStrictEqual(missing_in(log, loops), []);
        holds('Itself', [...loops, ...ends, ...spared, ...ends.map(
            (e) => ({...e, PartitionKey: 'p_copy', Rating: e.Next}))],
        await store.read('Itself'));
      });
  if (near(store).embedded) await wrong_jobs(suite);
}

// tells_of: an error unless there is a line for each, with keys and reason.
function tells_of(bad, text) {
  const lines = text.split('\n');
  for (const [entity, why] of bad) {
    const line = lines.find((l) => l.includes(entity.RowKey));
    assert.ok(line, `${entity.RowKey} is not told of: ${tail(text)}`);
    assert.ok(line.includes(entity.PartitionKey), line);
    assert.match(line, why);
  }
}

// What a configuration may not say: [the job's additions, what is said of it].
const WRONG = {
  'its own table': [{to: {table: 'Blogs', partition_key: 'x{PartitionKey}'}},
    /Blogs/],
  'its own table, in another case':
    [{to: {table: 'blogs', partition_key: 'x{PartitionKey}'}}, /[Bb]logs/],
  'no destination': [{to: undefined}, /\bto\b/],
  'an empty list of destinations': [{to: []}, /\bto\b/],
  'no source': [{from: undefined}, /\bfrom\b/],
  'an unknown store':
    [{to: {table: 'To', store: 'mian', row_key: 'x'}}, /mian.*main/],
  'an unknown on_conflict': [{on_conflict: 'replcae'}, /replcae.*replace/],
  'an unknown mode': [{mode: 'moev'}, /moev.*move/],
  'an unknown key': [{verfy: true}, /verfy.*verify/],
  'a broken template':
    [{to: {table: 'To', row_key: '{9999 - yaer(CreatedOn)}'}}, /yaer.*year/],
  'the same kept and dropped':
    [{properties: {keep: ['A'], drop: ['A']}}, /\bA\b/],
  'two properties of one name':
    [{properties: {rename: {A: 'C', B: 'C'}}}, /\bC\b/],
  'a key for a property': [{properties: {set: {RowKey: 'x'}}}, /RowKey/],
  'the provenance for a property':
    [{properties: {set: {TablewardSource: 'x'}}}, /TablewardSource/],
  'a value of another type':
    [{properties: {set: {A: {type: 'Edm.Guid', value: 'no'}}}}, /Guid/],
  'a forbidden name for the provenance': [{provenance: 'a-b'}, /a-b/],
  'max_passes: 0': [{max_passes: 0}, /max_passes/],
};

// Goal: each of them is found when the configuration is loaded, with its place.
async function wrong_jobs(suite) {
  for (const [what, [more, why]] of Object.entries(WRONG))
    await suite.judge(`check refuses ${what}`, async () => {
      const file = suite.program.configure({
        ...suite.configuration, jobs: {
          wrong: {
            kind: 'migrate', from: {table: 'Blogs'},
            to: {table: 'To', partition_key: 'x{PartitionKey}'}, ...more,
          },
        },
      }, 'wrong.yaml');
      const {code, log} = await suite.program.run(
          ['--config', file, 'check'], {env: suite.environment});
      assert.strictEqual(code, 78, tail(log));
      assert.match(log, why);
      assert.match(log, /wrong\.yaml:\d+:\d+/);
    });
}

// ---- dry run, what is left over, what is late ----

// Goal: a dry run counts and only reads; what has changed at the source since a
// run is brought up to date by the next; copies whose source is gone since, and
// those that somebody has changed, are left, counted and told of.
async function comparing(suite, count) {
  await suite.open({
    jobs: (store, from = near(store), to = far(store)) => ({
      'by-month': migrate(
          [from, 'Blogs'], [to, 'ByMonth'], 'month', {verify: true}),
      'unverified': migrate(
          [from, 'Blogs'], [to, 'Unverified'], 'month', {verify: false}),
      'moved': migrate([from, 'Blogs'], [to, 'Moved'], 'month', {mode: 'move'}),
    }), tables: ['Blogs'], worker: PATIENT,
  });
  const {store} = suite, to = far(store);
  const all = blogs(count);
  const copies = () => all.map((entity) => copy_of('month', entity));
  await store.insert('Blogs', all);
  const change = (n, entity) => {
    all[n] = entity;
    return store.overwrite('Blogs', entity);
  };

  for (const job of ['by-month', 'moved'])
    await suite.judge(`a dry run of ${job} counts, and only reads`, async () => {
      const first = store.proxy && store.proxy.requests.length;
      const {code, out, log} = await suite.command(['run', job, '--dry-run']);
      assert.strictEqual(code, 0, log);
      assert.ok(out.replace(/,/g, '').includes(String(count)), out);
      for (const word of ['Blogs', 'dollar|\\$', 'transaction'])
        assert.match(out, new RegExp(word, 'i'));
      if (store.proxy)
        assert.deepStrictEqual(store.proxy.requests.slice(first)
            .filter((r) => r.method !== 'GET').map((r) => r.url), []);
      assert.strictEqual((await store.runs()).length, 0);
      assert.strictEqual(differ('Blogs', all, await store.read('Blogs')), '');
    });
  await suite.judge('without --yes and without a terminal nothing is done',
      async () => {
        const {code} = await suite.command(['run', 'moved']);
        assert.strictEqual(code, 64);
        assert.strictEqual(differ('Blogs', all, await store.read('Blogs')), '');
      });
  let said;
  await suite.judge('the comparison is in the ledger, and status shows it',
      async () => {
        const {ledger} = await run(suite, 'by-month');
        said = verified(ledger, count);
        const id = ledger.Id;
        const shown = await suite.command(['status', id]);
        assert.ok(shown.out.includes(said.source), shown.out);
        const json = await suite.command(['status', id, '--json']);
        assert.deepStrictEqual(
            JSON.parse(JSON.parse(json.out)[0].Verification), said);
        await run(suite, 'unverified');
      });
  await suite.judge('what has changed, come or moved on is brought up to date',
      async () => {
        await change(0, {...all[0], Title: 'changed'});
        await change(1, {...all[1], Rating: '5'});
        await store.insert('Blogs', [all[count] = blog(count)]);
        const before = etags(await to.store.read('ByMonth'));
        const {ledger} = await run(suite, 'by-month');
        const found = await to.store.read('ByMonth');
        holds('ByMonth', copies(), found);
        assert.strictEqual(ledger.EntitiesWritten, 3);
        untouched(before, found, copies().slice(2, count));
        const now = verified(ledger, count + 1);
        assert.notStrictEqual(now.source, said.source);
      });
  // Goal: a copy of an earlier run, whose source is gone, is a surplus: counted
  // and left; with verify that is an error. Others' entities are none.
  await suite.judge('a surplus is counted, with keys, and fails a verify',
      async () => {
        const gone = [copy_of('month', all[2]), copy_of('month', all[3])];
        for (const n of [2, 3]) await remove(suite, 'Blogs', all[n]);
        all.splice(2, 2);
        const foreign = {PartitionKey: 'theirs', RowKey: '1', A: 1};
        await to.store.insert('ByMonth', [foreign]);
        const {log, ledger} = await run(suite, 'by-month', 1);
        const end = [...copies(), ...gone, foreign];
        holds('ByMonth', end, await to.store.read('ByMonth'));
        const now = JSON.parse(ledger.Verification);
        assert.strictEqual(now.surplus, 2, ledger.Verification);
        for (const {RowKey} of gone)
          assert.ok(ledger.Verification.includes(RowKey), ledger.Verification);
        assert.match(log, /2/);
        const unverified = await run(suite, 'unverified');
        assert.strictEqual(unverified.ledger.EntitiesDeleted, 0);
        for (const entity of gone)
          await remove(suite, 'ByMonth', entity, to.store);
        verified((await run(suite, 'by-month')).ledger, all.length, 1);
      });
  await suite.judge('a copy that somebody has changed is left and told of',
      async () => {
        const changed = {...copy_of('month', all[5]), Title: 'by somebody'};
        const {[PROVENANCE]: told} = (await to.store.read('ByMonth'))
            .find((e) => key(e) === key(changed));
        await to.store.overwrite('ByMonth', {...changed, [PROVENANCE]: told});
        const {ledger} = await run(suite, 'by-month');
        const end = copies();
        end[5] = changed;
        const foreign = {PartitionKey: 'theirs', RowKey: '1', A: 1};
        holds('ByMonth', [...end, foreign], await to.store.read('ByMonth'));
        assert.strictEqual(ledger.EntitiesWritten, 0);
        const said = JSON.parse(ledger.Verification);
        assert.notStrictEqual(said.source, said.destination);
        assert.strictEqual(said.changed, 1, ledger.Verification);
        assert.ok(ledger.Verification.includes(changed.RowKey));
      });
}

// remove: an entity, by a front end.
async function remove(suite, table, {PartitionKey, RowKey}, store = suite.store) {
  suite.fronts = suite.fronts || new Map();
  if (!suite.fronts.has(store))
    suite.fronts.set(store, await store.front(['Blogs', 'ByMonth']));
  await suite.fronts.get(store).client(table)
      .deleteEntity(PartitionKey, RowKey);
}

const BOTH = ['azurite', 'embedded'];
const ALL = [...BOTH, 'between'];
module.exports = [
  {
    name: 'migrate shapes', stores: ALL, seconds: 10,
    body: (suite) => shapes(suite, 200),
  },
  {name: 'migrate refusals', stores: BOTH, seconds: 6, body: refusals},
  {
    name: 'migrate comparing', stores: ALL, seconds: 8,
    body: (suite) => comparing(suite, 300),
  },
];
