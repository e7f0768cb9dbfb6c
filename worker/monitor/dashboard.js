// SPDX-License-Identifier: MIT
// The dashboard: every few seconds, asks the worker for the data to show, and
// puts every text into the page as text, never as HTML. Lists are changed row
// by row, so that focus, selection and opened details stay where they are.
'use strict';

const EVERY_MS = 3000;
const HISTORY_EVERY_MS = 10000;
const PENDING_MIN_MS = 20, PENDING_MAX_MS = 160;
const PATIENCE_MS = 30000;
const PAGE = 100;
const SHOWN = {running: 200, held: 100, waiting: 50, paused: 100, queued: 20};

const $ = (id) => document.getElementById(id);
const page = {
  token: sessionStorage.getItem('token') || '', read_only: true, skew_ms: 0,
  seen: '', overview: null, runs: [], next: '', runs_at: 0, shown_run: null,
  samples: [], asked: null,
};

// ---- texts ----

// visible: return text with control characters, changes of the writing
// direction and the like replaced by \uXXXX.
function visible(text, lines = false) {
  return String(text).replace(/[\p{C}\u2028\u2029]/gu, (c) =>
    lines && c === '\n' ? c :
    `\\u${c.codePointAt(0).toString(16).padStart(4, '0')}`);
}

const number = (n) => Number(n).toLocaleString('en-US');
const now_ms = () => Date.now() + page.skew_ms;

function duration(seconds) {
  if (seconds < 1) return 'under 1 s';
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

const age = (time) => duration(Math.max(0, (now_ms() - Date.parse(time)) / 1000));

const speed_of = (rate) => rate >= 10 || rate === 0 ?
  number(Math.round(rate)) : rate.toFixed(1);
const rate_of = (rate) => `${speed_of(rate)}/s`;

// arguments_of: return the arguments of a run as on the command line, such as
// channel=Football.
function arguments_of(run) {
  try {
    return Object.entries(JSON.parse(run.Args || '{}'))
        .map(([name, value]) => `${name}=${value}`).join(' ');
  } catch {
    return run.Args; // it was cut
  }
}

function state_of(run) {
  if (run.Held) return `held: ${run.WaitsFor}`;
  if (run.Expired) return 'running: lease expired';
  if (run.State === 'waiting' && run.WaitsFor) return `waiting: ${run.WaitsFor}`;
  return run.State;
}

const class_of = (run) => run.Held ? 'held' : run.Expired ? 'expired' : run.State;

// ---- elements ----

// h: create an element: h('p', {class: 'soft'}, 'text', child, ...).
function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (key === 'onclick') element.addEventListener('click', value);
    else if (value !== null) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function put(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

// sync: make one child of list for each of items, in their order, with as few
// changes as possible. create() makes an element, update(element, item) fills
// it. If an element that is removed has the focus, `heading` gets it.
function sync(list, items, key_of, create, update, heading) {
  const old = new Map();
  for (const child of list.children) old.set(child.dataset.key, child);
  let at = list.firstElementChild;
  for (const item of items) {
    const key = key_of(item);
    let element = old.get(key);
    if (element) old.delete(key);
    else {
      element = create(item);
      element.dataset.key = key;
    }
    if (element === at) at = at.nextElementSibling;
    else list.insertBefore(element, at);
    update(element, item);
  }
  for (const element of old.values()) {
    const focused = element.contains(document.activeElement);
    element.remove();
    if (focused && heading) heading.focus();
  }
}

function time_element(time) {
  const date = new Date(time);
  return h('time', {datetime: date.toISOString(), title: date.toISOString()},
      `${age(time)} ago`);
}

function say(text, bad = false) {
  const line = h('div', bad ? {class: 'bad'} : {}, visible(text));
  $('said').replaceChildren(line);
  setTimeout(() => line.remove(), 15000);
}

// ---- requests ----

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// answer_of: return the JSON of a response; throw an Error with the reason if
// the request failed.
async function answer_of(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    body = {Error: `the worker answered with status ${response.status}`};
  }
  if (response.ok) return body;
  throw Object.assign(new Error(body.Error), {status: response.status});
}

// get: request path until the answer has come, and return its JSON. The worker
// responds with 202 until it has found the answer, which takes some milliseconds
// or, with a slow store, seconds.
async function get(path) {
  const until = Date.now() + PATIENCE_MS;
  let wait_ms = PENDING_MIN_MS;
  for (;;) {
    const response = await fetch(path, {cache: 'no-store'});
    const date = Date.parse(response.headers.get('Date'));
    if (date && Math.abs(date - Date.now()) > 2000)
      page.skew_ms = date - Date.now();
    const body = await answer_of(response);
    if (response.status !== 202) return body;
    if (Date.now() > until) throw new Error('the worker has not answered yet');
    await sleep(wait_ms);
    wait_ms = Math.min(2 * wait_ms, PENDING_MAX_MS);
  }
}

async function post(path, body, token = page.token) {
  return await answer_of(await fetch(path, {
    method: 'POST', cache: 'no-store', body: JSON.stringify(body),
    headers: {
      'Content-Type': 'application/json', 'X-Tableward': '1',
      'Authorization': `Bearer ${token}`,
    },
  }));
}

// ---- changes ----

function lock() {
  page.token = '';
  sessionStorage.removeItem('token');
  render_access();
}

async function change(name, run) {
  const path = `/api/${name}`;
  try {
    let done = await post(path, {Job: run.Job, Id: run.Id});
    if (done.Pending) done = await get(`/api/outcome?of=${done.Pending}`);
    return done.Done;
  } catch (error) {
    if (error.status === 401) lock();
    throw error;
  }
}

const QUESTIONS = {
  drop: ['Drop', 'A dropped run is not tried again: its message is removed, ' +
    'and the ledger keeps why it failed.'],
  cancel: ['Cancel', 'The run ends for good. What it has done stays done.'],
};

// confirmed: can the change be taken back, or has the person agreed to it? The
// event `close` comes some time after a dialog was closed, so first wait until
// the event of an earlier question has come.
async function confirmed(name, runs) {
  if (!QUESTIONS[name]) return true;
  while (page.asked) await page.asked;
  const [verb, text] = QUESTIONS[name];
  const what = runs.length > 1 ? `${runs.length} runs` : `run ${runs[0].Id}`;
  put($('confirm-title'), `${verb} ${what}?`);
  put($('confirm-text'), text);
  put($('confirm-yes'), `${verb} ${runs.length > 1 ? 'them' : 'it'}`);
  const dialog = $('confirm-dialog');
  dialog.returnValue = 'no';
  dialog.showModal();
  $('confirm-no').focus();
  page.asked = new Promise((resolve) => dialog.addEventListener('close',
      () => {
        page.asked = null;
        resolve(dialog.returnValue === 'yes');
      }, {once: true}));
  return await page.asked;
}

async function change_all(name, runs) {
  if (!await confirmed(name, runs)) return;
  let done = 0, last = '';
  try {
    for (const run of runs) {
      last = await change(name, run);
      done++;
    }
    say(runs.length > 1 ? `${done} runs: ${name} is done.` : last);
  } catch (error) {
    say((done > 0 ? `Done before the error: ${done}. ` : '') + error.message,
        true);
  }
  page.runs_at = 0;
  await refresh();
  if ($('run-dialog').open) await load_run();
}

const changes_of = (run) =>
  run.Job === '-import' ? [] :
  run.State === 'failed' || run.State === 'poisoned' ? ['retry', 'drop'] :
  run.State === 'paused' ? ['resume', 'cancel'] :
  run.WaitsFor === 'definition' ? ['resume', 'pause', 'cancel'] :
  ['queued', 'running', 'waiting'].includes(run.State) ?
    [...(run.Follows && !run.Finish ? ['finish'] : []), 'pause', 'cancel'] : [];

// render_actions: show the buttons for what can be done with a run.
function render_actions(element, run) {
  const names = page.token ? changes_of(run) : [];
  element.run = run;
  if (element.dataset.names === names.join()) return;
  element.dataset.names = names.join();
  element.replaceChildren(...names.map((name) => h('button', {
    'type': 'button', 'class': QUESTIONS[name] ? 'danger' : null,
    'aria-label': `${name} run ${run.Id}`,
    'onclick': () => change_all(name, [element.run]),
  }, name[0].toUpperCase() + name.slice(1))));
}

// ---- one run ----

const NAMES = [
  ['Kind'], ['Queue'], ['PoisonQueue', 'Poison queue'], ['Phase'], ['Worker'],
  ['Control', 'Asked for'], ['Attempt', 'Attempts'], ['Failures'], ['Rounds'],
  ['Done', 'Written and deleted'], ['EntitiesRead', 'Read'],
  ['EntitiesWritten', 'Written'], ['EntitiesDeleted', 'Deleted'],
  ['EntitiesSkipped', 'Skipped'], ['EntitiesFailed', 'Failed'], ['Behind'],
  ['Transactions'], ['Throttled'], ['RequestedAt', 'Requested'],
  ['StartedAt', 'Started'], ['UpdatedAt', 'Updated'],
  ['WaitsSince', 'Waits since'], ['ResumesAt', 'Resumes'],
  ['CaughtUpTo', 'Caught up to'], ['FinishedAt', 'Ended'],
  ['Traceparent', 'Trace'],
];

const value_of = (value) => typeof value === 'number' ? number(value) :
  /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value) ?
    `${value.slice(0, 10)} ${value.slice(11, 19)} UTC` : value;

function section_of(title, text) {
  return text ? [h('h3', {}, title), h('pre', {tabindex: '0', role: 'group',
    'aria-label': title}, visible(text, true))] : [];
}

function render_run(run) {
  const list = h('dl', {}, h('dt', {}, 'State'),
      h('dd', {}, h('span', {class: `state ${class_of(run)}`},
          visible(state_of(run)))));
  const add = (name, value) => list.append(
      h('dt', {}, name), h('dd', {}, visible(value)));
  if (run.Args) add('Arguments', arguments_of(run));
  if (run.Share !== undefined) add('Share', `${(100 * run.Share).toFixed(1)} %`);
  if (run.Rate !== undefined) add('Rate', rate_of(run.Rate));
  if (run.LeftSeconds !== undefined) add('Time left', duration(run.LeftSeconds));
  for (const [name, title] of NAMES)
    if (run[name] !== undefined && run[name] !== 0 && run[name] !== '')
      add(title || name, value_of(run[name]));
  put($('run-title'), `${run.Job} / ${run.Id}`);
  $('run-body').replaceChildren(list, ...section_of('Reason', run.Error),
      ...section_of('Note', run.Note),
      ...section_of('Failed entities', run.FailedEntities),
      ...section_of('Message', run.Message),
      ...section_of('Message is not shown', run.MessageError));
  render_actions($('run-actions'), run);
}

async function load_run() {
  const {Job, Id} = page.shown_run;
  try {
    render_run(await get(`/api/run?job=${encodeURIComponent(Job)}` +
      `&id=${encodeURIComponent(Id)}`));
  } catch (error) {
    $('run-body').replaceChildren(
        h('p', {class: 'bad'}, visible(error.message)));
  }
}

function open_run(run) {
  page.shown_run = run;
  put($('run-title'), `${run.Job} / ${run.Id}`);
  $('run-body').replaceChildren(h('p', {class: 'soft'}, 'Reading the run.'));
  render_actions($('run-actions'), {State: ''});
  $('run-dialog').showModal();
  $('run-title').focus();
  load_run();
}

function name_button(run) {
  const button = h('button', {
    'type': 'button', 'class': 'name id',
    'aria-label': `Details of run ${run.Id}`,
    'onclick': () => open_run(button.run),
  }, visible(run.Id));
  button.run = run;
  return button;
}

// ---- lists of runs ----

const key_of = (run) => `${run.Job}/${run.Id}`;

function create_item(run) {
  const item = h('li');
  item.parts = {
    state: h('span', {class: 'state'}), job: h('strong'),
    args: h('span', {class: 'args'}), name: name_button(run),
    share: h('div', {class: 'share'}), why: h('div', {class: 'why'}),
    facts: h('div', {class: 'facts'}), actions: h('div', {class: 'actions'}),
  };
  const {state, job, args, name, share, why, facts, actions} = item.parts;
  share.append(h('progress', {max: '1', 'aria-label': `Share of ${run.Id}`}),
      h('span'));
  item.append(h('div', {class: 'head'}, state, job, args, name), share, why,
      facts, actions);
  return item;
}

function facts_of(run) {
  const facts = [];
  const running = run.State === 'running';
  if (run.Control) facts.push(`asked to ${run.Control}`);
  if (run.Done > 0) facts.push(`${number(run.Done)} done`);
  if (running && run.Rate !== undefined) facts.push(rate_of(run.Rate));
  if (running && run.LeftSeconds !== undefined)
    facts.push(`about ${duration(run.LeftSeconds)} left`);
  if (run.Throttled > 0) facts.push(`${number(run.Throttled)} refusals`);
  if (run.Expired)
    facts.push(`the lease of ${run.Worker} has expired: that worker was ` +
      'killed, hangs or cannot reach the ledger; any worker takes the run over');
  else if (running && run.UpdatedAt)
    facts.push(`lease renewed ${age(run.UpdatedAt)} ago by ${run.Worker}`);
  else if (run.WaitsSince && run.State === 'waiting')
    facts.push(`has waited for ${age(run.WaitsSince)}`);
  else if (run.FinishedAt) facts.push(`ended ${age(run.FinishedAt)} ago`);
  else if (run.RequestedAt) facts.push(`requested ${age(run.RequestedAt)} ago`);
  return facts;
}

function update_item(item, run, why = run.Error || run.Note || '') {
  const {state, job, args, name, share, actions, facts} = item.parts;
  const shared = run.Share >= 0 && run.Share <= 1 && !run.FinishedAt;
  put(state, state_of(run));
  state.className = `state ${class_of(run)}`;
  put(job, run.Job);
  put(args, arguments_of(run));
  name.run = run;
  show(share, shared);
  if (shared) {
    share.firstChild.value = run.Share;
    put(share.lastChild, `${Math.floor(100 * run.Share)} %`);
  }
  put(item.parts.why, why);
  put(facts, facts_of(run).join(' · '));
  render_actions(actions, run);
}

function render_open(overview) {
  const groups = {running: [], held: [], waiting: [], paused: [], queued: []};
  const other = []; // expired, damaged, of a newer version
  for (const run of [...overview.Open].reverse())
    (groups[class_of(run)] || other).push(run);
  const shown = [...other];
  for (const [name, runs] of Object.entries(groups))
    shown.push(...runs.slice(0, SHOWN[name]));
  const all = overview.Counts.Open;
  sync($('open'), shown, key_of, create_item,
      (item, run) => update_item(item, run), $('open-title'));
  show($('open-none'), all === 0);
  show($('open-more'), all > shown.length);
  put($('open-more'), `${number(shown.length)} of ${number(all)} open runs ` +
    'are shown here, those that were requested first; the table Runs has all.');
  return groups;
}

// ---- failures, by reason ----

const reason_text = (run) => run.Error || 'no reason is known';

// reason_of: return one text for failures that differ only in names, numbers
// and the ids that the service gave to requests.
const reason_of = (run) => `${run.Job}: ` + reason_text(run)
    .replace(/ \(request id [^)]*\)/g, '')
    .replace(/'[^']*'|"[^"]*"|\d+/g, '…');

function create_reason() {
  const item = h('li'), details = h('details'), all = h('p', {class: 'all'});
  item.parts = {count: h('span', {class: 'count'}), reason: h('span'),
    list: h('ul', {class: 'runs'}), all};
  for (const name of ['retry', 'drop'])
    all.append(h('button', {
      type: 'button', class: QUESTIONS[name] ? 'danger' : null,
      onclick: () => change_all(name, item.runs),
    }));
  details.append(h('summary', {}, item.parts.count, ' ', item.parts.reason),
      all, item.parts.list);
  item.append(details);
  return item;
}

function update_reason(item, [, runs]) {
  const {count, reason, list, all} = item.parts;
  const changeable = runs.filter((run) => changes_of(run).includes('retry'));
  item.runs = changeable;
  put(count, `${number(runs.length)} ×`);
  put(reason, `${runs[0].Job}: ${reason_text(runs[0])}`);
  show(all, page.token !== '' && changeable.length > 1);
  put(all.firstChild, `Retry these ${changeable.length}`);
  put(all.lastChild, `Drop these ${changeable.length}`);
  // The summary above the list has the reason of the first run already.
  sync(list, runs, key_of, create_item, (element, run) => update_item(
      element, run, run.Error === runs[0].Error ? '' : run.Error),
  $('failed-title'));
}

function render_failed(overview) {
  const groups = new Map();
  for (const run of overview.Failed) {
    const reason = reason_of(run);
    groups.set(reason, [...(groups.get(reason) || []), run]);
  }
  sync($('failed'), [...groups], ([reason]) => reason, create_reason,
      update_reason, $('failed-title'));
  const all = overview.Counts.Failed;
  show($('failed-none'), all === 0);
  show($('failed-more'), all > overview.Failed.length);
  put($('failed-more'), `The newest ${overview.Failed.length} of ` +
    `${number(all)}. \`tableward poison retry --all\` and \`poison drop --all\` ` +
    'take all of them.');
}

// ---- numbers and queues ----

function render_tiles(overview, groups) {
  const waiting = overview.Queues.reduce((sum, q) => sum + q.Messages, 0);
  const counts = overview.Counts, cut = counts.Cut ? '+' : '';
  const partly = overview.Open.length < counts.Open ? '+' : '';
  const tiles = [
    ['Messages on queues', number(waiting), ''],
    ['Running', number(groups.running.length) + partly, ''],
    ['Held', number(groups.held.length) + partly,
      groups.held.length > 0 ? 'warn' : ''],
    ['Not ended', number(counts.Open) + cut, ''],
    ['Failed', number(counts.Failed) + cut, counts.Failed > 0 ? 'bad' : ''],
    ['Ended in the last day', number(counts.Ended) + cut, ''],
  ];
  sync($('tiles'), tiles, ([name]) => name,
      ([name]) => h('li', {}, h('strong'), h('span', {}, name)),
      (tile, [, value, style]) => {
        put(tile.firstChild, value);
        tile.className = style;
      });
  document.title = counts.Failed > 0 ?
    `(${number(counts.Failed)} failed) tableward` : 'tableward';
}

function render_queues(overview) {
  sync($('queues'), overview.Queues, (queue) => queue.Queue, () =>
    h('tr', {}, h('th', {scope: 'row'}), h('td', {class: 'number'}),
        h('td', {class: 'number'}), h('td', {class: 'number'})),
  (row, queue) => {
    const [name, messages, oldest, poisoned] = row.children;
    put(name, queue.Queue);
    put(messages, number(queue.Messages));
    put(oldest, queue.Oldest ? age(queue.Oldest) : '–');
    put(poisoned, number(queue.Poisoned));
    poisoned.className = queue.Poisoned > 0 ? 'number bad' : 'number';
  });
}

// ---- the plot ----

const LEFT = 54, TOP = 8, MIDDLE = 118, BOTTOM = 156;
const HOUR_MS = 3600000, SAMPLE_MS = 10000;

function s(name, attributes, text) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes))
    element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// ceiling: return a round number that is not below n.
function ceiling(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  return [1, 2, 5, 10].map((m) => m * power).find((m) => m >= n);
}

function render_plot(samples) {
  const end = now_ms(), from = end - HOUR_MS;
  const width = Math.max($('plot').clientWidth, 280);
  const step = width < 500 ? 30 : 15;
  const top = ceiling(Math.max(...samples.map((p) => p[1]), 1));
  const most = Math.max(...samples.map((p) => p[2]), 1);
  const x = (t) => LEFT + (width - LEFT) * Math.max(0, (t - from) / HOUR_MS);
  const y = (v) => MIDDLE - (MIDDLE - TOP) * v / top;
  const parts = [
    s('line', {class: 'grid', x1: LEFT, x2: width, y1: MIDDLE, y2: MIDDLE}),
    s('line', {class: 'grid', x1: LEFT, x2: width, y1: y(top / 2), y2: y(top / 2)}),
    s('line', {class: 'grid', x1: LEFT, x2: width, y1: TOP, y2: TOP}),
    s('text', {x: LEFT - 6, y: TOP + 4, 'text-anchor': 'end'}, `${number(top)}/s`),
    s('text', {x: LEFT - 6, y: MIDDLE + 4, 'text-anchor': 'end'}, '0'),
    s('text', {x: LEFT - 6, y: BOTTOM, 'text-anchor': 'end'}, 'refused'),
  ];
  for (let minutes = 60; minutes >= 0; minutes -= step)
    parts.push(s('text', {
      x: x(end - minutes * 60000), y: BOTTOM + 18,
      'text-anchor': minutes === 60 ? 'start' : minutes === 0 ? 'end' : 'middle',
    }, minutes === 0 ? 'now' : `${minutes} min ago`));
  if (samples.length > 0) {
    const [begin, speed] = samples[0];
    const line = [[begin - SAMPLE_MS, speed], ...samples].map(
        ([t, v]) => `${x(t).toFixed(1)},${y(v).toFixed(1)}`);
    const first = x(begin - SAMPLE_MS), last = x(samples.at(-1)[0]);
    parts.push(s('polygon', {class: 'area',
      points: `${first},${MIDDLE} ${line.join(' ')} ${last},${MIDDLE}`}),
    s('polyline', {class: 'line', points: line.join(' ')}));
  }
  for (const [t, , refused] of samples)
    if (refused > 0) {
      const height = 4 + 22 * refused / most;
      parts.push(s('rect', {class: 'refusal', x: (x(t) - 1.5).toFixed(1),
        y: BOTTOM - height, width: 3, height}));
    }
  $('plot').setAttribute('viewBox', `0 0 ${width} ${BOTTOM + 22}`);
  $('plot').replaceChildren(...parts);
}

function render_history({Samples: samples}) {
  page.samples = samples;
  const last = samples.at(-1);
  const refused = samples.reduce((sum, p) => sum + p[2], 0);
  render_plot(samples);
  put($('plot-text'), last ?
    `${speed_of(last[1])} entities a second are written or deleted now; ` +
    `the maximum was ${speed_of(Math.max(...samples.map((p) => p[1])))}; ` +
    `${number(refused)} ${refused === 1 ? 'request was' : 'requests were'} ` +
    'refused because a service was busy.' : 'Nothing is known yet.');
  const parts = new Map();
  for (const [t, v, r] of samples) {
    const until = Math.ceil(t / 300000) * 300000;
    const part = parts.get(until) || {until, sum: 0, count: 0, refused: 0};
    part.sum += v;
    part.count++;
    part.refused += r;
    parts.set(until, part);
  }
  sync($('plot-rows'), [...parts.values()].reverse(), (p) => String(p.until),
      () => h('tr', {}, h('th', {scope: 'row'}), h('td', {class: 'number'}),
          h('td', {class: 'number'})),
      (row, part) => {
        put(row.children[0],
            `${new Date(part.until).toISOString().slice(11, 16)} UTC`);
        put(row.children[1], (part.sum / part.count).toFixed(1));
        put(row.children[2], number(part.refused));
      });
}

// ---- the table of runs ----

function create_row(run) {
  return h('tr', {}, h('td', {}, h('span', {class: 'state'})),
      h('td', {class: 'wide'}, h('strong'), ' ', h('span', {class: 'args'}),
          ' ', name_button(run), h('div', {class: 'soft'})),
      h('td', {class: 'number'}), h('td', {class: 'time'}),
      h('td', {class: 'time'}));
}

function put_time(cell, time) {
  if (!time) cell.replaceChildren('–');
  else if (cell.firstChild?.dateTime === new Date(time).toISOString())
    put(cell.firstChild, `${age(time)} ago`);
  else cell.replaceChildren(time_element(time));
}

function update_row(row, run) {
  const [state, job, done, requested, ended] = row.children;
  put(state.firstChild, state_of(run));
  state.firstChild.className = `state ${class_of(run)}`;
  put(job.children[0], run.Job);
  put(job.children[1], arguments_of(run));
  job.children[2].run = run;
  put(job.children[3], run.Error || run.Note || '');
  put(done, number(run.Done));
  put_time(requested, run.RequestedAt);
  put_time(ended, run.FinishedAt);
}

function render_runs(left) {
  sync($('runs'), page.runs, key_of, create_row, update_row, $('runs-title'));
  show($('runs-none'), page.runs.length === 0);
  show($('runs-table'), page.runs.length > 0);
  show($('older').parentElement, page.next !== '');
  put($('runs-left'),
      `${number(page.runs.length)} runs are shown; ` +
      `up to ${number(left)} more are older.`);
}

// load_runs: load the first page, or the one after those that are shown.
async function load_runs(older = false) {
  const query = new URLSearchParams({limit: PAGE});
  if ($('filter-state').value) query.set('state', $('filter-state').value);
  if ($('filter-job').value) query.set('job', $('filter-job').value);
  if (older) query.set('before', page.next);
  const asked = page.runs_at = Date.now();
  try {
    const {Runs, Next, Left} = await get(`/api/runs?${query}`);
    if (page.runs_at !== asked) return; // something else was asked meanwhile
    page.runs = older ? [...page.runs, ...Runs] : Runs;
    page.next = Next || '';
    render_runs(Left);
  } catch (error) {
    trouble(error.message);
  }
}

// ---- the whole page ----

function trouble(text) {
  const shown = visible(text);
  if ($('trouble').textContent !== shown)
    $('trouble').replaceChildren(...(text ? [h('div', {}, shown)] : []));
  show($('trouble'), text !== '');
}

function render_access() {
  show($('unlock'), !page.read_only);
  show($('read-only'), page.read_only);
  put($('unlock'), page.token ? 'Lock changes' : 'Unlock changes');
  if (page.overview) render(page.overview);
}

function render(overview) {
  page.overview = overview;
  const groups = render_open(overview);
  render_failed(overview);
  render_tiles(overview, groups);
  render_queues(overview);
  sync($('jobs'), overview.Jobs, (job) => job, (job) => h('option', {value: job}),
      () => {});
}

function freshness(text, style) {
  put($('freshness'), text);
  $('freshness').className = `pill ${style}`;
}

async function refresh() {
  try {
    render(await get('/api/overview'));
    trouble('');
    freshness('Live', 'good');
    page.seen = new Date(now_ms()).toISOString().slice(11, 19);
  } catch (error) {
    freshness(page.seen ? `Out of date, of ${page.seen} UTC` : 'No data', 'bad');
    trouble(error.status ? error.message :
      'The worker cannot be reached. It was stopped, or the connection is lost.');
    return;
  }
  // The first page of the table is kept fresh, unless older runs were asked for.
  if (page.runs.length <= PAGE && Date.now() - page.runs_at > EVERY_MS)
    await load_runs();
}

async function about() {
  try {
    const {Version, Worker, ReadOnly} = await get('/api/about');
    put($('about'), `${Worker}, version ${Version}`);
    page.read_only = ReadOnly;
    if (ReadOnly) page.token = '';
    render_access();
  } catch { /* refresh() says why */ }
}

async function history_of() {
  try {
    render_history(await get('/api/history'));
  } catch { /* refresh() says why */ }
}

// repeat: call work() again and again, every_ms after it has ended, while the
// page is visible; and at once when the page becomes visible again.
async function repeat(work, every_ms) {
  for (;;) {
    if (!document.hidden) await work();
    await Promise.race([sleep(every_ms), new Promise((resolve) =>
      document.addEventListener('visibilitychange', resolve, {once: true}))]);
  }
}

// ---- what a person does ----

function listen() {
  $('unlock').addEventListener('click', () => {
    if (page.token) {
      lock();
      return;
    }
    put($('token-error'), '');
    $('token-dialog').showModal();
  });
  $('token-form').addEventListener('submit', async (event) => {
    event.preventDefault();
    const token = $('token').value.trim();
    try {
      await post('/api/check', {}, token);
      page.token = token;
      sessionStorage.setItem('token', token);
      $('token-dialog').close();
      render_access();
      say('Changes are unlocked.');
    } catch (error) {
      put($('token-error'), `Refused: ${error.message}.`);
    }
  });
  $('token-dialog').addEventListener('close', () => ($('token').value = ''));
  $('token-cancel').addEventListener('click', () => $('token-dialog').close());
  $('run-close').addEventListener('click', () => $('run-dialog').close());
  $('older').addEventListener('click', () => load_runs(true));
  $('filter').addEventListener('submit', (event) => event.preventDefault());
  for (const id of ['filter-state', 'filter-job'])
    $(id).addEventListener('change', () => {
      page.runs = [];
      load_runs();
    });
}

window.addEventListener('resize', () => render_plot(page.samples));
listen();
about();
repeat(refresh, EVERY_MS);
repeat(history_of, HISTORY_EVERY_MS);
