// SPDX-License-Identifier: MIT
// A worker without an account key: managed and workload identities, tokens that
// expire during a run, and token servers that are down or refuse.
'use strict';

const assert = require('assert');
const jobs = require('../lib/jobs');
const {tail} = require('../lib/program');
const {counts_cascade} = require('../lib/runs');
const {CLIENT} = require('../lib/token_server');
const {until} = require('../lib/wait');

const BLOGS = 300;
const KINDS = { // what `check --online` prints
  machine: /acts as: managed identity of this machine \(127\.0\.0\.1 port/,
  app: /acts as: managed identity of this app \(127\.0\.0\.1 port/,
  workload: new RegExp(`acts as: workload identity ${CLIENT} of tenant `),
};
// A run of BLOGS blogs takes a dozen seconds at this rate; tokens are valid for
// a third of this time.
const SLOWLY = 25;
const TOKEN_S = 4;
const PIECE = 20;
const STOP_MS = 5500;

async function open(suite, max_entities_per_second = 0) {
  await jobs.open_flat(suite, {
    visibility_timeout: '6s', poll: {min: '20ms', max: '100ms'},
    max_entities_per_second,
  });
}

// shows_no_secret: throws if the text contains any piece of a token, header or
// assertion.
function shows_no_secret(suite, text) {
  for (const secret of suite.store.tokens.secrets())
    for (let at = 0; at + PIECE <= secret.length; at++)
      assert.ok(!text.includes(secret.slice(at, at + PIECE)),
          'the log shows a secret');
}

// begin: starts a worker with an identity of this kind, with a channel to
// delete; returns {worker, id}.
async function begin(suite, kind, name, args) {
  const {store} = suite;
  suite.environment = {...store.env(kind)};
  const id = await jobs.ask_for_channel(store, name, BLOGS);
  return {worker: suite.worker(args), id};
}

// finish: waits until the worker has ended and judges the run; returns the log
// and the run.
async function finish(suite, {worker, id}) {
  await suite.drain(worker);
  const run = await suite.ended(id, 'succeeded');
  shows_no_secret(suite, worker.log);
  await suite.same();
  return {log: worker.log, run};
}

// cascade: calls begin, `during` and finish; returns what finish returns.
async function cascade(suite, kind, name, during = () => {}) {
  const begun = await begin(suite, kind, name);
  await during();
  return await finish(suite, begun);
}

// undisturbed: throws unless the run took one attempt without a failure.
function undisturbed({run, log}) {
  assert.strictEqual(run.Attempt, 1, tail(log));
  assert.strictEqual(run.Failures, 0, tail(log));
  counts_cascade(run, BLOGS);
  assert.doesNotMatch(log, / (warn|error) /);
}

// Goal: for each kind of identity the request is as its token server requires,
// and its tokens are enough for everything that a worker does.
async function identities(suite) {
  await open(suite);
  const {store} = suite;
  for (const [kind, says] of Object.entries(KINDS))
    await suite.judge(`an identity: ${kind}`, async () => {
      suite.environment = {...store.env(kind)};
      const check = await suite.command(
          ['--log-level', 'debug', 'check', '--online']);
      assert.match(check.out, says);
      assert.match(check.out, /azure: is reachable/);
      shows_no_secret(suite, check.out + check.log);
      undisturbed(await cascade(suite, kind, `Kind ${kind}`));
    });
  await suite.judge('an identity that is refused', async () => {
    suite.environment = {...store.env('machine')};
    store.tokens.refuses = true;
    for (const command of [['check', '--online'], ['worker', '--drain']]) {
      const ended = await suite.command(command);
      assert.strictEqual(ended.code, 69, tail(ended.log));
      assert.match(ended.log, new RegExp('no access token for the managed ' +
          'identity of this machine .*: 400 invalid_request: Identity not ' +
          'found; check that an identity is assigned'));
    }
    store.tokens.refuses = false;
  });
  await suite.judge('no identity at all', async () => {
    suite.environment =
        {...store.env('workload'), AZURE_FEDERATED_TOKEN_FILE: ''};
    const ended = await suite.command(['check', '--online']);
    assert.strictEqual(ended.code, 78);
    assert.match(ended.log, /variable AZURE_FEDERATED_TOKEN_FILE/);
  });
}

// Goal: tokens that expire in the middle of a run cost no attempt, whether they
// are renewed in time or the service refuses them.
async function expiry(suite) {
  await open(suite, SLOWLY);
  const {store} = suite, {tokens} = store;
  for (const kind of ['machine', 'workload'])
    await suite.judge(`a run over several tokens of a ${kind}`, async () => {
      const before = tokens.tokens.length;
      tokens.lives_s = TOKEN_S;
      const done = await cascade(suite, kind, `Several ${kind}`);
      tokens.lives_s = 3600;
      undisturbed(done);
      assert.ok(tokens.tokens.length - before >= 4,
          `${tokens.tokens.length - before} tokens`);
      assert.doesNotMatch(done.log, /AuthenticationFailed|InvalidAuth/);
    });
  await suite.judge('a token that ends before its time', async () => {
    const before = tokens.tokens.length;
    [tokens.lives_s, tokens.promises_s] = [TOKEN_S, 3600];
    const done = await cascade(suite, 'machine', 'Revoked', async () => {
      await until('a token', () => tokens.tokens.length > before);
      tokens.lives_s = 3600;
    });
    tokens.promises_s = undefined;
    undisturbed(done);
    assert.match(done.log, /was refused; the request is retried with a new token/);
    assert.strictEqual(tokens.tokens.length - before, 2);
  });
  await suite.judge('a server that is down while the token lives', async () => {
    const asked = tokens.asked;
    tokens.lives_s = 30;
    const done = await cascade(suite, 'machine', 'Down', async () => {
      await until('a token', () => tokens.asked > asked);
      tokens.down = true;
    });
    tokens.down = false;
    undisturbed(done);
  });
}

// Goal: without a token the store counts as unreachable; the worker logs this,
// and continues when there is a token again, without a failure of the run.
async function outage(suite) {
  await open(suite, SLOWLY);
  const {store} = suite, {tokens} = store;
  await suite.judge('a server that is down when the token ends', async () => {
    tokens.lives_s = TOKEN_S;
    // With --drain the worker would not wait for a held run.
    const begun = await begin(suite, 'machine', 'Outage', []);
    const {worker, id} = begun;
    await suite.state(id, ['running'], worker);
    tokens.down = true;
    await suite.said(
        worker, /during an outage: .*no access token for .*: 503/);
    tokens.down = false;
    tokens.lives_s = 3600;
    await suite.state(id, ['succeeded'], worker);
    worker.kill('SIGTERM');
    const {run, log} = await finish(suite, begun);
    assert.strictEqual(run.Failures, 0);
    assert.match(log, /got an access token again/);
  });
  await suite.judge('a server that is down when the worker starts', async () => {
    tokens.down = true;
    const begun = await begin(suite, 'workload', 'Start', []);
    const {worker, id} = begun;
    await suite.said(
        worker, /no access token for the workload identity .*: 503/);
    tokens.down = false;
    await suite.state(id, ['succeeded'], worker);
    worker.kill('SIGTERM');
    const {run} = await finish(suite, begun);
    assert.strictEqual(run.Failures, 0);
  });
  await suite.judge('a stop while a server is silent', async () => {
    tokens.silent = true;
    for (const args of [['worker'], ['check', '--online']]) {
      const asked = tokens.asked;
      const running = suite.start(args);
      await until('it asks', () => tokens.asked > asked);
      const begun = Date.now();
      running.kill('SIGTERM');
      const end = await suite.program.end(running, 30000);
      assert.ok(Date.now() - begun < STOP_MS, 'it took too long');
      assert.strictEqual(end.code, args[0] === 'worker' ? 0 : 75,
          tail(running.log));
    }
    tokens.silent = false;
  });
}

module.exports = [
  {name: 'identities', stores: ['identity'], seconds: 20, body: identities},
  {name: 'tokens that expire', stores: ['identity'], seconds: 60, body: expiry},
  {name: 'no token', stores: ['identity'], seconds: 25, body: outage},
];
