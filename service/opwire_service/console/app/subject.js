/** What a text of the page Try is about: one operator, or a model of DxDispatch; and which tensors it takes. */

import { find } from "./json/pointers.js";
import { scan, valueOf } from "./json/scan.js";

/**
 * @typedef {{node: import("./json/scan.js").Node | null, plain: string, mistakes: import("./json/scan.js").Mistake[], kind: "operator" | "model", value: any}} Subject
 */

/** @param {string} text @returns {Subject} */
export function readSubject(text) {
  const { node, plain, mistakes } = scan(text);
  const isModel = !!find(node, "/dispatchables");
  return {
    node,
    plain,
    mistakes,
    kind: isModel ? "model" : "operator",
    value: mistakes.length ? undefined : valueOf(node),
  };
}

/** The members of a desc, wherever DxDispatch lets them stand. @param {any} value */
export function descOf(value) {
  return value?.desc ?? value?.Desc ?? value ?? {};
}

/** A tensor desc, also one that is nested. @param {any} given */
export function tensorOf(given) {
  const desc = given?.Desc ?? given;
  return desc && typeof desc === "object"
    ? { ...desc, DataType: String(desc.DataType ?? "").replace("DML_TENSOR_DATA_TYPE_", ""), Sizes: desc.Sizes ?? [] }
    : desc;
}

/**
 * The inputs that a desc has, in the order of its struct; those of an array as NAME[0], NAME[1], ...
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

/** The operators of a model, or the operator itself. @param {Subject} subject @returns {string[]} */
export function dispatchablesOf(subject) {
  return subject.kind === "model" ? Object.keys(subject.value?.dispatchables ?? {}) : [];
}
