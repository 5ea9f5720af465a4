// SOFTMAX, or LOG_SOFTMAX if LOGARITHM: sums of exponentials relative to the largest element.

#if PAIRS
namespace settling {
#endif

const bool KEEPS = !LOGARITHM;

// Error bound of results, in ULP of a double; FLOAT16 uses two terms of the series less. In held rows each of the few
// additions loses one ULP, which the logarithm may turn into one and a half.
const u32 SLACK = HALF ? 1u << 20 : 224 + 2 * HELD;

// Clamped to at least 1e-300, so that a sum with other elements always differs from that of the largest alone.
static __device__ __forceinline__ double exponential(float x, float peak) {
    double d = (double)x - (double)peak, value = exponential_of(d);
    float nearly = x - peak;
    return nearly > -690.0f ? value : nearly <= -690.0f ? 1e-300 : d;
}

// Whether an element is less than about 690 below the largest, which is the common case.
static __device__ __forceinline__ bool is_usual(float x, float peak) {
    return __float_as_uint(peak - x) < 0x442c8000u;  // bits of 690; NaN and negative numbers have larger bits
}

// The smallest element, or NaN if any element is NaN.
static __device__ __forceinline__ float least_of_all(const float (&values)[LANES]) {
    float least = values[0];
#pragma unroll
    for (int k = 1; k < LANES; ++k) least = lesser(least, values[k]);
    return least;
}

struct State {
    double sum;     // of the exponentials of elements not counted in `peaks`
    double lost;    // rounding errors of `sum`
    float peak;     // the largest element
    u32 peaks;      // elements equal to it that are not in the sum
    u32 rescaled;   // maximum number of times that a term was rescaled to a new peak
    u32 unused;

    static const bool PEAKED = true;
    static const bool SHIFTED = false;
    static const bool IS_JOINED = true;

    __device__ __forceinline__ void clear(float to) {
        sum = lost = 0;
        peak = to;
        peaks = rescaled = unused = 0;
    }
    __device__ __forceinline__ void add_term(double term) {
        if (HELD) {
            sum += term;
            return;
        }
        double error;
        sum = two_sum(sum, term, error);
        lost += error;
    }
    // Only the logarithm counts the largest elements, whose terms are 1, separately; it uses predication, which the
    // compiler does not choose here on its own.
    __device__ __forceinline__ void add_apart(float x, double term, double &terms) {
        if (LOGARITHM)
            asm("{.reg .pred p; setp.neu.f32 p, %2, %3; @p add.rn.f64 %0, %0, %4; @!p add.u32 %1, %1, 1;}"
                : "+d"(terms), "+r"(peaks)
                : "f"(x), "f"(peak), "d"(term));
        else
            terms += term;
    }
    // Elements of negative infinity contribute nothing; NaN stays.
    __device__ __forceinline__ void raise(float to) {
        if (!(to > peak)) return;
        double factor = exponential(peak, to);
        sum = peak > Bounds<float>::lowest() ? (sum + lost + peaks) * factor : sum;
        lost = 0;
        rescaled += sum != 0;
        peak = to;
        peaks = 0;
    }
    __device__ __forceinline__ void add(const Lanes &, const float (&values)[LANES], u32, Kept (&kept)[LANES]) {
        if (!HELD) {
            float greatest = values[0];
#pragma unroll
            for (int k = 1; k < LANES; ++k) greatest = fmaxf(greatest, values[k]);
            raise(greatest);
        }
        double terms = 0;
        if (is_usual(least_of_all(values), peak)) {
#pragma unroll
            for (int k = 0; k < LANES; ++k) {
                double term = exponential_of((double)values[k] - (double)peak);
                kept[k] = (Kept)term;
                add_apart(values[k], term, terms);
            }
            add_term(terms);
            return;
        }
#pragma unroll
        for (int k = 0; k < LANES; ++k) {
            bool is_peak = values[k] == peak, is_nothing = values[k] == Bounds<float>::lowest();
            double term = is_peak ? 1 : is_nothing ? 0 : exponential(values[k], peak);
            kept[k] = (Kept)term;
            peaks += is_peak;
            if (!is_peak) terms += term;
        }
        add_term(terms);
    }
    __device__ __forceinline__ void merge(State other) {
        raise(other.peak);
        other.raise(peak);
        add_term(other.sum);
        lost += other.lost;
        peaks += other.peaks;
        rescaled = max(rescaled, other.rescaled);
    }
    // The part that threads exchange once they share the same peak.
#if LOGARITHM
    struct Held {
        double sum;
        u32 peaks, unused;
    };
    __device__ __forceinline__ Held held() const { return {sum + lost, peaks, 0}; }
    static __device__ __forceinline__ void join(Held &a, const Held &b) {
        a.sum += b.sum;
        a.peaks += b.peaks;
    }
    __device__ __forceinline__ void take(const Held &all) {
        sum = all.sum;
        lost = 0;
        peaks = all.peaks;
    }
#else
    typedef double Held;
    __device__ __forceinline__ Held held() const { return sum + lost + peaks; }
    static __device__ __forceinline__ void join(Held &a, const Held &b) { a += b; }
    __device__ __forceinline__ void take(const Held &all) {
        sum = all;
        lost = peaks = 0;
    }
#endif
};

struct Row {
    double factor;  // inverse of the sum, or its logarithm
    float peak;
    u32 slack;  // error bound of results, in ULP of a double

    static const bool TELLS_AT_ONCE = true;
    // Requires a usual element unless terms are kept.
    template <bool IS_KEPT> __device__ __forceinline__ Kept term_of(float x, Kept kept) const {
        return IS_KEPT ? kept : (Kept)exponential_of((double)x - peak);
    }
    template <bool IS_KEPT>
    __device__ __forceinline__ u32 undecided_of_all(
        const float (&x)[LANES], const Kept (&kept)[LANES], f32 (&results)[LANES]
    ) const {
        return undecided_of<LANES>([&](int k) {
            double found = LOGARITHM ? ((double)x[k] - peak) - factor : term_of<IS_KEPT>(x[k], kept[k]) * factor;
            return ::at_once(found, slack, !LOGARITHM, results[k]);  // a softmax result is never infinite
        });
    }
    // The logarithm in floats: both parts are at most 0, so nothing cancels. The sum's logarithm is rounded up, within
    // 2^-23, so that values smaller than any float keep the sign of the result; the other steps round by 2^-24.
    template <bool IS_KEPT>
    __device__ __forceinline__ u32 undecided_of_all(
        const float (&x)[LANES], const Kept (&)[LANES], f16 (&results)[LANES]
    ) const {
        float found[LANES];
#pragma unroll
        for (int k = 0; k < LANES; ++k) found[k] = (x[k] - peak) - __double2float_ru(factor);
        return undecided_halves(found, 1 - 0x1.8p-22f, 1 + 0x1.8p-22f, results);
    }
    template <bool IS_KEPT>
    __device__ __forceinline__ u32 at_once(
        const Lanes &, const float (&x)[LANES], const Kept (&kept)[LANES], const Beside (&)[LANES],
        Element (&results)[LANES]
    ) const {
        u32 undecided = undecided_of_all<IS_KEPT>(x, kept, results);
        return LOGARITHM || IS_KEPT || is_usual(least_of_all(x), peak) ? undecided : (1u << LANES) - 1;
    }
    __device__ __forceinline__ bool is_settled(double found, f32 &result) const {
        return certainly(found, slack, slack * 0x1p-53, result);
    }
    __device__ __forceinline__ bool is_settled(double found, f16 &result) const {
        return certainly_half((float)found, 0x1p-22f, result) || certainly(found, slack, slack * 0x1p-53, result);
    }
    static __device__ __forceinline__ Row of(const State &state, const Numbers &) {
        double others = state.sum + state.lost, total = others + state.peaks;
        Row row;
        row.peak = state.peak;
        row.slack = SLACK + 4 * min(state.rescaled, 1u << 24);
        // With infinity, only negative infinity, or NaN, the sum is NaN.
        if (!(fabsf(state.peak) < Bounds<float>::greatest())) total = others = __longlong_as_double(0x7ff8000000000000ll);
#if LOGARITHM
        row.factor = state.peaks == 1 ? log1p(others) : log(total);
#else
        row.factor = inverse_of(total);
#endif
        return row;
    }
    template <class Sum>
    static __device__ __forceinline__ Row of_held(const State &state, const Numbers &numbers, Sum) {
        return of(state, numbers);
    }
    template <bool IS_KEPT>
    __device__ __forceinline__ bool value(
        float x, u32, Kept kept, const Beside &, const Numbers &, Element &result
    ) const {
#if LOGARITHM
        double found = ((double)x - peak) - factor;
#else
        double term = IS_KEPT ? kept : x > Bounds<float>::lowest() || x != x ? exponential(x, peak) : 0.0;
        double found = term * factor;
#endif
        return is_settled(found, result);
    }
};

#if PAIRS
}
#endif
