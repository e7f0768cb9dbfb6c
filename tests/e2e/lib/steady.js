// SPDX-License-Identifier: MIT
// Front ends that write with the official SDK at a steady rate while a job
// runs, and that know the last acknowledged value of each of their entities:
// the oracle of scenarios with writers.
'use strict';

const {for_sdk} = require('./store_azurite');
const {random, sleep} = require('./wait');

const IN_FLIGHT = 32;
const WAYS = ['insert', 'insert', 'delete', 'replace', 'replace', 'replace',
  'replace', 'merge', 'merge', 'merge'];

// A writer. No other writer uses its numbers. It writes each entity with the
// ETag that it knows. If a write is answered 412, it reads the entity again,
// which must have the acknowledged value, and writes again. If a write is
// answered 404, it leaves the entity alone from then on. `allowed`: the
// statuses (404, 412) that the job may cause.
class Steady {
  // make: (number, value) => the entity of the model with this Value
  // numbers: the numbers of the stored entities, whose values are 0
  // first: the number of the first entity to insert
  // step: the distance between the numbers of inserted entities
  // in_flight: maximum number of writes at a time
  constructor(client, {
    seed, rate, make, numbers = [], first, step = 1, allowed = [],
    in_flight = IN_FLIGHT,
  }) {
    Object.assign(this, {client, rate, make, allowed, step, in_flight,
      number: first, next: random(seed), live: [...numbers], writes: 0,
      refused: 0, left: new Set(), failures: []});
    this.stored = new Map(this.live.map((number) => [number, {value: 0}]));
  }

  start() {
    this.began = Date.now();
    this.over = this.#go();
    return this;
  }

  // stop: stops the writer; throws if a write failed in a way that no job may
  // cause.
  async stop() {
    this.stopped = true;
    await this.over;
    this.took_ms = Date.now() - this.began;
    if (this.failures.length > 0) throw this.failures[0];
  }

  // entities: returns the entities that must exist after the acknowledged
  // writes.
  entities() {
    return [...this.stored].filter(([, {value}]) => value !== undefined)
        .map(([number, {value}]) => this.make(number, value));
  }

  // deleted: returns the entities that acknowledged writes have deleted, each
  // with its last value.
  deleted() {
    return [...this.stored].filter(([, {value}]) => value === undefined)
        .map(([number, {before}]) => this.make(number, before));
  }

  // per_second: returns the number of acknowledged writes per second.
  per_second() {
    return this.writes * 1000 / ((this.took_ms || Date.now() - this.began) + 1);
  }

  async #go() {
    const flying = new Set();
    for (let due = this.began; !this.stopped; due += 1000 / this.rate) {
      await sleep(due - Date.now());
      if (flying.size >= this.in_flight) await Promise.race(flying);
      const write = this.#one().catch((error) => this.failures.push(error))
          .finally(() => flying.delete(write));
      flying.add(write);
    }
    await Promise.all(flying);
  }

  // Makes one write. Meanwhile the entity's number is not in `live`, so that
  // each entity has one write at a time.
  async #one() {
    const way = WAYS[this.next(WAYS.length)];
    if (way === 'insert' || this.live.length === 0) {
      const number = this.number;
      this.number += this.step;
      return await this.#insert(number);
    }
    const at = this.next(this.live.length), number = this.live[at];
    this.live[at] = this.live[this.live.length - 1];
    this.live.pop();
    if (await this.#change(number, way)) this.live.push(number);
  }

  async #insert(number) {
    const {etag} = await this.client.createEntity(for_sdk(this.make(number, 0)));
    this.#acknowledged(number, 0, etag);
    this.live.push(number);
  }

  // Changes an entity. Returns true if the entity still exists after the
  // acknowledged writes.
  async #change(number, way) {
    const known = this.stored.get(number);
    for (;;)
      try {
        known.etag = known.etag || await this.#read(number, known.value);
        return await this[way](number, known);
      } catch (error) {
        if (!this.allowed.includes(error.statusCode)) throw error;
        this.refused++;
        known.leaving = false;
        known.etag = undefined;
        if (error.statusCode === 412) continue;
        this.left.add(number);
        return false;
      }
  }

  // Returns the ETag of the entity, which must have the acknowledged value.
  async #read(number, value) {
    const {PartitionKey, RowKey} = this.make(number, value);
    const {etag, Value} = await this.client.getEntity(PartitionKey, RowKey);
    if (Value !== value)
      throw new Error(`${PartitionKey} ${RowKey}: ${Value}, not ${value}`);
    return etag;
  }

  async replace(number, {value, etag}) {
    const done = await this.client.updateEntity(
        for_sdk(this.make(number, value + 1)), 'Replace', {etag});
    return this.#acknowledged(number, value + 1, done.etag);
  }

  async merge(number, {value, etag}) {
    const was = this.make(number, value), is = this.make(number, value + 1);
    const {PartitionKey, RowKey, ...more} = is;
    const changed = Object.entries(more).filter(([name]) => {
      const of = name.replace('@odata.type', '');
      return is[of] !== was[of];
    });
    const done = await this.client.updateEntity(for_sdk(
        {PartitionKey, RowKey, ...Object.fromEntries(changed)}), 'Merge', {etag});
    return this.#acknowledged(number, value + 1, done.etag);
  }

  async delete(number, known) {
    const {PartitionKey, RowKey} = this.make(number, known.value);
    known.leaving = true; // tells readers that it may be gone
    await this.client.deleteEntity(PartitionKey, RowKey, {etag: known.etag});
    return this.#acknowledged(number, undefined);
  }

  #acknowledged(number, value, etag) {
    const {value: before} = this.stored.get(number) || {};
    this.stored.set(number, {value, etag, before});
    this.writes++;
    this.latest = {number, value, before, at: Date.now()};
    return value !== undefined;
  }
}

// of_all: returns the entities that several writers have stored.
const of_all = (writers) => writers.flatMap((writer) => writer.entities());

module.exports = {Steady, of_all};
