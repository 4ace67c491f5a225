import { fromBinary } from "@bufbuild/protobuf";
import { unexpected } from "./errors.js";
import { Answer, FacetSchema, FilterRequestSchema, FilterResponseSchema, KindNamesSchema } from "./gen/feedfilter/v1/feed_pb.js";
import { degradedOf } from "./messages.js";
import { wellFormed, wrong } from "./texts.js";
import type { Actor, Dropped, Feed, FilterRequest, Post } from "./types.js";

const field = FilterRequestSchema.field;
const lengthDelimited = 2;
const maxUint32 = 0xffff_ffff;

/**
 * Encodes a FilterRequest directly. For the hundreds of ids of a feed, the general encoder takes
 * three times as long as the rest of the call.
 */
export function encodeFilter(request: FilterRequest): Uint8Array {
  const { posts, kinds, annotate = [], lists = [], limit = 0 } = request;
  const w = new Writer(longest(request));
  w.text(field.viewer.number, request.viewer, "viewer");
  let authors = false;
  let actors = false;
  let facets = false;
  let related = false;
  for (let i = 0; i < posts.length; i++) {
    const post = posts[i]!;
    w.text(field.posts.number, post.id, "posts", i, "id");
    authors ||= post.author !== undefined;
    actors ||= post.actors !== undefined;
    facets ||= post.facets !== undefined;
    related ||= post.related !== undefined;
  }
  for (let i = 0; authors && i < posts.length; i++) {
    w.text(field.authors.number, posts[i]!.author ?? "", "posts", i, "author");
  }
  if (actors) writeActors(w, posts);
  if (kinds !== undefined) {
    const names = new Writer(bound(kinds));
    for (const kind of kinds) names.text(KindNamesSchema.field.names.number, kind, "kinds");
    w.bytes(field.kinds.number, names.finish());
  }
  for (const kind of annotate) w.text(field.annotate.number, kind, "annotate");
  w.uint(field.limit.number, limit >= 0 && limit <= maxUint32 ? Math.ceil(limit) : maxUint32); // refused
  w.uint(field.recordSeen.number, Number(request.recordSeen ?? false));
  w.uint(field.exact.number, Number(request.exact ?? false));
  w.uint(field.answer.number, Answer.DROPPED);
  if (facets) writeFacets(w, posts);
  if (actors) writeRoles(w, posts);
  const relatedPosts = related ? writeRelated(w, posts) : undefined;
  for (const list of lists) w.text(field.lists.number, list, "lists");
  if (relatedPosts) w.bytes(field.relatedPosts.number, relatedPosts);
  return w.finish();
}

function writeActors(w: Writer, posts: readonly Post[]): void {
  const on = new Writer(5 * posts.reduce((sum, post) => sum + (post.actors?.length ?? 0), 0));
  for (let i = 0; i < posts.length; i++) {
    for (const actor of posts[i]!.actors ?? []) {
      w.text(field.actors.number, idOf(actor), "posts", i, "actors");
      on.varint(i);
    }
  }
  w.bytes(field.actorPosts.number, on.finish());
}

function writeRoles(w: Writer, posts: readonly Post[]): void {
  if (!posts.some(({ actors = [] }) => actors.some(roleOf))) return;
  for (let i = 0; i < posts.length; i++) {
    for (const actor of posts[i]!.actors ?? []) w.text(field.actorRoles.number, roleOf(actor), "posts", i, "actors");
  }
}

/** Writes the related ids, and returns the index of each one's post. */
function writeRelated(w: Writer, posts: readonly Post[]): Uint8Array {
  const on = new Writer(5 * posts.reduce((sum, post) => sum + (post.related?.length ?? 0), 0));
  for (let i = 0; i < posts.length; i++) {
    for (const id of posts[i]!.related ?? []) {
      w.text(field.related.number, id, "posts", i, "related");
      on.varint(i);
    }
  }
  return on.finish();
}

/** Returns the id of a user on a post. */
/** The fields of a message that has those of one post, besides its id. */
export function partsOf({ author = "", actors = [], related = [], facets = {} }: Post) {
  return {
    author, actors: [...actors].map(idOf), actorRoles: actors.some(roleOf) ? actors.map(roleOf) : [], related: related.slice(),
    facets: Object.entries(facets).map(([name, ids]) => ({ name, ids: ids.slice() })), // a text stays one, and is refused
  };
}

function idOf(actor: string | Actor): string {
  return typeof actor === "object" && actor !== null ? actor.id : actor;
}

/** Returns the role of a user on a post; "": unknown. */
function roleOf(actor: string | Actor): string {
  return typeof actor === "object" && actor !== null ? actor.role ?? "" : "";
}

function writeFacets(w: Writer, posts: readonly Post[]): void {
  const columns = new Map<string, { post: number; id: string }[]>();
  for (let i = 0; i < posts.length; i++) {
    for (const [name, ids] of Object.entries(posts[i]!.facets ?? {})) {
      let column = columns.get(name);
      if (column === undefined) columns.set(name, (column = []));
      for (const id of ids) column.push({ post: i, id });
    }
  }
  for (const [name, column] of columns) {
    const { field } = FacetSchema;
    const facet = new Writer(bound([name, ...column.map(({ id }) => id)]) + 5 * column.length + 6);
    facet.text(field.name.number, name, "facets");
    for (const { post, id } of column) facet.text(field.ids.number, id, "posts", post, `facets.${name}`);
    const on = new Writer(5 * column.length);
    for (const { post } of column) on.varint(post);
    facet.bytes(field.posts.number, on.finish());
    w.bytes(FilterRequestSchema.field.facets.number, facet.finish());
  }
}

/** Returns an upper bound of the length of some fields with texts. */
function bound(texts: readonly string[]): number {
  return texts.reduce((sum, text) => sum + 3 * (text?.length ?? 0) + 6, 0);
}

/** Returns an upper bound of the length of the message. */
function longest(request: FilterRequest): number {
  let sum = 64 + bound([request.viewer, ...(request.kinds ?? []), ...(request.annotate ?? []), ...(request.lists ?? [])]);
  for (const { id, author, actors, facets, related } of request.posts) {
    sum += 3 * ((id?.length ?? 0) + (author?.length ?? 0)) + 12;
    if (actors) sum += bound(actors.map(idOf)) + bound(actors.map(roleOf)) + 5 * actors.length;
    if (related) sum += bound(related) + 5 * related.length;
    if (facets) {
      for (const [name, ids] of Object.entries(facets)) sum += bound([name]) + bound(ids) + 5 * ids.length + 18;
    }
  }
  return sum;
}

const utf8 = new TextEncoder();

/** Writes the fields of a message. */
class Writer {
  readonly #to: Uint8Array;
  #at = 0;

  constructor(length: number) {
    this.#to = new Uint8Array(length);
  }

  finish(): Uint8Array {
    return this.#to.subarray(0, this.#at);
  }

  varint(n: number): void {
    for (; n > 127; n = Math.floor(n / 128)) this.#to[this.#at++] = (n & 127) | 128;
    this.#to[this.#at++] = n;
  }

  /** Writes a number, unless it is 0. */
  uint(number: number, n: number): void {
    if (n === 0) return;
    this.varint(number << 3);
    this.varint(n);
  }

  bytes(number: number, bytes: Uint8Array): void {
    this.varint((number << 3) | lengthDelimited);
    this.varint(bytes.length);
    this.#to.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  /** Writes a text. `list`, `index` and `name` are its place in the request, for errors. */
  text(number: number, text: string, list: string, index?: number, name?: string): void {
    if (typeof text !== "string") throw wrong("invalid_type", "not a string", placeOf(list, index, name));
    const { length } = text;
    if (length < 128) { // most texts are ASCII, whose length is known
      const to = this.#to;
      const start = this.#at + 2;
      let i = 0;
      for (let c: number; i < length && (c = text.charCodeAt(i)) < 128; i++) to[start + i] = c;
      if (i === length) {
        to[start - 2] = (number << 3) | lengthDelimited;
        to[start - 1] = length;
        this.#at = start + length;
        return;
      }
    }
    if (!wellFormed(text)) throw wrong("invalid_id", "not valid Unicode", placeOf(list, index, name));
    this.bytes(number, utf8.encode(text));
  }
}

/** Returns the place of a text in the request, such as "posts[3].author". */
function placeOf(list: string, index?: number, name?: string): string {
  return index === undefined ? list : `${list}[${index}].${name}`;
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
  if (request.annotate?.some((kind) => annotated[kind] === undefined)) throw odd();
  const degraded = degradedOf(answer.degraded);
  return { posts: kept, dropped, annotated, next: answer.next || undefined, degraded };
}

function odd(): Error {
  return unexpected(200, "it does not fit the request");
}
