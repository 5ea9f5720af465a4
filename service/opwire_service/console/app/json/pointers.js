/** Maps JSON pointers to ranges of a text. */

/** @typedef {import("./scan.js").Node} Node */

/** @param {string} pointer */
export function parts(pointer) {
  return pointer === ""
    ? []
    : pointer.slice(1).split("/").map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/**
 * Returns the member of an object or the item of an array; undefined if there is none.
 * @param {Node | null | undefined} node @param {string} name
 * @returns {{value: Node, keyFrom: number, keyTo: number} | undefined}
 */
export function child(node, name) {
  if (node?.kind === "object") return node.members?.find((member) => member.key === name);
  const item = node?.kind === "array" && /^\d+$/.test(name) ? node.items?.[Number(name)] : undefined;
  return item && { value: item, keyFrom: item.from, keyTo: item.to };
}

/** @param {Node | null | undefined} node @param {string} pointer @returns {Node | undefined} */
export function find(node, pointer) {
  return parts(pointer).reduce((found, name) => child(found, name)?.value, node ?? undefined);
}

/**
 * Returns the range to mark for a violation: the value itself; for a missing value, the name of its parent; for the whole
 * text, its first character.
 * @param {Node | null} node @param {string} pointer
 * @returns {{from: number, to: number}}
 */
export function rangeOf(node, pointer) {
  if (!node) return { from: 0, to: 0 };
  let found = node;
  let range = { from: node.from, to: Math.min(node.from + 1, node.to) };
  for (const name of parts(pointer)) {
    const next = child(found, name);
    if (!next) return range;
    found = next.value;
    const isLarge = found.kind === "object" ||
      (found.kind === "array" && found.items?.some((item) => item.kind === "object"));
    range = isLarge
      ? { from: next.keyFrom, to: Math.min(next.keyTo, next.keyFrom === found.from ? found.from + 1 : next.keyTo) }
      : found;
  }
  return { from: range.from, to: range.to };
}

/**
 * Returns the pointer of the innermost value at an offset.
 * @param {Node | null | undefined} node @param {number} offset
 */
export function pointerAt(node, offset) {
  let pointer = "";
  let found = node;
  for (;;) {
    /** @type {[string, Node] | undefined} */
    let next;
    if (found?.kind === "object") {
      const member = found.members?.find((each) => each.keyFrom <= offset && offset <= each.value.to);
      next = member && [member.key, member.value];
    } else if (found?.kind === "array") {
      const index = found.items?.findIndex((item) => item.from <= offset && offset <= item.to) ?? -1;
      next = index < 0 ? undefined : [String(index), /** @type {Node[]} */ (found.items)[index]];
    }
    if (!next) return pointer;
    pointer += `/${next[0].replaceAll("~", "~0").replaceAll("/", "~1")}`;
    found = next[1];
  }
}
