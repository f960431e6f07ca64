// A loaded executable: compile or deserialise it, serialise it, run it. What it says of itself is in executable-info.ts.
//
// Executing donates nothing: inputs that the program may alias with an output are named as not donatable, so that weights
// survive. Execution is asynchronous, and one that fails on the device (out of memory) says so in its `done` event and in
// its outputs' events, not here. A thread launches one execution at a time; the lists for C are reused. Used by device/.

import { ServerError } from "../../src/base/errors.ts";
import { voidFunction } from "../library.ts";
import { type Address, Arena, bytesAt, handleCounter } from "../memory.ts";
import type { PjrtApi } from "./api.ts";
import type { PjrtBuffer } from "./buffer.ts";
import type { PjrtClient } from "./client.ts";
import * as info from "./executable-info.ts";
import { type Ownership, PjrtHandle } from "./handle.ts";
import { type Donatable, type Execution, Launch } from "./launch.ts";
import type { AttributeValue } from "./named-values.ts";
import type { ProgramShape } from "./program-shape.ts";
import { Program } from "./structs.ts";

/** What launching needs to know of a program. Asking for it copies the program, so it is worth storing. */
export interface LaunchFacts {
  readonly outputCount: number;
  readonly donatable: Donatable;
}

/** What another thread needs to run an executable: plain data for a message. */
export interface ExecutableHandle extends LaunchFacts {
  readonly api: Address;
  readonly executable: Address;
}

const executables = handleCounter("executable");

function launchFacts(api: PjrtApi, executable: Address): LaunchFacts {
  return { outputCount: info.outputCount(api, executable), donatable: info.donatableParameters(api, executable) };
}

export class PjrtExecutable extends PjrtHandle {
  private readonly launch: Launch;

  private constructor(
    api: PjrtApi,
    handle: Address,
    ownership: Ownership,
    readonly outputCount: number,
    readonly donatable: Donatable,
  ) {
    super(api, handle, ownership, executables);
    this.launch = new Launch(outputCount, donatable);
  }

  /**
   * Compiles `module` (StableHLO as text or portable bytecode) with the CompileOptionsProto `options`
   * (compile-options.ts). Blocks until done. Throws PjrtError with the compiler's message.
   */
  static compile(client: PjrtClient, module: Uint8Array, options: Uint8Array): PjrtExecutable {
    // Plugins read the first bytes of a module without looking at its length.
    if (module.byteLength === 0) throw new ServerError("INVALID_ARGUMENT", "the module is empty, expected StableHLO");
    using arena = new Arena();
    const format = arena.text("mlir");
    const program = Program.allocate();
    program.struct_size = Program.size;
    program.code = arena.hold(module);
    program.code_size = module.byteLength;
    program.format = format.address;
    program.format_size = format.byteLength;
    const call = client.api.calls.PJRT_Client_Compile;
    call.args.client = client.address;
    call.args.program = arena.hold(program);
    call.args.compile_options = arena.hold(options);
    call.args.compile_options_size = options.byteLength;
    call.run();
    return PjrtExecutable.own(client.api, call.args.executable);
  }

  /**
   * Loads what `serialize` gave, for the same plugin and a like device. PJRT does not check the bytes against damage:
   * verify a checksum first. `facts` are those of the executable that was serialised, asked for if not given; wrong ones
   * corrupt memory. Blocks until done.
   */
  static deserialize(client: PjrtClient, serialized: Uint8Array, facts?: LaunchFacts): PjrtExecutable {
    using arena = new Arena();
    const call = client.api.calls.PJRT_Executable_DeserializeAndLoad;
    call.args.client = client.address;
    call.args.serialized_executable = arena.hold(serialized);
    call.args.serialized_executable_size = serialized.byteLength;
    call.run();
    return PjrtExecutable.own(client.api, call.args.loaded_executable, facts);
  }

  /** Uses, in any thread, an executable that is owned elsewhere. */
  static borrow(api: PjrtApi, handle: ExecutableHandle): PjrtExecutable {
    return new PjrtExecutable(api, handle.executable, "borrowed", handle.outputCount, handle.donatable);
  }

  private static own(api: PjrtApi, handle: Address, known?: LaunchFacts): PjrtExecutable {
    const facts = known ?? info.withExecutable(api, handle, (executable) => launchFacts(api, executable));
    return new PjrtExecutable(api, handle, "owned", facts.outputCount, facts.donatable);
  }

  /** What `borrow` takes, for a message to another thread. */
  get handleForThreads(): ExecutableHandle {
    const { outputCount, donatable } = this;
    return { api: this.api.address, executable: this.address, outputCount, donatable };
  }

  /** The compiled code, as `deserialize` takes it. UNIMPLEMENTED where the plugin can't. */
  serialize(): Uint8Array<ArrayBuffer> {
    return this.ask((_, executable) => {
      const call = this.api.calls.PJRT_Executable_Serialize;
      call.args.executable = executable;
      call.run();
      const { serialized_bytes, serialized_bytes_size, serialized_executable, serialized_executable_deleter } =
        call.args;
      const copy = bytesAt(serialized_bytes, serialized_bytes_size).slice();
      voidFunction(serialized_executable_deleter)(serialized_executable);
      return copy;
    });
  }

  /**
   * Launches the program on `inputs`, one for each parameter in order, and returns before it is done. The inputs must stay
   * undisposed until this returns. Throws INVALID_ARGUMENT when their number is wrong; types and dims are for the caller to
   * check, since the CPU plugins compare sizes in bytes at most.
   */
  execute(inputs: readonly PjrtBuffer[]): Execution {
    const { launch } = this;
    const call = this.api.calls.PJRT_LoadedExecutable_Execute;
    const { args } = call;
    args.executable = this.address;
    launch.setInputs(inputs);
    args.options = launch.options.address;
    args.argument_lists = launch.argumentLists;
    args.num_devices = 1;
    args.num_args = inputs.length;
    args.output_lists = launch.outputLists;
    args.device_complete_events = launch.doneList;
    call.run();
    return launch.take(this.api);
  }

  /** The module's name. */
  get name(): string {
    return this.ask(info.executableName);
  }

  /** Equal for programs compiled from equal inputs; undefined where the platform has none. */
  get fingerprint(): string | undefined {
    return this.ask(info.executableFingerprint);
  }

  /** PJRT_Buffer_Type and dims of the outputs, in order. */
  get outputShapes(): info.OutputShape[] {
    return this.ask(info.outputShapes);
  }

  /** The entry signature as compiled; undefined where the plugin does not show it. Copies the program: keep the result. */
  programShape(): ProgramShape | undefined {
    return this.ask(info.programShape);
  }

  /** What the compiler planned for arguments, outputs and temporaries. */
  memoryStats(): info.CompiledMemoryStats {
    return this.ask(info.compiledMemoryStats);
  }

  /** Bytes of machine code. */
  get generatedCodeBytes(): number {
    return this.ask(info.generatedCodeBytes);
  }

  /** Properties such as "flops"; undefined where the platform has none. */
  costAnalysis(): Record<string, AttributeValue> | undefined {
    return this.ask(info.costAnalysis);
  }

  private ask<T>(question: (api: PjrtApi, executable: Address) => T): T {
    return info.withExecutable(this.api, this.address, (executable) => question(this.api, executable));
  }

  protected override destroy(handle: Address): void {
    const call = this.api.calls.PJRT_LoadedExecutable_Destroy;
    call.args.executable = handle;
    call.run();
  }
}
