// What a set of proto files declares: services, and which file each name is from; for those who ask at run time.
//
// The descriptors are those that the generated code carries, without comments and source positions. A file stands for
// itself and all that it imports. None declares an extension (a test says so). Used by reflection.ts.

import {
  type DescEnum,
  type DescExtension,
  type DescFile,
  type DescMessage,
  type DescService,
  toBinary,
} from "@bufbuild/protobuf";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import { FileDescriptorProtoSchema } from "@bufbuild/protobuf/wkt";

export class Descriptors {
  /** Full names, sorted. */
  readonly services: readonly string[];
  private readonly byFileName = new Map<string, DescFile>();
  private readonly bySymbol = new Map<string, DescFile>();
  private readonly messages = new Set<string>();
  private readonly serialized = new Map<DescFile, readonly Uint8Array[]>();

  /** Of `files` and all that they import; only the services of `files` themselves are listed. */
  constructor(files: readonly DescFile[]) {
    for (const file of files.flatMap(withImports)) {
      this.byFileName.set(file.proto.name, file);
      for (const type of nestedTypes(file)) {
        if (type.kind === "message") this.messages.add(type.typeName);
        for (const symbol of symbolsOf(type)) this.bySymbol.set(symbol, file);
      }
    }
    this.services = files.flatMap((file) => file.services.map(({ typeName }) => typeName)).sort();
  }

  fileNamed(name: string): DescFile | undefined {
    return this.byFileName.get(name);
  }

  /** The file that declares a message, field, oneof, enum, enum value, service or method, by its full name. */
  fileDeclaring(symbol: string): DescFile | undefined {
    return this.bySymbol.get(symbol);
  }

  hasMessage(typeName: string): boolean {
    return this.messages.has(typeName);
  }

  /** FileDescriptorProto messages in bytes: of `file`, then of all that it imports. */
  serialize(file: DescFile): readonly Uint8Array[] {
    let protos = this.serialized.get(file);
    if (protos === undefined) {
      protos = withImports(file).map(({ proto }) => toBinary(FileDescriptorProtoSchema, proto));
      this.serialized.set(file, protos);
    }
    return protos;
  }
}

/** A file and all that it imports, directly or not, each once. */
function withImports(file: DescFile): DescFile[] {
  const found = new Set([file]);
  // A Set's walk comes to what is added on the way.
  for (const each of found) for (const imported of each.dependencies) found.add(imported);
  return [...found];
}

/** The full names of a type and of what is declared in it, but for other types. */
function symbolsOf(type: DescMessage | DescEnum | DescExtension | DescService): string[] {
  const within = (scope: string, members: readonly { readonly name: string }[]) =>
    members.map(({ name }) => (scope === "" ? name : `${scope}.${name}`));
  switch (type.kind) {
    case "message":
      return [type.typeName, ...within(type.typeName, [...type.fields, ...type.oneofs])];
    case "service":
      return [type.typeName, ...within(type.typeName, type.methods)];
    case "enum":
      // As in C++, an enum's values are its siblings.
      return [type.typeName, ...within(type.parent?.typeName ?? type.file.proto.package, type.values)];
    case "extension":
      return [type.typeName];
  }
}
