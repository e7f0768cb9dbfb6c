// SPDX-License-Identifier: MIT
// Secrets that no output of the program may show: the keys of all accounts and
// all access tokens. Each output of each process is searched for all of them.
'use strict';

const known = new Set();
const hits = [];
let outputs = 0;

// keep: adds a secret that a process will be given.
function keep(secret) {
  if (secret.length >= 16) known.add(secret);
}

// search: searches the output of a process and its command line.
function search(where, ...texts) {
  outputs++;
  for (const secret of known)
    for (const text of texts)
      if (text.includes(secret) || text.includes(encodeURIComponent(secret)))
        hits.push(`${where} shows a secret: ${around(text, secret)}`);
}

// Returns the line that shows the secret, with "..." in its place.
function around(text, secret) {
  const line = text.split('\n').find((l) => l.includes(secret)) || '';
  return line.replaceAll(secret, '...').slice(0, 200);
}

module.exports = {
  keep, search, hits, outputs: () => outputs, count: () => known.size};
