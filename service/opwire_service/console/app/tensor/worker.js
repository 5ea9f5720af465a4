/** Worker thread that holds the tensors and runs slow operations on them; the page sends it messages. */

import { compare } from "./compare.js";
import { paint, pictureNumbers } from "./draw.js";
import { generate } from "./generate.js";
import { npyHead, readNpy } from "./npy.js";
import { readNumbers } from "./numbers.js";
import { bitsOf, print } from "./print.js";
import { histogram, sample, statistics, window2d } from "./statistics.js";
import { addressOf, byteCount, elementCount, elements } from "./types.js";

/** @typedef {import("./types.js").TensorDesc} TensorDesc */

/** @type {Map<string, {desc: TensorDesc, bytes: Uint8Array<ArrayBuffer>}>} */
const held = new Map();

/** @param {string} id */
function tensor(id) {
  const found = held.get(id);
  if (!found) throw new Error(`no such tensor: ${id}`);
  return found;
}

/** Returns the elements of a tensor row-major, without gaps. @param {{desc: TensorDesc, bytes: Uint8Array<ArrayBuffer>}} tensor */
function packed({ desc, bytes }) {
  if (!desc.Strides) return bytes;
  const from = elements(desc.DataType, bytes);
  const found = new Uint8Array(Math.ceil((elementCount(desc) * from.type.bits) / 8));
  const to = elements(desc.DataType, found);
  const address = addressOf(desc);
  for (let k = 0; k < elementCount(desc); k++) to.set(k, from.get(address(k)));
  return found;
}

/** @type {Record<string, (given: any) => any>} */
const TASKS = {
  /** Stores the tensors in the binary tail of a response. */
  async keep({ blob, tensors }) {
    for (const { id, desc, from, to } of tensors) {
      held.set(id, { desc, bytes: new Uint8Array(await blob.slice(from, to).arrayBuffer()) });
    }
  },
  forget({ ids }) {
    for (const id of ids) held.delete(id);
  },
  numbers({ id, text, desc }) {
    held.set(id, { desc, bytes: readNumbers(text, desc) });
    return new Blob([tensor(id).bytes]);
  },
  generate({ id, recipe, desc }) {
    held.set(id, { desc, bytes: generate(recipe, desc) });
    return new Blob([tensor(id).bytes]);
  },
  async picture({ id, file, desc, recipe }) {
    const values = await pictureNumbers(file, desc, recipe);
    const bytes = new Uint8Array(byteCount(desc));
    const to = elements(desc.DataType, bytes);
    const address = addressOf(desc);
    for (let k = 0; k < values.length; k++) to.set(address(k), to.type.float ? values[k] : Math.round(values[k]));
    held.set(id, { desc, bytes });
    return new Blob([bytes]);
  },
  /** Returns the values of a small tensor as a JSON list for a DxDispatch model. */
  list({ id }) {
    const { desc, bytes } = tensor(id);
    const { get, count } = elements(desc.DataType, bytes);
    const words = new Map([["NaN", '"nan"'], ["Infinity", '"inf"'], ["-Infinity", '"-inf"']]);
    const shown = Array.from({ length: count }, (_, i) => print(desc.DataType, get(i)));
    return `[${shown.map((text) => words.get(text) ?? text).join(", ")}]`;
  },
  async file({ id, file, desc }) {
    const buffer = await file.arrayBuffer();
    if (!file.name.endsWith(".npy")) {
      held.set(id, { desc, bytes: new Uint8Array(buffer) });
      return { size: buffer.byteLength };
    }
    const { dataType, shape, bytes } = readNpy(buffer);
    held.set(id, { desc: { DataType: dataType, Sizes: shape.length ? shape : [1] }, bytes });
    return { dataType, shape, blob: new Blob([bytes]), size: bytes.length };
  },
  statistics({ id }) {
    return statistics(tensor(id).desc, tensor(id).bytes);
  },
  histogram({ id, min, max }) {
    return histogram(tensor(id).desc, tensor(id).bytes, min, max);
  },
  /** Draws a slice as a heat map, or one or three slices as an image. */
  paint({ id, slices, by, ends, isPicture }) {
    const { desc, bytes } = tensor(id);
    const channels = slices.map((/** @type {any} */ slice) => sample(desc, bytes, slice, by));
    const { rows, columns, height, width } = channels[0];
    const pixels = channels.map((/** @type {any} */ channel) => channel.pixels);
    return { ...paint(pixels, { ends, isPicture }), rows, columns, height, width };
  },
  window({ id, slice, part }) {
    const { desc, bytes } = tensor(id);
    const { rows, array, height, width } = window2d(desc, bytes, slice, part);
    const show = (
      /** @type {{value: number | bigint, at: number}} */ { value, at },
    ) => [print(desc.DataType, value), bitsOf(desc.DataType, array, at), at];
    return { rows: rows.map((cells) => cells.map(show)), height, width };
  },
  compare({ id, other }) {
    const a = tensor(id);
    const b = tensor(other);
    const { difference, ulps, worst, ...found } = compare(a.desc, a.bytes, b.desc, b.bytes);
    const desc = { DataType: "FLOAT64", Sizes: a.desc.Sizes };
    held.set(`${id} difference`, { desc, bytes: new Uint8Array(difference.buffer) });
    held.set(`${id} ulp`, { desc, bytes: new Uint8Array(ulps.buffer) });
    const show = (/** @type {number | bigint} */ value) => print(a.desc.DataType, value);
    return {
      ...found,
      worst: worst.map((each) => ({ ...each, value: show(each.value), other: show(each.other) })),
      difference: `${id} difference`,
      ulps: `${id} ulp`,
    };
  },
  npy({ id }) {
    const { desc } = tensor(id);
    return new Blob([npyHead(desc.DataType, desc.Sizes), packed(tensor(id))]);
  },
  raw({ id }) {
    return new Blob([tensor(id).bytes]);
  },
  base64({ id }) {
    return btoa(String.fromCharCode(...tensor(id).bytes));
  },
};

self.addEventListener("message", async ({ data: { number, task, given } }) => {
  try {
    self.postMessage({ number, result: await TASKS[task](given) });
  } catch (error) {
    self.postMessage({ number, error: error instanceof Error ? error.message : String(error) });
  }
});
