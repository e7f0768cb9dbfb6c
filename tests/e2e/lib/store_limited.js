// SPDX-License-Identifier: MIT
// The front end on an azsim with the limits that Azure publishes, for what
// takes long or is much: the worker has a pair of ports of its own, which the
// log knows it by, and nothing stands between. What is put there is imported.
'use strict';

const {connection_string} = require('./azurite');
const {ClockedStore} = require('./store_clocked');

const WORKER = 1;

class LimitedStore extends ClockedStore {
  static name = 'limited';
  worker = WORKER;

  static async open() {
    const store = await new LimitedStore().start({workers: 2}, true);
    await store.azurite.control({
      account_limit: 20000, partition_limit: 2000, skew_s: 0,
    });
    return store;
  }

  // attach: the program whose import it uses, once it is configured.
  attach(program, options) {
    this.program = program;
    this.options = options;
  }

  close() {
    this.agent.destroy();
    this.azurite.stop();
  }

  env() {
    const {table, queue} = this.azurite.ports[WORKER];
    return {
      STORAGE: connection_string(this.account, this.azurite.key, table, queue),
    };
  }

  async insert(table, entities) {
    await this.program.ok([...this.options, 'import', table, '-'], {
      env: this.env(), limit_ms: 600000,
      input: entities.map((e) => JSON.stringify(e) + '\n').join(''),
    });
  }
}

module.exports = {LimitedStore};
