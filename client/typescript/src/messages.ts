// Conversions between the messages of the schema and the types of this package.
import { create, fromBinary } from "@bufbuild/protobuf";
import { base64Decode } from "@bufbuild/protobuf/wire";
import { timestampFromDate, type Timestamp } from "@bufbuild/protobuf/wkt";
import { FeedFilterError, unexpected } from "./errors.js";
import * as activities from "./gen/feedfilter/v1/activity_pb.js";
import { ErrorDetailSchema, type ErrorDetail } from "./gen/feedfilter/v1/error_pb.js";
import type { Degraded as DegradedMessage, ExplainResponse, FanoutResponse } from "./gen/feedfilter/v1/feed_pb.js";
import type { Activity, Degraded, Explanation, Fanout, Item, Reason, Result } from "./types.js";

/** Returns a time as a message. */
export function stamp(date: Date | undefined): Timestamp | undefined {
  return date && timestampFromDate(date);
}

/**
 * Returns the time of a message, truncated to milliseconds as in JSON, so that it is never in the
 * future.
 */
function dateOf(time: Timestamp | undefined): Date | undefined {
  return time && new Date(Number(time.seconds) * 1000 + Math.floor(time.nanos / 1e6));
}

export function degradedOf(all: readonly DegradedMessage[]): Degraded[] {
  return all.map(({ kind, reason }) => ({ kind, reason }));
}

export function fanoutOf(viewers: readonly string[], m: FanoutResponse): Fanout {
  if (m.dropped.some(({ index }) => index >= viewers.length)) throw unexpected(200, "it does not fit the request");
  return {
    dropped: m.dropped.map(({ index, kind, actor, target }) => ({
      viewer: viewers[index]!, kind, actor: actor || undefined, target: target || undefined,
    })),
    degraded: degradedOf(m.degraded),
  };
}

export function explanationOf(m: ExplainResponse): Explanation {
  const page = m.page;
  return {
    dropped: m.dropped,
    reasons: m.reasons.map((r) => ({
      kind: r.kind,
      effect: r.effect as Reason["effect"],
      actor: r.actor || undefined,
      target: r.target || undefined,
      inText: r.inText && { start: r.inText.start, end: r.inText.end },
      direction: r.direction as Reason["direction"],
      certainty: r.certainty as Reason["certainty"],
      since: dateOf(r.since),
      until: dateOf(r.until),
      parts: r.parts,
      overruledBy: r.overruledBy || undefined,
      list: r.list || undefined,
    })),
    page: {
      number: page?.number ?? 0,
      sequence: Number(page?.sequence ?? 0),
      keys: Number(page?.keys ?? 0),
      bytes: Number(page?.bytes ?? 0),
      falsePositiveRate: page?.falsePositiveRate ?? 0,
    },
    degraded: degradedOf(m.degraded),
  };
}

const ops = { add: activities.Op.ADD, remove: activities.Op.REMOVE };

export function batchOf(all: readonly Activity[]): activities.RecordBatchRequest {
  return create(activities.RecordBatchRequestSchema, {
    activities: all.map(({ user, kind, target, op, since, until }) =>
      create(activities.ActivitySchema, {
        user, kind, target, op: ops[op] ?? activities.Op.UNSPECIFIED, // which the service refuses
        ...(since && { since: timestampFromDate(since) }),
        ...(until && { until: timestampFromDate(until) }),
      })),
  });
}

export function resultOf({ changed, error }: activities.Result): Result {
  return { changed, error: error && errorOf(error) };
}

export function itemOf({ user, target, since, until }: activities.Item): Item {
  return { ...(user && { user }), target, since: dateOf(since) ?? new Date(0), until: dateOf(until) };
}

/** Returns the error of an ErrorDetail and the headers of its answer. */
export function errorOf(detail: ErrorDetail, headers: { retryAfterMs?: number; requestId?: string } = {}): FeedFilterError {
  return new FeedFilterError(detail.message, {
    ...headers,
    code: detail.code,
    status: detail.httpStatus,
    field: detail.field || undefined,
    limit: detail.limit || undefined,
  });
}

/** Returns the ErrorDetail of a Connect error; undefined if there is none. */
export function detailOf(body: unknown): ErrorDetail | undefined {
  const { details } = (body ?? {}) as { details?: { type?: string; value?: string }[] };
  if (!Array.isArray(details)) return undefined;
  const found = details.find((d) => d?.type === ErrorDetailSchema.typeName);
  try {
    return found?.value === undefined ? undefined : fromBinary(ErrorDetailSchema, base64Decode(found.value));
  } catch {
    return undefined;
  }
}
