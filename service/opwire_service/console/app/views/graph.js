/** Drawing of a graph: nodes with levels and violations, the tensors between them, and their outputs. */

import { html, useMemo, useState } from "../../vendor/preact.js";
import { shortType } from "../contract.js";
import { tensorDesc, tensorOf } from "../descs.js";
import { shortLevel } from "../editor/marks.js";
import { BOX, layout } from "../graph/layout.js";
import { at } from "../place.js";

/** Larger graphs are only listed. */
const MOST_BOXES = 200;
const MOST_EDGES = 600;
const UPWARDS = 48;

/** Abbreviates a tensor desc. */
function shapeText(desc) {
  const tensor = tensorOf(desc);
  const isShown = tensor?.DataType && Array.isArray(tensor.Sizes);
  return isShown ? `${shortType(tensor.DataType)} [${tensor.Sizes.join(", ")}]` : "";
}

function clipped(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

/** Returns the validation result of each box by id: its level and its outputs. */
function factsOf({ boxes, form }, validation) {
  if (form === "model") {
    const found = boxes.map(({ id, name }) => [id, validation?.dispatchables?.[name]]);
    return new Map(/** @type {[string, any][]} */ (found.filter(([, each]) => each)));
  }
  const nodes = boxes.filter(({ kind }) => kind === "operator" || kind === "constant");
  const given = validation?.nodes ?? [];
  return new Map(given.length === nodes.length ? nodes.map(({ id }, i) => [id, given[i]]) : []);
}

/** Returns the descs of a box's outputs by name. */
function outputsOf(box, facts, contract) {
  const found = facts?.outputs ?? {};
  if (Object.keys(found).length) {
    return Object.fromEntries(
      Object.entries(found).flatMap(([name, desc]) =>
        Array.isArray(desc) ? desc.map((each, i) => [`${name}[${i}]`, each]) : [[name, desc]]
      ),
    );
  }
  const members = contract.operators.find(({ name }) => name === box.type)?.members ?? [];
  return Object.fromEntries(
    members.filter(({ role, name }) => role?.endsWith("output") && box.desc?.[name]).map(({ name }) => [
      name,
      box.desc[name],
    ]),
  );
}

/** Returns the marks of each place, those of the places in it included. */
function marksByPlace(marks, below) {
  const found = new Map();
  for (const mark of marks) {
    if (!mark.pointer.startsWith(`${below}/`)) continue;
    const pointer = mark.pointer.slice(below.length);
    for (let end = pointer.length; end > 0; end = pointer.lastIndexOf("/", end - 1)) {
      const place = pointer.slice(0, end);
      if (!found.has(place)) found.set(place, []);
      found.get(place).push(mark);
    }
  }
  return found;
}

/** Adds to the boxes and edges what is shown of them: levels, outputs, shapes and violations. */
function describe(drawing, { below, marks, validation, contract }) {
  const facts = factsOf(drawing, validation);
  const found = marksByPlace(marks, below);
  const boxes = new Map(drawing.boxes.map((box) => [box.id, {
    ...box,
    level: shortLevel(facts.get(box.id)?.minimum_feature_level),
    isKnown: facts.has(box.id),
    note: box.kind === "input" ? shapeText(box.desc) : box.note,
    outputs: box.kind === "operator" ? outputsOf(box, facts.get(box.id), contract) : {},
    marks: found.get(box.place) ?? [],
  }]));
  const edges = drawing.edges.map((edge) => {
    const { outputs = {} } = boxes.get(edge.from) ?? {};
    const own = edge.slot ? outputs[edge.slot] : Object.values(outputs)[0];
    const reader = boxes.get(edge.to);
    const read = reader?.kind === "operator" ? tensorDesc(reader.desc, edge.tensor) : undefined;
    return { ...edge, shape: shapeText(read ?? own), isBad: found.has(edge.place) };
  });
  return { boxes, edges };
}

function pathOf(points) {
  const [first, ...rest] = points;
  let text = `M${first.x},${first.y}`;
  let before = first;
  for (const point of rest) {
    if (point.y > before.y) {
      const bend = (point.y - before.y) / 2;
      text += `C${before.x},${before.y + bend} ${point.x},${point.y - bend} ${point.x},${point.y}`;
    } else { // upward, around both boxes
      const side = Math.max(before.x, point.x) + BOX.width * 0.8;
      text += `C${before.x},${before.y + UPWARDS} ${side},${before.y + UPWARDS} ${side},${(before.y + point.y) / 2}`;
      text += `S${point.x},${point.y - UPWARDS} ${point.x},${point.y}`;
    }
    before = point;
  }
  return text;
}

/** An edge and its shape. beside is the number of edges with the same target, k the index among them. */
function Edge({ edge, points, beside, k, isChosen }) {
  const [before, last] = points.slice(-2);
  // The label is beside the line, and offset from those of neighboring edges.
  const isLeft = k === 0 && (beside > 1 || before.x > last.x);
  const y = last.y - 13 - (k > 1 ? (k % 2) * 14 : 0);
  return html`
    <g class="edge ${edge.isBad ? "bad" : ""} ${isChosen ? "chosen" : ""}">
      <path d=${pathOf(points)} marker-end="url(#arrow)" />
      ${edge.shape &&
        html`<text class=${isLeft ? "left" : ""} x=${last.x + (isLeft ? -9 : 9)} y=${y}>${edge.shape}</text>`}
    </g>
  `;
}

function Picture({ drawing, shown, chosen, choose }) {
  const placed = useMemo(() => layout(drawing.boxes, drawing.edges), [drawing]);
  const beside = (edge) => shown.edges.filter(({ to }) => to === edge.to);
  return html`
    <div class="scroll drawing" tabindex="0" role="region" aria-label="Drawing of the graph">
      <svg role="img" aria-label=${sentenceOf(drawing, shown)} width=${placed.width} height=${placed.height}
        viewBox=${`0 0 ${placed.width} ${placed.height}`}>
        <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9"
          markerUnits="userSpaceOnUse" orient="auto"><path d="M0,0 L8,4 L0,8 z" /></marker></defs>
        ${shown.edges.map((edge, i) =>
          html`
            <${Edge} edge=${edge} points=${placed.lines[i]} beside=${beside(edge).length} k=${beside(edge).indexOf(
              edge,
            )}
              isChosen=${edge.from === chosen || edge.to === chosen} />
          `
        )}
        ${[...shown.boxes.values()].map((box) =>
          html`<${Box} box=${box} place=${placed.boxes.get(box.id)} isChosen=${box.id === chosen} choose=${choose} />`
        )}
      </svg>
    </div>
  `;
}

function Box({ box, place, isChosen, choose }) {
  const { width, height } = place;
  const isNode = box.kind === "operator";
  const bad = box.marks.length;
  const level = box.isKnown ? (box.level ? `from ${box.level}` : "no level") : "";
  const middle = isNode ? 20 : height / 2 + 4;
  return html`
    <g class="box is-${box.kind} ${bad ? "bad" : ""} ${isChosen ? "chosen" : ""}"
      transform=${`translate(${place.x},${place.y})`} onClick=${() => choose(box.id)}>
      <title>${box.name} ${isNode ? box.type : box.note}</title>
      <rect width=${width} height=${height} rx=${isNode ? 6 : height / 2} />
      <text class="name" x=${width / 2} y=${middle}>${clipped(box.name, isNode ? 26 : 18)}</text>
      ${isNode && html`<text class="type" x=${width / 2} y="37">${clipped(box.type || "no type", 30)}</text>`}
      ${isNode &&
        html`<text class="level" x=${width / 2} y="53">${[level, box.note].filter(Boolean).join(", ")}${
          bad ? html`<tspan class="count"> ✗ ${bad}</tspan>` : ""
        }</text>`}
    </g>
  `;
}

function sentenceOf({ boxes, edges }, shown) {
  const count = (kind) => boxes.filter((box) => box.kind === kind).length;
  const bad = [...shown.boxes.values()].filter(({ marks }) => marks.length).length;
  return `Graph of ${count("operator")} nodes, ${count("constant")} constants, ${count("input")} inputs, ${
    count("output")
  } outputs and ${edges.length} edges; ${bad ? `${bad} nodes have violations` : "no violations"}`;
}

/** The boxes as a table, with their inputs and outputs. */
function List({ shown, choose, chosen }) {
  const from = (id) => shown.edges.filter((edge) => edge.to === id);
  const nameOf = (id) => shown.boxes.get(id)?.name ?? "";
  const kinds = { input: "input of the graph", output: "output of the graph", constant: "constant" };
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Nodes of the graph">
      <table class="wide">
        <thead>
          <tr>
            <th scope="col">node</th>
            <th scope="col">type</th>
            <th scope="col">level</th>
            <th scope="col">inputs</th>
            <th
              scope="col">outputs</th>
            <th scope="col">violations</th>
          </tr>
        </thead>
        <tbody>${[...shown.boxes.values()].map((box) =>
          html`
            <tr key=${box.id} class=${box.id === chosen ? "chosen" : ""}>
              <th scope="row"><button class="small" aria-pressed=${box.id === chosen} onClick=${() =>
                choose(box.id)}>${box.name}</button></th>
              <td>${box.type || kinds[box.kind] || ""}${box.note ? `, ${box.note}` : ""}</td>
              <td>${box.kind === "operator" && box.isKnown ? box.level || "none" : ""}</td>
              <td>${from(box.id).map((edge) =>
                html`<div>${edge.tensor && `${edge.tensor} ← `}${nameOf(edge.from)}${
                  edge.slot && `.${edge.slot}`
                } <span class="quiet">${edge.shape}</span></div>`
              )}</td>
              <td>${Object.entries(box.outputs).map(([name, desc]) =>
                html`<div>${name} <span class="quiet">${shapeText(desc)}</span></div>`
              )}</td>
              <td class=${box.marks.length ? "bad" : ""}>${box.marks.length || ""}</td>
            </tr>
          `
        )}</tbody>
      </table>
    </div>
  `;
}

/** The selected box: its violations, outputs and location in the text. */
function Chosen({ box, watched, watch, go, canRun }) {
  const outputs = Object.entries(box.outputs);
  return html`
    <aside class="node" aria-label=${`Node ${box.name}`}>
      <h3>${box.name} ${box.type &&
        html`<a class="small" href=${at(`operators/${box.type}`).href}>${box.type}</a>`}</h3>
      <ul class="bad">${box.marks.map((mark) =>
        html`<li>${
          go && html`<button class="go" onClick=${() => go(mark)}>L${mark.line}</button>`
        } ${mark.message}</li>`
      )}</ul>
      ${outputs.length > 0 && html`<ul class="gives">${
        outputs.map(([name, desc]) => {
          const title = `${box.name}.${name}`;
          if (!watch) return html`<li>${name} <span class="quiet">${shapeText(desc)}</span></li>`;
          return html`<li><label class="inline"><input type="checkbox" checked=${watched.includes(title)}
      disabled=${!canRun && !watched.includes(title)} onChange=${() => watch(title)} /> show ${name}</label>
      <span class="quiet">${shapeText(desc)}</span></li>`;
        })
      }</ul>`}
      ${go && box.place && html`<p><button class="small" onClick=${() => go(null)}>Go to text</button></p>`}
    </aside>
  `;
}

/** @param {any} props go takes a mark, goTo a pointer into the text; without a text to go to or outputs to watch, none is given */
export function GraphView({ bench, contract, go = null, goTo = null, canRun = false, watch = null }) {
  const { drawing, subject, validation, marks, doc } = bench;
  const [chosen, setChosen] = useState("");
  const [unfolded, setUnfolded] = useState(false);
  const shown = useMemo(
    () => describe(drawing, { below: subject.below, marks, validation, contract }),
    [drawing, subject.below, marks, validation, contract],
  );
  const isDrawn = drawing.boxes.length <= MOST_BOXES && drawing.edges.length <= MOST_EDGES;
  const box = shown.boxes.get(chosen);
  const choose = (id) => setChosen(id === chosen ? "" : id);
  if (!drawing.boxes.length) return null;
  const list = html`<${List} shown=${shown} choose=${choose} chosen=${chosen} />`;
  return html`
    <section class="graph" aria-labelledby="graph-title">
      <h2 id="graph-title">Graph</h2>
      <div class="drawn ${box ? "open" : ""}">
        ${isDrawn
          ? html`<${Picture} drawing=${drawing} shown=${shown} chosen=${chosen} choose=${choose} />`
          : html`<div><p class="quiet">Too many boxes to draw: ${drawing.boxes.length}.</p>${go && list}</div>`}
        ${box &&
          html`<${Chosen} box=${box} watched=${doc.watched} watch=${watch} canRun=${canRun} go=${
            go && ((mark) => mark ? go(mark) : goTo(subject.below + box.place))
          } />`}
      </div>
      ${(isDrawn || !go) && html`
        <details onToggle=${(event) => setUnfolded(event.target.open)}><summary>As a list</summary>${unfolded &&
          list}</details>
      `}
    </section>
  `;
}
