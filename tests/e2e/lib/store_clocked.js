// SPDX-License-Identifier: MIT
// The front end on an azsim whose clock a test moves forward, so that a test
// need not wait until a late write can no longer arrive. The azsim makes no
// faults; the worker's requests pass through the proxy.
'use strict';

const http = require('http');
const {Azsim, beside} = require('./azsim');
const {AzuriteStore} = require('./store_azurite');
const {Proxy} = require('./proxy');
const {sleep} = require('./wait');

class ClockedStore extends AzuriteStore {
  static name = 'clocked';

  static async open() {
    const store = await new ClockedStore().start();
    store.proxy = await Proxy.start(store.azurite);
    return store;
  }

  // start: starts its azsim.
  async start(options, keepAlive = false) {
    this.azurite = await Azsim.start(beside('azsim'), options);
    this.account = this.azurite.account();
    this.agent = new http.Agent({keepAlive});
    return this;
  }

  close() {
    super.close();
    this.azurite.stop();
  }

  // hurrying: calls `work` and returns its result. Meanwhile, whenever a run
  // waits until a time (ResumesAt), moves the clock past this time, once for
  // each time.
  async hurrying(work) {
    const come = new Set();
    let over = false;
    const hurry = async () => {
      for (; !over; await sleep(100))
        for (const {State, ResumesAt} of await this.runs()) {
          if (State !== 'waiting' || come.has(String(ResumesAt))) continue;
          come.add(String(ResumesAt));
          await this.azurite.move_on(31000);
        }
    };
    const hurried = hurry();
    hurried.catch(() => {});
    try {
      return await work();
    } finally {
      over = true;
      await hurried;
    }
  }
}

module.exports = {ClockedStore};
