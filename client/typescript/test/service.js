// The service that typescript_test.go has started, and what several tests need.
import { FeedFilter } from "@feedfilter/client";

/** @param {string} name */
function environment(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run go test ./client/typescript`);
  return value;
}

export const url = environment("FEEDFILTER_URL");
export const socket = environment("FEEDFILTER_SOCKET");
/** Where a proxy before the service speaks TLS, with this certificate. */
export const tls = { url: environment("FEEDFILTER_TLS_URL"), ca: environment("FEEDFILTER_TLS_CA") };
/** May do everything. */
export const token = environment("FEEDFILTER_TOKEN");
/** May only ask for feeds. */
export const readToken = environment("FEEDFILTER_READ_TOKEN");
/** Whether requests are made with fetch. */
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

/** Returns the id of a user that no other test has. */
export function newUser() {
  return `${run}-${users++}`;
}

/** @template T @param {AsyncIterable<T>} items @returns {Promise<T[]>} */
export async function all(items) {
  const list = [];
  for await (const item of items) list.push(item);
  return list;
}
