import { FeedFilterError } from "./errors.js";

/** The address of the service. */
export interface Target {
  /** "http:" or "https:". */
  protocol: string;
  hostname: string;
  /** "": the default of the protocol. */
  port: string;
  /** The path of the service's Unix socket, if it listens on one. */
  socket: string | undefined;
  tls: TLSOptions | undefined;
  maxConnections: number;
  maxAnswerBytes: number;
}

/** Certificates, in PEM. */
export interface TLSOptions {
  /** The authorities to trust instead of the runtime's. */
  ca?: string | undefined;
  /** The client's certificate. */
  cert?: string | undefined;
  /** Its private key. */
  key?: string | undefined;
}

/** One request. */
export interface Request {
  method: string;
  /** The path with its query. */
  path: string;
  headers: Record<string, string>;
  body?: Uint8Array | undefined;
  /** A body that is sent while the answer arrives. */
  stream?: AsyncIterable<Uint8Array> | undefined;
  /** Ends the request and the reading of its answer. */
  signal: AbortSignal;
}

/** The answer to a request. */
export interface Answer {
  status: number;
  /** Returns a header by its name in lower case. */
  header(name: string): string | undefined;
  /** Reads the whole body. */
  bytes(): Promise<Uint8Array>;
  /** Reads the body in parts. */
  parts(): AsyncIterable<Uint8Array>;
  /** Closes the connection, unless the whole request was sent and the whole answer read. */
  discard(): void;
}

/** Sends requests with the means of the runtime. */
export interface HTTP {
  /** Rejects with a LostError if there is no answer. */
  send(request: Request): Promise<Answer>;
  close(): void;
}

/** The error of a request without a complete answer. */
export class LostError extends FeedFilterError {
  /** Whether nothing was sent, because no connection was made. */
  readonly unsent: boolean;

  constructor(cause: unknown, unsent: boolean) {
    const why = cause instanceof Error ? cause.message || String((cause as { code?: unknown }).code) : String(cause);
    super(`no complete answer: ${why}`, { code: "connection_failed", cause });
    this.unsent = unsent;
  }
}
