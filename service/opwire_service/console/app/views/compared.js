/** Selected operators side by side: support by level, and members. */

import { html } from "../../vendor/preact.js";
import { bandsOf, rankText, typesText } from "../contract.js";

export function Compared({ contract, names, tick, clear }) {
  const { levels } = contract;
  const chosen = names.map((name) => contract.operators.find((operator) => operator.name === name)).filter(Boolean);
  if (chosen.length === 1) {
    return html`
      <p
        class="note">${chosen[0]
          .name} is selected. Select another operator to compare. <button class="small" onClick=${clear}>Clear</button></p>
    `;
  }
  const bands = new Map(chosen.map((operator) => [operator, bandsOf(operator, levels)]));
  const starts = [...new Set([...bands.values()].flat().map((band) => band.from))].sort((a, b) => a - b);
  const members = [...new Set(chosen.flatMap((operator) => operator.members.map((member) => member.name)))];
  return html`
    <section class="compared" aria-label="Compared" tabindex="0">
      <table>
        <caption>Compared <button class="small" onClick=${clear}>Clear</button></caption>
        <thead>
          <tr><th scope="col">from</th>${chosen.map(({ name }) =>
            html`<th scope="col">${name} <button class="small" aria-label="Remove ${name}" onClick=${() =>
              tick(name)}>✕</button></th>`
          )}</tr>
        </thead>
        <tbody>
          ${starts.map((start) =>
            html`<tr><th scope="row">${levels[start]}</th>${
              chosen.map((operator) => {
                const band = bands.get(operator).find((each) => each.from <= start && start <= each.to);
                return html`<td class=${band && band.from === start ? "" : "quiet"}>${
                  band ? (band.from === start ? `${typesText(band.types)}; ${rankText(band.ranks)}` : "unchanged") : "–"
                }</td>`;
              })
            }</tr>`
          )}
          ${members.map((name) =>
            html`<tr><th scope="row">${name}</th>${
              chosen.map((operator) => {
                const member = operator.members.find((each) => each.name === name);
                return html`<td>${member ? member.role ?? member.number ?? member.enum ?? member.kind : "–"}</td>`;
              })
            }</tr>`
          )}
        </tbody>
      </table>
    </section>
  `;
}
