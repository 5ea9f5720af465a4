/** Side panel with the support of an operator in a band of levels. */

import { html, useLayoutEffect, useRef } from "../../vendor/preact.js";
import { accuracyText, bandsOf, rankText, typesText, whenOf } from "../contract.js";
import { at } from "../place.js";

/** The tensors of support rows, highlighting what is new since the previous rows. */
export function Tensors({ rows, before = [] }) {
  return html`
    <table class="tensors">
      <caption class="offscreen">Tensors</caption>
      <thead>
        <tr>
          <th scope="col">tensor</th>
          <th scope="col">data types</th>
          <th scope="col">ranks</th>
        </tr>
      </thead>
      <tbody>${rows.flatMap((row) => {
        const when = whenOf(row);
        const old = before.find((each) => whenOf(each) === when);
        return [
          when && html`
            <tr>
              <th scope="rowgroup" colspan="3" class="when">${when}</th>
            </tr>
          `,
          ...Object.entries(row.tensors).map(([name, limits]) => {
            const known = old?.tensors[name]?.data_types ?? (old ? [] : limits.data_types);
            const news = limits.data_types.filter((type) => !known.includes(type));
            return html`
              <tr>
                <th scope="row">${name}</th>
                <td>${typesText(limits.data_types)}${news.length > 0 && html`
                  <span class="new">new: ${typesText(news)}</span>
                `}</td>
                <td>${rankText(limits.ranks).slice(1)}</td>
              </tr>
            `;
          }),
        ];
      })}</tbody>
    </table>
  `;
}

/** Returns the devices that run an operator. */
export function devicesOf(server, name) {
  return (server?.devices ?? []).filter((device) => device.operators?.includes(name)).map((device) => device.name);
}

export function Detail({ contract, operator, band, server, close }) {
  const title = useRef(null);
  const { levels } = contract;
  const bands = bandsOf(operator, levels);
  const chosen = bands[Math.min(band, bands.length - 1)];
  useLayoutEffect(() => title.current?.focus(), [operator.name, band]);
  if (!chosen) return null;
  const before = bands[bands.indexOf(chosen) - 1];
  const span = chosen.from === chosen.to ? levels[chosen.from] : `${levels[chosen.from]} to ${levels[chosen.to]}`;
  const devices = devicesOf(server, operator.name);
  return html`<aside class="detail" aria-label=${operator.name} onKeyDown=${(event) =>
    event.key === "Escape" && close()}>
    <button class="close" aria-label="Close" onClick=${close}>✕</button>
    <h2 tabindex="-1" ref=${title}>${operator.name}<span class="quiet"> ${span}</span></h2>
    <p>${operator.summary}</p>
    <p class="quiet">${
    operator.state === "executable" ? (devices.length ? `runs on ${devices.join(", ")}` : "runs") : operator.state
  }; family ${operator.family}</p>
    <p>Accuracy: ${accuracyText(operator)}.</p>
    ${before && html`<p>Compared with ${levels[before.to]}: ${changes(before, chosen)}</p>`}
    <${Tensors} rows=${chosen.rows} before=${before?.rows} />
    <p class="actions"><a class="button main" href=${tryLink(operator.name, levels[chosen.from])}>Try at ${
    levels[chosen.from]
  }</a>
      <a class="button" href=${at(`operators/${operator.name}`).href}>Operator page</a></p>
  </aside>`;
}

function changes(before, now) {
  const news = now.news.length ? [`new ${typesText(now.news)}`] : [];
  const ranks = now.wider
    ? [`rank ${rankText(before.ranks).slice(1)} extended to ${rankText(now.ranks).slice(1)}`]
    : [];
  const found = [...news, ...ranks];
  return found.length ? found.join("; ") : "some tensors support more";
}

/** Returns a link to an operator on the Try page. */
export function tryLink(name, level, example = "") {
  const state = { v: 1, operator: name, ...(level ? { level } : {}), ...(example ? { example } : {}) };
  return `${at("try").href}#json=${encodeURIComponent(JSON.stringify(state))}`;
}
