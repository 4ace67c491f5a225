// Numbers large enough to read from across the room, each with its unit and what it means.

import { el, fill, mark, say } from './dom.js';

export class Figures {
  #tiles = [];

  constructor(label) {
    this.node = el('dl', { class: 'figures', 'aria-label': label });
  }

  /** show sets all figures: {label, value: [text, unit], meaning, state}. */
  show(all) {
    if (this.#tiles.length !== all.length) {
      this.#tiles = all.map(() => tile());
      fill(this.node, this.#tiles.map((t) => t.node));
    }
    all.forEach((figure, i) => {
      const t = this.#tiles[i];
      say(t.label, figure.label);
      fill(t.value, figure.state ? mark(figure.state) : null, el('span', {}, figure.value[0]), figure.value[1] ? el('span', { class: 'unit' }, figure.value[1]) : null);
      say(t.meaning, figure.meaning);
      t.node.dataset.state = figure.state ?? '';
      t.node.dataset.figure = figure.label;
    });
  }
}

function tile() {
  const t = { label: el('dt'), value: el('dd', { class: 'value' }), meaning: el('dd', { class: 'meaning' }) };
  t.node = el('div', { class: 'figure' }, t.label, t.value, t.meaning);
  return t;
}
