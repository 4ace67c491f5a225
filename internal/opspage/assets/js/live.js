// View: what goes on now, and did in the last hours.

import { Chart, rangeOf, ranges } from './chart.js';
import { el, renew } from './dom.js';
import { at, bytes, count, none, number, percent, plural, seconds, span, together } from './format.js';
import { Figures } from './figures.js';
import { latest, mean, often, times, total, worst } from './history.js';
import { notice } from './problem.js';

/** rate is a number a second. If events are rare at the peak, those of a step are counted. */
const rate = (v, step, peak) => [step && v > 0 && peak < 1 ? `${times(v, step)} in ${span(step)}` : number(v), ''];
const milliseconds = (v) => seconds(v / 1000);

const charts = [
  {
    title: 'Feeds and writes', unit: 'per second', meaning: 'Feeds answered, and activities recorded.', format: rate,
    series: (h) => [{ label: 'feeds', values: h.feeds }, { label: 'writes', values: h.writes }],
  },
  {
    title: 'Feed latency', unit: 'time per feed', meaning: 'Half of the feeds take less than p50; one in a hundred takes longer than p99.', format: milliseconds,
    series: (h) => [{ label: 'p50', values: h.p50_ms }, { label: 'p99', values: h.p99_ms }], empty: 'No feeds in this time.',
  },
  {
    title: 'Dropped posts', unit: 'per second, by kind', meaning: 'Posts dropped from feeds, by the first reason found.', format: rate,
    series: (h) => Object.keys(h.dropped).sort().map((kind) => ({ label: kind, values: h.dropped[kind] })),
  },
  {
    title: 'Poll age', unit: 'time since the last poll', meaning: 'Age of the last poll for writes of other processes: the highest in each step.', format: milliseconds,
    series: (h) => [{ label: 'poll age', values: h.poll_age_ms }], empty: 'There is no ledger to poll.',
  },
  {
    title: 'Problems', unit: 'per second', meaning: 'Feeds that could not check a kind, failed requests, and requests refused because of overload.', format: rate,
    series: (h) => [{ label: 'degraded feeds', values: h.degraded }, { label: 'errors', values: h.errors }, { label: 'refused', values: h.shed }],
  },
  {
    title: 'Rebuilds', unit: 'per second', meaning: 'Pages rebuilt from the ledger because they grew, were lost, or were faulty.', format: rate,
    series: (h) => [{ label: 'rebuilds', values: h.rebuilds }],
  },
  {
    title: 'False positives', unit: 'per second', meaning: 'Positives of exact feeds, and how many of them the ledger refuted.', format: rate,
    series: (h) => [{ label: 'asked', values: h.confirmed }, { label: 'false', values: h.false_positives }],
  },
  {
    title: 'Requests in progress', unit: 'at a time', meaning: 'At the end of each step, without health probes.', format: (v) => [count(v), ''],
    series: (h) => [{ label: 'in progress', values: h.in_progress }],
  },
];

export function live(host, route, app) {
  let range = rangeOf(route, '15m');
  const figures = new Figures('Now');
  const sources = el('div', { class: 'stack' });
  const drawn = charts.map((options) => new Chart(options));
  host.append(
    el('div', { class: 'head' }, el('div', {}, el('h1', { tabindex: -1 }, 'Live'), el('p', {}, 'This process only. Figures are of the last minute, unless they say otherwise.')),
      ranges(range, (chosen) => { range = chosen; app.keep({ range }); app.refresh(); })),
    el('div', { class: 'stack' }, figures.node, sources, el('div', { class: 'two' }, drawn.map((c) => c.node))),
  );
  return {
    async refresh(signal) {
      const history = range === '15m' ? app.recent : await app.histories.of(range, signal);
      figures.show(figuresOf(app.health, app.recent));
      renew(sources, app.health.sources, () => app.health.sources.map(followedWords));
      const polled = app.health.ledger === 'none' ? { ...history, poll_age_ms: history.time.map(() => null) } : history;
      for (const chart of drawn) chart.update(polled);
    },
    close: () => drawn.forEach((chart) => chart.close()),
  };
}

function figuresOf(health, h) {
  const dropped = Object.entries(h.dropped).map(([kind, column]) => [kind, mean(h, column)]).filter(([, v]) => v > 0);
  const droppedRate = dropped.reduce((sum, [, v]) => sum + v, 0);
  const looked = mean(h, h.candidates);
  const lately = (column) => often(h, mean(h, column));
  const bad = (column, state) => (mean(h, column) > 0 ? state : undefined);
  const late = health.staleness_bound_ms > 0 && health.poll_age_ms > 2 * health.staleness_bound_ms;
  return [
    { label: 'Feeds', value: lately(h.feeds), meaning: `Feeds answered. Posts checked: ${together(lately(h.candidates))}.` },
    { label: 'Typical feed', value: milliseconds(latest(h, h.p50_ms) ?? undefined), meaning: 'p50: half of the feeds took less, in the last step with feeds.' },
    { label: 'Slow feeds', value: milliseconds(worst(h, h.p99_ms) ?? undefined), meaning: 'p99: one in a hundred feeds took longer, in the worst step of the last minute.' },
    { label: 'Dropped posts', value: often(h, droppedRate), meaning: droppedWords(h, dropped, droppedRate, looked) },
    { label: 'Writes', value: lately(h.writes), meaning: 'Activities recorded, without no-ops.' },
    falsePositives(health, h),
    { label: 'Rebuilds', value: lately(h.rebuilds), meaning: 'From the ledger. Some are normal: pages grow, and the scrub rebuilds random pages.' },
    health.ledger === 'none'
      ? { label: 'Poll age', value: [none, ''], meaning: 'There is no ledger to poll.' }
      : { label: 'Poll age', value: milliseconds(health.poll_age_ms), state: late ? 'warn' : undefined, meaning: pollWords(health) },
    { label: 'Degraded feeds', value: lately(h.degraded), state: bad(h.degraded, 'warn'), meaning: 'Feeds that could not check a kind.' },
    { label: 'Errors', value: lately(h.errors), state: bad(h.errors, 'bad'), meaning: 'Requests that failed with an error of the service.' },
    missed(health),
    { label: 'In progress', value: [count(health.requests.in_progress), `of ${count(health.requests.limit)}`], state: bad(h.shed, 'warn'), meaning: `Requests in progress. Refused: ${together(lately(h.shed))}. The heap holds ${together(bytes(latest(h, h.heap_bytes)))}.` },
  ];
}

/** followedWords says how far the ledger has the log of a source, also while all is well. */
function followedWords(source) {
  const { name, followed, behind_seconds: late, behind_bytes: lacks } = source;
  const proof = proofWords(source);
  if (!followed) return notice('bad', `Source ${name}: nobody follows it.${proof}`);
  if (late === undefined) return notice('ok', `Source ${name}: followed by another process, which knows how far the ledger has it.${proof}`);
  if (late <= 0) return notice('ok', `Source ${name}: followed. The ledger lacks nothing that this instance knows of.${proof}`);
  return notice(late > 10 ? 'warn' : 'ok', `Source ${name}: followed. The ledger is ${together(seconds(late))} behind, ${together(bytes(lacks))} of its log.${proof}`);
}

/** proofWords says when all rows of a source were last compared with the ledger. */
const proofWords = ({ proved_at: proved }) => (proved ? ` Source and ledger were the same, last proved at ${at(proved)}.` : '');

/** missed is what comparing feeds with the ledger has found. */
function missed({ sampling, ledger }) {
  const label = 'Missed drops';
  if (sampling.candidates === 0) return { label, value: [none, ''], meaning: `Posts shown, or not annotated, against the ledger. ${ledger === 'none' ? 'There is no ledger.' : 'No feed was compared yet.'}` };
  return {
    label, value: [count(sampling.misses), `of ${count(sampling.candidates)}`], state: sampling.misses > 0 ? 'bad' : undefined,
    meaning: `Posts shown, or not annotated, against the ledger, among those compared since the start. Must stay 0. ${count(sampling.false_positives)} ${sampling.false_positives === 1 ? 'was' : 'were'} dropped or annotated wrongly.`,
  };
}

function droppedWords(h, dropped, rate, looked) {
  if (rate === 0) return 'No post was dropped.';
  const unit = often(h, rate)[1];
  const kinds = dropped.map(([kind, v]) => {
    const said = often(h, v);
    return `${kind} ${said[1] === unit ? said[0] : together(said)}`;
  }).join(', ');
  return `${looked > 0 ? `${together(percent(rate / looked))} of the posts checked: ` : ''}${kinds}.`;
}

function pollWords(health) {
  const bound = health.staleness_bound_ms;
  return `Time since the last poll of the ledger; ${bound > 0 ? `the limit is ${span2(bound)}` : 'each feed asks the ledger'}.`;
}

const span2 = (ms) => (ms < 1000 ? `${ms} ms` : span(ms / 1000));

/** falsePositives is what comparing feeds with the ledger has found, and what exact feeds found. */
function falsePositives({ sampling, false_positive_rate: configured }, h) {
  const [asked, wrong] = [Math.round(total(h, h.confirmed)), Math.round(total(h, h.false_positives))];
  const found = asked > 0 ? ` Of ${plural(asked, 'positive')} of exact feeds checked in the last ${span(h.window_seconds)}, ${count(wrong)} ${wrong === 1 ? 'was' : 'were'} false.` : '';
  return {
    label: 'False positives', value: percent(sampling.candidates > 0 ? sampling.false_positives / sampling.candidates : undefined), meaning:
      `of posts compared with the ledger since the start. Configured: ${together(percent(configured))}.${found}`,
  };
}
