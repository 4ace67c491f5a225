import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { unexpected } from "./errors.js";
import { Answer, FacetSchema, FilterRequestSchema, FilterResponseSchema, type Facet } from "./gen/feedfilter/v1/feed_pb.js";
import { degradedOf } from "./messages.js";
import { checkText, isText } from "./texts.js";
import type { Actor, Dropped, Feed, FilterRequest, Post } from "./types.js";

const maxUint32 = 0xffff_ffff;

/** Returns a time as the service takes it. */
export function duration(ms: number | undefined): string {
  return ms === undefined ? "" : `${ms}ms`;
}

/** Encodes the request of a feed. */
export function encodeFilter(request: FilterRequest): Uint8Array {
  const { viewer, posts, kinds, annotate = [], lists = [], limit = 0, recordSeen = false, exact = false, after = "", withinMs } = request;
  checkText(viewer, "viewer");
  checkText(after, "after");
  for (const [name, texts] of Object.entries({ kinds: kinds ?? [], annotate, lists })) checkAll(texts, () => name);
  const ids = posts.map(({ id }) => id);
  checkAll(ids, (i) => `posts[${i}].id`);
  const m = create(FilterRequestSchema, {
    viewer, posts: ids, annotate: annotate.slice(), lists: lists.slice(), recordSeen, exact, after, within: duration(withinMs),
    answer: Answer.DROPPED,
    limit: limit >= 0 && limit <= maxUint32 ? Math.ceil(limit) : maxUint32, // refused
    ...(kinds && { kinds: { names: kinds.slice() } }),
  });
  if (posts.some(({ author }) => author !== undefined)) {
    m.authors = posts.map(({ author }) => author ?? "");
    checkAll(m.authors, (i) => `posts[${i}].author`);
  }
  if (posts.some(({ text }) => text !== undefined && text !== "")) {
    m.texts = posts.map(({ text }) => text ?? "");
    checkAll(m.texts, (i) => `posts[${i}].text`);
  }
  const facets = new Map<string, Facet>();
  for (let i = 0; i < posts.length; i++) {
    const post = posts[i]!;
    for (const actor of post.actors ?? []) {
      checkAll([idOf(actor), roleOf(actor)], () => `posts[${i}].actors`);
      m.actors.push(idOf(actor));
      m.actorRoles.push(roleOf(actor));
      m.actorPosts.push(i);
    }
    for (const id of post.related ?? []) {
      checkText(id, `posts[${i}].related`);
      m.related.push(id);
      m.relatedPosts.push(i);
    }
    for (const [name, ids] of Object.entries(post.facets ?? {})) {
      checkText(name, "facets");
      checkAll(ids, () => `posts[${i}].facets.${name}`);
      let facet = facets.get(name);
      if (facet === undefined) facets.set(name, (facet = create(FacetSchema, { name })));
      facet.ids.push(...ids);
      facet.posts.push(...ids.map(() => i));
    }
  }
  if (!m.actorRoles.some(Boolean)) m.actorRoles = [];
  m.facets = [...facets.values()];
  return toBinary(FilterRequestSchema, m);
}

/** Checks texts, all at once if they are right. */
function checkAll(texts: readonly string[], place: (i: number) => string): void {
  if (texts.every((text) => typeof text === "string") && isText(texts.join("\n"))) return;
  texts.forEach((text, i) => checkText(text, place(i)));
}

/** The fields of a message that has those of one post, besides its id. */
export function partsOf({ author = "", actors = [], related = [], facets = {}, text = "" }: Post) {
  return {
    author, text, actors: [...actors].map(idOf), actorRoles: actors.some(roleOf) ? actors.map(roleOf) : [], related: related.slice(),
    facets: Object.entries(facets).map(([name, ids]) => ({ name, ids: ids.slice() })), // a text stays one, and is refused
  };
}

/** Returns the id of a user on a post. */
function idOf(actor: string | Actor): string {
  return typeof actor === "object" && actor !== null ? actor.id : actor;
}

/** Returns the role of a user on a post; "": unknown. */
function roleOf(actor: string | Actor): string {
  return typeof actor === "object" && actor !== null ? actor.role ?? "" : "";
}

/** Returns the feed of an answer. Throws if the answer does not fit the request. */
export function decodeFeed<P extends Post>(request: FilterRequest<P>, bytes: Uint8Array): Feed<P> {
  const { posts } = request;
  const answer = fromBinary(FilterResponseSchema, bytes);
  const looked = answer.next === 0 ? posts.length : answer.next;
  if (answer.next !== 0 && answer.next >= posts.length) throw odd();
  const dropped: Dropped<P>[] = [];
  const kept: P[] = [];
  let at = 0; // the first candidate that is not in either list
  for (const { index, kind, actor, target, list, unconfirmed } of answer.dropped) {
    if (index < at || index >= looked) throw odd();
    while (at < index) kept.push(posts[at++]!);
    dropped.push({
      post: posts[at++]!, index, kind, actor: actor || undefined, target: target || undefined, list: list || undefined, unconfirmed,
    });
  }
  while (at < looked) kept.push(posts[at++]!);
  const annotated: Feed<P>["annotated"] = {};
  for (const { kind, posts: indexes } of answer.annotated) {
    if (indexes.some((i) => i >= looked)) throw odd();
    annotated[kind] = new Set(indexes.map((i) => posts[i]!.id));
  }
  if (answer.annotated.length !== (request.annotate?.length ?? 0)) throw odd();
  const degraded = degradedOf(answer.degraded);
  return { posts: kept, dropped, annotated, next: answer.next || undefined, degraded };
}

function odd(): Error {
  return unexpected(200, "it does not fit the request");
}
