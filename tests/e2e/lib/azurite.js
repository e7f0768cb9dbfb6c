// SPDX-License-Identifier: MIT
// One Azurite for all suites, in memory, on ports that the system chooses. Each
// suite has its own account in it, and so its own tables, queues and ledger.
'use strict';

const {spawn} = require('child_process');
const crypto = require('crypto');
const path = require('path');
const secrets = require('./secrets');
const {within} = require('./wait');

const ACCOUNTS = 600; // `crash at every request` uses one for each kill

class Azurite {
  // start: starts an Azurite that stores its data in memory; stop() ends it.
  // tls: {cert, key}, two files: it serves https and accepts access tokens.
  static async start(modules, {tls} = {}) {
    const azurite = new Azurite();
    azurite.key = crypto.randomBytes(64).toString('base64');
    azurite.accounts =
        Array.from({length: ACCOUNTS}, (_, i) => `suite${i + 1}`);
    const program =
        path.join(modules, 'azurite', 'dist', 'src', 'azurite.js');
    const options = ['--silent', '--inMemoryPersistence', '--disableTelemetry',
      '--blobPort', '0', '--queuePort', '0', '--tablePort', '0'];
    if (tls)
      options.push('--cert', tls.cert, '--key', tls.key, '--oauth', 'basic');
    azurite.child = spawn(process.execPath,
        ['-r', path.join(__dirname, 'node18.js'), program, ...options], {
          stdio: ['ignore', 'pipe', 'pipe'],
          env: {
            ...process.env,
            AZURITE_ACCOUNTS:
                azurite.accounts.map((a) => `${a}:${azurite.key}`).join(';'),
          },
        });
    await within('Azurite starts', azurite.#ports(), 60000);
    return azurite;
  }

  // account: returns the name of an unused account.
  account() {
    const name = this.accounts.shift();
    if (name === undefined) throw new Error('all accounts are in use');
    return name;
  }

  async stop() {
    if (this.child.exitCode !== null) return;
    const gone = new Promise((resolve) => this.child.once('exit', resolve));
    this.child.kill('SIGKILL');
    await gone;
  }

  #ports() {
    return new Promise((resolve, reject) => {
      let said = '';
      const listen = (text) => {
        said += text;
        const port = (service) => {
          const found = new RegExp(
              `${service} service is successfully listening at ` +
              'https?://127\\.0\\.0\\.1:(\\d+)').exec(said);
          return found && Number(found[1]);
        };
        this.table_port = port('Table');
        this.queue_port = port('Queue');
        if (this.table_port && this.queue_port) resolve();
      };
      this.child.stdout.on('data', listen);
      this.child.stderr.on('data', (text) => (said += text));
      this.child.once('error', reject);
      this.child.once(
          'exit', () => reject(new Error(`Azurite ended: ${said}`)));
    });
  }
}

// connection_string: returns the connection string of an account whose services
// listen on these ports of this host.
function connection_string(account, key, table_port, queue_port) {
  secrets.keep(key);
  const at = (port) => `http://127.0.0.1:${port}/${account}`;
  return `DefaultEndpointsProtocol=http;AccountName=${account};` +
      `AccountKey=${key};TableEndpoint=${at(table_port)};` +
      `QueueEndpoint=${at(queue_port)};`;
}

module.exports = {Azurite, connection_string};
