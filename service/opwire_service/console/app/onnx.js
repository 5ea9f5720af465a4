/**
 * What the server says of an ONNX model: its nodes with their DirectML operators and levels, as in `opwire level --json`.
 *
 * @typedef {{name: string, type: string, minimum_feature_level: string}} Use
 * @typedef {{is_taken: boolean, reason: string | null, why: string | null, directml: {type: string}[],
 *   minimum_feature_level: string | null}} Placement where ONNX Runtime's DirectML provider runs a node
 * @typedef {{name: string, operator: string, domain: string, since: number | null, directml: Use[],
 *   minimum_feature_level: string | null, why: string | null, provider: Placement}} ModelNode
 * @typedef {{minimum_feature_level: string, directml: string, nodes: ModelNode[], on_cpu: string[],
 *   provider: {onnxruntime: string, minimum_feature_level: string}}} Report
 * @typedef {{node: ModelNode, level: string, isOnCpu: boolean, fails: boolean, why: string, provider: string,
 *   failsAsEmitted: boolean}} Row level is empty for a node on the CPU; provider says where ONNX Runtime differs
 */

import { shortLevel } from "./editor/marks.js";

const ASKS = "give the sizes of its dimensions: ";

/** Returns the names of the dimensions that the server wants the sizes of. @param {string} detail @returns {string[]} */
export function openDimensions(detail) {
  const at = detail.indexOf(ASKS);
  if (at < 0) return [];
  return [...detail.slice(at + ASKS.length).matchAll(/(.+?)=SIZE(?:, |$)/g)].map(([, name]) => name);
}

/** Returns whether a file is a model by its name. @param {File | undefined} file */
export function isModel(file) {
  return !!file && file.name.toLowerCase().endsWith(".onnx");
}

/**
 * Compares the nodes of a model with a level.
 * @param {Report} report @param {string} level @param {string[]} levels all, from the lowest
 * @returns {Row[]}
 */
export function rowsOf(report, level, levels) {
  const isAbove = (/** @type {string} */ needed) => levels.indexOf(needed) > levels.indexOf(level);
  return report.nodes.map((node) => {
    const own = shortLevel(node.minimum_feature_level);
    const emitted = shortLevel(node.provider.minimum_feature_level);
    const fails = !!own && isAbove(own);
    return {
      node,
      level: own,
      isOnCpu: !own,
      fails,
      why: node.why ?? "",
      provider: differs(node, own, emitted, levels),
      failsAsEmitted: !fails && !!emitted && isAbove(emitted),
    };
  });
}

/**
 * Says where ONNX Runtime differs: it leaves a node to the CPU, or needs a higher level.
 * @param {ModelNode} node @param {string} own @param {string} emitted @param {string[]} levels
 */
function differs({ directml, provider }, own, emitted, levels) {
  if (!emitted) return directml.length ? `CPU: ${provider.reason ?? ""}` : "";
  if (!own) return `${emitted}: ${provider.directml.map(({ type }) => type).join(" + ")}`;
  return levels.indexOf(emitted) > levels.indexOf(own) ? `${emitted}: ${provider.why ?? ""}` : "";
}

/**
 * Returns why nodes of the lowered graph fail, each with a pointer into the graph.
 * @param {Row[]} rows @param {string} level @param {string[]} levels
 */
export function graphMarks(rows, level, levels) {
  return rows.filter(({ fails }) => fails).flatMap(({ node, why }) =>
    node.directml.map((use) => ({ ...use, level: shortLevel(use.minimum_feature_level) })).filter((use) =>
      levels.indexOf(use.level) > levels.indexOf(level)
    ).map((use) => ({
      pointer: `/nodes/${use.name.replaceAll("~", "~0").replaceAll("/", "~1")}`,
      message: use.minimum_feature_level === node.minimum_feature_level && why ? why : `valid from ${use.level} on`,
    }))
  );
}
