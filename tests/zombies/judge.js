// SPDX-License-Identifier: MIT
// From azsim's log and the workers' notes of what they started: who was
// overtaken, and what came of it.
//
// A claim is a write of the ledger, carried out, with an Owner not seen before.
// A worker's attempt lasts from its claim to the next claim of the run by
// anybody. A request belongs to the last claim its worker had made when it was
// started, and is
//
//   started late   its clock was read for the deadline after the next claim had
//                  taken effect: never allowed. For a program that keeps no
//                  notes: its first byte arrived after that and after the
//                  worker was awake again for AWAKE_US.
//   unasked        sent though the deadline was not asked in the last moment: never
//                  allowed.
//   arrived late   started before, but carried out (or refused) after it: it
//                  was on its way when the worker fell asleep. One a request thread, and
//                  two of the renewer: ledger and message.
//   changed        arrived late and changed something: never allowed, but for
//                  changes of data that were stuck before they reached the
//                  service, where nobody can tell that they are late. They do
//                  what the next attempt is about to do: delete with the ETag
//                  that was read, or put the run's tombstone where no parent
//                  is. These are counted apart, and the tables at the end say
//                  whether it is true. So are those that were past the deadline
//                  when their process was stopped, some 50 us before their
//                  first byte, which then left as it woke: no client can
//                  prevent that.
//
// Whoever lets go of the run (a write of the ledger without an Owner) is not
// overtaken by the next claim, and may still hide or delete its message.
'use strict';

const LEDGER = 'TablewardRuns';
const AWAKE_US = 50000;
// What was past its deadline by its own note may take longer until it is on a
// processor again, where there are few.
const DROWSY_US = 1000000;

// A batch that was refused before it was read has no target, but an Owner.
const is_ledger = (entry) => entry.target === LEDGER || entry.owner !== '';
const is_renewer = (entry) => entry.service === 'queue' || is_ledger(entry);

// claims_of: [{n, worker, at_us, owner}] in order of effect.
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

// notes: request id -> {started_us, bound}, null for a program that keeps none;
// stalls: [{mode, worker, stopped_us, woken_us}].
function judge(log, notes, stalls = []) {
  const claims = claims_of(log);
  const late = {started: [], arrived: [], changed: [], same: [], asleep: [], unasked: []};
  const threads = new Map(); // claim n -> {data, renewer}
  for (const entry of log) {
    if (notes && is_unasked(entry, notes)) {
      late.unasked.push(entry);
      continue;
    }
    const fate = fate_of(entry, claims, notes, stalls, log);
    if (!fate) continue;
    late[fate.kind].push({...entry, ...fate});
    if (fate.kind === 'arrived') {
      if (entry.changed)
        late[class_of(entry, fate, stalls)].push(
            {...entry, ...fate, mode: mode_at(entry, stalls)});
      const used = threads.get(fate.overtaken_n) ||
          {data: 0, renewer: 0, what: []};
      used[is_renewer(entry) ? 'renewer' : 'data']++;
      used.what.push(`${entry.worker} ${entry.method} ${entry.path} ` +
          `(${entry.n}, ${entry.status})`);
      threads.set(fate.overtaken_n, used);
    }
  }
  return {claims, late, threads, overtakings: overtakings_of(claims)};
}

// is_unasked: it came from a worker that keeps notes, and there is none from
// before it came: the deadline was not asked in the last moment.
function is_unasked(entry, notes) {
  const note = notes.get(entry.request_id);
  return entry.worker > 0 && !(note && note.started_us <= entry.arrived_us);
}

// stuck_at: was it stuck on its way, by the test's doing, at that time?
function stuck_at(entry, stalls) {
  return stalls.some((stall) => stall.mode === 'stuck' &&
      stall.worker === entry.worker && stall.began_us < entry.effected_us &&
      entry.arrived_us < stall.woken_us);
}

// was_asleep: past its deadline before the worker was stopped, its first byte
// came as it woke.
function was_asleep(entry, fate, stalls) {
  return stalls.some((stall) => stall.worker === entry.worker &&
      fate.started_us <= stall.stopped_us && stall.woken_us &&
      entry.arrived_us > stall.stopped_us &&
      entry.arrived_us < stall.woken_us + DROWSY_US);
}

// class_of: of what arrived late and changed something.
function class_of(entry, fate, stalls) {
  if (is_renewer(entry)) return 'changed';
  if (stuck_at(entry, stalls)) return 'same';
  return was_asleep(entry, fate, stalls) ? 'asleep' : 'changed';
}

// mode_at: how the worker was stalled last before that took effect.
function mode_at(entry, stalls) {
  return stalls.findLast((stall) => stall.worker === entry.worker &&
      stall.stopped_us < entry.effected_us)?.mode;
}

// let_go: did the worker give the run up between its claim and the next?
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

// is_claim: a try to acquire the lease anew, with an Owner of its own; it is
// bound by the deadline that it would bring itself.
const is_claim = (entry, own) =>
  is_ledger(entry) && entry.owner !== '' && entry.owner !== own.owner;

// fate_of: {kind, overtaken_n}, or null where it was in time.
function fate_of(entry, claims, notes, stalls, log) {
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

// unnoted: what the first byte tells; only changes of data are surely of a run.
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

module.exports = {judge, claims_of, LEDGER};
