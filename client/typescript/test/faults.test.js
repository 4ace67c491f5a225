// Calls that fail on the way, or that something other than the service answers.
import assert from "node:assert/strict";
import { getEventListeners, once } from "node:events";
import http from "node:http";
import net from "node:net";
import { test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { ExplainRequestSchema, FanoutRequestSchema } from "../dist/gen/feedfilter/v1/feed_pb.js";
import { all, client, fetching, newUser, url } from "./service.js";

/** @typedef {import("node:test").TestContext} TestContext */

/** @param {TestContext} t @param {net.Server} server */
async function listen(t, server) {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return `http://127.0.0.1:${/** @type {net.AddressInfo} */ (server.address()).port}`;
}

/** Starts a server of HTTP that answers with `handle`, and returns its URL. */
async function serve(/** @type {TestContext} */ t, /** @type {http.RequestListener} */ handle) {
  const server = http.createServer({ keepAliveTimeout: 0 }, handle); // persistent connections stay open
  t.after(() => server.closeAllConnections());
  return listen(t, server);
}

/**
 * Starts a proxy for the service, and returns its URL and its connections. `handle` gets each
 * connection and its number, and returns whether to forward it.
 * @param {TestContext} t @param {(connection: net.Socket, number: number) => boolean} handle
 */
async function proxy(t, handle) {
  const { hostname, port } = new URL(url);
  /** @type {net.Socket[]} */
  const connections = [];
  const server = net.createServer((connection) => {
    connections.push(connection);
    connection.on("error", () => {});
    if (!handle(connection, connections.length)) return;
    const service = net.connect(Number(port), hostname);
    service.on("error", () => {});
    connection.pipe(service).pipe(connection);
    connection.on("close", () => service.destroy());
  });
  t.after(() => connections.forEach((connection) => connection.destroy()));
  return { to: await listen(t, server), connections };
}

const overloaded = JSON.stringify({ error: { code: "overloaded", message: "overloaded" } });

/** Answers like an overloaded service. */
function refuse(/** @type {http.ServerResponse} */ res, /** @type {string} */ retryAfter) {
  res.writeHead(503, { "content-type": "application/json", "retry-after": retryAfter }).end(overloaded);
}

const request = () => ({ viewer: newUser(), posts: [{ id: "p", author: "2" }] });

test("a call is retried after its connection is closed", async (t) => {
  const { to, connections } = await proxy(t, (connection, number) => {
    if (number > 2) return true;
    connection.once("data", () => connection.destroy());
    return false;
  });
  const ff = client(t, { url: to });
  assert.equal((await ff.filter(request())).posts.length, 1);
  assert.equal(connections.length, 3);
});

test("calls share a connection, and open another after it is closed", async (t) => {
  const { to, connections } = await proxy(t, () => true);
  const ff = client(t, { url: to, maxConnections: 1 });
  await Promise.all(Array.from({ length: 50 }, () => ff.filter(request())));
  for (let i = 0; i < 3; i++) await ff.filter(request());
  assert.equal(connections.length, 1);
  connections[0].destroy();
  assert.equal((await ff.filter(request())).posts.length, 1);
  assert.equal(connections.length, 2);
});

test("a feed with recordSeen is not retried if it may have taken effect", async (t) => {
  const { to, connections } = await proxy(t, (connection) => {
    connection.once("data", () => connection.destroy());
    return false;
  });
  const recording = { ...request(), recordSeen: true };
  await assert.rejects(client(t, { url: to }).filter(recording), { code: "connection_failed", unavailable: true });
  assert.equal(connections.length, 1);
});

test("a feed with recordSeen is retried if it had no effect", async (t) => {
  let asked = 0;
  const to = await serve(t, (_, res) => (asked++ ? res.writeHead(500).end() : refuse(res, "0")));
  const recording = { ...request(), recordSeen: true };
  await assert.rejects(client(t, { url: to }).filter(recording), { code: "unexpected_answer", status: 500 });
  assert.equal(asked, 2);

  let attempts = 0;
  const token = () => `${attempts++}`;
  const server = net.createServer();
  const nobody = await listen(t, server);
  server.close();
  await assert.rejects(client(t, { url: nobody, token, maxAttempts: 3 }).filter(recording), { code: "connection_failed" });
  assert.equal(attempts, 3);
});

test("a retry waits for Retry-After, unless that is too long", async (t) => {
  let asked = 0;
  const to = await serve(t, (req, res) => {
    asked++;
    const id = req.headers["x-request-id"];
    if (typeof id === "string") refuse(res, id);
    else if (asked === 1) refuse(res, "1");
    else res.writeHead(200, { "content-type": "application/json" }).end('{"kinds":[]}');
  });
  const ff = client(t, { url: to });
  const start = performance.now();
  assert.deepEqual(await ff.kinds(), []);
  assert.ok(performance.now() - start >= 990);
  assert.equal(asked, 2);
  const signal = AbortSignal.timeout(20_000); // fires if the client waits for a retry
  await assert.rejects(ff.kinds({ requestId: "31", timeoutMs: 0, signal }), { code: "overloaded", overloaded: true, retryAfterMs: 31_000 });
  // A wait that would outlast the call ends it at once.
  await assert.rejects(ff.kinds({ requestId: "20", timeoutMs: 15_000 }), { code: "overloaded", retryAfterMs: 20_000 });
  assert.equal(asked, 4);
});

test("a call with a position is retried until the service is there", async (t) => {
  /** @type {Buffer[]} */
  const bodies = [];
  const to = await serve(t, async (req, res) => {
    bodies.push(Buffer.concat(await req.toArray()));
    const notYet = JSON.stringify({ error: { code: "not_yet", message: "not yet", field: "after" } });
    if (bodies.length % 2) res.writeHead(503, { "content-type": "application/json", "retry-after": "0" }).end(notYet);
    else res.writeHead(200, { "content-type": "application/proto" }).end();
  });
  const ff = client(t, { url: to });
  const post = { id: "p", author: "2" };
  for (const after of ["0/16B3748", undefined]) {
    bodies.length = 0;
    await ff.filter({ viewer: "1", posts: [post], after, recordSeen: true });
    await ff.fanout({ post, viewers: ["1"], after });
    await ff.explain("1", post, { after });
    assert.equal(bodies.length, 6);
    assert.equal(fromBinary(FanoutRequestSchema, bodies[3]).after, after ?? "");
    assert.equal(fromBinary(ExplainRequestSchema, bodies[5]).after, after ?? "");
  }
  const single = client(t, { url: to, maxAttempts: 1 });
  await assert.rejects(single.fanout({ post, viewers: ["1"], after: "0/1" }), { code: "not_yet", field: "after", unavailable: true });
});

test("retries have a budget, which success refills", async (t) => {
  let asked = 0;
  let down = true;
  const to = await serve(t, (_, res) => {
    asked++;
    if (down) refuse(res, "0");
    else res.writeHead(200, { "content-type": "application/json" }).end('{"kinds":[]}');
  });
  const ff = client(t, { url: to, maxAttempts: 2 });
  const failing = async () => {
    asked = 0;
    await Promise.all(Array.from({ length: 12 }, () => assert.rejects(ff.kinds(), { code: "overloaded" })));
    return asked;
  };
  assert.equal(await failing(), 12 + 10);
  assert.equal(await failing(), 12);
  down = false;
  for (let i = 0; i < 21; i++) await ff.kinds();
  down = true;
  assert.equal(await failing(), 12 + 2);
});

test("a call ends in time", async (t) => {
  const to = await serve(t, (req, res) => {
    if (req.headers["x-request-id"] === "half") res.writeHead(200, { "content-type": "application/json" }).write('{"ki');
  });
  const late = { name: "FeedFilterError", code: "deadline_exceeded", unavailable: true, message: "no answer within 50 ms" };
  const ff = client(t, { url: to, timeoutMs: 50 });
  await assert.rejects(ff.filter(request()), late);
  await assert.rejects(ff.kinds({ requestId: "half" }), late);
  await assert.rejects(all(ff.export("1", { timeoutMs: 50 })), late);
  await assert.rejects(client(t, { url: to }).count("1", { timeoutMs: 50 }), late);
  const slow = client(t, { url: to, timeoutMs: 50, token: () => new Promise(() => {}) });
  await assert.rejects(slow.count("1"), late);
  // A call that waits for a connection also ends in time.
  const single = client(t, { url: to, maxConnections: 1 });
  const controller = new AbortController();
  const first = assert.rejects(single.count("1", { signal: controller.signal }), { name: "AbortError" });
  await assert.rejects(single.count("1", { timeoutMs: 50 }), late);
  controller.abort();
  await first;
});

test("a stream or an export ends if the service is silent, however long the caller takes", async (t) => {
  /** @type {(req: http.IncomingMessage) => void} */
  let arrived = () => {};
  const line = JSON.stringify({ user: "1", kind: "hide", target: "p", op: "add", since: "2026-01-02T03:04:05Z" }) + "\n";
  const to = await serve(t, (req, res) => {
    if (req.headers["x-request-id"] !== "mute") res.writeHead(200, { "content-type": "application/x-ndjson" }).write(line);
    arrived(req);
  });
  const ff = client(t, { url: to });
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const late = { code: "deadline_exceeded", message: "no answer within 90000 ms" };
  /** @type {() => Promise<unknown>} */
  const reached = () => new Promise((resolve) => (arrived = resolve));

  let ready = reached();
  const mute = assert.rejects(all(ff.export("1", { requestId: "mute" })), late);
  await ready;
  t.mock.timers.tick(90_000);
  await mute;

  const items = ff.export("1");
  assert.equal((await items.next()).value?.target, "p");
  t.mock.timers.tick(1_000_000); // the caller's time
  const next = assert.rejects(items.next(), late);
  await new Promise(setImmediate);
  t.mock.timers.tick(90_000);
  await next;
  if (fetching) return;
  ready = reached();
  const stream = assert.rejects(all(ff.recordStream([{ user: "1", kind: "hide", target: "p", op: "add" }], { requestId: "mute" })), late);
  await ready;
  t.mock.timers.tick(90_000);
  await stream;
});

test("a signal aborts a call with its reason, and its connection", async (t) => {
  /** @type {(connection: net.Socket) => void} */
  let arrived = () => {};
  const to = await serve(t, (req, res) => {
    if (req.url?.includes("kinds")) refuse(res, "20");
    if (req.url?.includes("stats")) res.writeHead(200, { "content-type": "application/json" }).write('{"re');
    arrived(req.socket);
  });
  const ff = client(t, { url: to, timeoutMs: 60_000 });
  const reason = new Error("the viewer left");
  await assert.rejects(ff.filter(request(), { signal: AbortSignal.abort(reason) }), reason);

  /** @type {((signal: AbortSignal) => Promise<unknown>)[]} */
  const calls = [
    (signal) => ff.filter(request(), { signal }),
    (signal) => ff.stats({ signal }), // reads the answer
    (signal) => all(ff.export("1", { signal })),
    (signal) => ff.kinds({ signal }), // waits for its second attempt, and keeps its connection
  ];
  for (const call of calls) {
    const controller = new AbortController();
    /** @type {Promise<net.Socket>} */
    const reached = new Promise((resolve) => (arrived = resolve));
    const result = assert.rejects(call(controller.signal), reason);
    const connection = await reached;
    const closed = new Promise((resolve) => connection.on("error", () => {}).on("close", resolve));
    await new Promise(setImmediate);
    controller.abort(reason);
    await result;
    if (call === calls.at(-1)) ff.close();
    await closed;
    assert.equal(getEventListeners(controller.signal, "abort").length, 0);
  }
  const standard = await client(t).count("1", { signal: AbortSignal.abort() }).catch((e) => e);
  assert.equal(standard.name, "AbortError");
});

test("a call leaves no listener on its signal", async (t) => {
  const { signal } = new AbortController();
  const ff = client(t);
  for (let i = 0; i < 20; i++) await ff.filter(request(), { signal });
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("answers of a proxy", async (t) => {
  /** @type {[number, Record<string, string>, string][]} */
  let answers = [];
  const to = await serve(t, (_, res) => {
    const [status, headers, body] = answers.shift() ?? [500, {}, ""];
    res.writeHead(status, headers).end(body);
  });
  const ff = client(t, { url: to, maxAttempts: 2, maxConnections: 1 }); // no answer may keep it
  const html = { "content-type": "text/html" };
  const gone = /** @type {const} */ ([502, html, "<h1>Bad Gateway</h1>"]);
  answers = [[...gone], [200, { "content-type": "application/json; charset=utf-8" }, '{"kinds":[]}']];
  assert.deepEqual(await ff.kinds(), []);
  answers = [[...gone], [...gone]];
  await assert.rejects(ff.filter(request()), { code: "", status: 502, unavailable: true });
  // A 400 without a code is no answer to the request.
  const bare = /** @type {const} */ ([400, { "content-type": "text/plain; charset=utf-8" }, "400 Bad Request"]);
  answers = [[...bare], [200, { "content-type": "application/json" }, '{"kinds":[]}']];
  assert.deepEqual(await ff.kinds(), []);
  answers = [[...bare], [...bare], [...bare]];
  await assert.rejects(ff.filter(request()), { code: "", status: 400, unavailable: true });
  assert.equal(answers.length, 1);
  await assert.rejects(ff.filter({ ...request(), recordSeen: true }), { code: "", status: 400, unavailable: true });
  assert.equal(answers.length, 0);
  for (const wrong of /** @type {typeof answers} */ ([
    [200, html, "<h1>Log in</h1>"], [302, { location: "/login" }, ""], [500, html, ""], [404, html, ""],
    [200, { "content-type": "application/json" }, "{"], [200, { "content-type": "application/json" }, "{}"],
  ])) {
    answers = [wrong];
    await assert.rejects(ff.kinds(), { code: "unexpected_answer", status: wrong[0] });
  }
  answers = [[200, html, "<h1>Log in</h1>"]];
  await assert.rejects(all(ff.export("1")), { code: "unexpected_answer", status: 200 });
  for (const body of ["\u0001", "\u0012\u0002\u0008\u0005", "\u0020\u0009"]) { // cut off; drops post 5; next is 9
    answers = [[200, { "content-type": "application/proto" }, body]];
    await assert.rejects(ff.filter(request()), { code: "unexpected_answer" });
  }
});

test("a refused stream ends, and so does its source", async (t) => {
  const to = await serve(t, (_, res) => refuse(res, "1"));
  const ff = client(t, { url: to, maxConnections: 1 });
  /** @type {() => void} */
  let ended = () => {};
  const end = new Promise((resolve) => (ended = () => resolve(undefined)));
  async function* endless() {
    try {
      for (;;) {
        yield /** @type {import("@feedfilter/client").Activity} */ ({ user: "1", kind: "hide", target: "p", op: "add" });
        await new Promise(setImmediate);
      }
    } finally {
      ended();
    }
  }
  await assert.rejects(all(ff.recordStream(endless())), { code: "overloaded" });
  await end;
  await assert.rejects(ff.ready(), { code: "unexpected_answer" });
});

test("answers that are too long or cut off", async (t) => {
  const to = await serve(t, (req, res) => {
    const id = req.headers["x-request-id"];
    if (id === "long") return res.writeHead(200, { "content-type": "application/json" }).end('{"kinds":[]}'.padEnd(1001));
    res.writeHead(200, { "content-type": "application/x-ndjson" });
    if (id === "line") return res.end("{}".padEnd(1001) + "\n");
    res.write('{"user":"1","kind":"hide","target":"p","op":"add","since":"2026-01-01T00:00:00Z"}\n');
    if (id === "half") res.end('{"user":');
    else setImmediate(() => res.destroy());
  });
  const ff = client(t, { url: to, maxAnswerBytes: 1000 });
  await assert.rejects(ff.kinds({ requestId: "long" }), { code: "unexpected_answer", message: /more than 1000 bytes/ });
  await assert.rejects(all(ff.export("1", { requestId: "line" })), { code: "unexpected_answer", message: /more than 1000 bytes/ });
  await assert.rejects(all(ff.export("1", { requestId: "half" })), { code: "connection_failed" });
  await assert.rejects(all(ff.export("1")), { code: "connection_failed" });
});

test("ready reports a service that is not ready", async (t) => {
  const answer = { status: "unavailable", down: [{ dependency: "ledger", reason: "it cannot be reached" }] };
  let asked = 0;
  const to = await serve(t, (_, res) => {
    asked++;
    res.writeHead(503, { "content-type": "application/json", "retry-after": "1" }).end(JSON.stringify(answer));
  });
  assert.deepEqual(await client(t, { url: to }).ready(), answer);
  assert.equal(asked, 1);
  let gone = 0;
  const proxied = await serve(t, (_, res) => res.writeHead(gone++ ? 200 : 502).end());
  await assert.rejects(client(t, { url: proxied }).ready(), { status: 502 });
});

test("an answer without a result for each activity is an error", async (t) => {
  const to = await serve(t, (req, res) => {
    const type = req.headers["content-type"] ?? "";
    req.resume().on("end", () => res.writeHead(200, { "content-type": type }).end(type.endsWith("proto") ? "" : '{"changed":true}\n'));
  });
  const ff = client(t, { url: to });
  const activity = /** @type {import("@feedfilter/client").Activity} */ ({ user: "1", kind: "hide", target: "p", op: "add" });
  await assert.rejects(ff.recordBatch([activity]), { code: "unexpected_answer" });
  assert.equal((await all(ff.recordStream([activity]))).length, 1);
  await assert.rejects(all(ff.recordStream([activity, activity])), { code: "connection_failed" });
});

test("the error of one activity has a code, and no status", async (t) => {
  const codes = ["overloaded", "rate_limited", "unavailable", "internal", "audit_unavailable", "unauthenticated", "self_block"];
  const lines = codes.map((code) => JSON.stringify({ error: { code, message: "m" } }) + "\n");
  const to = await serve(t, (req, res) => {
    req.resume().on("end", () => res.writeHead(200, { "content-type": "application/x-ndjson" }).end(lines.join("")));
  });
  const activity = /** @type {import("@feedfilter/client").Activity} */ ({ user: "1", kind: "hide", target: "p", op: "add" });
  const errors = (await all(client(t, { url: to }).recordStream(codes.map(() => activity)))).map((result) => result.error);
  assert.deepEqual(errors.map((error) => error?.code), codes);
  assert.deepEqual(errors.map((error) => error?.overloaded), [true, true, false, false, false, false, false]);
  assert.deepEqual(errors.map((error) => error?.unavailable), [true, true, true, true, true, false, false]);
});

test("close lets calls in flight end, refuses others, and closes the connections", async (t) => {
  const { to, connections } = await proxy(t, () => true);
  const ff = client(t, { url: to });
  await ff.count("1");
  const last = ff.filter(request());
  ff.close();
  assert.equal((await last).posts.length, 1);
  await assert.rejects(ff.filter(request()), { code: "closed" });
  await assert.rejects(all(ff.export("1")), { code: "closed" });
  await Promise.all(connections.map((connection) => connection.destroyed || once(connection, "close")));
});
