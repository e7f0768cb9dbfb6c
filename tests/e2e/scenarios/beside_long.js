// SPDX-License-Identifier: MIT
// What continuous writers cost a large job: the time of a run beside them
// against its time alone. None of their writes may be lost.
'use strict';

const assert = require('assert');
const {bare, holds, list} = require('../lib/model');
const {run} = require('../lib/runs');
const {Steady, of_all} = require('../lib/steady');
const {document, step, typed} = require('../lib/upgrades');
const {sleep} = require('../lib/wait');

const SIZE = Number(process.env.E2E_SIZE || 100000);
const WRITERS = 4, RATE = 50; // writes a second of all writers together
const TIMES = 2;
const MARGIN_MS = 6000; // maximum difference of clocks of the service

const pad = (n) => String(n).padStart(7, '0');

const post = (number, value) => ({
  PartitionKey: `blog${number % 50}`, RowKey: pad(number), Value: value,
  Month: number % 12, Title: `Post ${number} é`, Rating: String(number % 10),
});

// The jobs, the entity that each makes of a post, and the table of this entity.
const KINDS = {
  copy: {
    job: (table) => ({
      kind: 'copy', from: {table},
      to: {table: `${table}Copies`, partition_key: '{PartitionKey}_{Month:02}'},
    }),
    into: (table) => `${table}Copies`,
    make: (entity) => ({...entity,
      PartitionKey: `${entity.PartitionKey}_${pad(entity.Month).slice(-2)}`}),
  },
  upgrade: {
    job: (table) => ({
      kind: 'schema-upgrade', table, ...document([
        step('add', 'Language', {type: 'Edm.String', value: 'en'}),
        step('rename', 'Title', {to: 'Heading'}),
        step('retype', 'Rating', {to: 'Edm.Double'}),
      ]),
    }),
    into: (table) => table,
    make: ({Title, Rating, ...kept}) => ({...kept, Heading: Title,
      Language: 'en', SchemaVersion: 2,
      ...typed('Double', 'Rating', Number(Rating))}),
  },
};

const seconds = ({StartedAt, FinishedAt}) =>
    (new Date(FinishedAt) - new Date(StartedAt)) / 1000;

// Goal: beside SDK writers a job takes at most twice as long as alone, and each
// acknowledged write is stored; after a last run there is no difference.
const beside = (kind) => async (suite) => {
  const {job, into, make} = KINDS[kind];
  await suite.open({
    jobs: {alone: job('Alone'), beside: job('Beside')},
    tables: ['Alone', 'Beside', ...(kind === 'copy' ?
      [into('Alone'), into('Beside')] : [])],
    worker: {visibility_timeout: '60s'},
  });
  const {store} = suite;
  const numbers = list(SIZE, (n) => n);
  const writers = list(WRITERS, (i) => new Steady(
      store.client('Beside'), {
        seed: 7 + i, rate: RATE / WRITERS, make: post, first: SIZE + i,
        numbers: numbers.filter((n) => n % WRITERS === i), step: WRITERS,
        allowed: kind === 'upgrade' ? [412] : [],
      }));
  await suite.judge(`a ${kind} of ${SIZE} beside ${RATE} writes a second takes ` +
      `at most ${TIMES} times as long as alone`, async () => {
    for (const table of ['Alone', 'Beside'])
      await store.insert(table, numbers.map((n) => post(n, 0)));
    await sleep(MARGIN_MS);
    const alone = (await run(suite, 'alone')).ledger;
    for (const writer of writers) writer.start();
    const with_them = (await run(suite, 'beside')).ledger;
    for (const writer of writers) await writer.stop();
    const per_second = writers.reduce((sum, w) => sum + w.per_second(), 0);
    console.log(`    (alone ${seconds(alone)} s in ${alone.Rounds} rounds, ` +
        `beside ${seconds(with_them)} s in ${with_them.Rounds} rounds, ` +
        `${per_second.toFixed(0)} writes a second, ` +
        `${writers.reduce((sum, w) => sum + w.refused, 0)} refused once, ` +
        `behind ${with_them.Behind})`);
    assert.ok(per_second > 0.9 * RATE, 'too few writes');
    assert.ok(seconds(with_them) <= TIMES * seconds(alone),
        'the run beside writers took too long');
  });
  await suite.judge('no write is lost, and a last run does the rest', async () => {
    const {ledger} = await run(suite, 'beside');
    const wanted = of_all(writers);
    console.log(`    (the last run wrote ${ledger.EntitiesWritten})`);
    if (kind === 'copy')
      await suite.holds('Beside', wanted);
    holds(into('Beside'), wanted.map(make),
        bare(await store.read(into('Beside'))));
    await suite.ok(['verify', 'beside']);
  });
};

module.exports = Object.keys(KINDS).map((kind) => ({
  name: `${kind} beside writers`, stores: ['limited'], phase: 2, long: true,
  seconds: 120, body: beside(kind),
}));
