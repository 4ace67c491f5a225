import {
  create, fromBinary, toBinary, type DescMessage, type DescMethodUnary, type MessageInitShape, type MessageShape,
} from "@bufbuild/protobuf";
import { Connection, decodeJSON, type Call } from "./connection.js";
import { FeedFilterError, unexpected } from "./errors.js";
import { decodeFeed, duration, encodeFilter, partsOf } from "./feed.js";
import { ActivityService, Op, type RecordRequestSchema } from "./gen/feedfilter/v1/activity_pb.js";
import { FeedService } from "./gen/feedfilter/v1/feed_pb.js";
import type { components, paths } from "./gen/openapi.js";
import { LostError } from "./http.js";
import { batchOf, explanationOf, fanoutOf, itemOf, resultOf, stamp } from "./messages.js";
import { checkTexts } from "./texts.js";
import type {
  Activity, CallOptions, Explanation, Fanout, FanoutRequest, Feed, FilterRequest, Item, Kind, KindInfo, Options, Pages,
  Post, Preview, Readiness, Result, Stats,
} from "./types.js";

/** The answer of a route that only the JSON API has. */
type Answer<Route extends keyof paths, Method extends keyof paths[Route]> =
  paths[Route][Method] extends { responses: { 200: { content: { "application/json": infer T } } } } ? T : never;

const firstItems = 100; // in the first part of a list, for callers that read only its beginning
const moreItems = 1000; // in every further part
const deletionMs = 360_000; // longer than the service takes for a deletion

const utf8 = new TextEncoder();

/**
 * Calls a feedfilter service. Create one and share it: it keeps connections open, and limits the
 * retries of all calls together.
 *
 * A call that fails rejects with a FeedFilterError. A call that its signal aborts rejects with the
 * signal's reason. If the token function fails, the call rejects with its error.
 */
export class FeedFilter {
  readonly #connection: Connection;

  /** Throws a TypeError if an option is invalid. It does not connect. */
  constructor(options: Options) {
    this.#connection = new Connection(options);
  }

  /**
   * Returns which of the posts a viewer sees.
   *
   * With `recordSeen`, the call is retried only if no attempt can have taken effect. Otherwise a
   * retry would drop all posts that the first attempt recorded as seen.
   */
  filter<P extends Post>(request: FilterRequest<P>, options?: CallOptions): Promise<Feed<P>> {
    return this.#checked(() => ({
      method: "POST",
      path: [FeedService.typeName, FeedService.method.filter.name],
      type: "application/proto",
      body: encodeFilter(request),
      decode: (body) => decodeFeed(request, body),
      once: request.recordSeen,
    }), options);
  }

  /**
   * Returns what a feed of the viewer with the lists does with the post, and why. If its id is "",
   * returns everything between the viewer and the author. `after` and `withinMs` are as in
   * `filter`. The service must have a ledger.
   */
  explain(
    viewer: string, post: Post,
    options?: CallOptions & { lists?: readonly string[] | undefined; after?: string | undefined; withinMs?: number | undefined },
  ): Promise<Explanation> {
    const request = {
      viewer, lists: (options?.lists ?? []).slice(), after: options?.after ?? "", within: duration(options?.withinMs),
      post: { id: post.id, ...partsOf(post) },
    };
    return this.#unary(FeedService.method.explain, request, explanationOf, options);
  }

  /** Returns which viewers must not get a new post, for apps that write posts into feeds. */
  fanout(request: FanoutRequest, options?: CallOptions): Promise<Fanout> {
    const { post, viewers, kinds, exact = false, after = "", withinMs } = request;
    const message = {
      post: post.id, ...partsOf(post), viewers: viewers.slice(), exact, after, within: duration(withinMs),
      ...(kinds && { kinds: { names: kinds.slice() } }),
    };
    return this.#unary(FeedService.method.fanout, message, (m) => fanoutOf(viewers, m), options);
  }

  /**
   * Records an activity: `record("1", "block", "2")` lets user 1 block user 2. The activity ends
   * by itself at `until`. Returns whether it changed anything. Every later feed has the activity.
   */
  record(user: string, kind: Kind, target: string, options?: CallOptions & { until?: Date | undefined }): Promise<boolean> {
    return this.#record({ user, plural: kind, target, op: Op.ADD, ...only("until", stamp(options?.until)) }, options);
  }

  /** Undoes an activity. Returns whether there was one. */
  remove(user: string, kind: Kind, target: string, options?: CallOptions): Promise<boolean> {
    return this.#record({ user, plural: kind, target, op: Op.REMOVE }, options);
  }

  /**
   * Records 1 to 1,000 posts of a kind with a window: `recordPosts("1", "seen", posts)`. Returns
   * the number of distinct posts, which are all recorded now.
   */
  recordPosts(user: string, kind: Kind, posts: readonly string[], options?: CallOptions): Promise<number> {
    const request = { user, plural: kind, posts: [...posts] };
    return this.#unary(ActivityService.method.recordPosts, request, (m) => m.recorded, options);
  }

  /**
   * Records and undoes 1 to 10,000 activities, and returns a result for each, in order. If one is
   * invalid, the call fails with an error whose `field` names it, and nothing changes. An `until`
   * that has passed, or a `since` in the future, is the error of its result alone.
   */
  recordBatch(activities: readonly Activity[], options?: CallOptions): Promise<Result[]> {
    const { recordBatch } = ActivityService.method;
    return this.#checked(() => ({
      ...procedure(recordBatch),
      body: encode(recordBatch.input, batchOf(activities)),
      decode: (body) => {
        const { results } = fromBinary(recordBatch.output, body);
        if (results.length !== activities.length) throw miscounted(results.length, activities.length);
        return results.map(resultOf);
      },
    }), options);
  }

  /**
   * Records and undoes any number of activities, and yields a result for each, in order. An
   * activity with an error does not end the stream. If the stream breaks, activities without a
   * result may or may not have taken effect; it is safe to repeat them. It needs Node.js. It has no
   * timeout by default, but ends if the service is silent for 90 s.
   */
  async *recordStream(
    activities: Iterable<Activity> | AsyncIterable<Activity>, options?: CallOptions,
  ): AsyncGenerator<Result, void, undefined> {
    let sent = 0;
    let got = 0;
    let failed: { error: unknown } | undefined; // of the caller's activities
    async function* body() {
      try {
        for await (const a of activities) {
          const line = utf8.encode(JSON.stringify(lineOf(a)) + "\n");
          sent++;
          yield line;
        }
      } catch (error) {
        failed = { error };
        throw error;
      }
    }
    try {
      const request = { method: "POST", path: ["v1", "activities"], body: body() };
      for await (const line of this.#connection.lines(request, options)) {
        got++;
        yield resultLine(line);
      }
    } catch (e) {
      throw failed ? failed.error : e;
    }
    if (got !== sent) throw new LostError(miscounted(got, sent), false);
  }

  /** Returns the user's activity of a kind with the target, from the ledger; undefined: none. */
  get(user: string, kind: Kind, target: string, options?: CallOptions): Promise<Item | undefined> {
    const request = { user, plural: kind, target: target ?? "" }; // without a target, the service lists all
    return this.#unary(ActivityService.method.list, request, ({ items }) => {
      if (items.length > 1) throw unexpected(200, "more than one item");
      return items[0] && itemOf(items[0]);
    }, options);
  }

  /**
   * Yields the user's activities of a kind, newest first. With `incoming`, those of others with the
   * user, of a kind that targets users; if that is one-way and without fan-out, in the order of a
   * hash. It requests further parts while the caller reads. The timeout is for each part.
   */
  async *list(
    user: string, kind: Kind, options?: CallOptions & { incoming?: boolean | undefined },
  ): AsyncGenerator<Item, void, undefined> {
    const incoming = options?.incoming ?? false;
    let limit = firstItems;
    for (let cursor = ""; ;) {
      const request = { user, plural: kind, limit, cursor, incoming };
      const part = await this.#unary(ActivityService.method.list, request, (m) => m, options);
      for (const item of part.items) yield itemOf(item);
      if (part.next === "" || part.next === cursor) return;
      limit = moreItems;
      cursor = part.next;
    }
  }

  /** Returns the number of the user's activities by the name of their kind. */
  count(user: string, options?: CallOptions): Promise<Record<string, number>> {
    return this.#unary(ActivityService.method.count, { user }, ({ counts }) => {
      return Object.fromEntries(Object.entries(counts).map(([kind, n]) => [kind, Number(n)]));
    }, options);
  }

  /**
   * Returns what recording activities with 1 to 10,000 targets would change, without changing it.
   */
  preview(user: string, kind: Kind, targets: readonly string[], options?: CallOptions): Promise<Preview> {
    return this.#json("POST", ["v1", "users", user, "preview"], { kind, targets }, "total", options);
  }

  /**
   * Yields all activities of the user in the ledger, by kind and target. If it fails, the
   * activities before the error are incomplete. It is not retried. It has no timeout by default,
   * but ends if the service is silent for 90 s.
   */
  async *export(user: string, options?: CallOptions): AsyncGenerator<Activity, void, undefined> {
    const request = { method: "GET", path: ["v1", "users", user, "export"] };
    for await (const line of this.#connection.lines(request, options)) {
      const { kind, target, op, since, until, ...more } = line as components["schemas"]["ExportLine"];
      yield { user: more.user, kind, target, op, since: new Date(since), ...only("until", until && new Date(until)) };
    }
  }

  /**
   * Removes every trace of a user, which takes up to 5 minutes; the default timeout is 6 minutes.
   * Returns the number of activities that the last attempt removed: the user's, and those of others
   * with the user. After an error, repeat the call to continue.
   */
  async deleteUser(user: string, options?: CallOptions): Promise<number> {
    const { deleted } = await this.#json<Answer<"/v1/users/{user}", "delete">>(
      "DELETE", ["v1", "users", user], undefined, "deleted", options, deletionMs);
    return deleted;
  }

  /** Returns the kinds of activities that the service knows. */
  async kinds(options?: CallOptions): Promise<KindInfo[]> {
    const { kinds } = await this.#json<Answer<"/v1/kinds", "get">>("GET", ["v1", "kinds"], undefined, "kinds", options);
    return kinds;
  }

  /**
   * Returns the number of pages, and the progress of a reshape. The service must have a ledger.
   */
  pages(options?: CallOptions): Promise<Pages> {
    return this.#json<Answer<"/v1/pages", "get">>("GET", ["v1", "pages"], undefined, "homes", options);
  }

  /**
   * Raises the number of pages to a power of two up to 2^24, in the background. The number only
   * grows, and a reshape that has begun cannot be undone. `force` allows more than 16 times the
   * pages that are due. It needs a token with the scope ops:write.
   */
  reshape(pages: number, options?: CallOptions & { force?: boolean | undefined }): Promise<Pages> {
    const body: components["schemas"]["PagesRequest"] = { pages, ...only("force", options?.force) };
    return this.#json<Answer<"/v1/pages", "put">>("PUT", ["v1", "pages"], body, "homes", options);
  }

  /**
   * Asks once, without retries, whether the service can answer feeds. If it cannot, that is an
   * answer, not an error.
   */
  ready(options?: CallOptions): Promise<Readiness> {
    return this.#connection.call({
      method: "GET", path: ["readyz"], type: "application/json", maxAttempts: 1, also: 503,
      decode: (body) => complete<Answer<"/readyz", "get">>(decodeJSON(body), "status"),
    }, options);
  }

  /** Returns the counts of the process that answers. */
  stats(options?: CallOptions): Promise<Stats> {
    return this.#json<Answer<"/v1/stats", "get">>("GET", ["v1", "stats"], undefined, "recorder", options);
  }

  /**
   * Makes a call that the client has no method for. `path` is a list of unescaped segments; `body`
   * is sent as JSON. Retries and errors are those of all calls.
   */
  call<T = unknown>(
    method: string, path: readonly string[],
    options?: CallOptions & { query?: Record<string, string> | undefined; body?: unknown },
  ): Promise<T> {
    return this.#checked(() => ({
      method, path, query: options?.query, ...json(options?.body), decode: (body) => decodeJSON(body) as T,
    }), options);
  }

  /** Refuses further calls, and closes the connections after the calls in flight. */
  close(): void {
    this.#connection.close();
  }

  #record(request: MessageInitShape<typeof RecordRequestSchema>, options?: CallOptions): Promise<boolean> {
    return this.#unary(ActivityService.method.record, request, (m) => m.changed, options);
  }

  #unary<I extends DescMessage, O extends DescMessage, T>(
    method: DescMethodUnary<I, O>, request: MessageInitShape<I>, result: (message: MessageShape<O>) => T, options?: CallOptions,
  ): Promise<T> {
    return this.#checked(() => ({
      ...procedure(method),
      body: encode(method.input, create(method.input, request)),
      decode: (body) => result(fromBinary(method.output, body)),
    }), options);
  }

  #json<T extends object>(
    method: string, path: readonly string[], body: unknown, needed: keyof T & string, options?: CallOptions, timeoutMs?: number,
  ): Promise<T> {
    return this.#checked(() => ({
      method, path, ...json(body), ...only("timeoutMs", timeoutMs), decode: (bytes) => complete<T>(decodeJSON(bytes), needed),
    }), options);
  }

  /** Makes a call. If its request cannot be encoded, the call fails. */
  async #checked<T>(make: () => Call<T>, options?: CallOptions): Promise<T> {
    let call: Call<T>;
    try {
      call = make();
    } catch (e) {
      if (e instanceof FeedFilterError) throw e;
      const why = e instanceof Error ? e.message : String(e);
      throw new FeedFilterError(`invalid request: ${why}`, { code: "invalid_type", cause: e });
    }
    return this.#connection.call(call, options);
  }
}

/** Encodes a message. Its texts must be valid. */
function encode<D extends DescMessage>(schema: D, message: MessageShape<D>): Uint8Array {
  checkTexts(schema, message);
  return toBinary(schema, message);
}

function procedure(method: DescMethodUnary): Pick<Call<never>, "method" | "path" | "type"> {
  return { method: "POST", path: [method.parent.typeName, method.name], type: "application/proto" };
}

function json(body: unknown): Pick<Call<never>, "type" | "body"> {
  return { type: "application/json", body: body === undefined ? undefined : utf8.encode(JSON.stringify(body)) };
}

/** Returns the answer if it has the member; otherwise throws. */
function complete<T extends object>(answer: unknown, needed: keyof T & string): T {
  if (typeof answer !== "object" || answer === null || !(needed in answer)) {
    throw unexpected(200, `${JSON.stringify(needed)} is missing`);
  }
  return answer as T;
}

/** Returns an object with the member, or an empty object if the value is undefined. */
function only<K extends string, V>(name: K, value: V | undefined | ""): { [key in K]?: V } {
  return (value === undefined || value === "" ? {} : { [name]: value }) as { [key in K]?: V };
}

function lineOf({ user, kind, target, op, since, until }: Activity): object {
  return { user, kind, target, op, since, until };
}

function resultLine(line: unknown): Result {
  const { changed, error } = line as { changed?: boolean; error?: components["schemas"]["Error"]["error"] };
  if (error) return { changed: false, error: new FeedFilterError(error.message, error) };
  if (typeof changed !== "boolean") throw unexpected(200, "a result with neither a change nor an error");
  return { changed, error: undefined };
}

function miscounted(results: number, activities: number): FeedFilterError {
  return unexpected(200, `${results} results for ${activities} activities`);
}
