/** Line charts of the last minutes with a shared cursor, in the colors of the page. */

import uPlot from "../../vendor/uplot.js";
import { html, useEffect, useRef, useState } from "../../vendor/preact.js";

const SHARED = uPlot.sync("live");

function variable(name) {
  const probe = document.createElement("span");
  probe.className = `probe ${name}`;
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Stacks each row on the previous ones; the last row is the highest. */
export function stacked(rows) {
  const found = [];
  rows.forEach((row, i) =>
    found.push(row.map((value, k) => (value === null ? null : value + (i ? found[i - 1][k] ?? 0 : 0))))
  );
  return found;
}

function options(width, { series, isLog, isStacked, unit }, last) {
  const text = variable("text");
  const axis = {
    stroke: text,
    grid: { stroke: variable("line"), width: 1 },
    ticks: { stroke: variable("line"), width: 1 },
    font: `12px ${getComputedStyle(document.body).fontFamily}`,
  };
  const back = variable("back");
  const shown = series.map((each) => {
    const stroke = variable(each.color);
    // Areas hide what was drawn before, so higher rows are drawn first.
    return {
      label: each.label,
      stroke,
      width: 1.5,
      dash: each.dash,
      fill: isStacked ? `color-mix(in srgb, ${stroke} 35%, ${back})` : undefined,
      spanGaps: false,
      points: { show: false },
    };
  });
  return {
    width,
    height: 200,
    legend: { show: false },
    cursor: { sync: { key: SHARED.key }, drag: { x: false, y: false } },
    scales: {
      x: { time: true, range: () => [last.current - last.seconds, last.current] },
      y: isLog
        ? { distr: 3, log: 10, range: (_, min, max) => [Math.min(0.05, min ?? 0.05), Math.max(10, max ?? 10)] }
        : { range: (_, __, max) => [0, Math.max(1, (max ?? 0) * 1.1)] },
    },
    axes: [{
      ...axis,
      splits: () => [1, 0.75, 0.5, 0.25, 0].map((part) => last.current - part * last.seconds),
      values: (_, ticks) => ticks.map((tick) => `${Math.round(tick - last.current)} s`),
    }, { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : `${tick}${unit}`)) }],
    series: [{}, ...(isStacked ? shown.toReversed() : shown)],
  };
}

/**
 * rows has one list of values per series, with null for gaps; sentence is the description for screen readers.
 * @param {any} props
 */
export function Chart({ title, times, rows, seconds, sentence, ...kind }) {
  const place = useRef(null);
  const plot = useRef(null);
  const last = useRef({ current: 0, seconds });
  const [version, setVersion] = useState(0);
  last.current.current = times.at(-1) ?? 0;
  last.current.seconds = seconds;
  const names = kind.series.map(({ label }) => label).join();
  useEffect(() => {
    const again = () => setVersion((now) => now + 1);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    document.addEventListener("opwire-theme", again);
    scheme.addEventListener("change", again);
    return () => {
      document.removeEventListener("opwire-theme", again);
      scheme.removeEventListener("change", again);
    };
  }, []);
  const data = [times, ...(kind.isStacked ? stacked(rows).reverse() : rows)];
  useEffect(() => {
    const made = new (/** @type {any} */ (uPlot))(
      options(place.current.clientWidth || 300, kind, last.current),
      data,
      place.current,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: place.current.clientWidth, height: 200 }));
    observer.observe(place.current);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [version, names]);
  useEffect(() => plot.current.setData(data), [times, rows]);
  const latest = rows.map((row) => row.at(-1));
  const show = (value) => (value === null || value === undefined ? "–" : `${Number(value.toPrecision(3))}${kind.unit}`);
  return html`
    <figure class="chart">
      <figcaption>
        <h2>${title}</h2>
        <ul class="legend">${kind.series.map((each, i) =>
          html`<li><span class="swatch probe ${each.color} ${
            each.dash ? "dashed" : ""
          }" aria-hidden="true"></span>${each.label} <span class="mono">${show(latest[i])}</span></li>`
        )}</ul>
      </figcaption>
      <div ref=${place} role="img" aria-label="${title}: ${sentence}" class="plot"></div>
      <details>
        <summary>As a table</summary>
        <div class="scroll" tabindex="0" role="region" aria-label="Table of ${title}">
          <table>
            <thead>
              <tr><th scope="col">seconds ago</th>${kind.series.map(({ label }) =>
                html`<th scope="col">${label}</th>`
              )}</tr>
            </thead>
            <tbody>${times.slice(-10).map((time, k, shown) => {
              const at = times.length - shown.length + k;
              return html`<tr><th scope="row">${Math.round(last.current.current - time)}</th>${
                rows.map((row) => html`<td>${show(row[at])}</td>`)
              }</tr>`;
            })}</tbody>
          </table>
        </div>
      </details>
    </figure>
  `;
}
