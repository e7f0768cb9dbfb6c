// SPDX-License-Identifier: MIT
// A suite: one store, one configuration, one or several workers, and several
// named scenarios that share them. A scenario owns the entities that it stores.
// After the worker has drained the queue, every table is compared with the
// model, and a difference is reported for the scenario that owns the entity.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const {Model, holds, key} = require('./model');
const {Program, tail} = require('./program');
const {LEDGER} = require('./proxy');
const {until, each, sleep} = require('./wait');

const WORKER = {
  slots: 4, requests: 8, visibility_timeout: '10s',
  poll: {min: '20ms', max: '200ms'},
};
const DRAIN_LIMIT_MS = 240000;
const DRAINED_MS = 900000;
const STOPPED_MS = 120000;
const OPEN_STATES = ['queued', 'running', 'waiting'];

class Suite {
  // bench: {program, work, azurite}; Store: a store class.
  constructor(name, Store, bench, report) {
    Object.assign(this, {name, Store, bench, report});
    this.model = new Model();
    this.owners = new Map();
    this.scenarios = [];
  }

  // open: writes the configuration and creates the tables, which are empty.
  // jobs: the map `jobs:` of the configuration, or a function that returns this
  // map for a store.
  async open({jobs, worker = {}, tables = [], env = {}}) {
    this.folder = fs.mkdtempSync(path.join(this.bench.work, 'suite-'));
    this.store = await this.Store.open(this.bench.azurite);
    this.program = new Program(this.bench.program, this.folder);
    this.environment = {...this.store.env(), ...env};
    this.configuration = {
      default_store: 'main', stores: this.store.stores(),
      worker: {...WORKER, ...worker},
      jobs: typeof jobs === 'function' ? jobs(this.store) : jobs,
    };
    this.options = ['--config', this.program.configure(this.configuration)];
    if (this.store.attach) this.store.attach(this.program, this.options);
    for (const table of tables) {
      this.model.table(table);
      await this.store.create(table);
    }
  }

  close() {
    if (this.program) this.program.stop();
    if (this.store) this.store.close();
    if (this.folder && !process.env.KEEP)
      fs.rmSync(this.folder, {recursive: true, force: true});
  }

  // another: returns a suite like this one with its own store, not yet open.
  another() {
    return new Suite(this.name, this.Store, this.bench, this.report);
  }

  // scenario: adds a scenario with the steps {seed(s), ask(s), during(s,
  // worker), expect(s)}, each optional: seed adds entities (s.put), ask
  // enqueues runs, during acts while the worker runs, expect changes the model
  // and judges the ledger.
  scenario(name, steps) {
    this.scenarios.push({name, ...steps});
  }

  // put: adds entities that will be stored before the worker starts.
  put(table, ...entities) {
    for (const entity of entities) this.own(table, entity);
  }

  // own: adds an entity to the model, owned by the current scenario.
  own(table, entity) {
    this.model.put(table, entity, this.current);
    this.owners.set(`${table}${key(entity)}`, this.current);
  }

  // store_now: stores entities and adds them to the model, while the worker
  // runs.
  async store_now(scenario, table, ...entities) {
    await this.store.insert(table, entities);
    for (const entity of entities) {
      this.model.put(table, entity, scenario);
      this.owners.set(`${table}${key(entity)}`, scenario);
    }
  }

  // store_model: stores all entities of the model.
  async store_model() {
    for (const [table, entities] of this.model.tables)
      await this.store.insert(
          table, [...entities.values()].map((e) => e.entity));
  }

  // worker: starts a worker; with `--drain` unless `args` are given.
  worker(args = ['--drain']) {
    return this.start(['--log-level', 'debug', 'worker', ...args]);
  }

  // start, command, ok: run the program with the suite's configuration. start:
  // does not wait for its end; command: waits; ok: throws unless it ends with
  // 0.
  start(args) {
    return this.program.start(
        [...this.options, ...args], {env: this.environment});
  }

  command(args, options = {}) {
    return this.program.run([...this.options, ...args],
        {env: this.environment, ...options});
  }

  ok(args, options = {}) {
    return this.program.ok([...this.options, ...args],
        {env: this.environment, ...options});
  }

  // drain: waits until a worker, or another started command, has ended; throws,
  // with the end of its log, unless its exit code is `code`.
  async drain(worker = this.worker(), code = 0, limit_ms = DRAINED_MS) {
    const end = await this.program.end(worker, limit_ms);
    assert.strictEqual(end.code, code, tail(worker.log));
  }

  // stop: sends SIGTERM to a worker, which must end with exit code 0.
  async stop(worker, limit_ms = STOPPED_MS) {
    worker.kill('SIGTERM');
    await this.drain(worker, 0, limit_ms);
  }

  // kill: kills a worker, as if its machine was lost.
  async kill(worker) {
    worker.kill('SIGKILL');
    return await this.program.end(worker);
  }

  // said: waits until the worker's log matches the pattern; returns the match.
  said(worker, pattern, limit_ms) {
    return until(`the worker says ${pattern}`, () => pattern.exec(worker.log),
        limit_ms, () => worker.over && assert.fail(
            `the worker has ended:\n${tail(worker.log)}`));
  }

  // run_of: returns the ledger's entity of a run.
  async run_of(id) {
    return (await this.store.runs()).find((run) => run.Id === id);
  }

  // state: waits until the run has one of these states; returns its entity.
  async state(id, states, worker) {
    return await until(`run ${id} is ${states.join(' or ')}`, async () => {
      await sleep(100); // many wait at once; each reads the whole ledger
      const run = await this.run_of(id);
      return run && states.includes(run.State) && run;
    }, 60000, () => worker && worker.over && assert.fail(
        `the worker has ended:\n${tail(worker.log)}`));
  }

  // play: runs the steps seed and ask of all scenarios, lets one worker drain
  // the queues (exit_code: that with which it must end), then judges.
  async play({exit_code = 0, play_ms = DRAIN_LIMIT_MS} = {}) {
    const failed = new Map();
    const blame = (scenario, error) => failed.has(scenario) ||
        failed.set(scenario, error);
    await this.#seed();
    await this.#step('ask', blame);
    const worker = this.worker();
    await this.#step('during', blame, worker);
    const end = await this.program.end(worker, play_ms);
    if (end.code !== exit_code)
      blame(undefined, new Error(`worker: exit ${end.code ?? end.signal}, ` +
          `not ${exit_code}\n${tail(worker.log)}`));
    this.log = worker.log;
    await this.#step('expect', blame);
    for (const difference of await this.differences())
      blame(difference.owner, new Error(`${difference.table} ` +
          `${difference.key} ${difference.what}`));
    for (const scenario of this.scenarios)
      this.report(this, scenario.name, failed.get(scenario));
    this.report(this, `${this.name}: nothing else was touched`,
        failed.get(undefined));
    this.scenarios = [];
  }

  // judge: runs `work`, a scenario that does all its steps itself, and reports
  // it.
  async judge(name, work) {
    let failure;
    try {
      await work();
    } catch (error) {
      failure = error;
    }
    this.report(this, name, failure);
  }

  // holds: throws unless the table has exactly these entities.
  async holds(table, entities, more) {
    holds(table, entities, await this.store.read(table), more);
  }

  // same: throws unless the tables have exactly the entities of the model.
  async same() {
    const differences = await this.differences();
    assert.strictEqual(differences.slice(0, 3)
        .map((d) => `${d.table} ${d.key} ${d.what}`).join('\n'), '');
  }

  async differences() {
    const all = [];
    for (const table of this.model.tables.keys())
      all.push(...this.model.compare(
          table, await this.store.read(table), this.owners));
    return all;
  }

  // ended: throws unless the run has this state and its error matches `reason`;
  // returns its entity.
  async ended(id, state, reason) {
    const run = await this.run_of(id);
    assert.ok(run, `run ${id} is not in the ledger`);
    assert.strictEqual(run.State, state, run.Error);
    if (reason) assert.match(run.Error, reason);
    return run;
  }

  async #seed() {
    for (const scenario of this.scenarios) {
      this.current = scenario;
      if (scenario.seed) await scenario.seed(this, scenario);
    }
    this.current = undefined;
    await this.store_model();
  }

  async #step(step, blame, worker) {
    const work = this.scenarios.filter((s) => s[step]);
    await each(work, step === 'expect' ? 1 : 4, async (scenario) => {
      try {
        await scenario[step](this, scenario, worker);
      } catch (error) {
        blame(scenario, error);
      }
    });
  }
}

module.exports = {Suite, LEDGER, OPEN_STATES};
