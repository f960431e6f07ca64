// gRPC metadata: the fields of a request by name, and those of a reply's trailers.
//
// Invariant: names are lower case; a name that ends in "-bin" carries bytes, in base64 on the wire. Nothing is parsed
// before it is asked for. Made by `rpc.ts`, read by services.

/** Metadata of a request. A view of its header list: looking up is linear, building costs nothing. */
export class Metadata {
  /** @param fields name, value, name, value, as they came */
  constructor(private readonly fields: readonly string[]) {}

  /** The first value of a text field, or undefined. */
  get(name: string): string | undefined {
    for (let at = 0; at < this.fields.length; at += 2) {
      if (this.fields[at] === name) return this.fields[at + 1];
    }
    return undefined;
  }

  /** Every value of a text field, in order. */
  all(name: string): string[] {
    return this.fields.filter((_, at) => at % 2 === 1 && this.fields[at - 1] === name);
  }

  /** Every value of a "-bin" field, decoded. Several may share one field line, parted by commas; padding may lack. */
  bytes(name: string): Uint8Array[] {
    return this.all(name).flatMap((line) =>
      line.split(",").map((value) => new Uint8Array(Buffer.from(value, "base64"))),
    );
  }
}

/** The wire's form of a value of metadata: base64 without padding for bytes, which need a "-bin" name. */
export function metadataValue(name: string, value: string | Uint8Array): string {
  if (typeof value === "string") return value;
  if (!name.endsWith("-bin")) throw new TypeError(`metadata ${name}: bytes need a name that ends in "-bin"`);
  return Buffer.from(value).toString("base64").replace(/=+$/, "");
}
