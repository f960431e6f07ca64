// A PJRT error as an exception: PJRT's code by name, the function that reported it, and PJRT's own message.
//
// PJRT's codes are absl's, which are gRPC's, so that a PjrtError is a ServerError whose code needs no translation.
// Thrown by api.ts and nowhere else.

import { ServerError, STATUS_CODES, type StatusCode } from "../../src/base/errors.ts";

const NAME_OF_CODE = new Map<number, StatusCode>(
  Object.entries(STATUS_CODES).map(([name, code]) => [code, name as StatusCode]),
);

export class PjrtError extends ServerError {
  constructor(
    code: StatusCode,
    /** The API function that failed, e.g. `PJRT_Client_Compile`. */
    readonly functionName: string,
    /** The plugin's own words. */
    readonly detail: string,
  ) {
    super(code, `${functionName}: ${detail}`);
  }
}

/** The name of a PJRT_Error_Code; a number that PJRT does not define is UNKNOWN. */
export function codeName(code: number): StatusCode {
  return NAME_OF_CODE.get(code) ?? "UNKNOWN";
}
