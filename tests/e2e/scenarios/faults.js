// SPDX-License-Identifier: MIT
// Connections that break: reset before or after the request took effect, half a
// response, a slow response, a request that arrives twice, garbage; and a
// service that throttles. The tables must end as without faults.
'use strict';

const assert = require('assert');
const path = require('path');
const jobs = require('../lib/jobs');
const {connection_string} = require('../lib/azurite');
const {FaultProxy, FAULTS} = require('../lib/fault_proxy');
const {counts_cascade} = require('../lib/runs');
const {seed_of_run} = require('../lib/wait');

const BLOGS = 250;

// proxy_of: returns the proxy through which the worker's requests pass; for
// Azurite it starts one.
async function proxy_of(suite) {
  const {store} = suite;
  if (store.faulty) return store.faulty;
  const program = path.join(path.dirname(suite.bench.program), 'azsim-proxy');
  const proxy = await FaultProxy.start(program, store.azurite);
  suite.environment.STORAGE = connection_string(store.account,
      store.azurite.key, proxy.table_port, proxy.queue_port);
  return proxy;
}

// cascade: deletes a channel while the proxy makes faults by `shares`; returns
// the proxy's counts.
async function cascade(suite, proxy, name, shares, seed) {
  const {store} = suite;
  await jobs.store_channel(store, name, BLOGS);
  const before = await proxy.counts();
  const off = Object.fromEntries(FAULTS.map((fault) => [fault, 0]));
  await proxy.control({...off, seed, slow_ms: 200, ...shares});
  const id = await store.enqueue('delete-channel', {channel: name});
  await suite.drain();
  await proxy.control(off);
  const run = await suite.ended(id, 'succeeded');
  counts_cascade(run, BLOGS, true);
  await suite.same();
  const after = await proxy.counts();
  return Object.fromEntries(
      Object.keys(after).map((what) => [what, after[what] - before[what]]));
}

// Goal: the tables end as without faults if three requests in ten have a fault
// of one kind, and if one request in twenty has a fault of each kind.
async function broken(suite) {
  const seed = seed_of_run();
  await jobs.open_flat(suite,
      {visibility_timeout: '10s', poll: {min: '20ms', max: '100ms'}});
  const near = [jobs.blog('Reset', '1'), jobs.blog('all', '1')];
  suite.put('Blogs', ...near);
  await suite.store.insert('Blogs', near);
  const proxy = await proxy_of(suite);
  const kinds = FAULTS.map((fault) => [fault, {[fault]: 300}]);
  kinds.push(['all of them',
    Object.fromEntries(FAULTS.map((fault) => [fault, 50]))]);
  for (const [name, shares] of kinds)
    await suite.judge(`${name.replace('_', ' ')}, seed ${seed}`, async () => {
      const counts = await cascade(suite, proxy, name, shares, seed);
      for (const fault of Object.keys(shares))
        assert.ok(name !== fault || counts[fault] > 0, `no ${fault} at all`);
    });
  proxy.stop();
}

// Goal: a partition serves 2,000 entities a second: the worker slows down, and
// most of its requests are served.
async function throttled(suite) {
  await jobs.open_flat(suite, {visibility_timeout: '60s', requests: 32});
  const {store} = suite;
  await store.faulty.faults(0, 1);
  await jobs.store_channel(store, 'Fast', 12000);
  await suite.judge('12,000 blogs of one partition at its limit', async () => {
    await store.azurite.control({
      partition_limit: 2000, latency_ms: 5, empty_share: 0, short_share: 0,
      clear: true,
    });
    const id = await store.enqueue('delete-channel', {channel: 'Fast'});
    await suite.drain();
    const run = await suite.ended(id, 'succeeded');
    assert.strictEqual(run.EntitiesDeleted, 12001);
    const deletes = (await store.azurite.log()).filter((e) => e.deletes > 0);
    const refused = deletes.filter((e) => e.status >= 500);
    assert.ok(refused.length > 0, 'nothing was throttled');
    assert.ok(refused.length < deletes.length / 2,
        `${refused.length} of ${deletes.length} requests were throttled`);
    await suite.same();
  });
}

module.exports = [
  {name: 'broken connections', stores: ['azsim'], seconds: 60, body: broken},
  {name: 'broken connections', stores: ['azurite'], long: true, seconds: 60,
    body: broken},
  {name: 'throttled', stores: ['azsim'], seconds: 15, body: throttled},
];
