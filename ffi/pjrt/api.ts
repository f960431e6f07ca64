// A plugin's PJRT_Api in one thread: its function table as typed calls, and the one place where errors become exceptions.
//
// Each function has one Args struct a thread, filled with its struct_size once and reused by every call site; calls are
// synchronous, so that nothing else can fill it in between. A function that the plugin's table does not reach, or leaves
// null, is UNIMPLEMENTED when called. The table is process-wide: a thread gets its own PjrtApi by address (`PjrtApi.at`).
// Made by plugin.ts, used by every noun of this folder.

import { ServerError } from "../../src/base/errors.ts";
import type { Layout, Struct } from "../layout.ts";
import { type ArgsFunction, pointerFunction, voidFunction } from "../library.ts";
import { type Address, addressesAt, NULL, offsetAddress, textAt } from "../memory.ts";
import { CALLS, type CallFields, type CallName } from "./calls.ts";
import { codeName, PjrtError } from "./error.ts";
import { API_FUNCTIONS } from "./function-order.ts";
import { ApiHead, ExtensionBase, OLDEST_API_MINOR } from "./structs.ts";

/** One function of the API with the Args that it is called with. */
export class PjrtCall<N extends CallName> {
  constructor(
    private readonly api: PjrtApi,
    private readonly name: N,
    readonly args: Struct<CallFields<N>>,
    private readonly invoke: ArgsFunction,
  ) {}

  /** Calls the function with `args` as they stand. Throws PjrtError with PJRT's code and message. */
  run(): void {
    const error = this.invoke(this.args.address);
    if (error) throw this.api.takeError(error, this.name);
  }
}

export type PjrtCalls = { readonly [N in CallName]: PjrtCall<N> };

export interface PjrtApiVersion {
  readonly major: number;
  readonly minor: number;
}

export class PjrtApi {
  readonly version: PjrtApiVersion;
  readonly calls: PjrtCalls;
  private readonly destroyError: (args: Address) => void;
  private readonly errorMessage: (args: Address) => void;

  private constructor(
    /** Where PJRT_Api lies: what another thread passes to `PjrtApi.at`. */
    readonly address: Address,
    private readonly extensionStart: Address,
    version: PjrtApiVersion,
    functions: ReadonlyMap<string, Address>,
  ) {
    this.version = version;
    const calls: Partial<Record<CallName, unknown>> = {};
    for (const name of Object.keys(CALLS) as CallName[]) {
      calls[name] = new PjrtCall(this, name, allocateArgs(name), this.invoker(name, functions.get(name)));
    }
    this.calls = calls as PjrtCalls;
    // These two return nothing, so that reading their result as an error would read whatever the register held.
    this.destroyError = voidFunction(functions.get("PJRT_Error_Destroy")!);
    this.errorMessage = voidFunction(functions.get("PJRT_Error_Message")!);
  }

  private static readonly known = new Map<Address, PjrtApi>();

  /**
   * The API at `address` for this thread; a second call gives the same object. Throws FAILED_PRECONDITION when the table
   * is not one that this code can use.
   */
  static at(address: Address): PjrtApi {
    const known = PjrtApi.known.get(address);
    if (known) return known;
    const head = ApiHead.at(address);
    const { major_version: major, minor_version: minor } = head.pjrt_api_version;
    checkVersion(head.struct_size, major, minor);
    const functions = readFunctions(address, head.struct_size);
    for (const name of ["PJRT_Error_Destroy", "PJRT_Error_Message", "PJRT_Error_GetCode"]) {
      if (!functions.has(name)) throw new ServerError("FAILED_PRECONDITION", `the plugin's table has no ${name}`);
    }
    const api = new PjrtApi(address, head.extension_start, { major, minor }, functions);
    PjrtApi.known.set(address, api);
    return api;
  }

  /** PJRT_Extension_Type of each extension that the plugin offers. */
  extensions(): number[] {
    const types: number[] = [];
    for (let next = this.extensionStart; next !== NULL; ) {
      const extension = ExtensionBase.at(next);
      types.push(extension.type);
      next = extension.next;
    }
    return types;
  }

  /** Reads and destroys a PJRT_Error that `functionName` gave. */
  takeError(error: Address, functionName: string): PjrtError {
    const { PJRT_Error_Message, PJRT_Error_GetCode, PJRT_Error_Destroy } = this.calls;
    PJRT_Error_Message.args.error = error;
    this.errorMessage(PJRT_Error_Message.args.address);
    const message = textAt(PJRT_Error_Message.args.message, PJRT_Error_Message.args.message_size);
    PJRT_Error_GetCode.args.error = error;
    PJRT_Error_GetCode.run();
    const code = codeName(PJRT_Error_GetCode.args.code);
    PJRT_Error_Destroy.args.error = error;
    this.destroyError(PJRT_Error_Destroy.args.address);
    return new PjrtError(code, functionName, message);
  }

  private invoker(name: CallName, address: Address | undefined): ArgsFunction {
    if (address !== undefined) return pointerFunction(address);
    const { major, minor } = this.version;
    return () => {
      throw new PjrtError("UNIMPLEMENTED", name, `the plugin (PJRT API ${major}.${minor}) does not have this function`);
    };
  }
}

function checkVersion(structSize: number, major: number, minor: number): void {
  const expected = `xlaserver needs version 0.${OLDEST_API_MINOR} or a newer 0.x`;
  if (structSize < ApiHead.size || major !== 0 || minor < OLDEST_API_MINOR) {
    throw new ServerError("FAILED_PRECONDITION", `the plugin speaks PJRT C API ${major}.${minor}, ${expected}`);
  }
}

/** The functions that a table of `structSize` bytes holds, without the null ones. */
function readFunctions(address: Address, structSize: number): Map<string, Address> {
  const count = Math.min(API_FUNCTIONS.length, Math.floor((structSize - ApiHead.stride) / 8));
  const pointers = addressesAt(offsetAddress(address, ApiHead.stride), count);
  const functions = new Map<string, Address>();
  for (const [index, pointer] of pointers.entries()) {
    if (pointer !== NULL) functions.set(API_FUNCTIONS[index]!, pointer);
  }
  return functions;
}

function allocateArgs<N extends CallName>(name: N): Struct<CallFields<N>> {
  const layout = CALLS[name] as unknown as Layout<CallFields<N>>;
  const args = layout.allocate();
  (args as { struct_size: number }).struct_size = layout.size;
  return args;
}
