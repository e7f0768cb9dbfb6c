// SPDX-License-Identifier: MIT
// node main.js BUILD STALLS [--break deadline] [--seed N] [--only KIND]
//
// Workers that sleep past the end of their lease and wake. Each group of two or
// four worker processes shares an azsim. The worker that has the lease is
// stopped or disturbed in one of the ways below until another has acquired the
// lease, and then woken. At the end azsim's log shows what each worker did
// (judge.js), and the tables show the result. --break deadline: the deadline is
// always open, which the test must detect.
'use strict';

require('../e2e/lib/node18');
const crypto = require('crypto');
const fs = require('fs');
const os = require('os');
const path = require('path');
const {Group, now_us} = require('./group');
const {each, random, sleep, until} = require('../e2e/lib/wait');

const GROUPS_AT_ONCE = 6;
// The kinds of groups. The kind `long` detects a lease that is a little too
// long: with a visibility timeout of 200 s, a request may take 35 s, and the
// ledger adds 3 s to the lease.
const KINDS = {
  bent: {
    speed: 10, visibility_s: 10, stalls: 25,
    modes: ['stopped', 'stopped', 'held', 'held', 'stuck', 'stuck', 'frozen',
      'frozen', 'suspended', 'misdated'],
  },
  long: {speed: 200, visibility_s: 200, stalls: 12, modes: ['slow', 'held']},
  real: {speed: 0, visibility_s: 2, stalls: 12, modes: ['stopped', 'held']},
  plain: {speed: 0, visibility_s: 2, stalls: 12, modes: ['stopped', 'held']},
};
const ORDER = ['bent', 'bent', 'long', 'plain', 'bent', 'real', 'bent', 'bent',
  'bent', 'bent'];
const JUMP_MS = 20 * 60 * 1000;

// overtaken: true if another worker acquired the lease between sleep() and
// wake().
async function overtaken(group, before, stall, sleep, wake) {
  sleep();
  stall.stopped_us = now_us();
  const was = await group.overtaken(before, group.limit_ms);
  stall.woken_us = now_us();
  await wake();
  return was;
}

const stopped = (group, worker, before, stall) => overtaken(
    group, before, stall, () => worker.stop(), () => worker.wake());

// The ways to make the owner of the lease a zombie. Each function returns true
// if another worker acquired the lease.
const MODES = {
  // SIGSTOP, whatever the worker is doing.
  stopped,

  // SIGSTOP; the requests that it has sent are not carried out until it wakes:
  // the service is slow, but obeys the timeouts of the requests.
  held: (...all) => until_woken('hold', ...all),

  // SIGSTOP; the requests that it has sent are stuck on their way to the
  // service, which does not know of them until the worker wakes.
  stuck: (...all) => until_woken('stick', ...all),

  // Only its renewer is stopped: the lease is not renewed, and the requests go
  // on.
  frozen: (group, worker, before, stall) => overtaken(group, before, stall,
      () => worker.bend.freeze(true), () => worker.bend.freeze(false)),

  // Responses to it are delayed by more than the time that the deadline
  // reserves for a request plus the time that the ledger adds to the lease. So
  // a deadline that is counted from the response would be too late. Then
  // SIGSTOP.
  async slow(group, worker, before, stall) {
    await group.azsim.control({
      slow_worker: worker.index,
      answer_ms: Math.round(group.visibility_ms * 0.27),
    });
    await sleep(group.visibility_ms + group.random(group.visibility_ms / 2));
    const was = await stopped(group, worker, before, stall);
    await sleep(group.visibility_ms / 5);
    await group.azsim.control({slow_worker: -1, answer_ms: 0});
    return was;
  },

  // The boot clock moves forward by 20 minutes, as after a suspend.
  async suspended(group, worker, before, stall) {
    worker.stop();
    stall.stopped_us = now_us();
    worker.jump(JUMP_MS);
    stall.woken_us = now_us();
    worker.wake();
    return await group.overtaken(before, group.limit_ms);
  },

  // Its wall clock is off by 20 minutes for a while; the service refuses its
  // requests.
  misdated: (group, worker, before, stall) => overtaken(group, before, stall,
      () => worker.bend.wall_ahead(group.random(2) ? JUMP_MS : -JUMP_MS),
      () => worker.bend.wall_ahead(0)),
};

// until_woken: holds the worker's requests at azsim's gate, stops the worker
// until another has the lease, and wakes it before or after the gate opens.
async function until_woken(gate, group, worker, before, stall) {
  stall.began_us = now_us();
  await group.azsim.control({[gate]: [worker.index]});
  await until('a request is at the gate', async () =>
    await group.azsim.waiting(worker.index) > 0, 5000).catch(() => {});
  const wake = async () => {
    if (group.random(2)) worker.wake();
    await group.azsim.control({release: [worker.index]});
    worker.wake();
  };
  return await overtaken(group, before, stall, () => worker.stop(), wake);
}

function options_of(words) {
  const options = {seed: crypto.randomInt(1, 1 << 30)};
  const [build, stalls, ...rest] = words;
  Object.assign(options, {build: path.resolve(build), stalls: Number(stalls)});
  for (let i = 0; i + 1 < rest.length; i += 2) {
    if (rest[i] === '--break') options.fault = rest[i + 1];
    if (rest[i] === '--seed') options.seed = Number(rest[i + 1]);
    if (rest[i] === '--only') options.only = rest[i + 1];
  }
  return options;
}

// plan: returns the groups, {kind, workers, stalls} each.
function plan({stalls, only}) {
  const groups = [];
  let left = stalls;
  for (let i = 0; left > 0; i++) {
    const kind = only || ORDER[i % ORDER.length];
    const count = Math.min(left, KINDS[kind].stalls);
    groups.push({kind, workers: i % 2 === 0 ? 2 : 4, stalls: count});
    left -= count;
  }
  return groups;
}

async function play(group, modes, stalls) {
  while (group.stalls.length < stalls) {
    const worker = await group.holder();
    await sleep(group.random(Math.round(group.visibility_ms / 3)));
    await group.read_log();
    const before = group.claims.length;
    if (group.is_over() || group.claims[before - 1].worker !== worker.index)
      continue;
    const mode = modes[group.random(modes.length)];
    const stall = {mode, worker: worker.index};
    stall.overtaken = await MODES[mode](group, worker, before, stall);
    if (stall.stopped_us) group.stalls.push(stall);
    await until('what it sent is answered', async () =>
      await group.azsim.waiting(worker.index) === 0);
  }
}

async function run_group(options, plan_of, number, work) {
  const {speed, visibility_s, modes} = KINDS[plan_of.kind];
  const visibility_ms = visibility_s * 1000 / (speed || 1);
  const group = new Group({
    program: path.join(options.build,
        plan_of.kind === 'plain' ? 'tableward' : 'zombies/tableward'),
    azsim_program: path.join(options.build, 'azsim'),
    folder: path.join(work, `group-${number}`), workers: plan_of.workers,
    speed, visibility_s, visibility_ms, limit_ms: visibility_ms * 6 + 3000,
    latency_ms: 20, entities: 400, requests: 4, fault: options.fault,
    noted: plan_of.kind !== 'plain', random: random(options.seed + number),
  });
  try {
    await group.open();
    await play(group, modes, plan_of.stalls);
    const wrong = await group.finish();
    const result = {...plan_of, stalls: group.stalls, wrong,
      ...group.results(), threads_each: group.requests, number};
    if (faults_of([result]).length > 0)
      fs.writeFileSync(path.join(options.build, `zombies/group-${number}.json`),
          JSON.stringify({...result, log: group.log}, null, 1));
    return result;
  } finally {
    await group.close();
  }
}

// ---- the report ----

const share = (count, of) =>
  of === 0 ? '-' : `${(100 * count / of).toFixed(1)} %`;

function crowds(result) {
  return [...result.threads.values()].filter((used) =>
    used.data > result.threads_each || used.renewer > 2);
}

function faults_of(results) {
  const all = [];
  for (const result of results) {
    const say = (what) =>
      all.push(`group ${result.number} (${result.kind}): ${what}`);
    result.wrong.forEach(say);
    for (const e of result.late.started)
      say(`started ${e.after_us} us after it was overtaken: worker ` +
          `${e.worker} ${e.method} ${e.path} (${e.status})`);
    for (const e of result.late.unasked)
      say(`sent without a last look at the deadline: worker ${e.worker} ` +
          `${e.method} ${e.path} (${e.status})`);
    for (const e of result.late.changed)
      say(`arrived late and changed something: worker ${e.worker} ` +
          `${e.method} ${e.path} ${e.target} (${e.status}, ${e.mode})`);
    for (const used of crowds(result))
      say(`${used.data} late of the request threads and ${used.renewer} of the renewer ` +
          `at one overtaking: ${used.what.join(', ')}`);
  }
  return all;
}

function report(results) {
  const stalls = results.flatMap((r) => r.stalls);
  const overtaken = stalls.filter((s) => s.overtaken);
  const sum = (of) => results.reduce((n, r) => n + of(r), 0);
  const requests = sum((r) => r.requests);
  const arrived = sum((r) => r.late.arrived.length);
  console.log(`zombies: ${stalls.length} stalls in ${results.length} groups, ` +
      `${overtaken.length} overtaken (${share(overtaken.length, stalls.length)})`);
  for (const mode of Object.keys(MODES)) {
    const of = stalls.filter((s) => s.mode === mode);
    console.log(`    ${mode.padEnd(10)} ${String(of.length).padStart(5)} ` +
        `stalls, ${of.filter((s) => s.overtaken).length} overtaken`);
  }
  for (const kind of Object.keys(KINDS))
    console.log(`    ${kind.padEnd(10)} ${String(results
        .filter((r) => r.kind === kind)
        .reduce((n, r) => n + r.stalls.length, 0)).padStart(5)} stalls, leases ` +
        `of ${KINDS[kind].visibility_s} s` +
        (KINDS[kind].speed ? `, clocks ${KINDS[kind].speed} times as fast` : '') +
        (kind === 'plain' ? ', the program as installed' : ''));
  console.log(`zombies: ${sum((r) => r.late.started.length)} requests started ` +
      `late, ${arrived} arrived late (${share(arrived, requests)} of ` +
      `${requests}), ${sum((r) => r.late.changed.length)} of those changed ` +
      'anything');
  console.log(`zombies: ${sum((r) => r.late.same.length)} more had been stuck on ` +
      `their way, and ${sum((r) => r.late.asleep.length)} past their deadline ` +
      'when they were stopped; these did what the next attempt was about to do');
  console.log('zombies: late is: after a claim of the run by another attempt ' +
      'took effect in the order of azsim\'s log; started is when the deadline ' +
      'last read the clock, or with the program as installed the first byte ' +
      'that azsim saw');
}

async function main() {
  const options = options_of(process.argv.slice(2));
  const work = fs.mkdtempSync(path.join(os.tmpdir(), 'tableward-zombies.'));
  const began = Date.now();
  const results = [];
  const faults = [];
  console.log(`zombies: seed ${options.seed}`);
  await each(plan(options).map((p, i) => [p, i]), GROUPS_AT_ONCE,
      async ([p, number]) => {
        try {
          results.push(await run_group(options, p, number, work));
        } catch (error) {
          faults.push(`group ${number} (${p.kind}): ${error.stack}`);
        }
      });
  report(results);
  faults.push(...faults_of(results));
  for (const fault of faults.slice(0, 40)) console.log(`FAILED ${fault}`);
  console.log(`zombies: ${faults.length} faults in ` +
      `${Math.round((Date.now() - began) / 1000)} s`);
  process.exit(faults.length === 0 && results.length > 0 ? 0 : 1);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
