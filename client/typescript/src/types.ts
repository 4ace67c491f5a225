import type { FeedFilterError } from "./errors.js";
import type { components } from "./gen/openapi.js";
import type { TLSOptions } from "./http.js";

/** Configures a FeedFilter. */
export interface Options {
  /**
   * Where the service is, such as "http://127.0.0.1:8080". A path precedes the service's paths. In
   * Node.js, "unix:/run/feedfilter.sock" is a service that listens on a Unix socket.
   */
  url: string;
  /**
   * The token, or a function that returns it, which is called before each attempt. Default: none.
   */
  token?: string | (() => string | Promise<string>) | undefined;
  /** How long a call may take, with its retries. Default: 15,000. */
  timeoutMs?: number | undefined;
  /**
   * The largest number of attempts of a call, the first one included. 1: no retries. Default: 4.
   */
  maxAttempts?: number | undefined;
  /** The largest number of connections at a time, in Node.js. Further calls wait. Default: 64. */
  maxConnections?: number | undefined;
  /** The largest answer, and the longest line of a stream, in bytes. Default: 16 MiB. */
  maxAnswerBytes?: number | undefined;
  /** Certificates for https, in Node.js. Default: those of the runtime. */
  tls?: TLSOptions | undefined;
  /** Is sent with each request. Default: "feedfilter-typescript". */
  userAgent?: string | undefined;
}

/** Applies to one call. */
export interface CallOptions {
  /** Aborts the call, which rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** How long the call may take, with its retries. 0: any time. Default: that of the client. */
  timeoutMs?: number | undefined;
  /** An id for the service's log: 1 to 64 letters, digits and "-_.". */
  requestId?: string | undefined;
}

/** The name of a kind, such as "block". A service may have others than the built-in ones. */
export type Kind = components["schemas"]["Kind"] | (string & {});

/** The plural of a kind that the ledger keeps, for calls about one kind. */
export type Plural = "blocks" | "hides" | "likes" | (string & {});

/** A candidate for a feed. */
export interface Post {
  id: string;
  /** Required if a checked kind targets users. */
  author?: string | undefined;
  /** Up to 100 other users on the post: who reposted it, or is quoted or mentioned. */
  actors?: readonly string[] | undefined;
}

/** Asks which of `posts` a viewer sees. */
export interface FilterRequest<P extends Post = Post> {
  viewer: string;
  /**
   * Up to 5,000 candidates in the order of the feed. They have up to 20,000 ids of posts, authors
   * and actors, repeated ones included.
   */
  posts: readonly P[];
  /** The kinds to check, in this order. Default: every kind that drops. []: none. */
  kinds?: readonly Kind[] | undefined;
  /** The kinds to annotate kept posts with. */
  annotate?: readonly Kind[] | undefined;
  /** Ends the answer once that many posts are kept, 1 to 5,000. Default: no limit. */
  limit?: number | undefined;
  /** Records the kept posts as seen. */
  recordSeen?: boolean | undefined;
  /** Has the ledger confirm what the filter reports. */
  exact?: boolean | undefined;
}

/** The posts that a viewer sees, and those that are dropped. */
export interface Feed<P extends Post = Post> {
  /** The kept posts, in the order of the request: the caller's own objects. */
  posts: P[];
  /** The dropped posts, in the order of the request. */
  dropped: Dropped<P>[];
  /** For each kind of `annotate`, the ids of the kept posts that it annotates. */
  annotated: Record<string, ReadonlySet<string>>;
  /**
   * With a limit: the index of the first candidate that was not checked. Request the rest with
   * posts.slice(next). Undefined: all were checked.
   */
  next: number | undefined;
  /**
   * Kinds that could not be checked. Treat a feed whose `degraded` names a kind such as "block" as
   * missing.
   */
  degraded: Degraded[];
}

/** A post that is left out, with the first reason found. */
export interface Dropped<P extends Post = Post> {
  post: P;
  /** The index of the post in the request. */
  index: number;
  kind: Kind;
  /** The user, for kinds that target users. */
  actor: string | undefined;
  /** In an exact feed: the kind has a window, so nothing can confirm the reason. */
  unconfirmed: boolean;
}

/** A kind that could not be checked. */
export interface Degraded {
  kind: Kind;
  /** For people. */
  reason: string;
}

/** Says why a feed drops a post, or keeps it. */
export interface Explanation {
  dropped: boolean;
  /** Everything that the filter reports, kinds that drop first. */
  reasons: Reason[];
  /** The page that holds the viewer's activities. */
  page: { number: number; sequence: number; keys: number; bytes: number; falsePositiveRate: number };
  degraded: Degraded[];
}

/** Something that the filter reports on a post. */
export interface Reason {
  kind: Kind;
  effect: "drop" | "annotate";
  /** The user, for kinds that target users. */
  actor: string | undefined;
  /** Whose activity it is. */
  direction: "by_viewer" | "by_actor";
  /** Whether the ledger has it. "false" is a false positive; nothing confirms a window. */
  certainty: "certain" | "false" | "unconfirmed";
  /** Since when; undefined: unknown. */
  since: Date | undefined;
  /** When it ends by itself; undefined: never. */
  until: Date | undefined;
  /** For a window: the beginnings of the parts that report it. */
  parts: string[];
}

/** One activity of a list. Times have milliseconds. */
export interface Item {
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
   * When it was done. Default, for one to record: now. A window keeps the activity from then on;
   * one that would be forgotten already changes nothing.
   */
  since?: Date | undefined;
  /** When it ends by itself. Default: never. */
  until?: Date | undefined;
}

/** The outcome of one activity. */
export interface Result {
  changed: boolean;
  /** Why it failed; undefined: it did not. */
  error: FeedFilterError | undefined;
}

/** What recording some activities would change. */
export type Preview = components["schemas"]["Preview"];
/** A kind of activities, in the form of the JSON API. */
export type KindInfo = components["schemas"]["Kinds"]["kinds"][number];
/** The number of pages and the progress of a reshape, in the form of the JSON API. */
export type Pages = components["schemas"]["Pages"];
/** The counts of a process since it started, in the form of the JSON API. */
export type Stats = components["schemas"]["Stats"];
/** Whether feeds can be answered, in the form of the JSON API. */
export type Readiness = components["schemas"]["Readiness"];
