/** Rates and latencies of a server, from two consecutive responses of /v1/server/load. */

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
 * Returns a quantile of a histogram, interpolated linearly within its bucket.
 * @param {number[]} buckets @param {number[]} bounds microseconds @param {number} part
 * @returns {number | null} milliseconds; null if the histogram is empty
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
 * Returns what happened between two responses; null if they come from different servers or a counter decreased.
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
 * The kinds of outcomes in the chart and their codes. All other codes count as invalid requests.
 * @type {Record<string, string[]>}
 */
export const KINDS = {
  answered: ["ok"],
  invalid: [],
  refused: ["unauthorized", "queue_full", "memory_full", "not_ready", "draining"],
  "too late": ["deadline_exceeded", "slow_body", "client_gone"],
  failed: ["internal_error"],
};

/** Returns the kind of an outcome. @param {string} outcome */
export function kindOf(outcome) {
  return Object.entries(KINDS).find(([, codes]) => codes.includes(outcome))?.[0] ?? "invalid";
}

/** Meanings of the codes of failed requests. @type {Record<string, string>} */
export const MEANINGS = {
  unauthorized: "no valid API key",
  queue_full: "too many operators are waiting for a device",
  memory_full: "the memory for requests is full",
  not_ready: "the server is starting",
  draining: "the server is shutting down",
  deadline_exceeded: "the deadline of the request expired",
  slow_body: "the body arrived too slowly",
  client_gone: "the client disconnected",
  internal_error: "the server failed; see its log",
  contract_violation: "the desc violates the contract",
  operator_not_executable: "no device runs the operator",
  invalid_json: "the body is not JSON",
  invalid_request: "the body is not a valid request",
  tensor_too_large: "a tensor exceeds the limit",
  body_too_large: "the body exceeds the limit",
  work_too_large: "the work exceeds the limit",
};

/** Ring buffer of the latest samples, oldest first. */
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
