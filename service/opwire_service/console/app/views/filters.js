/** Search and filters of the explorer. */

import { html } from "../../vendor/preact.js";
import { NO_FILTER } from "../contract.js";
import { DATA_TYPES } from "../tensor/types.js";

const RANKS = ["1", "2", "3", "4", "5", "6", "7", "8"];
const SIDES = ["any input", "any output", "any tensor"];
const STATES = [["", "any"], ["known", "known"], ["declared", "declared"], ["executable", "runs"]];

function Choice({ label, value, options, onChange }) {
  return html`<label class="choice"><span>${label}</span> <select value=${value} onChange=${(event) =>
    onChange(event.target.value)}>
    ${
    options.map((option) => {
      const [of, text] = Array.isArray(option) ? option : [option, option];
      return html`<option value=${of} selected=${of === value}>${text}</option>`;
    })
  }</select></label>`;
}

export function Filters({ contract, view, change }) {
  const any = (values, word = "any") => [["", word], ...values];
  const families = [...new Set(contract.operators.map((operator) => operator.family))].sort();
  const isFiltered = Object.entries(NO_FILTER).some(([name, value]) => view[name] !== value);
  return html`<form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
    <label class="search"><span class="offscreen">Search</span>
      <input type="search" placeholder="Search names, aliases, families, summaries" value=${view.q} onInput=${(
    event,
  ) => change({ q: event.target.value })} /></label>
    <${Choice} label="Level" value=${view.level} options=${any(contract.levels)} onChange=${(level) =>
    change({ level })} />
    <${Choice} label="Accepts" value=${view.type} options=${any([...DATA_TYPES.keys()])} onChange=${(type) =>
    change({ type })} />
    <${Choice} label="as" value=${view.as} options=${SIDES} onChange=${(as) => change({ as })} />
    <${Choice} label="of rank" value=${view.rank} options=${any(RANKS)} onChange=${(rank) => change({ rank })} />
    <${Choice} label="State" value=${view.state} options=${STATES} onChange=${(state) => change({ state })} />
    <${Choice} label="Changed at" value=${view.changed} options=${any(contract.levels, "any level")} onChange=${(
    changed,
  ) => change({ changed })} />
    <${Choice} label="Family" value=${view.family} options=${any(families)} onChange=${(family) =>
    change({ family })} />
    ${isFiltered && html`<button type="button" onClick=${() => change(NO_FILTER)}>Clear</button>`}
  </form>`;
}
