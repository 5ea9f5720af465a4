/** Tensors given as numbers, in nested lists or one flat list. */

import { scan } from "../json/scan.js";
import { number } from "./generate.js";
import { addressOf, byteCount, elementCount, elements } from "./types.js";

/** @typedef {import("./types.js").TensorDesc} TensorDesc */
/** @typedef {import("../json/scan.js").Node} Node */

export const MOST_NUMBERS = 10_000;

/**
 * Returns the leaves of nested lists in order.
 * @param {Node} node @param {Node[]} found
 */
function leaves(node, found = []) {
  if (node.kind === "array") { for (const item of node.items ?? []) leaves(item, found); }
  else found.push(node);
  return found;
}

/** Returns the shape of nested lists; undefined if they are ragged. @param {Node} node @returns {number[] | undefined} */
function shapeOf(node) {
  if (node.kind !== "array") return [];
  const shapes = (node.items ?? []).map(shapeOf);
  const first = shapes[0] ?? [];
  if (shapes.some((shape) => !shape || shape.join() !== first.join())) return undefined;
  return [shapes.length, ...first];
}

/**
 * Returns the buffer of a tensor, with zeros in gaps.
 * @param {string} text
 * @param {TensorDesc} desc
 * @returns {Uint8Array<ArrayBuffer>}
 * @throws {Error} if the text does not match the desc; the message says what was given and what is expected
 */
export function readNumbers(text, desc) {
  const { node, mistakes } = scan(text);
  if (mistakes.length) throw new Error(mistakes[0].message);
  const list = /** @type {Node} */ (node);
  const values = leaves(list);
  const count = elementCount(desc);
  if (values.length > MOST_NUMBERS) {
    throw new Error(`${values.length} numbers given; use a file for more than ${MOST_NUMBERS}`);
  }
  if (values.length !== count) {
    throw new Error(`${values.length} numbers given; Sizes ${JSON.stringify(desc.Sizes)} need ${count}`);
  }
  const shape = shapeOf(list);
  if (shape?.join() !== String(count) && shape?.join() !== desc.Sizes.join() && count > 1) {
    throw new Error(
      `${shape ? `lists of shape ${JSON.stringify(shape)}` : "ragged lists"} given; Sizes are ${
        JSON.stringify(desc.Sizes)
      }`,
    );
  }
  const bytes = new Uint8Array(byteCount(desc));
  const to = elements(desc.DataType, bytes);
  const address = addressOf(desc);
  values.forEach((value, k) => to.set(address(k), element(value, to.type)));
  return bytes;
}

/** @param {Node} node @param {import("./types.js").DataType} type @returns {number | bigint} */
function element(node, type) {
  const text = node.text ?? "";
  if (type.float) {
    const value = number(text);
    if (
      (node.kind !== "number" && !/^-?(nan|inf|infinity)$/i.test(text)) || (Number.isNaN(value) && !/nan/i.test(text))
    ) {
      throw new Error(`${JSON.stringify(text)} given; expected a number`);
    }
    return value;
  }
  if (!/^-?\d+$/.test(text)) throw new Error(`${text || node.kind} given; ${type.name} requires integers`);
  const value = BigInt(text);
  const least = type.signed ? -(1n << BigInt(type.bits - 1)) : 0n;
  if (value < least || value >= least + (1n << BigInt(type.bits))) {
    throw new Error(`${text} is out of range for ${type.name}`);
  }
  return type.bits === 64 ? value : Number(value);
}
