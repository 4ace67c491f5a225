/**
 * Poller calls task every 5 s while it succeeds, and less and less often while it fails. It makes
 * no calls while the page is hidden, and one call at a time.
 */
export class Poller {
  #task;
  #timer = 0;
  #running = null; // AbortController of the call in progress
  #failures = 0;

  static interval = 5_000; // milliseconds
  static longest = 60_000;

  constructor(task) {
    this.#task = task;
    document.addEventListener('visibilitychange', () => (document.hidden ? this.#rest() : this.now()));
  }

  /** now calls the task at once, in place of one that is in progress. */
  now() {
    this.#rest();
    this.#call();
  }

  /** wait is how long the next call is away after one that ended, in milliseconds. */
  get wait() {
    return Math.min(Poller.interval * 2 ** this.#failures, Poller.longest);
  }

  async #call() {
    const running = new AbortController();
    this.#running = running;
    let succeeded = false;
    try {
      succeeded = await this.#task(running.signal);
    } catch (error) {
      if (!running.signal.aborted) console.error(error);
    }
    if (running.signal.aborted) return; // another took its place, or nobody looks
    this.#failures = succeeded ? 0 : Math.min(this.#failures + 1, 10);
    this.#running = null;
    if (!document.hidden) this.#timer = setTimeout(() => this.#call(), this.wait);
  }

  #rest() {
    clearTimeout(this.#timer);
    this.#running?.abort(new DOMException('not wanted any more', 'AbortError'));
    this.#running = null;
  }
}
