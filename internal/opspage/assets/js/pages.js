// View: a map of all pages, or of a part of them.

import { ask } from './api.js';
import { choice, property } from './chart.js';
import { el, fill, renew, say } from './dom.js';
import { count, plural, span } from './format.js';
import { drawFlag, PageMap } from './map.js';
import { ageOf, faulty, highest, look, measures, nameOf, stateOf, wordsOf } from './measures.js';
import { paintScale } from './scale.js';

const listed = 20;
const most = () => (window.innerWidth < 640 ? 256 : 4096); // cells: a thumb is wider than a pointer

export function pages(host, route, app) {
  let by = Object.hasOwn(measures, route.query.get('by')) ? route.query.get('by') : 'fill';
  const [from, to] = ['from', 'to'].map((name) => route.query.get(name));
  const zoomed = from !== null && to !== null;
  const narrower = (cell) => (cell.pages === 1 ? app.go(`page/${cell.first}`) : app.go('pages', { by, from: cell.from, to: cell.to }));
  const wider = () => { if (zoomed) app.go('pages', { by }); };
  let answer = null;

  const summary = el('p', {});
  const meaning = el('p', { class: 'meaning' });
  const legend = el('div', { class: 'scale' });
  const details = el('details', { ontoggle: () => tabulate() });
  const table = el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Pages as a table' });
  details.append(el('summary', {}, `The ${listed} highest, as a table`), table);
  const shared = part('Map of the shared pages', 'Shared pages');
  const own = part('Map of the dedicated pages', 'Dedicated pages of heavy users');

  function part(label, title) {
    const name = el('strong', {});
    const words = el('span', { class: 'meaning' });
    const id = label.replaceAll(' ', '-').toLowerCase();
    const under = el('div', { class: 'under', id }, name, words);
    const point = (cell, again) => { // what is said again is older by some seconds, and not read out for that
      under.setAttribute('aria-live', again ? 'off' : 'polite');
      say(name, nameOf(cell));
      say(words, wordsOf(cell));
    };
    const map = new PageMap({ label: `${label}. Arrow keys move, Enter opens, Escape shows all.`, describedBy: id, open: narrower, point, out: wider });
    const hint = window.matchMedia('(hover: none)').matches ? 'Tap a cell to open it.' : 'Point at a cell, or move with the arrow keys. Click or Enter opens it.';
    words.textContent = hint;
    const heading = el('h2', {}, title);
    return { map, node: el('section', { class: 'card stack', 'aria-label': title }, heading, map.node, under) };
  }

  function paint() {
    const measure = measures[by];
    const end = measure.end(answer.cells);
    for (const [one, cells] of [[shared, answer.cells.filter((c) => !c.own)], [own, answer.cells.filter((c) => c.own)]]) {
      one.node.hidden = cells.length === 0;
      one.map.update(cells, (cell) => look(cell, measure, end));
    }
    say(meaning, measure.meaning);
    drawLegend(legend, measure, end, answer.cells);
    tabulate();
  }

  function tabulate() {
    if (!details.open || !answer) return;
    const measure = measures[by];
    const rows = answer.cells.filter((c) => c.looked_at > 0)
      .sort((a, b) => faulty(b) - faulty(a) || (measure.value(b) ?? 0) - (measure.value(a) ?? 0)).slice(0, listed);
    renew(table, [by, rows], () => tableOf(rows, by, measure));
  }

  host.append(
    el('div', { class: 'head' }, el('div', {}, el('h1', { tabindex: -1 }, 'Pages'), summary), jump(app)),
    el('div', { class: 'stack' },
      el('div', { class: 'card stack' },
        choice('Colour by', 'by', Object.entries(measures).map(([key, m]) => [key, m.label]), by, (chosen) => { by = chosen; app.keep({ by }); if (answer) paint(); }),
        meaning, legend),
      zoomed ? el('nav', { class: 'trail', 'aria-label': 'Part of the map' }, el('a', { href: `#/pages?by=${by}` }, 'All pages'), '›', el('span', {}, `positions ${count(+from)} to ${count(to - 1)}`)) : null,
      shared.node, own.node, el('div', { class: 'card' }, details)),
  );
  return {
    async refresh(signal) {
      const range = zoomed ? `&from=${encodeURIComponent(from)}&to=${encodeURIComponent(to)}` : '';
      answer = await ask(`v1/ops/pages?cells=${most()}${range}`, { signal });
      say(summary, summaryOf(answer));
      paint();
    },
    close: () => { shared.map.close(); own.map.close(); },
  };
}

function summaryOf({ pages: all, own_from: ownFrom, cells }) {
  const sum = (pick) => cells.reduce((n, cell) => n + pick(cell), 0);
  const [shown, looked, bad] = [sum((c) => c.pages), sum((c) => c.looked_at), sum(faulty)];
  const ages = cells.map(ageOf).filter((v) => v !== null);
  const parts = [`${plural(ownFrom, 'page')} that users share, ${count(all - ownFrom)} dedicated.`];
  if (shown < all) parts.push(`Shown here: ${count(shown)}.`);
  if (looked < shown) parts.push(`Looked at so far: ${count(looked)}.`);
  parts.push(bad === 0 ? 'None is faulty.' : `${plural(bad, 'page')} faulty.`);
  if (ages.length > 0) parts.push(`The oldest check was ${span(Math.max(...ages))} ago.`);
  return parts.join(' ');
}

function drawLegend(legend, measure, end, cells) {
  const scale = el('canvas', { role: 'img', 'aria-label': `Colours from ${measure.text(0)} to ${measure.text(end)}` });
  const flag = el('canvas', { width: 16, height: 16, 'aria-hidden': 'true' });
  const unseen = el('canvas', { width: 16, height: 16, 'aria-hidden': 'true' });
  paintScale(scale);
  drawFlag(flag.getContext('2d'), { bad: property('--bad'), card: property('--card') }, 1, 1, 14);
  const pen = unseen.getContext('2d');
  pen.fillStyle = property('--sunk');
  pen.fillRect(0, 0, 16, 16);
  pen.strokeStyle = property('--ink-2');
  pen.moveTo(0, 16);
  pen.lineTo(16, 0);
  pen.stroke();
  const over = highest(cells, measure) > end ? ' and more' : '';
  fill(legend, el('span', {}, measure.text(0)), scale, el('span', {}, `${measure.text(end)}${over}`), el('span', {}, `(${measure.of})`),
    el('span', { class: 'key' }, flag, 'faulty'), el('span', { class: 'key' }, unseen, 'not used or not checked'));
}

function tableOf(rows, by, measure) {
  return el('table', {},
    el('caption', {}, `Faulty first, then by ${measure.label.toLowerCase()}`),
    el('thead', {}, el('tr', {}, ['Pages', measure.label, 'Keys', 'State'].map((name) => el('th', { scope: 'col' }, name)))),
    el('tbody', {}, rows.map((cell) => {
      const target = cell.pages === 1 ? `#/page/${cell.first}` : `#/pages?by=${by}&from=${cell.from}&to=${cell.to}`;
      const value = measure.value(cell);
      return el('tr', {}, el('th', { scope: 'row' }, el('a', { href: target }, nameOf(cell))), el('td', {}, value === null ? '–' : measure.text(value)),
        el('td', {}, count(cell.keys)), el('td', {}, stateOf(cell)));
    })));
}

/** jump is a field to go to a page by its number. */
function jump(app) {
  const field = el('input', { type: 'text', inputmode: 'numeric', pattern: '[0-9]{1,10}', class: 'short', id: 'jump', required: true, title: 'a page\'s number', autocomplete: 'off' });
  const submit = (event) => { event.preventDefault(); app.go(`page/${Number(field.value)}`); };
  return el('form', { class: 'row', onsubmit: submit }, el('label', { for: 'jump' }, 'Page'), field, el('button', { type: 'submit' }, 'Open'));
}
