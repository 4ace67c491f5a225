import type { FeedFilterError } from "./errors.js";
import type { components } from "./gen/openapi.js";
import type { TLSOptions } from "./http.js";

/** Configures a FeedFilter. */
export interface Options {
  /**
   * The URL of the service, such as "http://127.0.0.1:8080". A path precedes the service's paths.
   * In Node.js, "unix:/run/feedfilter.sock" is a service on a Unix socket.
   */
  url: string;
  /**
   * The token, or a function that returns it, which is called before each attempt. Default: none.
   */
  token?: string | (() => string | Promise<string>) | undefined;
  /** How long a call may take, including retries. Default: 15,000. */
  timeoutMs?: number | undefined;
  /**
   * The maximum number of attempts of a call, including the first. 1: no retries. Default: 4.
   */
  maxAttempts?: number | undefined;
  /** The maximum number of connections, in Node.js. Further calls wait. Default: 64. */
  maxConnections?: number | undefined;
  /** The maximum length of an answer, and of a line of a stream, in bytes. Default: 16 MiB. */
  maxAnswerBytes?: number | undefined;
  /** Certificates for https, in Node.js. Default: those of the runtime. */
  tls?: TLSOptions | undefined;
  /** Sent with each request. Default: "feedfilter-typescript". */
  userAgent?: string | undefined;
}

/** Applies to one call. */
export interface CallOptions {
  /** Aborts the call, which rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** How long the call may take, including retries. 0: no limit. Default: the client's. */
  timeoutMs?: number | undefined;
  /** An id for the service's log: 1 to 64 letters, digits and "-_.". */
  requestId?: string | undefined;
}

/**
 * The name of a kind, such as "block". A service may have more than the built-in ones. Requests may
 * have its plural, such as "blocks"; answers have the name.
 */
export type Kind = components["schemas"]["Kind"] | (string & {});

/** @deprecated Use Kind. */
export type Plural = Kind;

/** A user on a post, and what the user did. */
export interface Actor {
  id: string;
  /** Such as "repost". Default: unknown, so every kind looks at the user. */
  role?: string | undefined;
}

/** A candidate for a feed. */
export interface Post {
  id: string;
  /** Required if a checked kind targets users. */
  author?: string | undefined;
  /** Up to 100 other users on the post, who reposted it, or whom it quotes or mentions. */
  actors?: readonly (string | Actor)[] | undefined;
  /**
   * Up to 16 other ids of the same content, such as that of the post that this one reposts.
   * recordSeen records the first of them instead of `id`.
   */
  related?: readonly string[] | undefined;
  /** Other ids on the post, by the facet that kinds target. They look at the first 64 of each. */
  facets?: Readonly<Record<string, readonly string[]>> | undefined;
  /** The post's text. Kinds with `text` look for phrases in its first 5,000 bytes of UTF-8. */
  text?: string | undefined;
}

/** Asks which of `posts` a viewer sees. */
export interface FilterRequest<P extends Post = Post> {
  viewer: string;
  /**
   * Up to 10,000 candidates in the order of the feed. Their ids of posts, related posts,
   * authors, actors and facets, including repeated ones, are up to 20,000. Texts do not count.
   */
  posts: readonly P[];
  /** The kinds to check, in this order. Default: every kind that drops. []: none. */
  kinds?: readonly Kind[] | undefined;
  /** The kinds to annotate kept posts with. */
  annotate?: readonly Kind[] | undefined;
  /**
   * Up to 20 shared lists: owners whose activities drop posts as if they were the viewer's, by
   * kinds that the ledger keeps.
   */
  lists?: readonly string[] | undefined;
  /** Ends the feed after that many kept posts, 1 to 10,000. Default: no limit. */
  limit?: number | undefined;
  /** Records the kept posts as seen. */
  recordSeen?: boolean | undefined;
  /** Lets the ledger confirm what the filter reports. */
  exact?: boolean | undefined;
  /**
   * A position of the followed database of the app, such as "0/16B3748": the feed has all that it
   * had committed up to there. If the service does not get there in time, the error has the code
   * "not_yet". Default: what was recorded before the call.
   */
  after?: string | undefined;
  /**
   * A time before the call in milliseconds, 1 to 86,400,000. The feed has all that the followed
   * database of the app had committed until then. Otherwise the error has the code "not_yet".
   */
  withinMs?: number | undefined;
}

/** The posts that a viewer sees, and the dropped posts. */
export interface Feed<P extends Post = Post> {
  /** The kept posts, in the order of the request: the caller's own objects. */
  posts: P[];
  /** The dropped posts, in the order of the request. */
  dropped: Dropped<P>[];
  /** For each kind of `annotate`, by its name, the ids of the kept posts that it annotates. */
  annotated: Record<string, ReadonlySet<string>>;
  /**
   * With a limit: the index of the first candidate that was not checked. Request the rest with
   * posts.slice(next). Undefined: all candidates were checked.
   */
  next: number | undefined;
  /**
   * Kinds that could not be checked. If they include a kind such as "block", treat the feed as
   * unanswered: it may contain posts that the viewer must not see.
   */
  degraded: Degraded[];
}

/** A post that the viewer does not see, with the first reason. */
export interface Dropped<P extends Post = Post> {
  post: P;
  /** The index of the post in the request. */
  index: number;
  kind: Kind;
  /** The user, for kinds that target users. */
  actor: string | undefined;
  /** The id, for kinds that do not target users, unless it is the post's own. */
  target: string | undefined;
  /** The list of the request that drops it; undefined: the viewer does. */
  list: string | undefined;
  /** In an exact feed: the kind has a window, so nothing can confirm the reason. */
  unconfirmed: boolean;
}

/** A kind that could not be checked. */
export interface Degraded {
  kind: Kind;
  /** For people. */
  reason: string;
}

/** Says why a feed drops or keeps a post. */
export interface Explanation {
  dropped: boolean;
  /** Everything that the filter reports, kinds that drop first. */
  reasons: Reason[];
  /** The page of the viewer's activities. */
  page: { number: number; sequence: number; keys: number; bytes: number; falsePositiveRate: number };
  degraded: Degraded[];
}

/** One thing that the filter reports about a post. */
export interface Reason {
  kind: Kind;
  effect: "drop" | "annotate" | "keep";
  /** The user, for kinds that target users. */
  actor: string | undefined;
  /** The id, for kinds that do not target users, unless it is the post's own. */
  target: string | undefined;
  /**
   * Where the target stands first in the post's text; undefined: it is an id on the post, or the
   * kind has no text.
   */
  inText: TextRange | undefined;
  /** Whose activity. */
  direction: "by_viewer" | "by_actor";
  /** Whether the ledger has it. "false": a false positive. "unconfirmed": of a window. */
  certainty: "certain" | "false" | "unconfirmed";
  /** When the activity was done; undefined: unknown. */
  since: Date | undefined;
  /** When it ends by itself; undefined: never. */
  until: Date | undefined;
  /** For a window: the beginnings of the parts that report the post. */
  parts: string[];
  /** The kind that keeps the post in spite of this reason. */
  overruledBy: Kind | undefined;
  /** The list whose activity it is; undefined: the viewer's. */
  list: string | undefined;
}

/** A part of a text, in bytes of UTF-8: new TextEncoder().encode(text).subarray(start, end). */
export interface TextRange {
  start: number;
  /** The first byte after it. */
  end: number;
}

/** Asks which of `viewers` must not get a new post. */
export interface FanoutRequest {
  /** The new post. It needs an author. Its id may be "". */
  post: Post;
  /** Up to 10,000 users who would get the post. */
  viewers: readonly string[];
  /**
   * The kinds to check, in this order. Default: every kind that drops or keeps, and is two-way or
   * has fanout. []: none.
   */
  kinds?: readonly Kind[] | undefined;
  /** Lets the ledger confirm what the filter reports. */
  exact?: boolean | undefined;
  /** A position, as in FilterRequest. */
  after?: string | undefined;
  /** A time, as in FilterRequest. */
  withinMs?: number | undefined;
}

/** The viewers who must not get a new post. All others may. */
export interface Fanout {
  /** In the order of the request, each with the first reason, as in a feed. */
  dropped: { viewer: string; kind: Kind; actor: string | undefined; target: string | undefined }[];
  /** The kinds that keep posts and could not be confirmed. */
  degraded: Degraded[];
}

/** One activity of a list. Times have milliseconds. */
export interface Item {
  /** Who has it, in incoming lists. */
  user?: string | undefined;
  /** "" in incoming lists. */
  target: string;
  since: Date;
  /** When it ends by itself; undefined: never. */
  until: Date | undefined;
}

/** One activity of a batch, a stream or an export. Times have milliseconds. */
export interface Activity {
  user: string;
  kind: Kind;
  target: string;
  op: "add" | "remove";
  /**
   * When it was done. Default: now. A window keeps the activity from that time. If the window
   * would already have forgotten it, nothing changes.
   */
  since?: Date | undefined;
  /** When it ends by itself. Default: never. */
  until?: Date | undefined;
}

/** The outcome of one activity. */
export interface Result {
  changed: boolean;
  /** Why it failed; undefined: it succeeded. */
  error: FeedFilterError | undefined;
}

/** What recording some activities would change. */
export type Preview = components["schemas"]["Preview"];
/** A kind of activities, in the form of the JSON API. */
export type KindInfo = components["schemas"]["Kinds"]["kinds"][number];
/** The number of pages, and the progress of a reshape, in the form of the JSON API. */
export type Pages = components["schemas"]["Pages"];
/** The counts of a process since its start, in the form of the JSON API. */
export type Stats = components["schemas"]["Stats"];
/** Whether the service can answer feeds, in the form of the JSON API. */
export type Readiness = components["schemas"]["Readiness"];
