// Makes elements. Content goes in as text, never as markup, because strangers choose the names on
// this page.

const svgSpace = 'http://www.w3.org/2000/svg';

/**
 * el returns a new element. Attributes that are functions become listeners ("onclick"), true is an
 * empty attribute, and false, null and undefined leave it out. Children are nodes, strings, numbers
 * or lists of them.
 */
export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (typeof value === 'function') node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...texts(children));
  return node;
}

/** fill replaces all that node holds. */
export function fill(node, ...children) {
  node.replaceChildren(...texts(children));
  return node;
}

const made = new WeakMap(); // by node: what its content was made of

/**
 * renew replaces the content of node by what make returns, if of has changed since the last call.
 * If of is the same, the selection stays.
 */
export function renew(node, of, make) {
  const key = JSON.stringify(of);
  if (made.get(node) === key) return;
  made.set(node, key);
  fill(node, make());
}

/** say sets the text of a node if it differs, because a screen reader repeats a text set again. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * mark returns the shape for a state, so that the state does not depend on colour alone. States are
 * "ok", "info", "warn", "bad" and "unknown".
 */
export function mark(state) {
  const shapes = {
    ok: 'M3 8.5 6.5 12 13 4.5',
    warn: 'M8 3v6.2M8 11.9v1.3',
    bad: 'M4 4l8 8M12 4l-8 8',
    info: 'M8 7.3v4.9M8 4v.3',
    unknown: 'M3.5 8h9',
  };
  const svg = document.createElementNS(svgSpace, 'svg');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('class', `mark ${state}`);
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(svgSpace, 'path');
  path.setAttribute('d', shapes[state] ?? shapes.unknown);
  svg.append(path);
  return svg;
}

function texts(children) {
  return children.flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}
