// Certificates for the tests of TLS, made by the system's openssl for the time of a test.
//
// An authority, the server's and a client's certificate signed by it, and a stranger's that is not. Used by
// tests/e2e/tls.test.ts.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Certificates extends Disposable {
  readonly directory: string;
  /** The path of a file: ca.pem, ca.key, server.pem, server.key, client.pem, client.key, stranger.pem, stranger.key. */
  path(name: string): string;
  text(name: string): string;
}

/** Why there are none; undefined when openssl is there. */
export const noOpenssl = Bun.which("openssl") ? undefined : "openssl is not on PATH";

export function makeCertificates(): Certificates {
  const directory = mkdtempSync(join(tmpdir(), "certificates-"));
  const openssl = (...words: string[]) => {
    const { exitCode, stderr } = Bun.spawnSync(["openssl", ...words], { cwd: directory });
    if (exitCode !== 0) throw new Error(`openssl ${words[0]}: ${stderr}`);
  };
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const authority = (name: string) =>
    openssl(
      "req",
      "-x509",
      ...key,
      "-days",
      "2",
      "-subj",
      `/CN=${name}`,
      "-keyout",
      `${name}.key`,
      "-out",
      `${name}.pem`,
    );
  authority("ca");
  authority("stranger");
  writeFileSync(join(directory, "names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
  for (const name of ["server", "client"]) {
    openssl("req", "-new", ...key, "-subj", `/CN=${name}`, "-keyout", `${name}.key`, "-out", `${name}.csr`);
    const signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"];
    openssl("x509", "-req", "-in", `${name}.csr`, ...signed, "-out", `${name}.pem`);
  }
  const path = (name: string) => join(directory, name);
  return {
    directory,
    path,
    text: (name) => readFileSync(path(name), "utf8"),
    [Symbol.dispose]: () => rmSync(directory, { recursive: true }),
  };
}
