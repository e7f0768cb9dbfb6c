// SPDX-License-Identifier: MIT
// node throughput.js [LIMIT...]: how near a worker comes to the limits of a
// service, and how it handles responses 503. A run deletes a table on an azsim
// that limits entities a second; later runs get 503 at random. Prints a line
// for each run; exits with 1 if a run breaks a condition (see judge()). Each
// limited run leaves a graph of its throughput and refusals in build/bench/.
//
//   TABLEWARD=... E2E_MODULES=... node tests/bench/throughput.js 300 2000
'use strict';

require('../e2e/lib/node18');
const fs = require('fs');
const os = require('os');
const path = require('path');
const {Azsim, beside} = require('../e2e/lib/azsim');
const {connection_string} = require('../e2e/lib/azurite');
const {Program, tail} = require('../e2e/lib/program');
const {sleep} = require('../e2e/lib/wait');
const {plot} = require('./plot');

const PARTITION = 100; // entities
const SECONDS = {300: 300, 2000: 90, 20000: 30}; // of a run at this limit
const LEAST_SHARE = 0.95, MOST_REFUSED = 0.02;
const BUSY_SHARES = [50, 100]; // of 1000
const LEAST_BESIDE_BUSY = 0.8;
const JOB = {kind: 'delete', table: 'Blogs', all: true};

class Bench {
  static async open(folder) {
    const bench = new Bench();
    bench.azsim = await Azsim.start(beside('azsim'));
    bench.folder = fs.mkdtempSync(path.join(folder, 'bench-'));
    bench.program = new Program(path.resolve(process.env.TABLEWARD), bench.folder);
    const {table_port, queue_port, key} = bench.azsim;
    bench.env = {STORAGE: connection_string(
        bench.azsim.account(), key, table_port, queue_port)};
    return bench;
  }

  // configure: writes the configuration with this visibility timeout, in
  // seconds.
  configure(visibility_s) {
    this.options = ['--config', this.program.configure({
      stores: {main: {azure: {connection_string: '${STORAGE}'}}},
      worker: {visibility_timeout: `${visibility_s}s`,
        poll: {min: '20ms', max: '100ms'}},
      jobs: {purge: JOB},
    })];
  }

  run(args, options) {
    return this.program.run([...this.options, ...args],
        {env: this.env, limit_ms: 300000, ...options});
  }

  async ok(...args) {
    return this.program.ok([...this.options, ...args],
        {env: this.env, limit_ms: 300000});
  }

  async seed(count) {
    const file = path.join(this.folder, 'blogs.jsonl');
    const lines = Array.from({length: count}, (_, n) => JSON.stringify({
      PartitionKey: `p${String(Math.floor(n / PARTITION)).padStart(6, '0')}`,
      RowKey: String(n).padStart(8, '0'), Title: `On ${n}`,
    }) + '\n');
    fs.writeFileSync(file, lines.join(''));
    await this.azsim.control(
        {account_limit: 0, partition_limit: 0, busy_share: 0});
    await this.ok('import', 'Blogs', file);
  }

  // purge: runs the job to its end; returns {seconds, run, log, failed
  // (commands that failed)}.
  async purge(count, knobs) {
    await this.seed(count);
    await this.azsim.control(knobs);
    const failed = [];
    const try_one = async (...args) => {
      const ended = await this.run(args);
      if (ended.code !== 0)
        failed.push(`${args[0]}: exit ${ended.code}: ${tail(ended.log)}`);
      return ended.out.trim();
    };
    const id = await try_one('enqueue', 'purge');
    const worker = this.program.start(
        [...this.options, 'worker', '--drain'], {env: this.env});
    for (; !worker.over; await sleep(1000))
      await try_one('status', '--json');
    await worker.exit;
    await this.azsim.control({account_limit: 0, busy_share: 0});
    const {out} = await this.ok('status', id, '--json');
    const run = JSON.parse(out)[0];
    const seconds =
        (new Date(run.FinishedAt) - new Date(run.StartedAt)) / 1000;
    return {seconds, run, log: worker.log, failed};
  }

  async close() {
    this.program.stop();
    await this.azsim.stop();
  }
}

// draw: draws azsim's log of a limited run, second by second.
async function draw(bench, what, limit, visibility_s) {
  const log = (await bench.azsim.log()).filter(({target}) => target === 'Blogs');
  const entries = log.slice(log.findIndex(({deletes}) => deletes > 0));
  const seconds = Math.ceil((entries[entries.length - 1].arrived_us -
      entries[0].arrived_us) / 1e6) + 1;
  const deleted = new Array(seconds).fill(0), refused = new Array(seconds).fill(0);

  for (const {arrived_us, status, deletes, changed} of entries) {
    const second = Math.floor((arrived_us - entries[0].arrived_us) / 1e6);

    if (changed) deleted[second] += deletes;
    if (status === 503) refused[second]++;
  }
  const folder = path.join(__dirname, '..', '..', 'build', 'bench');
  const file = path.join(folder, `limit-${limit}-${visibility_s}s.svg`);

  fs.mkdirSync(folder, {recursive: true});
  fs.writeFileSync(file, plot({title: `${what}: each entity is read and deleted`,
    limit: limit / 2, series: [
      {name: 'entities deleted a second', values: deleted},
      {name: 'requests refused a second', values: refused}]}));
}

const wrong = [];

// judge: notes what is wrong with a run: conditions of every run, and `more`.
function judge(what, {run, log, failed}, count, more = []) {
  const all = [
    [run.State === 'succeeded', `${run.State}: ${run.Error}`],
    [run.Attempt === 1, `${run.Attempt} attempts`],
    [run.EntitiesDeleted === count, `${run.EntitiesDeleted} deleted`],
    [!/ error |receives no messages|held/.test(log), `the log: ${tail(log)}`],
    [failed.length === 0, failed[0]],
    ...more,
  ];
  for (const [holds, why] of all) if (!holds) wrong.push(`${what}: ${why}`);
}

async function at_limit(folder, limit, visibility_s) {
  const bench = await Bench.open(folder);
  // Each entity counts twice: it is read and deleted.
  const count = limit * (SECONDS[limit] || 60) / 2;
  bench.configure(visibility_s);
  const ended = await bench.purge(
      count, {account_limit: limit, partition_limit: 2000});
  // The service lets the entities of one second through at once.
  const rate = (2 * count - limit) / ended.seconds;
  const refused = ended.run.Throttled / ended.run.Transactions;
  const what = `${limit} entities/s, visibility timeout ${visibility_s} s`;
  console.log(`${what}: ${rate.toFixed(0)} entities/s ` +
      `(${(100 * rate / limit).toFixed(0)} %), ` +
      `${(100 * refused).toFixed(1)} % of ${ended.run.Transactions} requests ` +
      `refused, attempt ${ended.run.Attempt}`);
  await draw(bench, what, limit, visibility_s);
  judge(what, ended, count, [
    [rate >= LEAST_SHARE * limit, `${rate.toFixed(0)} entities/s`],
    [refused <= MOST_REFUSED, `${(100 * refused).toFixed(1)} % refused`],
  ]);
  await bench.close();
}

async function at_random(folder, count) {
  const bench = await Bench.open(folder);
  let alone;
  bench.configure(60);
  for (const busy_share of [0, ...BUSY_SHARES]) {
    const ended = await bench.purge(count, {busy_share, latency_ms: 20, hint_share: 0});
    const rate = count / ended.seconds;
    alone = alone || rate;
    const what = `${busy_share / 10} % of requests answered 503`;
    console.log(`${what}: ${rate.toFixed(0)} entities/s ` +
        `(${(100 * rate / alone).toFixed(0)} %), ${ended.run.Throttled} of ` +
        `${ended.run.Transactions} requests`);
    judge(what, ended, count, [
      [rate >= LEAST_BESIDE_BUSY * alone, `${rate.toFixed(0)} entities/s`],
    ]);
  }
  await bench.close();
}

async function main() {
  const limits = process.argv.slice(2).map(Number);
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tableward-bench.'));
  try {
    for (const limit of limits.length ? limits : [300, 2000, 20000])
      for (const visibility_s of [4, 60])
        await at_limit(folder, limit, visibility_s);
    await at_random(folder, 300000);
  } finally {
    fs.rmSync(folder, {recursive: true, force: true});
  }
  for (const why of wrong) console.log(`FAILED ${why}`);
  process.exit(wrong.length === 0 ? 0 : 1);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
