// View: why a viewer does not get a post, and the way to a page.

import { ask } from './api.js';
import { el, fill, mark } from './dom.js';
import { bytes, count, percent, plural, together } from './format.js';
import { facetsOf, reasonOf, sentenceOf, unchecked } from './explain.js';
import { notice, problemWords } from './problem.js';

export function search(host, route, app) {
  const result = el('div', { class: 'stack', 'aria-live': 'polite' });
  const fields = {};
  const field = (name, label, meaning, attributes) => {
    const plain = { id: `search-${name}`, name, autocomplete: 'off', spellcheck: 'false', ...attributes };
    fields[name] = attributes.rows ? el('textarea', plain) : el('input', { type: 'text', autocapitalize: 'off', ...plain });
    return el('label', { class: 'field', for: `search-${name}` }, el('span', {}, label), fields[name], el('small', {}, meaning));
  };
  const one = (name, label, meaning, required) => field(name, label, meaning, { required });
  const many = (name, label, meaning) => field(name, label, meaning, { rows: 2 });
  const lines = (name) => fields[name].value.split('\n').filter((line) => line !== '');
  const button = el('button', { type: 'submit', class: 'main' }, 'Explain');
  const form = el('div', { class: 'two' },
    one('viewer', 'Viewer', 'The id of the user whose feed it is.', true),
    one('author', 'Author', 'The id of the user who wrote the post.', true),
    one('post', 'Post', 'The id of the post that is missing. Empty: everything between the two users.', false),
    many('related', 'Related posts', 'Other ids of the same content, such as of the post that it reposts: one per line.'),
    many('actors', 'Others on the post', 'Users who reposted it, or are quoted or mentioned: one id per line, with a role as in “5 as repost”.'),
    many('lists', 'Lists', 'The ids of the lists that the feed names: one per line.'));
  let facets = []; // that kinds target
  let latest = 0; // an answer that comes late must not replace a later one

  /** addFacets adds a field for each facet, once the kinds are known. */
  function addFacets() {
    if (facets.length > 0) return;
    facets = facetsOf(app.kinds);
    form.append(...facets.map((facet) => many(`facet-${facet}`, `Facet: ${facet}`, `The ids of the facet ${facet} on the post: one per line.`)));
  }

  /** asked is the body of the call: what the form holds. */
  function asked() {
    const given = Object.entries({ related: lines('related'), actors: lines('actors').map(actorOf) }).filter(([, ids]) => ids.length > 0);
    const post = { author: fields.author.value, ...Object.fromEntries(given) };
    if (fields.post.value !== '') post.id = fields.post.value;
    const named = facets.map((facet) => [facet, lines(`facet-${facet}`)]).filter(([, ids]) => ids.length > 0);
    if (named.length > 0) post.facets = Object.fromEntries(named);
    const lists = lines('lists');
    return { viewer: fields.viewer.value, post, ...(lists.length > 0 && { lists }) };
  }

  async function explain(event) {
    event.preventDefault();
    const turn = ++latest;
    const body = asked();
    button.disabled = true;
    let shown;
    try {
      const answer = await ask('v1/feed/explain', { method: 'POST', body });
      shown = explanation(answer, body, app.kinds);
    } catch (error) {
      if (error.status === 401) app.signIn();
      shown = [notice('bad', problemWords(error))];
    }
    button.disabled = false;
    if (turn === latest) fill(result, shown);
  }

  host.append(
    el('div', { class: 'head' }, el('div', {}, el('h1', { tabindex: -1 }, 'Search'), el('p', {}, 'Why is a post missing from a feed? The answer checks every kind, and the ledger.'))),
    el('div', { class: 'stack' },
      el('form', { class: 'card stack', onsubmit: explain, autocomplete: 'off' }, form, el('div', { class: 'row' }, button)),
      result, el('div', { class: 'card' }, jump())));
  return { refresh: async () => addFacets(), close: () => { latest++; } };
}

/** actorOf is a user on the post, with a role if the line names one. */
function actorOf(line) {
  const [, id, role] = /^(.+) as ([a-z-]{1,32})$/.exec(line) ?? [];
  return role ? { id, role } : line;
}

/** jump is a field to go to a page by its number. */
function jump() {
  const field = el('input', { type: 'text', inputmode: 'numeric', pattern: '[0-9]{1,10}', class: 'short', id: 'jump', required: true, title: 'a page\'s number', autocomplete: 'off' });
  const submit = (event) => { event.preventDefault(); location.hash = `#/page/${Number(field.value)}`; };
  return el('form', { class: 'row', onsubmit: submit }, el('label', { for: 'jump' }, 'Look inside page number'), field, el('button', { type: 'submit' }, 'Open'));
}

function explanation(answer, asked, kinds) {
  const [state, sentence] = sentenceOf(answer, asked);
  const { page: p } = answer;
  const missing = unchecked(asked, kinds);
  return [
    notice(state, el('strong', {}, sentence)),
    answer.reasons.length === 0 ? null : el('ol', { class: 'reasons', 'aria-label': 'Reasons' }, answer.reasons.map((reason) => {
      const said = reasonOf(reason, asked, kinds);
      return el('li', { class: 'card reason' }, mark(said.state),
        el('div', {}, el('h2', {}, reason.kind, ': ', said.certainty.toLowerCase()), said.lines.map((line) => el('p', {}, line.map(part)))));
    })),
    spaced(asked) ? notice('warn', 'An id begins or ends with a space. The space is part of the id.') : null,
    answer.degraded.length === 0 ? null : notice('warn', `Not checked: ${answer.degraded.map((d) => `${d.kind}, since ${d.reason}`).join('; ')}.`),
    missing.length === 0 ? null : notice('unknown', `Not checked, since the form has none: ${missing.join(', ')}.`),
    el('p', { class: 'meaning' }, 'Read from ', el('a', { href: `#/page/${p.number}` }, `page ${count(p.number)}`),
      ` at sequence ${count(p.sequence)}: ${plural(p.keys, 'key')}, ${together(bytes(p.bytes))}, false positives ${together(percent(p.false_positive_rate))} of keys looked up.`),
  ];
}

/** spaced reports whether white space surrounds an id, as it often does after copying. */
function spaced({ viewer, post, lists = [] }) {
  const { id = '', author, related = [], actors = [], facets = {} } = post;
  const ids = [viewer, id, author, ...related, ...actors.map((a) => a.id ?? a), ...lists, ...Object.values(facets).flat()];
  return ids.some((one) => one !== one.trim());
}

const part = (p) => (typeof p === 'string' ? p : el('span', { class: 'id' }, p.id));
