// SPDX-License-Identifier: MIT
// Entities that the JavaScript SDK has read, changed and written back: it
// stores the annotation odata.metadata as a property, and Azurite's response to
// a GET of one entity then has this name twice.
'use strict';

const assert = require('assert');
const jobs = require('../lib/jobs');
const {list} = require('../lib/model');

const COUNT = 120;

// write_back: reads an entity, changes it and writes it, as an application
// does.
async function write_back(client, partitionKey, rowKey) {
  const entity = await client.getEntity(partitionKey, rowKey);
  await client.updateEntity({...entity, Seen: true}, 'Replace',
      {etag: entity.etag});
  return entity;
}

// Goal: a parent and children that carry the stored annotation are deleted.
async function cascade(suite) {
  await jobs.open_flat(suite);
  const {store} = suite;
  const channels = store.client('Channels'), blogs = store.client('Blogs');
  await store.insert('Channels', [{partitionKey: 'c', rowKey: ''}]);
  await store.insert('Blogs', list(COUNT,
      (n) => ({partitionKey: 'c', rowKey: String(n), Title: 'x'})));
  await suite.judge('a GET of what the SDK wrote back has a name twice',
      async () => {
        await write_back(channels, 'c', '');
        for (let n = 0; n < COUNT; n += 7)
          await write_back(blogs, 'c', String(n));
        const body = await raw_get(channels, 'c', '');
        assert.strictEqual(body.split('"odata.metadata"').length, 3, body);
      });
  await suite.judge('a cascade over it succeeds', async () => {
    const id = await store.enqueue('delete-channel', {channel: 'c'});
    await suite.drain();
    const ledger = await suite.ended(id, 'succeeded');
    assert.strictEqual(ledger.EntitiesDeleted, COUNT + 1);
    assert.deepStrictEqual(await store.read('Blogs'), []);
    assert.deepStrictEqual(await store.read('Channels'), []);
  });
}

// Goal: entities that carry the stored annotation are upgraded.
async function upgrade(suite) {
  await suite.open({
    jobs: {
      up: {
        kind: 'schema-upgrade', table: 'Blogs',
        version: {property: 'V', absent: 1},
        versions: [{to: 2, steps: [{rename: {property: 'Title', to: 'Name'}}]}],
      },
    },
    tables: ['Blogs'],
  });
  const {store} = suite;
  const blogs = store.client('Blogs');
  await store.insert('Blogs', list(COUNT,
      (n) => ({partitionKey: 'c', rowKey: String(n), Title: 'x'})));
  for (let n = 0; n < COUNT; n += 7)
    await write_back(blogs, 'c', String(n));
  await suite.judge('an upgrade over it succeeds', async () => {
    const id = await store.enqueue('up', {});
    await suite.drain();
    const ledger = await suite.ended(id, 'succeeded');
    assert.strictEqual(ledger.EntitiesWritten, COUNT);
    const found = await store.read('Blogs');
    assert.strictEqual(
        found.filter((e) => e.Name === 'x' && !('Title' in e)).length, COUNT);
  });
}

// raw_get: returns the text of the response; the SDK's JSON.parse would hide
// that a name is there twice.
async function raw_get(client, partitionKey, rowKey) {
  let text;
  await client.getEntity(partitionKey, rowKey, {
    onResponse: (answer) => { text = answer.bodyAsText; },
  });
  return text;
}

module.exports = [
  {name: 'annotations cascade', stores: ['azurite'], seconds: 5, body: cascade},
  {name: 'annotations upgrade', stores: ['azurite'], seconds: 5, body: upgrade},
];
