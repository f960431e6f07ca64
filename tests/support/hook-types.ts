// Generates xlaserver.d.ts, the types of "xlaserver" and "xlaserver/text" for those who write a model.ts.
//
// src/api.ts and src/text/index.ts are the only source: what they export, as the TypeScript compiler declares it, without
// private members. `bun tests/support/hook-types.ts` writes it; src/hooks/bundle-tests.test.ts checks that it was run.

import { join } from "node:path";
import ts from "typescript";

const ROOT = join(import.meta.dir, "..", "..");
export const HOOK_TYPES_FILE = join(ROOT, "src", "hooks", "xlaserver.d.ts.txt");

const MODULES = [
  { name: "xlaserver", file: join(ROOT, "src", "api.ts") },
  { name: "xlaserver/text", file: join(ROOT, "src", "text", "index.ts") },
];

export function hookTypes(): string {
  const { config } = ts.readConfigFile(join(ROOT, "tsconfig.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [] }, ts.sys, ROOT);
  const program = ts.createProgram(
    MODULES.map(({ file }) => file),
    { ...options, noEmit: false, declaration: true, emitDeclarationOnly: true, types: ["bun"] },
  );
  const modules = MODULES.map(({ name, file }) => {
    const checker = program.getTypeChecker();
    const symbol = checker.getSymbolAtLocation(program.getSourceFile(file)!)!;
    const exported = checker.getExportsOfModule(symbol).map((each) => declarationOf(program, each));
    const body = exported.join("\n").replace(/^(?=.)/gm, "  ");
    return `declare module "${name}" {\n${body}\n}\n`;
  });
  return `// Types of xlaserver's hooks, for model.ts. Generated from the server's sources; not to be edited.\n\n${modules.join("\n")}`;
}

/** The declaration of an exported symbol with its comment, as the compiler emits it. */
function declarationOf(program: ts.Program, exported: ts.Symbol): string {
  const checker = program.getTypeChecker();
  const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
  const source = symbol.declarations![0]!.getSourceFile();
  if (symbol.flags & ts.SymbolFlags.TypeAlias && source.fileName.includes("/tensor/")) {
    // An alias that hangs on our own tables is written out.
    const type = checker.getDeclaredTypeOfSymbol(symbol);
    const text = checker.typeToString(
      type,
      undefined,
      ts.TypeFormatFlags.NoTruncation | ts.TypeFormatFlags.InTypeAlias,
    );
    return `/** An element type. */\nexport type ${symbol.name} = ${text};`;
  }
  let emitted = "";
  program.emit(source, (_, text) => {
    emitted = text;
  });
  const tree = ts.createSourceFile("emitted.d.ts", emitted, ts.ScriptTarget.Latest, true);
  const statement = tree.statements.find(
    (each) => "name" in each && (each.name as ts.Node | undefined)?.getText(tree) === symbol.name,
  );
  if (!statement) throw new Error(`no declaration of '${symbol.name}' in ${source.fileName}`);
  return withoutPrivates(statement, tree).replace(/^export declare /m, "export ");
}

/** The text of a declaration, less its private members; a private constructor stays, since it forbids `new`. */
function withoutPrivates(statement: ts.Statement, tree: ts.SourceFile): string {
  const start = statement.getStart(tree, true);
  if (!ts.isClassDeclaration(statement)) return tree.text.slice(start, statement.getEnd());
  let kept = "";
  let from = start;
  for (const member of statement.members) {
    if (!(ts.getCombinedModifierFlags(member) & ts.ModifierFlags.Private) || ts.isConstructorDeclaration(member))
      continue;
    kept += tree.text.slice(from, member.getFullStart());
    from = member.getEnd();
  }
  return kept + tree.text.slice(from, statement.getEnd());
}

if (import.meta.main) await Bun.write(HOOK_TYPES_FILE, hookTypes());
