// SPDX-License-Identifier: MIT
// A worker on the official JavaScript SDKs, which does the work of the cases of
// compare.js with as many concurrent requests as tableward. Prints {entities,
// seconds, cpu_s} as JSON; the start of the process and the loading of the SDKs
// are not counted.
//
//   STORAGE=connection-string NODE_PATH=... node sdk.js CASE ARGUMENT...
//
//   delete TABLE PARTITIONKEY    pages of keys, batches of deletes with ETags
//   upgrade TABLE                rename, retype, add: batches of replaces
//   copy FROM TO                 by month, batches of inserts by partition
//   import TABLE FILE            batches of inserts
//   export TABLE FILE            pages, one JSON object a line
//   jobs QUEUE COUNT             messages {job, args: {channel}}: as small jobs
'use strict';

require('../e2e/lib/node18');
const fs = require('fs');
const {TableClient, odata} = require('@azure/data-tables');
const {QueueServiceClient} = require('@azure/storage-queue');

const AT_ONCE = 16; // requests
const SLOTS = 16; // jobs
const BATCH = 100;

const table = (name) => TableClient.fromConnectionString(
    process.env.STORAGE, name, {allowInsecureConnection: true});

// Limited: runs at most AT_ONCE promises at a time; end() waits for the rest.
class Limited {
  running = new Set();

  async add(start) {
    while (this.running.size >= AT_ONCE) await Promise.race(this.running);
    const promise = start().finally(() => this.running.delete(promise));
    this.running.add(promise);
  }

  async end() {
    await Promise.all(this.running);
  }
}

// in_batches: collects actions by partition and sends each batch when it is
// full.
async function in_batches(client, entities, action_of) {
  const limited = new Limited();
  const open = new Map();
  let count = 0;

  for await (const entity of entities) {
    const action = action_of(entity);
    const key = action[1].partitionKey;
    const batch = open.get(key) || [];
    count++;
    open.set(key, batch);
    batch.push(action);
    if (batch.length < BATCH) continue;
    open.delete(key);
    await limited.add(() => client.submitTransaction(batch));
  }
  for (const batch of open.values())
    await limited.add(() => client.submitTransaction(batch));
  await limited.end();
  return count;
}

const own = ({etag, timestamp, ...entity}) => entity;

function* lines(file) {
  for (const line of fs.readFileSync(file, 'utf8').split('\n'))
    if (line !== '') yield JSON.parse(line);
}

// from_line: converts an entity of an exported file to the form of the SDK.
function from_line({PartitionKey, RowKey, ...rest}) {
  const entity = {partitionKey: PartitionKey, rowKey: RowKey};
  for (const [name, value] of Object.entries(rest)) {
    if (name.endsWith('@odata.type')) continue;
    const type = rest[`${name}@odata.type`];
    entity[name] = type === 'Edm.DateTime' ? new Date(value) :
        type === 'Edm.Double' ? {type: 'Double', value: String(value)} : value;
  }
  return entity;
}

const CASES = {
  async delete(name, partition) {
    const client = table(name);
    const entities = client.listEntities({queryOptions: {
      filter: odata`PartitionKey eq ${partition}`,
      select: ['PartitionKey', 'RowKey'],
    }});
    return await in_batches(client, entities,
        ({partitionKey, rowKey, etag}) =>
          ['delete', {partitionKey, rowKey, etag}]);
  },

  async upgrade(name) {
    const client = table(name);
    return await in_batches(client, client.listEntities(), (entity) => {
      const {Title, Rating, etag, timestamp, ...rest} = entity;
      return ['update', {...rest, Heading: Title,
        Rating: Math.trunc(Number(Rating)), Language: 'en', SchemaVersion: 2,
        etag}, 'Replace', {etag}];
    });
  },

  async copy(from, to) {
    const month = (date) => `${9999 - date.getUTCFullYear()}_` +
        String(13 - (date.getUTCMonth() + 1)).padStart(2, '0');
    const target = table(to);
    await target.createTable();
    return await in_batches(target, table(from).listEntities(), (entity) => {
      const date = new Date(entity.CreatedOn);
      return ['create', {...own(entity), partitionKey: month(date),
        rowKey: `${1e15 - date.getTime()}_${entity.rowKey}`}];
    });
  },

  async import(name, file) {
    const client = table(name);
    await client.createTable();
    return await in_batches(
        client, lines(file), (line) => ['create', from_line(line)]);
  },

  async export(name, file) {
    const out = fs.createWriteStream(file);
    let count = 0;
    for await (const page of table(name).listEntities().byPage(
        {maxPageSize: 1000})) {
      count += page.length;
      out.write(page.map((entity) => JSON.stringify(own(entity)) + '\n').join(''));
    }
    await new Promise((resolve) => out.end(resolve));
    return count;
  },

  async jobs(name, count) {
    const queue = QueueServiceClient.fromConnectionString(
        process.env.STORAGE).getQueueClient(name);
    const channels = table('Channels'), blogs = table('Blogs');
    let left = Number(count), entities = 0;

    const one = async ({messageId, popReceipt, messageText}) => {
      const {channel} = JSON.parse(messageText).args;
      const parent = await channels.getEntity(channel, '');
      const found = [];
      for await (const blog of blogs.listEntities({queryOptions: {
        filter: odata`PartitionKey eq ${channel}`,
        select: ['PartitionKey', 'RowKey']}}))
        found.push(['delete', blog]);
      if (found.length > 0) await blogs.submitTransaction(found);
      await channels.deleteEntity(channel, '', {etag: parent.etag});
      await queue.deleteMessage(messageId, popReceipt);
      entities += found.length;
    };
    while (left > 0) {
      const {receivedMessageItems} = await queue.receiveMessages(
          {numberOfMessages: SLOTS, visibilityTimeout: 60});
      await Promise.all(receivedMessageItems.map(one));
      left -= receivedMessageItems.length;
    }
    return entities;
  },
};

async function main() {
  const [name, ...args] = process.argv.slice(2);
  const began = process.hrtime.bigint(), cpu = process.cpuUsage();
  const entities = await CASES[name](...args);
  const {user, system} = process.cpuUsage(cpu);
  console.log(JSON.stringify({entities,
    seconds: Number(process.hrtime.bigint() - began) / 1e9,
    cpu_s: (user + system) / 1e6}));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
