// SPDX-License-Identifier: MIT
// The main job on all stores: channels of every size, with awkward names and
// shapes, and entities beside them that must not be changed.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const jobs = require('../lib/jobs');
const {counts_cascade} = require('../lib/runs');

const BOTH = ['azurite', 'embedded'];
const ALL = [...BOTH, 'azsim']; // azsim: one connection in ten breaks

// Goal: the limits of batches (100) and pages (1,000) make no difference: with
// one less, as many and one more, all blogs are deleted, and the ledger counts
// them exactly.
async function sizes(suite) {
  await jobs.open_flat(suite, {visibility_timeout: '60s'});
  for (const count of [0, 1, 99, 100, 101, 1000, 1001, 12000]) {
    const name = `Size${count}`;
    suite.scenario(`a channel with ${count} blogs`, {
      seed(s) {
        s.put('Channels', jobs.channel(name));
        s.put('Blogs', ...jobs.blogs(name, count));
      },
      ask: jobs.ask_for(name),
      async expect(s, self) {
        s.model.remove('Channels', (e) => e.PartitionKey === name);
        s.model.remove('Blogs', (e) => e.PartitionKey === name);
        const run = await s.ended(self.id, 'succeeded');
        counts_cascade(run, count, s.store.faulty);
        if (!s.store.faulty) assert.strictEqual(run.Attempt, 1);
      },
    });
  }
  suite.scenario('a channel of every type beside them', {
    seed(s) {
      s.put('Channels', every_type('Beside', ''));
      s.put('Blogs', every_type('Beside', ''), every_type('Size', '1'),
          every_type('size1000', '0'));
    },
  });
  await suite.play();
}

function every_type(partition_key, row_key) {
  return {
    'PartitionKey': partition_key, 'RowKey': row_key,
    'Text': 'ünï ☃ \u{1F600} "q" \\ \n\t', 'Empty': '', 'Yes': true,
    'No': false, 'Int': -2147483648, 'Half@odata.type': 'Edm.Double',
    'Half': 0.5, 'Long@odata.type': 'Edm.Int64',
    'Long': '-9223372036854775808', 'When@odata.type': 'Edm.DateTime',
    'When': jobs.LONG_AGO, 'Which@odata.type': 'Edm.Guid',
    'Which': 'c9da6455-213d-42c9-9a79-3e9149a57833',
    'Bytes@odata.type': 'Edm.Binary', 'Bytes': 'AAEC/v8=',
  };
}

// Names that break texts into which they are inserted without quotes or
// encoding. Beside each there is a channel named `near`, which careless code
// would take for it, and which must remain.
const NAMES = [
  {name: "O'Brien ''s", near: "O'Brien 's"},
  {name: "'", near: "''"},
  {name: "x' or PartitionKey ne '", near: 'x'},
  {name: '"quoted"', near: 'quoted'},
  {name: ' a  b ', near: 'a b'},
  {name: '100%', near: '100%25'},
  {name: '%27%2B', near: "'+"},
  {name: 'a+b', near: 'a b c'},
  {name: 'a&b=c;d', near: 'a&b'},
  {name: '{channel}', near: 'channel'},
  {name: '{{', near: '{'},
  {name: '$batch', near: 'batch'},
  {name: '~!@$^*()=[]{}|:;<>,.`', near: '~!@$^*()=[]{}|:;<>,.'},
  {name: 'Füßball 日本', near: 'Fussball 日本'},
  {name: 'e\u0301', near: '\u00e9'},
  {name: '\u26bd\u{1F3C0}', near: '\u26bd'},
  {name: '\u{10FFFD}', near: '\uFFFD'},
  {name: 'SURF', near: 'surf'},
  {name: 'Rm9vdGJhbGw=', near: 'Football'},
  {name: '-', near: '--'},
  {name: '0', near: '00'},
  {name: 'null', near: 'NULL'},
];

// Goal: a name is only a value everywhere: in URLs, filters, batches, messages,
// XML and the ledger. Exactly this channel is deleted, and the one named `near`
// remains.
async function names(suite) {
  await jobs.open_deep(suite, {visibility_timeout: '60s'});
  for (const {name, near} of NAMES)
    suite.scenario(`a channel named ${name}`, {
      seed: jobs.seed_families([name, near]),
      ask: jobs.ask_for(name, 'delete-channel',
          {base64: NAMES.findIndex((n) => n.name === name) % 2 === 1}),
      async expect(s, self) {
        const run = await jobs.gone(name)(s, self);
        assert.deepStrictEqual(JSON.parse(run.Args), {channel: name});
      },
    });
  await suite.play();
}

// Goal: a common prefix does not make an entity a child: Foot and Foot_ball are
// deleted, and the other names that begin with Foot or foot remain whole.
async function prefixes(suite) {
  const all = ['Foot', 'Foot_', 'Foot_ball', 'Foot_ball_1', 'Football', 'foot'];
  const go = ['Foot', 'Foot_ball'];
  await jobs.open_deep(suite);
  suite.scenario('names that are prefixes of each other', {
    seed: jobs.seed_families(all, ['a', 'a_', 'a_b', 'a_b_1', 'b']),
    async ask(s) {
      for (const name of go)
        await s.store.enqueue('delete-channel', {channel: name});
    },
    expect(s) {
      for (const name of go) jobs.cascade(s.model, name);
    },
  });
  await suite.play();
}

// Shapes: empty RowKeys, large entities, one table for parents and children,
// rules by row_key, grandchildren at the limits, archive and refuse_above.
async function shapes(suite) {
  const one_table = {
    ...jobs.flat,
    parent: {...jobs.flat.parent, table: 'One'},
    children: [{table: 'One', partition_key: '{channel}'}],
  };
  const by_row = {
    ...jobs.flat,
    children: [
      {table: 'Blogs', partition_key: '{channel}', row_key: 'front'},
      {table: 'Blogs', partition_key: '{channel}', row_key_prefix: 'draft-'},
      {table: 'Blogs', partition_key: '{channel}', filter: 'Rating lt 2'},
    ],
  };
  await suite.open({
    jobs: {
      'delete-channel': jobs.deep, 'delete-one': one_table,
      'delete-some': by_row,
      'delete-kept': {...jobs.deep, archive: 'archive'},
      'delete-few': {...jobs.deep, refuse_above: 4},
    },
    tables: [...jobs.deep_tables, 'One'],
    worker: {visibility_timeout: '60s'},
  });
  // gone: returns the steps of a scenario that deletes all of `name`.
  const gone = (name, job, seed, more = {}) => ({
    seed, ask: jobs.ask_for(name, job), expect: jobs.gone(name), ...more,
  });

  suite.scenario('a blog and a comment with an empty RowKey',
      gone('Empty', 'delete-channel', jobs.seed_family('Empty', ['', 'x'])));

  suite.scenario('blogs of 900 KiB', gone('Large', 'delete-channel', (s) => {
    s.put('Channels', jobs.channel('Large'));
    for (let i = 0; i < 9; i++) {
      const large = jobs.blog('Large', `large-${i}`);
      for (let part = 0; part < 14; part++) {
        large[`Part${part}@odata.type`] = 'Edm.Binary';
        large[`Part${part}`] = Buffer.alloc(65536, part).toString('base64');
      }
      s.put('Blogs', large);
    }
    s.put('Blogs', jobs.blog('Large', 'small'));
  }));

  suite.scenario('200 comments under one blog, 101 blogs without',
      gone('Grand', 'delete-channel', (s) => {
        s.put('Channels', jobs.channel('Grand'));
        s.put('Blogs', ...jobs.blogs('Grand', 101));
        for (let n = 0; n < 200; n++)
          s.put('Comments', jobs.comment('Grand', '000050', n));
      }));

  // Goal: the parent is never its own child, even if the rule matches it.
  suite.scenario('parent and children in one table', {
    seed(s) {
      for (const name of ['Home', 'Homes'])
        for (const row_key of ['', 'a', 'b', '\u{1F600}'])
          s.put('One', jobs.blog(name, row_key));
    },
    ask: jobs.ask_for('Home', 'delete-one'),
    async expect(s, self) {
      s.model.remove('One', (e) => e.PartitionKey === 'Home');
      const run = await s.ended(self.id, 'succeeded');
      counts_cascade(run, 3, s.store.faulty);
    },
  });

  // Goal: rules by row_key, by row_key_prefix and by filter find the entities
  // that they describe; the rest of the partition, which no rule finds,
  // remains.
  suite.scenario('children by row_key, prefix and filter', {
    seed(s) {
      s.put('Channels', jobs.channel('Some'));
      for (const row_key of ['front', 'frontier', 'draft-', 'draft-1', 'draft',
        'draft.', 'z'])
        s.put('Blogs', jobs.blog('Some', row_key));
      s.put('Blogs', jobs.blog('Some', 'bad', {Rating: 1}),
          jobs.blog('Some', 'worse', {Rating: -1}),
          {PartitionKey: 'Some', RowKey: 'unrated'},
          jobs.blog('Some', 'text', {Rating: '1'}));
    },
    ask: jobs.ask_for('Some', 'delete-some'),
    async expect(s, self) {
      const go = ['front', 'draft-', 'draft-1', 'bad', 'worse'];
      s.model.remove('Channels', (e) => e.PartitionKey === 'Some');
      s.model.remove('Blogs',
          (e) => e.PartitionKey === 'Some' && go.includes(e.RowKey));
      await s.ended(self.id, 'succeeded');
    },
  });

  // Goal: each entity is on disk, in the format of import, before it is
  // deleted: the archive's files restore the channel exactly.
  suite.scenario('an archive that import makes whole again',
      gone('Kept', 'delete-kept', jobs.seed_family('Kept'), {
        async expect(s, self) {
          const before = new Map([...s.model.tables].map(
              ([table, entities]) => [table, [...entities.values()]
                  .map((e) => e.entity)
                  .filter((e) => (e.Channel || e.PartitionKey) === 'Kept')]));
          jobs.cascade(s.model, 'Kept');
          await s.ended(self.id, 'succeeded');
          const folder =
              path.join(s.folder, 'archive', 'delete-kept', self.id);
          for (const file of fs.readdirSync(folder)) {
            if (file === '.requested-at') continue;
            const table = /^\d+-(\w+)\.jsonl$/.exec(file)[1];
            await s.ok(['import', table, path.join(folder, file),
              '--on-conflict', 'fail']);
            for (const entity of before.get(table)) s.own(table, entity);
            before.delete(table);
          }
          assert.deepStrictEqual(
              [...before].filter(([, all]) => all.length > 0), []);
        },
      }));

  // Goal: a cascade of more than refuse_above fails before anything is written,
  // and the worker then exits with 1.
  suite.scenario('more under a channel than refuse_above', {
    seed: jobs.seed_family('Many'),
    ask: jobs.ask_for('Many', 'delete-few'),
    async expect(s, self) {
      const run = await s.ended(self.id, 'failed', /refuse_above|more than/);
      assert.strictEqual(run.EntitiesDeleted, 0);
    },
  });
  await suite.play({exit_code: 1});
}

module.exports = [
  {name: 'sizes', stores: ALL, seconds: 20, body: sizes},
  {name: 'names', stores: BOTH, seconds: 30, body: names},
  {name: 'prefixes', stores: ALL, body: prefixes},
  {name: 'shapes', stores: ALL, seconds: 20, body: shapes},
];
