// The files of `endpoints.tls`, judged before anything listens: what is wrong with which.
//
// A server that starts with a key of another certificate would refuse every client, and say so to none. Used by load.ts.

import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { type Issue, messageOf } from "../base/errors.ts";
import { readBytesSync } from "../base/files.ts";
import type { Config } from "./config.ts";

type TlsFiles = Config["endpoints"]["tls"];

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Every finding about the files that the settings name; none when they name none. */
export function tlsIssues({ certificate, key, clientCa }: TlsFiles): Issue[] {
  if (certificate === "" && key === "" && clientCa === "") return [];
  const issues: Issue[] = [];
  const report = (name: string, expected: string, received: string) => {
    issues.push({ path: `endpoints.tls.${name}`, expected, received });
    return undefined;
  };
  const read = <T>(name: string, file: string, what: string, parse: (pem: string) => T): T | undefined => {
    const expected = `a file with ${what} in PEM`;
    if (file === "") return report(name, expected, "nothing");
    let pem: string;
    try {
      pem = Buffer.from(readBytesSync(file)).toString();
    } catch (thrown) {
      return report(name, expected, messageOf(thrown));
    }
    try {
      return parse(pem);
    } catch (thrown) {
      return report(name, expected, `${file}: ${messageOf(thrown)}`);
    }
  };
  const chain = read("certificate", certificate, "the server's certificate", parseCertificates);
  const privateKey = read("key", key, "the certificate's unencrypted private key", parseKey);
  if (clientCa !== "") read("client_ca", clientCa, "certificates of those who sign clients'", parseCertificates);
  if (chain && privateKey && !chain[0]!.checkPrivateKey(privateKey)) {
    report("key", `the private key of ${certificate}`, `${key}, the key of another certificate`);
  }
  return issues;
}

function parseCertificates(pem: string): X509Certificate[] {
  const blocks = pem.match(CERTIFICATE);
  if (!blocks) throw new Error("no certificate in it");
  return blocks.map((block) => {
    try {
      return new X509Certificate(block);
    } catch {
      throw new Error("a damaged certificate");
    }
  });
}

function parseKey(pem: string): KeyObject {
  if (/ENCRYPTED/.test(pem)) throw new Error("an encrypted key");
  if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(pem)) throw new Error("no private key in it");
  try {
    return createPrivateKey(pem);
  } catch {
    throw new Error("a damaged private key");
  }
}
