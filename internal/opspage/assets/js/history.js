// What GET /v1/ops/history answers, and what its columns come to.

import { ask } from './api.js';
import { count, none, number } from './format.js';

const fresh = 15; // seconds

/** Histories keeps each history while few new steps are added: a day takes a few hundred KB. */
export class Histories {
  #kept = new Map(); // by window

  /**
   * of returns the history of a window: "15m", "1h" or "24h". It is at most one step of the window
   * or 15 seconds old, whichever is longer.
   */
  async of(window, signal) {
    const kept = this.#kept.get(window);
    if (kept && Date.now() - kept.at < 1000 * Math.max(fresh, kept.history.step_seconds)) return kept.history;
    const history = await ask(`v1/ops/history?window=${window}`, { signal });
    this.#kept.set(window, { at: Date.now(), history });
    return history;
  }

  forget() {
    this.#kept.clear();
  }
}

/** tail returns the known values of the last secondsBack seconds of a column. */
export function tail(history, column, secondsBack = 60) {
  const steps = Math.max(1, Math.round(secondsBack / history.step_seconds));
  return (column ?? []).slice(-steps).filter((v) => v !== null && v !== undefined);
}

/** mean is that of the last minute, null if there is nothing. */
export function mean(history, column) {
  const values = tail(history, column);
  return values.length === 0 ? null : values.reduce((a, b) => a + b, 0) / values.length;
}

/**
 * often says how often something happened in the last minute, from its mean rate: as a rate, or how
 * many times if that is less than once a second.
 */
export function often(history, rate) {
  if (rate === null) return [none, ''];
  if (rate >= 1) return [number(rate), 'per second'];
  const lasted = tail(history, history.time).length * history.step_seconds;
  return [times(rate, lasted), 'in the last minute'];
}

/** times is how many times something happened in so many seconds, if it did at all. */
export const times = (rate, seconds) => count(rate > 0 ? Math.max(1, Math.round(rate * seconds)) : 0);

/** worst is the highest of the last minute, null if there is nothing. */
export function worst(history, column) {
  const values = tail(history, column);
  return values.length === 0 ? null : Math.max(...values);
}

/** latest is the last value that is known, null if there is none. */
export function latest(history, column) {
  return tail(history, column).at(-1) ?? null;
}

/** total is what a column of rates comes to over all of its time. */
export function total(history, column) {
  return (column ?? []).reduce((sum, v) => sum + (v ?? 0), 0) * history.step_seconds;
}
