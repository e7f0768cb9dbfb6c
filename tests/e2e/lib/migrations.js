// SPDX-License-Identifier: MIT
// The migrations that the scenarios share, and, said plainly, which copy each
// makes of an entity.
'use strict';

const assert = require('assert');
const crypto = require('crypto');
const {differ, key} = require('./model');
const {etags} = require('./runs');
const {typed} = require('./upgrades');

const PROVENANCE = 'TablewardSource';
const CHANNELS = 12;
const MONTHS = 120;
const LAST_TICKS = 3155378975999999999n;
const EPOCH_TICKS = 621355968000000000n;

// ---- blogs of ten years ----

const digits = (n, width) => String(n).padStart(width, '0');

// moment: the time of the n-th, which no other has: one of 120 months, and n
// itself in the ticks.
function moment(n) {
  const month = n * 7 % MONTHS;
  const date = `${2014 + Math.floor(month / 12)}-${digits(month % 12 + 1, 2)}` +
      `-${digits(n % 28 + 1, 2)}T${digits(n % 24, 2)}:${digits(n % 60, 2)}:07`;
  return `${date}.${digits(n + 1, 7)}Z`;
}

// ticks: of a moment, as .NET counts them.
function ticks(time) {
  const [seconds, fraction] = time.slice(0, -1).split('.');
  return EPOCH_TICKS + BigInt(Date.parse(`${seconds}Z`)) * 10000n +
      BigInt((fraction || '').padEnd(7, '0'));
}

const descending = (time) => digits(LAST_TICKS - ticks(time), 19);

const year = (time) => Number(time.slice(0, 4));
const month = (time) => Number(time.slice(5, 7));
const week = (time) => Math.floor((Number(time.slice(8, 10)) - 1) / 7) + 1;

// channel: one of twelve, with names as people give them.
const channel = (n) => ['Football', "Rock'n'Roll", 'Äpfel & ☃', 'a b'][n % 4] +
    digits(n % CHANNELS, 2);

const keys = (n) => ({PartitionKey: channel(n), RowKey: digits(n, 6)});

const NUMBERS = ['NaN', 'Infinity', '-Infinity'];

// blog: the n-th, with all eight types.
const blog = (n, time = moment(n)) => ({
  ...keys(n), Channel: channel(n), Number: n, Title: `On "${n}" \\ ÄÖ \u{1F600}`,
  Text: n % 9 === 0 ? '' : `text of ${n}`, Rating: n % 5 + 1,
  ...typed('Int64', 'Views', String(9223372036854775807n - BigInt(n))),
  ...typed('DateTime', 'CreatedOn', time),
  ...typed('Guid', 'Which', `${n.toString(16).padStart(8, '0')}` +
      '-213d-42c9-9a79-3e9149a57833'),
  ...typed('Double', 'Half', n / 8),
  ...(n % 50 === 3 ? typed('Double', 'Odd', NUMBERS[n % 3]) : {}),
  Busy: n % 3 === 0,
  ...typed('Binary', 'Bytes', Buffer.from(`${n}\0\xff`).toString('base64')),
});

const blogs = (count) => Array.from({length: count}, (_, n) => blog(n));

// ---- key designs: the templates, and what they make ----

const designs = {
  month: {
    templates: {
      partition_key: '{PartitionKey}_{9999 - year(CreatedOn)}_' +
          '{13 - month(CreatedOn):02}',
      row_key: '{3155378975999999999 - ticks(CreatedOn):019}',
    },
    keys: ({PartitionKey, CreatedOn: time}) => [
      `${PartitionKey}_${9999 - year(time)}_${digits(13 - month(time), 2)}`,
      descending(time),
    ],
  },
  back: {
    templates: {partition_key: '{Channel}', row_key: '{Number:06}'},
    keys: ({Channel, Number}) => [Channel, digits(Number, 6)],
  },
  rating: {
    templates: {
      partition_key: '{PartitionKey}',
      row_key: '{Rating}_{3155378975999999999 - ticks(CreatedOn):019}',
    },
    keys: ({PartitionKey, Rating, CreatedOn}) =>
        [PartitionKey, `${Rating}_${descending(CreatedOn)}`],
  },
  // All in one line, the last first.
  line: {
    templates: {
      partition_key: 'all',
      row_key: '{3155378975999999999 - ticks(CreatedOn):019}',
    },
    keys: ({CreatedOn}) => ['all', descending(CreatedOn)],
  },
  // For busy channels by week, else by month.
  week: {
    templates: {
      partition_key: '{PartitionKey}_{9999 - year(CreatedOn)}_' +
          '{13 - month(CreatedOn):02}_{if(Busy, 5 - week(CreatedOn), 9)}',
      row_key: '{RowKey}',
    },
    keys: ({PartitionKey, RowKey, Busy, CreatedOn: time}) => [
      `${PartitionKey}_${9999 - year(time)}_${digits(13 - month(time), 2)}_` +
          `${Busy ? 5 - week(time) : 9}`,
      RowKey,
    ],
  },
  // These depend on nothing but keys, and can never change.
  hash: {
    templates: {
      partition_key: 'h{hash(RowKey, 16):02}', row_key: '{PartitionKey} {RowKey}',
    },
    keys: ({PartitionKey, RowKey}) => {
      const head = crypto.createHash('sha256').update(RowKey).digest();
      return [`h${digits(head.readBigUInt64BE() % 16n, 2)}`,
        `${PartitionKey} ${RowKey}`];
    },
  },
  same: {
    templates: {}, keys: ({PartitionKey, RowKey}) => [PartitionKey, RowKey],
  },
};

// copy_of: what a design makes of an entity.
function copy_of(design, entity) {
  const [PartitionKey, RowKey] = designs[design].keys(entity);
  return {...entity, PartitionKey, RowKey};
}

// ---- jobs ----

// The stores of a bench: where sources are, and where copies go; `cloud` where
// there are two. {name: in the configuration, store, embedded: is it?}
const near = (store) => ({
  name: 'main', store,
  embedded: Object.keys(store.stores().main)[0] === 'embedded',
});
const far = (store) => store.cloud ?
  {name: 'cloud', store: store.cloud, embedded: false} : near(store);

// A worker that gives up no request too early, however busy the machine is: what
// it wrote is then counted to the last.
const PATIENT = {visibility_timeout: '60s'};

// ---- judging ----

// bare: entities as they were read, without where they come from.
const bare = (found, name = PROVENANCE) =>
    found.map(({[name]: _, ...entity}) => entity);

// holds: an error unless a table that was read is made of these, wherever they
// come from.
const holds = (table, entities, found, more) =>
    assert.strictEqual(differ(table, entities, bare(found)), '', more);

// untouched: an error unless these still have the ETags that they had.
function untouched(before, found, entities) {
  const now = etags(found);
  for (const entity of entities)
    assert.strictEqual(now.get(key(entity)), before.get(key(entity)),
        `${key(entity)} was written`);
}

// untold: keys of copies whose provenance does not name that source, with the
// ETag that it has now. sources: as they were read from the service; what is
// embedded shows it another ETag than the worker.
function untold(sources, copies, design, {job, table, embedded}) {
  const of = new Map(sources.map(
      (entity) => [key(copy_of(design, plain(entity))), entity]));
  const wrong = [];
  for (const copy of copies) {
    const source = of.get(key(copy));
    const said = JSON.parse(copy[PROVENANCE] || '{}');
    if (!source || JSON.stringify(said.key) !== key(source) ||
        !(embedded ? said.etag : said.etag === source['odata.etag']) ||
        said.job !== job || said.table !== table)
      wrong.push(`${key(copy)}: ${copy[PROVENANCE]}`);
  }
  return wrong;
}

// plain: what was read, with numbers as designs want them.
const plain = (entity) => ({
  ...entity, Number: Number(entity.Number.text),
  Rating: Number(entity.Rating && entity.Rating.text),
});

// missing_in: lines of entities that a text does not tell of, each by both keys.
const missing_in = (text, entities) => {
  const lines = text.split('\n');
  return entities.filter((e) => !lines.some((line) =>
    line.includes(e.PartitionKey) && line.includes(e.RowKey))).map(key);
};

module.exports = {
  PROVENANCE, PATIENT, moment, ticks, descending, digits, keys, blog, blogs, designs,
  copy_of, near, far, bare, holds, untouched, untold,
  missing_in,
};
