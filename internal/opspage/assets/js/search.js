// View: why a viewer does not get a post, and the way to a page.

import { ask } from './api.js';
import { el, fill, mark } from './dom.js';
import { bytes, count, percent, plural, together } from './format.js';
import { reasonOf, sentenceOf } from './explain.js';
import { notice, problemWords } from './problem.js';

export function search(host, route, app) {
  const result = el('div', { class: 'stack', 'aria-live': 'polite' });
  const input = (name, required) => el('input', { type: 'text', id: `search-${name}`, name, required, autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false' });
  const fields = { viewer: input('viewer', true), post: input('post', true), author: input('author', true), actors: el('textarea', { id: 'search-actors', name: 'actors', rows: 2, autocomplete: 'off', spellcheck: 'false' }) };
  const field = (name, label, meaning) => el('label', { class: 'field', for: `search-${name}` }, el('span', {}, label), fields[name], el('small', {}, meaning));
  const button = el('button', { type: 'submit', class: 'main' }, 'Explain');
  let latest = 0; // an answer that comes late must not replace a later one

  async function explain(event) {
    event.preventDefault();
    const turn = ++latest;
    const actors = fields.actors.value.split('\n').filter((line) => line !== '');
    const asked = { viewer: fields.viewer.value, post: { id: fields.post.value, author: fields.author.value, ...(actors.length > 0 && { actors }) } };
    button.disabled = true;
    let shown;
    try {
      const answer = await ask('v1/feed/explain', { method: 'POST', body: asked });
      shown = explanation(answer, asked, app.kinds);
    } catch (error) {
      if (error.status === 401) app.signIn();
      shown = [notice('bad', problemWords(error))];
    }
    button.disabled = false;
    if (turn === latest) fill(result, shown);
  }

  host.append(
    el('div', { class: 'head' }, el('div', {}, el('h1', { tabindex: -1 }, 'Search'), el('p', {}, 'Why is a post missing from a feed? The answer checks every kind, and the ledger.')), jump()),
    el('div', { class: 'stack' },
      el('form', { class: 'card stack', onsubmit: explain, autocomplete: 'off' },
        el('div', { class: 'two' },
          field('viewer', 'Viewer', 'The id of the user whose feed it is.'),
          field('post', 'Post', 'The id of the post that is missing.'),
          field('author', 'Author', 'The id of the user who wrote it.'),
          field('actors', 'Others on the post', 'Users who reposted it, or are quoted or mentioned: one id per line. Optional.')),
        el('div', { class: 'row' }, button)),
      result));
  return { refresh: async () => {}, close: () => { latest++; } };
}

/** jump is a field to go to a page by its number. */
function jump() {
  const field = el('input', { type: 'text', inputmode: 'numeric', pattern: '[0-9]{1,10}', class: 'short', id: 'jump', required: true, title: 'a page\'s number', autocomplete: 'off' });
  const submit = (event) => { event.preventDefault(); location.hash = `#/page/${Number(field.value)}`; };
  return el('form', { class: 'row', onsubmit: submit }, el('label', { for: 'jump' }, 'Page'), field, el('button', { type: 'submit' }, 'Open'));
}

function explanation(answer, asked, kinds) {
  const [state, sentence] = sentenceOf(answer);
  const { page: p } = answer;
  return [
    notice(state, el('strong', {}, sentence)),
    answer.reasons.length === 0 ? null : el('ol', { class: 'reasons', 'aria-label': 'Reasons' }, answer.reasons.map((reason) => {
      const said = reasonOf(reason, asked, kinds);
      return el('li', { class: 'card reason' }, mark(said.state),
        el('div', {}, el('h2', {}, reason.kind, ': ', said.certainty.toLowerCase()), said.lines.map((line) => el('p', {}, line.map(part)))));
    })),
    spaced(asked) ? notice('warn', 'An id begins or ends with a space. The space is part of the id.') : null,
    answer.degraded.length === 0 ? null : notice('warn', `Not checked: ${answer.degraded.map((d) => `${d.kind}, since ${d.reason}`).join('; ')}.`),
    el('p', { class: 'meaning' }, 'Read from ', el('a', { href: `#/page/${p.number}` }, `page ${count(p.number)}`),
      ` at sequence ${count(p.sequence)}: ${plural(p.keys, 'key')}, ${together(bytes(p.bytes))}, false positives ${together(percent(p.false_positive_rate))} of keys looked up.`),
  ];
}

/** spaced reports whether white space surrounds an id, as it often does after copying. */
const spaced = ({ viewer, post }) => [viewer, post.id, post.author, ...(post.actors ?? [])].some((id) => id !== id.trim());

const part = (p) => (typeof p === 'string' ? p : el('span', { class: 'id' }, p.id));
