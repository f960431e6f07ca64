// The one error type of the server and the one shape of a finding.
//
// A ServerError carries a gRPC status code; `service/` maps it to the wire, nothing classifies by message text.
// A parser collects Issues, so that its user sees all of them at once. Used by every room.

/** gRPC status codes (https://grpc.io/docs/guides/status-codes/), by name. */
export const STATUS_CODES = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const;

export type StatusCode = keyof typeof STATUS_CODES;

/** A failure that has a name on the wire. `message` is written for the one who caused it. */
export class ServerError extends Error {
  override readonly name = "ServerError";
  constructor(
    readonly code: StatusCode,
    message: string,
    options?: { cause?: unknown },
  ) {
    super(message, options);
  }

  /** Whatever was thrown, as a ServerError: itself if it is one, else INTERNAL with the thrown message kept as cause. */
  static from(thrown: unknown, context: string): ServerError {
    if (thrown instanceof ServerError) return thrown;
    return new ServerError("INTERNAL", `${context}: ${messageOf(thrown)}`, { cause: thrown });
  }
}

/** The message of anything that can be thrown. */
export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** One finding of a parser: where, what was expected, what was there. */
export interface Issue {
  /** Dotted path inside the file, e.g. `executable_inputs[0].dims.t`; "" for the file as a whole. */
  readonly path: string;
  /** "" where what was received says it all, e.g. `not YAML: ...`. */
  readonly expected: string;
  readonly received: string;
}

/** A source (a file, the environment) with at least one Issue. Its message lists them all, one a line. */
export class IssuesError extends ServerError {
  constructor(
    readonly source: string,
    readonly issues: readonly Issue[],
  ) {
    super("INVALID_ARGUMENT", formatIssues(source, issues));
  }
}

/** `file: path: expected X, received Y`, or `file: path: Y` where nothing was expected; one line an issue. */
export function formatIssues(source: string, issues: readonly Issue[]): string {
  return issues
    .map(
      ({ path, expected, received }) =>
        `${source}: ${path ? `${path}: ` : ""}${expected ? `expected ${expected}, received ` : ""}${received}`,
    )
    .join("\n");
}

/** Asserts an invariant of our own code. A broken one is a defect: it throws a plain Error, never a ServerError. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`invariant broken: ${message}`);
}
