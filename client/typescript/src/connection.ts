import { open } from "#http";
import { FeedFilterError, retryable, unexpected } from "./errors.js";
import { LostError, type Answer, type HTTP } from "./http.js";
import { detailOf, errorOf } from "./messages.js";
import { Budget, mayRetry, pauseMs } from "./retry.js";
import { Scope } from "./scope.js";
import { checkText } from "./texts.js";
import type { CallOptions, Options } from "./types.js";

const newline = 10;
const longestRetryAfterMs = 3_600_000;
/** How long a stream may be silent: longer than the service lets one stand still. */
const silenceMs = 90_000;

/** One call of the service. */
export interface Call<T> {
  method: string;
  /** Unescaped segments. */
  path: readonly string[];
  query?: Record<string, string> | undefined;
  body?: Uint8Array | undefined;
  /** The media type of the request and the answer. */
  type: "application/proto" | "application/json";
  /** Turns the body of the answer into the result. */
  decode(body: Uint8Array): T;
  /** Whether a retry does harm if an attempt has taken effect. */
  once?: boolean | undefined;
  /** A status whose answer is read like that of 200. */
  also?: number;
  maxAttempts?: number;
  /** The default timeout of the call. */
  timeoutMs?: number;
}

/** A request that is answered by a stream of lines. */
export interface Lines {
  method: string;
  path: readonly string[];
  body?: AsyncIterable<Uint8Array>;
}

/** Makes calls: escapes paths, presents the token, retries, and reads errors. */
export class Connection {
  readonly #http: HTTP;
  readonly #host: string | undefined;
  readonly #prefix: string;
  readonly #token: Options["token"];
  readonly #timeoutMs: number;
  readonly #maxAttempts: number;
  readonly #maxAnswerBytes: number;
  readonly #userAgent: string;
  readonly #budget = new Budget();
  #inFlight = 0;
  #closed = false;

  constructor(options: Options) {
    const { url, socket } = parse(options.url);
    this.#timeoutMs = positive("timeoutMs", options.timeoutMs, 15_000);
    this.#maxAttempts = positive("maxAttempts", options.maxAttempts, 4);
    this.#maxAnswerBytes = positive("maxAnswerBytes", options.maxAnswerBytes, 16 << 20);
    this.#userAgent = options.userAgent ?? "feedfilter-typescript";
    this.#token = options.token;
    this.#prefix = url.pathname.replace(/\/$/, "");
    this.#host = socket === undefined ? undefined : "localhost";
    this.#http = open({
      protocol: url.protocol,
      hostname: url.hostname,
      port: url.port,
      socket,
      tls: options.tls,
      maxConnections: positive("maxConnections", options.maxConnections, 64),
      maxAnswerBytes: this.#maxAnswerBytes,
    });
  }

  /** Makes a call, with retries. */
  async call<T>(call: Call<T>, options: CallOptions = {}): Promise<T> {
    const scope = this.#begin(options, call.timeoutMs ?? this.#timeoutMs);
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          const result = await this.#attempt(call, options, scope);
          this.#budget.earn();
          return result;
        } catch (e) {
          scope.check();
          await this.#again(call, e, attempt, scope);
        }
      }
    } finally {
      this.#end(scope);
    }
  }

  /**
   * Makes a call without retries, and yields each line of its answer, parsed. It fails if the
   * service is silent for too long. The time that the caller takes for a line does not count.
   */
  async *lines(request: Lines, options: CallOptions = {}): AsyncGenerator<unknown, void, undefined> {
    const scope = this.#begin(options, 0);
    let answer: Answer | undefined;
    try {
      const headers = await this.#headers(options, scope);
      if (request.body) headers["content-type"] = "application/x-ndjson";
      const { method, path, body: stream } = request;
      const sent = this.#http.send({ method, path: this.#path(path), headers, stream, signal: scope.signal });
      answer = await scope.heard(sent, silenceMs);
      if (answer.status !== 200) throw await scope.heard(failure(answer), silenceMs);
      if (!hasType(answer, "application/x-ndjson")) throw unexpected(answer.status, typeOf(answer));
      for await (const line of split(audible(answer.parts(), scope), this.#maxAnswerBytes)) yield parseJSON(line, answer.status);
    } catch (e) {
      scope.check();
      throw e;
    } finally {
      answer?.discard();
      this.#end(scope);
    }
  }

  /** Refuses further calls, and closes the connections after the calls in flight. */
  close(): void {
    this.#closed = true;
    if (this.#inFlight === 0) this.#http.close();
  }

  #begin(options: CallOptions, timeoutMs: number): Scope {
    if (this.#closed) throw new FeedFilterError("the client is closed", { code: "closed" });
    this.#inFlight++;
    return new Scope(options.signal, options.timeoutMs ?? timeoutMs);
  }

  #end(scope: Scope): void {
    scope.end();
    this.#inFlight--;
    if (this.#closed) this.close();
  }

  /** Waits for the next attempt. Throws the error if there is none. */
  async #again(call: Call<unknown>, error: unknown, attempt: number, scope: Scope): Promise<void> {
    const most = call.maxAttempts ?? this.#maxAttempts;
    if (!(error instanceof FeedFilterError) || attempt >= most || !mayRetry(error, call.once ?? false)) throw error;
    const pause = pauseMs(error, attempt);
    if (pause >= scope.leftMs() || !this.#budget.take()) throw error;
    await scope.sleep(pause);
  }

  async #attempt<T>(call: Call<T>, options: CallOptions, scope: Scope): Promise<T> {
    const { method, body, type, also } = call;
    const headers = await this.#headers(options, scope);
    if (body) {
      headers["content-type"] = type;
      headers["content-length"] = String(body.length);
    }
    const path = this.#path(call.path, call.query);
    const answer = await this.#http.send({ method, path, headers, body, signal: scope.signal });
    const { status } = answer;
    if (status !== also && (status < 200 || status > 299)) throw await failure(answer);
    if (!hasType(answer, type)) {
      answer.discard();
      throw unexpected(status, typeOf(answer));
    }
    const bytes = await answer.bytes();
    try {
      return call.decode(bytes);
    } catch (e) {
      throw e instanceof FeedFilterError ? e : unexpected(status, e instanceof Error ? e.message : String(e), e);
    }
  }

  async #headers(options: CallOptions, scope: Scope): Promise<Record<string, string>> {
    const headers: Record<string, string> = { "user-agent": this.#userAgent };
    if (this.#host) headers["host"] = this.#host;
    if (options.requestId !== undefined) headers["x-request-id"] = options.requestId;
    const token = typeof this.#token === "function" ? await scope.within(this.#token()) : this.#token;
    if (token) headers["authorization"] = `Bearer ${token}`;
    return headers;
  }

  #path(path: readonly string[], query?: Record<string, string>): string {
    const to = path.reduce((whole, segment) => `${whole}/${escape(segment)}`, this.#prefix);
    return query ? `${to}?${new URLSearchParams(query)}` : to;
  }
}

/**
 * Returns the URL, and the path of the socket if it names one. Errors do not repeat the URL, which
 * may contain a password.
 */
function parse(text: string): { url: URL; socket: string | undefined } {
  const wrong = new TypeError("url: not of the form http://<host>:<port> or unix:<path>");
  if (typeof text !== "string") throw wrong;
  const socket = text.startsWith("unix:") ? text.slice("unix:".length).replace(/^\/\//, "") : undefined;
  if (socket === "") throw wrong;
  let url: URL;
  try {
    url = new URL(socket === undefined ? text : "http://localhost");
  } catch {
    throw wrong;
  }
  const more = url.username || url.password || url.search || url.hash;
  if ((url.protocol !== "http:" && url.protocol !== "https:") || more) throw wrong;
  return { url, socket };
}

function positive(name: string, value: number | undefined, by: number): number {
  if (value === undefined) return by;
  if (!(value > 0)) throw new TypeError(`${name}: ${value} is not above 0`);
  return value;
}

/** Escapes a segment of a path. "." and ".." have a special meaning in paths. */
function escape(segment: string): string {
  checkText(segment, "path");
  return /^\.+$/.test(segment) ? segment.replaceAll(".", "%2E") : encodeURIComponent(segment);
}

function typeOf(answer: Answer): string {
  return `Content-Type ${JSON.stringify(answer.header("content-type") ?? "")}`;
}

function hasType(answer: Answer, type: string): boolean {
  const given = answer.header("content-type");
  return given === type || given?.split(";")[0]?.trim().toLowerCase() === type;
}

/** Reads an error answer. */
async function failure(answer: Answer): Promise<FeedFilterError> {
  const { status } = answer;
  const body = (await answer.bytes().then(decodeJSON).catch(() => undefined)) as Failure | undefined;
  const seconds = /^\d{1,9}$/.exec(answer.header("retry-after") ?? "");
  const id = answer.header("x-request-id");
  const headers = {
    ...(seconds && { retryAfterMs: Math.min(Number(seconds[0]) * 1000, longestRetryAfterMs) }),
    ...(id !== undefined && { requestId: id }),
  };
  const detail = detailOf(body);
  if (detail) return errorOf(detail, headers);
  const error = body?.error;
  if (typeof error?.code === "string") {
    const { code, field, limit } = error;
    return new FeedFilterError(String(error.message), { ...headers, code, status, field, limit });
  }
  const message = `answered with status ${status}`;
  const bare = { code: "", status }; // from a proxy or the HTTP server, which have no codes
  if (retryable(bare)) return new FeedFilterError(message, { ...headers, ...bare });
  return unexpected(status, message);
}

interface Failure {
  error?: { code?: unknown; message?: unknown; field?: string; limit?: number };
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export function decodeJSON(bytes: Uint8Array): unknown {
  return JSON.parse(utf8.decode(bytes));
}

function parseJSON(bytes: Uint8Array, status: number): unknown {
  try {
    return decodeJSON(bytes);
  } catch (e) {
    throw unexpected(status, "a line is not JSON", e);
  }
}

/** Yields the parts of a stream. Fails if the service is silent for too long. */
async function* audible(parts: AsyncIterable<Uint8Array>, scope: Scope): AsyncGenerator<Uint8Array, void, undefined> {
  const from = parts[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await scope.heard(from.next(), silenceMs);
      if (done) return;
      yield value;
    }
  } finally {
    await from.return?.();
  }
}

/** Yields lines. The last line must also end with a newline; otherwise the stream was cut off. */
async function* split(parts: AsyncIterable<Uint8Array>, limit: number): AsyncGenerator<Uint8Array, void, undefined> {
  let begun: Uint8Array[] = []; // of the line that is still incomplete
  let length = 0;
  for await (let part of parts) {
    for (let end = part.indexOf(newline); end >= 0; end = part.indexOf(newline)) {
      if (length + end > limit) throw tooLong(limit);
      const last = part.subarray(0, end);
      yield begun.length === 0 ? last : join([...begun, last], length + end);
      begun = [];
      length = 0;
      part = part.subarray(end + 1);
    }
    if (part.length > 0) begun.push(part);
    length += part.length;
    if (length > limit) throw tooLong(limit);
  }
  if (length > 0) throw new LostError(new Error("the last line is cut off"), false);
}

function tooLong(limit: number): FeedFilterError {
  return unexpected(200, `a line has more than ${limit} bytes`);
}

function join(parts: readonly Uint8Array[], length: number): Uint8Array {
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
