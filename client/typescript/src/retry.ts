import { retryable, type FeedFilterError } from "./errors.js";
import { LostError } from "./http.js";

/** Limits the random pause before the second attempt. Doubles with each attempt. */
const firstPauseMs = 100;
/** Limits every random pause. */
const longestPauseMs = 3_000;
/** The longest Retry-After for which the client waits. */
const longestWaitMs = 30_000;
/** Retries without a successful call. */
const maxBudget = 10;
/** Part of a retry that each successful call earns. */
const refund = 0.1;

/**
 * Limits the retries of all calls together, so that clients do not overload the service further.
 */
export class Budget {
  #left = maxBudget;

  /** Takes one retry, if one is left, and returns whether it was. */
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
 * Returns whether a retry may succeed and does no harm. With `once`, a retry is harmless only if
 * the attempt had no effect.
 */
export function mayRetry(error: FeedFilterError, once: boolean): boolean {
  const lost = error instanceof LostError;
  if (!lost && !retryable(error)) return false;
  if ((error.retryAfterMs ?? 0) > longestWaitMs) return false;
  return !once || error.overloaded || error.code === "not_yet" || (lost && error.unsent);
}

/** Returns how long to wait after this attempt, which failed with the error. */
export function pauseMs(error: FeedFilterError, attempt: number): number {
  if (error.retryAfterMs) return error.retryAfterMs + Math.random() * firstPauseMs;
  return Math.random() * Math.min(firstPauseMs * 2 ** (attempt - 1), longestPauseMs);
}
