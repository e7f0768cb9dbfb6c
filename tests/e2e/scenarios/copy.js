// SPDX-License-Identifier: MIT
// Copies: after every run each source has its copy and each copy has its
// source, whatever the application did before the run or does meanwhile.
'use strict';

const assert = require('assert');
const {run} = require('../lib/runs');
const {Steady, of_all} = require('../lib/steady');
const {for_sdk} = require('../lib/store_azurite');
const {until} = require('../lib/wait');
const {onto_itself} = require('../lib/two_names');
const {holds, list} = require('../lib/model');

const PROVENANCE = 'TablewardSource';
const pad = (n) => String(n).padStart(5, '0');

// post: returns a source with many types; the month decides the PartitionKey of
// its copy.
function post(n, month = 1 + n % 12, value = 0) {
  return {
    'PartitionKey': `blog${n % 7}`, 'RowKey': pad(n), 'Title': `Post ${n} é`,
    'Value': value, 'Live': n % 2 === 0,
    'Views@odata.type': 'Edm.Int64', 'Views': String(9007199254740993n + BigInt(n)),
    'Score@odata.type': 'Edm.Double', 'Score': n + 0.5,
    'CreatedOn@odata.type': 'Edm.DateTime',
    'CreatedOn': `2024-${pad(month).slice(3)}-02T03:04:05.1234567Z`,
  };
}

const month_of = (entity) => entity.CreatedOn.slice(5, 7);

// copy_of: returns the copy that the job by-month makes of a source.
const copy_of = (entity) => ({
  ...entity, PartitionKey: `${entity.PartitionKey}_${month_of(entity)}`,
});

const BY_MONTH = {
  kind: 'copy', from: {table: 'Posts'},
  to: {table: 'PostsByMonth',
    partition_key: '{PartitionKey}_{month(CreatedOn):02}'},
};

// stripped: returns copies without TablewardSource.
const stripped = (entities) => entities.map((entity) => {
  const copy = {...entity};
  delete copy[PROVENANCE];
  return copy;
});

async function assert_copies(front, sources, table = 'PostsByMonth') {
  holds(table, sources.map(copy_of), stripped(await front.read(table)));
}

async function open(suite, jobs) {
  const tables = ['Posts', 'PostsByMonth'];
  await suite.open({jobs, tables});
  return await suite.store.front(tables);
}

// Goal: a run makes each copy; a later run copies what changed meanwhile: new,
// changed, deleted and re-keyed sources; and `verify` finds no difference.
async function again(suite) {
  const front = await open(suite, {'by-month': BY_MONTH});
  const sources = new Map(list(400, (n) => [n, post(n)]));
  const client = front.client('Posts');
  const change = async (n, entity) => {
    await client.upsertEntity(for_sdk(entity), 'Replace');
    sources.set(n, entity);
  };
  await suite.judge('each source has its copy', async () => {
    await front.insert('Posts', [...sources.values()]);
    const {ledger} = await run(suite, 'by-month');
    await assert_copies(front, [...sources.values()]);
    // If Azurite sent the response to a batch too late, the worker finds its
    // entities stored, and does not count them.
    if (suite.Store.name === 'embedded')
      assert.strictEqual(ledger.EntitiesWritten, 400);
    else
      assert.ok(ledger.EntitiesWritten <= 400, ledger.EntitiesWritten);
  });
  await suite.judge('a run without changes writes nothing', async () => {
    const {ledger} = await run(suite, 'by-month');
    assert.strictEqual(ledger.EntitiesWritten + ledger.EntitiesDeleted, 0);
  });
  await suite.judge('what changed in the sources changes in the copies',
      async () => {
        for (let n = 0; n < 40; n += 4) {
          await client.deleteEntity(`blog${n % 7}`, pad(n));
          sources.delete(n);
          await change(n + 1, post(n + 1, month_of(post(n + 1)) % 12 + 1));
          await change(n + 2, post(n + 2, undefined, 7));
          await change(1000 + n, post(1000 + n));
        }
        await run(suite, 'by-month');
        await assert_copies(front, [...sources.values()]);
        await suite.ok(['verify', 'by-month']);
      });
}

// Goal: an edited copy, and a foreign entity at a copy key, remain and are
// reported; a deleted copy is made again.
async function copies(suite) {
  const front = await open(suite, {'by-month': BY_MONTH});
  const sources = list(60, (n) => post(n));
  const table = front.client('PostsByMonth');
  const foreign = {...copy_of(sources[5]), Title: 'foreign'};
  const edited = {...copy_of(sources[6]), Title: 'edited'};
  await front.insert('Posts', sources);
  await suite.judge('a foreign entity stays and is named', async () => {
    await front.insert('PostsByMonth', [foreign]);
    const {log, ledger} = await run(suite, 'by-month', 1);
    assert.match(ledger.Error, new RegExp(pad(5)));
    assert.ok(log.trim().split('\n').pop().length > 0, log);
    holds('PostsByMonth',
        sources.map((s) => s === sources[5] ? foreign : copy_of(s)),
        stripped(await front.read('PostsByMonth')));
    await table.deleteEntity(foreign.PartitionKey, foreign.RowKey);
  });
  await suite.judge('an edited copy stays, a deleted one comes back',
      async () => {
        await run(suite, 'by-month');
        await table.updateEntity(
            {partitionKey: edited.PartitionKey, rowKey: edited.RowKey,
              Title: 'edited'}, 'Merge');
        const gone = copy_of(sources[7]);
        await table.deleteEntity(gone.PartitionKey, gone.RowKey);
        const {ledger} = await run(suite, 'by-month');
        assert.strictEqual(ledger.EntitiesSkipped, 1);
        holds('PostsByMonth',
            sources.map((s) => s === sources[6] ? edited : copy_of(s)),
            stripped(await front.read('PostsByMonth')));
      });
}

// writer_of: starts a writer of posts whose numbers begin at 10,000 times
// `share`; the month of each post changes with its value.
const writer_of = (front, seed, share) => new Steady(front.client('Posts'), {
  seed, rate: 25, in_flight: 1, first: 10000 * share,
  make: (number, value) => post(number, 1 + (number + value) % 12, value),
}).start();

// Goal: no write of continuous writers is lost or fails; once they stop, one
// more run leaves no difference.
async function beside_writers(suite) {
  const front = await open(suite, {'by-month': BY_MONTH});
  const start = list(500, (n) => post(n));
  await front.insert('Posts', start);
  await suite.judge('a copy succeeds beside SDK writers', async () => {
    const writers = [0, 1, 2, 3].map((n) => writer_of(front, 11 + n, n + 1));
    await run(suite, 'by-month');
    await Promise.all(writers.map((writer) => writer.stop()));
    assert.ok(writers.every((w) => w.writes > 0), 'no writes');
    const sources = [...start, ...of_all(writers)];
    holds('Posts', sources, await front.read('Posts'));
    await run(suite, 'by-month');
    await assert_copies(front, sources);
  });
}

// Goal: the cut-over: a following copy keeps up with writers; `finish` ends it
// with Behind 0 and closes the job.
async function follow(suite) {
  const front = await open(suite,
      {'by-month': {...BY_MONTH, follow: true}});
  const start = list(200, (n) => post(n));
  await front.insert('Posts', start);
  await suite.judge('follow, finish, closed', async () => {
    const worker = suite.worker([]);
    const id = await suite.store.enqueue('by-month', {});
    await suite.state(id, ['waiting'], worker);
    const writer = writer_of(front, 5, 1);
    await until('30 writes are acknowledged', async () => writer.writes > 30);
    await writer.stop();
    await suite.ok(['finish', id]);
    const ledger = await suite.state(id, ['succeeded', 'failed'], worker);
    assert.strictEqual(ledger.State, 'succeeded', ledger.Error);
    assert.strictEqual(ledger.Behind, 0);
    await suite.stop(worker);
    await assert_copies(front, [...start, ...writer.entities()]);
    const {code, log} = await suite.command(['run', 'by-month', '--yes']);
    assert.notStrictEqual(code, 0, log);
    assert.match(log, /reopen/);
  });
}

// Goal: a job that copies a table onto itself, under another name of its store,
// changes no entity. Its copies would overwrite their sources.
async function names(suite) {
  await onto_itself(suite, await open(suite, {}), 'copy', 'Posts',
      list(30, (n) => post(n)), ['skip', 'replace']);
}

module.exports = [
  {name: 'copy again', stores: ['azurite', 'embedded'], seconds: 10, body: again},
  {name: 'copy copies', stores: ['azurite', 'embedded'], seconds: 8, body: copies},
  {name: 'copy writers', stores: ['azurite', 'embedded'], seconds: 15,
    body: beside_writers},
  {name: 'copy follow', stores: ['azurite', 'embedded'], seconds: 15,
    body: follow},
  {name: 'copy names', stores: ['azurite', 'embedded'], seconds: 8, body: names},
];
