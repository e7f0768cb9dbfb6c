// SPDX-License-Identifier: MIT
// An Azurite that serves https and accepts access tokens. The worker uses an
// identity and https; the front end uses the account key and plain http,
// through forwarding ports.
'use strict';

const {execFileSync} = require('child_process');
const fs = require('fs');
const http = require('http');
const https = require('https');
const os = require('os');
const path = require('path');
const {Azurite} = require('./azurite');
const {AzuriteStore} = require('./store_azurite');
const {TokenServer} = require('./token_server');

class IdentityStore extends AzuriteStore {
  static name = 'identity';

  static async open() {
    const store = new IdentityStore();
    store.folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tableward-tls.'));
    store.tls = certificate(store.folder);
    store.behind =
        await Azurite.start(process.env.E2E_MODULES, {tls: store.tls});
    store.account = store.behind.account();
    store.ports = [
      await forward(store.behind.table_port),
      await forward(store.behind.queue_port),
    ];
    const [table_port, queue_port] =
        store.ports.map((server) => server.address().port);
    store.azurite = {table_port, queue_port, key: store.behind.key};
    store.agent = new http.Agent({keepAlive: false});
    store.tokens = await TokenServer.start();
    store.file = path.join(store.folder, 'assertion');
    fs.writeFileSync(store.file, `${store.tokens.assertion}\n`);
    return store;
  }

  close() {
    this.tokens.stop();
    for (const server of this.ports) {
      server.close();
      server.closeAllConnections();
    }
    this.behind.stop();
    fs.rmSync(this.folder, {recursive: true, force: true});
  }

  stores() {
    const at = (port) => `https://127.0.0.1:${port}/${this.account}`;
    return {main: {azure: {
      identity: '${IDENTITY}',
      connection_string: `TableEndpoint=${at(this.behind.table_port)};` +
          `QueueEndpoint=${at(this.behind.queue_port)}`,
    }}};
  }

  env(kind = 'machine') {
    return {
      IDENTITY: kind === 'workload' ? 'workload' : 'managed',
      SSL_CERT_FILE: this.tls.cert, ...this.tokens.env(kind, this.file),
      // Requests to IMDS must not go through a proxy.
      ...(kind === 'workload' ? {} : {http_proxy: 'http://127.0.0.1:9'}),
    };
  }
}

// certificate: creates a self-signed certificate for 127.0.0.1; returns its
// files {cert, key}.
function certificate(folder) {
  const tls = {
    cert: path.join(folder, 'cert.pem'), key: path.join(folder, 'key.pem'),
  };
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt',
    'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj',
    '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1', '-out',
    tls.cert, '-keyout', tls.key], {stdio: 'ignore'});
  return tls;
}

// forward: starts a server of plain http that forwards to the https server at
// `port`.
function forward(port) {
  const server = http.createServer((incoming, outgoing) => {
    const request = https.request({
      host: '127.0.0.1', port, method: incoming.method, path: incoming.url,
      headers: incoming.rawHeaders, rejectUnauthorized: false, agent: false,
    }, (response) => {
      outgoing.writeHead(response.statusCode, response.rawHeaders);
      response.pipe(outgoing);
    });
    request.on('error', () => incoming.socket.destroy());
    incoming.pipe(request);
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve(server));
  });
}

module.exports = {IdentityStore};
