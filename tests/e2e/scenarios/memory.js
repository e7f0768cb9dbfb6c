// SPDX-License-Identifier: MIT
// The peak memory of a worker for jobs of a million entities.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const {tail} = require('../lib/program');
const {document, step} = require('../lib/upgrades');
const {sleep} = require('../lib/wait');
const {list} = require('../lib/model');

const SIZE = Number(process.env.E2E_SIZE || 1000000);
const CHUNK = 10000;
const LIMIT_MIB = 24; // about 13 MiB of it are pages of libraries
const LIMIT_MS = 1200000;
const MARGIN_MS = 6000; // maximum difference of clocks of the service

// Copies of neighbouring sources go to 40 different partitions.
const JOBS = {
  scatter: {
    kind: 'copy', from: {table: 'Posts'},
    to: {table: 'Copies', partition_key: '{hash(RowKey, 40):02}_{Month:02}',
      row_key: '{PartitionKey}_{RowKey}'},
  },
  raise: {
    kind: 'schema-upgrade', table: 'Posts', ...document([
      step('rename', 'Title', {to: 'Heading'}),
      step('retype', 'Rating', {to: 'Edm.Double'}),
      step('add', 'Language', {type: 'Edm.String', value: 'en'}),
    ]),
  },
};

const post = (n) => ({
  PartitionKey: `blog${String(Math.floor(n / 1000)).padStart(4, '0')}`,
  RowKey: String(n).padStart(7, '0'), Title: `lorem ipsum dolor sit amet ${n}`,
  Rating: String(n % 10), Month: 1 + n % 12, Text: 'x'.repeat(60),
});

async function seed(suite) {
  const name = path.join(suite.folder, 'posts.jsonl');
  const file = fs.openSync(name, 'w');
  for (let at = 0; at < SIZE; at += CHUNK)
    fs.writeSync(file, list(Math.min(CHUNK, SIZE - at),
        (n) => JSON.stringify(post(at + n)) + '\n').join(''));
  fs.closeSync(file);
  await suite.ok(['import', 'Posts', name], {limit_ms: LIMIT_MS});
  fs.rmSync(name);
}

// peak: returns the peak memory of a process, in KiB; 0 once it has ended.
function peak({child}) {
  try {
    const status = fs.readFileSync(`/proc/${child.pid}/status`, 'utf8');
    return Number((/VmHWM:\s*(\d+)/.exec(status) || [0, 0])[1]);
  } catch (error) {
    return 0;
  }
}

// Goal: a worker never uses more than LIMIT_MIB, whatever the job.
async function memory(suite) {
  await suite.open({jobs: JOBS, tables: ['Posts', 'Copies'],
    worker: {visibility_timeout: '60s'}});
  const {store} = suite;
  if (store.azurite) // memory is measured, not speed
    await store.azurite.control({account_limit: 0, partition_limit: 0});
  await seed(suite);
  // Without this wait, the entities that were imported last would count as
  // newer than the first round, and the second round would read them again.
  await sleep(MARGIN_MS);
  for (const job of Object.keys(JOBS))
    await suite.judge(`${job}, ${SIZE} entities, in ${LIMIT_MIB} MiB`,
        async () => {
          const id = await store.enqueue(job, {});
          const worker = suite.worker();
          let most = 0;
          for (; !worker.over; await sleep(200))
            most = Math.max(most, peak(worker));
          const {EntitiesWritten, StartedAt, FinishedAt} =
              await suite.ended(id, 'succeeded');
          const seconds = (new Date(FinishedAt) - new Date(StartedAt)) / 1000;
          console.log(`    (${EntitiesWritten} written in ` +
              `${seconds.toFixed(0)} s, ${(most / 1024).toFixed(1)} MiB)`);
          assert.strictEqual((await worker.exit).code, 0, tail(worker.log));
          assert.strictEqual(EntitiesWritten, SIZE);
          assert.ok(most > 0 && most < LIMIT_MIB * 1024, `${most} KiB`);
        });
}

module.exports = [
  {name: 'memory', stores: ['embedded', 'limited'], phase: 2, long: true,
    seconds: 400, body: memory},
];
