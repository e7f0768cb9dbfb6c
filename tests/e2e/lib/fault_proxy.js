// SPDX-License-Identifier: MIT
// One azsim-proxy (tests/azsim/proxy.c): it damages connections to the two
// ports of a service, as a seed says.
'use strict';

const {spawn} = require('child_process');
const {ask} = require('./ask');
const {within} = require('./wait');

const FAULTS =
    ['reset_before', 'reset_after', 'half', 'slow', 'twice', 'garbage'];

class FaultProxy {
  // start: service has table_port and queue_port; no faults yet.
  static async start(program, service) {
    const proxy = new FaultProxy();
    proxy.child = spawn(program,
        ['--to', service.table_port, '--to', service.queue_port],
        {stdio: ['pipe', 'pipe', 'inherit']});
    [proxy.table_port, proxy.queue_port] =
        await within('azsim-proxy starts', ports_of(proxy.child), 30000);
    return proxy;
  }

  // faults: from now on every kind meets share of 1000 requests.
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

  // counts: {requests, reset_before, ...} so far.
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
