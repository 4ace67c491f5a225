// Writes the types of the routes that only JSON offers. Reads the service's OpenAPI document from
// standard input. Usage: node generate.mjs FILE
import { writeFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import openapiTS, { astToString } from "openapi-typescript";

/** The calls that the client makes with JSON. Everything else in the document is left out. */
const calls = {
  "/readyz": ["get"],
  "/v1/activities": ["post"],
  "/v1/kinds": ["get"],
  "/v1/pages": ["get", "put"],
  "/v1/stats": ["get"],
  "/v1/users/{user}": ["delete"],
  "/v1/users/{user}/export": ["get"],
  "/v1/users/{user}/preview": ["post"],
};

const document = JSON.parse(await text(process.stdin));
const paths = {};
for (const [path, methods] of Object.entries(calls)) {
  paths[path] = {};
  for (const method of methods) {
    const operation = document.paths[path]?.[method];
    if (!operation) throw new Error(`the service has no ${method.toUpperCase()} ${path}`);
    const { operationId: _id, ...rest } = operation; // without an id, its type stands in place
    const responses = Object.entries(operation.responses).filter(([status]) => status === "200");
    paths[path][method] = { ...rest, responses: Object.fromEntries(responses) };
  }
}

/** Adds the names of all schemas that a value refers to. */
function referred(value, names) {
  if (typeof value !== "object" || value === null) return names;
  for (const [key, member] of Object.entries(value)) {
    const name = key === "$ref" && /^#\/components\/schemas\/(.*)$/.exec(member)?.[1];
    if (name && !names.has(name)) referred(document.components.schemas[name], names.add(name));
    referred(member, names);
  }
  return names;
}

const names = referred({ paths, error: { $ref: "#/components/schemas/Error" } }, new Set());
const schemas = Object.entries(document.components.schemas).filter(([name]) => names.has(name));
const { headers } = document.components;
const types = await openapiTS({
  openapi: document.openapi,
  info: document.info,
  paths,
  components: { schemas: Object.fromEntries(schemas), headers },
});
writeFileSync(process.argv[2], `// Generated from the service's OpenAPI document; do not edit.\n\n${astToString(types)}`);
