// SPDX-License-Identifier: MIT
// Draws figures over time as an SVG: plain lines, no external resources.
'use strict';

const WIDTH = 800, HEIGHT = 320, LEFT = 70, RIGHT = 20, TOP = 40, BOTTOM = 50;
const COLOURS = ['#0b62a4', '#b3261e', '#3f7d20'];

const escape = (text) => text.replace(/[&<>"]/g,
    (c) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'})[c]);

// step: returns a round number, about a fifth of `most`.
function step(most) {
  const rough = most / 5, power = 10 ** Math.floor(Math.log10(rough));

  return power * [1, 2, 5, 10].find((factor) => power * factor >= rough);
}

// plot: returns an SVG of series [{name, values}], one value a second, with a
// dashed line at `limit`.
function plot({title, series, limit}) {
  const seconds = Math.max(...series.map(({values}) => values.length));
  const most = Math.max(limit, ...series.flatMap(({values}) => values)) * 1.05;
  const x = (second) =>
    LEFT + second / Math.max(seconds - 1, 1) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM);
  const at = (number) => number.toFixed(1);
  const text = (left, top, what, anchor = 'start', colour = '#333') =>
    `<text x="${at(left)}" y="${at(top)}" text-anchor="${anchor}" ` +
      `fill="${colour}">${escape(what)}</text>`;
  const line = (y_of, colour, more = '') =>
    `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${at(y_of)}" ` +
      `y2="${at(y_of)}" stroke="${colour}" ${more}/>`;
  const parts = [text(LEFT, 18, title)];

  for (let value = 0; value <= most; value += step(most))
    parts.push(line(y(value), '#ddd'),
        text(LEFT - 8, y(value) + 4, String(value), 'end'));
  for (let second = 0; second < seconds; second += step(seconds))
    parts.push(text(x(second), HEIGHT - BOTTOM + 18, `${second} s`, 'middle'));
  parts.push(line(y(limit), '#333', 'stroke-dasharray="6 4"'));
  series.forEach(({name, values}, i) => {
    const points = values.map((value, second) => `${at(x(second))},${at(y(value))}`);

    parts.push(`<polyline fill="none" stroke="${COLOURS[i]}" ` +
        `stroke-width="1.5" points="${points.join(' ')}"/>`,
    text(LEFT + i * 240, HEIGHT - 10, name, 'start', COLOURS[i]));
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" ` +
      'font-family="sans-serif" font-size="13">' +
      `<rect width="${WIDTH}" height="${HEIGHT}" fill="white"/>` +
      parts.join('\n') + '</svg>\n';
}

module.exports = {plot};
