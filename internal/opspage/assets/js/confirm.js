import { el } from './dom.js';

/** confirmed asks a question, and resolves to whether the answer was yes. */
export function confirmed(title, words, yes) {
  return new Promise((resolve) => {
    let sure = false;
    const no = el('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel');
    const go = el('button', { type: 'button', class: 'main', onclick: () => { sure = true; dialog.close(); } }, yes);
    const dialog = el('dialog', { 'aria-labelledby': 'question', onclose: () => { dialog.remove(); resolve(sure); } },
      el('div', { class: 'stack' }, el('h2', { id: 'question' }, title), el('p', {}, words), el('div', { class: 'row' }, go, no)));
    window.addEventListener('hashchange', () => dialog.close(), { once: true }); // another view is not what was asked about
    document.body.append(dialog);
    dialog.showModal();
    no.focus();
  });
}
