/** Page state in the URL fragment, which is never sent to a server. */

const MOST_BYTES = 2 ** 20;
const VERSION = 1;

/** @param {Uint8Array} bytes */
function toBase64(bytes) {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** @param {string} text */
function fromBase64(text) {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
}

/**
 * @param {Uint8Array<ArrayBuffer>} bytes @param {CompressionStream | DecompressionStream} stream
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
async function through(bytes, stream) {
  const reader = new Blob([bytes]).stream().pipeThrough(/** @type {any} */ (stream)).getReader();
  const pieces = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > MOST_BYTES) {
      await reader.cancel();
      throw new Error("the link contains more than 1 MiB");
    }
    pieces.push(value);
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

/**
 * Encodes a state as a fragment, including #.
 * @param {object} state
 */
export async function write(state) {
  const text = JSON.stringify({ v: VERSION, ...state });
  return `#z=${toBase64(await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw")))}`;
}

/**
 * Decodes the state of a fragment: #z= is compressed, #json= is percent-encoded JSON.
 * @param {string} fragment
 * @returns {Promise<any>} null if the fragment has none
 * @throws {Error} if it cannot be read; the message says why
 */
export async function read(fragment) {
  const [, form, text] = /^#(z|json)=(.*)$/s.exec(fragment) ?? [];
  if (!form) return null;
  let state;
  try {
    if (form === "json") state = JSON.parse(decodeURIComponent(text));
    else {state = JSON.parse(
        new TextDecoder().decode(await through(fromBase64(text), new DecompressionStream("deflate-raw"))),
      );}
  } catch (error) {
    const why = error instanceof Error && error.message.startsWith("the link")
      ? error.message
      : "it is damaged or truncated";
    throw new Error(`The link cannot be read: ${why}.`);
  }
  if (!state || typeof state !== "object" || Array.isArray(state)) {
    throw new Error("The link cannot be read: it contains no state.");
  }
  if ((state.v ?? VERSION) !== VERSION) {
    throw new Error(`The link has version ${state.v}; this console supports version ${VERSION}.`);
  }
  return state;
}

/**
 * Reads the parameters of a fragment such as #q=conv&level=4_1; missing ones have their defaults.
 * @template {Record<string, string>} T
 * @param {T} defaults
 * @returns {T}
 */
export function readParameters(defaults) {
  const given = new URLSearchParams(location.hash.slice(1));
  return /** @type {T} */ (Object.fromEntries(
    Object.entries(defaults).map(([name, value]) => [name, given.get(name) ?? value]),
  ));
}

/** @param {Record<string, string>} values @param {Record<string, string>} defaults */
export function writeParameters(values, defaults) {
  const changed = Object.entries(values).filter(([name, value]) => value !== defaults[name]);
  const text = new URLSearchParams(changed).toString();
  history.replaceState(history.state, "", text ? `#${text}` : location.pathname + location.search);
}
