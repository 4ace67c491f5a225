// Every call, with the service.
import assert from "node:assert/strict";
import { test } from "node:test";
import { FeedFilterError } from "@feedfilter/client";
import { all, client, fetching, newUser, readToken, socket, tls, token, url } from "./service.js";

/** @typedef {import("@feedfilter/client").Activity} Activity */

const nodeTest = fetching ? () => {} : test;
const fetchTest = fetching ? test : () => {};

test("a feed drops posts for each reason, and keeps the caller's objects", async (t) => {
  const ff = client(t);
  const [me, blocked, blocker, other] = [newUser(), newUser(), newUser(), newUser()];
  assert.equal(await ff.record(me, "blocks", blocked), true);
  assert.equal(await ff.record(blocker, "blocks", me), true);
  assert.equal(await ff.record(me, "hides", "hidden"), true);
  assert.equal(await ff.record(me, "likes", "liked"), true);
  assert.equal(await ff.recordPosts(me, "seen", ["old", "old", "older"]), 2);
  const posts = [
    { id: "fine", author: other, title: "kept as it is" },
    { id: "by-blocked", author: blocked },
    { id: "by-blocker", author: blocker },
    { id: "quotes", author: other, actors: [other, blocked] },
    { id: "hidden", author: other },
    { id: "liked", author: other },
    { id: "old", author: other },
    { id: "mine", author: me },
  ];
  const feed = await ff.filter({ viewer: me, posts, annotate: ["like"] });
  assert.deepEqual(feed.posts.map((post) => post.id), ["fine", "liked", "mine"]);
  assert.equal(feed.posts[0], posts[0]);
  const drop = (/** @type {number} */ index, /** @type {string} */ kind, /** @type {string | undefined} */ actor) => {
    return { post: posts[index], index, kind, actor, target: undefined, list: undefined, unconfirmed: false };
  };
  assert.deepEqual(feed.dropped, [
    drop(1, "block", blocked), drop(2, "block", blocker), drop(3, "block", blocked),
    drop(4, "hide", undefined), drop(6, "seen", undefined),
  ]);
  assert.deepEqual(feed.annotated, { like: new Set(["liked"]) });
  assert.deepEqual([feed.next, feed.degraded], [undefined, []]);
});

test("a kind by its name or its plural", async (t) => {
  const ff = client(t);
  for (const [block, like, seen] of [["block", "like", "seen"], ["blocks", "likes", "seen"]]) {
    const me = newUser();
    assert.ok(block && like && seen);
    assert.equal(await ff.record(me, block, "enemy"), true);
    const [result] = await ff.recordBatch([{ user: me, kind: like, target: "p", op: "add" }]);
    assert.equal(result?.changed, true);
    assert.equal(await ff.recordPosts(me, seen, ["old"]), 1);
    const posts = [{ id: "p", author: "friend" }, { id: "q", author: "enemy" }];
    const feed = await ff.filter({ viewer: me, posts, kinds: [block], annotate: [like] });
    assert.deepEqual(feed.dropped.map(({ kind }) => kind), ["block"]);
    assert.deepEqual(feed.annotated, { like: new Set(["p"]) });
    assert.deepEqual((await all(ff.list(me, block))).map(({ target }) => target), ["enemy"]);
    assert.equal((await ff.get(me, block, "enemy"))?.target, "enemy");
    assert.equal(await ff.get("enemy", block, me), undefined);
    // @ts-expect-error
    for (const none of ["", undefined]) await assert.rejects(ff.get(me, block, none), { code: "invalid_id" });
    assert.ok((await all(ff.list("enemy", block, { incoming: true }))).some(({ user }) => user === me));
    assert.deepEqual((await ff.explain("enemy", { id: "", author: me })).reasons.map(({ kind }) => kind), ["block"]);
    assert.equal((await ff.count(me))["block"], 1);
    assert.equal((await ff.preview(me, like, ["p"])).present, 1);
    const { dropped } = await ff.fanout({ post: { id: "", author: "enemy" }, viewers: [me], kinds: [block] });
    assert.deepEqual(dropped.map(({ kind }) => kind), ["block"]);
    assert.equal(await ff.remove(me, block, "enemy"), true);
  }
});

test("a feed with each option", async (t) => {
  const ff = client(t);
  const [me, enemy] = [newUser(), newUser()];
  await ff.record(me, "blocks", enemy);
  const posts = ["a", "b", "c", "d"].map((id, i) => ({ id, author: i === 0 ? enemy : "ö💡" }));
  const part = await ff.filter({ viewer: me, posts, limit: 2 });
  assert.deepEqual([part.posts.map((post) => post.id), part.next], [["b", "c"], 3]);
  assert.equal((await ff.filter({ viewer: me, posts, kinds: [] })).posts.length, 4);
  assert.equal((await ff.filter({ viewer: me, posts, kinds: ["hide"] })).posts.length, 4);
  assert.equal((await ff.filter({ viewer: me, posts, recordSeen: true })).posts.length, 3);
  const again = await ff.filter({ viewer: me, posts, exact: true });
  assert.deepEqual(again.dropped.map(({ kind, unconfirmed }) => [kind, unconfirmed]),
    [["block", false], ["seen", true], ["seen", true], ["seen", true]]);
  assert.deepEqual((await ff.filter({ viewer: me, posts: [] })).posts, []);
});

test("a feed of 1,000 posts, a tenth of them dropped", async (t) => {
  const ff = client(t);
  const me = newUser();
  const posts = Array.from({ length: 1000 }, (_, i) => ({ id: `p${i}`, author: `${me}-a${i % 10}` }));
  await ff.record(me, "blocks", `${me}-a3`);
  const feed = await ff.filter({ viewer: me, posts });
  assert.deepEqual(feed.posts, posts.filter((_, i) => i % 10 !== 3));
  assert.deepEqual(feed.dropped.map(({ index }) => index), Array.from({ length: 100 }, (_, i) => 10 * i + 3));
});

test("concurrent calls each get their own answer", async (t) => {
  const ff = client(t, { maxConnections: 8 });
  const me = newUser();
  const targets = Array.from({ length: 200 }, (_, i) => `${me}-${i}`);
  /** @type {Activity[]} */
  const blocks = targets.filter((_, i) => i % 2 === 0).map((target) => ({ user: me, kind: "block", target, op: "add" }));
  await ff.recordBatch(blocks);
  const kept = await Promise.all(targets.map(async (author) => {
    return (await ff.filter({ viewer: me, posts: [{ id: "p", author }] })).posts.length;
  }));
  assert.deepEqual(kept, targets.map((_, i) => i % 2));
});

test("explain", async (t) => {
  const ff = client(t);
  const [me, other] = [newUser(), newUser()];
  const until = new Date(Date.now() + 3_600_000);
  const before = Date.now();
  await ff.record(other, "blocks", me, { until });
  const why = await ff.explain(me, { id: "p", author: "x", actors: [other] });
  assert.equal(why.dropped, true);
  assert.deepEqual(why.degraded, []);
  assert.ok(why.page.keys >= 1 && why.page.bytes > 0);
  const [{ since, ...reason }] = why.reasons;
  assert.deepEqual([why.reasons.length, reason], [1, {
    kind: "block", effect: "drop", actor: other, target: undefined, inText: undefined, direction: "by_actor", certainty: "certain", until, parts: [],
    overruledBy: undefined, list: undefined,
  }]);
  assert.ok(since && since.getTime() >= before && since.getTime() <= Date.now());
});

test("kinds that keep", async (t) => {
  const ff = client(t);
  const [me, friend, domain] = [newUser(), newUser(), newUser()];
  await ff.record(me, "domain-mutes", domain);
  await ff.record(me, "follows", friend);
  const posts = [friend, "x"].map((author) => ({ id: `p${author}`, author, facets: { domain: [domain] } }));
  assert.deepEqual((await ff.filter({ viewer: me, posts })).posts, posts.slice(0, 1));
  assert.deepEqual((await ff.filter({ viewer: me, posts, kinds: ["domain-mute"] })).posts, []);
  const { dropped, reasons } = await ff.explain(me, posts[0]);
  assert.deepEqual([dropped, reasons.map(({ kind, overruledBy }) => [kind, overruledBy])], [false, [["domain-mute", "follow"], ["follow", undefined]]]);
});

test("lists", async (t) => {
  const ff = client(t);
  const [me, one, other, blocked, hidden] = [newUser(), newUser(), newUser(), newUser(), newUser()];
  await ff.record(one, "blocks", blocked);
  await ff.record(other, "hides", hidden);
  const posts = [{ id: "a", author: blocked }, { id: hidden, author: "x" }, { id: "c", author: "x" }];
  assert.deepEqual((await ff.filter({ viewer: me, posts })).posts, posts);
  const feed = await ff.filter({ viewer: me, posts, lists: [other, one] });
  assert.deepEqual(feed.dropped.map(({ index, kind, list }) => [index, kind, list]), [[0, "block", one], [1, "hide", other]]);
  const { reasons } = await ff.explain(me, posts[1], { lists: [one, other] });
  assert.deepEqual(reasons.map(({ kind, list }) => [kind, list]), [["hide", other]]);
  await assert.rejects(ff.filter({ viewer: me, posts, lists: [one, one] }), { code: "out_of_range", field: "lists[1]" });
});

test("positions", async (t) => {
  const ff = client(t);
  const post = { id: "p", author: "x" };
  for (const [after, code] of [["0/16B3748", "not_followed"], ["16B3748", "invalid_position"]]) {
    const wrong = { code, status: 422, field: "after" };
    await assert.rejects(ff.filter({ viewer: newUser(), posts: [post], after }), wrong);
    await assert.rejects(ff.explain(newUser(), post, { after }), wrong);
    await assert.rejects(ff.fanout({ post, viewers: [newUser()], after }), wrong);
  }
});

test("fan-out", async (t) => {
  const ff = client(t);
  const [author, other, domain, one, two, three, four] = Array.from({ length: 7 }, newUser);
  await ff.record(one, "blocks", author);
  await ff.record(other, "blocks", three);
  await ff.record(four, "domain-mutes", domain);
  const viewers = [one, two, three, four];
  const post = { id: "", author, actors: [{ id: other, role: "repost" }], facets: { domain: [domain] } };
  assert.deepEqual(await ff.fanout({ post, viewers, exact: true }), {
    dropped: [
      { viewer: one, kind: "block", actor: author, target: undefined }, { viewer: three, kind: "block", actor: other, target: undefined },
      { viewer: four, kind: "domain-mute", actor: undefined, target: domain },
    ], degraded: [],
  });
  assert.deepEqual((await ff.fanout({ post, viewers, kinds: [] })).dropped, []);
  await assert.rejects(ff.fanout({ post, viewers, kinds: ["hide"] }), { code: "unsupported_op", field: "kinds[0]" });
  await assert.rejects(ff.fanout({ post, viewers: ["💡"[0]] }), { code: "invalid_id" });
});

test("facets", async (t) => {
  const ff = client(t);
  const [me, domain] = [newUser(), newUser()];
  await ff.record(me, "domain-mutes", domain);
  const posts = [
    { id: "a", author: "x", facets: { domain: ["y.example", domain] } }, { id: "b", author: domain, facets: { domain: [] } },
    { id: "c", author: "x", facets: { domain: ["y.example"] } },
  ];
  const feed = await ff.filter({ viewer: me, posts });
  assert.deepEqual(feed.posts, posts.slice(1));
  assert.deepEqual(feed.dropped, [
    { post: posts[0], index: 0, kind: "domain-mute", actor: undefined, target: domain, list: undefined, unconfirmed: false },
  ]);
  const { dropped, reasons } = await ff.explain(me, posts[0]);
  assert.deepEqual([dropped, reasons.map(({ kind, target }) => [kind, target])], [true, [["domain-mute", domain]]]);
  await assert.rejects(ff.filter({ viewer: me, posts: [{ ...posts[2], facets: { tag: ["x"] } }] }), {
    code: "unknown_facet", status: 422, field: "posts[0].facets.tag",
  });
});

test("texts", async (t) => {
  const ff = client(t);
  const [me, other] = [newUser(), newUser()];
  await ff.record(me, "word-mutes", "Climate Change");
  assert.equal(await ff.record(me, "word-mute", "CLIMATE change!"), false);
  assert.deepEqual((await all(ff.list(me, "word-mutes"))).map(({ target }) => target), ["climate change"]);
  const text = "💡 É: climate—change is real";
  const posts = [
    { id: "a", author: "x" }, { id: "b", author: "x", text }, { id: "c", author: "x", text: "The climate will change." },
    { id: "d", author: "x", facets: { phrase: ["Climate change"] } },
  ];
  const feed = await ff.filter({ viewer: me, posts });
  assert.deepEqual(feed.dropped.map(({ index, kind, target }) => [index, kind, target]), [
    [1, "word-mute", "climate change"], [3, "word-mute", "climate change"],
  ]);
  const { reasons: [reason] } = await ff.explain(me, posts[1]);
  assert.ok(reason?.inText);
  const found = new TextEncoder().encode(text).subarray(reason.inText.start, reason.inText.end);
  assert.deepEqual([reason.target, new TextDecoder().decode(found)], ["climate change", "climate—change"]);
  assert.deepEqual((await ff.explain(me, posts[3])).reasons.map(({ inText }) => inText), [undefined]);
  assert.deepEqual((await ff.fanout({ post: posts[1], viewers: [other, me] })).dropped, [
    { viewer: me, kind: "word-mute", actor: undefined, target: "climate change" },
  ]);
  await assert.rejects(ff.record(me, "word-mutes", "!?"), { code: "invalid_id", field: "target" });
  const { text: isText, fold } = (await ff.kinds()).find(({ plural }) => plural === "word-mutes") ?? {};
  assert.deepEqual([isText, fold], [true, undefined]);
});

test("roles and related ids", async (t) => {
  const ff = client(t);
  const [me, muted, hidden] = [newUser(), newUser(), newUser()];
  await ff.record(me, "repost-mutes", muted);
  await ff.record(me, "hides", hidden);
  const posts = [
    { id: "a", author: "x", actors: ["y", { id: muted, role: "repost" }] }, { id: "b", author: "x", actors: [{ id: muted, role: "quote" }] },
    { id: "c", author: "x", related: ["z", hidden] }, { id: "d", author: "x", related: ["r"] }, { id: "r", author: "x" },
    { id: "e", author: "x", actors: [{ id: muted }] }, // in any role
  ];
  const feed = await ff.filter({ viewer: me, posts, recordSeen: true });
  assert.deepEqual(feed.dropped.map(({ index, kind, actor, target }) => [index, kind, actor, target]), [
    [0, "repost-mute", muted, undefined], [2, "hide", undefined, hidden], [4, "seen", undefined, undefined], [5, "repost-mute", muted, undefined],
  ]);
  assert.deepEqual((await ff.filter({ viewer: me, posts: posts.slice(3, 5) })).posts, []);
  assert.deepEqual((await ff.explain(me, posts[0])).reasons.map(({ kind }) => kind), ["repost-mute"]);
  assert.deepEqual((await ff.explain(me, { ...posts[1], id: "f" })).reasons, []);
  assert.deepEqual((await ff.explain(me, posts[2])).reasons.map(({ target }) => target), [hidden]);
});

test("record, remove, list and count", async (t) => {
  const ff = client(t);
  const me = newUser();
  const until = new Date(Date.now() + 3_600_000);
  assert.equal(await ff.record(me, "likes", "a/b?c"), true);
  assert.equal(await ff.record(me, "likes", "a/b?c"), false);
  assert.equal(await ff.record(me, "likes", "a/b?c", { until }), true);
  const [item] = await all(ff.list(me, "likes"));
  assert.deepEqual([item.target, item.until], ["a/b?c", until]);
  assert.deepEqual(await ff.count(me), { block: 0, hide: 0, like: 1, pin: 0, "domain-mute": 0, "repost-mute": 0, "word-mute": 0, follow: 0 });
  assert.equal(await ff.remove(me, "likes", "a/b?c"), true);
  assert.equal(await ff.remove(me, "likes", "a/b?c"), false);
  assert.deepEqual(await all(ff.list(me, "likes")), []);
  assert.equal((await ff.count(me)).like, 0);
});

test("a list of several parts", async (t) => {
  const ff = client(t);
  const me = newUser();
  const start = Date.parse("2026-01-01T00:00:00Z");
  const activities = Array.from({ length: 250 }, (_, i) => (/** @type {Activity} */ ({
    user: me, kind: "hide", target: `p${i}`, op: "add", since: new Date(start + i),
  })));
  const results = await ff.recordBatch(activities);
  assert.deepEqual(results, activities.map(() => ({ changed: true, error: undefined })));
  const items = await all(ff.list(me, "hides"));
  const newestFirst = activities.toReversed().map(({ target, since }) => ({ target, since, until: undefined }));
  assert.deepEqual(items, newestFirst);
  for await (const item of ff.list(me, "hides")) {
    assert.equal(item.target, "p249");
    break;
  }
});

test("a window accepts history", async (t) => {
  const ff = client(t);
  const me = newUser();
  const day = 86_400_000;
  const results = await ff.recordBatch([
    { user: me, kind: "seen", target: "recent", op: "add", since: new Date(Date.now() - 29 * day) },
    { user: me, kind: "seen", target: "old", op: "add", since: new Date(Date.now() - 36 * day) },
  ]);
  assert.deepEqual(results, [{ changed: true, error: undefined }, { changed: false, error: undefined }]);
  const { dropped } = await ff.filter({ viewer: me, posts: [{ id: "recent", author: "a" }, { id: "old", author: "a" }] });
  assert.deepEqual(dropped.map(({ post, kind }) => [post.id, kind]), [["recent", "seen"]]);
});

test("times are truncated to milliseconds, never in the future", async (t) => {
  const ff = client(t);
  const me = newUser();
  const activity = { user: me, kind: "hide", target: "p", op: "add", since: "2026-01-01T00:00:00.000999Z" };
  await ff.call("POST", ["v1", "activities"], { body: { activities: [activity] } });
  const since = new Date("2026-01-01T00:00:00.000Z");
  assert.deepEqual((await all(ff.list(me, "hides")))[0].since, since);
  assert.deepEqual((await ff.explain(me, { id: "p", author: "2" })).reasons[0].since, since);
  assert.deepEqual((await all(ff.export(me)))[0].since, since);
});

test("an invalid activity refuses its batch, one over a limit only itself", async (t) => {
  const ff = client(t);
  const me = newUser();
  const pin = (/** @type {string} */ target) => (/** @type {Activity} */ ({ user: me, kind: "pin", target, op: "add" }));
  await assert.rejects(ff.recordBatch([pin("a"), pin("")]), {
    name: "FeedFilterError", code: "invalid_id", field: "activities[1].target", status: 400,
  });
  assert.equal((await ff.count(me)).pin, 0);
  const results = await ff.recordBatch([pin("a"), pin("b"), pin("c")]);
  assert.deepEqual(results.map(({ changed }) => changed), [true, true, false]);
  const { error } = results[2];
  assert.ok(error instanceof FeedFilterError);
  assert.deepEqual([error.code, error.limit, error.status, error.unavailable], ["limit_reached", 2, 0, false]);
  await assert.rejects(ff.record(me, "pins", "d"), { code: "limit_reached", limit: 2, status: 409 });
});

test("errors have code, field and status", async (t) => {
  const ff = client(t);
  const me = newUser();
  const posts = [{ id: "p", author: "1" }, { id: "p", author: "" }];
  await assert.rejects(ff.filter({ viewer: me, posts }), { code: "invalid_id", field: "posts[1].author", status: 400 });
  await assert.rejects(ff.filter({ viewer: me, posts: [], kinds: ["no"] }), { code: "unknown_kind", status: 422 });
  await assert.rejects(ff.filter({ viewer: me, posts: [], limit: -1 }), { code: "out_of_range", field: "limit" });
  await assert.rejects(ff.record(me, "blocks", me), { code: "self_block", field: "target", status: 422 });
  await assert.rejects(ff.record(me, "nothings", "p"), { code: "unknown_kind", status: 422 });
  await assert.rejects(ff.record(me, "hides", "p", { until: new Date(0) }), { code: "out_of_range", field: "until" });
  await assert.rejects(ff.preview(me, "hide", []), { code: "out_of_range", field: "targets", status: 400 });
  await assert.rejects(all(ff.export("\u0001")), { code: "invalid_id", status: 400 });
  const error = await ff.count("").catch((e) => e);
  assert.ok(error instanceof FeedFilterError && error.message !== "" && error.requestId);
  assert.deepEqual([error.code, error.unavailable, error.overloaded], ["invalid_id", false, false]);
});

test("ids that are not strings are refused, not converted", async (t) => {
  const ff = client(t);
  /** @type {any} */
  const [five, none, half] = [5, null, "a\ud800"];
  await assert.rejects(ff.record("1", "blocks", five), { code: "invalid_type", field: "target" });
  await assert.rejects(ff.record(none, "blocks", "2"), { code: "invalid_id", field: "user" });
  await assert.rejects(ff.record("1", "blocks", half), { code: "invalid_id", field: "target" });
  await assert.rejects(ff.recordPosts("1", "seen", ["p", none]), { code: "invalid_type", field: "posts[1]" });
  await assert.rejects(ff.deleteUser(none), { code: "invalid_type" });
  await assert.rejects(ff.deleteUser(half), { code: "invalid_id" });
  await assert.rejects(ff.explain("1", { id: "p", author: half }), { code: "invalid_id", field: "post.author" });
  await assert.rejects(ff.explain("1", { id: "p", author: "2", text: half }), { code: "invalid_id", field: "post.text" });
  await assert.rejects(ff.fanout({ post: { id: "p", author: "2", text: five }, viewers: ["1"] }), { code: "invalid_type", field: "text" });
  await assert.rejects(ff.filter({ viewer: "1", posts: [{ id: five }] }), { code: "invalid_type", field: "posts[0].id" });
  /** @type {any} */
  const text = { id: "p", author: "2", facets: { domain: "x.example" } }; // instead of a list
  await assert.rejects(ff.filter({ viewer: "1", posts: [text] }), { code: "invalid_type" });
  await assert.rejects(ff.explain("1", text), { code: "invalid_type" });
  await assert.rejects(ff.explain("1", { id: "p", facets: { domain: [five] } }),
    { code: "invalid_type", field: "post.facets[0].ids[0]" });
  await assert.rejects(ff.recordBatch([{ user: "1", kind: "block", target: half, op: "add" }]),
    { code: "invalid_id", field: "activities[0].target" });
});

test("preview, export and deletion of a user", async (t) => {
  const ff = client(t);
  const [me, other] = [newUser(), newUser()];
  const until = new Date(Date.now() + 3_600_000);
  await ff.record(me, "blocks", other, { until });
  await ff.record(me, "hides", "p2");
  await ff.record(other, "blocks", me);
  assert.deepEqual(await ff.preview(me, "pin", ["p2", "p3", "p4"]), { new: 3, present: 0, total: 3, limit: 2, over: true });
  const exported = await all(ff.export(me));
  assert.deepEqual(exported.map(({ since, ...more }) => more), [
    { user: me, kind: "block", target: other, op: "add", until }, { user: me, kind: "hide", target: "p2", op: "add" },
  ]);
  const [{ since }] = await all(ff.list(me, "hides"));
  assert.deepEqual(exported[1].since, since);
  assert.equal(await ff.deleteUser(me), 3);
  assert.deepEqual(await all(ff.export(me)), []);
  assert.deepEqual(await ff.count(other), { block: 0, hide: 0, like: 0, pin: 0, "domain-mute": 0, "repost-mute": 0, "word-mute": 0, follow: 0 });
  assert.deepEqual((await ff.recordBatch(exported)).map(({ changed }) => changed), [true, true]);
});

test("the caller may end an export early", async (t) => {
  const ff = client(t, { maxConnections: 1 });
  const me = newUser();
  const add = (/** @type {number} */ i) => (/** @type {Activity} */ ({ user: me, kind: "hide", target: `p${i}`, op: "add" }));
  await ff.recordBatch(Array.from({ length: 2000 }, (_, i) => add(i)));
  for await (const { user } of ff.export(me)) {
    assert.equal(user, me);
    break;
  }
  assert.equal((await all(ff.export(me))).length, 2000);
});

nodeTest("a stream of activities", async (t) => {
  const ff = client(t);
  const me = newUser();
  let asked = 0;
  let results = 0;
  async function* activities() {
    for (; asked < 3000; asked++) {
      // The service answers while it reads: the thousandth result comes before the last activity.
      while (asked === 2000 && results < 1000) await new Promise(setImmediate);
      yield /** @type {Activity} */ ({ user: me, kind: asked === 1500 ? "none" : "hide", target: `p${asked}`, op: "add" });
    }
  }
  for await (const { changed, error } of ff.recordStream(activities())) {
    assert.deepEqual([changed, error?.code], results === 1500 ? [false, "unknown_kind"] : [true, undefined]);
    results++;
  }
  assert.deepEqual([results, (await ff.count(me)).hide], [3000, 2999]);

  const broken = new Error("no more");
  const fails = ff.recordStream((function* () {
    yield /** @type {Activity} */ ({ user: me, kind: "hide", target: "p", op: "add" });
    throw broken;
  })());
  await assert.rejects(all(fails), broken);
});

fetchTest("without Node.js, streams, sockets and certificates are refused", async (t) => {
  await assert.rejects(all(client(t).recordStream([])), { code: "unsupported" });
  assert.throws(() => client(t, { url: `unix:${socket}` }), { code: "unsupported" });
  assert.throws(() => client(t, { tls: { ca: "" } }), { code: "unsupported" });
});

test("calls about the service", async (t) => {
  const ff = client(t);
  assert.deepEqual((await ff.kinds()).map(({ name }) => name), ["block", "hide", "like", "seen", "pin", "domain-mute", "repost-mute", "word-mute", "follow"]);
  assert.deepEqual(await ff.ready(), { status: "ready" });
  assert.ok((await ff.stats()).requests.total > 0);
  const { pages } = await ff.pages();
  assert.equal((await ff.reshape(pages)).pages, pages);
  await assert.rejects(ff.reshape(pages / 2), { code: "out_of_range" });
  assert.deepEqual(await ff.call("GET", ["healthz"]), { status: "ok" });
  const query = { limit: "1" };
  assert.deepEqual(await ff.call("GET", ["v1", "users", "no one", "hides"], { query }), { items: [] });
});

test("a refused token", async (t) => {
  const posts = [{ id: "p", author: "2" }];
  for (const wrong of [undefined, "wrong"]) {
    await assert.rejects(client(t, { token: wrong }).filter({ viewer: "1", posts }), { code: "unauthenticated", status: 401 });
    await assert.rejects(all(client(t, { token: wrong }).export("1")), { code: "unauthenticated", status: 401 });
  }
  const reader = client(t, { token: readToken });
  assert.equal((await reader.filter({ viewer: newUser(), posts })).posts.length, 1);
  await assert.rejects(reader.record("1", "blocks", "2"), { code: "forbidden", status: 403 });
  let asked = 0;
  const turns = client(t, { token: async () => (asked++ === 0 ? "wrong" : token) });
  await assert.rejects(turns.count("1"), { code: "unauthenticated" });
  assert.equal(typeof (await turns.count("1")).block, "number");
  const lost = new Error("no token");
  await assert.rejects(client(t, { token: () => Promise.reject(lost) }).count("1"), lost);
});

nodeTest("a service on a Unix socket", async (t) => {
  for (const to of [`unix:${socket}`, `unix://${socket}`]) {
    const ff = client(t, { url: to });
    const me = newUser();
    assert.equal(await ff.record(me, "hides", "p"), true);
    assert.deepEqual((await ff.filter({ viewer: me, posts: [{ id: "p" }, { id: "q" }], kinds: ["hide"] })).posts, [{ id: "q" }]);
    assert.equal((await all(ff.export(me))).length, 1);
  }
  await assert.rejects(client(t, { url: `unix:${socket}.no`, maxAttempts: 1 }).count("1"), { code: "connection_failed" });
});

nodeTest("a service with TLS", async (t) => {
  const ff = client(t, { url: tls.url, tls: { ca: tls.ca } });
  assert.equal((await ff.filter({ viewer: newUser(), posts: [{ id: "p", author: "2" }] })).posts.length, 1);
  assert.deepEqual(await all(ff.export(newUser())), []);
  await assert.rejects(client(t, { url: tls.url, maxAttempts: 1 }).count("1"), { code: "connection_failed" });
});

test("a URL with a path, and invalid URLs", async (t) => {
  await assert.rejects(client(t, { url: `${url}/deep/` }).count("1"), { status: 404 });
  for (const wrong of ["", "unix:", "ftp://h", "http://u:secret@h", "http://h?q", "h:80"]) {
    assert.throws(() => client(t, { url: wrong }), (e) => e instanceof TypeError && !e.message.includes("secret"));
  }
  assert.throws(() => client(t, { timeoutMs: 0 }), TypeError);
});
