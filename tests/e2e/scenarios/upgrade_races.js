// SPDX-License-Identifier: MIT
// Upgrades of a table to which old and new releases continue to write, and
// upgrades whose worker is killed while a reader reads.
'use strict';

const assert = require('assert');
const upgrades = require('../lib/upgrades');
const {
  counts, operations, undisturbed, sweep, time_of, kill_in_time,
} = require('../lib/kills');
const {canonical, holds, key, list} = require('../lib/model');
const {is_data} = require('../lib/proxy');
const {random, seed_of_run, sleep} = require('../lib/wait');
const {tail} = require('../lib/program');
const {for_sdk} = require('../lib/store_azurite');
const {upgrade, to_2, blog, with_version} = upgrades;

// ---- writers ----

// W0 to W3: how often each of the four writers has incremented an entity.
const counted = (n, counters) => ({...blog(n), ...counters});
const zeros = {W0: 0, W1: 0, W2: 0, W3: 0};

// The writers, and the state of each entity after the acknowledged writes:
// `stored` has the counters by number; a number that is missing was deleted.
class Writers {
  constructor(client, draw, count) {
    Object.assign(this, {client, draw, count, next: count, over: false});
    this.stored = new Map(list(count, (n) => [n, {...zeros}]));
    this.done = {update: 0, replace: 0, insert: 0, delete: 0, refused: 0};
  }

  // write: writer i writes until `over` is set.
  async write(i) {
    const ways = ['update', 'update', 'replace', 'replace', 'insert', 'delete'];
    while (!this.over) {
      const way = ways[this.draw(ways.length)];
      try {
        if (await this[way](i)) this.done[way]++;
      } catch (error) {
        // Another write was faster, or the entity is gone: the write is not
        // acknowledged.
        if (![404, 412].includes(error.statusCode)) throw error;
        this.done.refused++;
      }
    }
  }

  // of: draws the number of an entity: a shared one, or one of writer i alone.
  of(i, own) {
    const n = this.draw(Math.floor(this.count / 8)) * 8;
    return own ? n + 4 + i : n + this.draw(4);
  }

  // update: increments writer i's counter in a shared entity: merges it with
  // the ETag, whatever the entity's version is.
  async update(i) {
    const n = this.of(i, false), at = upgrades.keys(n);
    const {etag, ...read} =
        await this.client.getEntity(at.PartitionKey, at.RowKey);
    const up = {partitionKey: read.partitionKey, rowKey: read.rowKey,
      [`W${i}`]: read[`W${i}`] + 1};
    await this.client.updateEntity(up, 'Merge', {etag});
    this.stored.get(n)[`W${i}`]++;
    return true;
  }

  // replace: replaces a whole entity, as an old or a new release does; both
  // know all counters. A shared entity is replaced with its ETag, an entity of
  // the writer's own without one.
  async replace(i) {
    const own = this.draw(2) === 0, n = this.of(i, own), at = upgrades.keys(n);
    let counters = this.stored.get(n), etag = '*';
    if (own) {
      if (counters === undefined) return false;
      counters = {...counters, [`W${i}`]: counters[`W${i}`] + 1};
    } else {
      const read = await this.client.getEntity(at.PartitionKey, at.RowKey);
      counters = {W0: read.W0, W1: read.W1, W2: read.W2, W3: read.W3};
      counters[`W${i}`]++;
      etag = read.etag;
    }
    const old = counted(n, counters);
    const entity = this.draw(2) ? old : to_2(old);
    await this.insisting(() => this.client.updateEntity(
        for_sdk(entity), 'Replace', {etag}), own);
    if (own) this.stored.set(n, counters);
    else this.stored.get(n)[`W${i}`]++;
    return true;
  }

  // insert: inserts an entity of the old version: a new entity, or one that
  // this writer has deleted before.
  async insert(i) {
    const n = this.of(i, true);
    const back = !this.stored.has(n) ? n : this.next++;
    const old = with_version(counted(back, zeros), 1);
    await this.client.createEntity(for_sdk(old));
    this.stored.set(back, {...zeros});
    return true;
  }

  // delete: deletes an entity of its own, whatever its state; or a shared
  // entity, which no client inserts again.
  async delete(i) {
    const own = this.draw(4) !== 0, n = this.of(i, own), at = upgrades.keys(n);
    if (!this.stored.has(n)) return false;
    let etag = '*';
    if (!own)
      ({etag} = await this.client.getEntity(at.PartitionKey, at.RowKey));
    await this.insisting(() => this.client.deleteEntity(
        at.PartitionKey, at.RowKey, {etag}), own);
    this.stored.delete(n);
    return true;
  }

  // insisting: makes a write. An entity of its own exists and needs no ETag:
  // after a 412, which an upgrade may cause, it writes again; any other error
  // is a failure of the test.
  async insisting(write, own) {
    for (;;)
      try {
        return await write();
      } catch (error) {
        if (!own) throw error;
        if (error.statusCode === 412) continue;
        throw new Error(`a writer's own entity: ${error.message}`);
      }
  }

  // survivors: returns the entities that must exist after the upgrade.
  survivors() {
    return [...this.stored].map(
        ([n, counters]) => to_2(counted(n, counters)));
  }
}

const at_2 = (entity) => entity.SchemaVersion &&
    entity.SchemaVersion.text === '2';

// Goal: four writers update, replace, insert and delete as fast as they can
// while the upgrade runs: no acknowledged write is lost, no deleted entity
// comes back, and all entities are at the new version.
async function writers(suite, count, seconds) {
  await suite.open({
    jobs: {'blogs-v2': upgrade('Blogs', 2)},
    tables: ['Blogs'],
  });
  const {store} = suite;
  const seed = seed_of_run();
  await store.insert('Blogs',
      list(count, (n) => counted(n, zeros)));
  const front = await store.front(['Blogs']);
  const all = new Writers(front.client('Blogs'), random(seed), count);
  const behind = async () =>
    (await front.read('Blogs')).filter((e) => !at_2(e)).length;

  await suite.judge('four writers while an upgrade runs', async () => {
    let stopped = false, passes = 0, runs = 0;
    const writing = Promise.all([0, 1, 2, 3].map((i) => all.write(i)))
        .finally(() => (stopped = true));
    writing.catch(() => {});
    setTimeout(() => (all.over = true), seconds * 1000);
    // A run ends when the writers rest for a moment, and another run follows.
    // The last run begins after the writers have stopped.
    for (let last = false; !last;) {
      last = stopped;
      const id = `run-${++runs}`;
      const ended = await suite.command(['run', 'blogs-v2', '--yes', '--id', id]);
      assert.strictEqual(ended.code, 0, `seed ${seed}: ${tail(ended.log)}`);
      const run = await suite.ended(id, 'succeeded');
      assert.ok(run.Rounds >= 2, `${run.Rounds} rounds`);
      passes += run.Rounds;
      // Writes during its last round may be behind the run (A1, A2).
      if (last) assert.strictEqual(await behind(), 0, `seed ${seed}`);
    }
    await writing;
    console.log(`    (seed ${seed}: ${JSON.stringify(all.done)} in ` +
        `${passes} passes of ${runs} runs)`);
    for (const way of ['update', 'replace', 'insert', 'delete'])
      assert.ok(all.done[way] > 0, `nobody has done ${way}`);
    assert.ok(passes > 2, `${passes} passes: nobody was in the way`);
  });
  await suite.judge('nothing is lost, and nothing is back', async () =>
    holds('Blogs', all.survivors(), await front.read('Blogs'), `seed ${seed}`));
}

// ---- a writer between read and write ----

// Goal: an entity that is changed between read and write costs one read of this
// entity and a second batch, and no write is lost. Writers that never rest do
// not make a run fail: the run reports how far it is behind.
async function between(suite) {
  await suite.open({
    jobs: {
      'blogs-v2': upgrade('Blogs', 2), 'restless-v2': upgrade('Restless', 2),
    },
    tables: ['Blogs', 'Restless'],
  });
  const {store} = suite, {proxy} = store;
  const of = (n) => ({...blog(n), PartitionKey: 'p'});
  const entities = list(100, (n) => of(n));
  await store.insert('Blogs', entities);
  const run = async (job, id, code) => {
    const first = proxy.requests.length;
    const ended = await suite.command(['run', job, '--yes', '--id', id]);
    proxy.before = async () => {};
    assert.strictEqual(ended.code, code, tail(ended.log));
    return {
      ...ended, ledger: await suite.run_of(id),
      made: proxy.requests.slice(first).filter(is_data),
    };
  };

  await suite.judge('an entity that is changed under way', async () => {
    let done = false;
    proxy.before = async (request) => {
      if (request.kind !== 'batch' || request.table !== 'Blogs' || done) return;
      done = true;
      await store.client('Blogs').updateEntity(
          {partitionKey: 'p', rowKey: of(42).RowKey, W0: 1}, 'Merge');
      await store.client('Blogs').deleteEntity('p', of(43).RowKey);
    };
    const {made, ledger} = await run('blogs-v2', 'between', 0);
    assert.ok(done, 'no batch was seen');
    entities[42] = {...entities[42], W0: 1};
    entities.splice(43, 1);
    await suite.holds('Blogs', entities.map(to_2));
    assert.strictEqual(ledger.EntitiesWritten, 99);
    // Two rounds, the refused batch, a read of each of the two entities that
    // caused it, and the rest of the batch, which may be refused again for the
    // second entity.
    const kinds = made.map((r) => r.kind).join(' ');
    assert.ok(made.length <= 12, kinds);
  });
  await suite.judge('somebody who never rests', async () => {
    let n = 0;
    proxy.before = async (request) => {
      if (request.kind === 'page' && request.table === 'Restless')
        await store.insert('Restless', [of(n++)]);
    };
    const {ledger} = await run('restless-v2', 'restless', 0);
    assert.strictEqual(ledger.State, 'succeeded');
    assert.ok(ledger.Rounds >= 2);
    assert.ok(Number(ledger.Behind) > 0, `behind: ${ledger.Behind}`);
    const quiet = await run('restless-v2', 'quiet', 0);
    assert.strictEqual(quiet.ledger.State, 'succeeded');
    await suite.holds('Restless', list(n, (i) => to_2(of(i))));
  });
}

// ---- kills ----

// A reader that reads one partition after another: each entity must always be
// as it was before or as it will be after the upgrade.
class Reader {
  constructor(front, table, entities, draw) {
    Object.assign(this, {front, table, draw, over: false, looks: 0, wrong: []});
    this.shapes = new Map(entities.map(
        (e) => [key(e), [canonical(e), canonical(to_2(e))]]));
    this.size = new Map();
    for (const {PartitionKey: p} of entities)
      this.size.set(p, (this.size.get(p) || 0) + 1);
  }

  async read() {
    while (!this.over) {
      const partition = upgrades.partition(this.draw(1000));
      const found = await this.front.read(
          this.table, `PartitionKey eq '${partition}'`);
      if (found.length !== this.size.get(partition))
        this.wrong.push(`${partition}: ${found.length} entities`);
      for (const entity of found) {
        const shapes = this.shapes.get(key(entity)) || [];
        if (!shapes.includes(canonical(entity)))
          this.wrong.push(`${key(entity)} ${canonical(entity)}`);
      }
      this.looks++;
      await sleep(10);
    }
  }
}

// two_tables: fills two tables: Clean is upgraded without a kill; the worker
// that upgrades Swept is killed again and again.
async function two_tables(suite, count) {
  await suite.open({
    jobs: {
      'clean-v2': upgrade('Clean', 2), 'swept-v2': upgrade('Swept', 2),
    },
    tables: ['Clean', 'Swept'], worker: {
      visibility_timeout: '2s', requests: 4,
      max_attempts: 100, // later attempts of killed workers are spaced out
    },
  });
  const entities = list(count, (n) =>
      n % 2 ? blog(n) : with_version(blog(n), 1));
  for (const table of ['Clean', 'Swept'])
    await suite.store.insert(table, entities);
  const front = await suite.store.front(['Clean', 'Swept']);
  return {entities, front};
}

// watched: requests the upgrade of Swept, calls `work` while a reader reads,
// and judges the result.
async function watched(suite, {entities, front}, seed, work) {
  const reader = new Reader(front, 'Swept', entities, random(seed + 1));
  const reading = reader.read();
  reading.catch(() => {});
  const id = await suite.store.enqueue('swept-v2', {});
  try {
    await work();
  } finally {
    reader.over = true;
    await reading;
  }
  const run = await suite.ended(id, 'succeeded');
  assert.deepStrictEqual(reader.wrong.slice(0, 3), [], `seed ${seed}`);
  assert.ok(reader.looks > 1);
  holds('Swept', entities.map(to_2), await front.read('Swept'), `seed ${seed}`);
  return {run, looks: reader.looks};
}

// Goal: with kills at random ones of the requests of an undisturbed run, the
// table ends as after an undisturbed run, no reader ever sees an entity between
// two versions, and only writes whose response a killed worker missed are sent
// twice.
async function kills(suite, count, times) {
  const tables = await two_tables(suite, count);
  let clean;
  await suite.judge(`a clean upgrade of ${count} entities`, async () => {
    clean = await undisturbed(suite, 'clean-v2');
    assert.strictEqual(operations(clean.requests), count);
  });
  if (!clean) return;

  await suite.judge(`${times} kills in an upgrade of ${count} entities`,
      async () => {
        const seed = seed_of_run(), draw = random(seed);
        let made;
        const {run, looks} = await watched(suite, tables, seed, async () => {
          made = await sweep(suite, clean, times, seed, draw);
        });
        const again = operations(made) - count;
        const bound = operations(made.filter((r) => !r.done));
        console.log(`    (seed ${seed}: clean ${clean.requests.length} ` +
            `requests, swept ${made.filter(counts).length}; ${again} writes ` +
            `sent again of ${bound} unconfirmed; ${run.Attempt} attempts, ` +
            `${looks} looks)`);
        assert.ok(again <= bound,
            `seed ${seed}: ${again} sent again, ${bound} unconfirmed`);
      });
}

// Goal: the same, on a store whose requests cannot be observed: each worker is
// killed after a random part of the time that an undisturbed upgrade takes. If
// every worker was done before its kill, the old entities are stored again, and
// the times are halved.
async function timed_kills(suite, count, times) {
  const tables = await two_tables(suite, count);
  let took;
  await suite.judge(`a clean upgrade of ${count} entities`, async () => {
    took = await time_of(suite, 'clean-v2');
  });
  if (!took) return;
  await suite.judge(`${times} kills in an upgrade of ${count} entities`,
      async () => {
        const seed = seed_of_run(), draw = random(seed);
        let killed = 0, most_ms = Math.ceil(took / times);
        for (let again = false; killed === 0; again = true) {
          assert.ok(most_ms >= 1, `seed ${seed}: every worker was done before`);
          if (again)
            await suite.store.insert('Swept', tables.entities, 'replace');
          const {run, looks} = await watched(suite, tables, seed, async () => {
            killed = await kill_in_time(suite, times, most_ms, draw);
          });
          console.log(`    (seed ${seed}: ${killed} kills in ${took} ms; ` +
              `${run.Attempt} attempts, ${looks} looks)`);
          most_ms /= 2;
        }
      });
}

const BOTH = ['azurite', 'embedded'];
module.exports = [
  {name: 'upgrade writers', stores: BOTH, phase: 2, seconds: 15,
    body: (suite) => writers(suite, 1600, 4)},
  {name: 'upgrade writers for a minute', stores: BOTH, phase: 2, long: true,
    seconds: 80, body: (suite) => writers(suite, 8000, 60)},
  {name: 'upgrade between', stores: ['azurite'], phase: 2, seconds: 5,
    body: between},
  {name: 'upgrade kills', stores: ['azurite'], phase: 3, seconds: 20,
    body: (suite) => kills(suite, 1500, 3)},
  {name: 'upgrade kills', stores: ['embedded'], phase: 3, seconds: 20,
    body: (suite) => timed_kills(suite, 8000, 3)},
  {name: 'upgrade 30 kills', stores: ['azurite'], phase: 3, long: true,
    seconds: 150, body: (suite) => kills(suite, 6000, 30)},
  {name: 'upgrade 30 kills', stores: ['embedded'], phase: 3, long: true,
    seconds: 100, body: (suite) => timed_kills(suite, 16000, 30)},
];
