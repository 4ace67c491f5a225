// Requests in runtimes that have fetch but not Node.js.
import { FeedFilterError, unexpected } from "./errors.js";
import { LostError, type Answer, type HTTP, type Request, type Target } from "./http.js";

export function open(target: Target): HTTP {
  if (target.socket !== undefined || target.tls !== undefined) {
    throw new FeedFilterError("Unix sockets and certificates need Node.js", { code: "unsupported" });
  }
  const origin = `${target.protocol}//${target.hostname}${target.port && ":" + target.port}`;
  return { send: (r) => send(origin, r, target.maxAnswerBytes), close: () => {} };
}

async function send(origin: string, r: Request, limit: number): Promise<Answer> {
  if (r.stream) { // fetch returns no answer before the whole request is sent
    throw new FeedFilterError("streams of activities need Node.js", { code: "unsupported" });
  }
  const { method, headers, body, signal } = r;
  const init: RequestInit = { method, headers, signal, redirect: "manual" };
  if (body) init.body = body as Uint8Array<ArrayBuffer>;
  let res: Response;
  try {
    res = await fetch(origin + r.path, init);
  } catch (e) {
    throw new LostError(e, false);
  }
  return {
    status: res.status,
    header: (name) => res.headers.get(name) ?? undefined,
    bytes: () => bytes(res, limit),
    parts: () => parts(res),
    discard: () => {
      if (!res.bodyUsed) void res.body?.cancel().catch(() => {}); // parts cancels its own reading
    },
  };
}

/** Reads a whole body. Throws if the body ends early, or has more than limit bytes. */
async function bytes(res: Response, limit: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of parts(res)) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > limit) throw unexpected(res.status, `more than ${limit} bytes`);
  }
  if (chunks.length === 1) return chunks[0]!;
  const whole = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

async function* parts(res: Response): AsyncIterable<Uint8Array> {
  const reader = res.body?.getReader();
  let ended = false;
  try {
    while (reader) {
      const { done, value } = await reader.read();
      ended = done;
      if (done) return;
      yield value;
    }
  } catch (e) {
    throw new LostError(e, false);
  } finally {
    if (!ended) await reader?.cancel().catch(() => {});
  }
}
