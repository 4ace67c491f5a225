// What the map of pages can be coloured by, and what a cell of it says in words.

import { count, number, percent, plural, span, together } from './format.js';
import { ceiling } from './scale.js';

const states = ['missing', 'damaged', 'behind', 'foreign', 'ahead', 'overfull'];
const stood = (cell) => cell.looked_at > (cell.missing ?? 0) + (cell.damaged ?? 0) + (cell.unused ?? 0);

/** ageOf returns the seconds since the oldest check of a page in a cell, or null if none. */
export const ageOf = (cell) => (cell.looked_at > 0 ? cell.oldest_age_seconds ?? null : null);

/**
 * measures are the figures that can colour the map. value is the figure of a cell, or null. end
 * is the end of the scale, which is fixed or depends on the cells shown. text and meaning are for
 * the reader. A group of pages mostly has its highest figure, so that one bad page among hundreds
 * shows.
 */
export const measures = {
  fill: {
    label: 'Fill', of: 'share of set bits, highest of a group', value: (c) => (stood(c) ? c.fill.max : null), end: () => 0.5,
    text: (v) => together(percent(v)), meaning: 'Share of a page\'s bits that are set. More set bits cause more false positives; at about half, the page is rebuilt larger.',
  },
  collided: {
    label: 'Collided regions', of: 'share of collided regions, highest of a group', value: (c) => (stood(c) ? c.collided.max : null), end: () => 0.5,
    text: (v) => together(percent(v)), meaning: 'Share of regions whose collision bit is set. An undo cannot clear bits there; if it finds too few others, the page is rebuilt.',
  },
  keys: {
    label: 'Keys', of: 'keys per page, mean of a group', value: (c) => (stood(c) ? c.keys / c.looked_at : null), end: (cells) => ceiling(highest(cells, measures.keys)),
    text: (v) => count(v), meaning: 'Keys in a page. Users are spread evenly over shared pages, so the numbers should be similar.',
  },
  age: {
    label: 'Age', of: 'time since the last check, oldest of a group', value: ageOf, end: (cells) => ceiling(highest(cells, measures.age)),
    text: (v) => span(v), meaning: 'Time since the scrub or a rebuild last checked a page. The other figures are as old.',
  },
  behind: {
    label: 'Behind', of: 'share of pages in a group that lack writes', value: (c) => (c.looked_at > 0 ? (c.behind ?? 0) / c.looked_at : null), end: () => 1,
    text: (v) => together(percent(v)), meaning: 'Pages that lacked writes of the ledger at the last check. They are rebuilt before a feed uses them.',
  },
};

/** highest is that of a measure over cells. */
export function highest(cells, measure) {
  return Math.max(0, ...cells.map((c) => measure.value(c) ?? 0));
}

/** faulty counts the pages of a cell that need a rebuild. */
export function faulty(cell) {
  return states.reduce((n, state) => n + (cell[state] ?? 0), 0);
}

/** look is how a cell is drawn for a measure. */
export function look(cell, measure, end) {
  const value = measure.value(cell);
  return { share: value === null ? null : value / end, flag: faulty(cell) > 0, empty: (cell.unused ?? 0) === cell.pages };
}

/** nameOf says which pages a cell has. */
export function nameOf(cell) {
  if (cell.pages === 1) return cell.own ? `Page ${count(cell.first)}, dedicated` : `Page ${count(cell.first)}`;
  return cell.own ? `${count(cell.pages)} dedicated pages, ${count(cell.first)} to ${count(cell.last)}` : `Pages ${count(cell.first)} to ${count(cell.last)}`;
}

/** stateOf says how the pages of a cell stand. */
export function stateOf(cell) {
  const said = [...states, 'unused', 'unknown'].filter((s) => cell[s] > 0)
    .map((s) => (cell.pages === 1 ? word(s) : `${count(cell[s])} ${word(s)}`));
  return said.length === 0 ? 'sound' : said.join(', ');
}

const word = (state) => ({ unknown: 'not checked yet', unused: 'not used yet', foreign: 'of another ledger', ahead: 'ahead of the ledger', overfull: 'too full', behind: 'behind the ledger' }[state] ?? state);

/** wordsOf is what there is to say of a cell. */
export function wordsOf(cell) {
  if (!stood(cell)) return `${stateOf(cell)}.`;
  const one = cell.pages === 1;
  const parts = [
    one ? plural(cell.keys, 'key') : `${number(cell.keys / cell.looked_at)} keys per page`,
    `${together(percent(cell.fill.mean))} of bits set${one ? '' : ` (highest ${together(percent(cell.fill.max))})`}`,
    `${together(percent(cell.collided.mean))} of regions collided${one ? '' : ` (highest ${together(percent(cell.collided.max))})`}`,
    `false positives ${one ? '' : 'up to '}${together(percent(cell.rate_max))} of keys looked up`,
  ];
  if (ageOf(cell) !== null) parts.push(`checked ${span(ageOf(cell))} ago${one ? '' : ' or later'}`);
  if (cell.behind_max > 0) parts.push(`${one ? '' : 'up to '}${plural(cell.behind_max, 'change')} of the ledger missing`);
  return `${stateOf(cell)}; ${parts.join(', ')}.`;
}
