/** The subject of a text on the Try page, an operator, a graph or a DxDispatch model, and its input tensors. */

import { descOf, tensorDesc, tensorOf } from "./descs.js";
import { find } from "./json/pointers.js";
import { scan, valueOf } from "./json/scan.js";
import { writeNumbers } from "./json/write.js";
import { byteCount, descMistake } from "./tensor/types.js";

/**
 * @typedef {import("./json/scan.js").Node} Node
 * @typedef {{node: Node | null, root: Node | null, below: string, plain: string, mistakes: import("./json/scan.js").Mistake[],
 *   kind: "operator" | "graph" | "model", value: any}} Subject root is the node of the subject and below its pointer, since
 *   a graph may be part of a whole request; plain is the root as JSON
 */

/** @param {string} text @returns {Subject} */
export function readSubject(text) {
  const { node, plain, mistakes } = scan(text);
  const whole = { node, root: node, below: "", plain, mistakes, value: mistakes.length ? undefined : valueOf(node) };
  if (mistakes.length) return { ...whole, kind: guess(text) };
  if (find(node, "/dispatchables")) return { ...whole, kind: "model" };
  if (isGraph(node)) return { ...whole, kind: "graph" };
  const graph = find(node, "/graph");
  if (!graph || !isGraph(graph)) return { ...whole, kind: "operator" };
  const own = scan(text.slice(graph.from, graph.to));
  return { ...whole, kind: "graph", root: graph, below: "/graph", plain: own.plain };
}

/** Guesses the kind of a text that is not valid JSON yet. @param {string} text @returns {Subject["kind"]} */
function guess(text) {
  if (/"dispatchables"\s*:/.test(text)) return "model";
  return /"[nN]odes"\s*:/.test(text) ? "graph" : "operator";
}

/** @param {Node | null | undefined} node */
function isGraph(node) {
  return !!(find(node, "/nodes") ?? find(node, "/Nodes"));
}

/**
 * Returns the inputs of a desc, in the order of its struct; those of an array are NAME[0], NAME[1], ...
 * @param {import("./contract.js").Operator | undefined} operator @param {any} value
 * @returns {{name: string, desc: any}[]}
 */
export function inputsOf(operator, value) {
  const desc = descOf(value);
  const members = (operator?.members ?? []).filter((member) => member.role?.includes("input"));
  return members.flatMap(({ name, kind }) => {
    const given = desc[name];
    if (given === undefined || given === null) return [];
    if (kind !== "tensors") return [{ name, desc: tensorOf(given) }];
    return Array.isArray(given) ? given.map((each, i) => ({ name: `${name}[${i}]`, desc: tensorOf(each) })) : [];
  });
}

/**
 * Returns the inputs of a graph. The largest desc wins if several nodes read an input that is not declared.
 * @param {import("./graph/read.js").Drawing} drawing @param {any} given the tensors of a whole request, by name
 * @returns {{name: string, desc: any, recipe?: any}[]} recipes have the values from the request
 */
export function graphInputs({ boxes, edges }, given) {
  return boxes.filter(({ kind }) => kind === "input").map(({ id, name, desc: own, place }) => {
    const descs = edges.filter(({ from }) => from === id).flatMap(({ to, tensor }) => {
      const reader = boxes.find((box) => box.id === to);
      const desc = reader && tensorOf(tensorDesc(reader.desc, tensor));
      return desc ? [desc] : [];
    });
    const size = (/** @type {any} */ desc) => (descMistake(desc) ? -1 : byteCount(desc));
    const desc = place
      ? tensorOf(own)
      : descs.reduce((most, each) => (size(each) > size(most) ? each : most), descs[0]);
    const data = given?.[name]?.data;
    const recipe = data === undefined ? undefined : { kind: "numbers", text: writeNumbers(data) };
    return { name, desc, recipe };
  });
}
