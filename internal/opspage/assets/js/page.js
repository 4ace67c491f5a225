// View: a page's inside, what it says and what the ledger says.

import { ask } from './api.js';
import { el, fill, mark, renew } from './dom.js';
import { bytes, count, none, number, percent, plural, together } from './format.js';
import { notice, problemWords } from './problem.js';
import { confirmed } from './confirm.js';

export function page(host, route, app) {
  const wanted = route.rest[0] ?? '';
  const verdict = el('div', { 'aria-live': 'polite' });
  const done = el('div', { 'aria-live': 'polite' });
  const facts = el('dl', { class: 'words-list' });
  const compared = el('div', {});
  const living = el('div', {});
  const rebuild = el('button', { type: 'button', hidden: true, onclick: () => rebuildPage(wanted, done, rebuild, app) }, 'Rebuild …');
  const body = el('div', { class: 'stack', hidden: true }, verdict, done,
    el('section', { class: 'card', 'aria-label': 'Details' }, el('h2', {}, 'Details'), facts),
    el('div', { class: 'two' },
      el('section', { class: 'card', 'aria-label': 'Page and ledger' }, el('h2', {}, 'Page and ledger'), el('p', { class: 'meaning' }, 'The ledger is authoritative; the page is a copy.'), compared),
      el('section', { class: 'card', 'aria-label': 'Users on this page' }, el('h2', {}, 'Users on this page'), living)));
  host.append(
    el('div', { class: 'head' }, el('div', {}, el('p', {}, el('a', { href: '#/search' }, 'Search')), el('h1', { tabindex: -1 }, `Page ${/^\d+$/.test(wanted) ? count(Number(wanted)) : wanted}`)), rebuild), body);

  return {
    async refresh(signal) {
      const inside = await ask(`v1/ops/pages/${encodeURIComponent(wanted)}`, { signal });
      body.hidden = false;
      rebuild.hidden = inside.ledger === null;
      const judged = judge(inside);
      renew(verdict, judged, () => notice(judged[0], judged[1]));
      renew(facts, [inside.page, inside.state], () => factsOf(inside).map(([label, value, meaning]) => el('div', {}, el('dt', {}, label), el('dd', { class: 'value' }, value), el('dd', { class: 'meaning' }, meaning))));
      renew(compared, [inside.page, inside.ledger, inside.lacks, inside.residual_keys, inside.state], () => comparison(inside));
      renew(living, [inside.page?.keys, inside.ledger], () => dwellers(inside));
    },
    close: () => {},
  };
}

/** judge returns a state and a sentence. */
function judge(inside) {
  const lacking = Object.values(inside.lacks ?? {}).reduce((a, b) => a + b, 0);
  if (lacking > 0) {
    const behind = inside.behind > 0 ? ' It is behind the ledger, and is rebuilt before a feed uses it.' : ' Rebuild it, and find out what changed it.';
    return [inside.behind > 0 ? 'warn' : 'bad', `${plural(lacking, 'key')} of the ledger ${lacking === 1 ? 'is' : 'are'} not on this page.${behind}`];
  }
  const words = {
    sound: ['ok', inside.agrees === undefined ? 'Sound. Without a ledger, it cannot be compared.' : 'Sound: it reports every key that the ledger has.'],
    unused: ['unknown', 'No user of this page has any activity yet, so the page does not exist.'],
    missing: ['bad', 'It is missing, although the ledger has keys for it. The next feed that needs it rebuilds it.'],
    damaged: ['bad', 'It is damaged. The next feed that needs it rebuilds it.'],
    behind: ['warn', `It lacks ${plural(inside.behind ?? 0, 'change')} of the ledger. Writes in progress cause this for a moment. The next feed that needs the page rebuilds it.`],
    foreign: ['bad', 'It belongs to another ledger or page. The next feed that needs it rebuilds it.'],
    ahead: ['warn', 'It is ahead of the ledger: the ledger was restored, or the page was written after the ledger was read.'],
    overfull: ['warn', 'Its false-positive rate is too high. The scrub rebuilds it larger.'],
  }[inside.state] ?? ['unknown', 'It has not been checked yet.'];
  return inside.damage ? [words[0], `${words[1]} ${inside.damage}`] : words;
}

function factsOf({ page: p, own, state, ledger }) {
  const whose = ['Use', own ? 'dedicated' : 'shared', own ? 'It has the keys of one heavy user.' : 'The hash of the user id selects the page.'];
  if (p === null) return [whose, ['State', state, 'There is no page to read.']];
  return [
    whose,
    ['Keys', `${count(p.keys)} of ${count(p.capacity)}`, 'Keys in the page, and its capacity.'],
    ['Bits set', `${together(percent(p.fill))} of ${count(p.bits)}`, ledger === null ? `Beyond ${together(percent(p.full_at))} the page gets another layer.` : `At ${together(percent(p.full_at))} the page is rebuilt larger.`],
    ['Collided regions', p.regions === 0 ? none : `${together(percent(p.collided_share))} of ${count(p.regions)}`, p.regions === 0 ? 'None: keys are never removed.' : `${plural(p.region_bits, 'bit')} each. Bits of collided regions cannot be cleared.`],
    ['False positives', together(percent(p.false_positive_rate)), 'of absent keys, estimated from the set bits.'],
    ['Bits of a key', count(p.hashes), p.uniform ? 'Bits that each key sets.' : 'Bits that each key sets, besides those of its weight.'],
    ['Layers', count(p.layers.length), p.layers.length === 1 ? 'Pages with a ledger have one layer.' : 'It grew; each layer is larger than the previous one.'],
    ['Memory', together(bytes(p.bits_bytes + p.regions_bytes)), `Bits ${together(bytes(p.bits_bytes))}, which a feed reads, and regions ${together(bytes(p.regions_bytes))}.`],
    ['Keys per KiB', number(p.keys / ((p.bits_bytes + p.regions_bytes) / 1024)), 'Density of the page.'],
    ['Sequence', count(p.sequence), ledger === null ? 'Changes applied.' : 'Changes of the ledger applied.'],
    ...(ledger === null ? [] : [['Last left at', p.left === 0 ? none : count(p.left), 'Sequence at which a user last left the page (low 24 bits).']]),
    ['Build', el('code', {}, p.build), 'Both strings of the page must have the same build.'],
    ...(ledger === null ? [] : [['Ledger\'s incarnation', el('code', {}, p.incarnation), 'A restored ledger has another one.']]),
  ];
}

const leftModulus = 2 ** 24; // a page has the low 24 bits alone

function comparison(inside) {
  const { page: p, ledger, state } = inside;
  if (ledger === null) return el('p', {}, 'The service runs without a ledger.');
  const rows = [
    ['Sequence', 'changes', p?.sequence, ledger.sequence],
    ['Left', 'sequence at the last time', p?.left, ledger.left % leftModulus],
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
  if (ledger === null) return el('p', {}, `Unknown without a ledger. The page counts ${plural(p?.keys ?? 0, 'key')}.`);
  const kinds = Object.entries(ledger.kinds).sort((a, b) => b[1] - a[1]);
  const most = Math.max(1, ...kinds.map(([, n]) => n));
  const largest = ledger.largest ?? [];
  return [
    el('p', { class: 'meaning' }, `${plural(ledger.users, 'user')} with ${plural(ledger.keys, 'key')}.`),
    kinds.length === 0 ? null : bars('Keys by kind', 'Kind', kinds, most),
    largest.length === 0 ? null : bars('Users with the most keys, by hashed id', 'User', largest.map((u) => [el('span', { class: 'id' }, u.user), u.keys]), largest[0].keys),
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

/** rebuildPage asks for confirmation, and has the page rebuilt from the ledger. */
async function rebuildPage(which, done, button, app) {
  const sure = await confirmed('Rebuild this page?', 'The page is rebuilt from the ledger. Feeds and writes continue, and nothing is lost. The token needs the scope ops:write.', 'Rebuild');
  if (!sure) return;
  button.disabled = true;
  try {
    const made = await ask(`v1/ops/pages/${encodeURIComponent(which)}/rebuild`, { method: 'POST' });
    fill(done, notice('ok', `Rebuilt in ${number(made.took_ms)} ms: ${plural(made.keys, 'key')}, ${together(bytes(made.bytes))}, at sequence ${count(made.sequence)}.`));
  } catch (error) {
    fill(done, notice('bad', problemWords(error, 'ops:write')));
  } finally {
    button.disabled = false;
  }
  app.refresh();
}
