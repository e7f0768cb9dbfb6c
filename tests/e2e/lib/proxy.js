// SPDX-License-Identifier: MIT
// A proxy between the worker and Azurite. It classifies and counts each
// request, and lets a test intervene: delay it, lose it before or after it took
// effect, or do something (kill the worker) at that moment.
'use strict';

const http = require('http');

const LEDGER = 'TablewardRuns';

// classify: returns {service, kind, table, operations} of a request. The kind
// of a table request is page, get, batch, write or tables. The kind of a queue
// request is put, take, renew, delete, peek or queue.
function classify(service, method, url, body) {
  const path = url.replace(/^\/[^/]+/, '').split('?')[0];
  if (service === 'queue') return {service, kind: queue_kind(method, url, path)};
  if (path === '/$batch') {
    const operations = body.toString('latin1').match(
        /^(GET|POST|PUT|PATCH|MERGE|DELETE) \S+/gm) || ['?'];
    const table = /\/(\w+)(\(PartitionKey=|$)/.exec(operations[0]);
    return {
      service, kind: 'batch', table: table ? table[1] : '?',
      operations: operations.length,
      deletes: operations.filter((o) => o.startsWith('DELETE')).length,
    };
  }
  const table = /^\/(\w+)/.exec(path)[1];
  if (table === 'Tables') return {service, kind: 'tables', table};
  if (method === 'GET')
    return {service, table, kind: path.includes('=') ? 'get' : 'page'};
  return {
    service, table, kind: 'write', operations: 1,
    deletes: method === 'DELETE' ? 1 : 0,
  };
}

function queue_kind(method, url, path) {
  if (!path.includes('/messages')) return 'queue';
  if (method === 'POST') return 'put';
  if (method === 'PUT') return 'renew';
  if (method === 'DELETE') return 'delete';
  return url.includes('peekonly') ? 'peek' : 'take';
}

class Proxy {
  // before(request): called before a request is forwarded; may wait, and may
  // return 'lose' (the request never arrives). after(request, answer): called
  // after it took effect; may return 'lose' (the response never arrives).
  // answered(request): called after the response was sent.
  before = async () => {};
  after = async () => {};
  answered = () => {};
  requests = []; // in order of arrival
  life = 0;      // number of the current worker; new connections get it

  static async start(azurite) {
    const proxy = new Proxy();
    proxy.agent = new http.Agent({keepAlive: true});
    proxy.servers = [
      await proxy.#listen('table', azurite.table_port),
      await proxy.#listen('queue', azurite.queue_port),
    ];
    [proxy.table_port, proxy.queue_port] =
        proxy.servers.map((s) => s.address().port);
    return proxy;
  }

  stop() {
    for (const server of this.servers) {
      server.close();
      server.closeAllConnections();
    }
    this.agent.destroy();
  }

  // count: returns the number of requests for which `which` is true.
  count(which) {
    return this.requests.filter(which).length;
  }

  #listen(service, port) {
    const server = http.createServer(
        {keepAliveTimeout: 20000},
        (request, response) => this.#serve(service, port, request, response));
    server.on('connection', (socket) => {
      socket.life = this.life;
      socket.setNoDelay(true);
    });
    return new Promise((resolve) => {
      server.listen(0, '127.0.0.1', () => resolve(server));
    });
  }

  async #serve(service, port, incoming, response) {
    try {
      const parts = [];
      for await (const part of incoming) parts.push(part);
      const body = Buffer.concat(parts);
      const request = {
        ...classify(service, incoming.method, incoming.url, body),
        method: incoming.method, url: incoming.url,
        life: incoming.socket.life, done: false,
      };
      this.requests.push(request);
      if ((await this.before(request)) === 'lose')
        return incoming.socket.destroy();
      const answer = await this.#forward(port, incoming, body);
      request.status = answer.status;
      request.empty = service === 'queue' && request.kind === 'take' &&
          !answer.body.includes('<MessageId>');
      if ((await this.after(request, answer)) === 'lose')
        return incoming.socket.destroy();
      response.writeHead(answer.status, answer.headers);
      response.end(answer.body, () => {
        request.done = !incoming.socket.destroyed;
        this.answered(request);
      });
    } catch (error) {
      // The worker was killed and had sent only a part of the request; or
      // Azurite has ended.
      incoming.socket.destroy();
    }
  }

  #forward(port, incoming, body) {
    return new Promise((resolve, reject) => {
      const request = http.request({
        host: '127.0.0.1', port, agent: this.agent, method: incoming.method,
        path: incoming.url, headers: incoming.rawHeaders,
      }, async (response) => {
        try {
          const parts = [];
          for await (const part of response) parts.push(part);
          const text = Buffer.concat(parts);
          resolve({
            status: response.statusCode, body: text,
            headers: this.#headers(response.rawHeaders, text.length),
          });
        } catch (error) {
          reject(error);
        }
      });
      request.on('error', (error) => {
        // Azurite has closed the idle connection: the request did not take
        // effect.
        if (request.reusedSocket && error.code === 'ECONNRESET')
          resolve(this.#forward(port, incoming, body));
        else
          reject(error);
      });
      request.end(body);
    });
  }

  #headers(raw, length) {
    const own = ['connection', 'keep-alive', 'transfer-encoding',
      'content-length'];
    const headers = [];
    for (let i = 0; i < raw.length; i += 2)
      if (!own.includes(raw[i].toLowerCase())) headers.push(raw[i], raw[i + 1]);
    headers.push('Content-Length', String(length));
    return headers;
  }
}

const is_ledger = (request) => request.table === LEDGER;
const is_data = (request) => request.service === 'table' &&
    request.kind !== 'tables' && request.table !== LEDGER;

module.exports = {Proxy, LEDGER, is_ledger, is_data};
