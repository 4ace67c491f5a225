// Compares the encoder of feeds with the general encoder.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fromBinary } from "@bufbuild/protobuf";
import { encodeFilter } from "../dist/feed.js";
import { Answer, FilterRequestSchema } from "../dist/gen/feedfilter/v1/feed_pb.js";

const ids = ["p", "", "ö", "💡".repeat(64), "a".repeat(127), "a".repeat(128), "ab\u007f", "ab\u0080", "z".repeat(20_000)];

test("a feed is encoded as its schema says", () => {
  const posts = Array.from({ length: 300 }, (_, i) => ({
    id: `${ids[i % ids.length]}${i}`,
    ...(i % 3 && { author: ids[i % 7] }),
    ...(i % 100 === 50 && { actors: ids }),
  }));
  const request = { viewer: "ü", posts, kinds: ["block", "ö"], annotate: ["like"], limit: 300, recordSeen: true, exact: true };
  const message = fromBinary(FilterRequestSchema, encodeFilter(request));
  assert.deepEqual(message.posts, posts.map(({ id }) => id));
  assert.deepEqual(message.authors, posts.map(({ author }) => author ?? ""));
  assert.deepEqual(message.actors, [...ids, ...ids, ...ids]);
  assert.deepEqual(message.actorPosts, [50, 150, 250].flatMap((i) => ids.map(() => i)));
  const { viewer, kinds, annotate, limit, recordSeen, exact, answer } = message;
  assert.deepEqual({ viewer, kinds: kinds?.names, annotate, limit, recordSeen, exact, answer }, {
    viewer: "ü", kinds: ["block", "ö"], annotate: ["like"], limit: 300, recordSeen: true, exact: true, answer: Answer.DROPPED,
  });
  assert.equal(message.$unknown, undefined);
});

test("facets are encoded in columns", () => {
  const tags = ["go", "ö", "", "💡".repeat(64)];
  const posts = [
    { id: "p", facets: { tag: tags, domain: ["x.example"] } }, { id: "q" }, { id: "r", facets: { tag: [] } },
    { id: "s", facets: { domain: ["y.example", "x.example"] } },
  ];
  const { facets } = fromBinary(FilterRequestSchema, encodeFilter({ viewer: "1", posts }));
  assert.deepEqual(facets.map(({ name, ids, posts }) => ({ name, ids, posts })), [
    { name: "tag", ids: tags, posts: [0, 0, 0, 0] },
    { name: "domain", ids: ["x.example", "y.example", "x.example"], posts: [0, 3, 3] },
  ]);
});

test("roles and related ids are encoded in columns", () => {
  const posts = [
    { id: "p", actors: ["1", { id: "2" }] }, { id: "q", related: ["ö", ""] }, { id: "r", actors: [{ id: "3", role: "repost" }, "4"], related: [] },
    { id: "s", related: ["💡".repeat(64)], actors: [] },
  ];
  const message = fromBinary(FilterRequestSchema, encodeFilter({ viewer: "1", posts, lists: ["l", "ö"] }));
  const { actors, actorPosts, actorRoles, related, relatedPosts, lists } = message;
  assert.deepEqual({ actors, actorPosts, actorRoles, related, relatedPosts, lists }, {
    actors: ["1", "2", "3", "4"], actorPosts: [0, 0, 2, 2], actorRoles: ["", "", "repost", ""],
    related: ["ö", "", "💡".repeat(64)], relatedPosts: [1, 1, 3], lists: ["l", "ö"],
  });
  assert.deepEqual(fromBinary(FilterRequestSchema, encodeFilter({ viewer: "1", posts: posts.slice(0, 2) })).actorRoles, []);
});

test("texts are encoded in one column, if there is any", () => {
  const texts = (/** @type {(string | undefined)[]} */ ...all) => {
    const posts = all.map((text, i) => ({ id: `p${i}`, ...(text !== undefined && { text }) }));
    return fromBinary(FilterRequestSchema, encodeFilter({ viewer: "1", posts })).texts;
  };
  assert.deepEqual([texts(undefined, "ö 💡", ""), texts(undefined, ""), texts()], [["", "ö 💡", ""], [], []]);
});

test("a position is encoded", () => {
  const after = (/** @type {string | undefined} */ after) => {
    return fromBinary(FilterRequestSchema, encodeFilter({ viewer: "1", posts: [], after })).after;
  };
  assert.deepEqual([after("0/16B3748"), after(undefined)], ["0/16B3748", ""]);
});

test("a time before the call is encoded", () => {
  const within = (/** @type {number | undefined} */ withinMs) => {
    return fromBinary(FilterRequestSchema, encodeFilter({ viewer: "1", posts: [], withinMs })).within;
  };
  assert.deepEqual([within(2000), within(0.5), within(undefined)], ["2000ms", "0.5ms", ""]);
});

test("empty fields of a feed are not encoded", () => {
  const message = fromBinary(FilterRequestSchema, encodeFilter({ viewer: "1", posts: [{ id: "p" }] }));
  assert.deepEqual([message.authors, message.actors, message.actorPosts, message.texts, message.kinds], [[], [], [], [], undefined]);
  assert.deepEqual(fromBinary(FilterRequestSchema, encodeFilter({ viewer: "1", posts: [], kinds: [] })).kinds?.names, []);
});

test("a limit beyond uint32 is sent as one that the service refuses", () => {
  for (const limit of [-1, 2 ** 40, NaN, Infinity]) {
    const message = fromBinary(FilterRequestSchema, encodeFilter({ viewer: "1", posts: [], limit }));
    assert.equal(message.limit, 0xffff_ffff);
  }
});

test("ids that UTF-8 cannot express are refused, with their place", () => {
  const half = "💡"[0];
  const wrong = (/** @type {string} */ field) => ({ code: "invalid_id", field });
  assert.throws(() => encodeFilter({ viewer: half, posts: [] }), wrong("viewer"));
  assert.throws(() => encodeFilter({ viewer: "1", posts: [{ id: "p" }, { id: `p${half}` }] }), wrong("posts[1].id"));
  assert.throws(() => encodeFilter({ viewer: "1", posts: [{ id: "p", author: half }] }), wrong("posts[0].author"));
  assert.throws(() => encodeFilter({ viewer: "1", posts: [{ id: "p", actors: ["1", half] }] }), wrong("posts[0].actors"));
  assert.throws(() => encodeFilter({ viewer: "1", posts: [{ id: "p", actors: [{ id: half }] }] }), wrong("posts[0].actors"));
  assert.throws(() => encodeFilter({ viewer: "1", posts: [{ id: "p", actors: [{ id: "1", role: half }] }] }), wrong("posts[0].actors"));
  assert.throws(() => encodeFilter({ viewer: "1", posts: [{ id: "p", related: [half] }] }), wrong("posts[0].related"));
  assert.throws(() => encodeFilter({ viewer: "1", posts: [{ id: "p" }, { id: "q", text: half }] }), wrong("posts[1].text"));
  const facets = { domain: ["1", half] };
  assert.throws(() => encodeFilter({ viewer: "1", posts: [{ id: "p", facets }] }), wrong("posts[0].facets.domain"));
  assert.throws(() => encodeFilter({ viewer: "1", posts: [], annotate: [half] }), wrong("annotate"));
  assert.throws(() => encodeFilter({ viewer: "1", posts: [], after: half }), wrong("after"));
});
