/** Shows a comparison, as `opwire diff --json` prints it: its graph colored by ULP, its nodes, and what they share. */

const KINDS = {
  "exact": "exact",
  "faithful": "faithful",
  "within what floating point explains": "explained",
  "reduced precision": "reduced",
  "not compared": "unknown",
  "wrong": "wrong",
};
const ORDER = Object.keys(KINDS).reverse();
const SHOWN = 40;
const SVG = "http://www.w3.org/2000/svg";

/** Makes an element; children are elements or texts, and those that are false or null are left out. */
function make(tag, attributes = {}, ...children) {
  const found = document.createElement(tag);
  return filled(found, attributes, children);
}

function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") element.style.cssText = value; // which the policy of the console allows
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...children.flat(2).filter((each) => each !== null && each !== false && each !== undefined));
  return element;
}

function ulpOf(value) {
  return value === null || value === "nan" ? NaN : value === "inf" ? Infinity : Number(value);
}

function largest(node) {
  const known = node.tensors.map((each) => ulpOf(each.largest_ulp)).filter((each) => !Number.isNaN(each));
  return known.length ? Math.max(...known) : NaN;
}

function ulpText(value) {
  if (Number.isNaN(value)) return "";
  if (value === Infinity) return "∞ ULP";
  return `${value < 1e6 ? Math.round(value).toLocaleString("en") : value.toExponential(1)} ULP`;
}

function shareText(tensor) {
  const share = Number(tensor.correctly_rounded);
  if (Number.isNaN(share)) return "";
  const rounded = (100 * share).toFixed(1);
  return `${share < 1 && rounded === "100.0" ? "99.9" : rounded} %`;
}

/** From 0 for the nearest neighbor to 1 for what shares no digit. */
function heat(ulp) {
  return ulp === Infinity ? 1 : Math.min(1, Math.log2(1 + ulp) / 24);
}

/** The color of an error; exact results are green, and unknown ones have none. */
function colorOf(ulp) {
  if (Number.isNaN(ulp)) return "var(--raised)";
  if (ulp === 0) return "var(--good-tint)";
  const degree = heat(ulp);
  const hue = `color-mix(in srgb, var(--bad) ${Math.round(100 * degree)}%, var(--warn))`;
  return `color-mix(in srgb, ${hue} ${Math.round(14 + 30 * degree)}%, var(--back))`;
}

function severity(node) {
  const ulp = largest(node);
  return [ORDER.indexOf(node.verdict), Number.isNaN(ulp) ? 1 : -ulp];
}

function bySeverity(nodes) {
  return [...nodes].sort((one, other) => {
    const [a, b] = severity(one), [c, d] = severity(other);
    return a - c || b - d || 0;
  });
}

function badge(verdict) {
  return make("span", { class: `verdict ${KINDS[verdict]}` }, verdict);
}

function summary(report) {
  const counts = ORDER.map((verdict) => [verdict, report.verdicts[verdict] ?? 0]).filter(([, count]) => count);
  const share = (count) => `flex-grow: ${count}`;
  const mode = report.mode === "cumulative"
    ? "whole runs, in which errors grow from node to node"
    : "each node computed from the other side's own tensors, so that only its own error counts";
  return make(
    "header",
    {},
    make("h1", {}, report.subject),
    make("p", {}, "against ", make("strong", {}, report.side), make("span", { class: "quiet" }, `: ${mode}`)),
    make(
      "div",
      { class: "shares", "aria-hidden": "true" },
      counts.map(([verdict, count]) => make("span", { class: KINDS[verdict], style: share(count) })),
    ),
    make(
      "ul",
      { class: "counts" },
      counts.map(([verdict, count]) => make("li", {}, make("strong", {}, String(count)), " ", badge(verdict))),
    ),
    report.failure && make("p", { class: "failure" }, `The side failed: ${report.failure}`),
    report.unused?.length > 0 &&
      make("p", { class: "quiet" }, `The side also has ${report.unused.join(", ")}, which the model does not have.`),
  );
}

/** Places nodes in layers, each below those that it reads from and near them. */
function placed(nodes) {
  const producers = new Map(nodes.flatMap((node, i) => node.tensors.map((each) => [each.name, i])));
  const before = nodes.map((
    node,
    i,
  ) => [...new Set(node.inputs.map((name) => producers.get(name)).filter((each) => each !== undefined && each < i))]);
  const layers = [];
  const depth = [], column = [];
  nodes.forEach((_, i) => {
    depth[i] = before[i].length ? 1 + Math.max(...before[i].map((each) => depth[each])) : 0;
    (layers[depth[i]] ??= []).push(i);
  });
  for (const layer of layers) {
    const wish = new Map(layer.map((i) => [i, before[i].reduce((sum, each) => sum + column[each], 0)]));
    layer.sort((a, b) => wish.get(a) / (before[a].length || 1) - wish.get(b) / (before[b].length || 1));
    layer.forEach((i, k) => column[i] = k - (layer.length - 1) / 2);
  }
  const widest = Math.max(...layers.map((layer) => layer.length));
  return { before, depth, column, widest, height: layers.length };
}

const BOX = { width: 148, height: 44, right: 164, down: 72 };

function graph(report, choose) {
  const { before, depth, column, widest, height } = placed(report.nodes);
  const x = (i) => (column[i] + (widest - 1) / 2) * BOX.right + 8;
  const y = (i) => depth[i] * BOX.down + 8;
  const wires = report.nodes.flatMap((_, i) =>
    before[i].map((from) => {
      const [x1, y1, x2, y2] = [x(from) + BOX.width / 2, y(from) + BOX.height, x(i) + BOX.width / 2, y(i)];
      // A wire past other nodes bends out of their column.
      const isLong = depth[i] - depth[from] > 1, [aside, bend] = isLong ? [BOX.width * 1.05, 24] : [0, (y2 - y1) / 2];
      const curve = `${x1 + aside} ${y1 + bend} ${x2 + aside} ${y2 - bend} ${x2} ${y2}`;
      return draw("path", { d: `M${x1} ${y1}C${curve}`, class: "wire" });
    })
  );
  const boxes = report.nodes.map((node, i) => {
    const ulp = largest(node);
    const label = `${node.name}, ${node.operator}: ${node.verdict}${Number.isNaN(ulp) ? "" : `, ${ulpText(ulp)}`}`;
    const press = (event) => {
      if (event.type === "click" || event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        choose(i);
      }
    };
    return draw(
      "g",
      {
        class: `box ${KINDS[node.verdict]}`,
        tabindex: "0",
        role: "button",
        "aria-label": label,
        onclick: press,
        onkeydown: press,
        transform: `translate(${x(i)} ${y(i)})`,
      },
      draw("title", {}, label),
      draw("rect", { width: BOX.width, height: BOX.height, rx: 6, style: `fill: ${colorOf(ulp)}` }),
      draw("text", { x: 10, y: 18 }, short(node.operator, 17)),
      draw("text", { x: 10, y: 35, class: "ulp" }, ulpText(ulp) || node.verdict),
    );
  });
  const size = { width: widest * BOX.right + 40, height: height * BOX.down - 12 };
  return section(
    "The graph",
    "graph",
    make(
      "p",
      { class: "scale" },
      "0",
      make(
        "span",
        { class: "colors", "aria-hidden": "true" },
        [0, 1, 16, 256, 4096, 65536, 2 ** 20, Infinity].map((each) =>
          make("i", { style: `background: ${colorOf(each)}` })
        ),
      ),
      "∞ ULP",
    ),
    make(
      "div",
      { class: "canvas", tabindex: "0", role: "region", "aria-label": "The graph" },
      draw("svg", { ...size, viewBox: `0 0 ${size.width} ${size.height}`, role: "group" }, wires, boxes),
    ),
  );
}

function short(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function section(title, name, ...children) {
  return make("section", { class: name }, make("h2", {}, title), children);
}

/** The bars of a histogram by distance; its last count is that of infinite ones. */
function bars(counts, label) {
  const last = counts.reduce((found, count, i) => count && i < counts.length - 1 ? i : found, 0);
  const infinite = counts[counts.length - 1];
  const shown = withoutGaps(counts.slice(0, Math.max(last, 3) + 1).map((count, i) => [distance(i), count]));
  if (infinite) shown.push(["∞", infinite]);
  const most = Math.log1p(Math.max(...shown.map(([, count]) => count ?? 0)));
  return make(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    make(
      "table",
      { class: "bars" },
      make("caption", { class: "offscreen" }, label),
      make(
        "tbody",
        {},
        shown.map(([name, count]) =>
          make(
            "tr",
            {},
            make("th", { scope: "row" }, name),
            make(
              "td",
              {},
              make("span", { class: "bar", style: `width: ${most ? 100 * Math.log1p(count ?? 0) / most : 0}%` }),
            ),
            make("td", { class: "count" }, count === null ? "" : count.toLocaleString("en")),
          )
        ),
      ),
    ),
  );
}

/** The label of a bar: 0, up to 1, 2, 4, ... 2**30 ULP, and beyond. */
function distance(i) {
  if (i === 0) return "0";
  if (i > 31) return "> 2^30";
  return i - 1 < 14 ? `≤ ${2 ** (i - 1)}` : `≤ 2^${i - 1}`;
}

/** Replaces several empty bars in a row by one without a count. */
function withoutGaps(rows) {
  const isEmpty = (i) => rows[i] !== undefined && rows[i][1] === 0;
  const isInside = (i) => isEmpty(i - 1) && isEmpty(i) && isEmpty(i + 1);
  return rows.flatMap((row, i) => isInside(i) ? (isInside(i - 1) ? [] : [["…", null]]) : [row]);
}

function worstOf(tensor) {
  const { worst } = tensor;
  if (!worst) return null;
  const inputs = Object.entries(worst.inputs ?? {});
  const rows = [
    ["element", `${tensor.name}[${worst.index.join(", ")}]`],
    ["it is", String(worst.actual)],
    ["exactly", String(worst.exact)],
    ["apart", ulpText(ulpOf(worst.ulp))],
    ...("bound" in worst ? [["explained up to", Number(worst.bound).toPrecision(3)]] : []),
    ...inputs.map(([name, value]) => [`from ${name}`, String(value)]),
  ];
  return make("dl", { class: "worst" }, rows.map(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}

function tensorView(tensor) {
  const type = tensor.dtype ? `${tensor.dtype}[${tensor.sizes.join(", ")}]` : "";
  const known = tensor.histogram.some((count) => count);
  return make(
    "div",
    { class: "tensor" },
    make("h3", {}, tensor.name, make("span", { class: "quiet" }, ` ${type}`)),
    make("p", {}, badge(tensor.verdict), tensor.detail && ` ${tensor.detail}`),
    known && make("p", {}, `${shareText(tensor)} rounded correctly, ${tensor.different.toLocaleString("en")} differ`),
    make(
      "div",
      { class: "beside" },
      worstOf(tensor),
      known && bars(tensor.histogram, `Elements of ${tensor.name} by distance in ULP`),
    ),
  );
}

function nodeView(node) {
  const ulp = largest(node);
  const of = node.directml.length ? `${node.operator} (${node.directml.join(", ")})` : node.operator;
  return make(
    "details",
    { class: KINDS[node.verdict] },
    make(
      "summary",
      {},
      badge(node.verdict),
      make("strong", {}, node.name),
      make("span", { class: "quiet" }, of),
      make("span", { class: "ulp" }, ulpText(ulp)),
    ),
    node.detail && make("p", { class: "detail" }, node.detail),
    node.members.length > 0 && make("p", {}, `Compared together with ${node.members.join(", ")}.`),
    node.inputs.length > 0 && make("p", { class: "quiet" }, `It reads ${node.inputs.join(", ")}.`),
    node.tensors.map(tensorView),
  );
}

/** The nodes, the worst first; returns the section and what opens a node by its place in the model. */
function list(report) {
  const ordered = bySeverity(report.nodes);
  const views = new Map(ordered.map((node) => [node, nodeView(node)]));
  ordered.forEach((node, i) => {
    if (i < 3 && node.verdict === "wrong") views.get(node).open = true;
    views.get(node).hidden = i >= SHOWN;
  });
  const rest = ordered.length - SHOWN;
  const more = rest > 0 && make("button", {
    type: "button",
    onclick: (event) => {
      views.forEach((view) => view.hidden = false);
      event.currentTarget.remove();
    },
  }, `Show ${rest} more`);
  const choose = (i) => {
    const view = views.get(report.nodes[i]);
    view.hidden = false;
    view.open = true;
    view.scrollIntoView({ block: "center" });
    view.querySelector("summary").focus();
  };
  return { choose, element: section("Nodes, the worst first", "nodes", [...views.values()], more) };
}

/** Operators by data type; a cell has the worst of its tensors. */
function matrix(report) {
  const cells = new Map(), types = new Set();
  for (const node of report.nodes) {
    for (const tensor of node.tensors.filter((each) => each.dtype)) {
      types.add(tensor.dtype);
      const row = cells.get(node.operator) ?? new Map();
      row.set(tensor.dtype, [...row.get(tensor.dtype) ?? [], tensor]);
      cells.set(node.operator, row);
    }
  }
  const columns = [...types].sort();
  const cell = (tensors) => {
    if (!tensors) return make("td");
    const [worst] = [...tensors].sort((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict));
    const alike = tensors.filter((each) => each.verdict === worst.verdict).length;
    const ulp = Math.max(...tensors.map((each) => ulpOf(each.largest_ulp)).filter((each) => !Number.isNaN(each)));
    const known = Number.isFinite(ulp) || ulp === Infinity ? ulp : NaN;
    return make(
      "td",
      { class: KINDS[worst.verdict], style: `background: ${colorOf(known)}` },
      make("strong", {}, ulpText(known)),
      make("span", {}, `${alike} of ${tensors.length} ${worst.verdict}`),
    );
  };
  return section(
    "Operators by data type",
    "matrix",
    make("p", { class: "quiet" }, "The largest error of the tensors, and how many have the worst verdict."),
    make(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Operators by data type" },
      make(
        "table",
        {},
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            make("th", { scope: "col" }, "operator"),
            columns.map((each) => make("th", { scope: "col" }, each)),
          ),
        ),
        make(
          "tbody",
          {},
          [...cells].sort().map(([operator, row]) =>
            make(
              "tr",
              {},
              make("th", { scope: "row" }, operator),
              columns.map((each) => cell(row.get(each))),
            )
          ),
        ),
      ),
    ),
  );
}

function everything(report) {
  const counts = [];
  for (const node of report.nodes) {
    for (const tensor of node.tensors) tensor.histogram.forEach((count, i) => counts[i] = (counts[i] ?? 0) + count);
  }
  return counts.some((count) => count) &&
    section(
      "All elements by distance in ULP",
      "all",
      make("p", { class: "quiet" }, "The lengths of the bars are logarithmic."),
      bars(counts, "All elements by distance in ULP"),
    );
}

/** Scrolls the graph to its worst node. */
function showWorst(report, target) {
  const [worst] = bySeverity(report.nodes);
  const canvas = target.querySelector(".canvas"), box = target.querySelectorAll(".box")[report.nodes.indexOf(worst)];
  if (!canvas || !box) return;
  const [inner, outer] = [box.getBoundingClientRect(), canvas.getBoundingClientRect()];
  canvas.scrollTop += inner.top - outer.top - outer.height / 2;
  canvas.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
}

/** Shows a report in an element, whose content it replaces. */
export function showReport(report, target) {
  const { element, choose } = list(report);
  target.replaceChildren(
    summary(report),
    make("div", { class: "panes" }, report.nodes.length > 0 && graph(report, choose), element),
    make("div", { class: "panes" }, report.nodes.length > 0 && matrix(report), everything(report) || ""),
  );
  showWorst(report, target);
}
