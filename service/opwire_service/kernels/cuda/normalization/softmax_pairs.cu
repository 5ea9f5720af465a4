// SOFTMAX, or LOG_SOFTMAX if LOGARITHM, in pairs of floats: for GPUs with few float64 units. What a row leaves undecided
// is settled by `softmax`, which sums it again.

const bool KEEPS = !LOGARITHM;

const u32 LEAST_RESULT = 0x0d800000;  // bits of 2^-100: less leaves the low part too few bits
const float TINY_TERM = 0x1p-104f;    // stands for terms that are too small to compute

// Relative error of sums, products and inverses.
const float OF_SUM = 3 * 0x1p-48f, OF_PRODUCT = 6 * 0x1p-48f, OF_INVERSE = 0x1p-45f;

static __device__ __forceinline__ void prepare() {
    prepare_pairs();
    settling::prepare();
}

// e**(x - peak) for x up to the peak. Only logarithms tell terms that vanish from none.
static __device__ __forceinline__ Pair term_of(float x, float peak) {
    Pair d = exact_sum(x, -peak), power = exponential_of(d);
    bool is_something = LOGARITHM ? x > Bounds<float>::lowest() : d.hi > VANISHED;
    return chosen(d.hi < LEAST_EXPONENT, Pair{is_something ? TINY_TERM : 0, 0}, power);  // NaN stays
}

// The number that terms are relative to. It is not less than the largest element and, unless that is subtracted from
// results, seldom rises.
static __device__ __forceinline__ float reference(float peak) {
    return LOGARITHM || HELD ? peak : 2 * ceilf(peak * 0.5f);
}

struct State {
    Total total;   // of the exponentials of elements not counted in `peaks`
    float peak;    // the largest element, or the reference
    u32 peaks;     // elements equal to it that are not in the sum
    float reach;   // relative error of the sum from raising it

    static const bool PEAKED = true;
    static const bool SHIFTED = false;
    static const bool IS_JOINED = true;

    __device__ __forceinline__ void clear(float to) {
        total.clear();
        peak = to == Bounds<float>::lowest() ? -3.402823466e+38f : to;
        peaks = 0;
        reach = 0;
    }
    __device__ __forceinline__ Pair all() const {
        float most = (float)peaks;
        return LOGARITHM ? ::sum(total.value(), Pair{most, (float)(i32)(peaks - (u32)most)}) : total.value();
    }
    __device__ __forceinline__ void raise(float to) {
        if (!(to > peak)) return;
        float raised = reference(to), below = raised - peak;
        Pair scaled_down = product(all(), term_of(peak, raised));
        total = {scaled_down.hi, scaled_down.lo, 0};
        if (below < -LEAST_EXPONENT) reach += ROUGHLY + OF_PRODUCT + 0x1p-47f + PER_UNIT * below;
        peak = raised;
        peaks = 0;
    }
    __device__ __forceinline__ void add(const Lanes &, const float (&values)[LANES], u32, Kept (&kept)[LANES]) {
        if (!HELD) {
            float greatest = values[0];
#pragma unroll
            for (int k = 1; k < LANES; ++k) greatest = fmaxf(greatest, values[k]);
            raise(greatest);
        }
        Pair terms[LANES];
#pragma unroll
        for (int k = 0; k < LANES; ++k) {
            terms[k] = term_of(values[k], peak);
            keep(terms[k], kept[k]);
            if (LOGARITHM) {
                bool is_peak = values[k] == peak;
                peaks += is_peak;
                terms[k] = chosen(is_peak, Pair{0, 0}, terms[k]);
            }
        }
#pragma unroll
        for (int apart = 1; apart < LANES; apart *= 2)
#pragma unroll
            for (int k = 0; k + apart < LANES; k += 2 * apart) terms[k] = ::sum(terms[k], terms[k + apart]);
        total.add(terms[0]);
    }
    __device__ __forceinline__ void merge(State other) {
        raise(other.peak);
        other.raise(peak);
        total.merge(other.total);
        peaks += other.peaks;
        reach = fmaxf(reach, other.reach);
    }
    static __device__ __forceinline__ void keep(Pair term, Pair &kept) { kept = term; }
    static __device__ __forceinline__ void keep(Pair term, float &kept) { kept = term.hi; }

    // The part that threads exchange once they share the same peak.
    struct Held {
        Total total;
        u32 peaks;
    };
    __device__ __forceinline__ Held held() const { return {total, peaks}; }
    static __device__ __forceinline__ void join(Held &a, const Held &b) {
        a.total.merge(b.total);
        a.peaks += b.peaks;
    }
    __device__ __forceinline__ void take(const Held &all) {
        total = all.total;
        peaks = all.peaks;
    }
};

struct Row {
    Pair factor;  // inverse of the sum, or its logarithm
    float peak;
    float reach;  // error bound of results, without that of their own terms: relative, or absolute for logarithms

    static const bool TELLS_AT_ONCE = true;

    template <class To> __device__ __forceinline__ bool is_settled(float x, Pair term, To &result) const {
        if (LOGARITHM) {
            Pair found = gap(exact_sum(x, -peak), factor);
            return narrowly_within(found, fmaf(fabsf(found.hi), 0x1p-45f, reach), LEAST_RESULT, false, result);
        }
        float distance = fminf(peak - x, -VANISHED);
        return narrowly(product(term, factor), fmaf(distance, PER_UNIT, reach), LEAST_RESULT, true, result);
    }
    template <bool IS_KEPT>
    __device__ __forceinline__ u32 at_once(
        const Lanes &, const float (&x)[LANES], const Kept (&kept)[LANES], const Beside (&)[LANES],
        f32 (&results)[LANES]
    ) const {
        return undecided_of<LANES>([&](int k) {
            Pair term = IS_KEPT ? pair_of(kept[k]) : LOGARITHM ? Pair{0, 0} : term_of(x[k], peak);
            bool is_sure = is_settled(x[k], term, results[k]);
            bool is_nan = factor.hi != factor.hi, is_infinite = LOGARITHM && x[k] == Bounds<float>::lowest();
            if (is_nan | is_infinite) results[k] = is_nan ? factor.hi : x[k];
            return is_sure | is_nan | is_infinite;
        });
    }
    // First in floats: each step rounds by 2^-24. The logarithm's parts are at most 0, so nothing cancels.
    template <bool IS_KEPT>
    __device__ __forceinline__ u32 at_once(
        const Lanes &, const float (&x)[LANES], const Kept (&kept)[LANES], const Beside (&)[LANES],
        f16 (&results)[LANES]
    ) const {
        float found[LANES];
#pragma unroll
        for (int k = 0; k < LANES; ++k)
            found[k] = LOGARITHM ? (x[k] - peak) - factor.hi : IS_KEPT ? hi_of(kept[k]) : term_of(x[k], peak).hi;
        float scale = LOGARITHM ? 1 : factor.hi;
        u32 undecided = undecided_halves(found, scale * (1 - 0x1.8p-22f), scale * (1 + 0x1.8p-22f), results);
        if (undecided) {
#pragma unroll
            for (int k = 0; k < LANES; ++k) {
                if (!(undecided >> k & 1)) continue;
                undecided ^= (u32)is_settled(x[k], LOGARITHM ? Pair{0, 0} : term_of(x[k], peak), results[k]) << k;
            }
        }
        return undecided;
    }
    static __device__ __forceinline__ Row of(const State &state, const Numbers &numbers) {
        Pair total = state.total.value(), all = state.all();
        // The terms' distances from the reference, weighted by the terms, are at most ln(n) + 2: the entropy of the
        // weights, which is that mean plus the logarithm of the sum, is at most ln(n), and the sum at least e**-2.
        float distance = 0x1.63p-1f * (32 - __clz(numbers.count)) + 2;
        float error = state.reach + 1.01f * (ROUGHLY + 4 * OF_SUM + PER_UNIT * distance);
        // False with infinity, only negative infinity, or NaN.
        bool is_number = fabsf(state.peak) < Bounds<float>::greatest() && all.hi > 0;
        Row row;
        row.peak = state.peak;
#if LOGARITHM
        row.factor = state.peaks == 1 && total.hi < 1 ? log1p_of_pair(total) : log_of_pair(all);
        row.reach = row.factor.hi * (1.5f * error + 1.01f * LOGARITHM_ERROR) + 0x1p-72f;  // 2^32 times TINY_TERM
#else
        Pair inverse = quotient(1.0f, all);
        row.factor = ::sum(inverse, hi_of(inverse) * hi_of(product_sum(negated(all), inverse, 1.0f)));
        row.reach = error + 1.01f * (ROUGHLY + OF_INVERSE + OF_PRODUCT + 0x1p-46f);  // low parts may be subnormal
#endif
        if (!is_number) row.factor = pair_of(__uint_as_float(0x7fc00000u));
        return row;
    }
    template <class Sum>
    static __device__ __forceinline__ Row of_held(const State &state, const Numbers &numbers, Sum) {
        return of(state, numbers);
    }
};
