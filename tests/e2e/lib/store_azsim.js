// SPDX-License-Identifier: MIT
// The front end on azsim, by the official SDKs. The worker comes through a
// proxy that damages one connection in ten; the front end does not, so that
// what it sees is what is there.
'use strict';

const crypto = require('crypto');
const http = require('http');
const {Azsim, beside} = require('./azsim');
const {ClockedStore} = require('./store_clocked');
const {FaultProxy, FAULTS} = require('./fault_proxy');
const {connection_string} = require('./azurite');

// Of 1000 requests, by each kind of fault.
const SHARE = Math.round(100 / FAULTS.length);

class AzsimStore extends ClockedStore {
  static name = 'azsim';

  static async open() {
    const store = new AzsimStore();
    store.azurite = await Azsim.start(beside('azsim'));
    store.account = store.azurite.account();
    store.agent = new http.Agent({keepAlive: false});
    store.faulty = await FaultProxy.start(beside('azsim-proxy'), store.azurite);
    store.seed = Number(process.env.E2E_SEED) || crypto.randomInt(1, 1 << 30);
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
