// SPDX-License-Identifier: MIT
// Workers that are killed with SIGKILL at a request, three ways: before it
// reached the service, after it took effect but before its answer, and after
// the answer.
'use strict';

const assert = require('assert');
const {tail} = require('./program');

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

module.exports = {WAYS, counts, live, to_the_end};
