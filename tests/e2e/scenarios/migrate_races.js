// SPDX-License-Identifier: MIT
// Migrations of a table that an application goes on writing to, somebody who
// steps in at the worst moment, and moves whose worker is killed, under the
// eyes of a reader.
'use strict';

const assert = require('assert');
const migrations = require('../lib/migrations');
const {
  counts, operations, undisturbed, sweep, time_of, kill_in_time,
} = require('../lib/kills');
const {differ, key} = require('../lib/model');
const {random, seed_of_run, sleep, until} = require('../lib/wait');
const {again, done, is_write, run} = require('../lib/runs');
const {for_sdk} = require('../lib/store_azurite');
const {
  PROVENANCE, PATIENT, moment, blog, blogs, copy_of, near, far, migrate, holds,
} = migrations;

const at = ({PartitionKey, RowKey}) => [PartitionKey, RowKey];

// ---- a reader ----

// Looks at the source, then at the destination, time and again: what is in
// neither, of those that nobody deletes, was lost for an instant. An entity is
// known by its Number, whatever its keys are.
class Reader {
  // from, to: {front, table}; stays(n): is the n-th one of those?
  constructor(from, to, count, stays = () => true) {
    Object.assign(this, {from, to, over: false, looks: 0, lost: []});
    this.stay = Array.from({length: count}, (_, n) => n).filter(stays);
  }

  async read() {
    while (!this.over) {
      const seen = new Set();
      for (const {front, table} of [this.from, this.to])
        for (const {Number: {text}} of await front.read(table))
          seen.add(Number(text));
      const lost = this.stay.filter((n) => !seen.has(n));
      if (lost.length > 0) this.lost.push(lost.slice(0, 3).join(' '));
      this.looks++;
      await sleep(5);
    }
  }

  // during: what `work` returns; an error if anything was lost meanwhile.
  async during(work) {
    const reading = this.read();
    reading.catch(() => {});
    let result;
    try {
      result = await work();
    } finally {
      this.over = true;
      await reading;
    }
    assert.deepStrictEqual(this.lost.slice(0, 3), []);
    assert.ok(this.looks > 1, `${this.looks} looks`);
    return result;
  }
}

// ---- writers ----

const zeros = {W0: 0, W1: 0, W2: 0, W3: 0};

// as: the n-th blog with its counters and the time that decides its new keys.
const as = (n, {counters, time}) => ({...blog(n, moment(time)), ...counters});

// An application that writes where it finds an entity: at the source, else,
// when it is being moved, where the move puts it. Of eight entities four are
// everybody's, and four belong to one writer each; nobody deletes the former.
// stored: what acknowledged writes left behind, by number.
class Application {
  constructor(source, copies, draw, count, ways) {
    Object.assign(this, {source, copies, draw, count, ways});
    this.next = count;
    this.stored = new Map(Array.from(
        {length: count}, (_, n) => [n, {counters: {...zeros}, time: n}]));
    this.done = {
      update: 0, replace: 0, shift: 0, insert: 0, delete: 0, moved: 0, refused: 0,
    };
  }

  // write: writer i goes on until it is enough.
  async write(i) {
    while (!this.enough()) {
      const way = this.ways[this.draw(this.ways.length)];
      try {
        if (await this[way](i)) this.done[way]++;
      } catch (error) {
        // Somebody was faster, or it is gone: not acknowledged.
        if (![404, 409, 412].includes(error.statusCode)) throw error;
        this.done.refused++;
      }
    }
  }

  // of: a number; everybody's, or writer i's own.
  of(i, own) {
    const n = this.draw(Math.floor(this.count / 8)) * 8;
    return own ? n + 4 + i : n + this.draw(4);
  }

  // find: where the n-th is now: {client, entity}. Nobody else deletes it, so
  // it cannot be nowhere.
  async find(n) {
    const [p, r] = at(migrations.keys(n));
    const there = at(copy_of('month', as(n, this.stored.get(n))));
    try {
      return {client: this.source, entity: await this.source.getEntity(p, r)};
    } catch (error) {
      if (error.statusCode !== 404 || !this.copies)
        throw new Error(`entity ${n} at the source: ${error.message}`);
    }
    try {
      const entity = await this.copies.getEntity(...there);
      this.done.moved++;
      return {client: this.copies, entity};
    } catch (error) {
      throw new Error(`entity ${n} is nowhere: ${error.message}`);
    }
  }

  // update: everybody counts up, each a counter of its own: merged, with the
  // ETag that was read.
  async update(i) {
    const n = this.of(i, false), {client, entity} = await this.find(n);
    await client.updateEntity({
      partitionKey: entity.partitionKey, rowKey: entity.rowKey,
      [`W${i}`]: entity[`W${i}`] + 1,
    }, 'Merge', {etag: entity.etag});
    this.stored.get(n).counters[`W${i}`]++;
    return true;
  }

  // replace: everybody's, or its own, as a whole; the application knows nothing
  // of provenance.
  async replace(i) {
    const n = this.of(i, this.draw(2) === 0), state = this.stored.get(n);
    if (state === undefined) return false;
    const {client, entity} = await this.find(n);
    const {W0, W1, W2, W3, etag, partitionKey, rowKey} = entity;
    const counters = {W0, W1, W2, W3};
    counters[`W${i}`]++;
    await client.updateEntity(
        {...for_sdk(as(n, {counters, time: state.time})), partitionKey, rowKey},
        'Replace', {etag});
    state.counters[`W${i}`]++;
    return true;
  }

  // shift: its own gets another time, and so its copy other keys; only as long
  // as it is at the source.
  async shift(i) {
    const n = this.of(i, true), state = this.stored.get(n);
    if (state === undefined) return false;
    const time = state.time + this.count * 16 + 1; // nobody else's
    const [p, r] = at(migrations.keys(n));
    const {etag} = await this.source.getEntity(p, r);
    await this.source.updateEntity(
        for_sdk(as(n, {...state, time})), 'Replace', {etag});
    state.time = time;
    return true;
  }

  // insert: a new one, or one that it has deleted.
  async insert(i) {
    const n = this.of(i, true);
    const back = this.stored.has(n) ? this.next++ : n;
    const state = {counters: {...zeros}, time: back};
    await this.source.createEntity(for_sdk(as(back, state)));
    this.stored.set(back, state);
    return true;
  }

  // delete: its own, from wherever it is.
  async delete(i) {
    const n = this.of(i, true);
    if (!this.stored.has(n)) return false;
    const {client, entity} = await this.find(n);
    await client.deleteEntity(
        entity.partitionKey, entity.rowKey, {etag: entity.etag});
    this.stored.delete(n);
    return true;
  }

  // sources_now: what there is, as it would stand at the source.
  sources_now() {
    return [...this.stored].map(([n, state]) => as(n, state));
  }
}

const WAYS_TO_WRITE = ['update', 'update', 'replace', 'replace', 'shift',
  'insert', 'delete'];

// while_writing: runs of a job, one after the other, until one began after the
// writers had stopped. there(): are there copies?
async function while_writing(suite, app, job, there, seconds, seed) {
  // What has been moved cannot get other keys any more.
  const wanted = app.copies ? ['update', 'insert', 'moved'] : app.ways;
  let stopped = false, runs = 0, passes = 0;
  let began;
  app.enough = () => began && Date.now() - began > seconds * 1000 &&
      wanted.every((way) => app.done[way] > 0);
  // Only what is done while there are copies already is in the way.
  const watching = until('there are copies', there, 120000).then(() => {
    began = Date.now();
    for (const way of wanted) app.done[way] = 0;
  });
  watching.catch(() => (app.enough = () => true));
  const writing = Promise.all([0, 1, 2, 3].map((i) => app.write(i)))
      .finally(() => (stopped = true));
  writing.catch(() => {});
  let last, id;
  do {
    last = stopped;
    const {ledger} = await done(suite, job);
    id = ledger.Id;
    passes += ledger.Passes;
    runs++;
  } while (!last);
  await watching;
  await writing;
  console.log(`    (seed ${seed}: ${JSON.stringify(app.done)} in ${passes} ` +
      `passes of ${runs} runs)`);
  return {id, passes};
}

// application: a table of blogs with counters, and one that writes it.
async function application(suite, mode, count, ways) {
  await suite.open({
    jobs: (store) => ({
      job: migrate([near(store), 'Blogs'], [far(store), 'ByMonth'], 'month',
          {mode, max_passes: 1000, verify: mode === 'move'}),
    }), tables: ['Blogs'], worker: PATIENT,
  });
  const {store} = suite, seed = seed_of_run();
  await far(store).store.create('ByMonth');
  await store.insert('Blogs', Array.from({length: count},
      (_, n) => as(n, {counters: zeros, time: n})));
  const here = await store.front(store.cloud ? ['Blogs'] : ['Blogs', 'ByMonth']);
  const there = store.cloud || here;
  const app = new Application(here.client('Blogs'),
      mode === 'move' && there.client('ByMonth'), random(seed), count, ways);
  const copied = async () => (await there.read('ByMonth')).length > 0;
  return {app, here, there, seed, copied};
}

// Goal: four writers update, replace, give other keys, insert and delete while
// the copy goes on: every acknowledged write is at the destination, once.
async function copy_writers(suite, count, seconds) {
  const {app, here, there, seed, copied} =
      await application(suite, 'copy', count, WAYS_TO_WRITE);
  await suite.judge('four writers during a copy', async () => {
    const {id, passes} =
        await while_writing(suite, app, 'job', copied, seconds, seed);
    assert.ok(passes > 1, `${passes} passes: nobody was in the way`);
    holds('Blogs', app.sources_now(), await here.read('Blogs'), `seed ${seed}`);
    const wanted = app.sources_now().map((e) => copy_of('month', e));
    const keys = new Set(wanted.map(key));
    const found = await there.read('ByMonth');
    // What an earlier run wrote, whose source has gone since, is its surplus.
    const over = found.filter((e) => !keys.has(key(e)));
    for (const copy of over)
      assert.notStrictEqual(JSON.parse(copy[PROVENANCE]).run, id,
          `seed ${seed}: ${key(copy)}`);
    console.log(`    (${over.length} left of earlier runs)`);
    holds('ByMonth', wanted, found.filter((e) => keys.has(key(e))),
        `seed ${seed}`);
  });
}

// Goal: the same for a move, whose application also writes what has been moved
// already; a reader that looks at the source, then at the destination, finds
// every entity at every look.
async function move_writers(suite, count, seconds, ways = WAYS_TO_WRITE) {
  const {app, here, there, seed, copied} =
      await application(suite, 'move', count, ways);
  await suite.judge('four writers and a reader during a move', async () => {
    const reader = new Reader({front: here, table: 'Blogs'},
        {front: there, table: 'ByMonth'}, count, (n) => n % 8 < 4);
    const {passes} = await reader.during(
        () => while_writing(suite, app, 'job', copied, seconds, seed));
    console.log(`    (${reader.looks} looks)`);
    assert.ok(passes > 1, `${passes} passes: nobody was in the way`);
    assert.strictEqual((await here.read('Blogs')).length, 0);
    holds('ByMonth', app.sources_now().map((e) => copy_of('month', e)),
        await there.read('ByMonth'), `seed ${seed}`);
  });
}

// ---- one who steps in between ----

// once: step() at the first request for which `which` holds, and no more.
function once(proxy, which, step, hook = 'before') {
  const seen = {done: false};
  proxy[hook] = async (request) => {
    if (seen.done || !which(request)) return;
    seen.done = true;
    return await step(request);
  };
  return seen;
}

const write_to = (table) => (request) =>
  is_write(request) && request.table === table;

// page_after_write_to: the first page of `table` after that, which is a look.
function page_after_write_to(other, table) {
  let written = false;
  return (request) => {
    written = written || write_to(other)(request);
    return written && request.kind === 'page' && request.table === table;
  };
}

// A move, but where it says otherwise.
const TRIED = {
  Changed: {}, Gone: {}, Shifted: {}, CopyGone: {mode: 'copy'},
  CopyKept: {mode: 'copy', verify: false}, Replaced: {mode: 'copy', on_conflict: 'replace'},
  Merged: {mode: 'copy', on_conflict: 'merge'},
};

// Goal: whatever is done to a source or a copy between two steps of a copy or a
// move, it ends as if it had been done before or after.
async function between(suite) {
  await suite.open({
    jobs: (store) => Object.fromEntries(
        Object.entries(TRIED).map(([name, more]) => [
          name.toLowerCase(), migrate([near(store), name],
              [near(store), `${name}To`], 'line', {mode: 'move', ...more}),
        ])),
    tables: Object.keys(TRIED).flatMap((name) => [name, `${name}To`]),
    worker: PATIENT,
  });
  const {store} = suite, {proxy} = store;
  const all = blogs(90).map((entity) => ({...entity, PartitionKey: 'p'}));
  const without = (n) => all.filter((_, i) => i !== n);
  const copies = (entities) => entities.map((e) => copy_of('line', e));
  const remove = (table, entity) =>
      store.client(table).deleteEntity(...at(entity));
  const merge = (table, {PartitionKey, RowKey}, more) =>
      store.client(table).updateEntity(
          {partitionKey: PartitionKey, rowKey: RowKey, ...more}, 'Merge');

  // tried: a run of the job while `step` waits for its moment, and what is
  // there afterwards.
  const tried = async (name, which, step, hook) => {
    await store.insert(name, all);
    const seen = once(proxy, which, step, hook);
    try {
      const {ledger} = await run(suite, name.toLowerCase());
      assert.ok(seen.done, 'the moment did not come');
      assert.strictEqual(ledger.EntitiesFailed, 0);
      return {
        left: await store.read(name), found: await store.read(`${name}To`),
      };
    } finally {
      proxy.before = async () => {};
      proxy.after = async () => {};
    }
  };

  await suite.judge('a source that is changed after it was copied', async () => {
    const now = {...all[7], Title: 'changed', Rating: 9};
    const {left, found} = await tried('Changed', write_to('Changed'),
        () => store.overwrite('Changed', now));
    assert.deepStrictEqual(left, []);
    holds('ChangedTo', copies([...without(7), now]), found);
  });
  await suite.judge('a source that is deleted after it was copied', async () => {
    const {left, found} = await tried('Gone', write_to('Gone'),
        () => remove('Gone', all[7]));
    assert.deepStrictEqual(left, []);
    holds('GoneTo', copies(without(7)), found);
  });
  await suite.judge('a source whose copy gets other keys after it was copied',
      async () => {
        const now = {...all[7], CreatedOn: moment(7007)};
        const {left, found} = await tried('Shifted', write_to('Shifted'),
            () => store.overwrite('Shifted', now));
        assert.deepStrictEqual(left, []);
        holds('ShiftedTo', copies([...without(7), now]), found);
      });
  await suite.judge('a source that is deleted during a copy', async () => {
    const {left, found} = await tried('CopyGone', write_to('CopyGoneTo'),
        () => remove('CopyGone', all[7]), 'after');
    assert.strictEqual(differ('CopyGone', without(7), left), '');
    holds('CopyGoneTo', copies(without(7)), found);
  });
  await suite.judge('a copy that somebody has changed outlives its source',
      async () => {
        const mine = {...copy_of('line', all[7]), Title: 'mine'};
        const {left, found} = await tried('CopyKept',
            page_after_write_to('CopyKeptTo', 'CopyKept'), async () => {
              await merge('CopyKeptTo', mine, {Title: 'mine'});
              await remove('CopyKept', all[7]);
            });
        assert.strictEqual(differ('CopyKept', without(7), left), '');
        holds('CopyKeptTo', [...copies(without(7)), mine], found);
      });
  for (const [name, more] of [['Replaced', {}], ['Merged', {Late: 1}]])
    await suite.judge('what is in the way and is changed meanwhile is ' +
        name.toLowerCase(), async () => {
      const copy = copy_of('line', all[7]);
      const {PartitionKey, RowKey} = copy;
      await store.insert(`${name}To`, [{PartitionKey, RowKey, Title: 'other'}]);
      const {found} = await tried(name, write_to(`${name}To`),
          () => merge(`${name}To`, copy, {Late: 1}));
      holds(`${name}To`, [...copies(without(7)), {...more, ...copy}], found);
    });
}

// ---- answers that are lost ----

// [mode, the design, to which side the answer is lost]
const LOST = {
  CopyOfCopy: ['copy', 'hash', 'To'], CopyOfMove: ['move', 'hash', 'To'],
  Delete: ['move', 'hash', ''], ShiftedCopy: ['copy', 'line', 'To'],
  ShiftedMove: ['move', 'line', 'To'], ShiftedDelete: ['move', 'line', ''],
};

// Goal: nobody knows of a batch whether it took effect; the application gives
// a source other keys, changes another, and takes one away. Each entity is
// stored once in the end, as the application left it.
async function lost_answers(suite) {
  const cases = Object.entries(LOST).flatMap(([name, [mode, design, side]]) =>
    ['Before', 'After'].map((when) =>
      ({table: name + when, mode, design, side, when: when.toLowerCase()})));
  await suite.open({
    jobs: (store) => Object.fromEntries(cases.map(({table, mode, design}) => [
      table.toLowerCase(),
      migrate([near(store), table], [near(store), `${table}To`], design, {mode}),
    ])),
    tables: cases.flatMap(({table}) => [table, `${table}To`]),
  });
  const {store} = suite, {proxy} = store;
  const all = blogs(90).map((entity) => ({...entity, PartitionKey: 'p'}));
  for (const {table, mode, design, side, when} of cases)
    await suite.judge(`an answer is lost: ${table}`, async () => {
      await store.insert(table, all);
      const now = [...all];
      const seen = once(proxy, write_to(`${table}${side}`), async () => {
        // Once a delete took effect nothing is left to be changed.
        if (side === '' && when === 'after') return 'lose';
        now[3] = {...all[3], CreatedOn: moment(3003)};
        now[5] = {...all[5], Title: 'changed'};
        for (const n of [3, 5]) await store.overwrite(table, now[n]);
        // A delete that meets a lost answer of a move may be undone.
        if (mode === 'copy')
          await store.client(table).deleteEntity(...at(now.splice(4, 1)[0]));
        return 'lose';
      }, when);
      try {
        const {ledger} = await again(suite, table.toLowerCase());
        assert.ok(seen.done, 'the moment did not come');
        assert.strictEqual(ledger.EntitiesFailed, 0);
      } finally {
        proxy.before = async () => {};
        proxy.after = async () => {};
      }
      assert.strictEqual(differ(
          table, mode === 'copy' ? now : [], await store.read(table)), '');
      holds(`${table}To`, now.map((e) => copy_of(design, e)),
          await store.read(`${table}To`));
    });
}

// ---- kills ----

// two_tables: a clean one and one whose move is killed time and again.
async function two_tables(suite, count, design) {
  await suite.open({
    jobs: (store) => Object.fromEntries(['Clean', 'Swept'].map((table) => [
      table.toLowerCase(), migrate([near(store), table],
          [far(store), `${table}To`], design, {mode: 'move', verify: true}),
    ])), tables: ['Clean', 'Swept', 'CleanTo', 'SweptTo'], worker: {
      visibility_timeout: '2s', lanes: 4,
      max_attempts: 100, // after which those that were killed are spaced
    },
  });
  const all = blogs(count);
  for (const table of ['Clean', 'Swept']) await suite.store.insert(table, all);
  const front = await suite.store.front(['Clean', 'Swept', 'CleanTo', 'SweptTo']);
  return {all, front, copies: all.map((e) => copy_of(design, e))};
}

// watched: what happens to Swept while a reader looks on, and how it ends.
async function watched(suite, {all, copies, front}, seed, work) {
  const reader = new Reader({front, table: 'Swept'}, {front, table: 'SweptTo'},
      all.length);
  const {store} = suite, id = await store.enqueue('swept', {});
  await reader.during(() => store.hurrying ? store.hurrying(work) : work());
  const ledger = await suite.ended(id, 'succeeded');
  assert.strictEqual((await front.read('Swept')).length, 0, `seed ${seed}`);
  holds('SweptTo', copies, await front.read('SweptTo'), `seed ${seed}`);
  return {ledger, looks: reader.looks};
}

// Goal: killed at requests drawn from the clean count, a move ends as one
// undisturbed run, and no reader ever misses an entity.
async function kills(suite, count, times, design) {
  const tables = await two_tables(suite, count, design);
  let clean;
  await suite.judge(`a clean move of ${count} entities`, async () => {
    clean = await undisturbed(suite, 'clean');
    assert.strictEqual(operations(clean.requests), 2 * count);
  });
  if (!clean) return;

  await suite.judge(`${times} kills in a move of ${count} entities`,
      async () => {
        const seed = seed_of_run(), draw = random(seed);
        let made;
        const {ledger, looks} = await watched(suite, tables, seed, async () => {
          made = await sweep(suite, clean, times, seed, draw);
        });
        console.log(`    (seed ${seed}: clean ${clean.requests.length} ` +
            `requests, swept ${made.filter(counts).length}; ` +
            `${ledger.Attempt} attempts, ${looks} looks)`);
      });
}

// Goal: the same, where no request can be seen: killed after a part, drawn, of
// the time that a clean move takes.
async function timed_kills(suite, count, times, design) {
  const tables = await two_tables(suite, count, design);
  let took;
  await suite.judge(`a clean move of ${count} entities`, async () => {
    took = await time_of(suite, 'clean');
  });
  if (!took) return;
  await suite.judge(`${times} kills in a move of ${count} entities`,
      async () => {
        const seed = seed_of_run(), draw = random(seed);
        let killed;
        const {ledger, looks} = await watched(suite, tables, seed, async () => {
          killed = await kill_in_time(
              suite, times, Math.ceil(took / times), draw);
        });
        console.log(`    (seed ${seed}: ${killed} kills in ${took} ms; ` +
            `${ledger.Attempt} attempts, ${looks} looks)`);
        assert.ok(killed > times / 2, `seed ${seed}: ${killed} kills`);
      });
}

const BOTH = ['azurite', 'embedded'];
const ALL = [...BOTH, 'between'];
module.exports = [
  {
    name: 'migrate writers of a copy', stores: BOTH, phase: 2, seconds: 10,
    body: (suite) => copy_writers(suite, 1200, 2),
  },
  {
    name: 'migrate writers of a move', stores: BOTH, phase: 2, seconds: 60,
    body: (suite) => move_writers(suite, 1200, 2),
  },
  {
    name: 'migrate writers of a copy for a minute', stores: ALL, phase: 2,
    long: true, seconds: 90, body: (suite) => copy_writers(suite, 8000, 60),
  },
  {
    name: 'migrate writers of a move for a minute', stores: ALL, phase: 2,
    long: true, seconds: 90, body: (suite) => move_writers(suite, 8000, 60),
  },
  {
    // A lost answer may undo a delete: there is none.
    name: 'migrate writers of a move through faults', stores: ['azsim'],
    phase: 2, long: true, seconds: 90, body: (suite) => move_writers(
        suite, 1200, 15, ['update', 'replace', 'insert']),
  },
  {
    name: 'migrate between', stores: ['azurite'], phase: 2, seconds: 12,
    body: between,
  },
  {
    name: 'migrate lost answers', stores: ['clocked'], phase: 2, seconds: 12,
    body: lost_answers,
  },
  {
    name: 'migrate kills', stores: ['clocked'], phase: 3, seconds: 20,
    body: (suite) => kills(suite, 900, 3, 'month'),
  },
  {
    name: 'migrate kills', stores: ['embedded'], phase: 3, seconds: 20,
    body: (suite) => timed_kills(suite, 3000, 3, 'month'),
  },
  {
    name: 'migrate 30 kills', stores: ['clocked'], phase: 3, long: true,
    seconds: 200, body: (suite) => kills(suite, 6000, 30, 'month'),
  },
  {
    name: 'migrate 30 kills', stores: ['embedded'], phase: 3, long: true,
    seconds: 100, body: (suite) => timed_kills(suite, 16000, 30, 'month'),
  },
  {
    // Each that was killed is followed by a wait of 30 s, by Azurite's clock.
    name: 'migrate kills', stores: ['azurite'], phase: 3, long: true,
    seconds: 200, body: (suite) => kills(suite, 1500, 4, 'month'),
  },
];
