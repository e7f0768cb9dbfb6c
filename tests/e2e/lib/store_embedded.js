// SPDX-License-Identifier: MIT
// The front end on the embedded store: it uses the program's import, export and
// enqueue, whose results are judged too; or, if a suite asks for it, the SDKs
// with an azsim that has opened the same file.
'use strict';

const http = require('http');
const path = require('path');
const {Azsim, beside} = require('./azsim');
const {AzuriteStore} = require('./store_azurite');
const {parse_exactly, Written} = require('./model');
const {LEDGER} = require('./proxy');

const FILE = 'tableward.db';

class EmbeddedStore {
  static name = 'embedded';

  static async open() {
    return new EmbeddedStore();
  }

  close() {
    if (this.azsim) this.azsim.stop();
  }

  // attach: sets the program whose commands this store uses. Called after the
  // program was configured.
  attach(program, options) {
    this.program = program;
    this.options = options;
  }

  stores() {
    return {main: {embedded: FILE}};
  }

  env() {
    return {};
  }

  // front: returns the store as a front end sees it through the SDKs, with its
  // own azsim process. Call it once; tables: those that exist.
  async front(tables) {
    const front = new AzuriteStore();
    this.azsim = front.azurite = await Azsim.start(
        beside('azsim'), {file: path.join(this.program.folder, FILE)});
    front.account = this.azsim.account();
    front.agent = new http.Agent({keepAlive: false});
    for (const table of tables) await front.create(table);
    return front;
  }

  async create(table) {
    await this.insert(table, []);
  }

  async insert(table, entities, conflict = 'fail') {
    await this.#command(['import', table, '-', '--on-conflict', conflict],
        {input: entities.map((e) => JSON.stringify(e) + '\n').join('')});
  }

  // try_insert: false if the entity exists already.
  async try_insert(table, entity) {
    const {code} = await this.program.run(
        [...this.options, 'import', table, '-', '--on-conflict', 'fail'],
        {input: JSON.stringify(entity) + '\n'});
    if (code !== 0 && code !== 1) throw new Error(`import: exit ${code}`);
    return code === 0;
  }

  async overwrite(table, entity) {
    await this.insert(table, [entity], 'replace');
  }

  async read(table) {
    const {out} = await this.#command(['export', table, '-']);
    return out.split('\n').filter((l) => l !== '').map(parse_exactly);
  }

  async enqueue(job, args, {queue, id} = {}) {
    const named = Object.entries(args).map(([name, v]) => `${name}=${v}`);
    const {out} = await this.#command(['enqueue', job, ...named,
      ...(queue ? ['--queue', queue] : []), ...(id ? ['--id', id] : [])]);
    return out.trim();
  }

  // runs: the runs in the ledger, from export; empty before anything was
  // enqueued.
  async runs() {
    const {code, out} =
        await this.program.run([...this.options, 'export', LEDGER, '-']);
    if (code !== 0) return [];
    return out.split('\n').filter((l) => l !== '').map(parse_exactly)
        .filter((run) => !run.RowKey.startsWith('!'))
        .map((run) => ({...numbers(run), Job: run.PartitionKey,
          Id: run.RowKey}));
  }

  async #command(args, options = {}) {
    return await this.program.ok([...this.options, ...args], options);
  }
}

// numbers: returns the run with JavaScript numbers as values.
function numbers(run) {
  const plain = {};
  for (const [name, value] of Object.entries(run))
    plain[name] = value instanceof Written ? Number(value.text) :
        run[`${name}@odata.type`] === 'Edm.Int64' ? Number(value) : value;
  return plain;
}

module.exports = {EmbeddedStore};
