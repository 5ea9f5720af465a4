// Exponentials in pairs of floats, by a lookup table in shared memory.
//
// STEP_HIGH + STEP_LOW is ln(2)/256, and TERM3 and TERM4 are terms of the series of e**r.
//
// e**d is 2**(k/256) * (1 + m), where m is e**r - 1 for the rest r, at most ln(2)/512. `scripts/exponentials.py` proves
// the bounds.

const float LEAST_EXPONENT = -80;  // far from subnormal numbers, also where divided by the length of a row
const float VANISHED = -107;      // from here on, results are 0

static __device__ const Pair POWERS_OF_PAIRS[STEPS] = PAIRS_OF_POWERS;
__shared__ Pair pair_powers[STEPS];

// Requires `prepare`, which waits for all threads.
static __device__ __forceinline__ void prepare_pairs() {
    u32 thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    for (u32 n = thread; n < STEPS; n += threads) pair_powers[n] = POWERS_OF_PAIRS[n];
}

// e**d for d in [LEAST_EXPONENT, 0], within a relative error of ROUGHLY + PER_UNIT * |d|, and 2^-148.
static __device__ __forceinline__ Pair exponential_of(Pair d) {
    float moved = fmaf(d.hi, STEPS_OF_1, TO_WHOLE), k = moved - TO_WHOLE;
    float back = k * STEP_HIGH, rest = fmaf(k, STEP_HIGH, -back);
    // Both the difference and the sum are exact.
    Pair r = ordered_sum(d.hi - back, fmaf(-k, STEP_LOW, d.lo - rest));
    // r + r*r/2 as an exact sum of two floats, and what that leaves out.
    float squared = r.hi * r.hi;
    Pair m = ordered_sum(r.hi, 0.5f * squared);
    float more = fmaf(squared, r.hi * fmaf(r.hi, TERM4, TERM3), fmaf(r.hi, r.lo, r.lo));
    more += m.lo + 0.5f * fmaf(r.hi, r.hi, -squared);
    Pair power = pair_powers[whole_of(moved) & (STEPS - 1)];
    float product = power.hi * m.hi, lost = fmaf(power.hi, m.hi, -product);
    lost = fmaf(power.lo, m.hi, fmaf(power.hi, more, lost));
    Pair value = ordered_sum(power.hi, product);
    return scaled(ordered_sum(value.hi, value.lo + (lost + power.lo)), whole_of(moved) >> 8);
}
