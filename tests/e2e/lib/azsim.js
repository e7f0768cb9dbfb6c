// SPDX-License-Identifier: MIT
// One azsim (tests/azsim): Azure's services on embedded stores in memory, with
// limits, latency and a log of requests.
'use strict';

const {spawn} = require('child_process');
const crypto = require('crypto');
const path = require('path');
const {ask} = require('./ask');
const {within} = require('./wait');

class Azsim {
  ahead_ms = 0; // how far its clocks are ahead

  // start: starts an azsim with `workers` pairs of ports, on stores in memory
  // or on the embedded store in `file`; stop() ends it.
  static async start(program, {workers = 1, clock, file} = {}) {
    const azsim = new Azsim();
    azsim.key = crypto.randomBytes(64).toString('base64');
    azsim.second_key = crypto.randomBytes(64).toString('base64');
    azsim.accounts_given = 0;
    azsim.child = spawn(program, ['--key', azsim.key,
      '--second-key', azsim.second_key, '--workers', workers,
      ...(clock ? ['--clock', clock] : []),
      ...(file ? ['--file', file] : [])],
    {stdio: ['pipe', 'pipe', 'inherit']});
    azsim.ports = await within('azsim starts', ports_of(azsim.child), 30000);
    [{table: azsim.table_port, queue: azsim.queue_port}] = azsim.ports;
    return azsim;
  }

  // account: returns the name of an unused account.
  account() {
    return `suite${++this.accounts_given}`;
  }

  // control: changes settings (tests/azsim/console.h); returns all of them.
  async control(settings) {
    return JSON.parse(await ask(this.table_port,
        'POST', '/azsim/control', JSON.stringify(settings)));
  }

  // move_on: moves the server's clocks forward by ms.
  async move_on(ms) {
    this.ahead_ms += ms;
    await this.control(
        {wall_ahead_ms: this.ahead_ms, boot_ahead_ms: this.ahead_ms});
  }

  // log: returns the entries of its log from number `since` on.
  async log(since = 0) {
    const text = await ask(this.table_port, 'GET', `/azsim/log?since=${since}`);
    return text.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line));
  }

  // waiting: returns how many requests of a worker wait at the gate.
  async waiting(worker) {
    return Number(await ask(this.table_port, 'GET', `/azsim/waiting?worker=${worker}`));
  }

  async stop() {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const gone = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.stdin.end();
    await within('azsim ends', gone, 30000);
  }
}

function ports_of(child) {
  return new Promise((resolve, reject) => {
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      said += text;
      if (!said.endsWith('ready\n')) return;
      resolve([...said.matchAll(/table (\d+), queue (\d+)/g)]
          .map(([, table, queue]) =>
            ({table: Number(table), queue: Number(queue)})));
    });
    child.once('error', reject);
    child.once('exit', () => reject(new Error(`azsim ended: ${said}`)));
  });
}

// beside: returns the path of a program that was built in the folder of the
// program under test.
const beside = (program) =>
    path.join(path.dirname(path.resolve(process.env.TABLEWARD)), program);

module.exports = {Azsim, beside};
