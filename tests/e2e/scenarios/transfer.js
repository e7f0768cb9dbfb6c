// SPDX-License-Identifier: MIT
// Import and export: a table that is exported, imported elsewhere and exported
// again gives the same file, byte for byte; a command that is killed and
// started again with the same id ends as if it had not been killed; and
// rejected lines are not lost.
'use strict';

const assert = require('assert');
const crypto = require('crypto');
const fs = require('fs');
const net = require('net');
const path = require('path');
const {differ, parse_exactly} = require('../lib/model');
const {block, random, seed_of_run, sleep} = require('../lib/wait');

const HOW_MANY = {embedded: 20000, azsim: 5000, azurite: 1500};
const PARTITIONS = ['Foot', "O'Neill & Sons", '100% C++', 'Crème brûlée',
  'Tokyo 東京', 'Trains 🚂', ''];
const DOUBLES = ['"NaN"', '"Infinity"', '"-Infinity"', '0.0', '1.0', '5E-324',
  '1.7976931348623157e+308', '1e21', '1E-7', '0.1', '123456789.125'];
const TEXTS = ['', 'plain', 'Ünï "q" \\ / \n\r\t', '\u0000\u0001\u001f\u007f',
  '😀 \u200b', 'x'.repeat(300)];
const FRACTIONS = ['', '.5', '.1234567', '.0000001'];

// line: returns an entity of all eight types as one line of JSON, its
// properties in a random order.
function line(i, next) {
  const two = (n) => String(1 + next(n)).padStart(2, '0');
  const typed = (name, type, json) =>
      `"${name}@odata.type":"Edm.${type}","${name}":${json}`;
  const text = (s) => JSON.stringify(s);
  const properties = [
    typed('Id', 'Guid', `"${crypto.createHash('md5').update(`${i}`)
        .digest('hex').replace(/(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')}"`),
    typed('CreatedOn', 'DateTime', `"20${two(90)}-${two(12)}-${two(28)}T12:34:` +
        `56${FRACTIONS[next(4)]}Z"`),
    typed('Score', 'Double', DOUBLES[next(DOUBLES.length)]),
    typed('Views', 'Int64', text(String(
        BigInt.asIntN(64, BigInt(next(2 ** 32)) << BigInt(next(40)))))),
    typed('Thumbnail', 'Binary',
        text(Buffer.alloc(next(50), i).toString('base64'))),
    `"Rating":${next(2 ** 32) - 2 ** 31}`, `"Draft":${next(2) === 0}`,
    `"Title":${text(TEXTS[next(TEXTS.length)])}`,
  ];
  for (let at = properties.length - 1; at > 0; at--) {
    const other = next(at + 1);
    [properties[at], properties[other]] = [properties[other], properties[at]];
  }
  const keys = [`"PartitionKey":${text(PARTITIONS[next(PARTITIONS.length)])}`,
    `"RowKey":"${String(i).padStart(7, '0')}"`];
  return `{${[...keys, ...properties].join(',')}}`;
}

// open: opens the suite with a second, embedded store named `other`.
async function open(suite, tables = []) {
  await suite.open({jobs: {}, tables});
  suite.options = ['--config', suite.program.configure({
    default_store: 'main',
    stores: {...suite.store.stores(), other: {embedded: 'other.db'}},
  }, 'transfer.yaml')];
  suite.file = (name) => path.join(suite.folder, name);
  suite.text = (name) => fs.readFileSync(suite.file(name), 'utf8');
}

async function ends(suite, wanted, ...args) {
  const {code, log} = await suite.command(args, {limit_ms: 600000});
  assert.strictEqual(code, wanted, `${args.join(' ')}: ${log}`);
  return log;
}

const ok = (suite, ...args) => ends(suite, 0, ...args);

function write_lines(suite, name, count, next) {
  const file = fs.openSync(suite.file(name), 'w');
  for (let i = 0; i < count; i += 1000)
    fs.writeSync(file, Array.from({length: Math.min(1000, count - i)},
        (_, k) => `${line(i + k, next)}\n`).join(''));
  fs.closeSync(file);
}

function same_files(suite, a, b) {
  assert.ok(Buffer.compare(fs.readFileSync(suite.file(a)),
      fs.readFileSync(suite.file(b))) === 0, `${a} and ${b} differ`);
}

// Goal: a table is exported from the embedded store, imported into the suite's
// store, exported, imported into the embedded store, and exported again: all
// three exports are the same file.
const round_trip = (long) => async (suite) => {
  const count = long ? 200000 : HOW_MANY[suite.Store.name];
  await open(suite);
  await suite.judge(`${count} entities, there and back, are one file`,
      async () => {
        write_lines(suite, 'first.jsonl', count, random(7));
        await ok(suite, 'import', 'First', 'first.jsonl', '--store', 'other');
        await ok(suite, 'export', 'First', 'a.jsonl', '--store', 'other');
        await ok(suite, 'import', 'There', 'a.jsonl');
        await ok(suite, 'export', 'There', 'b.jsonl');
        same_files(suite, 'a.jsonl', 'b.jsonl');
        await ok(suite, 'import', 'Back', 'b.jsonl', '--store', 'other');
        await ok(suite, 'export', 'Back', 'c.jsonl', '--store', 'other');
        same_files(suite, 'a.jsonl', 'c.jsonl');
        assert.strictEqual(suite.text('a.jsonl').split('\n').length, count + 1);
      });
  if (long) return;
  // Goal: the service itself confirms that nothing is lost or changed.
  await suite.judge('the store holds what the first file says', async () => {
    const wanted = suite.text('first.jsonl').trim().split('\n');
    await suite.holds('There', wanted.map(parse_exactly));
  });
  await suite.judge('--select and --filter take part of it', async () => {
    await ok(suite, 'export', 'There', 'part.jsonl', '--select', 'Views',
        '--filter', 'Draft eq true');
    const drafts = suite.text('a.jsonl').trim().split('\n')
        .map((text) => JSON.parse(text))
        .filter((entity) => entity.Draft).map((entity) => JSON.stringify(
            Object.fromEntries(['PartitionKey', 'RowKey', 'Views@odata.type',
              'Views'].map((name) => [name, entity[name]]))));
    assert.strictEqual(suite.text('part.jsonl').trim(), drafts.join('\n'));
  });
};

// killed: runs a command again and again, each time with a SIGKILL after a
// random time, until it ends by itself. The maximum of the random time doubles
// from one kill to the next. Returns {kills, code, log}. On any machine some of
// these processes are killed in the middle of their work, because the first
// times are shorter than a start of the program. The first four waits block the
// event loop: otherwise the work of another suite in this process could delay
// the kill.
async function killed(suite, next, args) {
  for (let kills = 0; ; kills++) {
    const life_ms = kills < 11 ? next(4 << kills) : 600000;
    const running = suite.start(args);
    let over = false;
    running.exit.then(() => (over = true));
    const until = Date.now() + life_ms;
    if (kills < 4) block(life_ms);
    while (!over && Date.now() < until) await sleep(1);
    if (!over) running.kill('SIGKILL');
    const {code, signal} = await suite.program.end(running, 600000);
    if (signal !== 'SIGKILL') return {kills, code, log: running.log};
  }
}

// Goal: after kills at any moment, an import gives the same table and the same
// file of rejected lines, each line once; an export gives the same file.
async function kills(suite) {
  const count = 2 * HOW_MANY[suite.Store.name];
  const seed = seed_of_run();
  const next = random(seed);
  await open(suite);
  const lines = Array.from({length: count},
      (_, i) => i % 97 === 5 ? `not one ${i}` : line(i, next));
  const good = lines.filter((l) => l[0] === '{');
  const bad = lines.filter((l) => l[0] !== '{');
  fs.writeFileSync(suite.file('all.jsonl'), lines.join('\n'));
  await suite.judge(`an import that is killed continues (seed ${seed})`,
      async () => {
        const end = await killed(suite, next, ['import', 'Killed',
          'all.jsonl', '--id', 'in', '--on-error', 'skip']);
        assert.ok(end.kills > 0, 'it was never killed');
        assert.strictEqual(end.code, 1, end.log);
        await suite.holds('Killed', good.map(parse_exactly));
        assert.strictEqual(
            suite.text('all.jsonl.rejected'), bad.join('\n') + '\n');
        assert.match(await ends(suite, 1, 'import', 'Killed', 'all.jsonl',
            '--id', 'in', '--on-error', 'skip'), /already succeeded/);
      });
  await suite.judge(`an export that is killed continues (seed ${seed})`,
      async () => {
        await ok(suite, 'export', 'Killed', 'whole.jsonl');
        const end = await killed(
            suite, next, ['export', 'Killed', 'cut.jsonl', '--id', 'out']);
        assert.ok(end.kills > 0, 'it was never killed');
        // The command ends with 64 if it was killed after its file had got its
        // final name: there is nothing to continue.
        if (end.code === 64) assert.match(end.log, /cut\.jsonl exists: --force/);
        else assert.strictEqual(end.code, 0, end.log);
        same_files(suite, 'whole.jsonl', 'cut.jsonl');
        assert.deepStrictEqual(fs.readdirSync(suite.folder)
            .filter((name) => name.endsWith('.part') &&
                name.includes('.out-')), []);
      });
}

// Goal: all tables of a store are exported and imported by commands that are
// killed at any moment and started again; the ledger is exported, but not
// imported.
async function all_tables(suite) {
  const count = HOW_MANY[suite.Store.name] / 2;
  const seed = seed_of_run();
  const next = random(seed);
  const sizes = {Blogs: count, Channels: 7, Empty: 0, Trains: count / 2};
  await open(suite);
  fs.mkdirSync(suite.file('in'));
  for (const [table, size] of Object.entries(sizes))
    write_lines(suite, `in/${table}.jsonl`, size, next);
  const tables = async (...args) => JSON.parse((await suite.command(
      ['tables', '--json', ...args], {limit_ms: 60000})).out)
      .filter(({Table}) => Table in sizes);
  await suite.judge(`an import of all that is killed continues (seed ${seed})`,
      async () => {
        const end = await killed(
            suite, next, ['import', '--all', 'in', '--id', 'in']);
        assert.ok(end.kills > 0, 'it was never killed');
        assert.strictEqual(end.code, 0, end.log);
      });
  await suite.judge('tables lists them, with counts where asked', async () => {
    assert.deepStrictEqual(await tables('--count'), Object.entries(sizes)
        .map(([Table, Entities]) => ({Table, Entities})));
    const named = await suite.command(['tables'], {limit_ms: 60000});
    const counted = suite.Store.name === 'embedded';
    assert.strictEqual(/^Empty +0$/m.test(named.out), counted, named.out);
    assert.strictEqual(/^Empty$/m.test(named.out), !counted, named.out);
    assert.strictEqual(/--count reads all/.test(named.log), !counted);
  });
  await suite.judge(`an export of all that is killed continues (seed ${seed})`,
      async () => {
        await ok(suite, 'export', '--all', 'whole');
        const end = await killed(
            suite, next, ['export', '--all', 'cut', '--id', 'out']);
        assert.ok(end.kills > 0, 'it was never killed');
        // The command ends with 64 if it was killed after all files had their
        // names and its progress file was removed.
        if (end.code === 64) assert.match(end.log, /exists: --force/);
        else assert.strictEqual(end.code, 0, end.log);
        assert.deepStrictEqual(fs.readdirSync(suite.file('cut')).sort(),
            fs.readdirSync(suite.file('whole')).sort());
        for (const table of [...Object.keys(sizes), 'TablewardRuns'])
          same_files(suite, `whole/${table}.jsonl`, `cut/${table}.jsonl`);
      });
  await suite.judge('all of it comes back elsewhere, the ledger does not',
      async () => {
        await ok(suite, 'import', '--all', 'cut', '--store', 'other');
        await ok(suite, 'export', '--all', 'back', '--store', 'other');
        assert.ok(!fs.existsSync(suite.file('back/TablewardRuns.jsonl')));
        for (const table of Object.keys(sizes))
          same_files(suite, `whole/${table}.jsonl`, `back/${table}.jsonl`);
      });
}

// Goal: --on-conflict alone decides the content of the table, equal entities
// are accepted, and rejected lines are kept.
async function conflicts(suite) {
  const keys = (i) =>
      ({PartitionKey: 'p', RowKey: String(i).padStart(4, '0')});
  const there = (i) => ({...keys(i), Old: i, Same: 'x'});
  const comes = (i) => i % 2 === 0 ? there(i) : ({...keys(i), Same: 'y'});
  const all = Array.from({length: 600}, (_, i) => i);
  const wanted = {
    fail: there, skip: there, replace: comes,
    merge: (i) => ({...there(i), ...comes(i)}),
  };
  await open(suite, ['Failed', 'Skipped', 'Replaced', 'Merged']);
  fs.writeFileSync(suite.file('comes.jsonl'),
      all.map((i) => JSON.stringify(comes(i)) + '\n').join(''));
  for (const [how, table] of [['fail', 'Failed'], ['skip', 'Skipped'],
    ['replace', 'Replaced'], ['merge', 'Merged']])
    await suite.judge(`--on-conflict ${how}`, async () => {
      await suite.store.insert(table, all.map(there));
      const log = await ends(suite, how === 'fail' ? 1 : 0, 'import', table,
          'comes.jsonl', '--on-conflict', how, '--on-error', 'skip');
      await suite.holds(table, all.map(wanted[how]));
      const kept = suite.file('comes.jsonl.rejected');
      assert.strictEqual(fs.existsSync(kept), how === 'fail', log);
      if (how !== 'fail') return;
      assert.deepStrictEqual(
          fs.readFileSync(kept, 'utf8').trim().split('\n').sort(),
          all.filter((i) => i % 2 === 1).map((i) => JSON.stringify(comes(i))));
      await ok(suite, 'import', table, 'comes.jsonl.rejected',
          '--on-conflict', 'replace');
      await suite.holds(table, all.map(comes));
      fs.unlinkSync(kept);
    });
}

// Goal: a table that is exported and imported as CSV is unchanged, too.
async function csv_round_trip(suite) {
  await open(suite);
  await suite.judge('a table goes through CSV and is the same', async () => {
    write_lines(suite, 'first.jsonl', 500, random(11));
    await ok(suite, 'import', 'First', 'first.jsonl');
    await ok(suite, 'export', 'First', 'a.jsonl');
    await ok(suite, 'export', 'First', 'a.csv');
    await ok(suite, 'import', 'Second', 'a.csv', '--store', 'other');
    await ok(suite, 'export', 'Second', 'b.csv', '--store', 'other');
    await ok(suite, 'export', 'Second', 'b.jsonl', '--store', 'other');
    same_files(suite, 'a.csv', 'b.csv');
    same_files(suite, 'a.jsonl', 'b.jsonl');
    await ok(suite, 'import', 'Third', 'b.csv');
    await suite.holds('Third',
        suite.text('first.jsonl').trim().split('\n').map(parse_exactly));
  });
}

// Goal: the lines of an export are in the service's order on every store, also
// for characters that UTF-16 and UTF-8 order differently.
async function order(suite) {
  const letters = ['a', '\ud7ff', '\uff41', '\uffe5', '😀', '🚂'];
  const next = random(5);
  const word = () => Array.from({length: 1 + next(3)},
      () => letters[next(letters.length)]).join('');
  await open(suite);
  await suite.judge('an export is ordered by UTF-16 units', async () => {
    const keys = new Map();
    for (let i = 0; i < 300; i++) {
      const [partition, row] = [next(2) ? word() : 'p', word()];
      keys.set(`${partition}\n${row}`, [partition, row]);
    }
    // JavaScript compares texts by UTF-16 units.
    const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;
    const wanted = [...keys.values()]
        .sort((a, b) => compare(a[0], b[0]) || compare(a[1], b[1]));
    fs.writeFileSync(suite.file('keys.jsonl'), [...keys.values()].map((k) =>
      JSON.stringify({PartitionKey: k[0], RowKey: k[1]}) + '\n').join(''));
    for (const store of ['main', 'other']) {
      await ok(suite, 'import', 'Ordered', 'keys.jsonl', '--store', store);
      await ok(suite, 'export', 'Ordered', `${store}.jsonl`, '--store', store);
      assert.deepStrictEqual(suite.text(`${store}.jsonl`).trim().split('\n')
          .map((text) => JSON.parse(text))
          .map((entity) => [entity.PartitionKey, entity.RowKey]), wanted);
    }
  });
}

// Goal: SIGTERM ends each command within 5 s while it waits: here for a service
// that accepts requests and never responds.
async function stop(suite) {
  const silent = net.createServer((socket) => socket.on('error', () => {}));
  await new Promise((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const address = `http://127.0.0.1:${silent.address().port}/devstoreaccount1`;
  await open(suite);
  const options = ['--config', suite.program.configure({
    stores: {main: {azure: {connection_string:
      'DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=' +
      `AAAA;TableEndpoint=${address};QueueEndpoint=${address};`}}},
    jobs: {},
  }, 'silent.yaml')];
  write_lines(suite, 'some.jsonl', 10, random(3));
  for (const args of [['count', 'Blogs'], ['census', 'Blogs'],
    ['export', 'Blogs', 'out.jsonl'], ['export', 'Blogs', 'out.csv'],
    ['import', 'Blogs', 'some.jsonl'], ['tables'],
    ['export', '--all', 'out-all']])
    await suite.judge(`${args.join(' ')} is stopped within 5 s`, async () => {
      const asked = new Promise((resolve) => silent.once('connection', resolve));
      const running = suite.program.start([...options, ...args]);
      await asked;
      const begin = Date.now();
      running.kill('SIGTERM');
      const {code} = await suite.program.end(running, 20000);
      assert.strictEqual(code, 75, running.log);
      assert.ok(Date.now() - begin < 5000, `${Date.now() - begin} ms`);
      assert.match(running.log, /stopped before the end/);
    });
  await suite.judge('nothing is left of an export that was stopped', () =>
      assert.deepStrictEqual(fs.readdirSync(suite.folder)
          .filter((name) => name.startsWith('out')), []));
  silent.close();
}

// Goal: a CSV file as Storage Explorer writes it can be imported, with its
// types and quotes.
async function csv(suite) {
  await open(suite);
  await suite.judge('CSV of Storage Explorer', async () => {
    const rows = Array.from({length: 500}, (_, i) => [
      'p', String(i).padStart(4, '0'), '2024-01-01T00:00:00Z',
      '"a, ""b""\r\nc"', 'String', i, 'Int64', `${i}.5`, 'Double',
      i % 2 ? 'true' : '', i % 2 ? 'Boolean' : '']);
    fs.writeFileSync(suite.file('table.csv'), '\uFEFFPartitionKey,RowKey,' +
        'Timestamp,Title,Title@type,Views,Views@type,Score,Score@type,Live,' +
        'Live@type\r\n' + rows.map((r) => r.join(',') + '\r\n').join(''));
    await ok(suite, 'import', 'Csv', 'table.csv');
    const wanted = rows.map((_, i) => parse_exactly(JSON.stringify({
      'PartitionKey': 'p', 'RowKey': String(i).padStart(4, '0'),
      'Title': 'a, "b"\r\nc', 'Views@odata.type': 'Edm.Int64',
      'Views': String(i), 'Score@odata.type': 'Edm.Double', 'Score': i + 0.5,
      ...(i % 2 ? {Live: true} : {}),
    })));
    await suite.holds('Csv', wanted);
  });
}

module.exports = [
  {name: 'transfer round trip', stores: ['azurite', 'azsim', 'embedded'],
    seconds: 20, body: round_trip(false)},
  {name: 'transfer 200000', stores: ['azsim', 'embedded'], long: true,
    seconds: 120, body: round_trip(true)},
  {name: 'transfer kills', stores: ['azurite', 'azsim', 'embedded'],
    seconds: 30, body: kills},
  {name: 'transfer all tables', stores: ['azurite', 'azsim', 'embedded'],
    seconds: 30, body: all_tables},
  {name: 'transfer conflicts', stores: ['azurite', 'azsim', 'embedded'],
    seconds: 10, body: conflicts},
  {name: 'transfer csv', stores: ['azurite', 'embedded'], seconds: 5,
    body: csv},
  {name: 'transfer csv there and back', stores: ['azurite', 'azsim', 'embedded'],
    seconds: 10, body: csv_round_trip},
  {name: 'transfer order', stores: ['azurite', 'azsim', 'embedded'],
    seconds: 10, body: order},
  {name: 'transfer stop', stores: ['embedded'], seconds: 25, body: stop},
];
