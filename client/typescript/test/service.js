// The service that typescript_test.go started, and functions that several tests use.
import { FeedFilter } from "@feedfilter/client";

/** @param {string} name */
function environment(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run go test ./client/typescript`);
  return value;
}

export const url = environment("FEEDFILTER_URL");
export const socket = environment("FEEDFILTER_SOCKET");
/** The address of a TLS proxy for the service, with this certificate. */
export const tls = { url: environment("FEEDFILTER_TLS_URL"), ca: environment("FEEDFILTER_TLS_CA") };
/** A token with all scopes. */
export const token = environment("FEEDFILTER_TOKEN");
/** A token with only the scope feed:read. */
export const readToken = environment("FEEDFILTER_READ_TOKEN");
/** Whether requests use fetch. */
export const fetching = process.env.FEEDFILTER_HTTP === "fetch";

/**
 * @param {import("node:test").TestContext} t @param {Partial<import("@feedfilter/client").Options>}
 * [options]
 */
export function client(t, options) {
  const ff = new FeedFilter({ url, token, ...options });
  t.after(() => ff.close());
  return ff;
}

let users = 0;
const run = `${fetching ? "f" : "n"}${process.pid}`;

/** Returns a user id that no other test uses. */
export function newUser() {
  return `${run}-${users++}`;
}

/** @template T @param {AsyncIterable<T>} items @returns {Promise<T[]>} */
export async function all(items) {
  const list = [];
  for await (const item of items) list.push(item);
  return list;
}
