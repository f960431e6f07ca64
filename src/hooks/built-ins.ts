// Whether an import changed what every program relies on: methods of built-ins replaced, or enumerable properties added
// to the prototype of all objects.
//
// Threads are shared, so what one bundle changes its neighbours meet. It is not prevented (freezing built-ins breaks
// honest libraries, a thread for each bundle costs memory) but told. Used by hook.thread.ts around an import;
// a change made later goes unseen. Added methods (polyfills) are harmless and not told.

const WATCHED = Object.entries({
  "Object.prototype": Object.prototype,
  "Array.prototype": Array.prototype,
  "Function.prototype": Function.prototype,
  "String.prototype": String.prototype,
  "Number.prototype": Number.prototype,
  "BigInt.prototype": BigInt.prototype,
  "Map.prototype": Map.prototype,
  "Set.prototype": Set.prototype,
  "Promise.prototype": Promise.prototype,
  "RegExp.prototype": RegExp.prototype,
  "TypedArray.prototype": Object.getPrototypeOf(Uint8Array.prototype),
  "ArrayBuffer.prototype": ArrayBuffer.prototype,
  Object,
  Array,
  Promise,
  JSON,
  Math,
  Reflect,
}).map(([name, owner]: [string, object]) => ({ name, owner }));
const { create, getOwnPropertyDescriptor, is } = Object;
const { ownKeys } = Reflect;

interface Noted {
  readonly name: string;
  readonly owner: object;
  readonly key: PropertyKey;
  readonly was: PropertyDescriptor;
}

/** The built-ins as they are now: property by property, and what a `for in` finds in every array and object. */
export interface BuiltIns {
  readonly properties: readonly Noted[];
  readonly inherited: Readonly<Record<string, true>>;
}

export function noteBuiltIns(): BuiltIns {
  const properties: Noted[] = [];
  for (let at = 0; at < WATCHED.length; at++) {
    const { name, owner } = WATCHED[at]!;
    const keys = ownKeys(owner);
    for (let index = 0; index < keys.length; index++) {
      const key = keys[index]!;
      properties[properties.length] = { name, owner, key, was: getOwnPropertyDescriptor(owner, key)! };
    }
  }
  const inherited: Record<string, true> = create(null);
  for (const key in []) inherited[key] = true;
  return { properties, inherited };
}

/** Names of what differs, e.g. `Array.prototype.map`. Written with bare loops: it runs on what may have been changed. */
export function changedSince({ properties, inherited }: BuiltIns): string[] {
  const changed: string[] = [];
  for (let index = 0; index < properties.length; index++) {
    const { name, owner, key, was } = properties[index]!;
    const now = getOwnPropertyDescriptor(owner, key);
    if (now && is(now.value, was.value) && now.get === was.get && now.set === was.set) continue;
    changed[changed.length] = `${name}.${String(key)}`;
  }
  for (const key in []) {
    if (inherited[key]) continue;
    const name = getOwnPropertyDescriptor(Array.prototype, key) ? "Array.prototype" : "Object.prototype";
    changed[changed.length] = `${name}.${key}`;
  }
  return changed;
}
