// View: a page's inside, what it says and what the ledger says.

import { ask } from './api.js';
import { el, fill, mark, renew } from './dom.js';
import { bytes, count, none, number, percent, plural, together } from './format.js';
import { notice, problemWords } from './problem.js';
import { decode, Raster } from './raster.js';
import { confirmed } from './confirm.js';

export function page(host, route, app) {
  const wanted = route.rest[0] ?? '';
  const verdict = el('div', { 'aria-live': 'polite' });
  const done = el('div', { 'aria-live': 'polite' });
  const facts = el('dl', { class: 'words-list' });
  const compared = el('div', {});
  const living = el('div', {});
  const bits = new Raster('Bits', 'The Bloom bits in order, cut into equal parts; the share of each that is set. Even is good: hashes spread keys.');
  const regions = new Raster('Regions', 'The regions in order; the share of each part that is marked as collided, where bits cannot be cleared.');
  const drawings = el('div', { class: 'two' }, bits.node, regions.node);
  const rebuild = el('button', { type: 'button', hidden: true, onclick: () => makeAnew(wanted, done, rebuild, app) }, 'Make it anew …');
  const body = el('div', { class: 'stack', hidden: true }, verdict, done, drawings,
    el('section', { class: 'card', 'aria-label': 'In words' }, el('h2', {}, 'In words'), facts),
    el('div', { class: 'two' },
      el('section', { class: 'card', 'aria-label': 'Page and ledger' }, el('h2', {}, 'Page and ledger'), el('p', { class: 'meaning' }, 'The ledger is the truth, the page follows it.'), compared),
      el('section', { class: 'card', 'aria-label': 'Who lives here' }, el('h2', {}, 'Who lives here'), living)));
  host.append(
    el('div', { class: 'head' }, el('div', {}, el('p', {}, el('a', { href: '#/pages' }, 'All pages')), el('h1', { tabindex: -1 }, `Page ${/^\d+$/.test(wanted) ? count(Number(wanted)) : wanted}`)), rebuild), body);

  return {
    async refresh(signal) {
      const inside = await ask(`v1/ops/pages/${encodeURIComponent(wanted)}?cells=2048`, { signal });
      body.hidden = false;
      rebuild.hidden = inside.ledger === null;
      const judged = judge(inside);
      renew(verdict, judged, () => notice(judged[0], judged[1]));
      drawings.hidden = inside.drawing === null;
      if (inside.drawing !== null) draw(inside, bits, regions);
      renew(facts, [inside.page, inside.state], () => factsOf(inside).map(([label, value, meaning]) => el('div', {}, el('dt', {}, label), el('dd', { class: 'value' }, value), el('dd', { class: 'meaning' }, meaning))));
      renew(compared, [inside.page, inside.ledger, inside.lacks, inside.residual_keys, inside.state], () => comparison(inside));
      renew(living, [inside.page?.keys, inside.ledger], () => dwellers(inside));
    },
    close: () => { bits.close(); regions.close(); },
  };
}

function draw({ drawing, page: p }, bits, regions) {
  bits.update(decode(drawing.bits), `${together(percent(p.fill))} of ${count(p.bits)} are set.`);
  const marks = decode(drawing.regions);
  regions.node.hidden = marks.length === 0;
  regions.update(marks, `${together(percent(p.collided_share))} of ${count(p.regions)} are collided.`);
}

/** judge returns a state and a sentence. */
function judge(inside) {
  const lacking = Object.values(inside.lacks ?? {}).reduce((a, b) => a + b, 0);
  if (lacking > 0) {
    const behind = inside.behind > 0 ? ' It is behind the ledger, and is made anew before a feed believes it.' : ' Make it anew, and find out what changed it.';
    return [inside.behind > 0 ? 'warn' : 'bad', `${plural(lacking, 'key')} of the ledger ${lacking === 1 ? 'is' : 'are'} not on this page.${behind}`];
  }
  const words = {
    sound: ['ok', inside.agrees === undefined ? 'Sound. Without a ledger there is nothing to compare it with.' : 'Sound: it reports every key that the ledger has.'],
    unused: ['unknown', 'Nobody on this page has done anything yet, so it has not been made.'],
    missing: ['bad', 'It is missing, though the ledger has keys for it. The next feed that needs it makes it anew.'],
    damaged: ['bad', 'It is damaged. The next feed that needs it makes it anew.'],
    behind: ['warn', `It lacks ${plural(inside.behind ?? 0, 'change')} of the ledger. Writes under way do that for a moment; the next feed that needs it makes it anew.`],
    foreign: ['bad', 'It is of another ledger, or another page\'s. The next feed that needs it makes it anew.'],
    ahead: ['warn', 'It is ahead of the ledger: the ledger was set back, or the page was written since it was read.'],
    overfull: ['warn', 'It reports absent keys more often than it may. The scrub makes it anew, larger.'],
  }[inside.state] ?? ['unknown', 'It has not been looked at yet.'];
  return inside.damage ? [words[0], `${words[1]} ${inside.damage}`] : words;
}

function factsOf({ page: p, own, state, ledger }) {
  const whose = ['Whose', own ? 'dedicated' : 'shared', own ? 'It has the keys of one heavy user.' : 'Users are put here by the hash of their id.'];
  if (p === null) return [whose, ['State', state, 'There is nothing to read.']];
  return [
    whose,
    ['Keys', `${count(p.keys)} of ${count(p.capacity)}`, 'What it holds, and what it was made for.'],
    ['Bits set', `${together(percent(p.fill))} of ${count(p.bits)}`, ledger === null ? `Beyond ${together(percent(p.full_at))} it gets another layer.` : `At ${together(percent(p.full_at))} it is made anew, larger.`],
    ['Collided regions', p.regions === 0 ? none : `${together(percent(p.collided_share))} of ${count(p.regions)}`, p.regions === 0 ? 'It has none: nothing is removed from it.' : `${plural(p.region_bits, 'bit')} each. Where two keys met, bits cannot be cleared.`],
    ['False positives', together(percent(p.false_positive_rate)), 'of absent keys are reported, by its set bits.'],
    ['Bits of a key', count(p.hashes), 'Positions that a key sets, and that are looked up.'],
    ['Layers', count(p.layers.length), p.layers.length === 1 ? 'One filter; pages behind a ledger have no more.' : 'It grew; each layer is larger than the one before.'],
    ['Memory', together(bytes(p.bits_bytes + p.regions_bytes)), `Bits ${together(bytes(p.bits_bytes))}, which a feed reads, and regions ${together(bytes(p.regions_bytes))}.`],
    ['Keys per KiB', number(p.keys / ((p.bits_bytes + p.regions_bytes) / 1024)), 'How densely it is used.'],
    ['Sequence', count(p.sequence), ledger === null ? 'How many changes it has seen.' : 'How many changes of the ledger it has seen.'],
    ...(ledger === null ? [] : [['Last left at', p.left === 0 ? none : count(p.left), 'The sequence with which a user last left the page, its low 24 bits.']]),
    ['Build', el('code', {}, p.build), 'Both of its strings have to be of the same one.'],
    ...(ledger === null ? [] : [['Ledger\'s incarnation', el('code', {}, p.incarnation), 'A ledger that was restored has another one.']]),
  ];
}

const leftModulus = 2 ** 24; // a page has the low 24 bits alone

function comparison(inside) {
  const { page: p, ledger, state } = inside;
  if (ledger === null) return el('p', {}, 'The service runs without a ledger.');
  const rows = [
    ['Sequence', 'changes', p?.sequence, ledger.sequence],
    ['Left', 'last, at which sequence', p?.left, ledger.left % leftModulus],
    ['Keys', 'held', p?.keys, ledger.keys],
  ];
  const missing = Object.entries(inside.lacks ?? {});
  return [
    el('table', {},
      el('thead', {}, el('tr', {}, ['', 'Page', 'Ledger', 'Same'].map((name) => el('th', { scope: 'col' }, name)))),
      el('tbody', {}, rows.map(([name, what, here, there]) => el('tr', {}, el('th', { scope: 'row' }, name, ' ', el('span', { class: 'meaning' }, what)),
        el('td', {}, here === undefined ? none : count(here)), el('td', {}, count(there)), el('td', { class: 'same' }, state === 'unused' ? none : same(here === there)))))),
    missing.length === 0 ? null : el('p', { class: 'meaning' }, `Not on the page: ${missing.map(([kind, n]) => `${kind} ${count(n)}`).join(', ')}.`),
    inside.residual_keys ? el('p', { class: 'meaning' }, `The page counts ${plural(Math.abs(inside.residual_keys), 'key')} ${inside.residual_keys > 0 ? 'more' : 'fewer'} than the ledger has.`) : null,
  ];
}

const same = (yes) => [mark(yes ? 'ok' : 'warn'), ' ', yes ? 'yes' : 'no'];

function dwellers({ ledger, page: p }) {
  if (ledger === null) return el('p', {}, `Nobody knows: there is no ledger. The page counts ${plural(p?.keys ?? 0, 'key')}.`);
  const kinds = Object.entries(ledger.kinds).sort((a, b) => b[1] - a[1]);
  const most = Math.max(1, ...kinds.map(([, n]) => n));
  const largest = ledger.largest ?? [];
  return [
    el('p', { class: 'meaning' }, `${plural(ledger.users, 'user')} with ${plural(ledger.keys, 'key')}.`),
    kinds.length === 0 ? null : bars('Keys by kind', 'Kind', kinds, most),
    largest.length === 0 ? null : bars('Those with the most keys, by their hashed ids', 'User', largest.map((u) => [el('span', { class: 'id' }, u.user), u.keys]), largest[0].keys),
  ];
}

function bars(caption, what, rows, most) {
  return el('table', { class: 'bars' }, el('caption', {}, caption),
    el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, what), el('th', { scope: 'col' }, 'Keys'), el('td', { 'aria-hidden': 'true' }))),
    el('tbody', {}, rows.map(([name, n]) => el('tr', {}, el('th', { scope: 'row' }, name), el('td', {}, count(n)), el('td', { 'aria-hidden': 'true' }, bar(n / most))))));
}

function bar(share) {
  const svg = (tag, attributes) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const node = svg('svg', { class: 'barline' });
  node.append(svg('rect', { class: 'track', width: '100%', height: '100%', rx: 3 }), svg('rect', { class: 'share', width: `${Math.max(1, 100 * share)}%`, height: '100%', rx: 3 }));
  return node;
}

/** makeAnew has the page made anew from the ledger, if that is wanted. */
async function makeAnew(which, done, button, app) {
  const sure = await confirmed('Make this page anew?', 'It is read from the ledger and replaced. Feeds and writes go on meanwhile; nothing is lost by it. The token needs the scope ops:write.', 'Make it anew');
  if (!sure) return;
  button.disabled = true;
  try {
    const made = await ask(`v1/ops/pages/${encodeURIComponent(which)}/rebuild`, { method: 'POST' });
    fill(done, notice('ok', `Made anew in ${number(made.took_ms)} ms: ${plural(made.keys, 'key')}, ${together(bytes(made.bytes))}, at sequence ${count(made.sequence)}.`));
  } catch (error) {
    fill(done, notice('bad', problemWords(error, 'ops:write')));
  } finally {
    button.disabled = false;
  }
  app.refresh();
}
