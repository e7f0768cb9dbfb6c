// SPDX-License-Identifier: MIT
// What a clean copy, a clean move and a clean delete cost, counted where the
// service would bill it.
'use strict';

const assert = require('assert');
const {is_data, is_ledger} = require('../lib/proxy');

const SOURCES = 3; // partitions
const SHAPES = [
  {partitions: 1, blogs: 0},
  {partitions: 1, blogs: 99},
  {partitions: 1, blogs: 1001},
  {partitions: 40, blogs: 40},
  {partitions: 7, blogs: 2345},
];

const source = (i) => `Cost${i}Blogs`;
const target = (i) => `Cost${i}Groups`;
const moved = (i) => `Cost${i}Moved`;

// blog: the n-th; its copy goes into one of so many partitions, which take
// turns as the blogs are read.
const blog = (n, partitions) => ({
  PartitionKey: `p${n % SOURCES}`, RowKey: String(n).padStart(6, '0'),
  Group: `g${n % partitions}`, Title: `blog ${n}`,
});

const migrate = (from, table, more) => ({
  kind: 'migrate', from: {table: from},
  to: {table, partition_key: '{Group}', row_key: '{PartitionKey}_{RowKey}'},
  verify: true, ...more,
});

const jobs_of = (i) => ({
  [`copy-${i}`]: migrate(source(i), target(i)),
  [`move-${i}`]: migrate(source(i), moved(i), {mode: 'move'}),
  [`purge-${i}`]: {kind: 'delete', table: target(i), all: true},
});

// batches: one a started hundred of each of `count` partitions that `blogs`
// are dealt out to in turns.
function batches(blogs, count) {
  let sum = 0;
  for (let i = 0; i < count; i++)
    sum += Math.ceil(Math.ceil((blogs - i) / count) / 100);
  return sum;
}

function summary(requests) {
  const kinds = {};
  for (const {kind, table, method} of requests) {
    const name = `${table} ${kind} ${method}`;
    kinds[name] = (kinds[name] || 0) + 1;
  }
  return JSON.stringify(kinds);
}

// cost: runs the job; the requests to the tables of data are at most so many.
async function cost(suite, job, most, at_start) {
  const {store} = suite;
  const id = await store.enqueue(job, {});
  const first = store.proxy.requests.length;
  const worker = suite.worker();
  const end = await suite.program.end(worker);
  assert.strictEqual(end.code, 0, worker.log);
  const run = await suite.ended(id, 'succeeded');
  const made = store.proxy.requests.slice(first);
  const data = made.filter(is_data), ledger = made.filter(is_ledger);
  const renewals = made.filter((r) => r.kind === 'renew').length;
  assert.ok(data.length <= most, `${data.length} requests to the data ` +
      `tables, at most ${most}: ${summary(data)}`);
  assert.ok(ledger.length - at_start <= 6 * run.Attempt + renewals,
      `${ledger.length - at_start} requests to the ledger in ${run.Attempt} ` +
      `attempts and ${renewals} renewals: ${summary(ledger)}`);
  return data;
}

const writes = (requests) => requests.filter(
    (r) => r.kind === 'batch' || r.kind === 'write');

// Goal: N sources whose copies go into P partitions: ceil(N/1000) pages, a
// batch per started hundred of each partition, at most two reads of each side
// to verify, and 10 more; a second run writes nothing; a move deletes in a
// batch per started hundred of each partition of its source, a delete too.
async function copy_requests(suite) {
  await suite.open({
    jobs: Object.assign({}, ...SHAPES.map((_, i) => jobs_of(i))),
    tables: SHAPES.map((_, i) => source(i)),
    worker: {visibility_timeout: '30s'},
  });
  const {store} = suite;
  const idle = await suite.program.end(suite.worker());
  assert.strictEqual(idle.code, 0);
  const at_start = store.proxy.count(is_ledger);
  for (const [i, {partitions, blogs}] of SHAPES.entries()) {
    const name = `${blogs} blogs into ${partitions} partitions`;
    const pages = Math.ceil(blogs / 1000);
    const written = batches(blogs, partitions);
    await store.insert(source(i), Array.from(
        {length: blogs}, (_, n) => blog(n, partitions)));
    await suite.judge(`requests to copy ${name}`, async () => {
      const data = await cost(
          suite, `copy-${i}`, pages + written + 4 * pages + 10, at_start);
      assert.ok(writes(data).length <= written, summary(data));
      assert.strictEqual((await store.read(target(i))).length, blogs);
    });
    await suite.judge(`requests to copy ${name} again`, async () => {
      const data = await cost(
          suite, `copy-${i}`, pages + 4 * pages + 10, at_start);
      assert.strictEqual(writes(data).length, 0, summary(data));
    });
    await suite.judge(`requests to delete ${name}`, () => cost(
        suite, `purge-${i}`, pages + written + 10, at_start));
    await suite.judge(`requests to move ${name}`, async () => {
      const deleted = batches(blogs, SOURCES);
      await cost(suite, `move-${i}`,
          pages + written + deleted + 4 * pages + 10, at_start);
      assert.strictEqual((await store.read(source(i))).length, 0);
      assert.strictEqual((await store.read(moved(i))).length, blogs);
    });
  }
}

module.exports = [{
  name: 'copy-requests', stores: ['azurite'], seconds: 30, body: copy_requests,
}];
