/** Client of the feedfilter service, which filters feeds and records what users do. */
export { FeedFilter } from "./client.js";
export { FeedFilterError, type ClientCode, type ServiceCode } from "./errors.js";
export type { TLSOptions } from "./http.js";
export type {
  Activity, Actor, CallOptions, Degraded, Dropped, Explanation, Fanout, FanoutRequest, Feed, FilterRequest, Item, Kind, KindInfo, Options, Pages, Plural,
  Post, Preview, Readiness, Reason, Result, Stats, TextRange,
} from "./types.js";
