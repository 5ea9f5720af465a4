/** The Live page: load of the server for the last five minutes, second by second. */

import { Fragment, html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { get } from "../api.js";
import { GRAPH } from "../graph/names.js";
import { at } from "../place.js";
import { between, kindOf, KINDS, MEANINGS, Ring } from "../metrics.js";
import { Chart } from "./charts.js";
import { ProblemNote, Status } from "./shell.js";

const EVERY = 1000;
const SAMPLES = 300;
const MOST_WATCHED = 20;
const LONGEST_PAUSE = 10_000;

function nowText() {
  return new Date().toLocaleTimeString("en-GB");
}

/** Polls the load, one request at a time; pauses and failed requests appear as gaps. */
function useLoad(paused, keepGoing) {
  const [state, setState] = useState({ ring: new Ring(SAMPLES), load: null, problem: null, change: "" });
  const before = useRef(null);
  const watched = useRef([]);
  useEffect(() => {
    if (paused) {
      before.current = null;
      return undefined;
    }
    let timer = 0;
    let stopped = false;
    let pause = EVERY;
    const gap = (ring) => {
      if (ring.samples.length && !ring.samples.at(-1).gap) ring.add({ time: Date.now() / 1000, gap: true });
    };
    const ask = async () => {
      if (document.hidden && !keepGoing) {
        before.current = null;
        return;
      }
      try {
        const query = watched.current.map((name) => `operator=${name}`).join("&");
        const load = await get(`v1/server/load${query ? `?${query}` : ""}`);
        if (stopped) return;
        pause = EVERY;
        const sample = before.current && between(before.current, load);
        const isOther = before.current && before.current.instance !== load.instance;
        setState((now) => {
          if (sample) now.ring.add(sample);
          else gap(now.ring);
          const change = isOther
            ? `another server since ${nowText()}`
            : now.problem
            ? `responding again since ${nowText()}`
            : now.change || `since ${nowText()}`;
          return { ring: now.ring, load, problem: null, change };
        });
        before.current = load;
        watched.current = Object.entries(load.operators).sort((a, b) => b[1].count - a[1].count).slice(0, MOST_WATCHED)
          .map(([name]) => name);
      } catch (problem) {
        if (stopped) return;
        before.current = null;
        setState((now) => {
          gap(now.ring);
          return { ...now, problem, change: now.problem ? now.change : `connection lost at ${nowText()}` };
        });
        if (problem.status === 0) document.dispatchEvent(new CustomEvent("opwire-lost"));
        if (problem.status === 401) return;
        pause = Math.min(LONGEST_PAUSE, Math.max(pause * 2, problem.retryAfter * 1000));
      }
      timer = setTimeout(ask, pause);
    };
    const again = () => {
      clearTimeout(timer);
      ask();
    };
    const seen = () => !document.hidden && again();
    ask();
    document.addEventListener("visibilitychange", seen);
    document.addEventListener("opwire-key", again);
    return () => {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
      document.removeEventListener("opwire-key", again);
    };
  }, [paused, keepGoing]);
  return state;
}

function bytes(count) {
  const units = ["bytes", "KB", "MB", "GB"];
  let i = 0;
  while (count >= 1000 && i < units.length - 1) {
    count /= 1024;
    i++;
  }
  return `${i ? Number(count.toPrecision(3)) : count} ${units[i]}`;
}

function since(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}

function sumOf(outcomes, kind) {
  return Object.entries(outcomes).filter(([name]) => !kind || kindOf(name) === kind).reduce(
    (sum, [, rate]) => sum + rate,
    0,
  );
}

function milliseconds(value) {
  return value === null || value === undefined ? "–" : `${Number(value.toPrecision(3))} ms`;
}

function Figures({ sample, load }) {
  const outcomes = sample?.outcomes ?? {};
  const all = sumOf(outcomes);
  const total = sample?.quantiles.total;
  const rows = [
    ["requests/s", sample ? Math.round(all * 10) / 10 : "–"],
    ["successful", all ? `${((100 * (outcomes.ok ?? 0)) / all).toFixed(1)} %` : "–"],
    ["p50", milliseconds(total?.p50)],
    ["p99", milliseconds(total?.p99)],
    ["refused", sample ? `${Math.round(sumOf(outcomes, "refused") * 10) / 10}/s` : "–"],
    ["waiting", `${load.queue.waiting} of ${load.queue.limit}`],
    ["memory", `${load.memory.held ? bytes(load.memory.held) : 0} of ${bytes(load.memory.limit)}`],
  ];
  return html`<dl class="figures">${
    rows.map(([name, value]) =>
      html`
        <div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>
      `
    )
  }</dl>`;
}

const LATENCIES = [
  { label: "total p99", stage: "total", of: "p99", color: "c-red" },
  { label: "total p50", stage: "total", of: "p50", color: "c-blue" },
  { label: "run p99", stage: "run", of: "p99", color: "c-green", dash: [6, 3] },
  { label: "run p50", stage: "run", of: "p50", color: "c-green" },
  { label: "queue p99", stage: "queue", of: "p99", color: "c-orange", dash: [6, 3] },
];
const KIND_COLORS = {
  answered: "c-green",
  invalid: "c-blue",
  refused: "c-orange",
  "too late": "c-purple",
  failed: "c-red",
};
const DEVICE_COLORS = ["c-blue", "c-green", "c-orange", "c-purple", "c-red"];

function Charts({ samples, devices, seconds }) {
  const times = samples.map(({ time }) => time);
  const series = (read) => samples.map((sample) => (sample.gap ? null : read(sample)));
  const kinds = Object.keys(KINDS);
  const rates = kinds.map((kind) => series(({ outcomes }) => sumOf(outcomes, kind)));
  const latencies = LATENCIES.map(({ stage, of }) => series(({ quantiles }) => quantiles[stage]?.[of] ?? null));
  const lanes = devices.flatMap((name, i) => [
    { label: `${name} running`, color: DEVICE_COLORS[i % 5], read: (load) => load.devices[name]?.running ?? 0 },
    {
      label: `${name} waiting`,
      color: DEVICE_COLORS[i % 5],
      dash: [6, 3],
      read: (load) => load.devices[name]?.queued ?? 0,
    },
  ]);
  const loads = lanes.map(({ read }) => series(({ load }) => read(load)));
  const last = samples.findLast((sample) => !sample.gap);
  return html`
    <div class="charts">
      <${Chart} title="Requests per second by outcome" times=${times} rows=${rates} seconds=${seconds}
        isStacked=${true} unit="/s"
        series=${kinds.map((label) => ({ label, color: KIND_COLORS[label] }))} sentence=${last
          ? `${sumOf(last.outcomes).toFixed(0)} per second now`
          : "nothing yet"} />
      <${Chart} title="Time by stage" times=${times} rows=${latencies} seconds=${seconds} isLog=${true} unit=" ms"
        series=${LATENCIES}
        sentence=${last
          ? `total p50 ${milliseconds(last.quantiles.total?.p50)}, p99 ${milliseconds(last.quantiles.total?.p99)}`
          : "nothing yet"} />
      <${Chart} title="Waiting and running by device" times=${times} rows=${loads} seconds=${seconds} unit=""
        series=${lanes}
        sentence=${last ? lanes.map(({ label, read }) => `${label} ${read(last.load)}`).join(", ") : "nothing yet"} />
    </div>
    <p class="quiet">p50 and p99 are interpolated within histogram buckets.</p>
  `;
}

const COLUMNS = [["name", "operator"], ["rate", "req/s"], ["run", "mean run"], ["p99", "p99"], [
  "share",
  "share of time",
]];

function Operators({ sample }) {
  const [by, setBy] = useState("rate");
  const rows = useMemo(
    () =>
      [...(sample?.operators ?? [])].sort((
        a,
        b,
      ) => (by === "name" ? a.name.localeCompare(b.name) : (b[by] ?? 0) - (a[by] ?? 0))),
    [sample, by],
  );
  if (!rows.length) {
    return html`
      <section>
        <h2>Operators</h2>
        <p class="quiet">None has run since startup.</p>
      </section>
    `;
  }
  return html`
    <section>
      <h2>Operators</h2>
      <div class="scroll" tabindex="0" role="region" aria-label="Operators">
        <table>
          <thead>
            <tr>${COLUMNS.map(([name, label]) =>
              html`
                <th scope="col" aria-sort=${name === by
                  ? (name === "name" ? "ascending" : "descending")
                  : undefined}><button class="sort" onClick=${() => setBy(name)}>${label}${name === by
                  ? " ▾"
                  : ""}</button></th>
              `
            )}</tr>
          </thead>
          <tbody>${rows.map((row) =>
            html`
              <tr key=${row.name}>
                <th scope="row">${row.name === GRAPH
                  ? GRAPH
                  : html`<a href=${at(`operators/${row.name}`).href}>${row.name}</a>`}</th>
                <td>${row.rate.toFixed(1)}</td>
                <td>${milliseconds(row.run)}</td>
                <td>${milliseconds(row.p99)}</td>
                <td><meter min="0" max="1" value=${row.share} aria-label="share of ${row
                  .name}"></meter> ${(row.share * 100).toFixed(0)} %</td>
              </tr>
            `
          )}</tbody>
        </table>
      </div>
    </section>
  `;
}

function Devices({ load }) {
  return html`
    <section>
      <h2>Devices</h2>
      <div class="scroll" tabindex="0" role="region" aria-label="Devices">
        <table>
          <thead>
            <tr>
              <th scope="col">device</th>
              <th scope="col">running</th>
              <th scope="col">waiting</th>
              <th scope="col">kernels</th>
              <th scope="col">device memory</th>
            </tr>
          </thead>
          <tbody>${Object.entries(load.devices).map(([name, device]) =>
            html`
              <tr>
                <th scope="row">${name}</th>
                <td>${device.running} of ${device.places}</td>
                <td>${device.queued}</td>
                <td>${device.kernels}</td>
                <td>${device.memory_limit ? `${bytes(device.memory)} of ${bytes(device.memory_limit)}` : "–"}</td>
              </tr>
            `
          )}</tbody>
        </table>
      </div>
    </section>
  `;
}

function Refusals({ sample, load }) {
  const rows = Object.entries(load.outcomes).filter(([name]) => name !== "ok").sort((a, b) => b[1] - a[1]);
  return html`<section><h2>Refusals and failures</h2>${
    rows.length === 0 ? html`<p class="quiet">None since startup.</p>` : html`
      <div class="scroll" tabindex="0" role="region" aria-label="Refusals">
        <table>
          <thead>
            <tr>
              <th scope="col">code</th>
              <th scope="col">per second</th>
              <th scope="col">since startup</th>
              <th scope="col">meaning</th>
            </tr>
          </thead>
          <tbody>${rows.map(([name, count]) =>
            html`
              <tr>
                <th scope="row"><code>${name}</code></th>
                <td>${(sample?.outcomes[name] ?? 0).toFixed(1)}</td>
                <td>${count.toLocaleString("en")}</td>
                <td>${MEANINGS[name] ?? ""}</td>
              </tr>
            `
          )}</tbody>
        </table>
      </div>
    `
  }</section>`;
}

export function Live() {
  const [paused, setPaused] = useState(false);
  const [keepGoing, setKeepGoing] = useState(false);
  const [seconds, setSeconds] = useState(60);
  const { ring, load, problem, change } = useLoad(paused, keepGoing);
  const samples = ring.samples.filter(({ time }) => time > (ring.samples.at(-1)?.time ?? 0) - seconds);
  const sample = ring.samples.at(-1)?.gap ? null : ring.samples.at(-1);
  const isQuiet = load && !Object.keys(load.operators).length && !sumOf(load.outcomes);
  return html`
    <${Fragment}>
      <div class="title"><h1>Live</h1>
          <div class="fields"><button aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused
            ? "Resume"
            : "Pause"}</button>
            <label class="choice">window <select onChange=${(event) =>
              setSeconds(
                Number(event.target.value),
              )}><option value="60">1 min</option><option value="300">5 min</option></select></label>
            <label class="inline"><input type="checkbox" checked=${keepGoing} onChange=${(event) =>
              setKeepGoing(event.target.checked)} /> keep updating while hidden</label></div>
          ${load && html`
            <span
              class="quiet">instance ${load.instance.slice(0, 4)}, up ${since(load.time - load.started)}, ${load.workers
                .serving} of ${load.workers.expected} ${load.workers.expected === 1 ? "process" : "processes"}, ${load
                .workers.replaced} replaced</span>
          `}
          <${Status}>${change}<//></div>
        ${problem && problem.status !== 0 && html`<${ProblemNote} problem=${problem} />`}
        ${isQuiet && html`<p class="note">No requests since startup. <a href=${at("try").href}>Try one.</a></p>`}
        ${load && html`
          <${Figures} sample=${sample} load=${load} />
          <${Charts} samples=${samples} devices=${Object.keys(load.devices)} seconds=${seconds} />
          <div class="tables">
            <${Operators} sample=${sample} />
            <${Devices} load=${load} />
            <${Refusals} sample=${sample} load=${load} />
          </div>
        `}
        ${!load && !problem && html`<p class="quiet">Loading …</p>`}
      <//>
  `;
}
