/** The operator table: one row per operator, one cell per band of levels. Rendered in pieces, so that keys stay responsive. */

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { bandsOf, groupsOf, rankText, shortType, typesText } from "../contract.js";

export const STATE_WORDS = { executable: "runs", declared: "declared", known: "known" };

export const ANSWERS = { yes: "✓", no: "✗", partly: "◐" };

/** Rows that fill a screen, and rows added per piece. */
const FIRST = 32;
const PIECE = 24;

/** Abbreviates a band: number of types, ranks and additions. */
function BandText({ band }) {
  const news = band.to > band.from ? band.news.map(shortType).join(" ") : ""; // a single level only has room for the mark
  return html`<span class="count">${band.types.length}</span>, ${rankText(band.ranks)}${
    (band.news.length > 0 || band.wider) && html`
      <span class="new">^${news ? ` ${news}` : ""}</span>
    `
  }`;
}

function bandLabel(levels, band) {
  const span = band.from === band.to ? levels[band.from] : `${levels[band.from]} to ${levels[band.to]}`;
  const news = band.news.length ? `; new: ${band.news.join(", ")}` : "";
  const answer = band.answer ? `; ${band.answer}${band.where.length ? `: ${band.where.join("; ")}` : ""}` : "";
  return `${span}: ${band.types.length} data types (${typesText(band.types)}), rank ${
    band.ranks.join(" to ")
  }${news}${answer}`;
}

/** Returns the rows of the table: one per operator, and for unfolded ones one per group of attribute values. */
function linesOf(rows, unfolded, levels) {
  return rows.flatMap(({ operator, bands }) => {
    const own = { operator, bands, when: "" };
    if (!unfolded.includes(operator.name)) return [own];
    return [
      own,
      ...[...groupsOf(operator).keys()].map((when) => ({
        operator,
        when,
        bands: bandsOf(operator, levels, when).map((band) => ({ ...band, answer: "", where: [] })),
      })),
    ];
  });
}

/**
 * Returns how many rows to render: a screenful at first, then more in each step. Starts over when the rows change.
 * @returns {[number, () => void]} the count, and a function that renders all rows
 */
function usePieces(rows) {
  const [drawn, setDrawn] = useState({ rows, count: FIRST });
  const count = drawn.rows === rows ? drawn.count : FIRST;
  useEffect(() => {
    if (count >= rows.length) return undefined;
    const timer = setTimeout(() => setDrawn({ rows, count: count + PIECE }));
    return () => clearTimeout(timer);
  }, [rows, count]);
  return [count, () => setDrawn({ rows, count: Infinity })];
}

export function Matrix({ contract, rows, view, change, ticked, tick }) {
  const [unfolded, setUnfolded] = useState([]);
  const [cursor, setCursor] = useState([0, 0]);
  const [count, drawAll] = usePieces(rows);
  const grid = useRef(null);
  const wantsFocus = useRef(false);
  const { levels } = contract;
  const lines = useMemo(() => linesOf(rows, unfolded, levels), [rows, unfolded, levels]);
  const drawn = count < lines.length ? lines.slice(0, count) : lines;
  const row = Math.min(cursor[0], lines.length - 1);
  const column = Math.min(cursor[1], lines[row].bands.length);
  useLayoutEffect(() => {
    const cell = wantsFocus.current && grid.current.querySelector(`[data-cell="${row}-${column}"]`);
    wantsFocus.current = false;
    if (cell) cell.focus();
  }, [row, column, count]);
  const move = (to) => {
    const y = Math.max(0, Math.min(lines.length - 1, to[0]));
    const x = Math.max(0, Math.min(lines[y].bands.length, to[1]));
    wantsFocus.current = y !== row || x !== column;
    if (y >= drawn.length) drawAll();
    setCursor([y, x]);
  };
  const act = useRef(null);
  act.current = {
    tick,
    toggle: (name) =>
      setUnfolded(unfolded.includes(name) ? unfolded.filter((each) => each !== name) : [...unfolded, name]),
    open: (y, x) => change({ open: lines[y].operator.name, band: String(Math.max(0, x - 1)) }),
    focused: (y, x) => (y !== row || x !== column) && setCursor([y, x]),
  };
  const pressed = (event) => {
    const { operator } = lines[row];
    const jumps = {
      ArrowDown: [row + 1, column],
      ArrowUp: [row - 1, column],
      ArrowRight: [row, column + 1],
      ArrowLeft: [row, column - 1],
      Home: [event.ctrlKey ? 0 : row, 0],
      End: [event.ctrlKey ? lines.length - 1 : row, 99],
      PageDown: [row + 20, column],
      PageUp: [row - 20, column],
    };
    if (jumps[event.key]) move(jumps[event.key]);
    else if (event.key === "Enter" || (event.key === " " && column > 0)) act.current.open(row, column);
    else if (event.key === " ") tick(operator.name);
    else if (event.key === "Escape" && view.open) change({ open: "", band: "" });
    else if ((event.key === "+" || event.key === "-") && groupsOf(operator).size > 1) act.current.toggle(operator.name);
    else return;
    event.preventDefault();
  };
  return html`
    <div class="matrix" role="region" aria-label="Operators by feature level" ref=${grid} onKeyDown=${pressed}>
      <table role="grid" aria-rowcount=${lines.length + 1}>
        <caption
          class="offscreen">Operators by feature level. Each cell spans the levels with the same support: number of data types, ranks, and ^ with additions.</caption>
        <thead>
          <tr><th scope="col">operator</th><th scope="col">state</th>${levels.map((level) =>
            html`<th scope="col" class=${level === view.level ? "chosen" : ""}>${level}</th>`
          )}</tr>
        </thead>
        <tbody>${drawn.map((line, y) =>
          html`
            <${Line} key=${line.operator.name + line.when} line=${line} y=${y} levels=${levels} act=${act}
              column=${y === row ? column : -1} isOpen=${line.operator.name === view.open}
              isTicked=${ticked.includes(line.operator.name)} isUnfolded=${unfolded.includes(line.operator.name)} />
          `
        )}</tbody>
      </table>
    </div>
  `;
}

/** A row, memoized until its props change. */
function Line(props) {
  return useMemo(() => drawLine(props), Object.values(props));
}

function drawLine({ line: { operator, bands, when }, y, levels, act, column, isOpen, isTicked, isUnfolded }) {
  const { name } = operator;
  const cell = (x) => ({
    tabindex: x === column ? 0 : -1,
    "data-cell": `${y}-${x}`,
    onFocus: () => act.current.focused(y, x),
    onClick: () => act.current.open(y, x),
  });
  const inside = (does) => (event) => {
    event.stopPropagation();
    does();
  };
  return html`
    <tr class="${when ? "sub" : ""} ${isOpen ? "chosen" : ""}">
      <th scope="row" ...${cell(0)} data-operator=${when ? undefined : name}
        aria-label=${`${name} ${when}`.trim()} title=${operator.summary}>
        ${when ? html`<span class="when">${when}</span>` : html`
          <span class="tick"><input type="checkbox" tabindex="-1" checked=${isTicked} aria-label="Compare ${name}"
            onClick=${inside(() => act.current.tick(name))} /></span>
          ${groupsOf(operator).size > 1 && html`
            <button class="fold" tabindex="-1" aria-label="Rows of ${name}" aria-expanded=${isUnfolded}
              onClick=${inside(() => act.current.toggle(name))}>${isUnfolded ? "▾" : "▸"}</button>
          `}
          <span class="name">${name}</span>
        `}
      </th>
      <td class="state ${operator.state}">${when ? "" : STATE_WORDS[operator.state]}</td>
      ${bands.length > 0 && bands[0].from > 0 &&
        html`<td class="none" colspan=${bands[0].from}>–<span class="offscreen"> not before ${
          levels[bands[0].from]
        }</span></td>`}
      ${bands.map((band, i) =>
        html`
          <td class="band ${band.answer} ${band.news.length || band.wider ? "changed" : ""}" colspan=${band.to -
            band.from + 1} ...${cell(i + 1)} title=${bandLabel(levels, band)} aria-label=${bandLabel(levels, band)}>
                      ${band.answer &&
                        html`<span class="answer" aria-hidden="true">${
                          ANSWERS[band.answer]
                        } </span>`}<${BandText} band=${band} /></td>
        `
      )}
    </tr>
  `;
}
