// Ann mutes a phrase, but not in posts by fay, whom she follows; bob mutes none.
// Usage: node words.mts [URL], with Node 22.18 or later. The service has the kinds of kinds.json.

const service = process.argv[2] ?? "http://127.0.0.1:8080";
const [ann, bob, eve, fay] = ["ts-ann", "ts-bob", "ts-eve", "ts-fay"];
const posts = [
  { id: "p1", author: eve, text: "CLIMATE—change is real" },
  { id: "p2", author: fay, text: "My talk on climate change" },
  { id: "p3", author: eve, text: "The climate will change" },
];

interface Failure { error?: { code: string; message: string } }
interface List { items: { target: string; until?: string }[] }
interface Feed { posts: { id: string }[] }
interface Explanation { reasons: { target: string; in_text: { start: number; end: number } }[] }
interface Fanout { dropped: { viewer: string }[] }

/** Makes a call, once. ../typescript/feed.ts shows how to repeat calls. */
async function call<T>(method: string, path: string[], { until, body }: { until?: string; body?: unknown } = {}): Promise<T> {
  const headers: Record<string, string> = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (process.env.FEEDFILTER_TOKEN) headers.Authorization = `Bearer ${process.env.FEEDFILTER_TOKEN}`;
  const query = until === undefined ? "" : `?${new URLSearchParams({ until })}`;
  const answer = await fetch(`${service}/v1/${path.map(encodeURIComponent).join("/")}${query}`, {
    method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal: AbortSignal.timeout(10_000),
  });
  if (answer.ok) return await answer.json() as T;
  const { error } = await answer.json().catch(() => ({})) as Failure;
  throw new Error(error?.message ?? answer.statusText, { cause: error?.code });
}

function expect(what: string, got: unknown, want: string): void {
  console.log(`${what}: ${got}`);
  if (got !== want) throw new Error(`${what}: ${got}, want ${want}`);
}

/** The ids of the posts that the viewer gets to see. */
async function shown(viewer: string): Promise<string> {
  const feed = await call<Feed>("POST", ["feed", "filter"], { body: { viewer, posts } });
  return feed.posts.map((post) => post.id).join(" ");
}

await call("DELETE", ["users", ann]); // of a run before
const mutes = ["users", ann, "word-mutes"];
await call("PUT", ["users", ann, "follows", fay]);
await call("PUT", [...mutes, "Climate Change"]);
await call("PUT", [...mutes, "Spoilers!"], { until: "2127-01-01T00:00:00Z" });
const past = await call("PUT", [...mutes, "eclipse"], { until: "2001-01-01T00:00:00Z" }).catch((e: unknown) => e);
expect("until 2001", past instanceof Error && past.cause, "out_of_range");
const { items } = await call<List>("GET", mutes);
const muted = items.map(({ target, until }) => until ? `${target} until ${until.slice(0, 10)}` : target);
expect("muted", muted.sort().join(", "), "climate change, spoilers until 2127-01-01");
expect("ann sees", await shown(ann), "p2 p3");
expect("bob sees", await shown(bob), "p1 p2 p3");
const { reasons: [why] } = await call<Explanation>("POST", ["feed", "explain"], { body: { viewer: ann, post: posts[0] } });
const found = new TextEncoder().encode(posts[0].text).subarray(why.in_text.start, why.in_text.end);
expect("why", `${why.target} in ${new TextDecoder().decode(found)}`, "climate change in CLIMATE—change");
const { dropped } = await call<Fanout>("POST", ["fanout", "filter"], {
  body: { post: "p1", author: eve, text: posts[0].text, viewers: [ann, bob] },
});
expect("p1 is not for", dropped[0].viewer, ann);
await call("DELETE", [...mutes, "climate change"]);
expect("ann sees", await shown(ann), "p1 p2 p3");
