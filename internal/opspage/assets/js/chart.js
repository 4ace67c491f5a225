// A chart of columns over time, with its legend in words and the same as a table.

import { el, fill } from './dom.js';
import { none, short, together } from './format.js';

const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3], [5, 2], [1, 4]];
const colours = 6;
const tableRows = 60;

/** lookOf is the colour and the dashes of a series. No two of the first 36 look alike. */
const lookOf = (i) => ({ colour: `series-${(i % colours) + 1}`, dash: dashes[(i + Math.floor(i / colours)) % dashes.length] });

/** property returns a colour of the style sheet, as it is in this theme. */
const property = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const dark = matchMedia('(prefers-color-scheme: dark)');

/** binary are distances of lines between amounts of memory. */
export const binary = Array.from({ length: 44 }, (_, i) => 2 ** i);

/**
 * Chart draws series. Each series has a label, and a function that picks its column. format turns a
 * value into text and unit. For one of a step, it gets the seconds of a step and the peak of the
 * series, so that all values of a series have one unit.
 */
export class Chart {
  #options;
  #plot = null;
  #host = el('div', { class: 'plot', 'aria-hidden': 'true' });
  #legend = el('ul', { class: 'legend' });
  #table = el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Values' });
  #details;
  #series = [];
  #history = null;
  #columns = [];
  #observer;
  #redraw = () => this.#make();

  constructor(options) {
    this.#options = options;
    const { title, unit, meaning } = options;
    this.#details = el('details', { ontoggle: () => this.#tabulate() }, el('summary', {}, 'As a table'), this.#table);
    this.node = el('section', { class: 'card chart', 'aria-label': title },
      el('header', {}, el('h3', {}, title, ' ', el('span', { class: 'unit' }, unit))),
      el('p', { class: 'meaning' }, meaning), this.#legend, this.#host, this.#details);
    this.#observer = new ResizeObserver(() => this.#resize());
    this.#observer.observe(this.#host);
    dark.addEventListener('change', this.#redraw);
  }

  /** update shows a history. */
  update(history) {
    this.#history = history;
    const series = this.#options.series(history);
    const same = series.map((s) => s.label).join('\n') === this.#series.map((s) => s.label).join('\n');
    this.#series = series;
    this.#columns = series.map((s) => s.values ?? []);
    if (!same || !this.#plot) this.#make();
    else this.#plot.setData([history.time, ...this.#columns], true);
    this.#name(null);
    this.#tabulate();
  }

  close() {
    this.#observer.disconnect();
    dark.removeEventListener('change', this.#redraw);
    this.#plot?.destroy();
  }

  #make() {
    this.#plot?.destroy();
    this.#plot = null;
    this.#host.replaceChildren();
    const history = this.#history;
    if (!history) return;
    if (!this.#columns.some((c) => c.some((v) => v !== null))) {
      fill(this.#host, el('p', { class: 'empty' }, this.#options.empty ?? 'Nothing yet.'));
      return;
    }
    this.#plot = new window.uPlot(this.#settings(), [history.time, ...this.#columns], this.#host);
  }

  #settings() {
    const axis = { stroke: property('--ink-2'), font: `12px ${property('--text')}`, grid: { stroke: property('--grid'), width: 1 }, ticks: { show: false } };
    const { format, increments } = this.#options;
    return {
      width: Math.max(120, this.#host.clientWidth), height: this.#host.clientHeight,
      padding: [10, 12, 0, 0],
      legend: { show: false },
      cursor: { sync: { key: 'time', setSeries: false }, drag: { x: false, y: false }, points: { size: 7 }, y: false },
      hooks: { setCursor: [(u) => this.#name(u.cursor.idx)] },
      scales: {
        x: { time: true, range: () => { const end = this.#history.time.at(-1); return [end - this.#history.window_seconds, end]; } },
        y: { range: (u, low, high) => [0, (Number.isFinite(high) && high > 0 ? high : 1) * 1.12] },
      },
      axes: [
        { ...axis, size: 30, space: 70, values: (u, splits) => splits.map(hourAndMinute) },
        { ...axis, size: 64, space: 30, incrs: increments, values: (u, splits) => splits.map((v) => tick(v, format)) },
      ],
      series: [{}, ...this.#series.map((s, i) => ({
        label: s.label, stroke: property(`--${lookOf(i).colour}`), width: 1.75, dash: lookOf(i).dash,
        points: { size: 4, fill: property(`--${lookOf(i).colour}`) },
      }))],
    };
  }

  #resize() {
    if (this.#plot && this.#host.clientWidth > 0) this.#plot.setSize({ width: this.#host.clientWidth, height: this.#host.clientHeight });
  }

  /** #name shows the legend, with the peaks, and with values at a step, or the last ones. */
  #name(index) {
    fill(this.#legend, this.#series.map((s, i) => {
      const values = this.#columns[i];
      const known = values.filter((v) => v !== null && v !== undefined);
      const value = index === null || index === undefined ? known.at(-1) : values[index];
      const peak = known.length > 0 && el('span', { class: 'peak' }, `peak ${this.#say(this.#peak(i), i)}`);
      return el('li', {}, stroke(i), s.label, el('b', {}, this.#say(value, i)), peak);
    }));
  }

  /** #peak is the highest value of a series. */
  #peak(i) {
    return this.#columns[i].reduce((a, b) => Math.max(a, b ?? 0), 0);
  }

  /** #say is the value of a step of the i-th series, in words. */
  #say(value, i) {
    if (value === null || value === undefined) return none;
    return together(this.#options.format(value, this.#history.step_seconds, this.#peak(i)));
  }

  #tabulate() {
    const history = this.#history;
    if (!this.#details.open || !history) return;
    const last = history.time.map((t, i) => i).slice(-tableRows).reverse();
    fill(this.#table, el('table', {},
      el('caption', {}, `${this.#options.title}, ${this.#options.unit}; the latest ${last.length} steps of ${history.step_seconds} s`),
      el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Time'), this.#series.map((s) => el('th', { scope: 'col' }, s.label)))),
      el('tbody', {}, last.map((i) => el('tr', {}, el('th', { scope: 'row' }, new Date(history.time[i] * 1000).toLocaleTimeString('en-GB')),
        this.#columns.map((c, s) => el('td', {}, this.#say(c[i], s))))))));
  }
}

/** tick is a value at the side of a chart. */
function tick(v, format) {
  const [text, unit] = format(v);
  return unit === '' ? short(v) : `${text} ${unit}`;
}

function hourAndMinute(second) {
  return new Date(second * 1000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
}

/** stroke is a piece of a series' line, for its legend. */
function stroke(i) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 28 14');
  svg.setAttribute('aria-hidden', 'true');
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  line.setAttribute('d', 'M0 7h28');
  line.setAttribute('stroke-dasharray', lookOf(i).dash.join(' '));
  line.setAttribute('class', lookOf(i).colour);
  svg.append(line);
  return svg;
}

const windows = [['15m', '15 min'], ['1h', '1 h'], ['24h', '24 h']];

/** rangeOf returns the window that the address names, or otherwise if there is no such window. */
export function rangeOf(route, otherwise) {
  const named = route.query.get('range');
  return windows.some(([window]) => window === named) ? named : otherwise;
}

/** ranges returns a choice of the windows of a history. It calls change with the chosen window. */
export function ranges(current, change) {
  return choice('Time', 'range', windows, current, change);
}

/** choice is a group of radio buttons: pairs of a value and its label. */
function choice(legend, name, options, current, change) {
  return el('fieldset', { class: 'choice' }, el('legend', {}, legend), options.map(([value, label]) =>
    el('label', {}, el('input', { type: 'radio', name, value, checked: value === current, onchange: () => change(value) }), el('span', {}, label))));
}
