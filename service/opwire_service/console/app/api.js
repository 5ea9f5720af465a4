/** Requests to the server. The API key is sent as a header, kept only in this tab, and requested when needed. */

import { at, base } from "./place.js";
import { recall, remember } from "./storage.js";

const BINARY = "application/octet-stream";
const HEAD_LENGTH = "Inference-Header-Content-Length";
const MOST_SHOWN = 200;
const KEY = `opwire-key ${base.pathname}`;

export function key() {
  return recall(KEY);
}

/** @param {string | null} given */
export function keep(given) {
  remember(KEY, given);
}

/** @type {((problem: Problem) => Promise<boolean>) | null} asks the user for a key; true once there is a new one */
let askForKey = null;

/** @param {((problem: Problem) => Promise<boolean>) | null} asks */
export function onUnauthorized(asks) {
  askForKey = asks;
}

/** Why a request failed; status is 0 without a response. */
export class Problem extends Error {
  /** @param {{status: number, title: string, detail: string, code?: string, requestId?: string, retryAfter?: number, violations?: any[], members?: any}} given */
  constructor(given) {
    super(given.detail || given.title);
    this.status = given.status;
    this.title = given.title;
    this.detail = given.detail;
    this.code = given.code ?? "";
    this.requestId = given.requestId ?? "";
    this.retryAfter = given.retryAfter ?? 0;
    this.violations = given.violations ?? [];
    this.members = given.members ?? {};
  }
}

/** @param {Response} response */
async function problemOf(response) {
  const text = await response.text().catch(() => "");
  const requestId = response.headers.get("x-request-id") ?? "";
  const retryAfter = Number(response.headers.get("retry-after")) || 0;
  try {
    const found = JSON.parse(text);
    return new Problem({
      ...found,
      members: found,
      status: response.status,
      requestId: found.request_id || requestId,
      retryAfter,
    });
  } catch {
    return new Problem({ ...notJson(response.status, text), requestId, retryAfter });
  }
}

/** Describes a response that does not come from this server, such as a proxy's error page. @param {number} status @param {string} text */
function notJson(status, text) {
  return { status, title: `The response is not JSON (status ${status})`, detail: text.slice(0, MOST_SHOWN) };
}

/**
 * Requests a public resource that the page preloads; the request must be identical to the preload.
 * @param {string} path @returns {Promise<any>} @throws {Problem}
 */
export async function open(path) {
  const response = await connect(path, { credentials: "same-origin" });
  if (!response.ok) throw await problemOf(response);
  return json(response);
}

/** @param {string} path @param {RequestInit} init @returns {Promise<Response>} */
async function connect(path, init) {
  try {
    return await fetch(at(path), init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem({
      status: 0,
      title: "The server cannot be reached",
      detail: "no connection; the server may be restarting",
    });
  }
}

/**
 * @param {string} path
 * @param {{method?: string, body?: BodyInit, headers?: Record<string, string>, signal?: AbortSignal, quiet?: boolean}} options
 *   quiet requests do not ask for a key
 * @returns {Promise<Response>} a successful response
 * @throws {Problem}
 */
async function send(path, { quiet = false, headers = {}, ...options } = {}) {
  for (;;) {
    const found = key();
    const authorization = found ? { Authorization: `Bearer ${found}` } : {};
    const init = /** @type {RequestInit} */ ({
      ...options,
      headers: { ...headers, ...authorization },
      credentials: "omit",
      redirect: "error",
    });
    const response = await connect(path, init);
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (problem.status !== 401 || quiet || !askForKey || !(await askForKey(problem))) throw problem;
  }
}

/**
 * @param {string} path @param {{signal?: AbortSignal, quiet?: boolean}} options
 * @returns {Promise<any>}
 */
export async function get(path, options = {}) {
  return json(await send(path, options));
}

/** @param {Response} response */
async function json(response) {
  const text = await read(() => response.text());
  try {
    return JSON.parse(text);
  } catch {
    throw new Problem(notJson(response.status, text));
  }
}

/** @param {() => Promise<any>} body */
async function read(body) {
  try {
    return await body();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem({ status: 0, title: "The server cannot be reached", detail: "the response was truncated" });
  }
}

/**
 * Validates the text of an operator, graph or model at a level.
 * @param {string} subject "operator", "graph" or "model" @param {string} text as JSON @param {string} level @param {AbortSignal} signal
 */
export async function validate(subject, text, level, signal) {
  const body = `{"feature_level":${JSON.stringify(level)},"${subject}":${text}}`;
  const headers = { "Content-Type": "application/json" };
  return json(await send("v1/validate", { method: "POST", body, headers, signal }));
}

/**
 * Validates an ONNX model: its nodes with their levels, and the graph that it becomes.
 * @param {Blob} model @param {Record<string, string>} sizes of its dimensions @param {AbortSignal} signal
 */
export async function validateModel(model, sizes, signal) {
  const query = new URLSearchParams(Object.entries(sizes).map(([name, size]) => ["dim", `${name}=${size}`]));
  const headers = { "Content-Type": "application/x-onnx" };
  return json(await send(`v1/validate?${query}`, { method: "POST", body: model, headers, signal }));
}

/**
 * Runs a text on tensors.
 * @param {{subject: string, text: string, level: string, device: string, timeout?: number}} request
 * @param {{name: string, blob: Blob}[]} inputs by name; those of an array as NAME[0], NAME[1], ...
 * @param {AbortSignal} signal
 * @returns {Promise<{answer: any, blob: Blob, tail: number, milliseconds: number}>} blob is the unread body, tail the
 *   offset of the tensors in it
 */
export async function execute(request, inputs, signal) {
  const { head, blobs } = requestHead(request, inputs);
  const bytes = new TextEncoder().encode(head);
  const isModel = request.subject === "model"; // its tensors are in its resources
  const headers = {
    Accept: BINARY,
    ...(isModel
      ? { "Content-Type": "application/json" }
      : { "Content-Type": BINARY, [HEAD_LENGTH]: String(bytes.length) }),
  };
  const begun = performance.now();
  const response = await send("v1/execute", { method: "POST", body: new Blob([bytes, ...blobs]), headers, signal });
  const blob = await read(() => response.blob());
  const milliseconds = performance.now() - begun;
  const tail = Number(response.headers.get(HEAD_LENGTH) ?? blob.size);
  return { answer: JSON.parse(await blob.slice(0, tail).text()), blob, tail, milliseconds };
}

/**
 * Builds the JSON of a request, with the text exactly as written, and the tensors in the order of their names.
 * @param {{subject: string, text: string, level: string, device: string, timeout?: number}} request
 * @param {{name: string, blob: Blob}[]} inputs
 */
function requestHead({ subject, text, level, device, timeout }, inputs) {
  /** @type {Map<string, any>} */
  const named = new Map();
  for (const { name, blob } of inputs) {
    const array = /^(.*)\[\d+\]$/.exec(name)?.[1];
    const tensor = { binary_data_size: blob.size };
    if (array === undefined) named.set(name, tensor);
    else named.set(array, [...(named.get(array) ?? []), tensor]);
  }
  const rest = [
    `"feature_level":${JSON.stringify(level)}`,
    `"${subject}":${text}`,
    ...(subject === "model" ? [] : [`"inputs":${JSON.stringify(Object.fromEntries(named))}`]),
    ...(device === "auto" ? [] : [`"device":${JSON.stringify(device)}`]),
    ...(timeout ? [`"timeout_ms":${timeout}`] : []),
  ];
  return { head: `{${rest.join(",")}}`, blobs: inputs.map(({ blob }) => blob) };
}
