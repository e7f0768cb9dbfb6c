// SPDX-License-Identifier: MIT
// The front end on azsim, by the official SDKs. The worker's requests pass
// through a proxy that breaks one connection in ten. Those of the front end do
// not, so that it sees the true state of the tables.
'use strict';

const {beside} = require('./azsim');
const {ClockedStore} = require('./store_clocked');
const {FaultProxy, FAULTS} = require('./fault_proxy');
const {connection_string} = require('./azurite');
const {seed_of_run} = require('./wait');

// Of 1000 requests, the number to which each kind of fault happens.
const SHARE = Math.round(100 / FAULTS.length);

class AzsimStore extends ClockedStore {
  static name = 'azsim';

  static async open() {
    const store = await new AzsimStore().start();
    store.faulty = await FaultProxy.start(beside('azsim-proxy'), store.azurite);
    store.seed = seed_of_run();
    await store.azurite.control({
      seed: store.seed, empty_share: 100, short_share: 100,
    });
    await store.faulty.faults(SHARE, store.seed);
    return store;
  }

  close() {
    this.faulty.stop();
    this.azurite.stop();
  }

  env() {
    return {
      STORAGE: connection_string(this.account, this.azurite.key,
          this.faulty.table_port, this.faulty.queue_port),
    };
  }
}

module.exports = {AzsimStore};
