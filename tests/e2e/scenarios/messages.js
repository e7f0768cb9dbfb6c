// SPDX-License-Identifier: MIT
// Messages as front ends put them: plain, base64, on bound queues; and messages
// that cannot be read, which become poisoned with a reason while the worker
// continues.
'use strict';

const assert = require('assert');
const jobs = require('../lib/jobs');

const base64 = (text) => Buffer.from(text).toString('base64');

const QUEUES = [
  {name: 'tableward'},
  {name: 'by-text', job: 'delete-channel', body: 'channel', encoding: 'text'},
  {
    name: 'by-base64', job: 'delete-channel', body: 'channel',
    encoding: 'base64',
  },
];

const open = (suite) =>
    jobs.open_deep(suite, {queues: QUEUES, visibility_timeout: '30s'});

// Goal: the encoding of a message is detected on JSON queues, as product.md
// says, and never guessed on bound queues.
async function encodings(suite) {
  await open(suite);
  const json = (name) =>
      JSON.stringify({job: 'delete-channel', args: {channel: name}});
  const messages = [
    ['plain JSON', 'Plain', 'tableward', json('Plain')],
    ['base64 JSON', 'Coded', 'tableward', base64(json('Coded'))],
    ['JSON with spaces before it', 'Spaced', 'tableward',
      ` \n${json('Spaced')}\n`],
    ['JSON with escapes', 'Fü"\u{1F600}', 'tableward',
      '{"args": {"channel": "F\\u00fc\\"\\ud83d\\ude00"},' +
      ' "job": "delete-channel"}'],
    ['bound, text that looks like base64', 'SURF', 'by-text', 'SURF'],
    ['bound, text that is base64', 'Rm9vdA==', 'by-text', 'Rm9vdA=='],
    ['bound, text with XML in it', '<b>&amp;<b', 'by-text', '<b>&amp;<b'],
    ['bound, text that looks like a number', '007', 'by-text', '007'],
    ['bound, base64', 'WAVE', 'by-base64', base64('WAVE')],
    ['bound, base64 beyond ASCII', 'Füße \u26bd', 'by-base64',
      base64('Füße \u26bd')],
  ];
  for (const [name, channel, queue, text] of messages)
    suite.scenario(name, {
      seed: jobs.seed_family(channel),
      async ask(s, self) {
        self.id = await s.store.put(queue, text);
      },
      async expect(s, self) {
        const run = await jobs.gone(channel)(s, self);
        assert.strictEqual(run.Queue, queue);
      },
    });
  // These channels must remain: a guess of the encoding would have deleted
  // them.
  suite.scenario('what a guess would have deleted', {
    seed: jobs.seed_families(['Foot', 'V0FWRQ==']),
  });
  await suite.play();
}

// [what, body, pattern of the reason]
const request = (more) => JSON.stringify(
    {job: 'delete-channel', args: {channel: 'Good'}, ...more});
const named = (channel) => request({args: {channel}});
const BAD = [
  ['an empty message', '', /empty/],
  ['64 KiB of [', '['.repeat(65536), /./],
  ['NUL bytes', base64(Buffer.alloc(300)), /./],
  ['invalid UTF-8', Buffer.from(named('\u00ff'), 'latin1').toString('base64'),
    /UTF-8/],
  ['half a surrogate', request().replace('Good', '\\ud83d'), /./],
  ['a word', 'hello', /./],
  ['half of a JSON object', '{"job": "delete-channel", "args"', /./],
  ['two JSON objects', request() + request(), /./],
  ['a JSON array in base64', base64('[1]'), /./],
  ['{ 32,000 deep', '{"a":'.repeat(13000), /./],
  ['no job', '{"args": {"channel": "Good"}}', /job/],
  ['a job that is a number', request({job: 7}), /job/],
  ['an unknown job', request({job: 'delete-chanel'}), /delete-chanel/],
  ['no arguments', request({args: undefined}), /channel/],
  ['a missing argument', request({args: {}}), /channel/],
  ['a superfluous argument', request({args: {channel: 'Good', force: 'x'}}),
    /force/],
  ['an empty argument', named(''), /channel/],
  ['an argument that is a number', named(7), /channel/],
  ['an argument that is null', named(null), /channel/],
  ['arguments in an array', request({args: ['Good']}), /args/],
  ['a key with a slash', named('a/b'), /\//],
  ['a key with a backslash', named('a\\b'), /./],
  ['a key with #', named('a#b'), /#/],
  ['a key with ?', named('a?b'), /\?/],
  ['a key with a control character', named('a\u0001b'), /./],
  ['a key with NUL', named('a\u0000b'), /./],
  ['a key of 513 characters', named('x'.repeat(513)), /./],
  ['an id that is a path', request({id: '../../etc/passwd'}), /id/],
  ['an id with a dot first', request({id: '.hidden'}), /id/],
  ['an empty id', request({id: ''}), /id/],
  ['an id of 129 characters', request({id: 'x'.repeat(129)}), /id/],
  ['an id that is a number', request({id: 7}), /id/],
  ['a time that is none', request({at: 'yesterday'}), /at/],
];

// Goal: each bad message is at once in the poison queue with its body and in
// the ledger with its reason; the worker continues, and exits with 1 in the
// end.
async function poison(suite) {
  await open(suite);
  for (const [name, body, reason] of BAD)
    suite.scenario(`poisoned: ${name}`, {
      async ask(s, self) {
        self.id = await s.store.put('tableward', body);
      },
      async expect(s, self) {
        const run = await s.ended(self.id, 'poisoned', reason);
        assert.ok(run.FinishedAt, 'FinishedAt is missing');
      },
    });
  suite.scenario('poisoned: no base64, and that of no key, on a bound queue', {
    async ask(s, self) {
      self.ids = [await s.store.put('by-base64', 'S!RF'),
        await s.store.put('by-base64', base64('a/b'))];
    },
    async expect(s, self) {
      for (const id of self.ids) await s.ended(id, 'poisoned');
      assert.deepStrictEqual(
          (await s.store.peek('by-base64-poison')).sort(),
          ['S!RF', base64('a/b')]);
    },
  });
  // The first use of the id is a good message; the second is received by
  // another worker.
  suite.scenario('poisoned: an id known with other arguments', {
    seed: jobs.seed_family('Known'),
    async ask(s) {
      await s.store.enqueue('delete-channel', {channel: 'Known'}, {id: 'k-1'});
    },
    async expect(s) {
      jobs.cascade(s.model, 'Known');
      await s.ended('k-1', 'succeeded');
      const second = await s.store.put(
          'tableward', request({args: {channel: 'Standing'}, id: 'k-1'}));
      await s.drain(s.worker(), 1);
      await s.ended('k-1', 'succeeded');
      await s.ended(second, 'poisoned', /argument/);
    },
  });
  suite.scenario('a good message among bad ones', {
    seed: jobs.seed_family('Good'), ask: jobs.ask_for('Good'),
    expect: jobs.gone('Good'),
  });
  suite.scenario('a channel that nobody asked to delete', {
    seed: jobs.seed_family('Standing'),
  });
  await suite.play({exit_code: 1});

  await suite.judge('poisoned messages keep their bodies', async () => {
    const copies = (await suite.store.peek('tableward-poison')).sort();
    assert.strictEqual(copies.length, 32); // a Peek's maximum
    const bodies = BAD.map(([, body]) => body);
    for (const copy of copies)
      assert.ok(bodies.includes(copy) || copy.includes('k-1'),
          `not a body that was put: ${copy.slice(0, 80)}`);
  });
  const listed = async () => {
    const {out} = await suite.ok(['poison', 'list', '--all']);
    return out.split('\n').filter((line) => line !== '');
  };
  const poisoned = async () => (await suite.store.runs())
      .filter((run) => run.State === 'poisoned');
  await suite.judge('poison list names every one', async () => {
    const lines = await listed();
    assert.strictEqual(lines.length, BAD.length + 3);
    for (const {Id} of await poisoned())
      assert.ok(lines.some((line) => line.includes(Id)), Id);
  });
  await suite.judge('poison drop forgets one, poison show tells of another',
      async () => {
        const [first, second] = await poisoned();
        await suite.ok(['poison', 'drop', first.Id]);
        await suite.ok(['poison', 'show', second.Id]);
        assert.strictEqual((await listed()).length, BAD.length + 2);
      });
}

module.exports = [
  {name: 'encodings', stores: ['azurite'], seconds: 10, body: encodings},
  {name: 'poison', stores: ['azurite'], seconds: 20, body: poison},
];
