// SPDX-License-Identifier: MIT
// What a person may get wrong: configuration, command line, the store. Every
// mistake is told in one go, at its place, with the exit code of product.md.
'use strict';

const assert = require('assert');
const fs = require('fs');
const path = require('path');
const jobs = require('../lib/jobs');
const {connection_string} = require('../lib/azurite');
const {until} = require('../lib/wait');

const JOB = `
  delete-channel:
    kind: cascade-delete
    args: [channel]
    parent: {table: Channels, partition_key: "{channel}", row_key: "",
             tombstone: {Deleted: true}}
    children:
      - {table: Blogs, partition_key: "{channel}"}
`;
const GOOD = `stores:\n  main: {embedded: t.db}\njobs:${JOB}`;
const bomb = () => {
  const lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x, x]'];
  for (let i = 1; i < 10; i++)
    lines.push(`a${i}: &a${i} [${Array(10).fill(`*a${i - 1}`).join(', ')}]`);
  return lines.join('\n') + '\n' + GOOD;
};

// [what, text, patterns that standard error must all match]
const WRONG = [
  ['an unknown key', GOOD + 'worke: {slots: 3}\n', [/:\d+:1: .*worke/, /worker/]],
  ['a wrong type', `${GOOD}worker: {slots: many}\n`, [/:\d+:\d+: .*slots/]],
  ['an unknown duration', `${GOOD}worker: {visibility_timeout: 5 weeks}\n`,
    [/:\d+:\d+: .*visibility_timeout/]],
  ['a template that names nothing',
    GOOD.replace('"{channel}", row_key', '"{chanel}", row_key'),
    [/:\d+:\d+: .*chanel/, /channel/]],
  ['an unknown kind', GOOD.replace('cascade-delete', 'cascade-delte'),
    [/:\d+:\d+: .*cascade-delte/, /cascade-delete/]],
  ['two jobs of one name', GOOD + JOB, [/:\d+:\d+: .*delete-channel/]],
  ['a queue name that Azure forbids',
    `${GOOD}worker: {queues: [{name: Not--Good}]}\n`, [/:\d+:\d+: .*Not--Good/]],
  ['a queue bound to an unknown job',
    `${GOOD}worker: {queues: [{name: bound, job: delete-chanel, ` +
    'body: channel}]}\n', [/:\d+:\d+: .*delete-chanel/]],
  ['a YAML alias bomb', bomb(), [/:\d+:\d+: /]],
  ['a syntax error', `${GOOD}worker: {slots: 3\n`, [/:\d+:\d+: /]],
  ['an unset variable',
    `${GOOD}worker: {listen: "\${NOT_SET_ANYWHERE}"}\n`,
    [/:\d+:\d+: .*NOT_SET_ANYWHERE/]],
];

async function configuration(suite) {
  await suite.open({jobs: {'delete-channel': jobs.flat}});
  const check = (name) =>
      suite.command(['check', '--config', path.join(suite.folder, name)]);
  suite.options = [];
  await suite.judge('a good configuration passes check', async () => {
    suite.program.configure(GOOD, 'good.yaml');
    const {code, log} = await check('good.yaml');
    assert.strictEqual(code, 0, log);
  });
  for (const [what, text, patterns] of WRONG)
    await suite.judge(`configuration: ${what}`, async () => {
      suite.program.configure(text, 'wrong.yaml');
      const {code, log} = await check('wrong.yaml');
      assert.strictEqual(code, 78, log);
      for (const pattern of patterns) assert.match(log, pattern);
      assert.match(log, /wrong\.yaml:/);
    });
  // Goal: all at once, each at its own place.
  await suite.judge('configuration: every error in one go', async () => {
    suite.program.configure(
        `${GOOD.replace('args: [channel]', 'args: [channel]\n    kid: 3')}` +
        'worker: {slots: many, laen: 3, poll: {min: soon}}\nwat: 1\n',
        'many.yaml');
    const {code, log} = await check('many.yaml');
    assert.strictEqual(code, 78, log);
    for (const word of ['kid', 'slots', 'laen', 'min', 'wat'])
      assert.match(log, new RegExp(`many\\.yaml:\\d+:\\d+: .*${word}`));
  });
  await suite.judge('configuration: a missing file', async () => {
    const {code, log} = await check('nowhere.yaml');
    assert.strictEqual(code, 78, log);
    assert.match(log, /nowhere\.yaml/);
  });
}

async function usage(suite) {
  await suite.open({
    jobs: {'delete-channel': jobs.flat}, tables: ['Channels', 'Blogs'],
  });
  const wrong = [
    ['an unknown command', ['wroker'], /worker/],
    ['an unknown option', ['status', '--jsno'], /--json/],
    ['an unknown job', ['run', 'delete-chanel', 'channel=x', '--yes'],
      /delete-channel/],
    ['an unknown argument', ['run', 'delete-channel', 'chanel=x', '--yes'],
      /channel/],
    ['a missing argument', ['run', 'delete-channel', '--yes'], /channel/],
    ['an empty argument', ['run', 'delete-channel', 'channel=', '--yes'],
      /channel/],
    ['no --yes without a terminal', ['run', 'delete-channel', 'channel=x'],
      /--yes/],
    ['an id that is a path',
      ['run', 'delete-channel', 'channel=x', '--yes', '--id', '../x'], /id/],
    ['a missing argument to enqueue', ['enqueue', 'delete-channel'],
      /channel/],
  ];
  for (const [what, args, pattern] of wrong)
    await suite.judge(`usage: ${what}`, async () => {
      const {code, log, out} = await suite.command(args);
      assert.strictEqual(code, 64, log);
      assert.match(log, pattern);
      assert.strictEqual(out, '');
    });
  await suite.judge('help and version of everything', async () => {
    for (const args of [['--help'], ['--version'], ['help'], ['version'],
      ['worker', '--help'], ['help', 'run'], ['-h']]) {
      const {code, log, out} = await suite.program.run(args);
      assert.strictEqual(code, 0, `${args}: ${log}`);
      assert.notStrictEqual(out, '');
    }
  });

  // Goal: run, without a queue, does what the worker does; once.
  await suite.judge('run deletes a channel, and says 0 when asked again',
      async () => {
        await suite.store.insert('Channels', [jobs.channel('Run')]);
        await suite.store.insert('Blogs', jobs.blogs('Run', 150));
        const args = ['run', 'delete-channel', 'channel=Run', '--yes', '--id',
          'run-1'];
        const dry = await suite.command([...args.slice(0, 3), '--dry-run']);
        assert.strictEqual(dry.code, 0, dry.log);
        assert.match(dry.out, /150/);
        assert.strictEqual(
            (await suite.store.read('Blogs')).length, 150);
        const first = await suite.command(args);
        assert.strictEqual(first.code, 0, first.log);
        assert.match(first.out, /^run-1$/m);
        await suite.same();
        const again = await suite.command(args);
        assert.strictEqual(again.code, 0, again.log);
        const {out} = await suite.command(['status', 'run-1', '--json']);
        const [run] = JSON.parse(out);
        assert.strictEqual(run.State, 'succeeded');
        assert.strictEqual(run.EntitiesDeleted, 151);
        assert.strictEqual(run.Attempt, 1);
      });
  await suite.judge('count, jobs and check --online', async () => {
    for (const args of [['count', 'Blogs'], ['jobs'],
      ['jobs', 'delete-channel'], ['check', '--online']]) {
      const {code, log, out} = await suite.command(args);
      assert.strictEqual(code, 0, `${args}: ${log}`);
      assert.notStrictEqual(out, '');
    }
  });
  await suite.judge('cancel stops a run and keeps its tombstone', async () => {
    await suite.store.insert('Channels', [jobs.channel('Held')]);
    const id = await suite.store.enqueue('delete-channel', {channel: 'Held'});
    const {code, log} = await suite.command(['cancel', id]);
    // A message that no worker has seen yet may have no run to cancel.
    if (suite.Store.name === 'embedded')
      assert.strictEqual(code, 0, log);
    else
      assert.ok(code === 0 || code === 1 || code === 64, log);
    const end = await suite.program.end(suite.worker());
    assert.ok(end.code === 0 || end.code === 1);
    const left = (await suite.store.read('Channels')).length;
    assert.strictEqual(left, code === 0 ? 1 : 0);
  });
}

// Goal: a store that cannot be reached or refuses says so in a sentence with
// what to check, exit 69, and no secret in it.
async function unreachable(suite) {
  await suite.open({jobs: {'delete-channel': jobs.flat}, tables: ['Blogs']});
  const {azurite, account} = suite.store;
  const other = Buffer.alloc(64, 7).toString('base64');
  const cases = [
    ['nobody answers', connection_string(account, azurite.key, 1, 1)],
    ['a wrong key', connection_string(
        account, other, azurite.table_port, azurite.queue_port)],
    ['a name that does not resolve', 'DefaultEndpointsProtocol=https;' +
        `AccountName=nobody;AccountKey=${azurite.key};` +
        'EndpointSuffix=storage.invalid'],
  ];
  for (const [what, STORAGE] of cases)
    await suite.judge(`unreachable: ${what}`, async () => {
      const {code, log} =
          await suite.command(['count', 'Blogs'], {env: {STORAGE}});
      assert.strictEqual(code, 69, log);
      assert.ok(!log.includes(other) && !log.includes(azurite.key));
      assert.doesNotMatch(log, /SharedKey \w+:/);
    });
  await suite.judge('unreachable: the worker at start, a wrong key',
      async () => {
        const [, [, STORAGE]] = cases;
        const {code, log} = await suite.command(['worker'], {env: {STORAGE}});
        assert.strictEqual(code, 69, log);
      });
}

// Goal: a folder that cannot be written is said with its name: a command ends
// with 69, the worker stays and tries again.
async function unwritable(suite) {
  await suite.open({jobs: {'delete-channel': jobs.flat}});
  await suite.judge('a data directory that cannot be written', async () => {
    const file = path.join(suite.folder, 'not-a-folder');
    fs.writeFileSync(file, '');
    const options = ['--config', suite.program.configure({
      stores: {main: {embedded: path.join(file, 't.db')}},
      jobs: {'delete-channel': jobs.flat},
    }, 'unwritable.yaml')];
    const count = await suite.program.run([...options, 'count', 'Blogs']);
    assert.strictEqual(count.code, 69, count.log);
    assert.match(count.log, /not-a-folder/);
    const worker = suite.program.start([...options, 'worker']);
    await until('the worker says so',
        () => /not-a-folder.*trying again/.test(worker.log));
    worker.kill('SIGTERM');
    const {code} = await suite.program.end(worker, 20000);
    assert.strictEqual(code, 0, worker.log);
  });
}

module.exports = [
  {name: 'configuration', stores: ['embedded'], seconds: 5,
    body: configuration},
  {name: 'usage', stores: ['azurite', 'embedded'], seconds: 10, body: usage},
  {name: 'unreachable', stores: ['azurite'], seconds: 20, body: unreachable},
  {name: 'unwritable', stores: ['embedded'], seconds: 5, body: unwritable},
];
