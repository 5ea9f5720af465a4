/**
 * Layered layout of a graph from top to bottom, ordered to reduce edge crossings.
 *
 * @typedef {import("./read.js").Box} Box
 * @typedef {import("./read.js").Edge} Edge
 * @typedef {{id: string, x: number, y: number, width: number, height: number}} Placed
 * @typedef {{boxes: Map<string, Placed>, lines: {x: number, y: number}[][], width: number, height: number}} Layout lines has
 *   one line per edge, from its source to its target
 */

export const BOX = { width: 216, height: 62 };
const PILL = { width: 150, height: 34 };
const GAP = { x: 26, y: 58 };
const POINT = 18; // width of an edge in a layer that it crosses
const SWEEPS = 6;

/**
 * Assigns each box to a layer below its sources; edges that close a cycle are ignored.
 * @param {Box[]} boxes @param {Edge[]} edges @returns {Map<string, number>}
 */
function layers(boxes, edges) {
  /** @type {Map<string, string[]>} */
  const sources = new Map(boxes.map(({ id }) => [id, []]));
  for (const { from, to } of edges) if (sources.has(from)) sources.get(to)?.push(from);
  /** @type {Map<string, number>} */
  const depth = new Map();
  const open = new Set();
  for (const { id: first } of boxes) {
    const stack = [first];
    while (stack.length) {
      const id = stack[stack.length - 1];
      const next = depth.has(id)
        ? undefined
        : sources.get(id)?.find((source) => !depth.has(source) && !open.has(source) && source !== id);
      open.add(id);
      if (next !== undefined) {
        stack.push(next);
        continue;
      }
      stack.pop();
      open.delete(id);
      const above = (sources.get(id) ?? []).map((source) => depth.get(source) ?? -1);
      if (!depth.has(id)) depth.set(id, 1 + Math.max(-1, ...above));
    }
  }
  // Inputs and constants are directly above their first reader, outputs at the bottom.
  const last = Math.max(0, ...depth.values());
  for (const { id, kind } of boxes) {
    const readers = edges.filter((edge) => edge.from === id).map((edge) => depth.get(edge.to) ?? 0);
    if ((kind === "input" || kind === "constant") && readers.length) {
      depth.set(id, Math.max(0, Math.min(...readers) - 1));
    }
    if (kind === "output") depth.set(id, last);
  }
  return depth;
}

/** @param {number[]} numbers */
function mean(numbers) {
  return numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
}

/** @param {Box[]} boxes @param {Edge[]} edges @returns {Layout} */
export function layout(boxes, edges) {
  const depth = layers(boxes, edges);
  const size = (/** @type {string} */ id) => {
    const found = boxes.find((box) => box.id === id);
    if (!found) return { width: POINT, height: 0 };
    return found.kind === "operator" ? BOX : PILL;
  };
  /** @type {string[][]} */
  const rows = [];
  const put = (/** @type {string} */ id, /** @type {number} */ layer) => (rows[layer] ??= []).push(id);
  for (const { id } of boxes) put(id, depth.get(id) ?? 0);
  // An edge across several layers has a point in each of them.
  const chains = edges.map(({ from, to }, i) => {
    const [first, last] = [depth.get(from) ?? 0, depth.get(to) ?? 0];
    const points = [];
    for (let layer = first + 1; layer < last; layer++) {
      points.push(`point ${i} ${layer}`);
      put(points[points.length - 1], layer);
    }
    return [from, ...points, to];
  });
  const links = chains.flatMap((chain) => chain.slice(1).map((id, i) => [chain[i], id]));
  const x = order(rows, links, size);
  return place(rows, chains, x, size);
}

/**
 * Orders each layer by the positions of its neighbors, in alternating sweeps down and up.
 * @param {string[][]} rows @param {string[][]} links @param {(id: string) => {width: number}} size
 * @returns {Map<string, number>} centers
 */
function order(rows, links, size) {
  /** @type {Map<string, string[]>} */
  const above = new Map();
  /** @type {Map<string, string[]>} */
  const below = new Map();
  for (const [from, to] of links) {
    above.set(to, [...(above.get(to) ?? []), from]);
    below.set(from, [...(below.get(from) ?? []), to]);
  }
  /** @type {Map<string, number>} */
  const x = new Map();
  for (const row of rows) spread(row, row.map(() => 0), x, size);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const isDown = sweep % 2 === 0;
    for (const row of isDown ? rows : rows.toReversed()) {
      const wanted = new Map(row.map((id) => {
        const near = (isDown ? above : below).get(id) ?? [];
        return [id, near.length ? mean(near.map((each) => x.get(each) ?? 0)) : x.get(id) ?? 0];
      }));
      row.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0));
      spread(row, row.map((id) => wanted.get(id) ?? 0), x, size);
    }
  }
  return x;
}

/**
 * Places the boxes of a layer as close to their wanted positions as their widths allow.
 * @param {string[]} row @param {number[]} wanted @param {Map<string, number>} x @param {(id: string) => {width: number}} size
 */
function spread(row, wanted, x, size) {
  /** @type {{ids: string[], at: number, width: number}[]} adjacent boxes, with the position of the first */
  const groups = [];
  row.forEach((id, i) => {
    const { width } = size(id);
    let group = { ids: [id], at: wanted[i] - width / 2, width: width + GAP.x };
    for (let before = groups.at(-1); before && before.at + before.width > group.at; before = groups.at(-1)) {
      groups.pop();
      const [n, m] = [before.ids.length, group.ids.length];
      // Both groups move, weighted by their sizes.
      const at = (before.at * n + (group.at - before.width) * m) / (n + m);
      group = { ids: [...before.ids, ...group.ids], at, width: before.width + group.width };
    }
    groups.push(group);
  });
  for (const { ids, at } of groups) {
    let left = at;
    for (const id of ids) {
      const { width } = size(id);
      x.set(id, left + width / 2);
      left += width + GAP.x;
    }
  }
}

/**
 * @param {string[][]} rows @param {string[][]} chains @param {Map<string, number>} x
 * @param {(id: string) => {width: number, height: number}} size @returns {Layout}
 */
function place(rows, chains, x, size) {
  /** @type {Map<string, Placed>} */
  const boxes = new Map();
  const places = new Map(rows.flatMap((row, layer) => row.map((id) => [id, layer])));
  // An upward edge passes its boxes on the right.
  const around = chains.some((chain) => (places.get(chain[0]) ?? 0) >= (places.get(chain[chain.length - 1]) ?? 0))
    ? GAP.y
    : 0;
  let top = GAP.x / 2 + around;
  const least = Math.min(...[...x].map(([id, middle]) => middle - size(id).width / 2)) - GAP.x / 2;
  let right = 0;
  for (const row of rows) {
    const height = Math.max(...row.map((id) => size(id).height));
    for (const id of row) {
      const own = size(id);
      const left = (x.get(id) ?? 0) - least - own.width / 2;
      boxes.set(id, { id, x: left, y: top + (height - own.height) / 2, ...own });
      right = Math.max(right, left + own.width);
    }
    top += height + GAP.y;
  }
  const lines = chains.map((chain) =>
    chain.map((id, k) => {
      const box = /** @type {Placed} */ (boxes.get(id) ?? { id, x: 0, y: 0, width: 0, height: 0 });
      const isFirst = k === 0;
      const isLast = k === chain.length - 1;
      const ends = isFirst || isLast ? chains.filter((each) => each.at(isFirst ? 0 : -1) === id) : [];
      const beside = (/** @type {string[]} */ each) => boxes.get(isFirst ? each[1] : each.at(-2) ?? "")?.x ?? 0;
      const port = isLast
        ? (1 + ends.indexOf(chain)) / (1 + ends.length)
        : isFirst
        ? (1 + [...ends].sort((a, b) => beside(a) - beside(b)).indexOf(chain)) / (1 + ends.length)
        : 0.5;
      return { x: box.x + box.width * port, y: isFirst ? box.y + box.height : box.y };
    })
  );
  return { boxes, lines, width: right + 2 * around + GAP.x / 2, height: top - GAP.y + around + GAP.x / 2 };
}
