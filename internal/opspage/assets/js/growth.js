// View: how much memory is held, and when there should be more pages.

import { binary, Chart, rangeOf, ranges } from './chart.js';
import { el, fill, say } from './dom.js';
import { Figures } from './figures.js';
import { at, bytes, count, none, number, percent, plural, together } from './format.js';
import { latest } from './history.js';
import { outlook } from './outlook.js';
import { stalled, underWay, unfinished } from './reshape.js';

const charts = [
  { title: 'Keys', unit: 'on all pages', meaning: 'As of the last scrub at each time. A block counts twice: once for each side.', format: (v) => [count(v), ''], series: (h) => [{ label: 'keys', values: h.keys }] },
  { title: 'Page bytes', unit: 'of all pages', meaning: 'As of the last scrub at each time: bits and regions of the pages, without windows and the overhead of Redis.', format: bytes, increments: binary, series: (h) => [{ label: 'pages', values: h.page_bytes }] },
  { title: 'Bytes per key', unit: 'page bytes / keys', meaning: 'Full pages need fewer bytes per key; pages that just grew need more.', format: (v) => [number(v), 'B'], series: (h) => [{ label: 'per key', values: h.keys.map((keys, i) => (keys > 0 ? h.page_bytes[i] / keys : null)) }] },
  { title: 'Heap', unit: 'of this process', meaning: 'Objects in memory, garbage included.', format: bytes, increments: binary, series: (h) => [{ label: 'heap', values: h.heap_bytes }] },
];

export function growth(host, route, app) {
  let range = rangeOf(route, '24h');
  const figures = new Figures('Memory');
  const drawn = charts.map((options) => new Chart(options));
  const line = el('p', { class: 'meaning' });
  const meter = el('div', {});
  const words = el('p', {});
  const shape = el('p', {});
  host.append(
    el('div', { class: 'head' }, el('div', {}, el('h1', { tabindex: -1 }, 'Memory and growth'), el('p', {}, 'Memory of the pages, and when to raise their number.')),
      ranges(range, (chosen) => { range = chosen; app.keep({ range }); app.refresh(); })),
    el('div', { class: 'stack' }, figures.node,
      el('section', { class: 'card stack', 'aria-label': 'Keys per page' }, el('h2', {}, 'Keys per page'),
        line, meter, words, shape),
      el('div', { class: 'two' }, drawn.map((c) => c.node))),
  );
  return {
    async refresh(signal) {
      const history = range === '15m' ? app.recent : await app.histories.of(range, signal);
      const day = await app.histories.of('24h', signal);
      const { health } = app;
      figures.show(figuresOf(health, app.recent));
      line.hidden = health.ledger === 'none';
      say(line, `${scrubOf(health.pages)} Above the line, feeds read more than they need. A reshape raises the number of pages while the service runs.`);
      fill(meter, health.ledger === 'none' ? null : gauge(health.pages));
      say(words, health.ledger === 'none' ? 'Without a ledger, each page grows as needed.' : outlook(health, day));
      say(shape, shapeOf(health));
      for (const chart of drawn) chart.update(history);
    },
    close: () => drawn.forEach((chart) => chart.close()),
  };
}

function figuresOf({ pages }, recent) {
  const all = pages.shared + pages.dedicated;
  const counted = pages.looked_at > 0;
  const when = scrubOf(pages);
  return [
    { label: 'Pages', value: bytes(counted ? pages.bytes : undefined), meaning: `${plural(all, 'page')}, ${count(pages.dedicated)} of them dedicated to heavy users. ${when}` },
    { label: 'Keys', value: [counted ? count(pages.keys) : none, ''], meaning: keysWords(pages) },
    { label: 'Bytes per key', value: pages.keys > 0 ? [number(pages.bytes / pages.keys), 'bytes'] : [none, ''], meaning: `Page bytes divided by keys. Few keys on many pages need more. ${when}` },
    { label: 'Heap', value: bytes(latest(recent, recent.heap_bytes) ?? undefined), meaning: 'Objects in the memory of this process.' },
  ];
}

function keysWords(pages) {
  if (pages.counted_at) return `On all pages. A block counts twice: once for each side. ${scrubOf(pages)}`;
  return pages.looked_at > 0 ? `On the ${plural(pages.looked_at, 'page')} checked so far.` : 'Not counted.';
}

/** scrubOf says when the scrub ended that counted the keys. */
const scrubOf = (pages) => (pages.counted_at ? `Scrub of ${at(pages.counted_at)}.` : '');

function shapeOf({ reshape, pages, ledger }) {
  if (ledger === 'none') return '';
  if (!reshape) return 'The progress of a reshape is unknown: the ledger cannot be asked.';
  if (reshape.running) return underWay(reshape);
  if (reshape.trouble) return stalled(reshape);
  if (reshape.reshaped < reshape.homes) return unfinished(reshape);
  return `No reshape is running. There are ${plural(pages.shared, 'page')}, as requested.`;
}

/** gauge draws how far keys per page are from the line, if they have been counted. */
function gauge({ keys_per_page: mean, due_from: dueFrom, counted_at: counted }) {
  const keysPerPage = counted ? mean : null;
  const svg = (tag, attributes, text) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text) node.textContent = text;
    return node;
  };
  const end = Math.max(dueFrom * 1.25, keysPerPage * 1.1);
  const along = (keys) => `${(100 * keys) / end}%`;
  const words = keysPerPage !== null ? `${number(keysPerPage)} keys per page, ${together(percent(keysPerPage / dueFrom))} of ${count(dueFrom)}, from which a reshape is due` : 'not counted yet';
  const node = svg('svg', { class: 'meter', role: 'img', 'aria-label': words });
  node.append(
    svg('rect', { class: 'track', x: 0, y: 0, width: '100%', height: 14, rx: 4 }), svg('rect', { class: 'share', x: 0, y: 0, width: along(keysPerPage), height: 14, rx: 4 }),
    svg('line', { class: 'line', x1: along(dueFrom), x2: along(dueFrom), y1: -4, y2: 18 }),
    svg('text', { x: along(dueFrom), y: 34, 'text-anchor': 'middle' }, `due from ${count(dueFrom)}`), svg('text', { x: 0, y: 34 }, keysPerPage !== null ? `${number(keysPerPage)} keys` : words));
  return node;
}
