// Requests in Node.js, over persistent connections and Unix sockets.
import http, { type ClientRequest, type IncomingMessage } from "node:http";
import https from "node:https";
import { unexpected } from "./errors.js";
import { LostError, type Answer, type HTTP, type Request, type Target } from "./http.js";

/**
 * The service closes an idle connection after two minutes; the client must close it earlier.
 */
const idleMs = 90_000;

export function open(target: Target): HTTP {
  const { request, Agent } = target.protocol === "https:" ? https : http;
  const agent = new Agent({
    keepAlive: true,
    maxSockets: target.maxConnections,
    timeout: idleMs,
    ...target.tls,
  });
  const to = target.socket === undefined
    ? { host: target.hostname.replace(/^\[|\]$/g, ""), port: target.port }
    : { socketPath: target.socket };
  return {
    send: (r) => send(request({ ...to, agent, method: r.method, path: r.path, headers: r.headers }), r, target),
    close: () => agent.destroy(),
  };
}

/** Sends one request, and resolves when the headers of the answer have arrived. */
function send(req: ClientRequest, r: Request, target: Target): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      const aborted = new Error("aborted");
      reject(new LostError(aborted, false)); // a request that waits for a connection emits no "error"
      req.destroy(aborted);
    };
    req.on("error", (e) => reject(new LostError(e, neverConnected(e))));
    req.on("close", () => r.signal.removeEventListener("abort", abort));
    req.on("response", (res) => resolve(answer(req, res, target.maxAnswerBytes)));
    if (r.signal.aborted) abort();
    else r.signal.addEventListener("abort", abort, { once: true });
    if (r.stream) void pump(r.stream, req);
    else req.end(r.body);
  });
}

/** Writes the parts of a body, as fast as the service accepts them. */
async function pump(parts: AsyncIterable<Uint8Array>, req: ClientRequest): Promise<void> {
  try {
    for await (const part of parts) {
      if (!req.destroyed && !req.write(part)) await drained(req);
      if (req.destroyed) return;
    }
    req.end();
  } catch (e) {
    req.destroy(e instanceof Error ? e : new Error(String(e)));
  }
}

/** Waits until the request accepts more, or has ended. */
function drained(req: ClientRequest): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      req.off("drain", done).off("close", done);
      resolve();
    };
    req.on("drain", done).on("close", done);
  });
}

function answer(req: ClientRequest, res: IncomingMessage, limit: number): Answer {
  return {
    status: res.statusCode ?? 0,
    header: (name) => {
      const value = res.headers[name];
      return Array.isArray(value) ? value[0] : value;
    },
    bytes: () => bytes(res, limit),
    parts: () => parts(res),
    discard: () => {
      if (!res.readableEnded || !req.writableFinished) req.destroy();
    },
  };
}

/** Reads a whole body. Rejects if the body ends early, or has more than limit bytes. */
function bytes(res: IncomingMessage, limit: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let length = 0;
    res.on("data", (chunk: Buffer) => {
      length += chunk.length;
      chunks.push(chunk);
      if (length > limit) {
        reject(unexpected(res.statusCode ?? 0, `more than ${limit} bytes`));
        res.destroy();
      }
    });
    res.on("end", () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    res.on("error", (e) => reject(new LostError(e, false)));
  });
}

async function* parts(res: IncomingMessage): AsyncIterable<Uint8Array> {
  try {
    yield* res;
  } catch (e) {
    throw new LostError(e, false);
  }
}

/** Whether an error means that no connection was made. */
function neverConnected(e: Error): boolean {
  const first = e instanceof AggregateError ? e.errors[0] : e; // one error for each address
  const { syscall } = first as { syscall?: string };
  return syscall === "connect" || syscall === "getaddrinfo";
}
