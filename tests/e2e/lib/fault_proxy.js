// SPDX-License-Identifier: MIT
// One azsim-proxy (tests/azsim/proxy.c). It breaks connections to the two ports
// of a service, at random by a seed.
'use strict';

const {spawn} = require('child_process');
const {ask} = require('./ask');
const {within} = require('./wait');

const FAULTS =
    ['reset_before', 'reset_after', 'half', 'slow', 'twice', 'garbage'];

class FaultProxy {
  // start: starts a proxy before service.table_port and service.queue_port,
  // without faults.
  static async start(program, service) {
    const proxy = new FaultProxy();
    proxy.child = spawn(program,
        ['--to', service.table_port, '--to', service.queue_port],
        {stdio: ['pipe', 'pipe', 'inherit']});
    [proxy.table_port, proxy.queue_port] =
        await within('azsim-proxy starts', ports_of(proxy.child), 30000);
    return proxy;
  }

  // faults: from now on, each kind of fault happens to `share` of 1000
  // requests.
  async faults(share, seed) {
    await this.control({
      seed, slow_ms: 200,
      ...Object.fromEntries(FAULTS.map((name) => [name, share])),
    });
  }

  async control(settings) {
    return JSON.parse(await ask(this.table_port,
        'POST', '/azsim-proxy/control', JSON.stringify(settings)));
  }

  // counts: returns the counts so far, {requests, reset_before, ...}.
  async counts() {
    return JSON.parse(await ask(this.table_port, 'GET', '/azsim-proxy/counts'));
  }

  stop() {
    this.child.stdin.end();
  }
}

function ports_of(child) {
  return new Promise((resolve, reject) => {
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      said += text;
      if (said.endsWith('ready\n'))
        resolve([...said.matchAll(/port (\d+) for/g)].map((m) => Number(m[1])));
    });
    child.once('error', reject);
    child.once('exit', () => reject(new Error(`azsim-proxy ended: ${said}`)));
  });
}

module.exports = {FaultProxy, FAULTS};
