// SPDX-License-Identifier: MIT
// The front end on an azsim with Azure's published limits, for scenarios that
// are long or large. The worker has its own pair of ports, which identify its
// requests in azsim's log; its requests do not pass through a proxy. Entities
// are stored with `import`.
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

  // attach: sets the program whose import this store uses. Called after the
  // program was configured.
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
