// `npm start`: sets everything up, serves the example bundles, shows that it works, and keeps serving until Ctrl-C.
//
// With `-- --once`, or without a terminal, it ends after the demonstration: 0 if the ranking was the expected one.

import { readFileSync } from "node:fs";
import { ensureExecutable } from "./executable.mjs";
import { at, BUNDLES } from "./paths.mjs";
import { prepare } from "./prepare.mjs";
import { lastLines, SetupError, script } from "./run.mjs";
import { freePort, startServer } from "./server.mjs";

await script(async (args) => {
  const unknown = args.find((arg) => arg !== "--once");
  if (unknown !== undefined) throw new SetupError(`${unknown}: only --once is known, as in \`npm start -- --once\``);
  await prepare();
  await ensureExecutable();

  const [grpcPort, metricsPort] = [await freePort(8001), await freePort(8002)];
  const where = `gRPC on 127.0.0.1:${grpcPort}, metrics and health on 127.0.0.1:${metricsPort}`;
  console.log(`starting dist/xlaserver on bundles/: ${where}`);
  for (const [wanted, port] of [
    [8001, grpcPort],
    [8002, metricsPort],
  ]) {
    if (port !== wanted) console.log(`port ${wanted} is taken by another program: ${port} takes its place`);
  }
  const started = Date.now();
  const server = startServer({ repository: BUNDLES, grpcPort, metricsPort });
  const logName = server.logFile.slice(at().length + 1);
  let stopped = false;
  const interrupted = new Promise((resolve) => {
    const stop = () => {
      if (stopped) server.terminate(); // A second Ctrl-C: the server then ends at once.
      stopped = true;
      resolve(0);
    };
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, stop);
  });
  const unlessInterrupted = (work) =>
    Promise.race([work, interrupted.then(() => Promise.reject(new SetupError("interrupted")))]);
  try {
    const patience = setTimeout(() => console.log("compiling the models, which only a first start has to ..."), 2000);
    await unlessInterrupted(server.ready()).finally(() => clearTimeout(patience));
    console.log(`ready in ${((Date.now() - started) / 1000).toFixed(1)} s; log in ${logName}`);
    // Imported only now: its packages may have been installed a moment ago.
    const { demonstrate } = await import("./demonstration.mjs");
    await unlessInterrupted(demonstrate(`127.0.0.1:${grpcPort}`));
    if (args.includes("--once") || !process.stdout.isTTY) return 0;
    console.log(howToGoOn(grpcPort, metricsPort));
    server.follow();
    const code = await Promise.race([server.exited, interrupted]);
    if (code === 0) return 0;
    const how = typeof code === "number" ? `exit code ${code}` : code;
    console.error(`the server ended (${how}): see ${logName}`);
    return 1;
  } catch (error) {
    if (error instanceof SetupError && !stopped && !error.output)
      error.output = lastLines(readFileSync(server.logFile, "utf8"));
    throw error;
  } finally {
    await server.stop();
  }
});

function howToGoOn(grpcPort, metricsPort) {
  return `The server runs until Ctrl-C. In another terminal, in this directory:

  dist/xlaserver infer minilm --server 127.0.0.1:${grpcPort} --input 'texts=["a first text", "a second one"]'
  curl http://127.0.0.1:${metricsPort}/metrics
  grpcurl -plaintext -import-path proto -proto grpc_service.proto -d '{"model_name": "minilm",
    "inputs": [{"name": "texts", "datatype": "BYTES", "shape": [1], "contents": {"bytes_contents": ["aGVsbG8="]}}]}' \\
    127.0.0.1:${grpcPort} inference.GRPCInferenceService/ModelInfer

In Python, after pip install 'tritonclient[grpc]':

  import numpy as np, tritonclient.grpc as triton
  texts = triton.InferInput("texts", [2], "BYTES")
  texts.set_data_from_numpy(np.array([b"a first text", b"a second one"], dtype=object))
  result = triton.InferenceServerClient("127.0.0.1:${grpcPort}").infer("minilm", [texts])
  print(result.as_numpy("embedding").shape)

docs/getting-started.md goes on from here.
`;
}
