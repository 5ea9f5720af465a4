/** The tensors of the page, in a worker thread, so that slow operations do not block the page. */

let script = /** @type {any} */ (new URL("./worker.js", import.meta.url).href);
const trusted = /** @type {any} */ (globalThis).trustedTypes;
if (trusted) {
  const policy = trusted.createPolicy("opwire", {
    createScriptURL: (/** @type {string} */ url) => {
      if (new URL(url).origin !== location.origin) throw new TypeError("a script of another origin");
      return url;
    },
  });
  script = policy.createScriptURL(script);
}

let worker = /** @type {Worker | null} */ (null);
let last = 0;
/** @type {Map<number, {resolve: (value: any) => void, reject: (error: Error) => void}>} */
const waiting = new Map();

function start() {
  const made = new Worker(script, { type: "module" });
  made.addEventListener("message", ({ data: { number, result, error } }) => {
    const asked = waiting.get(number);
    waiting.delete(number);
    if (error === undefined) asked?.resolve(result);
    else asked?.reject(new Error(error));
  });
  made.addEventListener("error", () => {
    // The script could not be loaded; the next task tries again.
    worker = null;
    for (const asked of waiting.values()) asked.reject(new Error("the tensor worker could not be loaded"));
    waiting.clear();
  });
  return made;
}

/** Starts the worker early, while the server is available to deliver its script. */
export function warm() {
  worker ??= start();
}

/**
 * Runs a task of worker.js.
 * @param {string} task @param {object} given
 * @returns {Promise<any>}
 */
export function ask(task, given) {
  worker ??= start();
  const number = ++last;
  return new Promise((resolve, reject) => {
    waiting.set(number, { resolve, reject });
    worker?.postMessage({ number, task, given });
  });
}
