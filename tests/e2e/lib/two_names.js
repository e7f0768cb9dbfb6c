// SPDX-License-Identifier: MIT
// What users do beside table jobs: front ends that write with the official SDK
// while a job runs and know which value of each key was acknowledged last, and
// a configuration that gives one store two names.
'use strict';

const fs = require('fs');
const path = require('path');
const {connection_string} = require('./azurite');
const {for_sdk} = require('./store_azurite');
const {random, sleep} = require('./wait');

// A writer has its keys for itself. It inserts them, replaces them with their
// ETag, and deletes some; a key that is gone or changed by somebody else (the
// job has moved it) it leaves alone from then on.
class Writer {
  // make: (number, value) => an entity of the model.
  constructor(client, {seed, first, make, deletes = true}) {
    Object.assign(this, {client, make, deletes, next: random(seed),
      number: first, stored: new Map(), left: new Set(), writes: 0});
  }

  // start: write, and pause, until stop(). `stored` maps a number to the value
  // that was acknowledged last; undefined: the entity was deleted.
  start(pause_ms) {
    this.over = this.#write(pause_ms);
    return this;
  }

  async stop() {
    this.stopped = true;
    await this.over;
  }

  // entities: those that exist by what was acknowledged.
  entities() {
    return [...this.stored].filter(([, value]) => value !== undefined)
        .map(([number, value]) => this.make(number, value));
  }

  async #write(pause_ms) {
    while (!this.stopped) {
      await this.#one();
      await sleep(pause_ms);
    }
  }

  async #one() {
    const known = [...this.stored.keys()].filter((n) => !this.left.has(n) &&
        this.stored.get(n) !== undefined);
    if (known.length === 0 || this.next(3) === 0)
      return await this.#insert(this.number++);
    await this.#change(known[this.next(known.length)]);
  }

  async #insert(number) {
    await this.client.createEntity(for_sdk(this.make(number, 0)));
    this.stored.set(number, 0);
    this.writes++;
  }

  async #change(number) {
    const {PartitionKey, RowKey} = this.make(number, 0);
    const value = this.stored.get(number) + 1;
    try {
      const {etag} = await this.client.getEntity(PartitionKey, RowKey);
      if (this.deletes && this.next(5) === 0) {
        await this.client.deleteEntity(PartitionKey, RowKey, {etag});
        this.stored.set(number, undefined);
      } else {
        await this.client.updateEntity(
            for_sdk(this.make(number, value)), 'Replace', {etag});
        this.stored.set(number, value);
      }
      this.writes++;
    } catch (error) {
      if (![404, 412].includes(error.statusCode)) throw error;
      this.left.add(number);
    }
  }
}

// two_names: options of a configuration with these jobs in which `main` and
// `other` are one store: one account by two host names, or one file by two
// paths.
function two_names(suite, jobs) {
  const {store, folder, configuration} = suite;
  const link = path.join(folder, 'beside.db');
  let other = {embedded: link};
  if (suite.Store.name === 'azurite')
    other = {azure: {connection_string: connection_string(store.account,
        store.azurite.key, store.azurite.table_port, store.azurite.queue_port)
        .replaceAll('127.0.0.1', 'localhost')}};
  else if (!fs.existsSync(link))
    fs.symlinkSync(path.join(folder, 'tableward.db'), link);
  return ['--config', suite.program.configure({...configuration, jobs,
    stores: {...configuration.stores, other}}, 'names.yaml')];
}

module.exports = {Writer, two_names};
