// What went wrong with a call, in words, and what to do.

import { el, mark } from './dom.js';

/** problemWords says what an error of a call means; scope is what the call needs of a token. */
export function problemWords(error, scope = 'ops:read') {
  switch (error.status) {
    case 401: return 'The service needs a token, or does not know this one.';
    case 403: return error.code !== 'forbidden' ? sentence(error.message) : `The token does not have the scope ${scope}, which is required here. ${sentence(error.message)}`;
    case 501: return 'This needs a ledger, and the service runs without one.';
    default: return error.field && error.status !== 0 ? `${error.field}: ${error.message}.` : sentence(error.message);
  }
}

const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`).replace(/^./, (first) => first.toUpperCase());

/** notice is a box with a state and words. */
export function notice(state, ...words) {
  return el('div', { class: 'notice', 'data-state': state, role: state === 'bad' ? 'alert' : null }, mark(state), el('div', {}, words));
}
