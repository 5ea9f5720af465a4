// Sums of float terms: error-free additions in double, with a bound on what the compensation itself may have lost.
// SQUARED and MAGNITUDE say what an element becomes; FINISH is one of the ends below. Squares have a quick pass, whose
// relative error is known to be small.

const double UNIT = 0x1p-53;

struct Sum {
    double high;     // starts at -0, as a sum without terms
    double low;      // the errors of all additions into high
    float greatest;  // magnitude of any term, where terms have signs
    u32 inexact;     // not 0 once an addition into low may have been rounded

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
    // Slower, and rounds less often.
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

    // Bounds the error of high + low: each term takes part in at most `depth` additions, and each of those loses at most
    // UNIT of a partial sum of magnitudes; low loses UNIT of that again. A quick pass loses UNIT of all squares each time.
    __device__ double slack(const Terms &terms) const {
        if (PASS == QUICK) return UNIT * (HALF ? 2 * terms.depth : PLAIN_ADDITIONS) * high;
        if (inexact == 0) return 0;
        double magnitudes = SQUARED || MAGNITUDE ? high : (double)greatest * terms.count;
        double depth = UNIT * terms.depth;
        return 2 * depth * depth * magnitudes + 0x1p-1022;
    }
    static const int PLAIN_ADDITIONS = 4;  // of squares of FLOAT32 into that of the first, and one for all the rest
};

// Infinities and NaN took the way of IEEE arithmetic through `high`.
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
        if (fabs(value) < 0x1p-10) value += rest;  // elsewhere it counts for nothing
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
        bool certain = round_to<Output>(bits, Root{upper, lower}, bound);
#else
        bool certain = round_to<Output>(bits, Quotient{upper, lower, MEAN ? (double)terms.count : 1.0}, bound);
#endif
        output = F::make(bits | (negative ? F::sign : 0));
        return certain;
#endif
    }
};

#if HALF
// Terms of FLOAT16 lie on a grid, so that doubles add up 8192 of them exactly. No thread gets more.
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
                // Multiples of 2**-7 in one sum, the rest, multiples of 2**-48, in the other.
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

    // Doubles add up terms exactly if the exponents are close: each is a multiple of the last place of the least.
    template <int COUNT>
    __device__ __forceinline__ void add(const float (&values)[COUNT], u32, u32) {
        const u32 RANGE = COUNT > 32 ? 0 : COUNT > 8 ? 28 - 5 : 28 - 3;
        float top = 0;
        u32 least = ~0u;  // twice the bits of the least magnitude, less 1, so that zero is not the least
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
