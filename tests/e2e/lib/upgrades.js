// SPDX-License-Identifier: MIT
// Upgrade jobs that several scenarios use, and what each makes of an entity,
// written separately from the product.
'use strict';

const PARTITIONS = 40;

const typed = (type, name, value) =>
    ({[`${name}@odata.type`]: `Edm.${type}`, [name]: value});

// ---- the jobs ----

const step = (what, property, more) => ({[what]: {property, ...more}});

const steps_to_2 = [
  step('add', 'Language', {type: 'Edm.String', value: 'en'}),
  step('add', 'Slug', {type: 'Edm.String', value: '{lower(Title)}'}),
  step('set', 'Checked', {type: 'Edm.Boolean', value: false}),
  step('rename', 'Text', {to: 'Body'}),
  step('retype', 'Rating', {to: 'Edm.Double'}),
  step('retype', 'Price', {to: 'Edm.Int64'}),
  step('retype', 'Published', {to: 'Edm.DateTime'}),
  step('retype', 'Token', {to: 'Edm.Guid'}),
  step('remove', 'Legacy'),
];

// Constants of all eight types, and steps that need the steps before them.
const steps_to_3 = [
  step('rename', 'Body', {to: 'Content'}),
  step('retype', 'Views', {to: 'Edm.String', to_property: 'ViewsText'}),
  step('retype', 'CreatedOn', {to: 'Edm.String', to_property: 'Created'}),
  step('add', 'NewText', {type: 'Edm.String', value: '{Language}: {Content}'}),
  step('add', 'NewYes', {type: 'Edm.Boolean', value: true}),
  step('add', 'NewInt', {type: 'Edm.Int32', value: -2147483648}),
  step('add', 'NewLong', {type: 'Edm.Int64', value: '9223372036854775807'}),
  step('add', 'NewReal', {type: 'Edm.Double', value: 1}),
  step('add', 'NewTime',
      {type: 'Edm.DateTime', value: '2024-02-29T23:59:59.9999999Z'}),
  step('add', 'NewGuid',
      {type: 'Edm.Guid', value: '0c9d6455-213d-42c9-9a79-3e9149a57833'}),
  step('add', 'NewBytes', {type: 'Edm.Binary', value: 'AAEC/v8='}),
  step('remove', 'Checked'),
];

// document: returns `version` and `versions` of a job with one version, 2, and
// these steps.
const document = (steps) => ({
  version: {property: 'SchemaVersion', absent: 1}, versions: [{to: 2, steps}],
});

// upgrade: returns a job that upgrades the blogs of a table to version 2 or 3.
const upgrade = (table, to, more = {}) => ({
  kind: 'schema-upgrade', table, filter: "EntityType eq 'Blog'",
  version: {property: 'SchemaVersion', absent: 1},
  versions: [{to: 2, steps: steps_to_2}, {to: 3, steps: steps_to_3}]
      .filter((version) => version.to <= to),
  ...more,
});

// ---- entities ----

// two: formats n with two digits.
const two = (n) => String(n).padStart(2, '0');

// moment: returns a time with seven decimals, different for each n.
const moment = (n) => `20${two(n % 30)}-${two(n % 12 + 1)}-${two(n % 28 + 1)}` +
    `T${two(n % 24)}:${two(n % 60)}:07.${1000000 + n % 1000000}`.slice(0, -1) +
    `${n % 9 + 1}Z`;

// guid: returns a GUID in lower case, as the service writes it.
const guid = (n) => `${n.toString(16).padStart(8, '0')}` +
    '-213d-42c9-9a79-3e9149a57833';

// partition: returns one of forty PartitionKeys.
const partition = (n) => `p${two(n % PARTITIONS)}`;

// keys: returns the keys of the n-th entity.
const keys = (n) => ({
  PartitionKey: partition(n), RowKey: String(n).padStart(6, '0'),
});

// blog: returns the n-th blog as of version 1, without the version property.
const blog = (n) => ({
  ...keys(n), EntityType: 'Blog', Title: `On BLOG ${n} ÄÖ ☃`,
  Text: `text ${n} "q" \\ \u{1F600}`, Rating: n % 11 - 5,
  ...typed('Int64', 'Views', String(9223372036854775807n - BigInt(n))),
  Price: String(-9223372036854775808n + BigInt(n)),
  ...typed('DateTime', 'CreatedOn', moment(n)), Published: moment(n + 1),
  ...typed('Guid', 'Which', guid(n)), Token: guid(n + 1),
  ...typed('Double', 'Half', n / 8), Yes: n % 2 === 0,
  ...typed('Binary', 'Bytes', Buffer.from(`${n}\0\xff`).toString('base64')),
  Legacy: 'old',
  ...(n % 5 === 0 ? {Language: 'fr'} : {}),
  ...(n % 7 === 0 ? {Checked: 'not a Boolean'} : {}),
});

const with_version = (entity, version) =>
    ({...entity, SchemaVersion: version});

// to_2: applies the steps of version 2 to a blog.
function to_2(entity) {
  const {Text, Legacy, 'SchemaVersion@odata.type': _, ...kept} = entity;
  const lower = (text) => text.replace(/[A-Z]/g, (c) => c.toLowerCase());
  return {
    Language: 'en', Slug: lower(entity.Title), ...kept,
    Checked: false, Body: Text, ...typed('Double', 'Rating', entity.Rating),
    ...typed('Int64', 'Price', entity.Price),
    ...typed('DateTime', 'Published', entity.Published),
    ...typed('Guid', 'Token', entity.Token), SchemaVersion: 2,
  };
}

// to_3: applies the steps of version 3 to a blog at version 2.
function to_3(entity) {
  const {
    Body, Checked, Views, 'Views@odata.type': _, CreatedOn,
    'CreatedOn@odata.type': __, ...kept
  } = entity;
  return {
    ...kept, Content: Body, ViewsText: Views, Created: CreatedOn,
    NewText: `${entity.Language}: ${Body}`, NewYes: true, NewInt: -2147483648,
    ...typed('Int64', 'NewLong', '9223372036854775807'),
    ...typed('Double', 'NewReal', 1),
    ...typed('DateTime', 'NewTime', '2024-02-29T23:59:59.9999999Z'),
    ...typed('Guid', 'NewGuid', '0c9d6455-213d-42c9-9a79-3e9149a57833'),
    ...typed('Binary', 'NewBytes', 'AAEC/v8='), SchemaVersion: 3,
  };
}

// The entities of a table: `at` is the version, make(n) makes the n-th blog.
const VERSIONS = [
  {at: 1, make: (n) => blog(n)},
  {at: 1, make: (n) => with_version(blog(n), 1)},
  {at: 1, make: (n) => ({...blog(n), ...typed('Int64', 'SchemaVersion', '1')})},
  {at: 1, make: (n) => ({...blog(n), ...typed('Double', 'SchemaVersion', 1)})},
  {at: 2, make: (n) => to_2(blog(n))},
  {at: 3, make: (n) => to_3(to_2(blog(n)))},
  {at: 'other', make: (n) => with_version(blog(n), 7)},
  {at: 'other', make: (n) => with_version(blog(n), '1')},
];

// mixed: returns the n-th entity, and its version, of a table that has blogs of
// all versions and entities of other kinds.
function mixed(n) {
  const {at, make} =
      VERSIONS[(n + Math.floor(n / PARTITIONS)) % VERSIONS.length];
  const entity = make(n);
  if (n % 13 === 4)
    return {at: 'other', entity: {...entity, EntityType: 'Note'}};
  if (n % 13 !== 7) return {at, entity};
  const {EntityType, ...untyped} = entity;
  return {at: 'other', entity: untyped};
}

// raised: applies all versions of the job to an entity of mixed().
function raised({at, entity}) {
  const second = at === 1 ? to_2(entity) : entity;
  return at === 1 || at === 2 ? to_3(second) : second;
}

module.exports = {
  step, document, upgrade, typed, partition, keys, blog, with_version, to_2, mixed, raised,
};
