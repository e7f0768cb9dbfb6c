// SPDX-License-Identifier: MIT
// Finds, in azsim's log and in the workers' notes of the requests that they
// started, the attempts that lost their lease to another ("overtaken"), and
// what their requests did afterwards.
//
// A claim is a write that acquires the lease: a write to the ledger that was
// carried out with an Owner not seen before. A worker's attempt lasts from its
// claim to the next claim of the run by any worker. A request belongs to the
// last claim that its worker had made when the request was started. A request
// is
//
//   started late   if its deadline was last checked after the next claim had
//                  taken effect: never allowed. If the program keeps no notes:
//                  if its first byte arrived after that claim, and more than
//                  AWAKE_US after the worker was awake again.
//   unasked        if it was sent although the deadline was not checked at the
//                  last moment: never allowed.
//   arrived late   if it was started before the next claim, but carried out (or
//                  refused) after it: it was on its way when the worker fell
//                  asleep. Allowed: one for each request thread, and two of the
//                  renewer (ledger and message).
//   changed        if it arrived late and changed something: never allowed,
//                  except for two groups of changes of data, which are counted
//                  apart:
//                  - The request was stuck before it reached the service. The
//                    service cannot tell that it is late.
//                  - The request had passed the last check of the deadline when
//                    its process was stopped, some 50 us before its first byte
//                    left. The byte left when the process woke. No client can
//                    prevent that.
//                  A request of these groups does what the next attempt is
//                  about to do: it deletes with the ETag that was read, or
//                  inserts the run's tombstone where there is no parent. The
//                  tables at the end show whether this is true.
//
// A worker that releases the run (a write to the ledger without an Owner) is
// not overtaken by the next claim, and may still hide or delete its message.
'use strict';

const LEDGER = 'TablewardRuns';
const AWAKE_US = 50000;
// A request whose note says that it had passed the check of its deadline may
// take longer until its thread runs again, if there are few processors.
const DROWSY_US = 1000000;

// A batch that was refused before it was read has no target, but it has an
// Owner.
const is_ledger = (entry) => entry.target === LEDGER || entry.owner !== '';
const is_renewer = (entry) => entry.service === 'queue' || is_ledger(entry);

// claims_of: returns the claims [{n, worker, at_us, owner}] in the order in
// which they took effect.
function claims_of(log) {
  const seen = new Set();
  return log.filter((entry) => {
    if (!is_ledger(entry) || !entry.changed || entry.owner === '' ||
        seen.has(entry.owner))
      return false;
    seen.add(entry.owner);
    return true;
  }).map(({n, worker, effected_us, owner}) =>
    ({n, worker, at_us: effected_us, owner}));
}

// judge: returns the claims, the late requests by kind, the threads of each
// overtaking, and the number of overtakings. notes: request id -> {started_us,
// bound}, or null for a program that keeps no notes; stalls: [{mode, worker,
// stopped_us, woken_us}].
function judge(log, notes, stalls = []) {
  const claims = claims_of(log);
  const late = {started: [], arrived: [], changed: [], same: [], asleep: [], unasked: []};
  // n of the next claim -> the late requests, {data, renewer, what}.
  const threads = new Map();
  for (const entry of log) {
    if (notes && is_unasked(entry, notes)) {
      late.unasked.push(entry);
      continue;
    }
    const lateness = lateness_of(entry, claims, notes, stalls, log);
    if (!lateness) continue;
    late[lateness.kind].push({...entry, ...lateness});
    if (lateness.kind === 'arrived') {
      if (entry.changed)
        late[class_of(entry, lateness, stalls)].push(
            {...entry, ...lateness, mode: mode_at(entry, stalls)});
      const used = threads.get(lateness.overtaken_n) ||
          {data: 0, renewer: 0, what: []};
      used[is_renewer(entry) ? 'renewer' : 'data']++;
      used.what.push(`${entry.worker} ${entry.method} ${entry.path} ` +
          `(${entry.n}, ${entry.status})`);
      threads.set(lateness.overtaken_n, used);
    }
  }
  return {claims, late, threads, overtakings: overtakings_of(claims)};
}

// is_unasked: true if the request came from a worker that keeps notes, but no
// note of the request was made before it arrived: the deadline was not checked
// at the last moment.
function is_unasked(entry, notes) {
  const note = notes.get(entry.request_id);
  return entry.worker > 0 && !(note && note.started_us <= entry.arrived_us);
}

// stuck_at: true if the test had stopped the request on its way at that time.
function stuck_at(entry, stalls) {
  return stalls.some((stall) => stall.mode === 'stuck' &&
      stall.worker === entry.worker && stall.began_us < entry.effected_us &&
      entry.arrived_us < stall.woken_us);
}

// was_asleep: true if the request had passed the last check of its deadline
// before the worker was stopped, and its first byte arrived when the worker
// woke.
function was_asleep(entry, lateness, stalls) {
  return stalls.some((stall) => stall.worker === entry.worker &&
      lateness.started_us <= stall.stopped_us && stall.woken_us &&
      entry.arrived_us > stall.stopped_us &&
      entry.arrived_us < stall.woken_us + DROWSY_US);
}

// class_of: returns the class of a request that arrived late and changed
// something.
function class_of(entry, lateness, stalls) {
  if (is_renewer(entry)) return 'changed';
  if (stuck_at(entry, stalls)) return 'same';
  return was_asleep(entry, lateness, stalls) ? 'asleep' : 'changed';
}

// mode_at: returns how the worker was last stalled before the request took
// effect.
function mode_at(entry, stalls) {
  return stalls.findLast((stall) => stall.worker === entry.worker &&
      stall.stopped_us < entry.effected_us)?.mode;
}

// let_go: true if the worker released the run between its claim and the next.
function let_go(log, worker, from_n, to_n) {
  return log.some((entry) => entry.n > from_n && entry.n < to_n &&
      entry.worker === worker && is_ledger(entry) && entry.changed &&
      entry.owner === '');
}

function overtakings_of(claims) {
  let count = 0;
  for (let i = 1; i < claims.length; i++)
    if (claims[i].worker !== claims[i - 1].worker) count++;
  return count;
}

// is_claim: true if the request tries to acquire the lease with a new Owner; it
// is bound by the deadline of the lease that it would acquire.
const is_claim = (entry, own) =>
  is_ledger(entry) && entry.owner !== '' && entry.owner !== own.owner;

// lateness_of: returns {kind, overtaken_n}, or null if the request was in time.
function lateness_of(entry, claims, notes, stalls, log) {
  const note = notes ? notes.get(entry.request_id) : unnoted(entry, stalls);
  if (!note || !note.bound) return null;
  let own = -1;
  for (let i = 0; i < claims.length && claims[i].at_us <= note.started_us; i++)
    if (claims[i].worker === entry.worker) own = i;
  if (own < 0 || own + 1 === claims.length) return null;
  const next = claims[own + 1];
  if (entry.n < next.n || is_claim(entry, claims[own])) return null;
  if (is_renewer(entry) && let_go(log, entry.worker, claims[own].n, next.n))
    return null;
  if (note.started_us > next.at_us)
    return {kind: 'started', overtaken_n: next.n, started_us: note.started_us,
      after_us: note.started_us - next.at_us};
  return {kind: 'arrived', overtaken_n: next.n, started_us: note.started_us};
}

// unnoted: returns a note made from the arrival of the first byte; null: the
// request is no change of data. Only a change of data surely belongs to a run.
function unnoted(entry, stalls) {
  if (entry.service !== 'table' || is_ledger(entry)) return null;
  const woken = stalls.filter((s) => s.worker === entry.worker &&
      s.stopped_us <= entry.arrived_us).pop();
  const just_woken = woken && entry.arrived_us < woken.woken_us + AWAKE_US;
  return {
    bound: true,
    started_us: just_woken ? woken.stopped_us : entry.arrived_us,
  };
}

module.exports = {judge, claims_of};
