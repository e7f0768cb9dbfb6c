// SPDX-License-Identifier: MIT
// What an undisturbed cascade costs in requests, as the service bills them.
'use strict';

const assert = require('assert');
const jobs = require('../lib/jobs');
const {is_data, is_ledger} = require('../lib/proxy');

const SHAPES = [
  {partitions: 1, blogs: 0, settle: '0s'},
  {partitions: 1, blogs: 99, settle: '0s'},
  {partitions: 1, blogs: 100, settle: '1s'},
  {partitions: 1, blogs: 1001, settle: '0s'},
  {partitions: 7, blogs: 2345, settle: '0s'},
  {partitions: 40, blogs: 40, settle: '0s'},
  {partitions: 3, blogs: 301, settle: ['1s', '2s']},
];

// start_cost: returns how many requests to the ledger a worker sends at its
// start, before any attempt: it reads the index rows of open runs of each job.
async function start_cost(suite) {
  await suite.drain();
  return suite.store.proxy.count(is_ledger);
}

// Goal: a cascade of N blogs, with one rule, sends at most
//   - to the data tables: ceil(N/1000) + 1 pages, a batch for each started
//     hundred of each partition, an empty page for each settle pass, and 10
//     more requests;
//   - to the ledger: 6 requests for each attempt and one for each renewal; 2
//     for each job that has runs, because a worker prunes old runs at its start
//     and each hour, and 2 more because it looks for orphans; and the requests
//     of the drain.
// The drain reads the open runs at its end and while messages are hidden: at
// most twice for each settle time, and once more for each started second by
// which a busy machine makes the run longer.
async function requests(suite) {
  const rule = {
    table: 'Blogs', partition_key_prefix: '{channel}_',
    filter: "Channel eq '{channel}'",
  };
  const all = Object.fromEntries(SHAPES.map(({settle}, i) => [
    `delete-${i}`, {...jobs.flat, settle, children: [rule]},
  ]));
  await suite.open({
    jobs: all, tables: ['Channels', 'Blogs'],
    worker: {visibility_timeout: '30s'},
  });
  const {store} = suite;
  const at_start = await start_cost(suite);
  for (const [i, {partitions, blogs, settle}] of SHAPES.entries()) {
    const settles = [settle].flat();
    await suite.judge(`requests for ${blogs} blogs in ${partitions} ` +
        `partitions, settle ${settles.join(' and ')}`, async () => {
      const name = `Cost${i}`;
      const sizes = Array(partitions).fill(0);
      const entities = [];
      for (let n = 0; n < blogs; n++)
        entities.push(
            jobs.by_month(name, n % partitions, sizes[n % partitions]++));
      await store.insert('Channels', [jobs.channel(name)]);
      await store.insert('Blogs', entities);
      const id = await store.enqueue(`delete-${i}`, {channel: name});
      const first = store.proxy.requests.length, began = Date.now();
      const worker = suite.worker();
      const end = await suite.program.end(worker);
      const took_s = (Date.now() - began) / 1000;
      assert.strictEqual(end.code, 0, worker.log);
      const run = await suite.ended(id, 'succeeded');
      const made = store.proxy.requests.slice(first);
      const data = made.filter(is_data), ledger = made.filter(is_ledger);
      const batches = sizes.reduce((sum, n) => sum + Math.ceil(n / 100), 0);
      const most = Math.ceil(blogs / 1000) + 1 + batches + settles.length + 10;
      assert.ok(data.length <= most, `${data.length} requests to the data ` +
          `tables, at most ${most}: ${summary(data)}`);
      const renewals = made.filter((r) => r.kind === 'renew').length;
      // The pruning and the search for orphans each read the name and the
      // ledger index rows of every job that has runs.
      const pruning = 2 * (i + 1), orphans = 2 * (i + 1);
      const waits = settles.map((time) => parseInt(time, 10)).filter((s) => s);
      const usual_s = waits.reduce((sum, s) => sum + s + 1, 2);
      const looks =
          1 + 2 * waits.length + Math.max(0, Math.ceil(took_s - usual_s));
      const draining = looks * (2 * (i + 1) + 1);
      const asked = ledger.length - at_start - pruning - orphans - draining;
      assert.ok(asked <= 6 * run.Attempt + renewals,
          `${asked} requests to the ledger in ${run.Attempt} ` +
          `attempts and ${renewals} renewals: ${summary(ledger)}`);
    });
  }
  await suite.judge('nothing is left of them', () => suite.same());
}

const NESTED = [
  {blogs: 5000, every: Infinity, settle: '0s'},
  {blogs: 5000, every: 5, settle: '1s'},
];

// Goal: if blogs have child rules, with comments or without, they cost pages
// and batches, not a query each: three passes over the blogs and their
// comments, and the batches.
async function nested(suite) {
  const children = [{
    table: 'Blogs', partition_key: '{channel}', children: [{
      table: 'Comments', partition_key: '{PartitionKey}',
      row_key_prefix: '{RowKey}_', filter: "Blog eq '{RowKey}'",
    }],
  }];
  await suite.open({
    jobs: Object.fromEntries(NESTED.map(({settle}, i) => [
      `delete-${i}`, {...jobs.flat, settle, children},
    ])),
    tables: ['Channels', 'Blogs', 'Comments'],
    worker: {visibility_timeout: '30s'},
  });
  const {store} = suite;
  for (const [i, {blogs, every, settle}] of NESTED.entries()) {
    const name = `Nested${i}`;
    const list = jobs.blogs(name, blogs);
    const comments = list.filter((_, n) => n % every === 1)
        .map(({RowKey}, n) => jobs.comment(name, RowKey, n));
    await suite.judge(`requests for ${blogs} blogs, ${comments.length} ` +
        `comments under them, settle ${settle}`, async () => {
      await store.insert('Channels', [jobs.channel(name)]);
      await store.insert('Blogs', list);
      await store.insert('Comments', comments);
      const id = await store.enqueue(`delete-${i}`, {channel: name});
      const first = store.proxy.requests.length;
      await suite.drain();
      await suite.ended(id, 'succeeded');
      const data = store.proxy.requests.slice(first).filter(is_data);
      const pages = Math.ceil(blogs / 1000) + Math.ceil(comments.length / 1000);
      const batches =
          Math.ceil(blogs / 100) + Math.ceil(comments.length / 100);
      // With each page of blogs a new page of comments may begin.
      const most = 3 * (2 * pages + 5) + batches + 15;
      assert.ok(data.length <= most, `${data.length} requests to the data ` +
          `tables, at most ${most}: ${summary(data)}`);
    });
  }
  await suite.judge('nothing is left of them', () => suite.same());
}

function summary(requests) {
  const kinds = {};
  for (const {kind, table, method} of requests) {
    const name = `${table} ${kind} ${method}`;
    kinds[name] = (kinds[name] || 0) + 1;
  }
  return JSON.stringify(kinds);
}

module.exports = [
  {name: 'requests', stores: ['azurite'], seconds: 20, body: requests},
  {name: 'requests nested', stores: ['azurite'], seconds: 30, body: nested},
];
