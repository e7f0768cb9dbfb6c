// SPDX-License-Identifier: MIT
// A large move while writers write, readers read, and its worker is killed
// again and again.
'use strict';

const assert = require('assert');
const {holds, key, list} = require('../lib/model');
const {named, run} = require('../lib/runs');
const {Steady, of_all} = require('../lib/steady');
const {random, seed_of_run, sleep, until} = require('../lib/wait');

const SIZE = Number(process.env.E2E_SIZE || 200000);
const KILLS = Number(process.env.E2E_KILLS || 30);
const SHELF = 5000, ROOMS = 8, WRITERS = 4, READERS = 3;
const RATE = 8; // writes a second of each writer
const LIFE_LIMIT_MS = 180000; // 30 s of it may be the wait for late requests

const pad = (n) => String(n).padStart(7, '0');

// item: returns an entity; the keys are in the order of the numbers, so that a
// reader knows where the move is.
const item = (number, value) => ({
  PartitionKey: `shelf${pad(Math.floor(number / SHELF))}`, RowKey: pad(number),
  Value: value, Room: number % ROOMS, Title: `Ünï ${number}`,
});

const moved = (entity) => ({
  ...entity, PartitionKey: `room${entity.Room}`,
  RowKey: `${entity.PartitionKey}_${entity.RowKey}`,
});

const EVERYTHING = {
  kind: 'move', from: {table: 'Items'}, failures: 'failures',
  to: {table: 'Old', partition_key: 'room{Room}',
    row_key: '{PartitionKey}_{RowKey}'},
};

// Looks for an entity at its source and then at its destination, mostly near
// the current position of the move: it must be in one of the two places, with a
// value that is not older than the one acknowledged before.
class Reader {
  constructor(store, writers, draw) {
    Object.assign(this, {writers, draw, looks: 0, there: 0, near: 0, wrong: [],
      source: store.client('Items'), destination: store.client('Old')});
  }

  async read() {
    for (; !this.over; await sleep(10)) {
      const number = this.#number();
      const {stored} = this.writers[number % WRITERS], known = stored.get(number);
      if (!known || known.value === undefined || known.leaving) continue;
      const wanted = known.value, found = await this.#look(item(number, 0));
      if (known.leaving || stored.get(number).value === undefined) continue;
      this.looks++;
      if (found === undefined || found < wanted)
        this.wrong.push(`${number}: ${found}, not ${wanted}`);
    }
  }

  #number() {
    if (this.draw(4) === 0) return this.draw(this.writers[0].number);
    return Math.max(0, this.near - 500 + this.draw(2000));
  }

  async #look(at) {
    const found = await this.#value(this.source, at);
    if (found !== undefined) return found;
    this.there++;
    this.near = Math.max(this.near, Number(at.RowKey) % SIZE);
    return await this.#value(this.destination, moved(at));
  }

  async #value(client, {PartitionKey, RowKey}) {
    try {
      return (await client.getEntity(PartitionKey, RowKey)).Value;
    } catch (error) {
      if (error.statusCode !== 404) throw error;
    }
  }
}

// killed: starts `times` workers and kills each once it has sent a random
// number of batches.
async function killed(suite, times, most, draw) {
  const {store} = suite;
  let since = 0;
  const sent = async () => {
    const log = await store.azurite.log(since);
    if (log.length > 0) since = log[log.length - 1].n + 1;
    await store.azurite.control({clear: true});
    return log.filter((r) => r.worker === store.worker &&
        ['Items', 'Old'].includes(r.target) && r.operations > 0 && r.changed);
  };
  await sent();
  for (let i = 0; i < times; i++) {
    const worker = suite.worker(), life = 1 + draw(most);
    let batches = 0;
    await until(`worker ${i + 1} has sent ${life} batches`,
        async () => (batches += (await sent()).length) >= life, LIFE_LIMIT_MS,
        () => assert.ok(!worker.over, `worker ${i + 1} ended by itself`));
    worker.kill('SIGKILL');
    await worker.exit;
  }
}

// Goal: the move is killed 30 times while writers write: no entity is lost,
// only entities that the report names exist twice, and no entity is ever in
// neither place.
async function kills(suite) {
  await suite.open({
    jobs: {everything: EVERYTHING}, tables: ['Items', 'Old'],
    worker: {visibility_timeout: '3s', max_attempts: 100},
  });
  const {store} = suite, seed = seed_of_run();
  const numbers = list(SIZE, (n) => n);
  const writers = list(WRITERS, (i) => new Steady(
      store.client('Items'), {
        seed: seed + i, rate: RATE, make: item, first: SIZE + i, step: WRITERS,
        numbers: numbers.filter((n) => n % WRITERS === i), allowed: [404],
      }));
  const readers = list(READERS,
      (i) => new Reader(store, writers, random(seed + 10 + i)));
  const sum = (list, of) => list.reduce((all, one) => all + of(one), 0);
  await suite.judge(`a move of ${SIZE} entities, ${KILLS} kills`, async () => {
    await store.insert('Items', numbers.map((n) => item(n, 0)));
    const id = await store.enqueue('everything', {});
    for (const writer of writers) writer.start();
    const reading = Promise.all(readers.map((reader) => reader.read()));
    reading.catch(() => {});
    // A load of 1,000 entities needs 10 batches to delete and 16 to insert.
    await killed(suite, KILLS, Math.ceil(SIZE / 1000 * 26 * 2 / (KILLS + 10)),
        random(seed + 20));
    await suite.program.end(suite.worker(), LIFE_LIMIT_MS * 5);
    for (const writer of writers) await writer.stop();
    for (const reader of readers) reader.over = true;
    await reading;
    const ledger = await suite.run_of(id);
    console.log(`    (seed ${seed}: ${ledger.Attempt} attempts, ` +
        `${sum(writers, (w) => w.writes)} writes, ` +
        `${sum(writers, (w) => w.left.size)} came after the move, ` +
        `${sum(readers, (r) => r.looks)} looks, ` +
        `${sum(readers, (r) => r.there)} of them at the destination)`);
    assert.deepStrictEqual(readers.flatMap((r) => r.wrong).slice(0, 5), []);
    assert.ok(ledger.Attempt > KILLS, `${ledger.Attempt} attempts`);
    assert.ok(readers.every((r) => r.there > 0),
        'a reader has seen no moved entity');
  });
  // If an entity is written while a killed worker moves it, nothing shows which
  // of the two values counts, so the move leaves both. If a writer deletes an
  // entity whose copy was already inserted, the delete comes too late, and the
  // copy stays.
  const twice = new Map();
  let wanted;
  await suite.judge('nothing is lost; what is there twice is named', async () => {
    const there = new Map((await store.read('Old')).map(with_key));
    const left = await store.read('Items');
    for (const entity of left) {
      const at = {...entity, ...destination_of(entity)};
      if (there.has(key(at))) twice.set(key(entity), key(at));
      there.set(key(at), at);
    }
    const undone = writers.flatMap((w) => w.deleted())
        .filter((e) => there.has(key(moved(e))));
    const names = named(suite);
    console.log(`    (${twice.size} are there twice, ${undone.length} deletes ` +
        `came too late, ${names.size} are named)`);
    wanted = [...of_all(writers).map(moved), ...undone.map(moved).map((e) =>
      ({...e, Value: older(there.get(key(e)).Value, e.Value)}))];
    holds('both', wanted, [...there.values()]);
    const known = [...twice.keys(), ...undone.map(key)];
    assert.deepStrictEqual([...twice.keys()].filter((k) => !names.has(k)), []);
    assert.deepStrictEqual([...names].filter((k) => !known.includes(k)), []);
  });
  await suite.judge('once those are deleted, all is moved', async () => {
    for (const copy of twice.values())
      await store.client('Old').deleteEntity(...JSON.parse(copy));
    await run(suite, 'everything');
    assert.deepStrictEqual(await store.read('Items'), []);
    await suite.holds('Old', wanted);
  });
}

// older: returns the expected value of an entity whose delete came too late.
// The copy may have an older value than the last acknowledged one.
const older = (found, last) => Math.min(Number(found.text), last);

const with_key = (entity) => [key(entity), entity];

// destination_of: returns the destination keys of an entity that was read at
// its source.
const destination_of = ({PartitionKey, RowKey, Room}) => {
  const to = moved({PartitionKey, RowKey, Room: Room.text});
  return {PartitionKey: to.PartitionKey, RowKey: to.RowKey};
};

module.exports = [
  {name: 'move 30 kills', stores: ['limited'], phase: 3, long: true,
    seconds: 1200, body: kills},
];
