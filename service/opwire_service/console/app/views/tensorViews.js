/** Views of a tensor: numbers, heat map or image of a slice, and histogram. */

import { Fragment, html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { ask } from "../tensor/tensors.js";

/** State of the selected slice, initially the last two dimensions at index 0 of all others. */
export function useSlice(desc) {
  const rank = desc.Sizes.length;
  return useState(() => ({ rows: rank > 1 ? rank - 2 : -1, columns: rank - 1, others: desc.Sizes.map(() => 0) }));
}

export function Slices({ desc, slice, change, label }) {
  const dims = desc.Sizes.map((size, i) => ({ size, i }));
  if (dims.length < 2) return null;
  const pick = (name, value) => {
    const other = name === "rows" ? "columns" : "rows";
    change({ ...slice, [name]: value, [other]: slice[other] === value ? slice[name] : slice[other] });
  };
  const axis = (name) =>
    html`<label class="inline">${name} <select aria-label="${name} of ${label}" onChange=${(event) =>
      pick(name, Number(event.target.value))}>
    ${
      dims.map(({ i, size }) => html`<option value=${i} selected=${i === slice[name]}>${i} (${size})</option>`)
    }</select></label>`;
  return html`<div class="fields slices"><span class="quiet">slice</span> ${axis("rows")} ${axis("columns")}
    ${
    dims.filter(({ i, size }) => i !== slice.rows && i !== slice.columns && size > 1).map(({ i, size }) =>
      html`<label class="inline">index ${i}
      <input type="number" min="0" max=${size - 1} value=${slice.others[i]} onInput=${(event) => {
        const others = [...slice.others];
        others[i] = Math.max(0, Math.min(size - 1, Math.trunc(Number(event.target.value))));
        change({ ...slice, others });
      }} /></label>`
    )
  }</div>`;
}

const ROWS = 16;
const COLUMNS = 12;

/** The visible window of a slice. */
export function Numbers({ id, desc, slice, label }) {
  const [at, setAt] = useState({ row: 0, column: 0 });
  const [found, setFound] = useState(null);
  const [cell, setCell] = useState(null);
  useEffect(() => {
    let stopped = false;
    ask("window", { id, slice, part: { ...at, height: ROWS, width: COLUMNS } }).then((answer) =>
      !stopped && setFound(answer)
    );
    return () => {
      stopped = true;
    };
  }, [id, slice, at]);
  if (!found) return null;
  const move = (rows, columns) =>
    setAt({
      row: Math.max(0, Math.min(found.height - ROWS, at.row + rows)),
      column: Math.max(0, Math.min(found.width - COLUMNS, at.column + columns)),
    });
  const index = (row, column) =>
    desc.Sizes.map((
      _,
      i,
    ) => (i === slice.rows ? at.row + row : i === slice.columns ? at.column + column : slice.others[i]));
  const parts = found.height > ROWS || found.width > COLUMNS;
  return html`<${Fragment}>
    ${
    parts && html`
      <div
        class="fields"><span class="quiet">rows ${at.row} to ${Math.min(found.height, at.row + ROWS) - 1} of ${found
          .height}, columns ${at.column} to ${Math.min(found.width, at.column + COLUMNS) - 1} of ${found.width}</span>
            <button class="small" aria-label="Up" onClick=${() =>
              move(-ROWS, 0)}>↑</button><button class="small" aria-label="Down" onClick=${() =>
              move(ROWS, 0)}>↓</button>
            <button class="small" aria-label="Left" onClick=${() =>
              move(0, -COLUMNS)}>←</button><button class="small" aria-label="Right" onClick=${() =>
              move(0, COLUMNS)}>→</button>
            <label class="inline">row <input type="number" min="0" max=${found.height - 1} value=${at.row} onInput=${(
              event,
            ) =>
              setAt({
                ...at,
                row: Math.max(0, Math.min(found.height - 1, Math.trunc(Number(event.target.value)))),
              })} /></label></div>
    `
  }
    <div class="scroll" tabindex="0" role="region" aria-label="Numbers of ${label}"><table class="numbers"><caption class="offscreen">Numbers of ${label}</caption>
      <thead><tr><td></td>${
    found.rows[0]?.map((_, column) => html`<th scope="col">${at.column + column}</th>`)
  }</tr></thead>
      <tbody>${
    found.rows.map((cells, row) =>
      html`<tr><th scope="row">${at.row + row}</th>${
        cells.map(([text, bits], column) =>
          html`
            <td class=${/NaN|Inf/.test(text) ? "odd" : ""} title="[${index(row, column).join(
              ", ",
            )}] = ${text}, bits ${bits}" onMouseEnter=${() => setCell([index(row, column), text, bits])}>${text}</td>
          `
        )
      }</tr>`
    )
  }</tbody></table></div>
    <p class="quiet mono">${cell ? `[${cell[0].join(", ")}] = ${cell[1]}, bits ${cell[2]}` : " "}</p>
  <//>`;
}

/** Returns the slices that are the channels of an image: three for a color image, otherwise one. */
function channelSlices(desc, slice, isPicture) {
  const axis = slice.rows - 1;
  const isColor = isPicture && slice.rows >= 1 && slice.columns === slice.rows + 1 &&
    (desc.Sizes[axis] === 3 || desc.Sizes[axis] === 4);
  if (isColor) {
    return [0, 1, 2].map((k) => ({ ...slice, others: slice.others.map((index, i) => (i === axis ? k : index)) }));
  }
  const last = desc.Sizes.length - 1;
  if (
    isPicture && desc.Sizes.length >= 3 && (desc.Sizes[last] === 3 || desc.Sizes[last] === 4) && slice.rows === last - 1
  ) {
    return [0, 1, 2].map((k) => ({
      rows: last - 2,
      columns: last - 1,
      others: slice.others.map((index, i) => (i === last ? k : index)),
    }));
  }
  return [slice];
}

const SCALES = { "0..255": [0, 255], "0..1": [0, 1], "-1..1": [-1, 1] };

export function Heat({ id, slice, desc, label, isPicture = false, block = "mean" }) {
  const canvas = useRef(null);
  const [by, setBy] = useState(block);
  const [scale, setScale] = useState("range");
  const [said, setSaid] = useState("");
  const [ends, setEnds] = useState(null);
  useEffect(() => {
    let stopped = false;
    const given = {
      id,
      slices: channelSlices(desc, slice, isPicture),
      by: isPicture ? "mean" : by,
      ends: SCALES[scale] ?? null,
      isPicture,
    };
    ask("paint", given).then(({ rgba, min, max, rows, columns, height, width }) => {
      if (stopped || !canvas.current) return;
      Object.assign(canvas.current, { width: columns, height: rows });
      canvas.current.getContext("2d").putImageData(new ImageData(rgba, columns, rows), 0, 0);
      const shrunk = rows < height || columns < width ? `, ${by} of blocks at ${rows} by ${columns}` : "";
      const span = min <= max
        ? `from ${Number(min.toPrecision(5))} to ${Number(max.toPrecision(5))}`
        : "no finite elements";
      setSaid(`${isPicture ? "Image" : "Heat map"} of ${label}: ${height} by ${width}${shrunk}, ${span}`);
      setEnds(min <= max ? [min, max] : null);
    });
    return () => {
      stopped = true;
    };
  }, [id, slice, by, scale, isPicture]);
  return html`
    <figure class="heat ${isPicture ? "gray" : ""}">
      <canvas ref=${canvas} role="img" aria-label=${said}></canvas>
      <figcaption>${said}
          ${!isPicture && ends && html`
            <span
              class="ramp"><span>${Number(
                ends[0].toPrecision(4),
              )}</span><span class="gradient" aria-hidden="true"></span><span>${Number(
                ends[1].toPrecision(4),
              )}</span> <span class="odd-key">NaN <span class="nan" aria-hidden="true">■</span> +inf <span class="positive" aria-hidden="true">■</span> -inf <span class="negative" aria-hidden="true">■</span></span></span>
          `}
          <span class="fields">${!isPicture && html`
            <label
              class="inline">block value <select value=${by} onChange=${(event) =>
                setBy(
                  event.target.value,
                )}><option value="mean">mean</option><option value="extreme">extreme</option></select></label>
          `}
            <label class="inline">scale <select onChange=${(event) => setScale(event.target.value)}>${[
              "range",
              ...Object.keys(SCALES),
            ].map((each) =>
              html`<option selected=${each === scale}>${each}</option>`
            )}</select></label></span></figcaption>
    </figure>
  `;
}

export function Histogram({ id, found, label }) {
  const [bins, setBins] = useState(null);
  useEffect(() => {
    let stopped = false;
    if (found && found.min !== null) {
      ask("histogram", { id, min: Number(found.min), max: Number(found.max) }).then((answer) =>
        !stopped && setBins(answer.bins)
      );
    }
    return () => {
      stopped = true;
    };
  }, [id, found]);
  if (!found || found.min === null) return html`<p class="quiet">No finite elements.</p>`;
  if (!bins) return null;
  const most = Math.max(...bins);
  const width = (Number(found.max) - Number(found.min)) / bins.length;
  const edge = (i) => Number((Number(found.min) + i * width).toPrecision(5));
  return html`
    <figure class="histogram">
      <svg role="img"
        aria-label="Histogram of ${label}: ${bins.length} bins from ${edge(0)} to ${edge(
          bins.length,
        )}; the fullest has ${most}"
        viewBox="0 0 640 160" preserveAspectRatio="none">
          ${bins.map((count, i) =>
            html`
              <rect x=${i * 10} y=${160 - (count / most) * 156} width="9" height=${(count / most) * 156}>
                <title>${edge(i)} to ${edge(i + 1)}: ${count}</title>
              </rect>
            `
          )}</svg>
      <figcaption><span>${edge(0)}</span><span class="quiet">${most.toLocaleString("en")} in the fullest of ${bins
        .length} bins</span><span>${edge(bins.length)}</span></figcaption>
      <details>
        <summary>As a table</summary>
        <table>
          <thead>
            <tr>
              <th scope="col">from</th>
              <th scope="col">to</th>
              <th scope="col">count</th>
            </tr>
          </thead>
          <tbody>${bins.map((count, i) =>
            count > 0 && html`
              <tr>
                <td>${edge(i)}</td>
                <td>${edge(i + 1)}</td>
                <td>${count}</td>
              </tr>
            `
          )}</tbody>
        </table>
      </details>
    </figure>
  `;
}
