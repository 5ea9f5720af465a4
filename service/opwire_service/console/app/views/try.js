/** The Try page: a desc, its inputs, a run and its outputs. */

import { Fragment, html, useCallback, useEffect, useLayoutEffect, useRef, useState } from "../../vendor/preact.js";
import { completions, explain } from "../editor/completion.js";
import { GRAPH } from "../graph/names.js";
import { child, find, pointerAt, rangeOf } from "../json/pointers.js";
import { scan } from "../json/scan.js";
import { EditorPane } from "./editorPane.js";
import { useContract, useNarrow } from "./explorer.js";
import { GraphView } from "./graph.js";
import { Inputs } from "./inputs.js";
import { LevelStrip, Violations } from "./levels.js";
import { Outputs } from "./outputs.js";
import { CopyMenu } from "./copyMenu.js";
import { ModelView, OpenModel, useDroppedModel } from "./onnxModel.js";
import { Copy, ProblemNote } from "./shell.js";
import { useTry } from "./useTry.js";

export function Try({ server }) {
  const { contract, problem } = useContract();
  if (problem) {
    return html`
      <h1>Try</h1>
      <${ProblemNote} problem=${problem} />
    `;
  }
  if (!contract) {
    return html`
      <h1>Try</h1>
      <p class="quiet">Loading the contract …</p>
    `;
  }
  return html`<${Bench} contract=${contract} server=${server} />`;
}

const NAMES = { graph: GRAPH, model: "MODEL" };
const TITLES = { operator: "Desc", graph: "Graph as JSON", model: "DxDispatch model" };

function Bench({ contract, server }) {
  const bench = useTry(contract, server);
  const { doc, setDoc, subject, operator, validation, marks, run, start } = bench;
  const narrow = useNarrow();
  const editor = useRef(null);
  const [model, setModel] = useState(null);
  const openModel = useCallback((file) => setModel((now) => ({ file, id: (now?.id ?? 0) + 1 })), []);
  useDroppedModel(openModel);
  const closeModel = () => {
    setModel(null);
    document.getElementById("main")?.focus();
  };
  const { levels } = contract;
  const runsNowhere = operator && subject.kind === "operator" && operator.state !== "executable";
  const canRun = !!doc && !model && !subject.mistakes.length && !runsNowhere;

  useLayoutEffect(() => {
    const pressed = (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.defaultPrevented) {
        event.preventDefault();
        if (canRun) start();
      } else if (event.key === "F8" && !event.defaultPrevented && !model && marks.length) {
        event.preventDefault();
        const mark = event.shiftKey ? marks[marks.length - 1] : marks[0];
        editor.current.select(mark.from, mark.to);
      }
    };
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, [start, canRun, model, marks]);

  if (model) {
    return html`
      <${ModelView} key=${model.id} file=${model.file} open=${openModel} close=${closeModel} contract=${contract}
        server=${server} />
    `;
  }
  if (!doc) {
    return html`<h1>Try</h1><p class="quiet">Loading the example …</p>${
      run.problem && html`<${ProblemNote} problem=${run.problem} />`
    }`;
  }
  const change = (changed) => setDoc((now) => ({ ...now, ...changed }));
  const setRecipe = (name, recipe) => setDoc((now) => ({ ...now, recipes: { ...now.recipes, [name]: recipe } }));
  const fix = (mark) => editor.current.replace(mark.from, mark.to, mark.fix);
  const watch = (title) => {
    const isWatched = doc.watched.includes(title);
    const watched = isWatched ? doc.watched.filter((each) => each !== title) : [...doc.watched, title];
    change({ watched });
    if (!isWatched && canRun) start(watched);
  };
  const goTo = (pointer) => {
    const { from, to } = rangeOf(subject.node, pointer);
    editor.current.select(from, to);
  };
  const useDesc = (name, { dataType, shape }) => {
    const { node } = scan(doc.text);
    const [, array, index] = /^(.*)\[(\d+)\]$/.exec(name) ?? [];
    const desc = find(node, `/desc/${array === undefined ? name : `${array}/${index}`}`);
    const changes = [
      { place: child(desc, "Sizes")?.value, written: JSON.stringify(shape).replaceAll(",", ", ") },
      { place: child(desc, "DataType")?.value, written: JSON.stringify(dataType) },
    ];
    let { text } = doc;
    for (const { place, written } of changes.sort((a, b) => (b.place?.from ?? 0) - (a.place?.from ?? 0))) {
      if (place) text = text.slice(0, place.from) + written + text.slice(place.to);
    }
    change({ text, revision: doc.revision + 1 });
  };
  return html`<${Fragment}>
    <h1 class="offscreen">Try</h1>
    <${Bar} bench=${bench} contract=${contract} server=${server} canRun=${canRun} openModel=${openModel} />
    ${bench.linkMistake && html`<p class="note bad" role="alert">${bench.linkMistake}</p>`}
    ${runsNowhere && html`<p class="note">No device runs ${operator.name} yet; its desc is only validated.</p>`}
    <div class="bench">
      <section class="pane desc" aria-labelledby="desc-title"><h2 id="desc-title">${TITLES[subject.kind]}</h2>
        <${EditorPane} handle=${editor} text=${doc.text} revision=${doc.revision} marks=${marks} stale=${bench.stale} wraps=${narrow}
          change=${(text) => change({ text })} run=${() => canRun && start()} fix=${fix}
          complete=${(text, offset) => completions(contract, text, offset, doc.level)}
          explain=${(text, offset) => explainAt(contract, text, offset, doc.level)} />
        <${LevelStrip} levels=${levels} level=${doc.level} validation=${validation} choose=${(level) =>
    change({ level })} />
        <${Violations} marks=${marks} warnings=${bench.warnings} stale=${bench.stale} level=${doc.level} levels=${levels} setLevel=${(
    level,
  ) => change({ level })}
          go=${(mark) => editor.current.select(mark.from, mark.to)} />
        ${bench.problem && bench.problem.status !== 0 && html`<${ProblemNote} problem=${bench.problem} />`}
      </section>
      <section class="pane inputs" aria-labelledby="inputs-title"><h2 id="inputs-title">Inputs</h2>
        ${
    subject.kind === "model" ? html`<${Dispatchables} subject=${subject} validation=${validation} />` : html`
      <${Inputs} tensors=${bench.tensors} recipes=${doc.recipes} set=${setRecipe} mistakes=${run
        .mistakes} useDesc=${subject.kind === "operator" ? useDesc : undefined} />
    `
  }
      </section>
    </div>
    ${
    bench.drawing && html`
      <${GraphView} bench=${bench} contract=${contract} canRun=${canRun} watch=${watch}
        go=${(mark) => editor.current.select(mark.from, mark.to)} goTo=${goTo} />
    `
  }
    <section class="outputs" aria-labelledby="outputs-title"><h2 id="outputs-title">Outputs</h2>
      <${RunStatus} bench=${bench} />
      ${run.problem && html`<${ProblemNote} problem=${run.problem} again=${() => start()} />`}
      ${
    run.problem?.violations.length > 0 && html`<ul class="bad">${
      run.problem.violations.map((each) => html`<li><code>${each.pointer}</code> ${each.message}</li>`)
    }</ul>`
  }
      ${
    bench.result && html`
      <${Outputs} result=${bench.result} server=${server} info=${bench.info} doc=${doc} subject=${subject}
        tensors=${bench.tensors} />
    `
  }
    </section>
  <//>`;
}

function RunStatus({ bench: { run, result } }) {
  const text = run.busy
    ? "Running …"
    : result
    ? `${result.outputs.length} output${result.outputs.length === 1 ? "" : "s"} in ${
      ((result.answer.timing?.total ?? 0) / 1000).toFixed(2)
    } ms`
    : "Nothing has been run yet.";
  return html`<p class="status" role="status">${text}</p>`;
}

function explainAt(contract, text, offset, level) {
  const { node } = scan(text);
  if (!node) return null;
  const pointer = pointerAt(node, offset);
  const lines = explain(contract, text, offset, pointer, level);
  const found = find(node, pointer);
  return lines && found ? { from: offset, to: Math.min(found.to, offset + 1), lines } : null;
}

function Bar({ bench, contract, server, canRun, openModel }) {
  const { doc, setDoc, info, run, start, cancel, show, showGraph, fail, subject } = bench;
  const devices = ["auto", ...(server?.devices ?? []).map((device) => device.name)];
  const about = subject.kind === "operator" ? doc.operator : NAMES[subject.kind];
  const [written, setWritten] = useState(about);
  useEffect(() => setWritten(about), [about]);
  const choose = (given) => {
    setWritten(given);
    const name = given.trim().toUpperCase().replace("DML_OPERATOR_", "");
    if (name === GRAPH && about !== GRAPH) return showGraph();
    const found = contract.operators.find((each) => each.name === name);
    if (found && found.name !== about) show(found.name, "", undefined).catch(fail);
  };
  const longest = Math.max(...contract.operators.map(({ name }) => name.length));
  return html`<div class="bar">
    <label class="choice">Operator <input list="operators" class="operator-name" size=${longest} value=${written} spellcheck=${false} onInput=${(
    event,
  ) => choose(event.target.value)} onFocus=${(event) => event.target.select()} /></label>
    <datalist id="operators"><option value=${GRAPH}>several operators</option>${
    contract.operators.map(({ name, state }) =>
      html`<option value=${name}>${state === "executable" ? "runs" : state}</option>`
    )
  }</datalist>
    <label class="choice">Example <select onChange=${(event) =>
    event.target.value && show(doc.operator, event.target.value).catch(fail)}>
      ${(!doc.example || subject.kind !== "operator") && html`<option value="" selected>custom</option>`}
      ${
    (subject.kind === "operator" ? info?.examples ?? [] : []).map(({ name }) =>
      html`<option value=${name} selected=${name === doc.example}>${name.replaceAll("_", " ")}</option>`
    )
  }</select></label>
    <label class="choice">Level <select onChange=${(event) => setDoc((now) => ({ ...now, level: event.target.value }))}>
      ${
    contract.levels.map((level) => html`<option selected=${level === doc.level}>${level}</option>`)
  }</select></label>
    <label class="choice">Device <select onChange=${(event) =>
    setDoc((now) => ({ ...now, device: event.target.value }))}>
      ${
    [...new Set([...devices, doc.device])].map((name) => html`<option selected=${name === doc.device}>${name}</option>`)
  }</select></label>
    <${OpenModel} open=${openModel} />
    <span class="buttons">
      <button class="main" disabled=${!canRun || run.busy} onClick=${() =>
    start()}>Run <kbd class="wide">Ctrl+Enter</kbd></button>
      ${run.busy && html`<button onClick=${cancel}>Cancel</button>`}
      <${Copy} text=${() => location.href} label="Copy a link to this state">Share<//>
      <${CopyMenu} bench=${bench} />
      <details class="more"><summary>More</summary><label class="inline">time limit <input type="number" min="0" step="100" value=${
    doc.timeout || ""
  } placeholder="default"
        onInput=${(event) =>
    setDoc((now) => ({ ...now, timeout: Math.max(0, Math.trunc(Number(event.target.value))) }))} /> ms</label></details>
    </span>
  </div>`;
}

function Dispatchables({ subject, validation }) {
  const names = Object.keys(subject.value?.dispatchables ?? {});
  return html`
    <p>The tensors of a model are its resources. ${names.length} dispatchable${names.length === 1 ? "" : "s"}:</p>
    <ul>${names.map((name) => {
      const found = validation?.dispatchables?.[name];
      return html`<li><code>${name}</code> ${
        found && (found.valid
          ? html`<span class="good">✓ valid</span>`
          : html`<span class="bad">✗ ${found.violations.length} violation${
            found.violations.length === 1 ? "" : "s"
          }</span>`)
      }</li>`;
    })}</ul>
  `;
}
