// SPDX-License-Identifier: MIT
// node smoke.js: runs the official SDKs against azsim. They share no code with
// the product: if they work with azsim, it speaks the protocol of Azure.
//
// AZSIM: the program; NODE_PATH: where the SDKs are (tests/azsim/run).
'use strict';

require('../e2e/lib/node18');
const assert = require('assert');
const {TableClient, TableServiceClient, TableTransaction, odata,
  AzureNamedKeyCredential} = require('@azure/data-tables');
const {QueueServiceClient, StorageSharedKeyCredential} =
    require('@azure/storage-queue');
const {Azsim} = require('../e2e/lib/azsim');

const NO_RETRIES = {retryOptions: {maxRetries: 0, maxTries: 1}};

class Bench {
  constructor(azsim) {
    this.azsim = azsim;
    this.account = azsim.account();
  }

  url(service) {
    return `http://127.0.0.1:${this.azsim[`${service}_port`]}/${this.account}`;
  }

  tables(key = this.azsim.key) {
    return new TableServiceClient(this.url('table'),
        new AzureNamedKeyCredential(this.account, key),
        {allowInsecureConnection: true, ...NO_RETRIES});
  }

  table(name) {
    return new TableClient(this.url('table'), name,
        new AzureNamedKeyCredential(this.account, this.azsim.key),
        {allowInsecureConnection: true, ...NO_RETRIES});
  }

  async new_table(name) {
    await this.table(name).createTable();
    return this.table(name);
  }

  queues() {
    return new QueueServiceClient(this.url('queue'),
        new StorageSharedKeyCredential(this.account, this.azsim.key),
        NO_RETRIES);
  }

  async new_queue(name) {
    const queue = this.queues().getQueueClient(name);
    await queue.create();
    return queue;
  }
}

// refused: fails unless promise is rejected with this status and code.
async function refused(status, code, promise) {
  await assert.rejects(promise, (error) => {
    const said = error.details?.odataError?.code ?? error.code ??
        error.details?.errorCode;
    assert.strictEqual(error.statusCode, status, error.message);
    if (code) assert.strictEqual(said, code, error.message);
    return true;
  });
}

async function all(pages) {
  const found = [];
  for await (const one of pages) found.push(one);
  return found;
}

const ENTITY = {
  partitionKey: `O'Brien & Sons, 100% {\u00e4\u65e5}`, rowKey: `a''b (1) +`,
  text: `quotes " ' \\ and \u{1F600} and \u00e4`, empty: '', yes: true, no: false,
  int: -2147483648, double: 2.5, long: {type: 'Int64', value: '9007199254740993'},
  when: {type: 'DateTime', value: '2024-02-29T12:34:56.1234567Z'},
  guid: {type: 'Guid', value: '0f8fad5b-d9cb-469f-a165-70867728950e'},
  bytes: new Uint8Array([0, 1, 2, 255]),
  nan: {type: 'Double', value: 'NaN'},
  infinite: {type: 'Double', value: '-Infinity'},
  one: {type: 'Double', value: '1.0'}, quoted: {type: 'Int32', value: '7'},
};

async function entity_types_come_back(bench) {
  const table = await bench.new_table('Types');
  await table.createEntity(ENTITY);
  const read = await table.getEntity(
      ENTITY.partitionKey, ENTITY.rowKey, {disableTypeConversion: true});
  for (const name of ['partitionKey', 'rowKey', 'text', 'empty'])
    assert.strictEqual(read[name].value ?? read[name], ENTITY[name], name);
  const plain = await table.getEntity(ENTITY.partitionKey, ENTITY.rowKey);
  assert.strictEqual(plain.yes, true);
  assert.strictEqual(plain.no, false);
  assert.strictEqual(plain.int, -2147483648);
  assert.strictEqual(plain.double, 2.5);
  assert.strictEqual(plain.long, 9007199254740993n);
  assert.strictEqual(plain.guid.value, ENTITY.guid.value);
  assert.deepStrictEqual([...plain.bytes], [0, 1, 2, 255]);
  assert.strictEqual(read.when.value, ENTITY.when.value);
  assert.strictEqual(plain.nan, 'NaN');
  assert.strictEqual(plain.infinite, '-Infinity');
  assert.strictEqual(plain.one, 1);
  assert.strictEqual(plain.quoted, 7);
  assert.match(plain.etag, /^W\/"datetime'\d{4}-.*%3A.*Z'"$/);
  assert.ok(Math.abs(new Date(plain.timestamp) - Date.now()) < 60000);
}

async function writes_heed_etags(bench) {
  const table = await bench.new_table('Writes');
  const key = {partitionKey: 'p', rowKey: 'r'};
  const {etag} = await table.createEntity({...key, a: 1, b: 'x'});
  await refused(409, 'EntityAlreadyExists', table.createEntity(key));
  await table.updateEntity({...key, b: 'y'}, 'Merge', {etag});
  await refused(412, 'UpdateConditionNotSatisfied',
      table.updateEntity({...key, b: 'z'}, 'Merge', {etag}));
  await refused(412, 'UpdateConditionNotSatisfied',
      table.deleteEntity('p', 'r', {etag}));
  let read = await table.getEntity('p', 'r');
  assert.strictEqual(read.a, 1);
  assert.strictEqual(read.b, 'y');
  await table.updateEntity({...key, c: true}, 'Replace');
  read = await table.getEntity('p', 'r');
  assert.strictEqual(read.b, undefined);
  assert.strictEqual(read.c, true);
  await table.deleteEntity('p', 'r');
  await refused(404, 'ResourceNotFound', table.deleteEntity('p', 'r'));
  await refused(404, 'ResourceNotFound', table.getEntity('p', 'r'));
  await refused(404, 'ResourceNotFound', table.updateEntity(key, 'Merge'));
  await table.upsertEntity({...key, d: 4}, 'Merge');
  await table.upsertEntity({...key, e: 5}, 'Merge');
  await table.upsertEntity({...key, f: 6}, 'Replace');
  read = await table.getEntity('p', 'r');
  assert.strictEqual(read.f, 6);
  assert.strictEqual(read.d, undefined);
}

async function batches_are_whole_or_nothing(bench) {
  const table = await bench.new_table('Batches');
  const row = (rowKey, more) => ({partitionKey: `it's`, rowKey, ...more});
  const hundred = Array.from({length: 100}, (_, i) =>
    ['create', row(String(i).padStart(3, '0'), {n: i})]);
  const done = await table.submitTransaction(hundred);
  assert.strictEqual(done.status, 202);
  assert.strictEqual(done.subResponses.length, 100);
  assert.ok(done.subResponses.every((r) => r.status === 204 && r.etag));
  const mixed = new TableTransaction();
  mixed.deleteEntity(`it's`, '000');
  mixed.updateEntity(row('001', {m: 1}), 'Merge', {etag: '*'});
  mixed.updateEntity(row('002', {m: 2}), 'Replace',
      {etag: done.subResponses[2].etag});
  mixed.upsertEntity(row('new', {m: 3}), 'Merge');
  mixed.createEntity(row('newer', {m: 4}));
  await table.submitTransaction(mixed.actions);
  assert.strictEqual((await table.getEntity(`it's`, '001')).n, 1);
  assert.strictEqual((await table.getEntity(`it's`, '002')).n, undefined);
  assert.strictEqual((await table.getEntity(`it's`, 'new')).m, 3);
  await assert.rejects(table.submitTransaction([
    ['create', row('x1')], ['create', row('x2')], ['create', row('050')],
  ]), (error) => {
    assert.strictEqual(error.statusCode, 409);
    assert.strictEqual(error.code, 'EntityAlreadyExists');
    assert.match(error.message, /^2:/);
    return true;
  });
  await refused(404, undefined, table.getEntity(`it's`, 'x1'));
  await assert.rejects(table.submitTransaction([
    ['update', row('050', {n: -1}), 'Merge', {etag: 'W/"datetime\'2001-01-01' +
        'T00%3A00%3A00Z\'"'}],
  ]), (error) => {
    assert.strictEqual(error.statusCode, 412);
    assert.doesNotMatch(error.message, /^\d+:/);
    return true;
  });
  await assert.rejects(bench.table('Missing').submitTransaction(
      [['create', row('1')]]), (error) => {
    assert.strictEqual(error.code, 'TableNotFound');
    assert.match(error.message, /^0:/);
    return true;
  });
}

async function queries_filter_select_and_page(bench) {
  const table = await bench.new_table('Queries');
  for (const partitionKey of ['a', `b'c`, '\u00e4'])
    await table.submitTransaction(Array.from({length: 50}, (_, n) => ['create', {
      partitionKey, rowKey: String(n).padStart(3, '0'), n,
      long: {type: 'Int64', value: String(n)}, half: n + 0.5, even: n % 2 === 0,
      when: new Date(Date.UTC(2024, 0, 1 + n)),
    }]));
  const count = async (filter) => (await all(table.listEntities(
      {queryOptions: {filter}}))).length;
  assert.strictEqual(await count(odata`PartitionKey eq ${`b'c`}`), 50);
  assert.strictEqual(await count(odata`n ge ${10} and n lt ${20}`), 30);
  assert.strictEqual(await count('long eq 7L'), 3);
  assert.strictEqual(await count('long eq 7'), 0);
  assert.strictEqual(await count('half gt 48.4'), 6);
  assert.strictEqual(await count(
      `even eq true and (PartitionKey eq 'a' or RowKey eq '000')`), 27);
  assert.strictEqual(await count(
      odata`when ge ${new Date('2024-02-01T00:00:00Z')}`), 57);
  assert.strictEqual(await count(`not (n lt 49)`), 3);
  await refused(400, 'InvalidInput', count('n eq eq 5'));
  const pages = [];
  for await (const page of table.listEntities().byPage({maxPageSize: 40}))
    pages.push(page.length);
  assert.deepStrictEqual(pages, [40, 40, 40, 30]);
  const [first] = await all(table.listEntities(
      {queryOptions: {filter: `RowKey eq '003'`, select: ['n', 'none']}}));
  assert.strictEqual(first.n, 3);
  assert.strictEqual(first.half, undefined);
  await bench.azsim.control({seed: 7, empty_share: 400, short_share: 400});
  const broken = await all(table.listEntities());
  await bench.azsim.control({empty_share: 0, short_share: 0});
  assert.deepStrictEqual(broken.map((e) => e.partitionKey + e.rowKey),
      (await all(table.listEntities())).map((e) => e.partitionKey + e.rowKey));
  assert.strictEqual(broken.length, 150);
}

async function tables_come_and_go(bench) {
  const service = bench.tables();
  for (const name of ['First', 'Second', 'Third']) await service.createTable(name);
  await bench.new_table('first'); // the SDK takes 409 for success
  const names = async (options) =>
    (await all(service.listTables(options))).map((t) => t.name);
  assert.deepStrictEqual(await names(), ['First', 'Second', 'Third']);
  assert.deepStrictEqual(await names(
      {queryOptions: {filter: odata`TableName gt ${'First'}`}}),
  ['Second', 'Third']);
  const pages = [];
  for await (const page of service.listTables().byPage({maxPageSize: 2}))
    pages.push(page.length);
  assert.deepStrictEqual(pages, [2, 1]);
  await bench.table('First').createEntity({partitionKey: 'p', rowKey: 'r'});
  await bench.azsim.control({being_deleted_ms: 40000});
  await service.deleteTable('First');
  await refused(404, 'TableNotFound', bench.table('First').createEntity(
      {partitionKey: 'p', rowKey: 'r'}));
  await refused(409, 'TableBeingDeleted', service.createTable('First'));
  await bench.azsim.move_on(41000);
  await service.createTable('First');
  assert.deepStrictEqual(await all(bench.table('First').listEntities()), []);
  await bench.azsim.control({being_deleted_ms: 0});
  await refused(400, 'InvalidResourceName', service.createTable('no-name'));
}

async function only_who_has_the_key_is_let_in(bench) {
  const wrong = Buffer.alloc(64, 7).toString('base64');
  await refused(403, 'AuthenticationFailed',
      all(bench.tables(wrong).listTables()));
  const right = bench.azsim.ahead_ms;
  await bench.azsim.control({wall_ahead_ms: right + 20 * 60 * 1000});
  await refused(403, 'AuthenticationFailed', all(bench.tables().listTables()));
  await bench.azsim.control({wall_ahead_ms: right});
  assert.deepStrictEqual(await all(bench.tables().listTables()), []);
}

async function messages_are_hidden_and_renewed(bench) {
  const queue = await bench.new_queue('work');
  const text = `{"job": "x", "a": "<&>'\\" ]]> \u00e4\u{1F600}\\n"} `; // the SDK drops line ends
  const sent = await queue.sendMessage(text, {messageTimeToLive: -1});
  assert.strictEqual(sent.expiresOn.getUTCFullYear(), 9999);
  assert.strictEqual(
      (await queue.peekMessages()).peekedMessageItems[0].messageText, text);
  const [got] = (await queue.receiveMessages(
      {visibilityTimeout: 30})).receivedMessageItems;
  assert.strictEqual(got.messageText, text);
  assert.strictEqual(got.dequeueCount, 1);
  assert.strictEqual(got.messageId, sent.messageId);
  assert.strictEqual(
      (await queue.receiveMessages()).receivedMessageItems.length, 0);
  assert.strictEqual(
      (await queue.getProperties()).approximateMessagesCount, 1);
  const renewed = await queue.updateMessage(
      got.messageId, got.popReceipt, 'other text', 60);
  assert.notStrictEqual(renewed.popReceipt, got.popReceipt);
  await refused(404, 'MessageNotFound',
      queue.deleteMessage(got.messageId, got.popReceipt));
  await refused(400, 'InvalidQueryParameterValue',
      queue.deleteMessage(got.messageId, 'garbled'));
  await bench.azsim.move_on(61000);
  const [again] = (await queue.receiveMessages()).receivedMessageItems;
  assert.strictEqual(again.messageText, 'other text');
  assert.strictEqual(again.dequeueCount, 2);
  await refused(404, 'MessageNotFound', queue.updateMessage(
      got.messageId, renewed.popReceipt, undefined, 60));
  await queue.deleteMessage(again.messageId, again.popReceipt);
  assert.strictEqual(
      (await queue.getProperties()).approximateMessagesCount, 0);
}

async function messages_end_and_are_cleared(bench) {
  const queue = await bench.new_queue('short-lived');
  for (let n = 0; n < 40; n++)
    await queue.sendMessage(String(n), {messageTimeToLive: 100});
  const {receivedMessageItems: some} =
      await queue.receiveMessages({numberOfMessages: 32});
  assert.strictEqual(some.length, 32);
  assert.strictEqual(new Set(some.map((m) => m.messageId)).size, 32);
  assert.strictEqual(new Set(some.map((m) => m.popReceipt)).size, 1);
  await bench.azsim.move_on(101000);
  assert.strictEqual((await queue.receiveMessages(
      {numberOfMessages: 32})).receivedMessageItems.length, 0);
  await queue.sendMessage('kept');
  await queue.clearMessages();
  assert.strictEqual(
      (await queue.peekMessages()).peekedMessageItems.length, 0);
  await refused(413, 'RequestBodyTooLarge',
      queue.sendMessage('x'.repeat(64 * 1024 + 1)));
  await refused(400, 'OutOfRangeQueryParameterValue',
      queue.receiveMessages({numberOfMessages: 33}));
}

async function queues_come_and_go(bench) {
  const service = bench.queues();
  for (const name of ['one', 'two', 'three'])
    await service.createQueue(name, {metadata: {Colour: 'red'}});
  assert.deepStrictEqual((await all(service.listQueues())).map((q) => q.name),
      ['one', 'three', 'two']);
  assert.deepStrictEqual((await all(
      service.listQueues({prefix: 't'}))).map((q) => q.name), ['three', 'two']);
  const pages = [];
  for await (const page of service.listQueues().byPage({maxPageSize: 2}))
    pages.push(page.queueItems.length);
  assert.deepStrictEqual(pages, [2, 1]);
  const one = service.getQueueClient('one');
  assert.strictEqual(
      (await one.create({metadata: {Colour: 'red'}}))._response.status, 204);
  await refused(409, 'QueueAlreadyExists', one.create());
  assert.strictEqual(
      (await one.getProperties()).metadata.colour, 'red');
  await one.setMetadata({shape: 'round'});
  assert.deepStrictEqual(
      (await one.getProperties()).metadata, {shape: 'round'});
  await bench.azsim.control({being_deleted_ms: 30000});
  await one.delete();
  assert.strictEqual(await one.exists(), false);
  await refused(404, 'QueueNotFound', one.sendMessage('x'));
  await refused(409, 'QueueBeingDeleted', one.create());
  await bench.azsim.control({being_deleted_ms: 0});
  await bench.azsim.move_on(31000);
  await one.create();
  await refused(400, 'InvalidResourceName',
      service.createQueue('no--name'));
}

// Goal: requests over the limit of a second get 503 or 500; the same requests
// succeed later.
async function limits_throttle(bench) {
  const table = await bench.new_table('Limits');
  const insert = (batch) => table.submitTransaction(
      Array.from({length: 100}, (_, n) => ['create',
        {partitionKey: 'p', rowKey: `${batch}-${n}`}]));
  await bench.azsim.control({seed: 1, partition_limit: 20});
  const refusals = [];
  for (let batch = 0; batch < 12; batch++)
    await insert(batch).catch((error) => refusals.push(error.statusCode));
  assert.ok(refusals.length >= 3, `${refusals.length} refusals`);
  assert.ok(refusals.every((s) => s === 503 || s === 500), `${refusals}`);
  await bench.azsim.control({partition_limit: 0});
  await insert('after');
}

// Goal: the log has each request, its port, and what it changed.
async function the_log_tells(bench) {
  const table = await bench.new_table('Logged');
  await bench.azsim.control({clear: true});
  await table.createEntity({partitionKey: 'p', rowKey: 'r'});
  await table.createEntity({partitionKey: 'p', rowKey: 'r'}).catch(() => {});
  await all(table.listEntities());
  const log = await bench.azsim.log();
  assert.deepStrictEqual(
      log.map((e) => [e.worker, e.service, e.method, e.target, e.status,
        e.changed, e.code]), [
        [0, 'table', 'POST', 'Logged', 204, true, ''],
        [0, 'table', 'POST', 'Logged', 409, false, 'EntityAlreadyExists'],
        [0, 'table', 'GET', 'Logged', 200, false, ''],
      ]);
  assert.ok(log.every((e) => e.effected_us >= e.arrived_us));
}

const CASES = [
  entity_types_come_back, writes_heed_etags, batches_are_whole_or_nothing,
  queries_filter_select_and_page, tables_come_and_go,
  only_who_has_the_key_is_let_in, messages_are_hidden_and_renewed,
  messages_end_and_are_cleared, queues_come_and_go, limits_throttle,
  the_log_tells,
];

async function main() {
  const azsim = await Azsim.start(process.env.AZSIM);
  let failed = 0;
  for (const body of CASES) {
    try {
      await body(new Bench(azsim));
      console.log(`ok azsim: ${body.name.replace(/_/g, ' ')}`);
    } catch (error) {
      failed++;
      console.log(`FAILED azsim: ${body.name.replace(/_/g, ' ')}\n    ` +
          String(error.stack).split('\n').slice(0, 20).join('\n    '));
    }
  }
  await azsim.stop();
  console.log(`azsim: ${CASES.length - failed} passed, ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
