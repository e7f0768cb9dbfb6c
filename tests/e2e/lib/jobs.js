// SPDX-License-Identifier: MIT
// The jobs that the scenarios share, and sample entities for them.
'use strict';

// A channel and its blogs; nothing under a blog.
const flat = {
  kind: 'cascade-delete', args: ['channel'], settle: '0s',
  parent: {
    table: 'Channels', partition_key: '{channel}', row_key: '',
    tombstone: {Deleted: true},
  },
  children: [{table: 'Blogs', partition_key: '{channel}'}],
};

// A channel with all that product.md's example has under it.
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

const LONG_AGO = '2020-02-29T12:34:56.1234567Z';

const channel = (name, more = {}) => ({
  'PartitionKey': name, 'RowKey': '', 'Title': `About ${name}`,
  'CreatedOn@odata.type': 'Edm.DateTime', 'CreatedOn': LONG_AGO, ...more,
});

const blog = (name, row_key, more = {}) => ({
  PartitionKey: name, RowKey: row_key, Title: `On ${row_key}`, Rating: 3,
  ...more,
});

// blogs: `count` of a channel, in key order.
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

// family: a channel with some of everything under it, as [table, entity]s.
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

// cascade: what deep takes away, and how many entities that were.
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

module.exports = {
  flat, deep, deep_tables, LONG_AGO, channel, blog, blogs, comment, by_month,
  subscription, family, cascade,
};
