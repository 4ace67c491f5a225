import { retryable, type FeedFilterError } from "./errors.js";
import { LostError } from "./http.js";

/** Bounds the random pause before the second attempt; each further pause doubles it. */
const firstPauseMs = 100;
/** Bounds every random pause. */
const longestPauseMs = 3_000;
/** The longest Retry-After that the client waits for. */
const longestWaitMs = 30_000;
/** Retries while no call succeeds. */
const maxBudget = 10;
/** Part of a retry that each call that succeeds earns. */
const refund = 0.1;

/**
 * Bounds the retries of all calls together, so that clients do not keep an overloaded service down.
 */
export class Budget {
  #left = maxBudget;

  /** Takes one retry, and returns whether there was one. */
  take(): boolean {
    if (this.#left < 1) return false;
    this.#left--;
    return true;
  }

  earn(): void {
    this.#left = Math.min(this.#left + refund, maxBudget);
  }
}

/**
 * Returns whether a retry may succeed and does no harm. With `once`, it is harmless only if the
 * attempt had no effect.
 */
export function mayRetry(error: FeedFilterError, once: boolean): boolean {
  const lost = error instanceof LostError;
  if (!lost && !retryable(error.status)) return false;
  if ((error.retryAfterMs ?? 0) > longestWaitMs) return false;
  return !once || error.overloaded || (lost && error.unsent);
}

/** Returns how long to wait before the attempt after this one, which failed with the error. */
export function pauseMs(error: FeedFilterError, attempt: number): number {
  if (error.retryAfterMs) return error.retryAfterMs + Math.random() * firstPauseMs;
  return Math.random() * Math.min(firstPauseMs * 2 ** (attempt - 1), longestPauseMs);
}
