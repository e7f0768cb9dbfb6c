// SPDX-License-Identifier: MIT
// Front ends that write with the official SDK at a steady rate, whatever a job
// does meanwhile, and know which value of each of their entities was
// acknowledged last: the oracle of scenarios with writers.
'use strict';

const {for_sdk} = require('./store_azurite');
const {random, sleep} = require('./wait');

const IN_FLIGHT = 32;
const WAYS = ['insert', 'insert', 'delete', 'replace', 'replace', 'replace',
  'replace', 'merge', 'merge', 'merge'];

// A writer has its numbers for itself, and writes each with the ETag that it
// knows. What somebody else has changed (412) it reads, and writes again, if
// what it reads is what it has stored; what is gone it leaves alone from then
// on. `allowed`: which of the two the job at work may cause.
class Steady {
  // make: (number, value) => an entity of the model whose Value it is;
  // numbers: those that are stored, with value 0; first: of those to come, and
  // every `step`-th of them; in_flight: writes at a time at most.
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

  // stop: an error if a write failed in a way that no job may cause.
  async stop() {
    this.stopped = true;
    await this.over;
    this.took_ms = Date.now() - this.began;
    if (this.failures.length > 0) throw this.failures[0];
  }

  // entities: those that exist by what was acknowledged.
  entities() {
    return [...this.stored].filter(([, {value}]) => value !== undefined)
        .map(([number, {value}]) => this.make(number, value));
  }

  // deleted: those that do not, as they were last.
  deleted() {
    return [...this.stored].filter(([, {value}]) => value === undefined)
        .map(([number, {before}]) => this.make(number, before));
  }

  // per_second: the writes that were acknowledged.
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

  // One write at a time to each: its number is not `live` meanwhile.
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

  // Does it still exist, here?
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

  // The ETag of what must be as it was acknowledged.
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
    known.leaving = true; // for those who look on
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

// of_all: what several writers have stored.
const of_all = (writers) => writers.flatMap((writer) => writer.entities());

module.exports = {Steady, of_all};
