// SPDX-License-Identifier: MIT
// What does not answer holds up nothing else: runs on a store that is gone, and
// a queue that is deleted. Both are measured, and so are not in `make test`.
'use strict';

const assert = require('assert');
const net = require('net');
const jobs = require('../lib/jobs');
const {connection_string} = require('../lib/azurite');
const {tail} = require('../lib/program');
const {sleep, until} = require('../lib/wait');

const GOOD = 150, DEAD = 12;
// Messages of a queue that answers are taken within this.
const TAKEN_MS = 1000;
const LOCKED_MS = 30000;

// closed_port: one that nobody listens on.
function closed_port() {
  return new Promise((resolve, reject) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const {port} = server.address();
      server.close(() => resolve(port));
    }).on('error', reject);
  });
}

// add_dead_store: a store beside `main` at a port that refuses connections, and
// the job `dead` on it.
async function add_dead_store(suite) {
  const port = await closed_port();
  const at = (map) => ({...map, store: 'dead'});
  suite.configuration.stores.dead = {
    azure: {
      connection_string:
          connection_string('gone', suite.store.azurite.key, port, port),
    },
  };
  suite.configuration.jobs.dead = {
    ...jobs.flat, parent: at(jobs.flat.parent),
    children: jobs.flat.children.map(at),
  };
  suite.program.configure(suite.configuration);
}

// time_of: milliseconds from the start of a worker until `count` runs have
// succeeded, as its log says; each deletes a channel with three blogs.
async function time_of(suite, prefix, count) {
  const {store} = suite;
  const names = Array.from({length: count}, (_, i) => `${prefix}${i}`);
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
  worker.kill('SIGTERM');
  const end = await suite.program.end(worker);
  assert.strictEqual(end.code, 0, tail(worker.log));
  const runs = (await store.runs()).filter((run) => ids.has(run.Id));
  assert.strictEqual(
      runs.filter((run) => run.State === 'succeeded').length, count);
  return took_ms;
}

// Goal: 12 runs on a store that is gone, in the queue before 150 on one that
// answers, 4 slots: the 150 take at most twice as long as alone, and all of the
// 12 are held, with the cause, and no failure.
async function dead_store(suite) {
  await suite.open({
    jobs: {'delete-channel': jobs.flat}, tables: ['Channels', 'Blogs'],
    worker: {slots: 4, visibility_timeout: '60s'},
  });
  await add_dead_store(suite);
  await suite.judge(`${DEAD} runs on a store that is gone beside ${GOOD}`,
      async () => {
        const alone_ms = await time_of(suite, 'alone', GOOD);
        const dead = [];
        for (let i = 0; i < DEAD; i++)
          dead.push(await suite.store.enqueue('dead', {channel: `dead${i}`}));
        const beside_ms = await time_of(suite, 'beside', GOOD);
        console.log(`    (${GOOD} runs alone: ${alone_ms} ms; beside ${DEAD} ` +
            `on a store that is gone: ${beside_ms} ms)`);
        assert.ok(beside_ms <= 2 * alone_ms, `${beside_ms} ms, not twice ` +
            `${alone_ms} ms at most`);
        for (const id of dead) {
          const run = await suite.run_of(id);
          assert.strictEqual(run.WaitsFor, 'store', JSON.stringify(run));
          assert.match(run.Error, /127\.0\.0\.1/);
          assert.strictEqual(run.Failures || 0, 0);
        }
      });
}

// Goal: one of two queues is deleted, and its name locked for 30 s: messages of
// the other are taken within a second all the while, and those of the deleted
// one once it is there again.
async function deleted_queue(suite) {
  const {store} = await opened(suite);
  await suite.judge('a queue is deleted beside another', async () => {
    const worker = suite.worker([]);
    await store.enqueue('delete-channel', {channel: 'none'}, {queue: 'other'});
    await until('the worker is ready', () => /ready: /.test(worker.log), 30000);
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
    assert.match(worker.log, /queue other: takes no messages for now/);
    await until('the queue is there again',
        () => /queue other: takes messages again/.test(worker.log), 30000);
    worker.kill('SIGTERM');
    assert.strictEqual((await suite.program.end(worker)).code, 0);
  });
}

async function opened(suite) {
  await suite.open({
    jobs: {'delete-channel': jobs.flat}, tables: ['Channels', 'Blogs'],
    worker: {
      queues: [{name: 'tableward'}, {name: 'other'}],
      poll: {min: '100ms', max: '500ms'},
    },
  });
  return suite;
}

module.exports = [
  {name: 'dead store', stores: ['azurite', 'limited'], long: true, phase: 2,
    seconds: 60, body: dead_store},
  {name: 'deleted queue', stores: ['limited'], long: true, phase: 2,
    seconds: 50, body: deleted_queue},
];
