/** The state of the page Try: its text and its inputs, in the address; what the server says of them; and runs. */

import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { execute, get, validate } from "../api.js";
import { byTensor } from "../descs.js";
import { operatorOf } from "../editor/completion.js";
import { marksOf, mistakeMarks, shortLevel } from "../editor/marks.js";
import { read, write } from "../state.js";
import { EXAMPLE } from "../graph/example.js";
import { GRAPH } from "../graph/names.js";
import { outputSlots, readGraph, readModel } from "../graph/read.js";
import { watching } from "../graph/watch.js";
import { writeNumbers } from "../json/write.js";
import { graphInputs, inputsOf, readSubject } from "../subject.js";
import { warm } from "../tensor/tensors.js";
import { runRequest } from "./running.js";

const VALIDATE_AFTER = 150;
const REMEMBER_AFTER = 500;
const MOST_TEXT = 4096;
const MOST_WATCHED = 64;

/**
 * Initial state. revision counts the changes of the text other than by typing in the editor; watched lists the outputs of
 * nodes to show besides those of the graph, as NODE.TENSOR.
 */
export const EMPTY = {
  text: "",
  revision: 0,
  level: "",
  device: "auto",
  recipes: {},
  operator: "",
  example: "",
  timeout: 0,
  watched: [],
};

/** Returns the part of a recipe that goes into a link: only the names of files, and no long lists of numbers. */
function linked(recipe) {
  const { blob: _, stored: __, ...rest } = recipe;
  return rest.text?.length > MOST_TEXT ? { kind: "numbers", text: "", left: true } : rest;
}

/** Validates a recipe from a link, which is untrusted. */
function recipeFrom(given) {
  if (!given || typeof given !== "object") return null;
  const number = (value, otherwise) => (Number.isFinite(Number(value)) ? Number(value) : otherwise);
  const kind = String(given.kind);
  if (kind === "numbers") return { kind, text: String(given.text ?? "") };
  if (kind === "random") {
    const of = ["uniform", "normal", "integers"].includes(given.of) ? given.of : "uniform";
    return {
      kind,
      of,
      seed: Math.abs(Math.trunc(number(given.seed, 1))) % 2 ** 32,
      low: number(given.low, 0),
      high: number(given.high, 1),
    };
  }
  if (kind === "ramp") return { kind, start: number(given.start, 0), step: number(given.step, 1) };
  if (kind === "constant") return { kind, value: String(given.value ?? "0") };
  if (kind === "special") return { kind };
  if (kind === "file") return { kind, file: given.file === undefined ? undefined : String(given.file) };
  if (kind === "picture") {
    return {
      kind,
      layout: given.layout === "NHWC" ? "NHWC" : "NCHW",
      scale: given.scale === "0..1" ? "0..1" : "0..255",
      file: given.file === undefined ? undefined : String(given.file),
    };
  }
  return null;
}

/** @returns the state in a link */
function stateFrom(given, levels) {
  const recipes = Object.entries(given.inputs && typeof given.inputs === "object" ? given.inputs : {}).map((
    [name, recipe],
  ) => [name, recipeFrom(recipe)]);
  return {
    ...EMPTY,
    text: typeof given.text === "string" ? given.text : "",
    level: levels.includes(given.level) ? given.level : levels.at(-1),
    device: typeof given.device === "string" ? given.device : "auto",
    recipes: Object.fromEntries(recipes.filter(([, recipe]) => recipe)),
    operator: typeof given.operator === "string" ? given.operator : "",
    example: typeof given.example === "string" ? given.example : "",
    timeout: Number.isInteger(given.timeout) && given.timeout > 0 ? given.timeout : 0,
    watched: Array.isArray(given.watched) ? given.watched.slice(0, MOST_WATCHED).map(String) : [],
  };
}

/** Formats a published example. */
export function pretty(value) {
  const text = JSON.stringify(value, null, 2);
  return text.replace(
    /\[\s+((?:[-\d.eE+]+|"[^"\n]*"|null)(?:,\s+(?:[-\d.eE+]+|"[^"\n]*"|null))*)\s+\]/g,
    (_, items) => `[${items.replace(/,\s+/g, ", ")}]`,
  )
    .replace(
      /\{\s+("DataType": "[^"]*",\s+"Sizes": \[[^\]\n]*\])\s+\}/g,
      (_, items) => `{ ${items.replace(/,\s+"Sizes"/, ', "Sizes"')} }`,
    );
}

/** Returns the input tensors of a subject. */
function tensorsOf(subject, operator, drawing) {
  if (subject.kind === "model") return [];
  return subject.kind === "graph" ? graphInputs(drawing, subject.value?.inputs) : inputsOf(operator, subject.value);
}

export function useTry(contract, server) {
  const [doc, setDoc] = useState(null);
  const [info, setInfo] = useState(null);
  const [linkMistake, setLinkMistake] = useState("");
  const [checked, setChecked] = useState({ text: "", level: "", validation: null, problem: null });
  const [result, setResult] = useState(null);
  const [run, setRun] = useState({ busy: false, problem: null, mistakes: {} });
  const pushes = useRef(false);
  const running = useRef(null);
  const shown = useRef("");
  const { levels } = contract;

  const load = useCallback(async (name, example) => {
    const found = await get(`v1/operators/${encodeURIComponent(name)}`);
    const chosen = found.examples.find((each) => each.name === example) ?? found.examples[0];
    return { found, chosen };
  }, []);

  /** Shows an example of an operator. */
  const show = useCallback(async (name, example, level, push = true) => {
    const { found, chosen } = await load(name, example);
    setInfo(found);
    pushes.current = push;
    setResult(null);
    setRun({ busy: false, problem: null, mistakes: {} });
    setDoc((now) => ({
      ...(now ?? EMPTY),
      revision: (now?.revision ?? 0) + 1,
      operator: name,
      watched: [],
      example: chosen?.name ?? "",
      text: chosen
        ? pretty({ type: chosen.operator.type.replace("DML_OPERATOR_", ""), desc: chosen.operator.desc })
        : pretty({ type: name, desc: {} }),
      level: level ?? shortLevel(chosen?.feature_level) ?? levels.at(-1),
      recipes: Object.fromEntries(
        byTensor(chosen?.inputs ?? {}).map((
          [tensor, { data }],
        ) => [tensor, { kind: "numbers", text: writeNumbers(data) }]),
      ),
    }));
  }, [load, levels]);

  /** Shows the sample graph. */
  const showGraph = useCallback((push = true) => {
    pushes.current = push;
    setResult(null);
    setRun({ busy: false, problem: null, mistakes: {} });
    setDoc((now) => ({
      ...(now ?? EMPTY),
      revision: (now?.revision ?? 0) + 1,
      operator: GRAPH,
      example: "",
      text: EXAMPLE,
      level: levels.at(-1),
      recipes: {},
      watched: [],
    }));
  }, [levels]);

  /** Reads the fragment, without running anything. */
  const readLink = useCallback(async () => {
    if (location.hash === shown.current && shown.current) return;
    let given = null;
    try {
      given = await read(location.hash);
      setLinkMistake("");
    } catch (error) {
      setLinkMistake(error.message);
    }
    shown.current = location.hash;
    const fallback = contract.operators.find((each) => each.state === "executable") ?? contract.operators[0];
    if (!given) return show(fallback.name, "", levels.at(-1), false);
    const state = stateFrom(given, levels);
    if (!state.text && state.operator === GRAPH) return showGraph(false);
    const known = contract.operators.find((each) => each.name === state.operator);
    if (!state.text && known) {
      return show(known.name, state.example, levels.includes(given.level) ? given.level : undefined, false);
    }
    setResult(null);
    const isOne = readSubject(state.text).kind === "operator";
    const about = isOne ? operatorOf(contract, state.text) : undefined;
    setDoc((now) => ({ ...state, operator: about?.name ?? "", revision: (now?.revision ?? 0) + 1 }));
    if (about) load(about.name, "").then(({ found }) => setInfo(found)).catch(() => setInfo(null));
  }, [contract, show, showGraph, load, levels]);

  const fail = (problem) => setRun((now) => ({ ...now, problem }));

  useEffect(warm, []);

  useLayoutEffect(() => {
    readLink().catch(fail);
    const changed = () => readLink().catch(fail);
    addEventListener("popstate", changed);
    return () => removeEventListener("popstate", changed);
  }, [readLink]);

  // Keeps the state in the address.
  useEffect(() => {
    if (!doc) return undefined;
    const push = pushes.current;
    pushes.current = false;
    const timer = setTimeout(async () => {
      const { recipes, timeout, revision: _, ...rest } = doc;
      const inputs = Object.fromEntries(Object.entries(recipes).map(([name, recipe]) => [name, linked(recipe)]));
      const fragment = await write({ ...rest, inputs, ...(timeout ? { timeout } : {}) });
      if (fragment === location.hash) return;
      shown.current = fragment;
      history[push ? "pushState" : "replaceState"](null, "", fragment);
    }, push ? 0 : REMEMBER_AFTER);
    return () => clearTimeout(timer);
  }, [doc]);

  const subject = useMemo(() => readSubject(doc?.text ?? ""), [doc?.text]);
  const operator = useMemo(
    () => (subject.kind === "operator" ? operatorOf(contract, doc?.text ?? "") : undefined),
    [contract, subject],
  );
  const begin = subject.below ? "" : `/${subject.kind}`;

  // Validates as the user types, one request at a time; older ones are aborted.
  useEffect(() => {
    if (!doc?.text || subject.mistakes.length) return undefined;
    const abort = new AbortController();
    let timer = 0;
    const ask = async () => {
      try {
        const answer = await validate(subject.kind, subject.plain, doc.level, abort.signal);
        setChecked({
          text: doc.text,
          level: doc.level,
          validation: { ...answer, minimum: shortLevel(answer.minimum_feature_level) || null },
          problem: null,
        });
      } catch (problem) {
        if (abort.signal.aborted) return;
        if (problem.violations?.length) {
          setChecked({
            text: doc.text,
            level: doc.level,
            validation: { valid: false, violations: problem.violations, minimum: null, outputs: {} },
            problem: null,
          });
          return;
        }
        setChecked((now) => ({ ...now, problem }));
        if (problem.status === 0) document.dispatchEvent(new CustomEvent("opwire-lost"));
        if (problem.status === 0 || problem.status === 429 || problem.status === 503) {
          timer = setTimeout(ask, 1000 * Math.max(1, problem.retryAfter));
        }
      }
    };
    timer = setTimeout(ask, VALIDATE_AFTER);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [subject, doc?.level]);

  // The text has changed to another operator, which has other members.
  useEffect(() => {
    if (!operator || !info || info.type === `DML_OPERATOR_${operator.name}`) return;
    get(`v1/operators/${operator.name}`).then(setInfo).catch(() => {});
    setDoc((now) => ({ ...now, operator: operator.name, example: "" }));
  }, [operator]);

  const isFresh = checked.text === doc?.text && checked.level === doc?.level;
  const validation = subject.mistakes.length ? null : checked.validation;
  const marks = useMemo(() => {
    if (!doc) return [];
    if (subject.mistakes.length) return mistakeMarks(doc.text, subject.mistakes);
    if (!isFresh) return null;
    return marksOf(doc.text, subject.node, checked.validation?.violations ?? [], begin);
  }, [doc, subject, checked, isFresh]);
  const lastMarks = useRef([]);
  if (marks) lastMarks.current = marks;
  const warnings = useMemo(
    () => isFresh && doc ? marksOf(doc.text, subject.node, validation?.warnings ?? [], begin) : [],
    [doc, subject, validation, isFresh],
  );

  // While the text is not valid JSON, the previous drawing stays.
  const drawn = useRef(null);
  const drawing = useMemo(() => {
    if (subject.kind === "operator") drawn.current = null;
    else if (!subject.mistakes.length) {
      drawn.current = (subject.kind === "graph" ? readGraph : readModel)(subject.root ?? undefined, contract);
    }
    return drawn.current;
  }, [subject, contract]);
  const before = useRef([]);
  const tensors = useMemo(() => {
    if (!subject.mistakes.length) before.current = tensorsOf(subject, operator, drawing);
    return before.current;
  }, [subject, operator, drawing]);

  const cancel = useCallback(() => running.current?.abort(), []);
  const start = useCallback(async (watched = doc.watched) => {
    running.current?.abort();
    const abort = new AbortController();
    running.current = abort;
    setRun({ busy: true, problem: null, mistakes: {} });
    try {
      const { text, names } = drawing
        ? watching(subject.plain, drawing, watched, (box) => outputSlots(contract, box))
        : { text: subject.plain, names: new Map() };
      const { level, device, timeout } = doc;
      const request = { subject: subject.kind, text, names, level, device, timeout, limits: server?.limits };
      const found = await runRequest(request, tensors, doc.recipes, execute, abort.signal);
      if (running.current !== abort) return null;
      setRun({ busy: false, problem: null, mistakes: found.mistakes ?? {} });
      if (found.outputs) setResult(found);
      if (found.recipes) setDoc((now) => ({ ...now, recipes: { ...now.recipes, ...found.recipes } }));
      return found;
    } catch (problem) {
      if (running.current !== abort) return null;
      const isCancelled = abort.signal.aborted;
      setRun({ busy: false, problem: isCancelled ? null : problem, mistakes: {} });
      if (problem.status === 0 && !isCancelled) document.dispatchEvent(new CustomEvent("opwire-lost"));
      return null;
    }
  }, [subject, doc, tensors, drawing, server]);

  return {
    doc,
    setDoc,
    info,
    linkMistake,
    subject,
    operator,
    validation,
    isFresh,
    drawing,
    problem: checked.problem,
    marks: marks ?? lastMarks.current,
    warnings,
    stale: !marks || !!checked.problem,
    tensors,
    result,
    run,
    start,
    cancel,
    show,
    showGraph,
    fail,
  };
}
