// SPDX-License-Identifier: MIT
// A following copy while writers write for minutes: how far the copies are
// behind.
'use strict';

const assert = require('assert');
const {bare, holds, list} = require('../lib/model');
const {tail} = require('../lib/program');
const {Steady} = require('../lib/steady');
const {sleep, until} = require('../lib/wait');

const SIZE = Number(process.env.E2E_SIZE || 20000);
const SECONDS = Number(process.env.E2E_SECONDS || 300);
const RATE = 200;
const BEHIND_MS = 10000;
const FINISH_MS = 60000;
const GIVEN_UP_MS = 60000;
const MARGIN_MS = 6000; // maximum difference of clocks of the service

const pad = (n) => String(n).padStart(7, '0');

// post: returns a source; one in seven has another copy key for each of its
// values.
const post = (number, value) => ({
  PartitionKey: `blog${number % 40}`, RowKey: pad(number), Value: value,
  Month: 1 + (number + (number % 7 === 0 ? value : 0)) % 12,
  Title: `Post ${number} é`, Score: 'x'.repeat(100),
});

const copy_of = (source) => ({
  ...source,
  PartitionKey: `${source.PartitionKey}_${String(source.Month).padStart(2, '0')}`,
});

const BY_MONTH = {
  kind: 'copy', from: {table: 'Posts'}, follow: true,
  to: {table: 'PostsByMonth', partition_key: '{PartitionKey}_{Month:02}'},
};

// Measures again and again how long it takes until the latest acknowledged
// write shows in its copy, and how old CaughtUpTo is. A copy whose source was
// deleted is only counted: a round that reads only newer sources does not see
// that a source is gone.
class Lag {
  constructor(suite, writer, id) {
    Object.assign(this, {suite, writer, id,
      client: suite.store.client('PostsByMonth'), over: false,
      shown_ms: [], caught_up_ms: [], behind: [], deleted: 0, gone: 0});
  }

  start() {
    this.looking = Promise.all([this.#writes(), this.#ledger()]);
    return this;
  }

  async stop() {
    this.over = true;
    await this.looking;
  }

  async #writes() {
    const looks = [];
    let last;
    for (; !this.over; await sleep(300)) {
      const {latest} = this.writer;
      if (latest === last) continue;
      last = latest;
      looks.push(this.#shown(latest));
    }
    await Promise.all(looks);
  }

  // A source that is written again meanwhile is not measured.
  async #shown({number, value, before, at}) {
    if (value === undefined) return await this.#gone(post(number, before));
    for (; Date.now() - at < GIVEN_UP_MS; await sleep(150)) {
      if (await this.#copy(post(number, value)) >= value) break;
      if (this.writer.stored.get(number).value !== value) return;
    }
    this.shown_ms.push(Date.now() - at);
  }

  async #gone(source) {
    this.deleted++;
    for (; !this.over; await sleep(5000))
      if (await this.#copy(source) === undefined) return this.gone++;
  }

  async #copy(source) {
    const {PartitionKey, RowKey} = copy_of(source);
    try {
      return (await this.client.getEntity(PartitionKey, RowKey)).Value;
    } catch (error) {
      if (error.statusCode !== 404) throw error;
    }
  }

  async #ledger() {
    for (; !this.over; await sleep(2000)) {
      const run = await this.suite.run_of(this.id);
      this.caught_up_ms.push(Date.now() - new Date(run.CaughtUpTo));
      this.behind.push(run.Behind);
    }
  }
}

// said: returns the median and the maximum of some times, in seconds.
function said(times) {
  const sorted = [...times].sort((a, b) => a - b);
  const seconds = (ms) => (ms / 1000).toFixed(1);
  return `${seconds(sorted[sorted.length >> 1])} s, at most ` +
      `${seconds(sorted.pop())} s (${times.length} looks)`;
}



// The copies whose sources were deleted or got another key are more than a
// tenth of all copies in the end, so the message accepts deletes.
async function enqueue(store) {
  const id = 'follow';
  await store.put('tableward',
      JSON.stringify({job: 'by-month', args: {}, id, accept_deletes: true}));
  return id;
}

// Goal: while 200 entities a second are written for minutes, no copy is more
// than 10 s behind its source; `finish` ends the run, and then there is no
// difference.
async function follow(suite) {
  await suite.open({
    jobs: {'by-month': BY_MONTH}, tables: ['Posts', 'PostsByMonth'],
    worker: {visibility_timeout: '30s'},
  });
  const {store} = suite;
  const numbers = list(SIZE, (n) => n);
  let writer;
  await suite.judge(`copies follow ${RATE} writes a second for ${SECONDS} s`,
      async () => {
        await store.insert('Posts', numbers.map((n) => post(n, 0)));
        // Without this wait, the second round would read all imported entities
        // again, because they would count as newer than the first round.
        await sleep(MARGIN_MS);
        writer = new Steady(store.client('Posts'),
            {seed: 3, rate: RATE, make: post, numbers, first: SIZE}).start();
        const worker = suite.worker([]);
        const id = await enqueue(store);
        await until('it follows', async () =>
          (await suite.run_of(id) || {Rounds: 0}).Rounds >= 3);
        const lag = new Lag(suite, writer, id).start();
        await sleep(SECONDS * 1000);
        await lag.stop();
        await suite.command(
            ['enqueue', 'by-month', '--id', id, '--accept-deletes']);
        await suite.command(['finish', id]);
        await writer.stop();
        const run = await until('the run has ended', async () => {
          const now = await suite.run_of(id);
          return ['succeeded', 'failed'].includes(now.State) && now;
        }, FINISH_MS);
        worker.kill('SIGTERM');
        const end = await suite.program.end(worker);
        console.log(`    (${writer.writes} writes, ` +
            `${writer.per_second().toFixed(0)}/s; ${run.Rounds} rounds\n` +
            `    a write is in its copy after ${said(lag.shown_ms)}\n` +
            `    of ${lag.deleted} copies without a source ${lag.gone} went ` +
            'before the end\n' +
            `    CaughtUpTo is old ${said(lag.caught_up_ms)}; Behind at most ` +
            `${Math.max(...lag.behind)})`);
        assert.strictEqual(end.code, 0, tail(worker.log));
        assert.strictEqual(run.State, 'succeeded', run.Error);
        assert.strictEqual(run.Behind, 0);
        assert.ok(writer.per_second() > 0.95 * RATE, 'too few writes');
        assert.ok(Math.max(...lag.shown_ms) <= BEHIND_MS,
            'a copy is too far behind its source');
      });
  await suite.judge('finished, nothing differs, and no write is lost',
      async () => {
        const sources = writer.entities();
        await suite.holds('Posts', sources);
        holds('PostsByMonth', sources.map(copy_of),
            bare(await store.read('PostsByMonth')));
        const {code, out, log} = await suite.command(['verify', 'by-month']);
        console.log(`    (verify: ${out.trim()})`);
        assert.strictEqual(code, 0, log);
      });
}

module.exports = [
  {name: 'copy follow for minutes', stores: ['limited'], phase: 2, long: true,
    seconds: SECONDS + 60, body: follow},
];
