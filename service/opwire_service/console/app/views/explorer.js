/** All operators by feature level: bands of equal support, search and filters, and what changed where. */

import { Fragment, html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { get } from "../api.js";
import {
  bandsOf,
  groupsOf,
  nearest,
  NO_FILTER,
  rankText,
  readContract,
  select,
  shortType,
  typesText,
} from "../contract.js";
import { at } from "../place.js";
import { readParameters, writeParameters } from "../state.js";
import { Compared } from "./compared.js";
import { Filters } from "./filters.js";
import { Detail } from "./detail.js";
import { ProblemNote, Status } from "./shell.js";

export const STATE_WORDS = { executable: "runs", declared: "declared", known: "known" };

const DEFAULTS = { ...NO_FILTER, open: "", band: "", ticked: "" };

/** The contract, once it is there. */
export function useContract() {
  const [found, setFound] = useState({ contract: null, problem: null });
  useEffect(() => {
    Promise.all([get("v1/schema"), get("v1/operators")])
      .then(([schema, { operators }]) => setFound({ contract: readContract(schema, operators), problem: null }))
      .catch((problem) => setFound({ contract: null, problem }));
  }, []);
  return found;
}

/** Whether the page is as narrow as a phone. */
export function useNarrow() {
  const query = "(max-width: 760px)";
  const [narrow, setNarrow] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const change = () => setNarrow(list.matches);
    list.addEventListener("change", change);
    return () => list.removeEventListener("change", change);
  }, []);
  return narrow;
}

export function Explorer({ server }) {
  const { contract, problem } = useContract();
  const [view, setView] = useState(() => readParameters(DEFAULTS));
  const narrow = useNarrow();
  useEffect(() => {
    const read = () => setView(readParameters(DEFAULTS));
    addEventListener("hashchange", read);
    return () => removeEventListener("hashchange", read);
  }, []);
  const change = (changed) => {
    const next = { ...view, ...changed };
    setView(next);
    writeParameters(next, DEFAULTS);
  };
  const rows = useMemo(() => contract && select(contract, view), [
    contract,
    view.q,
    view.level,
    view.type,
    view.as,
    view.rank,
    view.state,
    view.changed,
    view.family,
  ]);
  if (problem) {
    return html`
      <h1>Operators</h1>
      <${ProblemNote} problem=${problem} />
    `;
  }
  if (!contract) {
    return html`
      <h1>Operators</h1>
      <p class="quiet">Reading the contract …</p>
    `;
  }
  const ticked = view.ticked ? view.ticked.split(",") : [];
  const tick = (name) =>
    change({ ticked: (ticked.includes(name) ? ticked.filter((each) => each !== name) : [...ticked, name]).join(",") });
  const open = contract.operators.find((operator) => operator.name === view.open);
  const counts = countStates(contract);
  return html`
    <${Fragment}>
      <div class="title">
        <h1>Operators</h1>
        <${Status}>${rows.length} of ${contract.operators.length}<//>
          <p class="quiet">${counts}</p></div>
        <${Filters} contract=${contract} view=${view} change=${change} />
        ${ticked.length > 0 &&
          html`<${Compared} contract=${contract} names=${ticked} tick=${tick} clear=${() => change({ ticked: "" })} />`}
        ${rows.length === 0 ? html`<${Nothing} contract=${contract} view=${view} change=${change} />` : html`
          <div class="split ${open ? "open" : ""}">
            ${narrow ? html`<${List} contract=${contract} rows=${rows} view=${view} change=${change} />` : html`
              <${Matrix} contract=${contract} rows=${rows} view=${view} change=${change} ticked=${ticked}
                tick=${tick} />
            `}
            ${open && html`
              <${Detail} contract=${contract} operator=${open} band=${Number(view.band) || 0} server=${server}
                close=${() => {
                  change({ open: "", band: "" });
                  focusRow(open.name);
                }} />
            `}
          </div>
        `}
      <//>
  `;
}

function focusRow(name) {
  requestAnimationFrame(() =>
    /** @type {HTMLElement | null} */ (document.querySelector(`[data-operator="${name}"]`))?.focus()
  );
}

function countStates({ operators }) {
  const runs = operators.filter((operator) => operator.state === "executable").length;
  const declared = operators.filter((operator) => operator.state !== "known").length;
  return `${operators.length} known, ${declared} declared, ${runs} run`;
}

function Nothing({ contract, view, change }) {
  const names = nearest(contract, view.q);
  const later = view.level ? select(contract, { ...view, level: "" }) : [];
  return html`<div class="note">
    <p>No operator is left.</p>
    ${
    names.length > 0 && html`<p>Near: ${
      names.map((name) =>
        html`
          <button class="small" onClick=${() => change({ ...NO_FILTER, q: name })}>${name}</button>
        `
      )
    }</p>`
  }
    ${
    later.length > 0 &&
    html`<p>${later.length === 1 ? `${later[0].operator.name} is` : `${later.length} are`} there at another level:
      <button class="small" onClick=${() => change({ level: firstLevel(contract, later) })}>first at ${
      firstLevel(contract, later)
    }</button></p>`
  }
    <p><button onClick=${() => change(NO_FILTER)}>Clear the filters</button></p>
  </div>`;
}

function firstLevel({ levels }, rows) {
  return levels[
    Math.min(...rows.flatMap(({ bands }) => bands.filter((band) => band.answer !== "no").map((band) => band.from)))
  ];
}

/** A band in a few characters: how many types, which ranks, and what is new. */
function BandText({ band }) {
  const news = band.to > band.from ? band.news.map(shortType).join(" ") : ""; // one level is too narrow for more than the mark
  return html`<span class="count">${band.types.length}</span>, ${rankText(band.ranks)}${
    (band.news.length > 0 || band.wider) && html`
      <span class="new">^${news ? ` ${news}` : ""}</span>
    `
  }`;
}

const ANSWERS = { yes: "✓", no: "✗", partly: "◐" };

function bandLabel(contract, band) {
  const { levels } = contract;
  const span = band.from === band.to ? levels[band.from] : `${levels[band.from]} to ${levels[band.to]}`;
  const news = band.news.length ? `; new: ${band.news.join(", ")}` : "";
  const answer = band.answer ? `; ${band.answer}${band.where.length ? `: ${band.where.join("; ")}` : ""}` : "";
  return `${span}: ${band.types.length} data types (${typesText(band.types)}), rank ${
    band.ranks.join(" to ")
  }${news}${answer}`;
}

function Matrix({ contract, rows, view, change, ticked, tick }) {
  const [unfolded, setUnfolded] = useState([]);
  const [cursor, setCursor] = useState([0, 0]);
  const grid = useRef(null);
  const { levels } = contract;
  const lines = rows.flatMap(({ operator, bands }) => {
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
  const toggle = (name) =>
    setUnfolded(unfolded.includes(name) ? unfolded.filter((each) => each !== name) : [...unfolded, name]);
  const row = Math.min(cursor[0], lines.length - 1);
  const column = Math.min(cursor[1], lines[row].bands.length);
  const move = (to) => {
    const y = Math.max(0, Math.min(lines.length - 1, to[0]));
    const next = [y, Math.max(0, Math.min(lines[y].bands.length, to[1]))];
    setCursor(next);
    requestAnimationFrame(() => grid.current.querySelector(`[data-cell="${next.join("-")}"]`)?.focus());
  };
  const openAt = (y, x) => change({ open: lines[y].operator.name, band: String(Math.max(0, x - 1)) });
  const pressed = (event) => {
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
    else if (event.key === "Enter" || (event.key === " " && column > 0)) openAt(row, column);
    else if (event.key === " ") tick(lines[row].operator.name);
    else if (event.key === "Escape" && view.open) change({ open: "", band: "" });
    else if ((event.key === "+" || event.key === "-") && groupsOf(lines[row].operator).size > 1) {
      toggle(lines[row].operator.name);
    } else return;
    event.preventDefault();
  };
  const cell = (y, x) => ({
    tabindex: y === row && x === column ? 0 : -1,
    "data-cell": `${y}-${x}`,
    onFocus: () => (y !== row || x !== column) && setCursor([y, x]),
  });
  return html`
    <div class="matrix" role="region" aria-label="Operators by feature level" ref=${grid} onKeyDown=${pressed}>
      <table role="grid" aria-rowcount=${lines.length + 1}>
        <caption
          class="offscreen">Operators by feature level. Each cell spans the levels with the same support: count of data types, ranks, and ^ with what is new.</caption>
        <thead>
          <tr><th scope="col">operator</th><th scope="col">state</th>${levels.map((level) =>
            html`<th scope="col" class=${level === view.level ? "chosen" : ""}>${level}</th>`
          )}</tr>
        </thead>
        <tbody>${lines.map(({ operator, bands, when }, y) =>
          html`
            <tr key=${operator.name + when} class="${when ? "sub" : ""} ${operator.name === view.open ? "chosen" : ""}">
              <th scope="row" ...${cell(y, 0)} data-operator=${when ? undefined : operator.name} onClick=${() =>
                openAt(y, 0)}
                aria-label=${`${operator.name} ${when}`.trim()} title=${operator.summary}>
                ${when ? html`<span class="when">${when}</span>` : html`
                  <span class="tick"><input type="checkbox" tabindex="-1" checked=${ticked.includes(
                    operator.name,
                  )} aria-label="Compare ${operator.name}"
                    onClick=${(event) => {
                      event.stopPropagation();
                      tick(operator.name);
                    }} /></span>
                  ${groupsOf(operator).size > 1 && html`
                    <button class="fold" tabindex="-1" aria-label="Rows of ${operator.name}" aria-expanded=${unfolded
                      .includes(operator.name)}
                      onClick=${(event) => {
                        event.stopPropagation();
                        toggle(operator.name);
                      }}>${unfolded.includes(operator.name) ? "▾" : "▸"}</button>
                  `}
                  <span class="name">${operator.name}</span>
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
                    band.from + 1} ...${cell(y, i + 1)}
                    onClick=${() => {
                      setCursor([y, i + 1]);
                      openAt(y, i + 1);
                    }} title=${bandLabel(contract, band)} aria-label=${bandLabel(contract, band)}>
                              ${band.answer &&
                                html`<span class="answer" aria-hidden="true">${
                                  ANSWERS[band.answer]
                                } </span>`}<${BandText} band=${band} /></td>
                `
              )}
            </tr>
          `
        )}</tbody>
      </table>
    </div>
  `;
}

function List({ contract, rows, view, change }) {
  const { levels } = contract;
  const level = view.level ? levels.indexOf(view.level) : levels.length - 1;
  return html`<ul class="list" aria-label="Operators">${
    rows.map(({ operator, bands }) => {
      const band = bands.find((each) => each.from <= level && level <= each.to) ?? bands[0];
      return html`
        <li key=${operator.name}>
          <a href=${at(`operators/${operator.name}`).href} data-operator=${operator.name}><strong>${operator
            .name}</strong></a>
          <span class="state ${operator.state}">${STATE_WORDS[operator.state]}</span>
          <span class="quiet">from ${operator.introduced}</span>
          <button class="row" onClick=${() =>
            change({ open: operator.name, band: String(bands.indexOf(band)) })} aria-label="${operator
            .name} at ${levels[level]}">
                ${band.answer &&
                  html`<span class="answer ${band.answer}">${ANSWERS[band.answer]} ${band.answer}; </span>`}
                at ${levels[level]}: ${typesText(band.types)}, ${rankText(band.ranks)}</button>
        </li>
      `;
    })
  }</ul>`;
}
