// SPDX-License-Identifier: MIT
// Helpers to wait for conditions, and to do several things at a time.
'use strict';

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// block: waits, while nothing else in this process runs.
const block = (ms) =>
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

// until: returns the first truthy result of condition(); throws, with `what` in
// the message, if there is none within limit_ms. `alive` (optional) may throw
// to end the wait early, such as when a worker has died.
async function until(what, condition, limit_ms = 60000, alive = () => {}) {
  const deadline = Date.now() + limit_ms;
  for (;;) {
    const answer = await condition();
    if (answer) return answer;
    alive();
    if (Date.now() > deadline)
      throw new Error(`waited ${limit_ms} ms in vain until ${what}`);
    await sleep(50);
  }
}

// within: awaits `promise`; throws after limit_ms.
async function within(what, promise, limit_ms) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(
        () => reject(new Error(`${what}: not over after ${limit_ms} ms`)),
        limit_ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// each: calls work(item) for all items, `width` at a time.
async function each(items, width, work) {
  const queue = [...items];
  const hand = async () => {
    while (queue.length > 0) await work(queue.shift());
  };
  await Promise.all(Array.from({length: width}, hand));
}

// seed_of_run: returns E2E_SEED, to repeat an earlier run, or a new seed.
const seed_of_run = () => Number(process.env.E2E_SEED || Date.now() % 1e6);

// random: returns a generator of integers 0..n-1 that depends only on the seed
// (mulberry32).
function random(seed) {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = state;
    x = Math.imul(x ^ (x >>> 15), x | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) % n;
  };
}

module.exports = {
  sleep, block, until, within, each, random, seed_of_run,
};
