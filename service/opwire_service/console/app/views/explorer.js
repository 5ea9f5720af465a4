/** The explorer: all operators by feature level, with bands of equal support, search and filters. */

import { Fragment, html, useEffect, useLayoutEffect, useMemo, useState } from "../../vendor/preact.js";
import { open } from "../api.js";
import { nearest, NO_FILTER, rankText, readContract, select, typesText } from "../contract.js";
import { at } from "../place.js";
import { readParameters, writeParameters } from "../state.js";
import { Compared } from "./compared.js";
import { Filters } from "./filters.js";
import { Intro } from "./intro.js";
import { Detail } from "./detail.js";
import { ANSWERS, Matrix, STATE_WORDS } from "./matrix.js";
import { breakable, ProblemNote, Status } from "./shell.js";

const DEFAULTS = { ...NO_FILTER, open: "", band: "", ticked: "" };

const LEAST_PAUSE = 1000;
const LONGEST_PAUSE = 10_000;

/** Loads the contract, and retries while the server does not respond. */
export function useContract() {
  const [found, setFound] = useState({ contract: null, problem: null });
  useEffect(() => {
    let timer = 0;
    let pause = LEAST_PAUSE;
    const ask = async () => {
      try {
        const [schema, { operators }] = await Promise.all([open("v1/schema"), open("v1/operators")]);
        setFound({ contract: readContract(schema, operators), problem: null });
      } catch (problem) {
        setFound({ contract: null, problem });
        if (![0, 429, 503].includes(problem.status)) return;
        timer = setTimeout(ask, Math.max(pause, problem.retryAfter * 1000));
        pause = Math.min(LONGEST_PAUSE, pause * 2);
      }
    };
    ask();
    return () => clearTimeout(timer);
  }, []);
  return found;
}

/** Whether the page is narrow, as on a phone. */
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
  useLayoutEffect(() => {
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
      <p class="quiet">Loading the contract …</p>
    `;
  }
  const ticked = view.ticked ? view.ticked.split(",") : [];
  const tick = (name) =>
    change({ ticked: (ticked.includes(name) ? ticked.filter((each) => each !== name) : [...ticked, name]).join(",") });
  const opened = contract.operators.find((operator) => operator.name === view.open);
  const counts = countStates(contract);
  return html`
    <${Fragment}>
      <div class="title">
        <h1>Operators</h1>
        <${Status}>${rows.length} of ${contract.operators.length}<//>
          <p class="quiet">${counts}</p></div>
        <${Intro} narrow=${narrow} />
        <${Filters} contract=${contract} view=${view} change=${change} />
        ${ticked.length > 0 &&
          html`<${Compared} contract=${contract} names=${ticked} tick=${tick} clear=${() => change({ ticked: "" })} />`}
        ${rows.length === 0 ? html`<${Nothing} contract=${contract} view=${view} change=${change} />` : html`
          <div class="split ${opened ? "open" : ""}">
            ${narrow ? html`<${List} contract=${contract} rows=${rows} view=${view} change=${change} />` : html`
              <${Matrix} contract=${contract} rows=${rows} view=${view} change=${change} ticked=${ticked}
                tick=${tick} />
            `}
            ${opened && html`
              <${Detail} contract=${contract} operator=${opened} band=${Number(view.band) || 0} server=${server}
                close=${() => {
                  change({ open: "", band: "" });
                  focusRow(opened.name);
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
  return `${operators.length} known, ${declared} declared, ${runs} executable`;
}

function Nothing({ contract, view, change }) {
  const names = nearest(contract, view.q);
  const later = view.level ? select(contract, { ...view, level: "" }) : [];
  return html`<div class="note">
    <p>No operators match.</p>
    ${
    names.length > 0 && html`<p>Similar: ${
      names.map((name) =>
        html`
          <button class="small" onClick=${() => change({ ...NO_FILTER, q: name })}>${name}</button>
        `
      )
    }</p>`
  }
    ${
    later.length > 0 &&
    html`<p>${later.length === 1 ? `${later[0].operator.name} matches` : `${later.length} match`} at another level:
      <button class="small" onClick=${() => change({ level: firstLevel(contract, later) })}>first at ${
      firstLevel(contract, later)
    }</button></p>`
  }
    <p><button onClick=${() => change(NO_FILTER)}>Clear filters</button></p>
  </div>`;
}

function firstLevel({ levels }, rows) {
  return levels[
    Math.min(...rows.flatMap(({ bands }) => bands.filter((band) => band.answer !== "no").map((band) => band.from)))
  ];
}

function List({ contract, rows, view, change }) {
  const { levels } = contract;
  const level = view.level ? levels.indexOf(view.level) : levels.length - 1;
  return html`<ul class="list" aria-label="Operators">${
    rows.map(({ operator, bands }) => {
      const band = bands.find((each) => each.from <= level && level <= each.to) ?? bands[0];
      return html`
        <li key=${operator.name}>
          <a href=${at(`operators/${operator.name}`).href} data-operator=${operator.name}><strong>${breakable(
            operator.name,
          )}</strong></a>
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
