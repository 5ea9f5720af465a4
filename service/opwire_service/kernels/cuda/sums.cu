// Sums of float terms by compensated summation in double, with an error bound of the compensation itself. SQUARED and
// MAGNITUDE select the term of an element; FINISH selects one of the final steps below. Squares have a quick pass with
// a small relative error. With FLOATS, which needs `float_sums`, floats sum a few terms at a time.

const double UNIT = 0x1p-53;

struct Sum {
    double high;     // starts at -0, the sum of no terms
    double low;      // sum of the rounding errors of high
    float greatest;  // largest magnitude of a term, where terms are signed
    u32 inexact;     // nonzero once an addition to low may have been rounded

    static const bool descending = false;
    static __device__ void prepare() {}

    __device__ __forceinline__ void clear() {
        high = -0.0;
        low = 0;
        greatest = 0;
        inexact = 0;
    }
    __device__ __forceinline__ void add_term(double term) {
        double error;
        high = two_sum(high, term, error);
        low += error;
        u64 bits = same_bits<u64>(error);
        inexact |= (u32)bits | (u32)(bits >> 32);
    }
    // Slower, but rounds less often.
    __device__ __forceinline__ void add_sum(double term, double term_low, u32 term_inexact) {
        double error, lost;
        high = two_sum(high, term, error);
        low = two_sum(low, error, lost);
        inexact |= term_inexact | (lost != 0);
        low = two_sum(low, term_low, lost);
        inexact |= lost != 0;
    }
    __device__ __forceinline__ void merge(const Sum &other) {
        add_sum(other.high, other.low, other.inexact);
        greatest = fmaxf(greatest, other.greatest);
    }

    // Error bound of high + low: each term takes part in at most `depth` additions, each of which loses at most UNIT of
    // a partial sum of magnitudes, and low loses UNIT of that again. In a quick pass each addition loses UNIT of the
    // sum.
    __device__ double slack(const Terms &terms) const {
#if FLOATS
        if (PASS == QUICK) return (2 * UNIT * terms.depth + 0x1p-36) * high + 0x1p-148 * terms.count;
#endif
        if (PASS == QUICK) return UNIT * (HALF ? 2 * terms.depth : PLAIN_ADDITIONS) * high;
        if (inexact == 0) return 0;
        double magnitudes = SQUARED || MAGNITUDE ? high : (double)greatest * terms.count;
        double depth = UNIT * terms.depth;
        return 2 * depth * depth * magnitudes + 0x1p-1022;
    }
    static const int PLAIN_ADDITIONS = 4;  // of FLOAT32 squares to the first one, and one for all the rest
};

// Infinities and NaN have propagated through `high` by IEEE arithmetic.
static __device__ Output special(double high) {
    typedef Format<Output> F;
    if (high != high || (LOGARITHM && high < 0)) return F::make(F::quiet_nan);
    return F::make(F::infinity | (high < 0 ? F::sign : 0));
}

struct Accumulator : Sum {
    __device__ bool finish(Output &output, Input, const Terms &terms) const {
        typedef Format<Output> F;
        if (!is_finite(high)) {
            output = special(high);
            return true;
        }
        double bound = slack(terms), rest = 0, total = low == 0 ? high : two_sum(high, low, rest);
#if LOGARITHM
        // ln(total + rest); the bound must be far below the relative precision of a double.
        if (!(bound <= 0x1p-54 * fabs(total))) return false;
        double value = log(total);
        if (fabs(value) < 0x1p-10) value += rest;  // negligible elsewhere
        if (total == 0) value = -__longlong_as_double(0x7ff0000000000000ll);
        output = value != value ? F::make(F::quiet_nan) : F::make(F::nearest(value));
        return true;
#else
        if (total == 0) {
            output = F::make(__double_as_longlong(total) < 0 ? F::sign : 0);
            return bound == 0;
        }
        bool negative = total < 0;
        double upper = negative ? -total : total, lower = negative ? -rest : rest;
        u32 bits;
#if ROOT
        bool settled = round_to<Output>(bits, Root{upper, lower}, bound);
#else
        bool settled = round_to<Output>(bits, Quotient{upper, lower, MEAN ? (double)terms.count : 1.0}, bound);
#endif
        output = F::make(bits | (negative ? F::sign : 0));
        return settled;
#endif
    }
};

#if FLOATS
struct Collector : Accumulator {
    static const bool UNORDERED = !SQUARED || PASS == QUICK;

    template <int COUNT>
    __device__ __forceinline__ void add(const float (&values)[COUNT], u32, u32) {
        FloatSum sum;
        Magnitudes sizes;
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            sizes.add(values[k]);
            if (SQUARED) sum.add_square(values[k]);
            else sum.add(MAGNITUDE ? fabsf(values[k]) : values[k]);
        }
        greatest = fmaxf(greatest, sizes.greatest);
        if (SQUARED ? PASS == QUICK && sum.is_finite() : sizes.template are_close<COUNT>(HALF) && sum.is_finite()) {
            if (SQUARED) high += sum.total();
            else add_term(sum.total());
            return;
        }
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            double x = MAGNITUDE ? fabsf(values[k]) : values[k];
            add_term(SQUARED ? x * x : x);
        }
    }
    __device__ __forceinline__ const Accumulator &total() const { return *this; }
};
#elif HALF
// FLOAT16 terms lie on a grid, so that doubles sum 8192 of them exactly. No thread gets more.
struct Collector {
    double coarse, fine;

    static const bool UNORDERED = true;

    __device__ __forceinline__ void clear() {
        coarse = -0.0;
        fine = 0;
    }
    template <int COUNT>
    __device__ __forceinline__ void add(const float (&values)[COUNT], u32, u32) {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            float x = MAGNITUDE ? fabsf(values[k]) : values[k];
            if (SQUARED && PASS == QUICK) {
                double wide = x;
                coarse = fma(wide, wide, coarse);
            } else if (SQUARED) {
                // One sum takes the multiples of 2**-7, the other the rest, which are multiples of 2**-48.
                double square = x * x;
                double multiple = (square + 0x1.8p45) - 0x1.8p45;
                coarse += multiple;
                fine += square - multiple;
            } else {
                coarse += x;
            }
        }
    }
    __device__ __forceinline__ Accumulator total() const {
        Accumulator sum;
        sum.clear();
        sum.greatest = 0x1p16f;
        sum.add_sum(coarse, is_finite(coarse) ? fine : 0, 0);
        return sum;
    }
};
#elif SQUARED
struct Collector : Accumulator {
    static const bool UNORDERED = false;

    template <int COUNT>
    __device__ __forceinline__ void add(const float (&values)[COUNT], u32, u32) {
        static_assert(PASS != QUICK || COUNT <= PLAIN_ADDITIONS, "the bound counts them");
        double squares = 0;
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            double wide = values[k];
            if (PASS == QUICK)
                squares = fma(wide, wide, squares);
            else
                add_term(wide * wide);
        }
        if (PASS == QUICK) add_term(squares);
    }
    __device__ __forceinline__ const Accumulator &total() const { return *this; }
};
#else
struct Collector : Accumulator {
    static const bool UNORDERED = true;

    // Doubles sum terms exactly if their exponents are close: each is a multiple of the ULP of the smallest.
    template <int COUNT>
    __device__ __forceinline__ void add(const float (&values)[COUNT], u32, u32) {
        const u32 RANGE = COUNT > 32 ? 0 : COUNT > 8 ? 28 - 5 : 28 - 3;
        float top = 0;
        u32 least = ~0u;  // twice the bits of the smallest magnitude, minus 1, so that zero wraps around and is ignored
        double sum = -0.0;
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            float x = MAGNITUDE ? fabsf(values[k]) : values[k];
            top = fmaxf(top, fabsf(x));
            least = min(least, 2 * __float_as_uint(x) - 1);
            sum += x;
        }
        if (!MAGNITUDE) greatest = fmaxf(greatest, top);
        if (COUNT == 1 || __float_as_uint(top) <= (least >> 1) + (RANGE << 23)) {
            add_term(sum);
        } else {
#pragma unroll
            for (int k = 0; k < COUNT; ++k) add_term(MAGNITUDE ? fabsf(values[k]) : values[k]);
        }
    }
    __device__ __forceinline__ const Accumulator &total() const { return *this; }
};
#endif
