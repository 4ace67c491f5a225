import { FeedFilterError } from "./errors.js";

/** The longest time of a timer, in milliseconds. */
const longestTimerMs = 2 ** 31 - 1;

/** The time of one call. It ends when the caller aborts the call, or at the timeout. */
export class Scope {
  readonly #controller = new AbortController();
  readonly #caller: AbortSignal | undefined;
  readonly #end: number;
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #abort = () => this.#controller.abort(this.#caller!.reason);

  /** timeoutMs limits the time of the call; 0: no limit. */
  constructor(caller: AbortSignal | undefined, timeoutMs: number) {
    this.#caller = caller;
    this.#end = timeoutMs > 0 ? performance.now() + timeoutMs : Infinity;
    if (timeoutMs > 0) {
      this.#timer = setTimeout(() => this.#controller.abort(late(timeoutMs)), Math.min(timeoutMs, longestTimerMs));
    }
    if (caller?.aborted) this.#abort();
    else caller?.addEventListener("abort", this.#abort, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Throws the reason if the scope has ended. */
  check(): void {
    this.signal.throwIfAborted();
  }

  /** The remaining time. */
  leftMs(): number {
    return this.#end - performance.now();
  }

  /** Waits for the promise. Rejects if the scope ends first. */
  async within<T>(promise: T | PromiseLike<T>): Promise<T> {
    const { signal } = this;
    signal.throwIfAborted();
    let ended = () => {};
    const end = new Promise<never>((_, reject) => {
      ended = () => reject(signal.reason);
      signal.addEventListener("abort", ended);
    });
    try {
      return await Promise.race([promise, end]);
    } finally {
      signal.removeEventListener("abort", ended);
    }
  }

  /** Waits for the promise. Ends the scope if that takes longer than ms. */
  async heard<T>(promise: Promise<T>, ms: number): Promise<T> {
    const timer = setTimeout(() => this.#controller.abort(late(ms)), ms);
    try {
      return await this.within(promise);
    } finally {
      clearTimeout(timer);
    }
  }

  async sleep(ms: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      await this.within(new Promise<void>((resolve) => (timer = setTimeout(resolve, ms))));
    } finally {
      clearTimeout(timer);
    }
  }

  /** Releases the timer and the caller's signal. */
  end(): void {
    clearTimeout(this.#timer);
    this.#caller?.removeEventListener("abort", this.#abort);
  }
}

function late(timeoutMs: number): FeedFilterError {
  return new FeedFilterError(`no answer within ${timeoutMs} ms`, { code: "deadline_exceeded" });
}
