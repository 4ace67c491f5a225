// A map of pages. Each cell is a page or a group of pages. The user can point at a cell, click it,
// or walk to it with the arrow keys.

import { property } from './chart.js';
import { el } from './dom.js';
import { colour } from './scale.js';

const tallest = 440; // CSS pixels
const largest = 36; // of a cell's side
const smallest = 5;

/**
 * PageMap draws each cell as paint describes it. {share} is its place on the scale, or null. {flag}
 * draws attention to the cell. {empty} means that no user is on it.
 */
export class PageMap {
  #options;
  #cells = [];
  #paint = () => ({ share: null });
  #at = -1; // the cell that is pointed at
  #size = smallest;
  #columns = 1;
  #observer;

  /**
   * options are a label and functions. The map calls open(cell) when the user chooses a cell, and
   * point(cell, again) when the user points at one, and again after a refresh. It calls out() to
   * show more of the map.
   */
  constructor(options) {
    this.#options = options;
    this.node = el('canvas', {
      class: 'map', tabindex: 0, role: 'application', 'aria-roledescription': 'map', 'aria-label': options.label, 'aria-describedby': options.describedBy,
      onclick: (event) => { this.#pointAt(this.#hit(event)); this.#open(); },
      onpointermove: (event) => this.#pointAt(this.#hit(event)),
      onkeydown: (event) => this.#key(event),
      onfocus: () => this.#pointAt(Math.max(this.#at, 0)),
    });
    this.#observer = new ResizeObserver(() => this.#draw());
    this.#observer.observe(this.node);
  }

  update(cells, paint) {
    this.#cells = cells;
    this.#paint = paint;
    if (this.#at >= cells.length) this.#at = -1;
    this.#draw();
    if (this.#at >= 0) this.#options.point(cells[this.#at], true);
  }

  close() {
    this.#observer.disconnect();
  }

  #layOut(width) {
    const n = Math.max(1, this.#cells.length);
    this.#size = Math.min(largest, Math.max(smallest, Math.floor(Math.sqrt((width * tallest) / n))));
    this.#columns = Math.max(1, Math.floor(width / this.#size));
    Object.assign(this.node.dataset, { size: this.#size, columns: this.#columns });
    return Math.ceil(n / this.#columns) * this.#size;
  }

  #draw() {
    const width = this.node.clientWidth;
    if (width === 0) return;
    const height = this.#layOut(width);
    const sharp = window.devicePixelRatio || 1;
    this.node.style.height = `${height}px`;
    this.node.width = Math.round(width * sharp);
    this.node.height = Math.round(height * sharp);
    const pen = this.node.getContext('2d');
    pen.scale(sharp, sharp);
    const colours = { sunk: property('--sunk'), line: property('--line'), ink: property('--ink'), bad: property('--bad'), card: property('--card') };
    this.#cells.forEach((cell, i) => this.#drawCell(pen, colours, i, this.#paint(cell)));
    // Above all others: what needs attention, and where one is.
    this.#cells.forEach((cell, i) => { if (this.#paint(cell).flag) this.#flag(pen, colours, i); });
    if (this.#at >= 0) this.#ring(pen, colours);
  }

  #place(i) {
    return [(i % this.#columns) * this.#size, Math.floor(i / this.#columns) * this.#size];
  }

  #drawCell(pen, colours, i, look) {
    const [x, y] = this.#place(i);
    const side = this.#size - 1;
    pen.fillStyle = look.share === null ? colours.sunk : colour(look.share);
    pen.fillRect(x, y, side, side);
    if (look.share !== null || look.empty) return;
    pen.strokeStyle = colours.line;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x, y + side);
    pen.lineTo(x + side, y);
    pen.stroke();
  }

  #flag(pen, colours, i) {
    const [x, y] = this.#place(i);
    drawFlag(pen, colours, x, y, this.#size - 1);
  }

  #ring(pen, colours) {
    const [x, y] = this.#place(this.#at);
    pen.lineWidth = 3;
    pen.strokeStyle = colours.card;
    pen.strokeRect(x - 0.5, y - 0.5, this.#size, this.#size);
    pen.lineWidth = 1.5;
    pen.strokeStyle = colours.ink;
    pen.strokeRect(x - 0.5, y - 0.5, this.#size, this.#size);
  }

  #hit(event) {
    const box = this.node.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.#size);
    if (column >= this.#columns) return -1;
    const i = Math.floor((event.clientY - box.top) / this.#size) * this.#columns + column;
    return i >= 0 && i < this.#cells.length ? i : -1;
  }

  #pointAt(i) {
    if (i === this.#at || i < 0 || i >= this.#cells.length) return;
    this.#at = i;
    this.#draw();
    this.#options.point(this.#cells[i]);
  }

  #open() {
    if (this.#at >= 0) this.#options.open(this.#cells[this.#at]);
  }

  #key(event) {
    const last = this.#cells.length - 1;
    const to = {
      ArrowRight: this.#at + 1, ArrowLeft: this.#at - 1, ArrowDown: this.#at + this.#columns, ArrowUp: this.#at - this.#columns,
      Home: 0, End: last, PageDown: Math.min(last, this.#at + 10 * this.#columns), PageUp: Math.max(0, this.#at - 10 * this.#columns),
    }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (to !== undefined) this.#pointAt(to);
    else if (event.key === 'Enter' || event.key === ' ') this.#open();
    else if (event.key === 'Escape') this.#options.out();
    else return;
    event.preventDefault();
  }
}

/** drawFlag marks a faulty cell by a shape, not by its colour alone. */
export function drawFlag(pen, colours, x, y, side) {
  pen.fillStyle = colours.bad;
  pen.fillRect(x - 1, y - 1, side + 2, side + 2);
  pen.strokeStyle = colours.card;
  pen.lineWidth = Math.max(1, side / 8);
  const inset = side * 0.28;
  pen.beginPath();
  pen.moveTo(x + inset, y + inset);
  pen.lineTo(x + side - inset, y + side - inset);
  pen.moveTo(x + side - inset, y + inset);
  pen.lineTo(x + inset, y + side - inset);
  pen.stroke();
}
