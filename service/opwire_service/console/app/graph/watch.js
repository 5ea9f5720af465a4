/** Intermediate tensors of a graph on demand: adds outputs to the same graph. */

import { child, find } from "../json/pointers.js";
import { scan } from "../json/scan.js";

/**
 * @typedef {import("../json/scan.js").Node} Node
 * @typedef {import("./read.js").Drawing} Drawing
 */

/** Applies replacements to a text. @param {string} text @param {{from: number, to: number, by: string}[]} changes */
function spliced(text, changes) {
  let found = text;
  for (const { from, to, by } of changes.sort((a, b) => b.from - a.from)) {
    found = found.slice(0, from) + by + found.slice(to);
  }
  return found;
}

/** Returns a replacement that appends members or items to an object or list. @param {Node} node @param {string[]} added */
function append(node, added) {
  const isEmpty = !(node.members ?? node.items)?.length;
  const at = node.to - 1;
  return { from: at, to: at, by: (isEmpty ? "" : ", ") + added.join(", ") };
}

/**
 * @param {string} plain the graph or the model as JSON
 * @param {Drawing} drawing @param {string[]} watched outputs of boxes, as BOX.TENSOR
 * @param {(box: import("./read.js").Box) => string[]} outputsOf the names of a box's outputs, by index
 * @returns {{text: string, names: Map<string, string>}} names maps added outputs to their titles
 */
export function watching(plain, drawing, watched, outputsOf) {
  const { node: root } = scan(plain);
  /** @type {Map<string, string>} */
  const names = new Map();
  const boxes = watched.flatMap((title) => {
    const found = drawing.boxes.filter((box) =>
      box.kind === "operator" && title.startsWith(`${box.name}.`) &&
      outputsOf(box).includes(title.slice(box.name.length + 1))
    );
    return found.slice(0, 1).map((box) => ({ box, slot: title.slice(box.name.length + 1), title }));
  });
  if (!boxes.length || !root) return { text: plain, names };
  if (drawing.form === "named") {
    const outputs = child(root, "outputs")?.value;
    if (!outputs) return { text: plain, names };
    const added = boxes.filter(({ title }) => !child(outputs, title)).map(({ title }) => {
      names.set(title, title);
      return `${JSON.stringify(title)}: ${JSON.stringify(title)}`;
    });
    return { text: added.length ? spliced(plain, [append(outputs, added)]) : plain, names };
  }
  if (drawing.form === "numbered") {
    const edges = child(root, "OutputEdges")?.value;
    if (!edges) return { text: plain, names };
    const first = drawing.boxes.filter(({ kind }) => kind === "output").length;
    const added = boxes.map(({ box, slot, title }, i) => {
      names.set(`Output${first + i}`, title);
      return JSON.stringify({
        FromNodeIndex: Number(box.id.slice(1)),
        FromNodeOutputIndex: Math.max(0, outputsOf(box).indexOf(slot)),
        GraphOutputIndex: first + i,
      });
    });
    const counts = ["OutputCount", "OutputEdgeCount"].flatMap((name) => child(root, name)?.value ?? [])
      .map(({ from, to, text }) => ({ from, to, by: String(Number(text) + added.length) }));
    return { text: spliced(plain, [append(edges, added), ...counts]), names };
  }
  const prints = boxes.flatMap(({ box, slot }) => {
    const command = find(root, `/commands/${box.id.slice(1)}`);
    const resource = box.resources?.[slot];
    if (!command || resource === undefined) return [];
    return [{ from: command.to, to: command.to, by: `, ${JSON.stringify({ type: "print", resource })}` }];
  });
  return { text: spliced(plain, prints), names };
}
