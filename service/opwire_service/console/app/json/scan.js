/**
 * Parses JSON as DxDispatch accepts it, with comments, trailing commas and nan, to a tree with the range of each value, and
 * to plain JSON. Numbers stay text, so that none is rounded.
 *
 * @typedef {{from: number, to: number, message: string}} Mistake
 * @typedef {{key: string, keyFrom: number, keyTo: number, value: Node}} Member
 * @typedef {{kind: string, from: number, to: number, text?: string, members?: Member[], items?: Node[]}} Node
 *   kind is object, array, string, number, word or missing; text is the string, or how a number or word is written.
 */

const MOST_DEPTH = 500;
const SPACE = /[ \t\r\n]*/y;
const COMMENT = /\/\/[^\n]*|\/\*[^]*?\*\//y;
// deno-lint-ignore no-control-regex -- not allowed in JSON strings
const STRING = /"(?:[^"\\\u0000-\u001f]|\\.)*"/y;
const SCALAR = /[-+.\w]+/y;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;
const WORDS = new Map([
  ["true", "true"],
  ["false", "false"],
  ["null", "null"],
  ["nan", "NaN"],
  ["NaN", "NaN"],
  ["inf", "Infinity"],
  ["-inf", "-Infinity"],
  ["Infinity", "Infinity"],
  ["-Infinity", "-Infinity"],
]);

class Scanner {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
    /** @type {Mistake[]} */
    this.mistakes = [];
    /** @type {{from: number, to: number, by: string}[]} replacements that turn the text into plain JSON */
    this.changes = [];
  }

  /** @param {RegExp} pattern */
  take(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found ? found[0] : null;
  }

  /** @param {number} from @param {number} to */
  blank(from, to) {
    this.changes.push({ from, to, by: this.text.slice(from, to).replace(/[^\r\n]/g, " ") });
  }

  skip() {
    for (;;) {
      this.take(SPACE);
      const from = this.at;
      if (this.take(COMMENT) === null) return;
      this.blank(from, this.at);
    }
  }

  /** @param {string} message @param {number} from @param {number} to @returns {never} */
  fail(message, from = this.at, to = Math.min(this.at + 1, this.text.length)) {
    this.mistakes.push({ from, to, message });
    throw this;
  }

  /** @param {number} depth @returns {Node} */
  value(depth) {
    if (depth > MOST_DEPTH) this.fail(`nested more than ${MOST_DEPTH} deep`);
    const mark = this.text[this.at];
    if (mark === "{") return this.object(depth);
    if (mark === "[") return this.array(depth);
    const from = this.at;
    if (mark === '"') return { kind: "string", from, text: this.string(), to: this.at };
    const text = this.take(SCALAR);
    if (text === null) {
      this.fail(mark === undefined ? "missing value at the end" : `expected a value, not ${mark}`);
    }
    const word = WORDS.get(text);
    if (word === undefined && !NUMBER.test(text)) this.fail(`${text} is not a valid value`, from, this.at);
    if (word !== undefined && word !== text) this.changes.push({ from, to: this.at, by: word });
    return { kind: word === undefined ? "number" : "word", from, to: this.at, text: word ?? text };
  }

  string() {
    const from = this.at;
    const found = this.take(STRING);
    if (found === null) {
      const end = this.text.indexOf("\n", from);
      this.fail("unterminated string", from, end < 0 ? this.text.length : end);
    }
    try {
      return JSON.parse(found);
    } catch {
      this.fail("invalid escape in string", from, this.at);
    }
  }

  /** @param {number} depth @returns {Node} */
  object(depth) {
    /** @type {Node} */
    const node = { kind: "object", from: this.at, to: this.at, members: [] };
    const members = /** @type {Member[]} */ (node.members);
    this.list("}", () => {
      const keyFrom = this.at;
      if (this.text[this.at] !== '"') this.fail("expected a member name in double quotes");
      const key = this.string();
      const keyTo = this.at;
      if (members.some((member) => member.key === key)) {
        this.fail(`duplicate member ${key}`, keyFrom, keyTo);
      }
      this.skip();
      if (this.text[this.at] !== ":") this.fail("missing colon", keyFrom, keyTo);
      this.at++;
      this.skip();
      members.push({ key, keyFrom, keyTo, value: { kind: "missing", from: this.at, to: this.at } });
      members[members.length - 1].value = this.value(depth + 1);
    });
    node.to = this.at;
    return node;
  }

  /** @param {number} depth @returns {Node} */
  array(depth) {
    /** @type {Node} */
    const node = { kind: "array", from: this.at, to: this.at, items: [] };
    this.list("]", () => node.items?.push(this.value(depth + 1)));
    node.to = this.at;
    return node;
  }

  /** @param {string} end @param {() => void} item */
  list(end, item) {
    const begin = this.at++;
    this.skip();
    while (this.text[this.at] !== end) {
      item();
      this.skip();
      const comma = this.at;
      const mark = this.text[this.at];
      if (mark === end) break;
      if (mark !== ",") {
        if (mark === undefined) this.fail(`missing ${end}`, begin, begin + 1);
        this.fail("missing comma before this", this.at, this.at + 1);
      }
      this.at++;
      this.skip();
      if (this.text[this.at] === end) this.blank(comma, comma + 1);
    }
    this.at++;
  }

  plain() {
    let text = "";
    let from = 0;
    for (const change of this.changes.sort((a, b) => a.from - b.from)) {
      text += this.text.slice(from, change.from) + change.by;
      from = change.to;
    }
    return text + this.text.slice(from);
  }
}

/**
 * Parses a text.
 * @param {string} text
 * @returns {{node: Node | null, plain: string, mistakes: Mistake[]}} plain is JSON if there are no mistakes
 */
export function scan(text) {
  const scanner = new Scanner(text);
  /** @type {Node | null} */
  let node = null;
  try {
    scanner.skip();
    node = scanner.value(0);
    scanner.skip();
    if (scanner.at < text.length) scanner.fail("unexpected text after the value", scanner.at, text.length);
  } catch (error) {
    if (error !== scanner) throw error;
  }
  return { node, plain: scanner.plain(), mistakes: scanner.mistakes };
}

/**
 * Returns the value of a node, with numbers as JavaScript numbers, which rounds large integers.
 * @param {Node | null | undefined} node
 * @returns {any}
 */
export function valueOf(node) {
  if (!node || node.kind === "missing") return undefined;
  if (node.kind === "object") {
    return Object.fromEntries((node.members ?? []).map((each) => [each.key, valueOf(each.value)]));
  }
  if (node.kind === "array") return (node.items ?? []).map(valueOf);
  if (node.kind === "number") return Number(node.text);
  if (node.kind === "word") {
    return node.text === "null" ? null : node.text === "true" ? true : node.text === "false" ? false : node.text;
  }
  return node.text;
}
