// Makes the tests send their requests with fetch: node --import ./test/fetch.js --test ...
import { register } from "node:module";

process.env.FEEDFILTER_HTTP = "fetch";
const http = new URL("../dist/http-fetch.js", import.meta.url).href;
const hook = `export const resolve = (name, context, next) =>
  name === "#http" ? { url: ${JSON.stringify(http)}, shortCircuit: true } : next(name, context);`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);
