// Requests as stock clients sent them (tritonclient 2.50, grpcurl 1.9, grpc-js 1.14), and the Call that each makes.
//
// A golden file: the message in hex, then `---- expected` and the Call in text, or its refusal. UPDATE_GOLDEN=1 writes
// what is expected anew.

import { expect, test } from "bun:test";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ServerError } from "../base/errors.ts";
import type { Call, ParameterValue } from "../call/call.ts";
import { Chunks } from "../tensor/byte-source.ts";
import { formatShape } from "../tensor/shape.ts";
import { toCall } from "./infer-call.ts";
import { decodeInferRequest } from "./infer-request.ts";

const GOLDEN = join(import.meta.dir, "../../tests/golden/wire");
const SEPARATOR = "---- expected\n";
const TRANSPORT = { arrivalNs: 0, deadlineNs: undefined, onCancel: () => {} };

test.each(readdirSync(GOLDEN))("%s", (file) => {
  const path = join(GOLDEN, file);
  const [hex = "", expected] = readFileSync(path, "utf8").split(SEPARATOR);
  const bytes = Buffer.from(hex.replace(/\s/g, ""), "hex");
  const received = describe(bytes);
  if (process.env.UPDATE_GOLDEN) writeFileSync(path, `${hex}${SEPARATOR}${received}`);
  else expect(received).toBe(expected!);
});

function describe(bytes: Uint8Array): string {
  try {
    return describeCall(toCall(decodeInferRequest(Chunks.of(bytes)), TRANSPORT));
  } catch (thrown) {
    if (thrown instanceof ServerError) return `${thrown.code}: ${thrown.message}\n`;
    throw thrown;
  }
}

function describeCall(call: Call): string {
  const value = (given: ParameterValue) => (typeof given === "bigint" ? `${given}n` : JSON.stringify(given));
  const lines = [
    `model ${call.modelName}`,
    `id ${JSON.stringify(call.id)}`,
    ...[...call.parameters].sort().map(([name, given]) => `parameter ${name} = ${value(given)}`),
    ...call.inputs.map(({ name, dtype, shape, data }) => {
      return `input ${name} ${dtype}${formatShape(shape)} ${Buffer.from(data.contiguous()).toString("hex")}`;
    }),
    ...call.requestedOutputs.map((name) => `output ${name}`),
  ];
  return `${lines.join("\n")}\n`;
}
