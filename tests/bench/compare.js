// SPDX-License-Identifier: MIT
// node compare.js: the cost of jobs, import and export on azsim and on Azurite,
// compared with a worker on the official JavaScript SDKs and with bare libcurl,
// by turns in one run; and the cost of small jobs on an embedded store. CPU
// time is without the start of a process. Prints a table of medians (least and
// greatest), and exits with 1 if a ratio or the memory is beyond its limit;
// times have no limit.
//
//   TABLEWARD=... MEASURE=... BARE=... AZSIM=... E2E_MODULES=... [QUICK=1]
'use strict';

require('../e2e/lib/node18');
const {spawnSync} = require('child_process');
const fs = require('fs');
const os = require('os');
const path = require('path');
const {QueueServiceClient} = require('@azure/storage-queue');
const {Azsim, beside} = require('../e2e/lib/azsim');
const {Azurite, connection_string} = require('../e2e/lib/azurite');
const {Program} = require('../e2e/lib/program');

const QUICK = Boolean(process.env.QUICK);
const ROUNDS = QUICK ? 3 : 5;
const ENTITIES = QUICK ? 10000 : 50000;
// Azurite sorts a whole table for each page of it.
const AZURITE_ENTITIES = QUICK ? 5000 : 12000;
const JOBS = QUICK ? 100 : 300, JOB_ENTITIES = 10, LATENCY_MS = 20;
// Requests of a small job, including its share of the requests for messages.
const REQUESTS = 11;
const SLOTS = 64; // slots on the embedded store, where small jobs share commits
const OLD_MS = 10000;
const LIMIT_MIB = 32;

const [MEASURE, BARE] = ['MEASURE', 'BARE'].map(
    (name) => path.resolve(process.env[name]));

const CONFIGURATION = {
  stores: {main: {azure: {connection_string: '${STORAGE}'}}},
  worker: {poll: {min: '20ms', max: '100ms'}},
  jobs: {
    'delete-channel': {
      'kind': 'cascade-delete', 'args': ['channel'],
      'parent': {table: 'Channels', partition_key: '{channel}', row_key: '',
        tombstone: {Deleted: true}},
      'children': [{table: 'Blogs', partition_key: '{channel}'}],
      'settle': '0s',
    },
    'upgrade-posts': {
      kind: 'schema-upgrade', table: 'Posts',
      version: {property: 'SchemaVersion', absent: 1},
      versions: [{to: 2, steps: [
        {rename: {property: 'Title', to: 'Heading'}},
        {retype: {property: 'Rating', to: 'Edm.Int32', lossy: true}},
        {add: {property: 'Language', type: 'Edm.String', value: 'en'}}]}],
    },
    'posts-by-month': {
      kind: 'copy', from: {table: 'Posts'},
      to: {table: 'PostsByMonth',
        partition_key: '{9999 - year(CreatedOn)}_{13 - month(CreatedOn):02}',
        row_key: '{3155378975999999999 - ticks(CreatedOn):019}_{RowKey}'},
    },
  },
};

// ---- data ----

function blog(channel, number, spread) {
  const year = spread ? 2015 + number % 10 : 2024;
  const month = spread ? 1 + Math.floor(number / 10) % 12 : 3;
  return JSON.stringify({
    'PartitionKey': channel, 'RowKey': String(number).padStart(12, '0'),
    'Title': 'lorem ipsum dolor sit amet',
    'Rating@odata.type': 'Edm.Double', 'Rating': 4.5,
    'CreatedOn@odata.type': 'Edm.DateTime',
    'CreatedOn': `${year}-${String(month).padStart(2, '0')}-01T10:20:30.5Z`,
  }) + '\n';
}

// posts: returns posts, a hundred in each channel, of all months of ten years.
const posts = (count) => Array.from({length: count}, (_, n) => blog(
    `Football ${String(Math.floor(n / 100)).padStart(6, '0')}`, n, true));
const blogs = (channel, count) =>
  Array.from({length: count}, (_, n) => blog(channel, n, false));
const channel_of = (name) =>
  JSON.stringify({PartitionKey: name, RowKey: ''}) + '\n';

// ---- one measured run ----

class Bench {
  static async open(folder) {
    const bench = new Bench();
    bench.folder = folder;
    bench.start_cpu_s = {}; // CPU time of a command that has nothing to do
    bench.azsim = await Azsim.start(beside('azsim'));
    bench.azurite = await Azurite.start(process.env.E2E_MODULES);
    bench.program = new Program(path.resolve(process.env.TABLEWARD), folder);
    bench.used = path.join(folder, 'used');
    bench.options =
        ['--config', bench.program.configure(CONFIGURATION), '--log-level', 'error'];
    return bench;
  }

  // begin: takes an unused account, of azsim or of Azurite.
  begin(service = this.azsim) {
    this.service = service;
    this.account = service.account();
    this.env = {STORAGE: connection_string(this.account, service.key,
        service.table_port, service.queue_port)};
  }

  // stop: stops all that open() started.
  async stop() {
    this.program.stop();
    await this.azsim.stop();
    await this.azurite.stop();
    fs.rmSync(this.folder, {recursive: true, force: true});
  }

  async ok(...args) {
    return await this.program.ok(
        [...this.options, ...args], {env: this.env, limit_ms: 600000});
  }

  // measured: runs a command; returns {seconds, cpu_s, mib}.
  async measured(...args) {
    this.program.under = [MEASURE, this.used];
    try {
      await this.ok(...args);
    } finally {
      this.program.under = [];
    }
    const [seconds, cpu_s, kib] =
        fs.readFileSync(this.used, 'utf8').split(' ').map(Number);
    return {seconds: seconds - (this.latency_ms ? this.idle_s : 0),
      cpu_s: cpu_s - (this.start_cpu_s[args[0]] || 0), mib: kib / 1024};
  }

  // sdk: runs a case by sdk.js.
  sdk(...args) {
    const ended = spawnSync(process.execPath,
        [path.join(__dirname, 'sdk.js'), ...args.map(String)],
        {env: {...process.env, ...this.env}, encoding: 'utf8'});
    if (ended.status !== 0) throw new Error(`sdk.js ${args}: ${ended.stderr}`);
    return JSON.parse(ended.stdout);
  }

  // bare: runs a case by bare.c; `count`: how many entities it must delete or,
  // with `reads`, the number of requests that it makes.
  bare(table, partition, count, reads = false) {
    const ended = spawnSync(BARE,
        [`http://127.0.0.1:${this.service.table_port}/${this.account}`,
          this.account, this.service.key, table, partition,
          ...(reads ? [String(count)] : [])],
        {encoding: 'utf8'});
    if (ended.status !== 0) throw new Error(`bare: ${ended.stderr}`);
    const [entities, , cpu_s] = ended.stdout.split(' ').map(Number);
    if (entities !== count) throw new Error(`bare: ${entities} of ${count}`);
    return {entities, cpu_s};
  }

  file(name, lines) {
    const file = path.join(this.folder, name);
    if (!fs.existsSync(file)) fs.writeFileSync(file, lines().join(''));
    return file;
  }

  async seed(table, name, lines) {
    await this.ok('import', table, this.file(name, lines));
  }

  async send(channels) {
    const queue = QueueServiceClient.fromConnectionString(
        this.env.STORAGE).getQueueClient('tableward');
    await queue.createIfNotExists();
    for (let at = 0; at < channels.length; at += 50)
      await Promise.all(channels.slice(at, at + 50).map((channel) =>
        queue.sendMessage(
            JSON.stringify({job: 'delete-channel', args: {channel}}))));
  }
}

// ---- the cases ----

const of = (count, {seconds, cpu_s, mib}) =>
  ({us: cpu_s / count * 1e6, rate: count / seconds, mib});

const cascade = (count, service) => async (bench, by) => {
  bench.begin(bench[service]);
  await bench.seed(
      'Blogs', `blogs-${count}`, () => blogs('Football', count));
  if (by === 'libcurl') return of(count, bench.bare('Blogs', 'Football', count));
  if (by === 'sdk') return of(count, bench.sdk('delete', 'Blogs', 'Football'));
  await bench.seed('Channels', 'channels', () => [channel_of('Football')]);
  await bench.ok('enqueue', 'delete-channel', 'channel=Football');
  return of(count, await bench.measured('worker', '--drain'));
};

// delayed: returns a case in which each request of the measured work takes
// latency_ms longer. The time of a worker with nothing to do is subtracted.
const delayed = (latency_ms, run) => async (bench, by) => {
  if (bench.idle_s === undefined) {
    bench.begin();
    await bench.ok('worker', '--drain');
    await bench.azsim.control({latency_ms});
    bench.idle_s = (await bench.measured('worker', '--drain')).seconds;
    await bench.azsim.control({latency_ms: 0});
  }
  bench.latency_ms = latency_ms;
  try {
    return await run(bench, by);
  } finally {
    bench.latency_ms = 0;
    await bench.azsim.control({latency_ms: 0});
  }
};

const on_posts = (job, ...sdk) => async (bench, by) => {
  bench.begin();
  await bench.seed('Posts', 'posts', () => posts(ENTITIES));
  // A copy's second round reads again the sources that have just changed. So
  // that it does not read these posts again, the clock moves forward.
  await bench.azsim.move_on(OLD_MS);
  if (by !== 'sdk') await bench.ok('enqueue', job);
  await bench.azsim.control({latency_ms: bench.latency_ms || 0});
  return of(ENTITIES, by === 'sdk' ? bench.sdk(...sdk) :
      await bench.measured('worker', '--drain'));
};

async function importing(bench, by) {
  const file = bench.file('posts', () => posts(ENTITIES));
  bench.begin();
  return of(ENTITIES, by === 'sdk' ? bench.sdk('import', 'Posts', file) :
      await bench.measured('import', 'Posts', file));
}

async function exporting(bench, by) {
  const file = path.join(bench.folder, 'exported');
  bench.begin();
  await bench.seed('Posts', 'posts', () => posts(ENTITIES));
  fs.rmSync(file, {force: true});
  return of(ENTITIES, by === 'sdk' ? bench.sdk('export', 'Posts', file) :
      await bench.measured('export', 'Posts', file));
}

const CHANNELS = Array.from({length: JOBS}, (_, n) => `C${n}`);

async function seed_small(bench) {
  await bench.seed('Blogs', 'small-blogs',
      () => CHANNELS.flatMap((channel) => blogs(channel, JOB_ENTITIES)));
  await bench.seed('Channels', 'small-channels', () => CHANNELS.map(channel_of));
}

const small_jobs = (service) => async (bench, by) => {
  bench.begin(bench[service]);
  await seed_small(bench);
  if (by === 'libcurl')
    return of(JOBS, bench.bare('Channels', CHANNELS[0], JOBS * REQUESTS, true));
  await bench.send(CHANNELS);
  await bench.azsim.control({latency_ms: bench.latency_ms || 0});
  return of(JOBS, by === 'sdk' ? bench.sdk('jobs', 'tableward', JOBS) :
      await bench.measured('worker', '--drain'));
};

// On an embedded store: no other program does the same for as many concurrent
// jobs, so it is compared with nothing.
async function embedded_jobs(bench) {
  const options = bench.options;

  for (const name of fs.readdirSync(bench.folder))
    if (name.startsWith('bench.db'))
      fs.rmSync(path.join(bench.folder, name), {recursive: true});
  bench.options = ['--config', bench.program.configure({...CONFIGURATION,
    stores: {main: {embedded: 'bench.db'}},
    worker: {...CONFIGURATION.worker, slots: SLOTS}}, 'embedded.yaml'),
  '--log-level', 'error'];
  try {
    await seed_small(bench);
    await bench.ok('worker', '--drain');
    const start = await bench.measured('worker', '--drain');
    for (const channel of CHANNELS)
      await bench.ok('enqueue', 'delete-channel', `channel=${channel}`);
    const {seconds, cpu_s, mib} = await bench.measured('worker', '--drain');
    return of(JOBS, {seconds: seconds - start.seconds, cpu_s, mib});
  } finally {
    bench.options = options;
  }
}

// The cases. than: what the case is compared with; its CPU time divided by the
// case's is the ratio. least: the case fails if the ratio is lower; wanted: the
// goal for the ratio; a_second: the goal for the jobs or entities a second.
const CASES = [
  {name: 'cascade', run: cascade(ENTITIES, 'azsim'), than: 'libcurl',
    least: 0.3, wanted: 0.5},
  {name: 'cascade', run: cascade(ENTITIES, 'azsim'), than: 'sdk', least: 4},
  {name: 'cascade, Azurite', run: cascade(AZURITE_ENTITIES, 'azurite'),
    than: 'libcurl', least: 0.2, wanted: 0.5},
  {name: 'upgrade', run: on_posts('upgrade-posts', 'upgrade', 'Posts'),
    than: 'sdk', least: 3, wanted: 5},
  {name: 'copy', run: on_posts('posts-by-month', 'copy', 'Posts', 'PostsByMonth'),
    than: 'sdk', least: 1.2, wanted: 5},
  {name: 'import', run: importing, than: 'sdk', least: 3, wanted: 5},
  {name: 'export', run: exporting, than: 'sdk', least: 3, wanted: 5},
  {name: 'small job', run: small_jobs('azsim'), than: 'sdk', least: 1.5,
    wanted: 4},
  // The limit is low: bare requests switch no threads, and the cost of switches
  // depends on the machine.
  {name: 'small job', run: small_jobs('azsim'), than: 'libcurl', least: 0.2},
  {name: 'small job, Azurite', run: small_jobs('azurite'), than: 'sdk',
    least: 1.5, wanted: 4, a_second: 133},
  {name: 'small job, embedded', run: embedded_jobs, a_second: 2000},
  {name: `small job at ${LATENCY_MS} ms`, than: 'sdk', least: 0.8, wanted: 4,
    run: delayed(LATENCY_MS, small_jobs('azsim')), a_second: 75},
  {name: `upgrade at ${LATENCY_MS} ms`, than: 'sdk', least: 3, wanted: 5,
    run: delayed(LATENCY_MS, on_posts('upgrade-posts', 'upgrade', 'Posts')),
    a_second: 10000},
  {name: `copy at ${LATENCY_MS} ms`, than: 'sdk', least: 1.2, wanted: 5,
    run: delayed(LATENCY_MS, on_posts(
        'posts-by-month', 'copy', 'Posts', 'PostsByMonth')), a_second: 10000},
];

// ---- figures ----

const sorted = (values) => [...values].sort((a, b) => a - b);
const median = (values) => sorted(values)[Math.floor(values.length / 2)];

function range(values) {
  const digits = median(values) < 100 ? 1 : 0;
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return `${median(values).toFixed(digits)} (${least.toFixed(digits)}-` +
      `${most.toFixed(digits)})`;
}

// measure_starts: measures each command with one entity, or none, to work on.
async function measure_starts(bench) {
  const one = bench.file('one', () => [channel_of('one')]);
  const commands = [['worker', '--drain'], ['import', 'One', one],
    ['export', 'One', path.join(bench.folder, 'exported')]];

  bench.begin();
  await bench.ok('worker', '--drain');
  for (const command of commands) {
    const starts = [];

    for (let i = 0; i < 2 * ROUNDS; i++) {
      fs.rmSync(path.join(bench.folder, 'exported'), {force: true});
      starts.push((await bench.measured(...command)).cpu_s * 1e3);
    }
    console.log(`start and end of ${command[0]}: ${range(starts)} ms of CPU`);
    bench.start_cpu_s[command[0]] = median(starts) / 1e3;
  }
}

async function main() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tableward-bench.'));
  const bench = await Bench.open(folder);
  const runs = new Map(); // "case|by" -> the measured runs
  const wanted = process.argv.slice(2);
  const cases = CASES.filter(
      ({name}) => wanted.length === 0 || wanted.includes(name));
  const wrong = [];

  const note = async (c, by) => {
    const key = `${c.name}|${by}`;
    runs.set(key, [...(runs.get(key) || []), await c.run(bench, by)]);
  };
  try {
    await measure_starts(bench);
    for (let round = 0; round < ROUNDS; round++)
      for (const c of cases) {
        if (!runs.has(`${c.name}|tableward`) ||
            runs.get(`${c.name}|tableward`).length <= round)
          await note(c, 'tableward');
        if (c.than) await note(c, c.than);
      }
  } finally {
    await bench.stop();
  }

  console.log(['', 'CPU us', 'a second', 'wanted', 'than', 'CPU us',
    'a second', 'times less CPU', 'wanted', 'MiB'].join(' | '));
  for (const c of cases) {
    const own = runs.get(`${c.name}|tableward`);
    const other = c.than ? runs.get(`${c.name}|${c.than}`) : [];
    const figures = (of, name) => of.map((run) => run[name]);
    const times = c.than ?
        median(figures(other, 'us')) / median(figures(own, 'us')) : NaN;
    const mib = Math.max(...figures(own, 'mib'));

    console.log([c.name, range(figures(own, 'us')), range(figures(own, 'rate')),
      c.a_second || '', c.than || '', c.than ? range(figures(other, 'us')) : '',
      other[0]?.rate ? range(figures(other, 'rate')) : '',
      c.than ? times.toFixed(2) : '', c.wanted || '',
      mib.toFixed(1)].join(' | '));
    if (times < c.least)
      wrong.push(`${c.name}: ${times.toFixed(2)} times less CPU than ${c.than}, ` +
          `not ${c.least}`);
    if (mib > LIMIT_MIB)
      wrong.push(`${c.name}: ${mib.toFixed(1)} MiB, more than ${LIMIT_MIB}`);
  }
  for (const why of wrong) console.log(`FAILED ${why}`);
  process.exitCode = wrong.length === 0 ? 0 : 1;
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
