// Ties the page together: the address names the view, which is refreshed every few seconds.

import { ask, token } from './api.js';
import { el, fill, mark, renew, say } from './dom.js';
import { clock, span } from './format.js';
import { growth } from './growth.js';
import { Histories } from './history.js';
import { live } from './live.js';
import { page } from './page.js';
import { Poller } from './poller.js';
import { notice, problemWords } from './problem.js';
import { search } from './search.js';
import { judge } from './verdict.js';

const views = { live, page, search, growth };
const titles = { live: 'Live', page: 'Page', search: 'Search', growth: 'Growth' };
const old = 3 * Poller.interval; // milliseconds after which figures are called old
const byId = (id) => document.getElementById(id);

/** app is what views know of the page. */
const app = {
  health: null, // the last answer of GET /v1/ops/health
  recent: null, // the last quarter of an hour
  histories: new Histories(), // longer ones
  kinds: new Map(), // by name
  refresh: () => poller.now(),
  /** keep notes in the address what is chosen in this view. */
  keep(query) {
    const { path, query: had } = routeOf(location.hash);
    for (const [name, value] of Object.entries(query)) had.set(name, value);
    history.replaceState(null, '', `#/${path}?${had}`);
    host.dataset.hash = location.hash;
  },
  signIn: () => signIn('The service does not know the token, or needs one.'),
};

let view = null;
let shownAt = null; // Date of what is shown
let problem = null;
let declined = false; // to give a token: the question stays away until somebody asks for something
const host = byId('view');
const poller = new Poller(tick);

function routeOf(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?');
  const [name, ...rest] = path.split('/').map((piece) => { try { return decodeURIComponent(piece); } catch { return piece; } });
  return Object.hasOwn(views, name) ? { path, name, rest, query: new URLSearchParams(query) } : { path: 'live', name: 'live', rest: [], query: new URLSearchParams() };
}

function show({ first = false } = {}) {
  const route = routeOf(location.hash);
  view?.close();
  problem = el('div', { id: 'problem' });
  fill(host, problem);
  host.dataset.view = route.name;
  Object.assign(host.dataset, { hash: location.hash, shown: '' });
  view = views[route.name](host, route, app);
  document.title = `${titles[route.name]} – feedfilter`;
  for (const link of document.querySelectorAll('nav [data-view]')) {
    const here = link.dataset.view === (route.name === 'page' ? 'search' : route.name);
    if (here) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (!first) {
    window.scrollTo(0, 0);
    host.querySelector('h1')?.focus();
  }
  poller.now();
}

/** tick asks for all that is shown, and reports whether that succeeded. */
async function tick(signal) {
  const shown = view;
  try {
    [app.health, app.recent] = await Promise.all([ask('v1/ops/health', { signal }), ask('v1/ops/history?window=15m', { signal })]);
    if (app.kinds.size === 0) app.kinds = new Map((await ask('v1/kinds', { signal })).kinds.map((kind) => [kind.name, kind]));
  } catch (error) {
    if (signal.aborted) throw error;
    return failed(error);
  }
  signal.throwIfAborted(); // another view took its place
  tell(judge(app.health, [...app.kinds.values()], app.recent));
  byId('forget').hidden = !token.has();
  try {
    await shown.refresh(signal);
  } catch (error) {
    if (signal.aborted || error.status === undefined) throw error;
    complain(problemWords(error));
    return error.status >= 400 && error.status < 500 && error.status !== 429; // asking less often does not help
  }
  signal.throwIfAborted();
  complain('');
  shownAt = new Date();
  host.dataset.shown = String(Number(host.dataset.shown) + 1);
  freshen();
  return true;
}

/**
 * complain shows a problem of this view only. It leaves unchanged words alone, because a screen
 * reader would repeat them.
 */
function complain(words) {
  if (problem.textContent !== words) fill(problem, words === '' ? null : notice('bad', words));
}

function failed(error) {
  if (error.status === undefined) throw error;
  const since = shownAt ? ` The figures below are from ${clock(shownAt)}.` : '';
  const way = error.status === 401 && declined ? ' Press Refresh to enter a token.' : '';
  tell({ state: error.status === 401 ? 'unknown' : 'bad', sentence: `${problemWords(error)}${way}${since}`, notes: [], facts: '' });
  if (error.status === 401 && !declined) signIn(token.has() ? 'The service does not know this token, or it has expired.' : 'This service needs a token.');
  if (error.status === 403) { byId('forget').hidden = false; }
  return false;
}

/**
 * tell shows how the service is. A screen reader speaks the sentence alone, and only when it
 * changes. It does not speak the notes, whose numbers always change.
 */
function tell({ state, sentence, notes, facts }) {
  byId('verdict').dataset.state = state;
  say(byId('verdict-facts'), facts);
  renew(byId('sentence'), [state, sentence], () => [mark(state), el('span', {}, sentence)]);
  renew(byId('notes'), notes, () => notes.map((n) => el('li', {}, mark(n.state), el('span', {}, n.text))));
}

/** freshen says how old what is shown is. */
function freshen() {
  if (!shownAt) return;
  const age = Date.now() - shownAt.getTime();
  const late = age > old;
  byId('age').toggleAttribute('data-old', late);
  say(byId('age'), late ? `${span(age / 1000)} old` : `As of ${clock(shownAt)}`);
}

function askAgain() {
  declined = false;
  app.histories.forget();
  poller.now();
}

function signIn(why) {
  const dialog = byId('token');
  if (dialog.open) return;
  say(byId('token-why'), why);
  byId('token-value').value = '';
  dialog.showModal();
}

byId('token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  declined = false;
  token.keep(byId('token-value').value.trim());
  byId('token').close();
  poller.now();
});
byId('token').addEventListener('cancel', () => { declined = true; poller.now(); });
document.querySelector('.skip').addEventListener('click', (event) => { event.preventDefault(); host.focus(); });
byId('forget').addEventListener('click', () => { token.forget(); location.reload(); });
byId('refresh').addEventListener('click', askAgain);
document.addEventListener('keydown', (event) => {
  const typing = event.target.closest?.('input, textarea, dialog');
  if (event.key === 'r' && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) askAgain();
});
window.addEventListener('hashchange', () => show());
setInterval(freshen, 1000);
show({ first: true });
