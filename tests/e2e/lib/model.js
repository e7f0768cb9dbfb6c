// SPDX-License-Identifier: MIT
// What the tables must hold, said plainly: a map of tables to maps of
// entities. An entity is an object in the service's own JSON, as import and
// export have it ("Views@odata.type": "Edm.Int64", "Views": "123").
'use strict';

const assert = require('assert');

const key = (entity) =>
    JSON.stringify([entity.PartitionKey, entity.RowKey]);

// A number as it was written, so that 1 and 1.0 stay different.
class Written {
  constructor(text) {
    this.text = text;
  }
}

// parse_exactly: JSON.parse, but numbers keep their text.
function parse_exactly(text) {
  const marked = text.replace(
      /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g,
      (token) => token[0] === '"' ? token : `{"\\u0000number":"${token}"}`);
  return JSON.parse(marked, (_, value) => {
    const number = value && typeof value === 'object' && value['\0number'];
    return number ? new Written(number) : value;
  });
}

// canonical: one text for one entity, whatever the order of its properties
// and however its types are annotated; the service's own properties apart.
function canonical(entity) {
  const facts = [];
  for (const [name, value] of Object.entries(entity)) {
    if (name.startsWith('odata.') || name.endsWith('@odata.type')) continue;
    if (name === 'Timestamp') continue;
    facts.push([name, ...typed(entity[`${name}@odata.type`], value)]);
  }
  return JSON.stringify(facts.sort((a, b) => (a[0] < b[0] ? -1 : 1)));
}

function typed(type, value) {
  if (typeof value === 'boolean') return ['Edm.Boolean', value];
  if (value instanceof Written || typeof value === 'number') {
    const text = value instanceof Written ? value.text : String(value);
    const real = type === 'Edm.Double' || /[.eE]/.test(text);
    return [real ? 'Edm.Double' : 'Edm.Int32', Number(text)];
  }
  if (type === 'Edm.DateTime')
    return [type, value.replace(/\.?0*Z$/, 'Z')];
  return [type || 'Edm.String', value];
}

class Model {
  tables = new Map();

  table(name) {
    if (!this.tables.has(name)) this.tables.set(name, new Map());
    return this.tables.get(name);
  }

  put(table, entity, owner) {
    this.table(table).set(key(entity), {entity, owner});
  }

  // remove: every entity of the table for which `which` holds; returns them.
  remove(table, which) {
    const gone = [];
    for (const [at, {entity}] of this.table(table))
      if (which(entity)) {
        this.table(table).delete(at);
        gone.push(entity);
      }
    return gone;
  }

  // compare: [{table, entity, owner, what}] for all that `read` (entities of
  // one table) has too much, too little or different.
  compare(table, read, owners) {
    const found = new Map(read.map((entity) => [key(entity), entity]));
    const differences = [];
    const say = (at, what) => differences.push(
        {table, key: at, what, owner: owners.get(`${table}${at}`)});
    for (const [at, {entity}] of this.table(table)) {
      if (!found.has(at))
        say(at, 'is gone');
      else if (canonical(entity) !== canonical(found.get(at)))
        say(at, `differs: ${canonical(found.get(at)).slice(0, 300)} ` +
            `instead of ${canonical(entity).slice(0, 300)}`);
    }
    for (const at of found.keys())
      if (!this.table(table).has(at)) say(at, 'is still there');
    return differences;
  }
}

// differ: up to three ways in which a table that was read is not made of these
// entities, as a text.
function differ(table, entities, found) {
  const model = new Model();
  model.table(table);
  for (const entity of entities) model.put(table, entity);
  return model.compare(table, found, new Map()).slice(0, 3)
      .map((d) => `${d.key} ${d.what}`).join('\n');
}

// holds: an error unless a table that was read is made of these entities.
const holds = (table, entities, found, more) =>
    assert.strictEqual(differ(table, entities, found), '', more);

// bare: entities as they were read, without what a job keeps in that property.
const bare = (found, name = 'TablewardSource') =>
    found.map(({[name]: _, ...entity}) => entity);

// list: `count` of what make(n) makes.
const list = (count, make) => Array.from({length: count}, (_, n) => make(n));

module.exports = {
  Model, differ, holds, bare, list, key, canonical, parse_exactly, Written,
};
