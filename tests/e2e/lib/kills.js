// SPDX-License-Identifier: MIT
// Workers that are killed with SIGKILL: at a request, three ways, before it
// reached the service, after it took effect but before its answer, and after
// the answer; or, where no request can be seen, after a time.
'use strict';

const assert = require('assert');
const {tail} = require('./program');
const {is_data} = require('./proxy');
const {within} = require('./wait');

const WAYS = ['before', 'after', 'answered'];

// A Get that brought nothing is waiting, not work.
const counts = (request) => !(request.kind === 'take' && request.empty);

// kill_at: lets `worker` be killed at its k-th request that passes `which`
// (known of a take only once it is answered, so those are counted then).
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
    kill(); // also for a take `before`: what it would bring is not known then
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

// live: one worker, killed at its k-th request (of those that pass `which`) or,
// k = 0, left to end.
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

// operations: how much the requests were to write.
const operations = (requests) => requests
    .filter((r) => is_data(r) && !['page', 'get'].includes(r.kind))
    .reduce((sum, r) => sum + r.operations, 0);

// undisturbed: a run of `job` that nobody kills: the requests of its worker,
// and how many of them it takes to the first write.
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

// sweep: kills `times` workers, each at a request drawn from what is left of
// those of an undisturbed run, then lets one end; returns the requests made.
async function sweep(suite, clean, times, seed, draw) {
  const {proxy} = suite.store, first = proxy.requests.length;
  const made = () => proxy.requests.slice(first);
  const data = (requests) => requests.filter(is_data);
  for (let i = 0; i < times; i++) {
    const left = data(clean.requests).length -
        data(made()).filter((r) => r.done).length;
    const work = 1 + Math.max(0, Math.floor(left / (times - i + 1)));
    // On its way to its work, or in the midst of it.
    const end = i % 2 ?
      await live(suite, 1 + draw(clean.overhead), WAYS[i % 3]) :
      await live(suite, 1 + draw(work), WAYS[i % 3], is_data);
    assert.strictEqual(end.signal, 'SIGKILL', `seed ${seed}, kill ` +
        `${i + 1}: the worker ended by itself\n${tail(end.log)}`);
  }
  await to_the_end(suite);
  return made();
}

// kill_in_turn: `times` workers, each killed at one of the first `most` of its
// requests of data, drawn, unless it ends before, and one that ends; how many
// were killed.
async function kill_in_turn(suite, times, most, draw) {
  let killed = 0;
  for (let i = 0; i < times; i++) {
    const end = await live(suite, 1 + draw(most), WAYS[i % 3], is_data);
    if (end.signal === 'SIGKILL') killed++;
  }
  await to_the_end(suite);
  return killed;
}

// claimed: at the moment when the worker says that it is at work, or has ended:
// what it has to do may take less time than one look at it after another.
const claimed = (worker) => within('a worker claims its run',
    new Promise((resolve) => {
      const look = () => {
        if (worker.log.includes(': lease acquired, attempt')) resolve();
      };
      worker.child.stderr.on('data', look);
      worker.exit.then(resolve, resolve);
      look();
    }), 60000);

// time_of: the ms that a worker takes from its claim to its end.
async function time_of(suite, job) {
  await suite.store.enqueue(job, {});
  const worker = suite.worker();
  await claimed(worker);
  const began = Date.now();
  await suite.drain(worker);
  return Date.now() - began;
}

// kill_in_time: `times` workers, each killed less than `most_ms` after it
// claimed its run, drawn, unless it ends well before, and one that ends; how
// many were killed. The first ones live shorter: how fast this machine is, is
// not known, and a worker that comes to the end leaves the others nothing.
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
