// The node file as users see it: its JSON Schema, and the tables of docs/node-file.md.
//
// Both derive from schema.ts; a test fails when the document has older tables. Used by `xlaserver config`.

import { describe, type JsonSchema, jsonSchemaOf } from "./json-schema.ts";
import { variableOf } from "./overrides.ts";
import { nodeSchema, workerSchema } from "./schema.ts";

/** The JSON Schema of the node file. */
export function nodeFileSchema(): JsonSchema {
  return {
    $schema: "https://json-schema.org/draft/2020-12/schema",
    title: "xlaserver node file",
    ...jsonSchemaOf(nodeSchema),
  };
}

/** The tables of all keys in Markdown: the node's own, then a worker's, group by group. */
export function keyTables(): string {
  const node = jsonSchemaOf(nodeSchema);
  const worker = jsonSchemaOf(workerSchema);
  const entries = Object.entries(worker.properties ?? {});
  const listed = node.properties?.workers?.items?.properties ?? {};
  const ofListOnly = Object.entries(listed).filter(([name]) => !worker.properties?.[name]);
  return [
    "### The node\n",
    table(Object.entries(node.properties ?? {}), undefined),
    "### `workers[]`\n",
    "Besides these, every key of `global`:\n",
    table(ofListOnly, undefined),
    "### `global`\n",
    table(
      entries.filter(([, at]) => !at.properties),
      "",
    ),
    ...entries.flatMap(([name, at]) => groupTables(name, at)),
  ].join("\n");
}

/** The table of a group, and of those inside it. */
function groupTables(path: string, at: JsonSchema): string[] {
  if (!at.properties) return [];
  const entries = Object.entries(at.properties);
  const models = at.properties.models?.additionalProperties || undefined;
  return [
    `### \`global.${path}\`\n`,
    `${at.description}\n`,
    table(
      entries.filter(([, inner]) => !inner.properties),
      `${path}.`,
    ),
    ...entries.flatMap(([name, inner]) => groupTables(`${path}.${name}`, inner)),
    ...(models?.properties
      ? [`### \`global.${path}.models.<model>\`\n`, table(Object.entries(models.properties), undefined)]
      : []),
  ];
}

/** `prefix` is that of environment variables; undefined where there are none. Refused keys are left out. */
function table(entries: readonly (readonly [string, JsonSchema])[], prefix: string | undefined): string {
  const rows = entries
    .filter(([, at]) => !at.not)
    .map(([name, at]) => {
      const variable = prefix !== undefined && at.type !== "object" ? ` \`${variableOf(prefix + name)}\`` : "";
      const cells = [`\`${name}\``, describe(at), fallback(at), `${at.description ?? ""}${variable}`];
      return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
    });
  return `| Key | Value | Default | Meaning |\n|---|---|---|---|\n${rows.join("\n")}\n`;
}

function fallback({ default: value }: JsonSchema): string {
  if (value === undefined) return "";
  return value === "" ? "empty" : `\`${typeof value === "string" ? value : JSON.stringify(value)}\``;
}
