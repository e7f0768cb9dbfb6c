// SPDX-License-Identifier: MIT
// What the tables must contain: a map of tables to maps of entities. An entity
// is an object in the service's JSON, as import and export have it
// ("Views@odata.type": "Edm.Int64", "Views": "123").
'use strict';

const assert = require('assert');

const key = (entity) =>
    JSON.stringify([entity.PartitionKey, entity.RowKey]);

// The text of a number, so that 1 and 1.0 remain different.
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

// canonical: returns a text that is the same for equal entities. It does not
// depend on the order of the properties, on Timestamp or on annotations; a type
// counts even if no annotation names it.
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

  // remove: removes every entity of the table for which which(entity) is true;
  // returns them.
  remove(table, which) {
    const gone = [];
    for (const [at, {entity}] of this.table(table))
      if (which(entity)) {
        this.table(table).delete(at);
        gone.push(entity);
      }
    return gone;
  }

  // compare: compares a table of the model with `read`, the entities that were
  // read from the table. Returns the differences [{table, key, what, owner}]:
  // entities that are missing, different or superfluous.
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

// differ: returns, as a text, up to three differences between `entities` and
// `found`, the entities that were read from a table.
function differ(table, entities, found) {
  const model = new Model();
  model.table(table);
  for (const entity of entities) model.put(table, entity);
  return model.compare(table, found, new Map()).slice(0, 3)
      .map((d) => `${d.key} ${d.what}`).join('\n');
}

// holds: throws unless `found`, the entities that were read from a table, are
// equal to `entities`.
const holds = (table, entities, found, more) =>
    assert.strictEqual(differ(table, entities, found), '', more);

// bare: the entities that were read, without the property in which a job keeps
// its own data.
const bare = (found, name = 'TablewardSource') =>
    found.map(({[name]: _, ...entity}) => entity);

// list: returns [make(0), ..., make(count - 1)].
const list = (count, make) => Array.from({length: count}, (_, n) => make(n));

module.exports = {
  Model, differ, holds, bare, list, key, canonical, parse_exactly, Written,
};
