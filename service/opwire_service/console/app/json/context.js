/** The context of a cursor in JSON text, which may be unfinished; used for completion. */

const TOKEN = /\/\/[^\n]*|\/\*[^]*?(?:\*\/|$)|"(?:[^"\\\n]|\\.)*"?|[-+.\w]+|[{}[\]:,]/g;

/**
 * @typedef {{path: string[], role: "key" | "value", from: number, to: number, keys: string[], closed: boolean}} Context
 *   path leads to the enclosing object or array, and to the member in it if role is value; from and to delimit the token
 *   at the cursor; keys are the existing keys of the object; closed tells whether something follows the cursor
 */

/** @param {string} token */
function text(token) {
  return token.replace(/^"|"$/g, "");
}

/**
 * @param {string} source @param {number} offset
 * @returns {Context | null} null in a comment, and where nothing can be inserted
 */
export function contextAt(source, offset) {
  /** @type {{kind: string, key: string, index: number, keys: string[], expects: string}[]} */
  const stack = [];
  let from = offset;
  let to = offset;
  /** @type {Context | null} */
  let found = null;
  const top = () => stack[stack.length - 1];
  const describe = () => {
    const inner = top();
    const path = stack.slice(0, -1).map((each) => (each.kind === "{" ? each.key : String(each.index)));
    if (!inner) return { path, role: /** @type {"value"} */ ("value"), from, to, keys: [], closed: true };
    const isKey = inner.kind === "{" && inner.expects === "key";
    if (!isKey) path.push(inner.kind === "{" ? inner.key : String(inner.index));
    return {
      path,
      role: /** @type {"key" | "value"} */ (isKey ? "key" : "value"),
      from,
      to,
      keys: inner.keys,
      closed: true,
    };
  };
  let depth = 0;
  for (const match of source.matchAll(TOKEN)) {
    const [token] = match;
    const end = match.index + token.length;
    if (!found) {
      const isOpen = token.startsWith('"') && (token.length === 1 || !token.endsWith('"'));
      const isInside = /^["\w.+-]/.test(token) && match.index < offset &&
        (offset < end || (offset === end && (isOpen || !token.startsWith('"'))));
      if (token.startsWith("/") && match.index < offset && offset <= end) return null;
      if (isInside) [from, to] = [match.index, end];
      if (isInside || match.index >= offset) {
        found = describe();
        depth = stack.length;
        if (isInside) continue;
      }
    }
    if (found && stack.length < depth) break;
    step(token);
  }
  return found ?? describe();

  /** @param {string} token */
  function step(token) {
    const inner = top();
    if (token === "{" || token === "[") {
      stack.push({ kind: token, key: "", index: 0, keys: [], expects: token === "{" ? "key" : "value" });
    } else if (token === "}" || token === "]") stack.pop();
    else if (inner && token === ",") {
      inner.index++;
      inner.expects = inner.kind === "{" ? "key" : "value";
    } else if (inner && token === ":") inner.expects = "value";
    else if (inner?.kind === "{" && inner.expects === "key" && token.startsWith('"')) {
      inner.key = text(token);
      inner.keys.push(inner.key);
    }
  }
}
