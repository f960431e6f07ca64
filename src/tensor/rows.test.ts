// Rows moved along every batch axis, against a model that indexes elements one by one.
import { expect, test } from "bun:test";
import { copyRows, rowLayout, zeroRows } from "./rows.ts";

/** Elements of a u16 tensor [...before, rows, ...after] that say where they are: 1000 x row + position in the row. */
function tensor(before: number, rows: number, after: number, first = 0): Uint16Array {
  const values = new Uint16Array(before * rows * after);
  for (let block = 0; block < before; block++)
    for (let row = 0; row < rows; row++)
      for (let inner = 0; inner < after; inner++)
        values[(block * rows + row) * after + inner] = 1000 * (first + row) + block * after + inner + 1;
  return values;
}

const bytesOf = (values: Uint16Array) => new Uint8Array(values.buffer);

test("a row layout is what lies before and behind the batch axis", () => {
  expect(rowLayout("f32", [8, 3, 5], 0)).toEqual({ outer: 1, rowBytes: 60 });
  expect(rowLayout("f32", [3, 8, 5], 1)).toEqual({ outer: 3, rowBytes: 20 });
  expect(rowLayout("u8", [3, 5, 8], 2)).toEqual({ outer: 15, rowBytes: 1 });
  expect(rowLayout("i64", [8], 0)).toEqual({ outer: 1, rowBytes: 8 });
});

for (const [before, after] of [
  [1, 4],
  [3, 4],
  [6, 1],
] as const) {
  test(`rows between tensors of [${before}, n, ${after}]`, () => {
    const layout = { outer: before, rowBytes: 2 * after };
    const source = tensor(before, 5, after);
    const target = new Uint16Array(before * 8 * after);
    copyRows(layout, bytesOf(source), 5, 1, 3, bytesOf(target), 8, 4);
    const expected = new Uint16Array(target.length);
    for (let block = 0; block < before; block++)
      for (let row = 0; row < 3; row++)
        for (let inner = 0; inner < after; inner++)
          expected[(block * 8 + 4 + row) * after + inner] = 1000 * (1 + row) + block * after + inner + 1;
    expect(target).toEqual(expected);
  });

  test(`zeroing the tail of [${before}, n, ${after}] leaves the head`, () => {
    const layout = { outer: before, rowBytes: 2 * after };
    const values = tensor(before, 6, after);
    zeroRows(layout, bytesOf(values), 6, 4);
    const head = tensor(before, 6, after).map((value) => (value >= 4000 ? 0 : value));
    expect(values).toEqual(head);
    zeroRows(layout, bytesOf(values), 6, 6);
    expect(values).toEqual(head);
  });
}
