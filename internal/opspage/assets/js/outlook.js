// When pages will be too full, as far as the past says.

import { count, plural, span } from './format.js';
import { dueNow } from './reshape.js';

const least = 3600; // seconds of history, below which nothing is said
const reach = 10; // times what was seen, beyond which nothing is said

/**
 * outlook says in words when keys per page reach the line from which a reshape is due. It draws a
 * straight line through the first and the last value of the history. It forecasts at most ten times
 * the length of the history.
 */
export function outlook(health, history) {
  const { pages } = health;
  if (dueNow(health) > 0) return `Raise the number of pages now: ${plural(pages.due, 'page')}: run "feedfilter reshape --pages ${pages.due}".`;
  const known = history.time.map((t, i) => [t, history.keys[i]]).filter(([, keys]) => keys > 0);
  const seen = known.length < 2 ? 0 : known.at(-1)[0] - known[0][0];
  if (seen < least) return `Too little history for a forecast: ${seen > 0 ? span(seen) : 'none'} of at least an hour.`;
  const grown = known.at(-1)[1] - known[0][1];
  if (grown <= 0) return `In the last ${span(seen)} keys did not grow (${count(grown)}): no reshape is in sight.`;
  const pace = grown / seen;
  const left = (pages.due_from - pages.keys_per_page) * pages.shared;
  const said = `Keys grew by ${count(grown)} in the last ${span(seen)}.`;
  if (left / pace > reach * seen) return `${said} At that pace no reshape is due within ${span(reach * seen)}. The history is too short to look further ahead.`;
  return `${said} At that pace a reshape is due in about ${span(left / pace)}, by linear extrapolation.`;
}
