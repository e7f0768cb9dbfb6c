// SPDX-License-Identifier: MIT
// Several workers on one host: the runs of a killed worker are taken over at
// once; those of a suspended worker only when their lease has expired.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const jobs = require('../lib/jobs');
const {sleep, until} = require('../lib/wait');
const {tail} = require('../lib/program');

// LONG_LEASE_S: so long that a test notices if a worker waits for the end of
// the lease. TAKEN_MS: within this time another worker must take over the run.
const LONG_LEASE_S = 60, TAKEN_MS = 2000, STOP_MS = 20000;
// A lease whose end a test waits for.
const SHORT_LEASE_S = 8;
const BLOGS = 3000, PER_SECOND = 1000;

// open: stores a channel with blogs for some seconds of work, and enqueues its
// run.
async function open(suite, visibility_s, more = {}) {
  await jobs.open_flat(suite, {
    visibility_timeout: `${visibility_s}s`, requests: 2, slots: 2,
    max_entities_per_second: PER_SECOND, ...more,
  });
  return await jobs.ask_for_channel(suite.store, 'Killed', BLOGS);
}

async function until_half_done(suite, worker) {
  await until('some blogs are gone', async () => {
    const left = (await suite.store.read('Blogs')).length;
    return left < BLOGS &&
        (left > 0 || assert.fail('no blog is left: the run was too fast'));
  }, 30000, () => worker.over && assert.fail(tail(worker.log)));
}

// taken_at: returns when the worker acquired the lease of the run, by its own
// log.
function taken_at(worker, attempt = 2) {
  const line = worker.log.split('\n')
      .find((l) => l.includes(`lease acquired, attempt ${attempt}`));
  return line && Date.parse(line.split(' ')[0]);
}

async function ready(worker) {
  await until('a worker is ready', () => worker.log.includes(' ready: '),
      20000, () => worker.over && assert.fail(tail(worker.log)));
}

// judge_take_over: throws unless the second worker completes the run soon.
// Returns the time from `since` (the kill, or the start of the second worker)
// to the take-over.
async function judge_take_over(suite, id, second, since) {
  const run = await suite.state(id, ['succeeded'], second);
  assert.strictEqual(run.Attempt, 2, tail(second.log));
  const took_ms = taken_at(second) - since;
  assert.ok(took_ms <= TAKEN_MS, `taken after ${took_ms} ms`);
  assert.ok(Date.now() - since < LONG_LEASE_S * 1000 / 2, 'it took too long');
  await suite.same();
  return took_ms;
}

// Goal: after `kill -9` another worker is started: it continues the run within
// two seconds, without waiting for the lease of a minute to expire.
async function started(suite) {
  const id = await open(suite, LONG_LEASE_S);
  let took_ms;
  await suite.judge('a worker that starts takes a dead one\'s run', async () => {
    const first = suite.worker([]);
    await until_half_done(suite, first);
    await suite.kill(first);
    const since = Date.now();
    const second = suite.worker([]);
    took_ms = await judge_take_over(suite, id, second, since);
    await suite.stop(second, STOP_MS);
  });
  console.log(`    (${suite.store.constructor.name}: taken ${took_ms} ms ` +
      `after the start)`);
}

// Goal: a worker that was idle takes over the run as fast. The run's message,
// which is still hidden, is deleted later, when the run has ended.
async function idle(suite) {
  const id = await open(suite, 20);
  let took_ms;
  await suite.judge('an idle worker takes the run of one that is killed',
      async () => {
        const first = suite.worker([]);
        await until('the run is under way', () => taken_at(first, 1));
        const second = suite.worker([]);
        await ready(second);
        await until_half_done(suite, first);
        const since = Date.now();
        first.kill('SIGKILL');
        took_ms = await judge_take_over(suite, id, second, since);
        await until('the message is gone', () =>
          second.log.includes('succeeded already: nothing to do'), 40000);
        await suite.stop(second, STOP_MS);
        const run = await suite.ended(id, 'succeeded');
        assert.strictEqual(run.Attempt, 2);
        await suite.same();
      });
  console.log(`    (${suite.store.constructor.name}: taken ${took_ms} ms ` +
      `after the kill)`);
}

// suspend: stops the worker, but not while it writes to an embedded store: then
// it would have SQLite's lock, and no other process could write.
async function suspend(worker) {
  for (let tries = 0; tries < 1000; tries++) {
    worker.kill('SIGSTOP');
    await until('it is suspended', () => /^State:\s+T/m.test(
        fs.readFileSync(`/proc/${worker.child.pid}/status`, 'utf8')));
    const writes = fs.readFileSync('/proc/locks', 'utf8').split('\n')
        .some((line) => new RegExp(`POSIX .* WRITE ${worker.child.pid} `).test(line));
    if (!writes) return;
    worker.kill('SIGCONT');
    await sleep(3);
  }
  throw new Error('the worker writes all the time');
}

// Goal: a suspended worker is not dead: it keeps its lease until this expires,
// beside an idle worker and a new one.
async function suspended(suite) {
  const id = await open(suite, SHORT_LEASE_S);
  await suite.judge('a worker that is suspended keeps its run until the lease ' +
      'expires', async () => {
    const first = suite.worker([]);
    await until_half_done(suite, first);
    await suspend(first);
    await sleep(500); // the requests that it had sent have arrived
    const lease = Date.parse((await suite.run_of(id)).LeaseUntil);
    const second = suite.worker([]);
    await until('the second has the run', () => taken_at(second),
        (SHORT_LEASE_S + 20) * 1000);
    assert.ok(taken_at(second) >= lease,
        `taken ${lease - taken_at(second)} ms before the lease expires`);
    await suite.state(id, ['succeeded'], second);
    first.kill('SIGCONT');
    await suite.stop(first, STOP_MS);
    await suite.stop(second, STOP_MS);
    assert.strictEqual((await suite.run_of(id)).Attempt, 2);
    await suite.same();
  });
}

// Goal: a killed `run` continues at once if it is started again with the same
// id; and workers leave no files behind.
async function by_hand(suite) {
  await open(suite, LONG_LEASE_S);
  await suite.judge('`run` continues a killed one by its id at once',
      async () => {
        const words = ['run', 'delete-channel', 'channel=Killed', '--yes',
          '--id', 'by-hand'];
        const first = suite.start(words);
        await until_half_done(suite, first);
        await suite.kill(first);
        const since = Date.now();
        const second = await suite.command(words, {limit_ms: 30000});
        assert.strictEqual(second.code, 0, tail(second.log));
        assert.ok(taken_at(second) - since <= TAKEN_MS, tail(second.log));
        const folders = fs.readdirSync(suite.folder)
            .filter((name) => name.endsWith('-locks'));
        assert.strictEqual(folders.length, 1);
        const files = fs.readdirSync(path.join(suite.folder, folders[0]));
        assert.strictEqual(files.length, 1, 'the dead one\'s alone');
        await suite.same();
      });
}

// Goal: if no lock file can be created, everything else works, and a debug line
// in the log says so.
async function without(suite) {
  const id = await open(suite, SHORT_LEASE_S);
  await suite.judge('without a folder for lock files the lease is waited for',
      async () => {
        const folder = path.join(suite.folder, 'tableward.db-locks');
        fs.symlinkSync('/tmp', folder);
        const first = suite.worker([]);
        await until_half_done(suite, first);
        assert.match(first.log, /debug lock file: cannot be used in /);
        const lease = Date.parse((await suite.run_of(id)).LeaseUntil);
        await suite.kill(first);
        const second = suite.worker();
        await suite.drain(second);
        assert.ok(taken_at(second) >= lease);
        assert.strictEqual(fs.readlinkSync(folder), '/tmp');
        await suite.ended(id, 'succeeded');
        await suite.same();
      });
}

const BOTH = ['embedded', 'azurite'];
module.exports = [
  {name: 'dead on start', stores: BOTH, phase: 2, seconds: 15, body: started},
  {name: 'dead beside', stores: BOTH, phase: 2, seconds: 30, body: idle},
  {name: 'suspended', stores: BOTH, phase: 2, seconds: 25, body: suspended},
  {name: 'dead by hand', stores: BOTH, phase: 2, seconds: 15, body: by_hand},
  {name: 'no lock file', stores: ['embedded'], phase: 2, seconds: 25,
    body: without},
];
