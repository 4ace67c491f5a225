import type { components } from "./gen/openapi.js";

/** The code of an error answer of the service, such as "invalid_id". */
export type ServiceCode = components["schemas"]["Error"]["error"]["code"];

/**
 * The code of an error that the client itself reports:
 * - `deadline_exceeded`: the call did not end in time.
 * - `connection_failed`: the connection could not be made, or broke.
 * - `unexpected_answer`: the answer is not from a feedfilter service, or not understood.
 * - `closed`: the client was closed before the call.
 * - `unsupported`: this runtime cannot make the call.
 */
export type ClientCode =
  | "deadline_exceeded"
  | "connection_failed"
  | "unexpected_answer"
  | "closed"
  | "unsupported";

/** The properties of an error in addition to its message. */
export interface ErrorDetails {
  code: string;
  status?: number | undefined;
  field?: string | undefined;
  limit?: number | undefined;
  retryAfterMs?: number | undefined;
  requestId?: string | undefined;
  cause?: unknown;
}

/**
 * The error of every call that fails. An aborted call rejects with the reason of its signal
 * instead.
 */
export class FeedFilterError extends Error {
  override readonly name = "FeedFilterError";
  /** Why the call failed, for programs. "" if a proxy or the HTTP server answered. */
  readonly code: ServiceCode | ClientCode | (string & {});
  /** The status of the answer; 0 without an answer, and for one activity of a batch or a stream. */
  readonly status: number;
  /** The part of the request that is wrong, such as "posts[3].author". */
  readonly field: string | undefined;
  /** The limit that was reached, with the code "limit_reached". */
  readonly limit: number | undefined;
  /** How long the caller should wait before a retry. */
  readonly retryAfterMs: number | undefined;
  /** The id of the request in the service's log. */
  readonly requestId: string | undefined;

  constructor(message: string, details: ErrorDetails) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = details.code;
    this.status = details.status ?? 0;
    this.field = details.field;
    this.limit = details.limit;
    this.retryAfterMs = details.retryAfterMs;
    this.requestId = details.requestId;
  }

  /** Whether the service refused the call because of overload or a rate. The call had no effect. */
  get overloaded(): boolean {
    return this.status === 429 || this.code === "overloaded" || this.code === "rate_limited";
  }

  /**
   * Whether the service, or something that the call needs, is unavailable. The call may have taken
   * effect, unless `overloaded` is true or `code` is "not_yet".
   */
  get unavailable(): boolean {
    return retryable(this) || this.status === 500 || unavailableCodes.has(this.code);
  }
}

const unavailableCodes: ReadonlySet<string> = new Set([
  "deadline_exceeded", "connection_failed", "unavailable", "overloaded", "rate_limited", "audit_unavailable", "internal",
]);

/**
 * Whether a retry after an answer may get another one.
 *
 * The service itself never answers 400 without a code. Its HTTP server does, without a look at the
 * request, if an overloaded process reads only a part of the header in time.
 */
export function retryable({ status, code }: { status: number; code: string }): boolean {
  if (status === 400) return code === "";
  return status === 408 || status === 429 || status === 502 || status === 503 || status === 504;
}

/** Returns the error for an answer that the client does not understand. */
export function unexpected(status: number, why: string, cause?: unknown): FeedFilterError {
  return new FeedFilterError(`unexpected answer: ${why}`, { code: "unexpected_answer", status, cause });
}
