// SPDX-License-Identifier: MIT
// Two releases that write at the same time between expand and contract: no
// acknowledged write is lost, and entities that both have written differently
// are named.
'use strict';

const assert = require('assert');
const upgrades = require('../lib/upgrades');
const {bare, holds, key, list} = require('../lib/model');
const {named, run} = require('../lib/runs');
const {for_sdk} = require('../lib/store_azurite');
const {each, random, seed_of_run, sleep} = require('../lib/wait');
const {step, document} = upgrades;

const SIZE = Number(process.env.E2E_SIZE || 20000);
const SECONDS = Number(process.env.E2E_SECONDS || 60);
const HANDS = 4; // concurrent writers of each release
const PAUSE_MS = 40;

const JOB = {
  kind: 'schema-upgrade', table: 'Blogs', failures: 'failures',
  ...document([
    step('rename', 'Text', {to: 'Body'}),
    step('add', 'Language', {type: 'Edm.String', value: 'en'}),
  ]),
};

// The whole entity as each release writes it: a release knows one of the two
// properties and nothing of the other release's.
const title = (n) => ({...upgrades.keys(n), Title: `Blog ${n}`});
const RELEASES = {
  Text: (n, Text) => ({...title(n), Text}),
  Body: (n, Body) => ({...title(n), Body, Language: 'en', SchemaVersion: 2}),
};

// What the clients know of an entity: the last acknowledged state, and which of
// the two properties were written since expand.
class Known {
  constructor(n) {
    this.n = n;
    this.entity = {
      ...RELEASES.Text(n, `text ${n}`), ...RELEASES.Body(n, `text ${n}`),
    };
    this.written = new Set();
  }

  merged(property, value) {
    this.entity = {...this.entity, [property]: value};
    this.written.add(property);
    this.differed = this.differed || this.differs;
  }

  replaced(property, value) {
    this.entity = RELEASES[property](this.n, value);
    this.written = new Set([property]);
  }

  // True if both properties were written, to different values.
  get differs() {
    return this.written.size === 2 && this.entity.Text !== this.entity.Body;
  }

  // contracted: the entity as contract must leave it.
  get contracted() {
    const {Text, Body} = this.entity;
    if (this.differs) return this.entity;
    return RELEASES.Body(this.n, this.written.has('Text') ? Text : Body);
  }

  // seen: notes that a client has read the entity; contract may have changed it
  // before.
  seen({Text, Body}) {
    if (Text !== undefined || this.entity.Text === undefined) return;
    assert.strictEqual(Body, this.contracted.Body, `Blog ${this.n}`);
    this.replaced('Body', Body);
  }
}

// A release. It changes entities with the ETag that it has read, and notes what
// is acknowledged.
class Release {
  constructor(client, all, property, draw) {
    Object.assign(this, {client, all, property, draw,
      writes: {merge: 0, replace: 0}});
  }

  start() {
    this.hands = Promise.all(Array.from({length: HANDS}, () => this.#write()));
    this.hands.catch(() => {});
    return this;
  }

  async stop() {
    this.over = true;
    await this.hands;
  }

  async #write() {
    for (; !this.over; await sleep(PAUSE_MS)) {
      const known = this.all[this.draw(this.all.length)];
      if (known.busy) continue;
      known.busy = true;
      const value = `${this.property} ${this.writes.merge + this.draw(1e9)}`;
      if (this.draw(3) > 0) await this.#merge(known, value);
      else await this.#replace(known, value);
      known.busy = false;
    }
  }

  async #merge(known, value) {
    const change = {...upgrades.keys(known.n), [this.property]: value};
    await this.#update(known, change, 'Merge');
    known.merged(this.property, value);
    this.writes.merge++;
  }

  async #replace(known, value) {
    const whole = RELEASES[this.property](known.n, value);
    await this.#update(known, whole, 'Replace');
    known.replaced(this.property, value);
    this.writes.replace++;
  }

  // Writes again if the job was faster (412).
  async #update(known, entity, mode) {
    const {PartitionKey, RowKey} = entity;
    for (;;)
      try {
        const read = await this.client.getEntity(PartitionKey, RowKey);
        known.seen(read);
        return await this.client.updateEntity(
            for_sdk(entity), mode, {etag: read.etag});
      } catch (error) {
        if (error.statusCode !== 412) throw error;
      }
  }
}

// Goal: after expand, an old and a new release write for a minute, merges and
// replaces, the new one also during contract; contract loses nothing and names
// each entity that both have written differently; once corrected, these are
// contracted too.
async function releases(suite) {
  await suite.open({jobs: {blogs: JOB}, tables: ['Blogs']});
  const {store} = suite, seed = seed_of_run(), draw = random(seed);
  const client = store.client('Blogs');
  const all = list(SIZE, (n) => new Known(n));
  const all_hold = async () => holds('Blogs',
      all.map((known) => known.contracted),
      bare(await store.read('Blogs'), 'TablewardExpanded'), `seed ${seed}`);
  const differing = () => all.filter((known) => known.differs);

  await suite.judge(`two releases write for ${SECONDS} s after expand`,
      async () => {
        await store.insert('Blogs',
            all.map(({n}) => RELEASES.Text(n, `text ${n}`)));
        await run(suite, 'blogs', 0, ['phase=expand']);
        const [before, after] = ['Text', 'Body'].map((property) =>
          new Release(client, all, property, draw).start());
        await sleep(SECONDS * 1000);
        await before.stop();
        for (const known of all) known.differed = known.differs;
        const {ledger} = await run(suite, 'blogs', 1, ['phase=contract']);
        await after.stop();
        console.log(`    (seed ${seed}: the old release ` +
            `${JSON.stringify(before.writes)}, the new one ` +
            `${JSON.stringify(after.writes)}; ${differing().length} differ, ` +
            `${ledger.EntitiesFailed} are named)`);
        assert.ok(differing().length > 0, 'nothing differs');
      });
  await suite.judge('nothing is lost, what both have written is named',
      async () => {
        const names = named(suite);
        const of = (known) => names.has(key(known.entity));
        assert.deepStrictEqual(differing().filter((known) => !of(known)), []);
        // The new release may have replaced an entity since it was named.
        assert.deepStrictEqual(
            all.filter((known) => of(known) && !known.differed), []);
        await all_hold();
      });
  await suite.judge('corrected, it is contracted too', async () => {
    await each(differing(), HANDS, async (known) => {
      const {Body} = known.entity;
      await client.updateEntity(for_sdk(
          {...upgrades.keys(known.n), Text: Body}), 'Merge');
      known.merged('Text', Body);
    });
    await run(suite, 'blogs', 0, ['phase=contract']);
    await all_hold();
  });
}

module.exports = [
  {name: 'upgrade two releases', stores: ['limited'], phase: 2, long: true,
    seconds: SECONDS + 30, body: releases},
];
