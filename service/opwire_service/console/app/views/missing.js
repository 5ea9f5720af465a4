/** The page of an address that the server does not have. */

import { Fragment, html } from "../../vendor/preact.js";
import { nearest } from "../contract.js";
import { at } from "../place.js";
import { useContract } from "./explorer.js";

/** The last part of the address, which may be a misspelt operator. */
function lastPart() {
  return decodeURIComponent(location.pathname.split("/").filter(Boolean).at(-1) ?? "").slice(0, 60);
}

export function Missing() {
  const { contract } = useContract();
  const given = lastPart();
  const names = contract && given.length > 2 ? nearest(contract, given) : [];
  return html`
    <${Fragment}>
      <p class="missing quiet">404</p>
      <h1>Nothing is served here</h1>
      <p><code>${location.pathname}</code> is neither a page nor a route of this server.</p>
      ${names.length > 0 &&
        html`<p>Did you mean ${
          names.map((name, i) =>
            html`${i > 0 ? (i < names.length - 1 ? ", " : " or ") : ""}<a href=${
              at(`operators/${name}`).href
            }>${name}</a>`
          )
        }?</p>`}
      <p class="actions"><a class="button main" href=${at("").href}>All operators</a>
        <a class="button" href=${at("try").href}>Try</a>
        <a class="button" href=${at("docs").href}>Routes of the API</a></p>
      <//>
  `;
}
