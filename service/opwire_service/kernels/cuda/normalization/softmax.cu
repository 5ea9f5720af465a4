// SOFTMAX, or its logarithm if LOGARITHM: sums of exponentials beside the greatest element.

const double NONE = -1.0;  // no term was kept

struct State {
    double sum;     // of exponentials of what is not the greatest
    double lost;    // by its additions
    float peak;     // the greatest
    u32 peaks;      // elements that equal it
    u32 rescaled;   // how often any term was multiplied by the exponential of a difference of peaks, at most
    u32 unused;

    static const bool PEAKED = true;

    __device__ __forceinline__ void clear(float to) {
        sum = lost = 0;
        peak = to;
        peaks = rescaled = unused = 0;
    }
    // So that a logarithm of 1 and others is never that of 1, exponentials do not vanish.
    static __device__ __forceinline__ double exponential(double x) {
        double value = exp(x);
        return value < 1e-300 ? 1e-300 : value;
    }
    __device__ __forceinline__ void add_term(double term) {
        double error;
        sum = two_sum(sum, term, error);
        lost += error;
    }
    // Nothing but negative infinity comes to nothing; NaN stays.
    __device__ __forceinline__ void raise(float to) {
        if (!(to > peak)) return;
        double factor = exponential((double)peak - to);
        sum = peak > Bounds<float>::lowest() ? (sum + lost + peaks) * factor : sum;
        lost = 0;
        rescaled += sum != 0;
        peak = to;
        peaks = 0;
    }
    __device__ __forceinline__ void add(const float (&values)[LANES], u32, double (&kept)[LANES]) {
        float greatest = values[0];
#pragma unroll
        for (int k = 1; k < LANES; ++k) greatest = fmaxf(greatest, values[k]);
        raise(greatest);
        double terms = 0;
#pragma unroll
        for (int k = 0; k < LANES; ++k) {
            bool is_peak = values[k] == peak, is_nothing = values[k] == Bounds<float>::lowest();
            double term = is_peak ? 1 : is_nothing ? 0 : exponential((double)values[k] - peak);
            kept[k] = term;
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
};

struct Row {
    double factor;  // or the logarithm
    float peak;
    u32 slack;  // units of the last place of a double that results may be off by

    static __device__ __forceinline__ Row of(const State &state, const Numbers &) {
        double others = state.sum + state.lost, total = others + state.peaks;
        Row row;
        row.peak = state.peak;
        row.slack = 192 + 4 * min(state.rescaled, 1u << 24);
        // Infinity, or nothing but negative infinity, or NaN, which the sum then is.
        if (!(fabsf(state.peak) < Bounds<float>::greatest())) total = others = __longlong_as_double(0x7ff8000000000000ll);
#if LOGARITHM
        row.factor = state.peaks == 1 ? log1p(others) : log(total);
#else
        row.factor = 1 / total;
#endif
        return row;
    }
    __device__ __forceinline__ bool value(
        float x, u32, double kept, const Beside &, const Numbers &, Element &result
    ) const {
#if LOGARITHM
        double found = ((double)x - peak) - factor;
#else
        double found = (kept >= 0 ? kept : x == peak ? 1 : exp((double)x - peak)) * factor;
#endif
        return certainly(found, slack, slack * 0x1p-53, result);
    }
};
