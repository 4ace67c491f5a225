// Draws shares, one byte each, as a picture: what of a page's bits, or of its regions, is set.

import { el } from './dom.js';
import { count, percent, together } from './format.js';
import { ceiling, paintScale, shade } from './scale.js';

/** decode returns the bytes of base64. */
export function decode(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

export class Raster {
  #canvas;
  #scale = el('canvas', { 'aria-hidden': 'true' });
  #end = el('span', {});
  #parts = el('span', {});
  #shares = new Uint8Array();
  #night = matchMedia('(prefers-color-scheme: dark)');
  #again = () => this.#draw();

  /** title and what are words; what says what a dark cell has much of. */
  constructor(title, what) {
    this.title = title;
    this.#canvas = el('canvas', { class: 'drawing', role: 'img', 'aria-label': title });
    this.node = el('section', { class: 'card', 'aria-label': title }, el('h2', {}, title), el('p', { class: 'meaning' }, what), this.#canvas,
      el('div', { class: 'scale below' }, '0 %', this.#scale, this.#end, this.#parts));
    this.#night.addEventListener('change', this.#again);
  }

  /** update shows the shares, 0 to 255 each. label describes the picture for screen readers. */
  update(shares, label) {
    this.#shares = shares;
    this.#canvas.setAttribute('aria-label', `${this.title}: ${label}`);
    this.#draw();
  }

  close() {
    this.#night.removeEventListener('change', this.#again);
  }

  #draw() {
    const n = this.#shares.length;
    if (n === 0) return;
    const end = Math.min(1, ceiling(Math.max(...this.#shares) / 255));
    const columns = columnsFor(n);
    this.#canvas.width = columns;
    this.#canvas.height = Math.ceil(n / columns);
    const pen = this.#canvas.getContext('2d');
    const picture = pen.createImageData(this.#canvas.width, this.#canvas.height);
    this.#shares.forEach((share, i) => picture.data.set([...shade(share / 255 / end), 255], 4 * i));
    pen.putImageData(picture, 0, 0);
    this.#end.textContent = together(percent(end));
    this.#parts.textContent = `of each of ${count(n)} parts`;
    paintScale(this.#scale);
  }
}

/**
 * columnsFor returns the columns of a picture of n cells that is about two to four times as wide as
 * high. All rows are full where n allows it.
 */
function columnsFor(n) {
  const wanted = Math.ceil(Math.sqrt(n * 2));
  for (let columns = wanted; columns <= 1.5 * wanted; columns++) {
    if (n % columns === 0) return columns;
  }
  return wanted;
}
