// SPDX-License-Identifier: MIT
// Front ends that write while a channel is deleted, and several requests for
// one channel. The settle pass gives the front ends a known moment: the run is
// `waiting`, its tombstone is written, and its first pass is done. The settle
// time is long enough for a slow front end, and short in the scenarios in which
// none acts.
'use strict';

const assert = require('assert');
const jobs = require('../lib/jobs');
const {OPEN_STATES} = require('../lib/suite');
const {ask_for, gone, seed_family} = jobs;

const BOTH = ['azurite', 'embedded'];
const SETTLE_S = 15;
const settling = (job, seconds = SETTLE_S) => ({...job, settle: `${seconds}s`});

async function races(suite) {
  await suite.open({
    jobs: {
      'delete-channel': settling(jobs.deep), 'delete-now': jobs.deep,
      'delete-soon': settling(jobs.deep, 1),
      'delete-flat': settling({
        ...jobs.flat, parent: {...jobs.flat.parent, created: 'CreatedOn'},
      }),
    },
    tables: jobs.deep_tables, worker: {slots: 16},
  });

  // Goal: entities that are inserted under the tombstone before the settle pass
  // are deleted too.
  suite.scenario('late children, with children of their own', {
    seed: seed_family('Late'), ask: ask_for('Late'),
    async during(s, self, worker) {
      await s.state(self.id, ['waiting'], worker);
      await s.store_now(self, 'Blogs', jobs.blog('Late', 'late'));
      await s.store_now(self, 'Comments', jobs.comment('Late', 'late', 1));
      await s.store_now(
          self, 'BlogsByMonth', jobs.by_month('Late', '2024_03', 9));
      await s.store_now(
          self, 'Subscriptions', jobs.subscription('reader-3', 'Late'));
    },
    expect: gone('Late'),
  });

  // Goal: as long as late grandchildren may come, their blog and their channel
  // remain; the late grandchildren are deleted, and then the blog and the
  // channel.
  suite.scenario('late grandchildren under blogs that are kept for them', {
    seed: seed_family('Later'), ask: ask_for('Later'),
    async during(s, self, worker) {
      await s.state(self.id, ['waiting'], worker);
      const of = async (table) => (await s.store.read(table)).filter(
          (e) => e.PartitionKey === 'Later');
      assert.strictEqual((await of('Blogs')).length, 3);
      assert.strictEqual((await of('Comments')).length, 0);
      assert.strictEqual((await of('Channels'))[0].Deleted, true);
      await s.store_now(self, 'Comments', jobs.comment('Later', 'a', 7),
          jobs.comment('Later', 'b_1', 8));
    },
    expect: gone('Later'),
  });

  // Goal: several runs for one channel: one works while the others wait, and
  // all succeed.
  suite.scenario('two runs for one channel at once', {
    seed: seed_family('Twice'),
    async ask(s, self) {
      self.ids = [];
      for (const job of ['delete-soon', 'delete-soon', 'delete-now'])
        self.ids.push(await s.store.enqueue(job, {channel: 'Twice'}));
    },
    async expect(s, self) {
      const there = jobs.cascade(s.model, 'Twice').length;
      let deleted = 0;
      for (const id of self.ids)
        deleted += (await s.ended(id, 'succeeded')).EntitiesDeleted;
      assert.ok(deleted >= there && deleted <= there + 2,
          `${deleted} deletes for ${there} entities and up to 2 tombstones`);
    },
  });

  // Goal: a message that is delivered twice, or put twice, is one run.
  suite.scenario('the same id twice', {
    seed: seed_family('Same'),
    async ask(s, self) {
      self.id = 'same-id';
      for (let i = 0; i < 2; i++)
        await s.store.enqueue(
            'delete-channel', {channel: 'Same'}, {id: self.id});
    },
    async expect(s, self) {
      const there = jobs.cascade(s.model, 'Same').length;
      const run = await s.ended(self.id, 'succeeded');
      assert.ok(run.EntitiesDeleted <= there); // not once for each message
      const runs = (await s.store.runs()).filter((r) => r.Id === self.id);
      assert.strictEqual(runs.length, 1);
    },
  });

  // Goal: if there is no channel, its blogs are deleted nevertheless; nothing
  // is left, not even a tombstone.
  suite.scenario('a channel that does not exist, with blogs', {
    seed(s) {
      for (const [table, entity] of jobs.family('Missing'))
        if (table !== 'Channels') s.put(table, entity);
    },
    ask: ask_for('Missing'), expect: gone('Missing'),
  });
  suite.scenario('a channel of which there is nothing at all', {
    ask: ask_for('Nothing'), expect: gone('Nothing'),
  });

  // Goal: a channel that was created after the request is a new one: neither it
  // nor anything under it is deleted.
  suite.scenario('a channel that is re-created after the request', {
    seed: seed_family('Again'),
    async ask(s, self) {
      self.id = await s.store.enqueue('delete-channel', {channel: 'Again'});
      const anew = jobs.channel('Again', {
        Title: 'new', CreatedOn: new Date(Date.now() + 3600e3).toISOString(),
      });
      await s.store.overwrite('Channels', anew);
      s.model.put('Channels', anew, self);
    },
    async expect(s, self) {
      const run = await s.ended(self.id, 'succeeded');
      assert.strictEqual(run.EntitiesDeleted, 0);
    },
  });

  // Goal: the tombstone is a lock: no client can create the channel while it is
  // being deleted, even if it was not there before.
  suite.scenario('a channel that somebody creates while it is deleted', {
    seed(s) {
      for (const name of ['Held', 'Absent'])
        for (const [table, entity] of jobs.family(name))
          if (name === 'Held' || table !== 'Channels') s.put(table, entity);
    },
    async ask(s, self) {
      self.ids = [];
      for (const channel of ['Held', 'Absent'])
        self.ids.push(await s.store.enqueue('delete-channel', {channel}));
    },
    async during(s, self, worker) {
      for (const id of self.ids) await s.state(id, ['waiting'], worker);
      for (const name of ['Held', 'Absent'])
        assert.strictEqual(
            await s.store.try_insert('Channels', jobs.channel(name)), false);
    },
    async expect(s, self) {
      for (const name of ['Held', 'Absent']) jobs.cascade(s.model, name);
      for (const id of self.ids) await s.ended(id, 'succeeded');
    },
  });

  // Goal: a front end that overwrites the tombstone has created a new channel:
  // from then on nothing more is deleted.
  suite.scenario('a tombstone that somebody overwrites', {
    seed(s) {
      s.put('Channels', jobs.channel('Over'));
      s.put('Blogs', ...jobs.blogs('Over', 5));
    },
    ask: ask_for('Over', 'delete-flat'),
    async during(s, self, worker) {
      await s.state(self.id, ['waiting'], worker);
      const anew = jobs.channel('Over', {Title: 'new'});
      await s.store.overwrite('Channels', anew);
      await s.store_now(self, 'Blogs', jobs.blog('Over', 'new'));
      s.model.remove('Blogs',
          (e) => e.PartitionKey === 'Over' && e.RowKey !== 'new');
      s.model.put('Channels', anew, self);
    },
    async expect(s, self) {
      await s.ended(self.id, 'succeeded');
    },
  });

  // Goal: once the run has succeeded, the name is free: neither the old run nor
  // a second message for it changes the new channel.
  suite.scenario('a channel that is re-created just after', {
    seed: seed_family('After'), ask: ask_for('After', 'delete-now'),
    async during(s, self, worker) {
      await s.state(self.id, ['succeeded']);
      self.there = jobs.cascade(s.model, 'After').length;
      for (const [table, entity] of jobs.family('After'))
        await s.store_now(self, table, entity);
      if (s.Store.name === 'azurite')
        await s.store.enqueue(
            'delete-now', {channel: 'After'}, {id: self.id});
    },
    async expect(s, self) {
      const run = await s.ended(self.id, 'succeeded');
      assert.ok(run.EntitiesDeleted <= self.there);
    },
  });
  await suite.play();

  await suite.judge('no run is left open', async () => {
    const open = (await suite.store.runs())
        .filter((run) => OPEN_STATES.includes(run.State));
    assert.deepStrictEqual(open.map((run) => run.Id), []);
  });
}

module.exports = [
  {name: 'races', stores: BOTH, phase: 2, seconds: 25, body: races},
];
