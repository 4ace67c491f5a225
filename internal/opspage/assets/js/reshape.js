// How far a reshape is: a change of the number of pages, which only grows.

import { count, plural } from './format.js';

/** underWay says how far a reshape is. It builds all new pages, and then removes the old ones. */
export function underWay(reshape) {
  const to = plural(reshape.pages, 'page');
  if (reshape.reshaped === reshape.homes) return `A reshape to ${to} is running: all are built, and the old pages are being removed.`;
  return `A reshape to ${to} is running: ${built(reshape)} of them are built.`;
}

/** stalled says why a reshape does not proceed. */
export const stalled = (reshape) => `The reshape to ${plural(reshape.pages, 'page')} is stalled: ${reshape.trouble}.`;

/** unfinished says that a reshape was begun that the process which answers does not work on. */
export const unfinished = (reshape) => `A reshape to ${plural(reshape.pages, 'page')} is not finished: ${built(reshape)} of them are built. ` +
  'This process does not work on it. If no other process does, start it again.';

/** dueNow is how many pages are due: 0 if there are enough, or a reshape to as many is running. */
export const dueNow = ({ pages, reshape }) => (reshape?.running && reshape.pages >= pages.due ? 0 : pages.due);

const built = (reshape) => count(Math.floor((reshape.pages * reshape.reshaped) / reshape.homes));
