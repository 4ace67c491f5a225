// How the service is, in words: one sentence, and what needs a look.

import { at, bytes, count, number, plural, span, together } from './format.js';
import { mean, often } from './history.js';
import { dueNow, stalled, underWay as reshapeUnderWay } from './reshape.js';

const stores = {
  memory: 'in the process', redis: 'in Redis', 'redis+cluster': 'in a Redis cluster', 'redis+sentinel': 'in Redis behind Sentinel',
  elasticache: 'in ElastiCache', 'elasticache-serverless': 'in ElastiCache Serverless',
};
const ledgers = { sqlite: 'ledger in SQLite', postgres: 'ledger in PostgreSQL', none: 'no ledger' };

/**
 * judge returns the state ("ok", "warn" or "bad"), the sentence, notes of a state and a text each,
 * and facts. kinds and history may be null.
 */
export function judge(health, kinds, history) {
  const notes = [...untrue(health), ...trouble(health), ...sourceTrouble(health), ...lately(history), ...pageTrouble(health), ...underWay(health)];
  const needed = notes.filter((n) => n.state !== 'info').length;
  const facts = factsOf(health);
  if (health.status === 'unavailable') return { state: 'bad', sentence: dead(health), notes, facts };
  if (health.status === 'degraded') return { state: 'bad', sentence: halved(health, kinds), notes, facts };
  const unfollowed = health.sources.filter((s) => !s.followed);
  if (unfollowed.length > 0) return { state: 'bad', sentence: `Nobody follows the source ${names(unfollowed)}: feeds lack what the app has written since.`, notes, facts };
  if (health.sampling.misses > 0) return { state: 'bad', sentence: 'A feed showed a post that its viewer must not see.', notes, facts };
  if (needed === 0) return { state: 'ok', sentence: 'Answering feeds. No problems found.', notes, facts };
  return { state: 'warn', sentence: `Answering feeds. ${needed === 1 ? 'One problem needs' : `${needed} problems need`} attention.`, notes, facts };
}

const isDown = (health, dependency) => health.down.some((d) => d.dependency === dependency);
const storeName = (health) => ({ memory: 'The pages', elasticache: 'ElastiCache', 'elasticache-serverless': 'ElastiCache' }[health.page_store] ?? 'Redis');

function dead(health) {
  const name = storeName(health);
  if (health.ledger === 'none') return `Feeds cannot be answered: ${name} cannot be reached.`;
  return `Feeds cannot be answered: neither ${name} nor the ledger can be reached.`;
}

function halved(health, kinds) {
  if (isDown(health, 'pages')) {
    const lost = (kinds ?? []).filter((k) => !k.ledger).map((k) => k.name);
    const unchecked = lost.length === 0 ? '' : `; ${lost.join(', ')} ${lost.length === 1 ? 'is' : 'are'} not checked`;
    return `${storeName(health)} cannot be reached: feeds are answered from the ledger${unchecked}.`;
  }
  if (isDown(health, 'ledger')) return 'The ledger cannot be reached: feeds are answered from the pages; writes are refused.';
  return 'Answering feeds, with problems.';
}

function untrue({ sampling }) {
  if (sampling.misses === 0) return [];
  return [{
    state: 'bad',
    text: `${plural(sampling.misses, 'post')} of ${count(sampling.candidates)} compared with the ledger since the start ` +
      `${sampling.misses === 1 ? 'was' : 'were'} shown, or not annotated, although the ledger has the activity. ` +
      `${plural(sampling.repaired, 'page')} rebuilt for this. The log has each.`,
  }];
}

function trouble(health) {
  const notes = health.down.map((d) => ({ state: 'bad', text: `${d.dependency === 'pages' ? storeName(health) : `The ${d.dependency}`}: ${d.reason}.` }));
  if (health.staleness_bound_ms > 0 && health.poll_age_ms > 2 * health.staleness_bound_ms) {
    notes.push({
      state: 'warn',
      text: `The last poll of the ledger was ${span(health.poll_age_ms / 1000)} ago; the limit is ${together(bound(health))}: ` +
        'writes of other processes that Redis lost may be missed.',
    });
  }
  if (health.requests.in_progress >= 0.9 * health.requests.limit) {
    notes.push({ state: 'warn', text: `${count(health.requests.in_progress)} of the ${count(health.requests.limit)} requests allowed are in progress. Above the limit, requests are refused.` });
  }
  return notes;
}

const names = (sources) => sources.map((s) => s.name).join(', ');

const twoDays = 2 * 24 * 60 * 60 * 1000;
const unproved = (source) => source.proved_at && Date.now() - new Date(source.proved_at).getTime() > twoDays;

function sourceTrouble({ sources }) {
  return sources.flatMap((s) => [
    ...(s.trouble ? [{ state: s.followed ? 'warn' : 'bad', text: `This instance cannot follow the source ${s.name}: ${s.trouble}.` }] : []),
    ...(unproved(s) ? [{ state: 'warn', text: `The ledger was last proved to be the same as the source ${s.name} at ${at(s.proved_at)}, more than two days ago: the log says why the comparison fails.` }] : []),
    ...(s.behind_seconds > 10 ? [{ state: 'warn', text: `The ledger lacks ${together(bytes(s.behind_bytes))} of the log of ${s.name}, of the last ${span(s.behind_seconds)}.` }] : []),
  ]);
}

const bound = (health) => (health.staleness_bound_ms < 1000 ? [count(health.staleness_bound_ms), 'ms'] : [number(health.staleness_bound_ms / 1000), 's']);

function lately(history) {
  if (!history) return [];
  const said = [
    [history.errors, 'request', 'failed with an error of the service. The log has each, with its request id.'],
    [history.shed, 'request', 'refused because of overload.', 'was', 'were'],
    [history.degraded, 'feed', 'could not check a kind.'],
  ];
  return said.flatMap(([column, thing, words, ...verb]) => {
    const rate = mean(history, column);
    const [n, unit] = often(history, rate);
    const things = n === '1' ? thing : `${thing}s`;
    const what = [n, things, unit === 'per second' && unit, verb[n === '1' ? 0 : 1], words].filter(Boolean).join(' ');
    return rate > 0 ? [{ state: 'warn', text: `In the last minute ${what}` }] : [];
  });
}

function pageTrouble(health) {
  const { pages, reshape, scrub } = health;
  const notes = [];
  if (pages.faulty > 0) {
    notes.push({
      state: 'warn',
      text: `${plural(pages.faulty, 'page')} ${pages.faulty === 1 ? 'was' : 'were'} faulty at the last check${scrubbed(pages)}. The next feed that reads one rebuilds it first, and so does the scrub. ` +
        'If the number does not fall, rebuilds fail: the log says why.',
    });
  }
  if (dueNow(health) > 0) {
    notes.push({
      state: 'warn',
      text: `There are too few pages: ${count(pages.keys_per_page)} keys on each${scrubbed(pages)}, more than ${count(pages.due_from)}. ` +
        `"feedfilter reshape --pages ${pages.due}" raises the number while the service runs.`,
    });
  }
  if (reshape?.trouble) notes.push({ state: 'warn', text: stalled(reshape) });
  if (scrub?.asked?.trouble) notes.push({ state: 'warn', text: `The requested scrub ended early: ${scrub.asked.trouble}.` });
  if (scrub?.asked?.failed > 0) notes.push({ state: 'warn', text: `The requested scrub could not repair ${plural(scrub.asked.failed, 'page')}.` });
  return notes;
}

function underWay({ reshape, scrub }) {
  const notes = [];
  if (reshape?.running) notes.push({ state: 'info', text: reshapeUnderWay(reshape) });
  if (scrub?.asked?.running) notes.push({ state: 'info', text: `A scrub is running: ${count(scrub.asked.done)} of ${plural(scrub.asked.all, 'page')} done.` });
  return notes;
}

function factsOf(health) {
  const { pages } = health;
  const all = pages.shared + pages.dedicated;
  return [
    health.version, `up ${span(health.uptime_seconds)}`, `pages ${stores[health.page_store.replace('redis-', 'redis+')] ?? `in ${health.page_store}`}`, ledgers[health.ledger] ?? health.ledger,
    plural(all, 'page'), ...counted(pages),
  ].filter(Boolean).join(' · ');
}

/** counted is what the last scrub counted, or has counted so far: nothing without a ledger. */
function counted(pages) {
  if (pages.looked_at === 0) return [];
  const on = pages.counted_at ? '' : ` on the ${count(pages.looked_at)} checked so far`;
  return [`${plural(pages.keys, 'key')}${on}`, `${together(bytes(pages.bytes))}${scrubbed(pages)}`];
}

/** scrubbed says when the last scrub ended. */
const scrubbed = (pages) => (pages.counted_at ? ` (scrub of ${at(pages.counted_at)})` : '');
