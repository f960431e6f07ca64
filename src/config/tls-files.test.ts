// What is said about the files of endpoints.tls.

import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { type Certificates, makeCertificates, noOpenssl } from "../../tests/support/certificates.ts";
import { tlsIssues } from "./tls-files.ts";

if (noOpenssl) console.log(`files of TLS: skipped: ${noOpenssl}`);
const testFiles = test.skipIf(noOpenssl !== undefined);

let files: Certificates;
beforeAll(() => {
  if (!noOpenssl) files = makeCertificates();
});
afterAll(() => files?.[Symbol.dispose]());

/** The findings, each on a line: key, what was expected, what was there. Paths without their directory. */
function findings(certificate: string, key: string, clientCa = ""): string[] {
  const pathOf = (name: string) => name && files.path(name);
  const issues = tlsIssues({ certificate: pathOf(certificate), key: pathOf(key), clientCa: pathOf(clientCa) });
  return issues.map(({ path, expected, received }) =>
    `${path}: ${expected}: ${received}`.replaceAll(`${files.directory}/`, ""),
  );
}

const write = (name: string, text: string) => writeFileSync(files.path(name), text);

testFiles("good files, with and without an authority of clients, and none at all", () => {
  expect(findings("server.pem", "server.key")).toEqual([]);
  expect(findings("server.pem", "server.key", "ca.pem")).toEqual([]);
  write("chain.pem", files.text("server.pem") + files.text("ca.pem"));
  expect(findings("chain.pem", "server.key")).toEqual([]);
  expect(findings("", "")).toEqual([]);
});

testFiles("wrong files are named, all of them, with what is wrong", () => {
  const certificate = "endpoints.tls.certificate: a file with the server's certificate in PEM";
  const key = "endpoints.tls.key: a file with the certificate's unencrypted private key in PEM";
  const clientCa = "endpoints.tls.client_ca: a file with certificates of those who sign clients' in PEM";
  expect(findings("server.pem", "")).toEqual([`${key}: nothing`]);
  expect(findings("", "", "ca.pem")).toEqual([`${certificate}: nothing`, `${key}: nothing`]);
  expect(findings("server.key", "server.pem")).toEqual([
    `${certificate}: server.key: no certificate in it`,
    `${key}: server.pem: no private key in it`,
  ]);
  expect(findings("server.pem", "client.key")).toEqual([
    "endpoints.tls.key: the private key of server.pem: client.key, the key of another certificate",
  ]);
  write("damaged.pem", files.text("server.pem").replace(/^MII.{20}/m, "MII"));
  write("damaged.key", files.text("server.key").replace(/^M.{20}/m, "M"));
  write("encrypted.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIF\n-----END ENCRYPTED PRIVATE KEY-----\n");
  expect(findings("damaged.pem", "damaged.key", "damaged.pem")).toEqual([
    `${certificate}: damaged.pem: a damaged certificate`,
    `${key}: damaged.key: a damaged private key`,
    `${clientCa}: damaged.pem: a damaged certificate`,
  ]);
  expect(findings("server.pem", "encrypted.key")).toEqual([`${key}: encrypted.key: an encrypted key`]);
  const missing = findings("none.pem", "server.key");
  expect(missing).toHaveLength(1);
  expect(missing[0]).toContain("none.pem");
});
