// SPDX-License-Identifier: MIT
// A store or queue that does not respond must not delay anything else: runs on
// stores that are down, or that accept connections and never respond, and a
// queue that is deleted. All suites measure times, so they are not part of
// `make test`.
'use strict';

const assert = require('assert');
const net = require('net');
const jobs = require('../lib/jobs');
const {connection_string} = require('../lib/azurite');
const {tail} = require('../lib/program');
const {sleep, until} = require('../lib/wait');
const {list} = require('../lib/model');

const DEAD = 12;
// Numbers of runs that take some seconds.
const GOOD = {azurite: 150, limited: 1500};
// A held run is tried again after 5 s, 10 s, ... 5 min.
const AGAIN_MS = 120000;
// Messages of a queue that responds are received within this time.
const TAKEN_MS = 1000;
const LOCKED_MS = 30000;

// closed_port: returns a port on which nothing listens.
function closed_port() {
  return new Promise((resolve, reject) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const {port} = server.address();
      server.close(() => resolve(port));
    }).on('error', reject);
  });
}

// silent_server: starts a server that accepts connections, reads, and never
// responds. After answer(port) it forwards new connections to this port.
function silent_server() {
  return new Promise((resolve, reject) => {
    const sockets = new Set();
    let leads_to = 0;
    const keep = (socket) => {
      sockets.add(socket);
      socket.on('close', () => sockets.delete(socket));
      socket.on('error', () => {});
    };
    const server = net.createServer((socket) => {
      keep(socket);
      if (leads_to === 0) {
        socket.resume();
        return;
      }
      const service = net.connect(leads_to, '127.0.0.1');
      keep(service);
      socket.pipe(service).pipe(socket);
    }).listen(0, '127.0.0.1', () => resolve({
      port: server.address().port,
      answer: (port) => (leads_to = port),
      close: () => {
        server.close();
        for (const socket of sockets)
          socket.destroy();
      },
    })).on('error', reject);
  });
}

// add_dead_stores: adds stores at these ports, and for each store a job of the
// same name. Returns the names.
function add_dead_stores(suite, ports, account = 'gone') {
  const names = ports.map((port, i) => `dead${i}`);
  ports.forEach((port, i) => {
    const store = names[i], at = (map) => ({...map, store});
    suite.configuration.stores[store] = {
      azure: {
        connection_string:
            connection_string(account, suite.store.azurite.key, port, port),
      },
    };
    suite.configuration.jobs[store] = {
      ...jobs.flat, parent: at(jobs.flat.parent),
      children: jobs.flat.children.map(at),
    };
  });
  suite.program.configure(suite.configuration);
  return names;
}

// time_of: returns the milliseconds from the start of a worker until `count`
// runs have succeeded, by its log; each run deletes a channel with three blogs.
// The worker continues until `then` has resolved.
async function time_of(suite, prefix, count, then = async () => {}) {
  const {store} = suite;
  const names = list(count, (i) => `${prefix}${i}`);
  await store.insert('Channels', names.map((name) => jobs.channel(name)));
  await store.insert('Blogs', names.flatMap((name) => jobs.blogs(name, 3)));
  const ids = new Set();
  for (const channel of names)
    ids.add(await store.enqueue('delete-channel', {channel}));
  const began = Date.now();
  const worker = suite.worker([]);
  const ended = () => worker.log.split('\n').filter((line) =>
    /: succeeded/.test(line)).length;
  await until(`${count} runs have succeeded`, async () => {
    await sleep(50);
    assert.ok(!worker.over, `the worker has ended:\n${tail(worker.log)}`);
    return ended() >= count;
  }, 240000);
  const took_ms = Date.now() - began;
  await then();
  await suite.stop(worker);
  const runs = (await store.runs()).filter((run) => ids.has(run.Id));
  assert.strictEqual(
      runs.filter((run) => run.State === 'succeeded').length, count);
  return took_ms;
}

// all_held: waits until each of these runs has been held, and checks that it
// then has the cause, the time since when, and no failure.
async function all_held(suite, ids) {
  const left = new Set(ids);
  await until('all runs on dead stores have been held', async () => {
    await sleep(200);
    for (const id of left) {
      const run = await suite.run_of(id);
      if (run?.WaitsFor !== 'store')
        continue;
      assert.match(run.Error, /127\.0\.0\.1|store 'dead\d' does not respond/);
      assert.ok(run.WaitsSince);
      assert.strictEqual(run.Failures || 0, 0);
      left.delete(id);
    }
    return left.size === 0;
  }, 60000);
}

// judge_beside: enqueues DEAD runs of these jobs, whose stores do not respond,
// and behind them `good` runs on a store that responds, for 4 slots. Throws
// unless the good runs take at most twice as long as alone and all DEAD runs
// are held.
async function judge_beside(suite, names, good, alone_ms, what) {
  const dead = [];
  for (let i = 0; i < DEAD; i++)
    dead.push(await suite.store.enqueue(
        names[i % names.length], {channel: `${what}${i}`}));
  const beside_ms = await time_of(
      suite, `beside${what}`, good, () => all_held(suite, dead));
  console.log(`    (${good} runs alone: ${alone_ms} ms; beside ${DEAD} ` +
      `on ${names.length} ${what}: ${beside_ms} ms)`);
  assert.ok(beside_ms <= 2 * alone_ms,
      `${beside_ms} ms, not twice ${alone_ms} ms at most`);
  for (const id of dead)
    assert.strictEqual((await suite.command(['cancel', id])).code, 0);
}

async function dead_store(suite) {
  await jobs.open_flat(suite, {slots: 4, visibility_timeout: '60s'});
  const silent = await silent_server();
  const good = GOOD[suite.Store.name];
  const alone_ms = await time_of(suite, 'alone', good);
  // Goal: runs on a store whose port refuses connections do not delay the good
  // runs.
  await suite.judge(`${DEAD} runs on a store that is gone beside ${good}`,
      async () => {
        const names = add_dead_stores(suite, [await closed_port()]);
        await judge_beside(suite, names, good, alone_ms, 'gone');
      });
  // Goal: runs on a store that accepts connections and never responds do not
  // delay the good runs.
  await suite.judge(`${DEAD} runs on a silent store beside ${good}`,
      async () => {
        const names = add_dead_stores(suite, [silent.port]);
        await judge_beside(suite, names, good, alone_ms, 'silent');
      });
  // Goal: runs on as many silent stores as there are slots do not delay the
  // good runs. It takes a second until these stores are known to be silent, and
  // in this second all slots are occupied: so there are more good runs here,
  // which take longer than that.
  await suite.judge(`${DEAD} runs on four silent stores beside ${2 * good}`,
      async () => {
        const names = add_dead_stores(suite, Array(4).fill(silent.port));
        const longer_ms = await time_of(suite, 'alone2', 2 * good);
        await judge_beside(suite, names, 2 * good, longer_ms, 'silents');
      });
  silent.close();
}

// Goal: runs on a store that was silent and responds again succeed soon. While
// the store is silent, a request takes at most 4 s (a quarter of the visibility
// timeout), and after each request others are refused for 5 s (silence.h).
async function store_answers_again(suite) {
  await jobs.open_flat(suite, {slots: 4, visibility_timeout: '16s'});
  const {store} = suite;
  const silent = await silent_server();
  const [name] = add_dead_stores(suite, [silent.port], store.account);
  const worker = suite.worker([]);
  const ids = [];
  await suite.judge(`${DEAD} runs on a store that answers again`, async () => {
    for (let i = 0; i < DEAD; i++)
      ids.push(await store.enqueue(name, {channel: `none${i}`}));
    await all_held(suite, ids);
    silent.answer(store.azurite.table_port);
    const began = Date.now();
    await until('all runs have succeeded', async () => {
      await sleep(200);
      for (const id of ids)
        if ((await suite.run_of(id)).State !== 'succeeded')
          return false;
      return true;
    }, AGAIN_MS);
    console.log(`    (the last of them after ${Date.now() - began} ms)`);
    await suite.stop(worker);
  });
  silent.close();
}

// Goal: one of two queues is deleted, and its name is locked for 30 s: messages
// of the other queue are received within a second all the time, and those of
// the deleted queue once it exists again.
async function deleted_queue(suite) {
  await jobs.open_flat(suite, {
    queues: [{name: 'tableward'}, {name: 'other'}],
    poll: {min: '100ms', max: '500ms'},
  });
  const {store} = suite;
  await suite.judge('a queue is deleted beside another', async () => {
    const worker = suite.worker([]);
    await store.enqueue('delete-channel', {channel: 'none'}, {queue: 'other'});
    await suite.said(worker, /ready: /);
    await store.azurite.control({being_deleted_ms: LOCKED_MS});
    await store.queue_client('other').delete();
    const gone = Date.now();
    let longest_ms = 0, taken = 0;
    for (; Date.now() - gone < LOCKED_MS + 5000; taken++) {
      const asked = Date.now();
      const id = await store.enqueue('delete-channel', {channel: 'none'});
      await until('the message is taken', async () =>
        (await suite.run_of(id)) || (await sleep(20), false), 30000);
      longest_ms = Math.max(longest_ms, Date.now() - asked);
      await sleep(300);
    }
    console.log(`    (${taken} messages, the slowest taken after ` +
        `${longest_ms} ms)`);
    assert.ok(longest_ms <= TAKEN_MS, `${longest_ms} ms`);
    assert.match(worker.log, /queue other: receives no messages during an outage/);
    await suite.said(worker, /queue other: receives messages again/, 30000);
    await suite.stop(worker);
  });
}

module.exports = [
  {name: 'dead store', stores: ['azurite', 'limited'], long: true, phase: 2,
    seconds: 120, body: dead_store},
  {name: 'store answers again', stores: ['azurite'], long: true, phase: 2,
    seconds: 90, body: store_answers_again},
  {name: 'deleted queue', stores: ['limited'], long: true, phase: 2,
    seconds: 50, body: deleted_queue},
];
