/** What a server does per second, and how long it takes: from two answers of /v1/server/load, one after the other. */

/**
 * @typedef {{sum_us: number, buckets: number[]}} Histogram
 * @typedef {{instance: string, time: number, started: number, workers: {serving: number, expected: number, replaced: number},
 *   outcomes: Record<string, number>, bounds_us: number[], stages: Record<string, Histogram>,
 *   operators: Record<string, {count: number, run_us: number, total_us: number, total?: Histogram}>,
 *   devices: Record<string, any>, memory: {held: number, limit: number, waiting: number},
 *   queue: {waiting: number, limit: number}}} Load
 * @typedef {{time: number, seconds: number, outcomes: Record<string, number>, quantiles: Record<string, {p50: number | null, p99: number | null}>,
 *   operators: {name: string, rate: number, run: number, p99: number | null, share: number}[], load: Load}} Sample
 *   rates are per second, times in milliseconds
 */

/**
 * The time below which a part of all times lies; buckets are taken to be filled evenly.
 * @param {number[]} buckets @param {number[]} bounds microseconds @param {number} part
 * @returns {number | null} milliseconds; null where there is nothing
 */
export function quantile(buckets, bounds, part) {
  const count = buckets.reduce((sum, each) => sum + each, 0);
  if (count <= 0) return null;
  let below = 0;
  for (let i = 0; i < buckets.length; i++) {
    if (buckets[i] && below + buckets[i] >= part * count) {
      const low = i ? bounds[i - 1] : 0;
      const high = i < bounds.length ? bounds[i] : low;
      return (low + ((high - low) * (part * count - below)) / buckets[i]) / 1000;
    }
    below += buckets[i];
  }
  return bounds[bounds.length - 1] / 1000;
}

/** @param {Histogram | undefined} now @param {Histogram | undefined} before */
function bucketsSince(now, before) {
  return (now?.buckets ?? []).map((count, i) => count - (before?.buckets[i] ?? 0));
}

/** @param {Record<string, number>} now @param {Record<string, number>} before */
function grew(now, before) {
  return Object.entries(before).every(([name, count]) => (now[name] ?? 0) >= count);
}

/**
 * What happened between two answers; null where they cannot be compared: they are of different servers, or something
 * that only grows has fallen.
 * @param {Load} before @param {Load} now
 * @returns {Sample | null}
 */
export function between(before, now) {
  const seconds = now.time - before.time;
  if (before.instance !== now.instance || seconds <= 0 || !grew(now.outcomes, before.outcomes)) return null;
  const outcomes = Object.fromEntries(
    Object.entries(now.outcomes).map(([name, count]) => [name, (count - (before.outcomes[name] ?? 0)) / seconds]),
  );
  const quantiles = Object.fromEntries(
    Object.entries(now.stages).map(([stage, found]) => {
      const buckets = bucketsSince(found, before.stages[stage]);
      return [stage, { p50: quantile(buckets, now.bounds_us, 0.5), p99: quantile(buckets, now.bounds_us, 0.99) }];
    }),
  );
  return { time: now.time, seconds, outcomes, quantiles, operators: operatorsBetween(before, now, seconds), load: now };
}

/** @param {Load} before @param {Load} now @param {number} seconds */
function operatorsBetween(before, now, seconds) {
  const rows = Object.entries(now.operators).map(([name, found]) => {
    const old = before.operators[name] ?? { count: 0, run_us: 0, total_us: 0 };
    const count = found.count - old.count;
    const buckets = found.total && old.total ? bucketsSince(found.total, old.total) : [];
    return {
      name,
      rate: count / seconds,
      run: count ? (found.run_us - old.run_us) / count / 1000 : 0,
      p99: quantile(buckets, now.bounds_us, 0.99),
      share: found.total_us - old.total_us,
    };
  });
  const whole = rows.reduce((sum, row) => sum + row.share, 0);
  return rows.map((row) => ({ ...row, share: whole ? row.share / whole : 0 }));
}

/**
 * What becomes of requests: the kinds that are drawn, and the codes that are one. All other codes are rejected requests.
 * @type {Record<string, string[]>}
 */
export const KINDS = {
  answered: ["ok"],
  rejected: [],
  refused: ["unauthorized", "queue_full", "memory_full", "not_ready", "draining"],
  "too late": ["deadline_exceeded", "slow_body", "client_gone"],
  failed: ["internal_error"],
};

/** The kind of an outcome. @param {string} outcome */
export function kindOf(outcome) {
  return Object.entries(KINDS).find(([, codes]) => codes.includes(outcome))?.[0] ?? "rejected";
}

/** What a code of a refusal means. @type {Record<string, string>} */
export const MEANINGS = {
  unauthorized: "without a valid API key",
  queue_full: "too many operators wait for a device",
  memory_full: "requests hold all the memory that they may",
  not_ready: "the server is starting",
  draining: "the server is stopping",
  deadline_exceeded: "the time of the request was over",
  slow_body: "the body came too slowly",
  client_gone: "the client went away",
  internal_error: "the server failed; its log says why",
  contract_violation: "the desc breaks a rule",
  operator_not_executable: "no device runs the operator",
  invalid_json: "the body is no JSON",
  invalid_request: "the body is no request",
  tensor_too_large: "a tensor is larger than the limit",
  body_too_large: "the body is larger than the limit",
  work_too_large: "it is more work than the limit",
};

/** The last samples, oldest first. */
export class Ring {
  /** @param {number} size */
  constructor(size) {
    this.size = size;
    /** @type {(Sample | {time: number, gap: true})[]} */
    this.samples = [];
  }

  /** @param {Sample | {time: number, gap: true}} sample */
  add(sample) {
    this.samples = [...this.samples.slice(-this.size + 1), sample];
  }
}
