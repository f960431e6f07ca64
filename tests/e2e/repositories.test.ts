// Model repositories that are none, told apart in words: a bundle given for its parent, nothing in it, a misnamed manifest.

import { expect, test } from "bun:test";
import { join } from "node:path";
import { tempRepository } from "../support/bundles.ts";
import { spawnServer } from "../support/worker.ts";

const TIMEOUT_MS = 120_000;

test(
  "a bundle given as the repository ends the server with a word about its parent",
  async () => {
    using repository = tempRepository({ simple: { from: "simple" } });
    await using server = spawnServer({ repository: repository.bundle("simple") });
    expect(await server.exited).toBe(1);
    const said = server.log.find(({ event }) => event === "cannot start");
    expect(said?.error).toContain(`is a bundle: give its parent directory, '${repository.directory}'`);
  },
  TIMEOUT_MS,
);

test(
  "a repository without bundles is served with a warning, and misnamed manifests are named",
  async () => {
    using repository = tempRepository({ misnamed: { files: { "manifest.yml": "", "model.b1.mlir": "" } } });
    await using server = spawnServer({ repository: repository.directory });
    expect(await server.logged("directory ignored")).toMatchObject({
      level: "warn",
      directory: repository.bundle("misnamed"),
      reason: "it holds manifest.yml, but no manifest.yaml",
    });
    expect(await server.logged("no models")).toMatchObject({ level: "warn", directories: [repository.directory] });
    server.kill("SIGTERM");
    expect(await server.exited).toBe(0);
  },
  TIMEOUT_MS,
);

test(
  "--strict exits with 1 where nothing can be served",
  async () => {
    using repository = tempRepository();
    await using server = spawnServer({ repository: repository.directory, flags: ["--strict"] });
    expect(await server.exited).toBe(1);
    expect(server.log.map(({ event }) => event)).toContain("no models");
  },
  TIMEOUT_MS,
);

test(
  "names that no bundle has are told: --strict exits with 1, settings of a model are a warning",
  async () => {
    using repository = tempRepository({
      simple: { from: "simple" },
      settings: { files: { "node.yaml": "global: {scheduler: {models: {simpl: {max_batch_size: 1}}}}" } },
    });
    await using server = spawnServer({
      repository: repository.directory,
      flags: ["--strict", "--config", join(repository.bundle("settings"), "node.yaml")],
      environment: { XLASERVER_MODELS_INCLUDE: "simple:simpel" },
    });
    expect(await server.exited).toBe(1);
    const said = (wanted: string) => server.log.find(({ event }) => event === wanted);
    const error = `no bundle of this name in ${repository.directory}, did you mean 'simple'?`;
    expect(said("model unavailable")).toMatchObject({ model: "simpel", error });
    const reason = "scheduler.models.simpl: no such model is served, did you mean 'simple'?";
    expect(said("setting ignored")).toMatchObject({ level: "warn", reason });
  },
  TIMEOUT_MS,
);
