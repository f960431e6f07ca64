// A platform opened through ffi/pjrt for tests: a client with one device, and short words for what tests do with it.
//
// Everything made through it is the caller's to dispose. Used by the contract suites of ffi/pjrt.

import { addressOf } from "../../ffi/memory.ts";
import type { PjrtApi } from "../../ffi/pjrt/api.ts";
import { PjrtBuffer } from "../../ffi/pjrt/buffer.ts";
import { PjrtClient } from "../../ffi/pjrt/client.ts";
import { encodeCompileOptions, type XlaOptionValue } from "../../ffi/pjrt/compile-options.ts";
import type { PjrtDevice } from "../../ffi/pjrt/device.ts";
import { PjrtExecutable } from "../../ffi/pjrt/executable.ts";
import { HostShape } from "../../ffi/pjrt/host-shape.ts";
import { loadPlugin } from "../../ffi/pjrt/plugin.ts";

/** PJRT_Buffer_Type of the types that tests use. */
export const PJRT_TYPE = { PRED: 1, S32: 4, S64: 5, U8: 6, F32: 11, BF16: 13 } as const;

/** StableHLO modules of tests, by what they do. */
export const MODULES = {
  /** x: f32[16] -> x */
  identity: `module @identity { func.func public @main(%x: tensor<16xf32>) -> tensor<16xf32> {
    return %x : tensor<16xf32> } }`,
  /** a, b: f32[16] -> a + b, a - b */
  sumAndDifference: `module @sum_and_difference {
    func.func public @main(%a: tensor<16xf32>, %b: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
      %0 = stablehlo.add %a, %b : tensor<16xf32>
      %1 = stablehlo.subtract %a, %b : tensor<16xf32>
      return %0, %1 : tensor<16xf32>, tensor<16xf32> } }`,
  /** a, b: f32[16] -> a + b, written over a if the caller lets it */
  aliasing: `module @aliasing {
    func.func public @main(%b: tensor<16xf32>, %a: tensor<16xf32> {tf.aliasing_output = 0 : i32}) -> tensor<16xf32> {
      %0 = stablehlo.add %a, %b : tensor<16xf32>
      return %0 : tensor<16xf32> } }`,
  /** a parameter of each kind that a signature check meets */
  manyTypes: `module @many_types {
    func.func public @main(%a: tensor<4xi1>, %b: tensor<i64>, %c: tensor<2x3x4xbf16>, %d: tensor<0x3xui8>)
      -> (tensor<2x3x4xbf16>, tensor<i64>) {
      return %c, %b : tensor<2x3x4xbf16>, tensor<i64> } }`,
  /** x: f32[16] -> nothing */
  noResults: `module @no_results { func.func public @main(%x: tensor<16xf32>) { return } }`,
  /** x: f32[1000, 1000] -> x * x * x * x, which takes longer than a launch */
  slow: `module @slow { func.func public @main(%x: tensor<1000x1000xf32>) -> tensor<1000x1000xf32> {
    %0 = stablehlo.dot %x, %x : (tensor<1000x1000xf32>, tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
    %1 = stablehlo.dot %0, %0 : (tensor<1000x1000xf32>, tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
    return %1 : tensor<1000x1000xf32> } }`,
} as const;

export const F32_16 = new HostShape(PJRT_TYPE.F32, [16]);

/** 16 floats: start, start + 1, ... */
export function ramp(start = 0): Float32Array {
  return Float32Array.from({ length: 16 }, (_, index) => start + index);
}

export class TestPlatform implements Disposable {
  private constructor(
    readonly api: PjrtApi,
    readonly client: PjrtClient,
    readonly device: PjrtDevice,
  ) {}

  static open(pluginPath: string): TestPlatform {
    return TestPlatform.of(PjrtClient.create(loadPlugin(pluginPath), { cpu_device_count: 1 }));
  }

  /** The first device of `client`, which the platform owns from now on. */
  static of(client: PjrtClient): TestPlatform {
    return new TestPlatform(client.api, client, client.devices()[0]!);
  }

  compile(module: string, xlaOptions: Record<string, XlaOptionValue> = {}): PjrtExecutable {
    return PjrtExecutable.compile(this.client, new TextEncoder().encode(module), encodeCompileOptions(xlaOptions));
  }

  /** Copies `values` to the device, by default as f32[16]. */
  upload(values: NodeJS.TypedArray, shape = F32_16): PjrtBuffer {
    return PjrtBuffer.copyFromHost(this.client, this.device, addressOf(values), shape);
  }

  /** Waits for a float buffer and reads it. */
  download(buffer: PjrtBuffer): number[] {
    const values = new Float32Array(new ArrayBuffer(buffer.hostBytes));
    using copied = buffer.toHost(addressOf(values), values.byteLength);
    copied.await();
    return [...values];
  }

  /** Runs on buffers, waits, and reads every output; what it made is disposed. */
  run(executable: PjrtExecutable, inputs: readonly PjrtBuffer[]): number[][] {
    const { outputs, done } = executable.execute(inputs);
    using stack = new DisposableStack();
    for (const owned of [done, ...outputs]) stack.use(owned);
    done.await();
    return outputs.map((output) => this.download(output));
  }

  [Symbol.dispose](): void {
    this.client[Symbol.dispose]();
  }
}
