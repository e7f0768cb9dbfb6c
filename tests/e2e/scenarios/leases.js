// SPDX-License-Identifier: MIT
// Runs that last several times their visibility timeout, because the connection
// is slow: the lease is renewed, and no other worker takes the run.
'use strict';

const assert = require('assert');
const jobs = require('../lib/jobs');
const {is_data} = require('../lib/proxy');
const {sleep, until} = require('../lib/wait');
const {OPEN_STATES} = require('../lib/suite');

const BLOGS = 5000;
// A lease is renewed after a third of this time. The time is so long that the
// renewal is not late on a busy machine: a lost lease would cause another
// attempt.
const VISIBILITY_S = 6;
const DELAY_MS = 900; // delay of each of 50 batches, two at a time
// LONG_LEASE_S: so long that a test notices if a worker waits for the end of
// the lease. AT_ONCE_MS: within this time a worker continues without that wait,
// even on a busy machine.
const LONG_LEASE_S = 120, AT_ONCE_MS = 60000;

// Goal: a run that is longer than three visibility timeouts completes in one
// attempt, and every delete is sent once.
async function outlast(suite) {
  await jobs.open_flat(
      suite, {visibility_timeout: `${VISIBILITY_S}s`, requests: 2});
  const {store} = suite;
  await jobs.store_channel(store, 'Slow', BLOGS);
  store.proxy.before = async (request) => {
    if (is_data(request)) await sleep(DELAY_MS);
  };
  await suite.judge('a run longer than three visibility timeouts, beside an ' +
      'idle worker', async () => {
    const id = await store.enqueue('delete-channel', {channel: 'Slow'});
    for (const worker of [suite.worker(), suite.worker()])
      await suite.drain(worker);
    const run = await suite.ended(id, 'succeeded');
    const took_ms = new Date(run.FinishedAt) - new Date(run.StartedAt);
    assert.ok(took_ms > 3 * VISIBILITY_S * 1000, `only ${took_ms} ms`);
    assert.strictEqual(run.Attempt, 1);
    assert.strictEqual(run.EntitiesDeleted, BLOGS + 1);
    const sent = store.proxy.requests.filter(is_data)
        .reduce((sum, r) => sum + (r.deletes || 0), 0);
    assert.strictEqual(sent, BLOGS + 1);
    await suite.same();
  });
}

// Goal: a worker that is suspended (SIGSTOP) past its lease starts no more
// requests for the run when it wakes; another worker completes the run.
async function asleep(suite) {
  await jobs.open_flat(
      suite, {visibility_timeout: `${VISIBILITY_S}s`, requests: 2});
  const {store} = suite;
  await jobs.store_channel(store, 'Nap', 2000);
  store.proxy.before = async (request) => {
    if (is_data(request)) await sleep(200);
  };
  await suite.judge('a worker that sleeps past its lease is overtaken',
      async () => {
        const id = await store.enqueue('delete-channel', {channel: 'Nap'});
        const first = suite.worker();
        await until('its first batch is there', async () =>
          store.proxy.count((r) => is_data(r) && r.deletes));
        first.kill('SIGSTOP');
        const slept = store.proxy.requests.length;
        store.proxy.life++;
        const second = suite.worker();
        await until('the second has taken over', async () => {
          const run = await suite.run_of(id);
          return run && run.Attempt === 2;
        });
        first.kill('SIGCONT');
        for (const worker of [second, first]) await suite.drain(worker);
        const late = store.proxy.requests.slice(slept).filter(
            (r) => r.life === store.proxy.life - 1 && is_data(r) && r.deletes);
        // Two requests may have been on the way when it was suspended.
        assert.ok(late.length <= 2, `${late.length} late deletes`);
        const run = await suite.ended(id, 'succeeded');
        assert.strictEqual(run.Attempt, 2);
        await suite.same();
      });
}

// Goal: after SIGTERM the worker releases the run, at the latest after the
// current page, and exits with 0; the next worker continues at once at the same
// place, without waiting for the end of the lease.
async function let_go(suite) {
  await jobs.open_flat(
      suite, {visibility_timeout: `${LONG_LEASE_S}s`, requests: 2});
  const {store} = suite;
  await jobs.store_channel(store, 'Stop', 5000);
  await suite.judge('SIGTERM lets go in order', async () => {
    store.proxy.before = async (request) => {
      if (is_data(request)) await sleep(300);
    };
    const id = await store.enqueue('delete-channel', {channel: 'Stop'});
    const first = suite.worker([]);
    await until('two batches are there', async () =>
      store.proxy.count((r) => is_data(r) && r.deletes) > 1);
    await suite.stop(first, AT_ONCE_MS);
    const stopped = await suite.run_of(id);
    assert.ok(OPEN_STATES.includes(stopped.State), stopped.State);
    assert.ok(stopped.EntitiesDeleted > 0);
    store.proxy.before = async () => {};
    await suite.drain(suite.worker(), 0, AT_ONCE_MS);
    const run = await suite.ended(id, 'succeeded');
    assert.strictEqual(run.Attempt, 2);
    assert.strictEqual(run.EntitiesDeleted, 5001);
    await suite.same();
  });
}

const AZURITE = ['azurite'];
module.exports = [
  {name: 'outlast with two workers', stores: AZURITE, phase: 2, seconds: 35,
    body: outlast},
  {name: 'asleep', stores: AZURITE, phase: 2, seconds: 20, body: asleep},
  {name: 'let go', stores: AZURITE, phase: 2, seconds: 10, body: let_go},
];
