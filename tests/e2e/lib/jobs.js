// SPDX-License-Identifier: MIT
// Jobs that several scenarios use, and sample entities for them.
'use strict';

// Deletes a channel and its blogs; blogs have no children.
const flat = {
  kind: 'cascade-delete', args: ['channel'], settle: '0s',
  parent: {
    table: 'Channels', partition_key: '{channel}', row_key: '',
    tombstone: {Deleted: true},
  },
  children: [{table: 'Blogs', partition_key: '{channel}'}],
};

// Deletes a channel with all children that the example in product.md has.
const deep = {
  ...flat,
  parent: {...flat.parent, created: 'CreatedOn'},
  children: [
    {
      table: 'Blogs', partition_key: '{channel}', children: [{
        table: 'Comments', partition_key: '{PartitionKey}',
        row_key_prefix: '{RowKey}_', filter: "Blog eq '{RowKey}'",
      }],
    },
    {
      table: 'BlogsByMonth', partition_key_prefix: '{channel}_',
      filter: "Channel eq '{channel}'",
    },
    {table: 'Subscriptions', filter: "Channel eq '{channel}'"},
  ],
};
const deep_tables =
    ['Channels', 'Blogs', 'Comments', 'BlogsByMonth', 'Subscriptions'];

// open_flat, open_deep: open a suite whose job delete-channel is flat or deep.
const open_flat = (suite, worker) => suite.open({
  jobs: {'delete-channel': flat}, tables: ['Channels', 'Blogs'], worker,
});
const open_deep = (suite, worker, more = {}) => suite.open({
  jobs: {'delete-channel': {...deep, ...more}}, tables: deep_tables, worker,
});

const LONG_AGO = '2020-02-29T12:34:56.1234567Z';

const channel = (name, more = {}) => ({
  'PartitionKey': name, 'RowKey': '', 'Title': `About ${name}`,
  'CreatedOn@odata.type': 'Edm.DateTime', 'CreatedOn': LONG_AGO, ...more,
});

const blog = (name, row_key, more = {}) => ({
  PartitionKey: name, RowKey: row_key, Title: `On ${row_key}`, Rating: 3,
  ...more,
});

// blogs: returns `count` blogs of a channel, in key order.
const blogs = (name, count) => Array.from(
    {length: count}, (_, i) => blog(name, String(i).padStart(6, '0')));

const comment = (name, blog_key, n) => ({
  PartitionKey: name, RowKey: `${blog_key}_${n}`, Blog: blog_key, Text: 'so',
});

const by_month = (name, month, n) => ({
  PartitionKey: `${name}_${month}`, RowKey: String(n), Channel: name,
});

const subscription = (reader, name) => ({
  PartitionKey: reader, RowKey: `of ${Buffer.from(name).toString('hex')}`,
  Channel: name,
});

// family: returns a channel with children of each kind, as a list of [table,
// entity].
function family(name, row_keys = ['a', 'b', 'b_1']) {
  const all = [['Channels', channel(name)]];
  for (const row_key of row_keys) {
    all.push(['Blogs', blog(name, row_key)]);
    for (const n of [1, 2])
      all.push(['Comments', comment(name, row_key, n)]);
  }
  for (const month of ['2024_01', '2024_02'])
    all.push(['BlogsByMonth', by_month(name, month, 1)]);
  all.push(['Subscriptions', subscription('reader-1', name)]);
  all.push(['Subscriptions', subscription('reader-2', name)]);
  return all;
}

// cascade: removes from the model what `deep` deletes for a channel; returns
// the removed entities.
function cascade(model, name) {
  const gone = [
    model.remove('Comments', (e) => e.PartitionKey === name),
    model.remove('Blogs', (e) => e.PartitionKey === name),
    model.remove('BlogsByMonth', (e) => e.Channel === name),
    model.remove('Subscriptions', (e) => e.Channel === name),
    model.remove('Channels', (e) => e.PartitionKey === name),
  ];
  return gone.flat();
}

// store_channel: stores a channel with `count` blogs.
async function store_channel(store, name, count) {
  await store.insert('Channels', [channel(name)]);
  await store.insert('Blogs', blogs(name, count));
}

// ask_for_channel: stores a channel with `count` blogs and requests its
// deletion; returns the id of the run.
async function ask_for_channel(store, name, count) {
  await store_channel(store, name, count);
  return await store.enqueue('delete-channel', {channel: name});
}

// Steps of a scenario: seed_families stores families, ask_for requests the
// deletion of a channel, and gone expects that all of it is deleted.
const seed_families = (names, row_keys) => (s) => {
  for (const name of names)
    for (const [table, entity] of family(name, row_keys)) s.put(table, entity);
};
const seed_family = (name, row_keys) => seed_families([name], row_keys);

const ask_for = (name, job = 'delete-channel', options) => async (s, self) => {
  self.id = await s.store.enqueue(job, {channel: name}, options);
};

const gone = (name) => async (s, self) => {
  cascade(s.model, name);
  return await s.ended(self.id, 'succeeded');
};

module.exports = {
  flat, deep, deep_tables, open_flat, open_deep, LONG_AGO, channel, blog, blogs,
  comment, by_month, subscription, family, cascade, store_channel,
  ask_for_channel, seed_families, seed_family, ask_for, gone,
};
