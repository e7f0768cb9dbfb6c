// SPDX-License-Identifier: MIT
// An azsim and some workers that share it, each with its own ports. They run
// long cascades, one channel after the other. Each entity of a channel is in
// its own partition, so that each delete is a request.
'use strict';

const fs = require('fs');
const http = require('http');
const path = require('path');
const {spawn} = require('child_process');
const {Azsim} = require('../e2e/lib/azsim');
const {flat} = require('../e2e/lib/jobs');
const {AzuriteStore} = require('../e2e/lib/store_azurite');
const {connection_string} = require('../e2e/lib/azurite');
const {sleep, until, within} = require('../e2e/lib/wait');
const {claims_of, judge} = require('./judge');

const now_us = () => Number(process.hrtime.bigint() / 1000n);

// A file with a struct bend (tests/support/bent_platform.h), which changes the
// clocks of a process.
class Bend {
  constructor(file, {speed, start_us, epoch_ms}) {
    this.file = file;
    fs.writeFileSync(file, Buffer.alloc(64));
    this.set(0, speed);
    this.set(1, start_us);
    this.set(2, epoch_ms);
    const fd = fs.openSync(file, 'r+');
    fs.writeSync(fd, Buffer.from('renewer\0'), 0, 8, 48);
    fs.closeSync(fd);
  }

  set(index, value) {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(value));
    const fd = fs.openSync(this.file, 'r+');
    fs.writeSync(fd, bytes, 0, 8, index * 8);
    fs.closeSync(fd);
  }

  wall_ahead(ms) {
    this.set(3, ms);
  }

  boot_ahead(ms) {
    this.set(4, ms);
  }

  freeze(frozen) {
    this.set(5, frozen ? 1 : 0);
  }
}

class Worker {
  // index: from 1; the front end uses the ports of index 0.
  constructor(group, index) {
    Object.assign(this, {group, index, boot_ahead_ms: 0});
    this.sends = path.join(group.folder, `sends-${index}`);
    if (group.bent)
      this.bend = new Bend(
          path.join(group.folder, `clock-${index}`), group.time);
    const {table, queue} = group.azsim.ports[index];
    this.child = spawn(group.program,
        ['--config', group.configuration, 'worker'], {
          cwd: group.folder, stdio: ['ignore', 'ignore', 'pipe'],
          env: {
            ...process.env,
            STORAGE: connection_string(
                group.account, group.azsim.key, table, queue),
            ZOMBIES_SENDS: this.sends,
            ...(this.bend ? {ZOMBIES_CLOCK: this.bend.file} : {}),
            ...(group.fault ? {ZOMBIES_BREAK: group.fault} : {}),
          },
        });
    this.said = '';
    this.child.stderr.setEncoding('utf8').on(
        'data', (text) => (this.said = (this.said + text).slice(-4000)));
    this.gone = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.once('exit', () => (this.over = true));
  }

  stop() {
    this.child.kill('SIGSTOP');
  }

  wake() {
    this.child.kill('SIGCONT');
  }

  // jump: moves the boot clock forward by ms, as after a suspend.
  jump(ms) {
    this.boot_ahead_ms += ms;
    this.bend.boot_ahead(this.boot_ahead_ms);
  }
}

class Group {
  // options: {program, azsim, folder, workers, speed (0: the real clocks),
  // visibility_s, latency_ms, entities, requests, fault, random}
  constructor(options) {
    Object.assign(this, options);
    this.bent = this.speed > 0;
    this.log = [];
    this.claims = [];
    this.channels = 0;
    this.stalls = [];
    fs.mkdirSync(this.folder, {recursive: true});
  }

  async open() {
    this.time = {
      speed: this.bent ? this.speed : 1, start_us: now_us(),
      epoch_ms: Date.now(),
    };
    const clock = new Bend(path.join(this.folder, 'clock-azsim'), this.time);
    this.azsim = await Azsim.start(
        this.azsim_program, {workers: this.workers + 1, clock: clock.file});
    this.account = this.azsim.account();
    this.store = Object.assign(new AzuriteStore(), {
      azurite: this.azsim, account: this.account,
      agent: new http.Agent({keepAlive: false}),
    });
    await this.azsim.control({skew_s: 0});
    for (const table of ['Channels', 'Entries']) await this.store.create(table);
    await this.store.insert('Entries', [{PartitionKey: 'near_1', RowKey: 'x'}]);
    this.configuration = path.join(this.folder, 'tableward.yaml');
    fs.writeFileSync(this.configuration, JSON.stringify(this.#configuration()));
    await this.#begin_channel();
    await this.azsim.control({
      latency_ms: this.latency_ms, latency_more_ms: this.latency_ms,
      seed: 1 + this.random(1 << 30),
    });
    this.crew = Array.from(
        {length: this.workers}, (_, i) => new Worker(this, i + 1));
  }

  #configuration() {
    return {
      stores: {main: {azure: {connection_string: '${STORAGE}'}}},
      worker: {
        slots: 1, requests: this.requests, max_attempts: 1000,
        visibility_timeout: `${this.visibility_s}s`,
        poll: {
          min: `${2 * this.visibility_s}ms`, max: `${20 * this.visibility_s}ms`,
        },
      },
      jobs: {
        'delete-channel': {
          ...flat,
          children: [{table: 'Entries', partition_key_prefix: '{channel}_'}],
        },
      },
    };
  }

  // Stores a channel and requests a run that deletes it. Half of the channels
  // have no parent, so that an attempt inserts the tombstone.
  async #begin_channel() {
    const name = `c${++this.channels}`;
    const skew = await this.azsim.control({skew_s: 0});
    if (this.channels % 2 === 1)
      await this.store.insert(
          'Channels', [{PartitionKey: name, RowKey: '', Title: name}]);
    await this.store.insert('Entries', Array.from(
        {length: this.entities}, (_, i) => ({
          PartitionKey: `${name}_${String(i).padStart(5, '0')}`, RowKey: 'x',
        })));
    this.run = await this.store.enqueue('delete-channel', {channel: name});
    await this.azsim.control({skew_s: skew.skew_s || 900});
  }

  // read_log: reads the entries since the last call, notes the claims among
  // them, and returns these entries.
  async read_log() {
    const since = this.log.length > 0 ? this.log[this.log.length - 1].n + 1 : 0;
    const more = await this.azsim.log(since);
    for (const entry of more) this.log.push(entry);
    const seen = new Set(this.claims.map((claim) => claim.owner));
    for (const claim of claims_of(more))
      if (!seen.has(claim.owner)) this.claims.push(claim);
    const dead = this.crew && this.crew.find((worker) => worker.over);
    if (dead) throw new Error(`worker ${dead.index} has ended:\n${dead.said}`);
    return more;
  }

  // is_over: true if the current run has ended and its message was deleted.
  is_over() {
    const last = this.log.findLast((e) => e.service === 'queue' && e.changed &&
        e.method === 'DELETE');
    const put = this.log.findLast((e) => e.service === 'queue' &&
        e.method === 'POST' && e.changed);
    return last && put && last.n > put.n;
  }

  // holder: returns the worker with the newest claim, once it has deleted
  // something since the claim. If there is no run, begins a new channel.
  async holder() {
    let found;
    await until('a worker holds the run and works', async () => {
      await this.read_log();
      if (this.is_over()) {
        await this.#begin_channel();
        await this.read_log();
      }
      const claim = this.claims[this.claims.length - 1];
      found = claim && this.log.findLast((e) => e.n > claim.n && e.changed &&
          e.deletes > 0 && e.worker === claim.worker) && claim;
      return found;
    }, 120000);
    return this.crew[found.worker - 1];
  }

  // overtaken: waits until there are more than `before` claims. True: there
  // are. False: the run ended, or no worker claimed it within limit_ms.
  async overtaken(before, limit_ms) {
    const deadline = Date.now() + limit_ms;
    while (Date.now() < deadline) {
      await this.read_log();
      if (this.claims.length > before) return true;
      if (this.is_over()) return false;
      await sleep(10);
    }
    return false;
  }

  // finish: waits until the current run has ended; returns what is wrong in the
  // tables and in the ledger.
  async finish() {
    await until('the last run ends', async () => {
      await this.read_log();
      return this.is_over();
    }, 120000);
    await this.azsim.control({skew_s: 0});
    const left = await this.store.read('Entries');
    const parents = await this.store.read('Channels');
    const runs = await this.store.runs();
    const wrong = [];
    if (left.length !== 1 || left[0].PartitionKey !== 'near_1')
      wrong.push(`${left.length} entries are left instead of 1`);
    for (const parent of parents)
      wrong.push(`the parent ${parent.PartitionKey} is still there`);
    for (const run of runs)
      if (run.State !== 'succeeded')
        wrong.push(`run ${run.Id}: ${run.State} ${run.Error}`);
    if (runs.length !== this.channels)
      wrong.push(`${runs.length} runs instead of ${this.channels}`);
    return wrong;
  }

  async close() {
    for (const worker of this.crew || []) {
      worker.wake();
      worker.child.kill('SIGKILL');
    }
    for (const worker of this.crew || [])
      await within('a worker ends', worker.gone, 30000);
    if (this.azsim) await this.azsim.stop();
  }

  // results: the result of judge().
  results() {
    const notes = this.noted ? new Map() : null;
    for (const worker of this.noted ? this.crew : [])
      for (const line of fs.readFileSync(worker.sends, 'utf8').split('\n')) {
        const [id, us, bound] = line.split(' ');
        if (us) notes.set(id, {started_us: Number(us), bound: bound === '1'});
      }
    return {
      requests: this.log.length, ...judge(this.log, notes, this.stalls),
    };
  }
}

module.exports = {Group, now_us};
