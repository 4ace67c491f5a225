// User 1 blocks user 2, asks for a feed, and undoes the block.
// Usage: node feed.ts [URL], with Node 22.18 or later.

const service = process.argv[2] ?? "http://127.0.0.1:8080";
const attempts = 4;

interface Changed { changed: boolean }
interface Feed {
  posts: { id: string }[];
  dropped: { id: string; kind: string; actor?: string }[];
  next?: number;
  degraded: { kind: string; reason: string }[];
}
interface Explanation { dropped: boolean; reasons: { kind: string; direction: "by_viewer" | "by_actor"; since?: string }[] }
interface Results { results: (Changed | { error: { code: string; message: string } })[] }

/** An error that the service answers, with its code, such as "self_block". */
class Refused extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(`${status} ${code}: ${message}`);
    this.status = status;
    this.code = code;
  }
}

/**
 * Makes a call, and repeats it where that may help. Do not use it for a feed with record_seen:
 * the first attempt may record its posts as seen.
 */
async function call<T>(method: string, path: string[], body?: unknown): Promise<T> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (process.env.FEEDFILTER_TOKEN) headers.Authorization = `Bearer ${process.env.FEEDFILTER_TOKEN}`;
  for (let attempt = 1; ; attempt++) {
    let pause = Math.random() * 100 * 2 ** attempt;
    try {
      const answer = await fetch(`${service}/v1/${path.map(encodeURIComponent).join("/")}`, {
        method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal: AbortSignal.timeout(10_000),
      });
      if (answer.ok) return await answer.json() as T;
      const { error } = await answer.json().catch(() => ({})) as { error?: { code: string; message: string } };
      const refused = new Refused(answer.status, error?.code ?? "", error?.message ?? answer.statusText);
      if (![408, 429, 502, 503, 504].includes(answer.status) || attempt === attempts) throw refused;
      pause += 1000 * Number(answer.headers.get("Retry-After") ?? 0);
    } catch (e) { // it was not reached, or did not answer
      if (e instanceof Refused || attempt === attempts) throw e;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

function expect(what: string, got: unknown, want: unknown): void {
  console.log(`${what}: ${JSON.stringify(got)}`);
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${what}: ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

/** The ids of the posts that the viewer gets to see. */
async function shown(): Promise<string[]> {
  const feed = await call<Feed>("POST", ["feed", "filter"], {
    viewer: "ts-1", posts: [{ id: "p8", author: "ts-2" }, { id: "p9", author: "ts-3" }],
  });
  return feed.posts.map((post) => post.id);
}

const block = ["users", "ts-1", "blocks", "ts-2"];
await call<Changed>("DELETE", block); // of a run before
expect("block", await call<Changed>("PUT", block), { changed: true });
expect("feed", await shown(), ["p9"]);
const why = await call<Explanation>("POST", ["feed", "explain"], { viewer: "ts-2", post: { id: "p1", author: "ts-1" } });
expect("why", why.reasons.map((reason) => reason.direction), ["by_actor"]);
expect("unblock", await call<Changed>("DELETE", block), { changed: true });
expect("feed", await shown(), ["p8", "p9"]);
const hide = { user: "ts-1", kind: "hide", target: "p9" };
const batch = await call<Results>("POST", ["activities"], { activities: [{ ...hide, op: "add" }, { ...hide, op: "remove" }] });
expect("batch", batch, { results: [{ changed: true }, { changed: true }] });
const wrong = await call<Changed>("PUT", ["users", "ts-1", "blocks", "ts-1"]).catch((e: unknown) => e);
expect("wrong", wrong instanceof Refused && wrong.code, "self_block");

export {};
