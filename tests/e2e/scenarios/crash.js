// SPDX-License-Identifier: MIT
// Workers that are killed with SIGKILL at a request (lib/kills.js). Another
// worker then completes the run.
'use strict';

const assert = require('assert');
const jobs = require('../lib/jobs');
const {
  WAYS, counts, live, to_the_end, undisturbed, sweep,
} = require('../lib/kills');
const {is_data} = require('../lib/proxy');
const {random, each, seed_of_run} = require('../lib/wait');
const {tail} = require('../lib/program');

// unconfirmed: returns the number of deletes in requests to which a killed
// worker got no response.
const unconfirmed = (requests) => requests
    .filter((r) => is_data(r) && !r.done)
    .reduce((sum, r) => sum + (r.deletes || 0), 0);
const deletes = (requests) => requests
    .filter(is_data).reduce((sum, r) => sum + (r.deletes || 0), 0);

// Goal: many kills in one cascade of many blogs, at random ones of the requests
// of an undisturbed run: the tables end as after an undisturbed run, and only
// deletes that had no response when the worker died are sent twice.
async function killed(suite, kills, blogs) {
  await jobs.open_flat(suite, {visibility_timeout: '2s', requests: 4});
  const {store, model} = suite;
  for (const name of ['Clean', 'Swept', 'Beside']) {
    const count = name === 'Beside' ? 250 : blogs;
    model.put('Channels', jobs.channel(name));
    for (const blog of jobs.blogs(name, count)) model.put('Blogs', blog);
  }
  await suite.store_model();
  const remove = (name) => {
    for (const table of ['Blogs', 'Channels'])
      model.remove(table, (e) => e.PartitionKey === name);
  };

  let clean;
  await suite.judge(`a clean cascade of ${blogs} blogs`, async () => {
    clean = await undisturbed(suite, 'delete-channel', {channel: 'Clean'});
    remove('Clean');
    assert.strictEqual(deletes(clean.requests), blogs + 1);
  });
  if (!clean) return;

  await suite.judge(`${kills} kills in a cascade of ${blogs} blogs`,
      async () => {
        const seed = seed_of_run();
        const draw = random(seed);
        const id = await store.enqueue('delete-channel', {channel: 'Swept'});
        const made = await sweep(suite, clean, kills, seed, draw);
        remove('Swept');
        const run = await suite.ended(id, 'succeeded');
        const again = deletes(made) - (blogs + 1);
        const bound = unconfirmed(made);
        console.log(`    (seed ${seed}: clean ${clean.requests.length} ` +
            `requests, swept ${made.filter(counts).length}; ${again} deletes ` +
            `sent again of ${bound} unconfirmed; ${run.Attempt} attempts)`);
        assert.ok(again <= bound,
            `seed ${seed}: ${again} sent again, ${bound} unconfirmed`);
        // Each worker reads again only what follows the last checkpoint, and of
        // this only the entities that are not yet deleted. So each adds one or
        // two pages to those of an undisturbed run.
        const pages = (all) => all
            .filter((r) => is_data(r) && r.kind === 'page').length;
        assert.ok(pages(made) <= pages(clean.requests) + 3 * (kills + 1),
            `seed ${seed}: ${pages(made)} pages`);
      });
  await suite.judge('after the kills the tables are as the model says',
      () => suite.same());
}

// small: opens a suite with its own account and requests a small deep cascade.
async function small(suite) {
  await jobs.open_deep(suite,
      {visibility_timeout: '2s', requests: 2, slots: 1}, {settle: '1s'});
  for (const name of ['Gone', 'Gone_', 'Stays'])
    for (const [table, entity] of jobs.family(name))
      suite.model.put(table, entity);
  await suite.store_model();
  suite.id = await suite.store.enqueue('delete-channel', {channel: 'Gone'});
}

// Goal: a crash at the k-th request, in each way, ends as an undisturbed run
// does. Each case has its own account, so that several can wait for leases at
// the same time.
async function every_request(suite, stride) {
  await small(suite);
  await to_the_end(suite);
  const count = suite.store.proxy.requests.filter(counts).length;
  const crashes = [];
  for (let k = 1; k <= count; k++)
    for (const way of WAYS) crashes.push({k, way});
  const seed = seed_of_run();
  const chosen = crashes.filter((_, i) => (i + seed) % stride === 0);
  await each(chosen, 6, async ({k, way}) => {
    const one = suite.another();
    try {
      await one.judge(`killed ${way} request ${k} of ${count}`, async () => {
        await small(one);
        const end = await live(one, k, way);
        if (end.signal !== 'SIGKILL') assert.strictEqual(end.code, 0);
        await to_the_end(one);
        jobs.cascade(one.model, 'Gone');
        await one.ended(one.id, 'succeeded');
        await one.same();
      });
    } finally {
      one.close();
    }
  });
}

// Goal: the worker is killed between the delete of the parent and the write of
// `succeeded` to the ledger, and a new channel with the same name is created:
// the next worker does not delete it.
async function after_the_parent(suite) {
  await jobs.open_flat(suite, {visibility_timeout: '2s'});
  const {store, model} = suite;
  await suite.judge('re-created after the parent went and the worker died',
      async () => {
        const id = await jobs.ask_for_channel(store, 'Again', 120);
        store.proxy.life++;
        const worker = suite.worker();
        store.proxy.after = async (request) => {
          if (request.table !== 'Channels' || !request.deletes) return;
          worker.kill('SIGKILL');
          return 'lose';
        };
        const end = await suite.program.end(worker);
        assert.strictEqual(end.signal, 'SIGKILL', tail(worker.log));
        model.put('Channels', jobs.channel('Again'));
        for (const blog of jobs.blogs('Again', 3)) model.put('Blogs', blog);
        await suite.store_model();
        await to_the_end(suite);
        await suite.ended(id, 'succeeded');
        await suite.same();
      });
}

const AZURITE = ['azurite'];
module.exports = [
  {name: 'kill sweep', stores: AZURITE, phase: 3, seconds: 60,
    body: (suite) => killed(suite, 12, 6000)},
  {name: 'kill sweep of 100', stores: AZURITE, phase: 3, long: true,
    seconds: 500, body: (suite) => killed(suite, 100, 12000)},
  {name: 'crash at a request', stores: AZURITE, phase: 3, seconds: 60,
    body: (suite) => every_request(suite, 10)},
  {name: 'crash at every request', stores: AZURITE, phase: 3, long: true,
    seconds: 400, body: (suite) => every_request(suite, 1)},
  {name: 'crash after the parent', stores: AZURITE, phase: 2, seconds: 10,
    body: after_the_parent},
];
