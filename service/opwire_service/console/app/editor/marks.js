/** Editor marks for violations and syntax errors. */

import { rangeOf } from "../json/pointers.js";

/**
 * @typedef {{code: string, pointer: string, message: string, allowed: any[] | null, available_from: string | null}} Violation
 * @typedef {{from: number, to: number, line: number, title: string, message: string, code: string, pointer: string, level: string, fix: string | null}} Mark
 */

/** @param {string} text @param {number} at */
function lineOf(text, at) {
  return text.slice(0, at).split("\n").length;
}

/** Returns a level without its prefix. @param {string | null} level */
export function shortLevel(level) {
  return (level ?? "").replace("DML_FEATURE_LEVEL_", "");
}

/**
 * @param {string} text @param {import("../json/scan.js").Node | null} node @param {Violation[]} violations
 * @param {string} begin prefix of pointers to strip: /operator, /model, /graph or empty
 * @returns {Mark[]} in text order
 */
export function marksOf(text, node, violations, begin) {
  return violations.map((violation) => {
    const pointer = violation.pointer.startsWith(begin) ? violation.pointer.slice(begin.length) : violation.pointer;
    const range = rangeOf(node, pointer);
    const only = violation.allowed?.length === 1 ? JSON.stringify(violation.allowed[0]) : null;
    return {
      ...range,
      line: lineOf(text, range.from),
      title: pointer || "the text",
      message: violation.message,
      code: violation.code,
      pointer,
      level: shortLevel(violation.available_from),
      fix: only,
    };
  }).sort((a, b) => a.from - b.from);
}

/** @param {string} text @param {import("../json/scan.js").Mistake[]} mistakes @returns {Mark[]} */
export function mistakeMarks(text, mistakes) {
  return mistakes.map(({ from, to, message }) => ({
    from,
    to,
    line: lineOf(text, from),
    title: "JSON",
    message,
    code: "invalid_json",
    pointer: "",
    level: "",
    fix: null,
  }));
}
