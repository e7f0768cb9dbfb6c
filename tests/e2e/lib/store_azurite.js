// SPDX-License-Identifier: MIT
// The front end on Azurite: the official SDKs create tables and entities, put
// messages and read the ledger; the worker's requests pass through the proxy.
// Entities are read as raw JSON, because the SDK reads Double 1.0 as Int32.
'use strict';

require('./node18');
const crypto = require('crypto');
const http = require('http');
const {TableClient, AzureNamedKeyCredential} = require('@azure/data-tables');
const {
  QueueClient, StorageSharedKeyCredential,
} = require('@azure/storage-queue');
const {request} = require('./ask');
const {connection_string} = require('./azurite');
const {Proxy, LEDGER} = require('./proxy');
const {parse_exactly} = require('./model');
const {each, sleep} = require('./wait');

const BATCH_BYTES = 3 * 1024 * 1024;

// Each request gets a new connection: on a connection that the service has just
// closed because it was idle, the SDK's request would fail.
const CONNECTIONS = {
  position: 'perCall', policy: {
    name: 'connections', sendRequest(request, next) {
      request.disableKeepAlive = true;
      return next(request);
    },
  },
};

class AzuriteStore {
  static name = 'azurite';

  static async open(azurite) {
    const store = new AzuriteStore();
    store.azurite = azurite;
    store.account = azurite.account();
    store.agent = new http.Agent({keepAlive: false});
    store.proxy = await Proxy.start(azurite);
    return store;
  }

  close() {
    this.proxy.stop();
  }

  // stores: returns `stores:` of a configuration. The secrets are in the
  // environment.
  stores() {
    return {main: {azure: {connection_string: '${STORAGE}'}}};
  }

  env() {
    return {
      STORAGE: connection_string(this.account, this.azurite.key,
          this.proxy.table_port, this.proxy.queue_port),
    };
  }

  // front: returns the store as a front end sees it through the SDKs, which is
  // this store.
  async front() {
    return this;
  }

  async create(table) {
    await this.client(table).createTable();
  }

  // insert: stores many entities in transactions, several at a time.
  async insert(table, entities) {
    const client = this.client(table);
    await each(transactions(entities), 4, async (batch) => {
      if (batch.length === 1)
        await client.createEntity(batch[0]);
      else
        await client.submitTransaction(batch.map((e) => ['create', e]));
    });
  }

  // try_insert: true if the entity was stored; false if it exists already.
  async try_insert(table, entity) {
    try {
      await this.client(table).createEntity(for_sdk(entity));
      return true;
    } catch (error) {
      if (error.statusCode === 409) return false;
      throw error;
    }
  }

  async overwrite(table, entity) {
    await this.client(table).upsertEntity(for_sdk(entity), 'Replace');
  }

  // read: returns all entities of a table, or those that match the filter, from
  // the raw responses; [] if there is no table.
  async read(table, filter) {
    const entities = [];
    const chosen = filter ? `&$filter=${encodeURIComponent(filter)}` : '';
    let next = '';
    do {
      const {status, headers, body} = await this.#answer(table, chosen + next);
      if (status === 404) return [];
      if (status !== 200) throw new Error(`GET ${table}: ${status} ${body}`);
      entities.push(...parse_exactly(body).value);
      next = ['NextPartitionKey', 'NextRowKey']
          .filter((n) => headers[`x-ms-continuation-${n.toLowerCase()}`])
          .map((n) => `&${n}=` + encodeURIComponent(
              headers[`x-ms-continuation-${n.toLowerCase()}`]))
          .join('');
    } while (next !== '');
    return entities;
  }

  // enqueue: puts a JSON message as a front end does, plain or in base64;
  // returns the id of its run.
  async enqueue(job, args, {queue = 'tableward', id, at, base64} = {}) {
    const body = JSON.stringify({job, args, id, at});
    const sent = await this.put(queue,
        base64 ? Buffer.from(body).toString('base64') : body);
    return id || sent;
  }

  // put: puts any text as a message; returns the id of the message.
  async put(queue, text) {
    const client = this.queue_client(queue);
    await client.createIfNotExists();
    return (await client.sendMessage(text)).messageId;
  }

  // peek: returns the bodies of up to 32 visible messages.
  async peek(queue) {
    const client = this.queue_client(queue);
    if (!(await client.exists())) return [];
    const {peekedMessageItems} =
        await client.peekMessages({numberOfMessages: 32});
    return peekedMessageItems.map((m) => m.messageText);
  }

  // runs: returns the runs in the ledger as a front end reads them, through the
  // SDK.
  async runs() {
    const runs = [];
    try {
      for await (const run of this.client(LEDGER).listEntities())
        if (!run.rowKey.startsWith('!'))
          runs.push({...numbers(run), Job: run.partitionKey, Id: run.rowKey});
    } catch (error) {
      if (error.statusCode !== 404) throw error;
    }
    return runs;
  }

  // client: returns the SDK's client of a table.
  client(name) {
    return new TableClient(
        `http://127.0.0.1:${this.azurite.table_port}/${this.account}`, name,
        new AzureNamedKeyCredential(this.account, this.azurite.key),
        {allowInsecureConnection: true, additionalPolicies: [CONNECTIONS]});
  }

  queue_client(name) {
    return new QueueClient(
        `http://127.0.0.1:${this.azurite.queue_port}/${this.account}/${name}`,
        new StorageSharedKeyCredential(this.account, this.azurite.key));
  }

  // Repeats a request that was answered 5xx, as the SDKs do.
  async #answer(table, options) {
    for (let left = 4; ; left--) {
      const answer = await this.#get(table, options);
      if (answer.status < 500 || left === 0) return answer;
      await sleep(500);
    }
  }

  #get(table, options) {
    const path = `/${this.account}/${table}()`;
    const date = new Date().toUTCString();
    const signature = crypto
        .createHmac('sha256', Buffer.from(this.azurite.key, 'base64'))
        .update(`GET\n\n\n${date}\n/${this.account}${path}`)
        .digest('base64');
    return request(this.azurite.table_port, 'GET',
        `${path}?$top=1000${options}`, {
          agent: this.agent, headers: {
            'Accept': 'application/json;odata=minimalmetadata',
            'x-ms-version': '2019-02-02', 'x-ms-date': date,
            'DataServiceVersion': '3.0;',
            'Authorization': `SharedKey ${this.account}:${signature}`,
          },
        });
  }
}

// numbers: converts 64-bit integers to numbers; those of the ledger are small.
function numbers(run) {
  return Object.fromEntries(Object.entries(run).map(
      ([name, v]) => [name, typeof v === 'bigint' ? Number(v) : v]));
}

// for_sdk: converts an entity of the model to the form that the SDK needs.
function for_sdk(entity) {
  const sdk = {partitionKey: entity.PartitionKey, rowKey: entity.RowKey};
  for (const [name, value] of Object.entries(entity)) {
    if (name.endsWith('@odata.type')) continue;
    if (name === 'PartitionKey' || name === 'RowKey') continue;
    const type = entity[`${name}@odata.type`];
    sdk[name] = type ? {type: type.slice(4), value: String(value)} : value;
  }
  return sdk;
}

// transactions: splits entities into batches of one partition, at most 100
// entities and 3 MiB.
function transactions(entities) {
  const open = new Map(), batches = [];
  for (const entity of entities) {
    const bytes = JSON.stringify(entity).length;
    let batch = open.get(entity.PartitionKey);
    if (!batch || batch.length === 100 || batch.bytes + bytes > BATCH_BYTES) {
      batch = Object.assign([], {bytes: 0});
      batches.push(batch);
      open.set(entity.PartitionKey, batch);
    }
    batch.push(for_sdk(entity));
    batch.bytes += bytes;
  }
  return batches;
}

module.exports = {AzuriteStore, for_sdk};
