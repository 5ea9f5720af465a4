/** An ONNX model on the Try page: the level of each node and why, where ONNX Runtime differs, and the lowered graph. */

import { Fragment, html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { validateModel } from "../api.js";
import { shortLevel } from "../editor/marks.js";
import { readGraph } from "../graph/read.js";
import { scan } from "../json/scan.js";
import { graphMarks, isModel, openDimensions, rowsOf } from "../onnx.js";
import { at } from "../place.js";
import { GraphView } from "./graph.js";
import { counted, LevelStrip } from "./levels.js";
import { refuseLarger } from "./running.js";
import { breakable, ProblemNote, Status } from "./shell.js";

const MOST_NAMED = 6;

/** A button that opens a model. */
export function OpenModel({ open, label = "Open ONNX" }) {
  const input = useRef(null);
  const choose = () => {
    const [file] = input.current.files;
    if (file) open(file);
    input.current.value = ""; // so that the same file can be chosen again
  };
  return html`
    <button class="small" onClick=${() => input.current.click()}>${label}</button><input ref=${input}
      type="file" accept=".onnx" hidden aria-label="ONNX model" onChange=${choose} />
  `;
}

/** Opens models that are dropped anywhere on the page. @param {(file: File) => void} open */
export function useDroppedModel(open) {
  useEffect(() => {
    const over = (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault();
    const drop = (event) => {
      if (event.defaultPrevented || !event.dataTransfer?.files.length) return;
      event.preventDefault(); // the browser would leave the page
      const model = [...event.dataTransfer.files].find(isModel);
      if (model) open(model);
    };
    document.addEventListener("dragover", over);
    document.addEventListener("drop", drop);
    return () => {
      document.removeEventListener("dragover", over);
      document.removeEventListener("drop", drop);
    };
  }, [open]);
}

/** Asks the server about a model: again for each set of sizes, which it names if it needs them. */
function useAnswer(file, limits) {
  const [sizes, setSizes] = useState({});
  const [state, setState] = useState({ busy: true, answer: null, problem: null, asked: "" });
  const [names, setNames] = useState([]);
  useEffect(() => {
    const abort = new AbortController();
    const ask = async () => {
      setState((now) => ({ ...now, busy: true, problem: null }));
      try {
        refuseLarger(file.size, limits, "the model exceeds");
        const answer = await validateModel(file, sizes, abort.signal);
        setState({ busy: false, answer, problem: null, asked: "" });
      } catch (problem) {
        if (abort.signal.aborted) return;
        const open = problem.code === "invalid_model" ? openDimensions(problem.detail) : [];
        if (open.length) setNames((now) => [...new Set([...now, ...open])]);
        setState({
          busy: false,
          answer: null,
          problem: open.length ? null : problem,
          asked: open.length ? problem.detail : "",
        });
        if (problem.status === 0) document.dispatchEvent(new CustomEvent("opwire-lost"));
      }
    };
    ask();
    return () => abort.abort();
  }, [sizes]);
  return { ...state, names, sizes, setSizes };
}

export function ModelView({ file, open, close, contract, server }) {
  const { busy, answer, problem, asked, names, sizes, setSizes } = useAnswer(file, server?.limits);
  const title = useRef(null);
  useEffect(() => title.current.focus(), []);
  return html`
    <${Fragment}>
      <h1 class="offscreen">Try</h1>
      <section class="model" aria-labelledby="model-title">
          <div class="bar">
            <h2 id="model-title" ref=${title} tabindex="-1">${file.name}</h2>
            <span class="quiet">${file.size.toLocaleString("en")} bytes</span>
            <span class="buttons">
              <${OpenModel} open=${open} label="Open another" />
              <button class="small" onClick=${close}>Back to the editor</button>
            </span>
          </div>
          ${names.length > 0 &&
            html`<${Dimensions} key=${names.join()} asked=${asked} names=${names} sizes=${sizes} check=${setSizes} busy=${busy} />`}
          ${busy && html`<${Status}>Checking …<//>`}
          ${problem &&
            html`<${ProblemNote} problem=${problem} again=${
              problem.status === 0 || problem.retryAfter ? () => setSizes({ ...sizes }) : undefined
            } />`}
          ${answer && html`<${Report} answer=${answer} contract=${contract} />`}
        </section>
      <//>
  `;
}

/** The sizes of the dimensions that the model leaves open. */
function Dimensions({ asked, names, sizes, check, busy }) {
  const [written, setWritten] = useState(Object.fromEntries(names.map((name) => [name, sizes[name] ?? "1"])));
  const submit = (event) => {
    event.preventDefault();
    check(written);
  };
  return html`<form class="dimensions" onSubmit=${submit} aria-labelledby="dimensions-title">
    <p id="dimensions-title">${
    asked ? "The model leaves dimensions open; choose their sizes:" : "Sizes of open dimensions:"
  }</p>
    <div class="fields">${
    names.map((name) =>
      html`<label class="inline"><code>${name}</code> <input type="number" min="1" max="4294967295" step="1" required
        value=${written[name]} onInput=${(event) => setWritten({ ...written, [name]: event.target.value })} /></label>`
    )
  } <button class=${asked ? "main" : ""} disabled=${busy}>Check</button></div>
    ${asked && html`<p class="quiet">${asked}</p>`}
  </form>`;
}

function Report({ answer, contract }) {
  const { levels } = contract;
  const { model: report, graph } = answer;
  const minimum = shortLevel(report.minimum_feature_level);
  const [level, setLevel] = useState(levels.at(-1));
  const rows = useMemo(() => rowsOf(report, level, levels), [report, level, levels]);
  const bench = useMemo(() => {
    if (!graph) return null;
    const text = JSON.stringify(graph);
    return { drawing: readGraph(scan(text).node ?? undefined, contract), subject: { below: "" }, doc: { watched: [] } };
  }, [graph, contract]);
  const marks = useMemo(() => graphMarks(rows, level, levels), [rows, level, levels]);
  return html`<${Fragment}>
    <${Whole} report=${report} rows=${rows} />
    <${LevelStrip} levels=${levels} level=${level} validation=${{ minimum }} choose=${setLevel} />
    <${AtLevel} rows=${rows} level=${level} isBelow=${levels.indexOf(level) < levels.indexOf(minimum)} />
    <${Nodes} rows=${rows} level=${level} />
    ${
    bench
      ? html`<${GraphView} bench=${{ ...bench, validation: answer, marks }} contract=${contract} />`
      : html`<p class="quiet">No graph is drawn, because nodes stay on the CPU.</p>`
  }
  <//>`;
}

/** What the whole model needs. */
function Whole({ report, rows }) {
  const { provider } = report;
  const onCpu = rows.filter(({ isOnCpu }) => isOnCpu).length;
  return html`
    <p>DirectML runs ${rows.length - onCpu} of ${counted(rows.length, "node")} from <strong>${shortLevel(
      report.minimum_feature_level,
    )}</strong> on (DirectML ${report.directml}). ONNX Runtime ${provider.onnxruntime} emits operators that need${" "}
      <strong>${shortLevel(provider.minimum_feature_level)}</strong>.</p>
  `;
}

/** Which nodes fail at the chosen level. */
function AtLevel({ rows, level, isBelow }) {
  const failing = rows.filter(({ fails }) => fails);
  const emitted = rows.filter(({ failsAsEmitted }) => failsAsEmitted);
  return html`<div role="status" class="at-level">
    <p class=${failing.length ? "bad" : ""}>${
    failing.length
      ? `At ${level}, ${failing.length} of its nodes ${failing.length === 1 ? "fails" : "fail"}: ${named(failing)}.`
      : `At ${level}, none of its nodes fails${isBelow ? ", but the level has no graphs" : ""}.`
  }</p>
    ${
    emitted.length > 0 && html`<p class="bad">As ONNX Runtime emits them, ${counted(emitted.length, "more node")}${" "}
      ${emitted.length === 1 ? "fails" : "fail"}: ${named(emitted)}.</p>`
  }
  </div>`;
}

/** @param {import("../onnx.js").Row[]} rows */
function named(rows) {
  const names = rows.slice(0, MOST_NAMED).map(({ node }) => node.name).join(", ");
  return rows.length > MOST_NAMED ? `${names} and ${rows.length - MOST_NAMED} more` : names;
}

/** @type {[string, string, (row: import("../onnx.js").Row) => boolean][]} */
const FILTERS = [
  ["all", "all nodes", () => true],
  ["failing", "failing at the level", ({ fails, failsAsEmitted }) => fails || failsAsEmitted],
  ["cpu", "on the CPU", ({ isOnCpu }) => isOnCpu],
  ["differs", "different in ONNX Runtime", ({ provider }) => !!provider],
];

function Nodes({ rows }) {
  const [chosen, setChosen] = useState("all");
  const [, , isShown] = FILTERS.find(([name]) => name === chosen) ?? FILTERS[0];
  const shown = rows.filter(isShown);
  return html`
    <section aria-labelledby="nodes-title">
      <div class="title"><h2 id="nodes-title">Nodes</h2>
          <label class="choice">Show <select onChange=${(event) => setChosen(event.target.value)}>${FILTERS.map((
            [name, label, has],
          ) =>
            html`<option value=${name} selected=${name === chosen}>${label} (${rows.filter(has).length})</option>`
          )}</select></label></div>
      <div class="scroll nodes" tabindex="0" role="region" aria-label="Nodes of the model">
        <table class="wide">
          <thead>
            <tr>
              <th scope="col">node</th>
              <th scope="col">operator</th>
              <th scope="col">DirectML</th>
              <th scope="col">from</th>
              <th scope="col">why</th>
              <th scope="col">ONNX Runtime</th>
            </tr>
          </thead>
          <tbody>${shown.map((row) => html`<${Row} key=${row.node.name} row=${row} />`)}</tbody>
        </table>
      </div>
    </section>
  `;
}

function Row({ row }) {
  const { node, level, isOnCpu, fails, why, provider, failsAsEmitted } = row;
  const types = node.directml.map(({ type }) => type.replace("DML_OPERATOR_", ""));
  const cross = html`<span class="bad"><span aria-hidden="true"> ✗</span><span class="offscreen"> fails</span></span>`;
  const since = `${node.domain === "ai.onnx" ? "" : `${node.domain} `}${node.since ? `since ${node.since}` : ""}`;
  return html`
    <tr class=${fails ? "fails" : ""}>
      <th scope="row">${node.name}</th>
      <td>${node.operator} <span class="quiet since">${since}</span></td>
      <td>${isOnCpu && "CPU"}${types.map((type, i) =>
        html`${i > 0 && " + "}<a href=${at(`operators/${type}`).href}>${breakable(type)}</a>`
      )}${!isOnCpu && !types.length && html`<span class="quiet">a view</span>`}</td>
      <td class="level">${level}${fails && cross}</td>
      <td class="why">${why}</td>
      <td class="why emitted">${provider}${failsAsEmitted && cross}</td>
    </tr>
  `;
}
