// The header list of a request: gathered from HPACK, checked by RFC 9113, sections 8.2 and 8.3.
//
// Invariant: a RequestHead without `malformed` has exactly one :method, :scheme and :path, and only legal fields. It is
// immutable, so that equal header blocks can share one. Made by `http2-connection.ts`; read by whoever serves.

import { ENTRY_OVERHEAD_BYTES } from "./hpack-tables.ts";

export interface RequestHead {
  readonly method: string;
  readonly path: string;
  /** The regular fields in order: name, value, name, value. Names are lower case. */
  readonly fields: readonly string[];
  /** content-length, or -1. */
  readonly contentBytes: number;
  /** What breaks HTTP/2, for the log; the stream is to be reset with PROTOCOL_ERROR. */
  readonly malformed: string | undefined;
  /** The list is above the bound: `fields` is cut short. */
  readonly tooLarge: boolean;
  /** A place for whoever serves to keep what it derived from this head; heads are shared by equal requests. */
  derived: unknown;
}

const CONNECTION_SPECIFIC = new Set(["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"]);

/** Lower-case tokens as RFC 9113, 8.2.1 allows them: no control, space, upper case, colon or non-ASCII. */
const NAME = /^[\x21-\x39\x3b-\x40\x5b-\x7e]+$/;
const VALUE_FORBIDDEN = /[\0\r\n]|^[ \t]|[ \t]$/;

/** Gathers the fields of one header block. */
export class HeadBuilder {
  private method: string | undefined;
  private scheme: string | undefined;
  private path: string | undefined;
  private authority: string | undefined;
  private fields: string[] = [];
  private listBytes = 0;
  private contentBytes = -1;
  private malformed: string | undefined;

  constructor(private readonly listBytesMax: number) {}

  readonly field = (name: string, value: string): void => {
    this.listBytes += name.length + value.length + ENTRY_OVERHEAD_BYTES;
    if (this.listBytes > this.listBytesMax) return;
    if (name.charCodeAt(0) === 0x3a) this.pseudo(name, value);
    else this.regular(name, value);
  };

  finish(): RequestHead {
    const tooLarge = this.listBytes > this.listBytesMax;
    if (!tooLarge && (this.method === undefined || this.scheme === undefined || !this.path)) {
      this.fault("a pseudo-header is missing");
    }
    return {
      method: this.method ?? "",
      path: this.path ?? "",
      fields: this.fields,
      contentBytes: this.contentBytes,
      malformed: this.malformed,
      tooLarge,
      derived: undefined,
    };
  }

  /** As `finish`, for trailers, which must not contain pseudo-headers: what is wrong with them. */
  finishTrailers(): string | undefined {
    const pseudo = this.method ?? this.scheme ?? this.path ?? this.authority;
    return this.malformed ?? (pseudo === undefined ? undefined : "pseudo-header in trailers");
  }

  private pseudo(name: string, value: string): void {
    if (this.fields.length > 0) this.fault(`${name} after a regular field`);
    let before: string | undefined;
    if (name === ":method") [before, this.method] = [this.method, value];
    else if (name === ":scheme") [before, this.scheme] = [this.scheme, value];
    else if (name === ":path") [before, this.path] = [this.path, value];
    else if (name === ":authority") [before, this.authority] = [this.authority, value];
    else this.fault(`unknown pseudo-header ${name}`);
    if (before !== undefined) this.fault(`${name} given twice`);
  }

  private regular(name: string, value: string): void {
    if (!NAME.test(name)) this.fault(`illegal field name ${JSON.stringify(name)}`);
    else if (VALUE_FORBIDDEN.test(value)) this.fault(`illegal value of ${name}`);
    else if (CONNECTION_SPECIFIC.has(name)) this.fault(`connection-specific field ${name}`);
    else if (name === "te" && value !== "trailers") this.fault("te is not trailers");
    else if (name === "content-length") this.contentLength(value);
    this.fields.push(name, value);
  }

  private contentLength(value: string): void {
    if (!/^\d{1,15}$/.test(value)) this.fault("content-length is not a length");
    else if (this.contentBytes >= 0 && this.contentBytes !== Number(value)) this.fault("two content-lengths");
    else this.contentBytes = Number(value);
  }

  private fault(what: string): void {
    this.malformed ??= what;
  }
}
