// What GET /v1/ops/history answers, and what its columns come to.

import { ask } from './api.js';

const often = 15; // seconds

/** Histories keeps each history while few new steps are added: a day takes a few hundred KB. */
export class Histories {
  #kept = new Map(); // by window

  /**
   * of returns the history of a window: "15m", "1h" or "24h". It is at most one step of the window
   * or 15 seconds old, whichever is longer.
   */
  async of(window, signal) {
    const kept = this.#kept.get(window);
    if (kept && Date.now() - kept.at < 1000 * Math.max(often, kept.history.step_seconds)) return kept.history;
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
