// View: what goes on now, and did in the last hours.

import { ask } from './api.js';
import { Chart, rangeOf, ranges } from './chart.js';
import { el } from './dom.js';
import { bytes, count, none, number, percent, plural, seconds, span, together } from './format.js';
import { Figures } from './figures.js';
import { latest, mean, total, worst } from './history.js';

const rate = (v) => [number(v), ''];
const milliseconds = (v) => seconds(v / 1000);

const charts = [
  {
    title: 'Feeds and writes', unit: 'a second', meaning: 'Feed checks that were answered, and activities that were recorded.', format: rate,
    series: (h) => [{ label: 'feeds', values: h.feeds }, { label: 'writes', values: h.writes }],
  },
  {
    title: 'How long feeds take', unit: 'time for one', meaning: 'Half of the feeds take less than p50; one in a hundred takes longer than p99.', format: milliseconds,
    series: (h) => [{ label: 'p50', values: h.p50_ms }, { label: 'p99', values: h.p99_ms }], empty: 'No feed was asked for.',
  },
  {
    title: 'Dropped posts', unit: 'a second, by kind', meaning: 'Posts that were left out of feeds, by the first reason found.', format: rate,
    series: (h) => Object.keys(h.dropped).sort().map((kind) => ({ label: kind, values: h.dropped[kind] })),
  },
  {
    title: 'Lag', unit: 'time since the last poll', meaning: 'How old what this process knew of other processes\' writes was, at the end of each step.', format: milliseconds,
    series: (h) => [{ label: 'poll age', values: h.poll_age_ms }], empty: 'There is no ledger to poll.',
  },
  {
    title: 'Trouble', unit: 'a second', meaning: 'Feeds with a kind that could not be checked, requests that failed, and requests refused for overload.', format: rate,
    series: (h) => [{ label: 'degraded feeds', values: h.degraded }, { label: 'errors', values: h.errors }, { label: 'refused', values: h.shed }],
  },
  {
    title: 'Pages made anew', unit: 'a second', meaning: 'From the ledger: because they grew, lost something, or could not be trusted.', format: rate,
    series: (h) => [{ label: 'rebuilds', values: h.rebuilds }],
  },
  {
    title: 'False positives', unit: 'a second', meaning: 'What exact feeds asked the ledger about, and what of it was false.', format: rate,
    series: (h) => [{ label: 'asked', values: h.confirmed }, { label: 'false', values: h.false_positives }],
  },
  {
    title: 'Requests in progress', unit: 'at a time', meaning: 'At the end of each step. Probes are not counted.', format: (v) => [count(v), ''],
    series: (h) => [{ label: 'in progress', values: h.in_progress }],
  },
];

export function live(host, route, app) {
  let range = rangeOf(route, '15m');
  const figures = new Figures('What goes on now');
  const drawn = charts.map((options) => new Chart(options));
  host.append(
    el('div', { class: 'head' }, el('div', {}, el('h1', { tabindex: -1 }, 'Live'), el('p', {}, 'Of this process. Figures are means of the last minute, unless they say otherwise.')),
      ranges(range, (chosen) => { range = chosen; app.keep({ range }); app.refresh(); })),
    el('div', { class: 'stack' }, figures.node, el('div', { class: 'two' }, drawn.map((c) => c.node))),
  );
  return {
    async refresh(signal) {
      const [history, map] = await Promise.all([
        range === '15m' ? app.recent : app.histories.of(range, signal),
        ask('v1/ops/pages?cells=2', { signal }),
      ]);
      figures.show(figuresOf(app.health, app.recent, map));
      const polled = app.health.ledger === 'none' ? { ...history, poll_age_ms: history.time.map(() => null) } : history;
      for (const chart of drawn) chart.update(polled);
    },
    close: () => drawn.forEach((chart) => chart.close()),
  };
}

function figuresOf(health, h, map) {
  const dropped = Object.entries(h.dropped).map(([kind, column]) => [kind, mean(h, column)]).filter(([, v]) => v > 0);
  const droppedRate = dropped.reduce((sum, [, v]) => sum + v, 0);
  const looked = mean(h, h.candidates);
  const bad = (column, state) => (mean(h, column) > 0 ? state : undefined);
  const late = health.staleness_bound_ms > 0 && health.poll_age_ms > 2 * health.staleness_bound_ms;
  return [
    { label: 'Feeds', value: [number(mean(h, h.feeds)), 'a second'], meaning: `Feed checks answered; ${number(looked)} posts looked at a second.` },
    { label: 'Typical feed', value: milliseconds(latest(h, h.p50_ms) ?? undefined), meaning: 'p50: half of the feeds took less, in the last step that had any.' },
    { label: 'Slow feeds', value: milliseconds(worst(h, h.p99_ms) ?? undefined), meaning: 'p99: one in a hundred took longer, in the worst step of the last minute.' },
    { label: 'Dropped posts', value: [number(droppedRate), 'a second'], meaning: droppedWords(dropped, droppedRate, looked) },
    { label: 'Writes', value: [number(mean(h, h.writes)), 'a second'], meaning: 'Activities recorded that changed something.' },
    falsePositives(health, h, map),
    { label: 'Pages made anew', value: [number(mean(h, h.rebuilds)), 'a second'], meaning: 'Rebuilt from the ledger. Some are always: pages grow, and the scrub tries random ones.' },
    health.ledger === 'none'
      ? { label: 'Lag', value: [none, ''], meaning: 'There is no ledger to poll.' }
      : { label: 'Lag', value: milliseconds(health.poll_age_ms), state: late ? 'warn' : undefined, meaning: lagWords(health) },
    { label: 'Degraded feeds', value: [number(mean(h, h.degraded)), 'a second'], state: bad(h.degraded, 'warn'), meaning: 'Feeds with a kind that could not be checked.' },
    { label: 'Errors', value: [number(mean(h, h.errors)), 'a second'], state: bad(h.errors, 'bad'), meaning: 'Requests that failed for a reason of the service\'s.' },
    missed(health),
    { label: 'In progress', value: [count(health.requests.in_progress), `of ${count(health.requests.limit)}`], state: bad(h.shed, 'warn'), meaning: `Requests right now; ${number(mean(h, h.shed))} a second refused. The heap holds ${together(bytes(latest(h, h.heap_bytes)))}.` },
  ];
}

/** missed is what comparing feeds with the ledger has found. */
function missed({ sampling, ledger }) {
  const label = 'Missed drops';
  if (sampling.candidates === 0) return { label, value: [none, ''], meaning: `Posts shown, or not marked, against the ledger. ${ledger === 'none' ? 'There is none to compare feeds with.' : 'No feed was compared with it yet.'}` };
  return {
    label, value: [count(sampling.misses), `of ${count(sampling.candidates)}`], state: sampling.misses > 0 ? 'bad' : undefined,
    meaning: `Posts shown, or not marked, against the ledger, of those compared with it since the start: must be none. ${count(sampling.false_positives)} ${sampling.false_positives === 1 ? 'was' : 'were'} dropped or marked wrongly.`,
  };
}

function droppedWords(dropped, rate, looked) {
  if (rate === 0) return 'Nothing was left out of a feed.';
  const kinds = dropped.map(([kind, v]) => `${kind} ${number(v)}`).join(', ');
  return `${looked > 0 ? `${together(percent(rate / looked))} of what was looked at: ` : ''}${kinds}.`;
}

function lagWords(health) {
  const bound = health.staleness_bound_ms;
  return `Since the ledger was asked for others' writes; ${bound > 0 ? `to be below ${span2(bound)}` : 'it is asked for each feed'}.`;
}

const span2 = (ms) => (ms < 1000 ? `${ms} ms` : span(ms / 1000));

/** falsePositives is an estimate by the bits that are set, and what exact feeds found. */
function falsePositives(health, h, map) {
  const stand = map.cells.filter((c) => c.looked_at > 0);
  const rateMax = stand.length === 0 ? undefined : Math.max(...stand.map((c) => c.rate_max));
  const [asked, wrong] = [Math.round(total(h, h.confirmed)), Math.round(total(h, h.false_positives))];
  const found = asked > 0 ? ` Of ${plural(asked, 'positive')} that exact feeds had checked in the last ${span(h.window_seconds)}, ${count(wrong)} ${wrong === 1 ? 'was' : 'were'} false.` : '';
  return {
    label: 'False positives', value: percent(rateMax), meaning:
      `of keys looked up, on the worst page, by its set bits. Made for ${together(percent(health.false_positive_rate))} of posts.${found}`,
  };
}
