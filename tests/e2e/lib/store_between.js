// SPDX-License-Identifier: MIT
// Two stores in one configuration: `main`, embedded, with queues and ledger,
// and `cloud`, an account of Azurite.
'use strict';

const {AzuriteStore} = require('./store_azurite');
const {EmbeddedStore} = require('./store_embedded');

class BetweenStore extends EmbeddedStore {
  static name = 'between';

  static async open(azurite) {
    const store = new BetweenStore();
    store.cloud = await AzuriteStore.open(azurite);
    store.proxy = store.cloud.proxy;
    return store;
  }

  close() {
    super.close();
    this.cloud.close();
  }

  stores() {
    return {
      ...super.stores(), cloud: {azure: {connection_string: '${STORAGE}'}},
    };
  }

  env() {
    return this.cloud.env();
  }
}

module.exports = {BetweenStore};
