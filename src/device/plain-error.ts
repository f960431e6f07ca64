// Errors between threads and processes: a structured clone keeps neither a ServerError's class nor its code.
//
// Used by both ends of every message channel of this room.

import { ServerError, type StatusCode } from "../base/errors.ts";

export interface PlainError {
  readonly code: StatusCode;
  readonly message: string;
}

export function toPlainError(thrown: unknown): PlainError {
  const { code, message } = ServerError.from(thrown, "device");
  return { code, message };
}

export function fromPlainError({ code, message }: PlainError): ServerError {
  return new ServerError(code, message);
}
