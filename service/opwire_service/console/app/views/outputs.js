/** The outputs of a run: statistics, views, time by stage, and results of other devices. */

import { Fragment, html, useEffect, useState } from "../../vendor/preact.js";
import { execute } from "../api.js";
import { tensorDesc } from "../descs.js";
import { ask } from "../tensor/tensors.js";
import { print } from "../tensor/print.js";
import { CompareView } from "./compareView.js";
import { runRequest } from "./running.js";
import { Heat, Histogram, Numbers, Slices, useSlice } from "./tensorViews.js";

const STAGES = ["receive", "parse", "check", "decode", "queue", "run", "encode"];

/** Bar with the time of each stage. */
function Timing({ answer, milliseconds }) {
  const timing = answer.timing ?? {};
  const total = timing.total || 1;
  const shown = STAGES.filter((stage) => timing[stage] > 0);
  const sentence = shown.map((stage) => `${stage} ${(timing[stage] / 1000).toFixed(2)} ms`).join(", ");
  return html`
    <div class="timing">
      <p>time <strong>${(total / 1000).toFixed(2)} ms</strong> <span class="quiet">+ network ${Math.max(
        0,
        milliseconds - total / 1000,
      ).toFixed(1)} ms; on ${answer.device} at ${String(answer.feature_level).replace(
        "DML_FEATURE_LEVEL_",
        "",
      )}</span></p>
      <svg role="img" aria-label=${`Time by stage: ${sentence}`} viewBox="0 0 1000 14" preserveAspectRatio="none">${bars(
        shown,
        timing,
      )}</svg>
      <ul class="legend">${shown.map((stage) =>
        html`<li><span class="swatch ${stage}" aria-hidden="true"></span>${stage} ${
          (timing[stage] / 1000).toFixed(2)
        }</li>`
      )}</ul>
    </div>
  `;
}

function bars(shown, timing) {
  const whole = shown.reduce((sum, stage) => sum + timing[stage], 0) || 1;
  let x = 0;
  return shown.map((stage) => {
    const width = (timing[stage] / whole) * 1000;
    x += width;
    return html`<rect class=${stage} x=${x - width} y="0" width=${Math.max(1, width - 1)} height="14"></rect>`;
  });
}

function Statistics({ found, name }) {
  if (!found) return html`<p class="quiet">Computing …</p>`;
  const show = (value) => (value === null ? "–" : print(name, value));
  const rows = [
    ["min", show(found.min)],
    ["max", show(found.max)],
    ["mean", found.mean === null ? "–" : String(Number(found.mean.toPrecision(7)))],
    ["NaN", found.nan],
    ["+inf", found.positive],
    ["-inf", found.negative],
    ["zeros", found.zeros],
    ["elements", found.count.toLocaleString("en")],
  ];
  return html`<dl class="statistics">${
    rows.map(([label, value]) =>
      html`
        <div class=${["NaN", "+inf", "-inf"].includes(label) && value ? "odd" : ""}>
          <dt>${label}</dt>
          <dd>${value}</dd>
        </div>
      `
    )
  }</dl>`;
}

const VIEWS = { numbers: "numbers", heat: "heat map", picture: "image", histogram: "histogram", compare: "compare" };

async function save(id, task, name) {
  const blob = await ask(task, { id });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function Output({ output, published, devices }) {
  const { id, name, desc } = output;
  const [view, setView] = useState("numbers");
  const [found, setFound] = useState(null);
  const [slice, setSlice] = useSlice(desc);
  useEffect(() => {
    let stopped = false;
    ask("statistics", { id }).then((answer) => !stopped && setFound(answer));
    return () => {
      stopped = true;
    };
  }, [id]);
  const file = name.replace(/\W+/g, "_");
  const hasNpy = !/^U?INT4$/.test(desc.DataType);
  return html`<article class="output"><header><h3>${name} <span class="quiet">${desc.DataType} [${
    desc.Sizes.join(", ")
  }]${desc.Strides ? ` strides [${desc.Strides.join(", ")}]` : ""}</span></h3>
      <div class="tabs" role="group" aria-label="View of ${name}">${
    Object.entries(VIEWS).map(([each, label]) =>
      html`<button class="small" aria-pressed=${each === view} onClick=${() => setView(each)}>${label}</button>`
    )
  }</div>
      <span class="saves">${
    hasNpy && html`<button class="small" onClick=${() => save(id, "npy", `${file}.npy`)}>save .npy</button>`
  }<button class="small" onClick=${() => save(id, "raw", `${file}.bin`)}>save .bin</button></span></header>
    <${Statistics} found=${found} name=${desc.DataType} />
    ${
    view !== "histogram" && view !== "compare" &&
    html`<${Slices} desc=${desc} slice=${slice} change=${setSlice} label=${name} />`
  }
    ${view === "numbers" && html`<${Numbers} id=${id} desc=${desc} slice=${slice} label=${name} />`}
    ${view === "heat" && html`<${Heat} id=${id} slice=${slice} desc=${desc} label=${name} />`}
    ${view === "picture" && html`<${Heat} id=${id} slice=${slice} desc=${desc} label=${name} isPicture=${true} />`}
    ${view === "histogram" && html`<${Histogram} id=${id} found=${found} label=${name} />`}
    ${view === "compare" && html`<${CompareView} output=${output} published=${published} devices=${devices} />`}
  </article>`;
}

/** Runs the same request on every other device. */
function Devices({ result, server, doc, subject, tensors, keep }) {
  const [rows, setRows] = useState([]);
  const [busy, setBusy] = useState(false);
  const names = (server?.devices ?? []).map((device) => device.name).filter((name) => name !== result.answer.device);
  useEffect(() => setRows([]), [result]);
  if (!names.length || subject.kind === "model") return null;
  const go = async () => {
    setBusy(true);
    const found = [];
    for (const device of names) {
      try {
        const other = await runRequest(
          { ...result.request, device },
          tensors,
          doc.recipes,
          execute,
          new AbortController().signal,
        );
        const equal = [];
        for (const output of other.outputs ?? []) {
          const own = result.outputs.find(({ name }) => name === output.name);
          equal.push(await ask("compare", { id: own.id, other: output.id }));
        }
        found.push({
          device,
          other,
          equal: equal.every((each) => each.equal === each.count),
          run: other.answer.timing.run,
          total: other.answer.timing.total,
        });
      } catch (problem) {
        found.push({ device, problem });
      }
    }
    setRows(found);
    keep(found.filter((row) => row.other));
    setBusy(false);
  };
  return html`<div class="devices"><button class="small" disabled=${busy} onClick=${go}>Run on every device</button>
    ${
    rows.length > 0 && html`
      <table>
        <caption class="offscreen">Results by device</caption>
        <thead>
          <tr>
            <th scope="col">device</th>
            <th scope="col">bits</th>
            <th scope="col">run</th>
            <th scope="col">total</th>
          </tr>
        </thead>
        <tbody><tr><th scope="row">${result.answer.device}</th><td></td><td>${(result.answer.timing.run / 1000).toFixed(
          2,
        )} ms</td><td>${(result.answer.timing.total / 1000).toFixed(2)} ms</td></tr>
            ${rows.map((row) =>
              html`<tr><th scope="row">${row.device}</th>${
                row.problem ? html`<td colspan="3" class="bad">${row.problem.message}</td>` : html`
                  <td class=${row.equal ? "good" : "bad"}>${row.equal ? "✓ equal" : "✗ differ"}</td>
                  <td>${(row.run / 1000).toFixed(2)} ms</td>
                  <td>${(row.total / 1000).toFixed(2)} ms</td>
                `
              }</tr>`
            )}</tbody>
      </table>
    `
  }</div>`;
}

function publishedOf(result, info, doc) {
  const example = info?.examples.find((each) => each.name === doc.example);
  const type = result.request.text.includes(JSON.stringify(info?.type.replace("DML_OPERATOR_", "")));
  return example && type ? example.outputs : {};
}

export function Outputs({ result, server, info, doc, subject, tensors }) {
  const [others, setOthers] = useState([]);
  useEffect(() => {
    setOthers([]);
    return () => {
      ask("forget", { ids: result.outputs.map(({ id }) => id) });
    };
  }, [result]);
  const published = publishedOf(result, info, doc);
  return html`<${Fragment}>
    <${Timing} answer=${result.answer} milliseconds=${result.milliseconds} />
    <${Devices} result=${result} server=${server} doc=${doc} subject=${subject} tensors=${tensors} keep=${setOthers} />
    ${
    result.outputs.map((output) =>
      html`
        <${Output} key=${output.id} output=${output} published=${tensorDesc(published, output.name)}
          devices=${others.map(({ device, other }) => ({
            device,
            id: other.outputs.find(({ name }) => name === output.name)?.id,
          }))} />
      `
    )
  }
  <//>`;
}
