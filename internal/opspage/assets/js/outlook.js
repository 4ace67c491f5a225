// When pages will be too full, as far as the past says.

import { count, plural, span } from './format.js';

const least = 3600; // seconds of history, below which nothing is said
const reach = 10; // times what was seen, beyond which nothing is said

/**
 * outlook says in words when keys per page reach the line from which a reshape is due, by a straight line through the first and the last
 * of the history. It says nothing of what is further away than ten times what was seen.
 */
export function outlook(health, history) {
  const { pages } = health;
  if (pages.due > 0) return `More pages are due now: ${plural(pages.due, 'page')}, by "feedfilter reshape --pages ${pages.due}".`;
  const known = history.time.map((t, i) => [t, history.keys[i]]).filter(([, keys]) => keys > 0);
  const seen = known.length < 2 ? 0 : known.at(-1)[0] - known[0][0];
  if (seen < least) return `Too little has been seen to say where this goes: ${seen > 0 ? span(seen) : 'nothing yet'} of at least an hour.`;
  const grown = known.at(-1)[1] - known[0][1];
  if (grown <= 0) return `In the last ${span(seen)} keys did not grow (${count(grown)}), so nothing is due as it goes now.`;
  const pace = grown / seen;
  const left = (pages.due_from - pages.keys_per_page) * pages.shared;
  const said = `Keys grew by ${count(grown)} in the last ${span(seen)}.`;
  if (left / pace > reach * seen) return `${said} At that pace no more pages are due within ${span(reach * seen)}; what comes later is not to be told from so little.`;
  return `${said} At that pace more pages are due in about ${span(left / pace)}. That is a straight line, and no more.`;
}
