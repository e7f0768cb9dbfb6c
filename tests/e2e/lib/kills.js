// SPDX-License-Identifier: MIT
// Kills workers with SIGKILL. If requests can be observed, a worker is killed
// at a request, in one of three ways (WAYS): before the request reaches the
// service; after it took effect, but before its response; after its response.
// Otherwise a worker is killed after a time.
'use strict';

const assert = require('assert');
const {tail} = require('./program');
const {is_data} = require('./proxy');
const {within} = require('./wait');

const WAYS = ['before', 'after', 'answered'];

// A Get Messages without a message is not counted: the worker is waiting.
const counts = (request) => !(request.kind === 'take' && request.empty);

// kill_at: kills `worker` at its k-th request for which `which` is true.
// Requests of the kind take are counted when their response comes, because only
// then is it known whether they brought a message.
function kill_at(suite, worker, k, way, which) {
  const {proxy} = suite.store;
  const {life} = proxy;
  let seen = 0;
  const kill = () => worker.kill('SIGKILL');
  const reached = (request) => {
    if (request.life === life && which(request) && ++seen === k)
      request.hit = true;
  };
  proxy.before = async (request) => {
    if (request.kind === 'take') return;
    reached(request);
    if (!request.hit || way !== 'before') return;
    kill();
    return 'lose';
  };
  proxy.after = async (request) => {
    if (request.kind === 'take') reached(request);
    if (!request.hit || way === 'answered') return;
    // At a take, `before` kills the worker here, too: only the response shows
    // whether the take brings a message.
    kill();
    return 'lose';
  };
  proxy.answered = (request) => {
    if (request.hit) kill();
  };
}

function let_pass({proxy}) {
  proxy.before = async () => {};
  proxy.after = async () => {};
  proxy.answered = () => {};
}

// live: runs one worker, which is killed at its k-th request for which `which`
// is true; k = 0: it runs to its end.
async function live(suite, k, way, which = counts) {
  suite.store.proxy.life++;
  let_pass(suite.store);
  const worker = suite.worker();
  if (k > 0) kill_at(suite, worker, k, way, which);
  return {...await suite.program.end(worker, 120000), log: worker.log};
}

async function to_the_end(suite) {
  const end = await live(suite, 0);
  assert.strictEqual(end.code, 0, tail(end.log));
}

// operations: returns the number of write operations in the requests to data.
const operations = (requests) => requests
    .filter((r) => is_data(r) && !['page', 'get'].includes(r.kind))
    .reduce((sum, r) => sum + r.operations, 0);

// undisturbed: runs `job` without a kill; returns the requests of its worker,
// and the number of requests up to and including the first write.
async function undisturbed(suite, job, args = {}) {
  const {proxy} = suite.store, first = proxy.requests.length;
  await suite.store.enqueue(job, args);
  await to_the_end(suite);
  const requests = proxy.requests.slice(first)
      .filter((r) => counts(r) && r.life > 0);
  const overhead = requests.findIndex((r) => operations([r]) > 0) + 1;
  assert.ok(overhead > 0, 'no write was seen');
  return {requests, overhead};
}

// sweep: kills `times` workers, each at a random one of the requests that an
// undisturbed run would still send. Then runs a worker to its end; returns the
// requests made.
async function sweep(suite, clean, times, seed, draw) {
  const {proxy} = suite.store, first = proxy.requests.length;
  const made = () => proxy.requests.slice(first);
  const data = (requests) => requests.filter(is_data);
  for (let i = 0; i < times; i++) {
    const left = data(clean.requests).length -
        data(made()).filter((r) => r.done).length;
    const work = 1 + Math.max(0, Math.floor(left / (times - i + 1)));
    // Every second worker is killed before its first write, the others during
    // their work.
    const end = i % 2 ?
      await live(suite, 1 + draw(clean.overhead), WAYS[i % 3]) :
      await live(suite, 1 + draw(work), WAYS[i % 3], is_data);
    assert.strictEqual(end.signal, 'SIGKILL', `seed ${seed}, kill ` +
        `${i + 1}: the worker ended by itself\n${tail(end.log)}`);
  }
  await to_the_end(suite);
  return made();
}

// kill_in_turn: starts `times` workers. Each is killed at a random one of its
// first `most` requests to data, unless it ends before. Then runs a worker to
// its end; returns how many were killed.
async function kill_in_turn(suite, times, most, draw) {
  let killed = 0;
  for (let i = 0; i < times; i++) {
    const end = await live(suite, 1 + draw(most), WAYS[i % 3], is_data);
    if (end.signal === 'SIGKILL') killed++;
  }
  await to_the_end(suite);
  return killed;
}

// claimed: waits until the worker's log says that it has acquired a lease, or
// it has ended. It watches the log because a short run may end between two
// polls of the ledger.
const claimed = (worker) => within('a worker claims its run',
    new Promise((resolve) => {
      const look = () => {
        if (worker.log.includes(': lease acquired, attempt')) resolve();
      };
      worker.child.stderr.on('data', look);
      worker.exit.then(resolve, resolve);
      look();
    }), 60000);

// time_of: returns the ms that a worker takes from acquiring the lease to its
// end.
async function time_of(suite, job) {
  await suite.store.enqueue(job, {});
  const worker = suite.worker();
  await claimed(worker);
  const began = Date.now();
  await suite.drain(worker);
  return Date.now() - began;
}

// kill_in_time: starts `times` workers. Each is killed a random time, less than
// `most_ms`, after it acquired the lease, unless it ends before. Then runs a
// worker to its end; returns how many were killed. The first workers are killed
// earlier, because the speed of this machine is not known and a worker that
// completes the run leaves nothing to do for the others.
async function kill_in_time(suite, times, most_ms, draw) {
  let killed = 0;
  for (let i = 0; i < times; i++) {
    const worker = suite.worker();
    await claimed(worker);
    setTimeout(() => worker.kill('SIGKILL'),
        draw(Math.ceil(most_ms * (i + 1) / times)));
    const end = await suite.program.end(worker);
    if (end.signal === 'SIGKILL') killed++;
    else assert.strictEqual(end.code, 0, tail(worker.log));
  }
  await suite.drain();
  return killed;
}

module.exports = {
  WAYS, counts, live, to_the_end, operations, undisturbed, sweep, kill_in_turn,
  time_of, kill_in_time,
};
