// Mean and variance, from sums in pairs of doubles with a bound on their error. Held rows of FLOAT32 sum the deviations
// from an approximate mean and their squares in a second pass. All other rows sum the squares along with the elements,
// except that held rows whose mean far exceeds their deviations also take the second pass. MEAN and VARIANCE enable
// each part.

const bool KEEPS = false;
const bool ADDS = BIAS || ADDED;

#if PAIRS
namespace settling {
#endif

const double UNIT = 0x1p-53;
const bool SQUARES = HALF || !HELD;  // whether squares are summed along with the elements
// Whether floats sum the squares of LANES elements: the relative error is at most 8 * 2^-24, which is accurate enough
// for FLOAT16 where nothing can cancel.
const bool COARSE = HALF && !MEAN && !ADDS && !ACTIVATED;

static __device__ __forceinline__ void prepare() {}

// Maximum relative error of a result, and the absolute error below which it does not matter.
const float ENOUGH = HALF ? 0x1p-13f : 0x1p-26f, LEAST = HALF ? 0x1p-26f : 0.0f;

static __device__ __forceinline__ bool is_enough(float value, float error) {
    return !(error > ENOUGH * fabsf(value) && error > LEAST);
}

// Whether doubles sum LANES elements exactly: the exponents must be close, as those of FLOAT16 always are.
static __device__ __forceinline__ bool are_close(const float (&values)[LANES]) {
    if (HALF || LANES == 1) return true;
    float top = 0;
    u32 least = ~0u;  // twice the bits of the smallest magnitude, minus 1, so that zero wraps around and is ignored
#pragma unroll
    for (int k = 0; k < LANES; ++k) {
        top = fmaxf(top, fabsf(values[k]));
        least = min(least, 2 * __float_as_uint(values[k]) - 1);
    }
    return __float_as_uint(top) <= (least >> 1) + (25u << 23);
}

// The approximate inverse root is within 2^-18, so the cube of its error is below the rounding errors of two ULP.
static __device__ __forceinline__ double inverse_root(double x) {
    if ((u32)__double2hiint(x) - 0x00100000 >= 0x7fe00000) return 1 / sqrt(x);  // not positive and normal
    double inverse = approximate_inverse_root(x);
    double rest = fma(-x * inverse, inverse, 1.0);
    return fma(inverse * rest, fma(0.375, rest, 0.5), inverse);
}

// Correctly rounded quotient of a number and the row length, since the inverse is and the remainder is exact.
static __device__ __forceinline__ double share_of(double total, const Numbers &numbers) {
    double share = total * numbers.inverse;
    return fma(fma(-share, (double)numbers.count, total), numbers.inverse, share);
}

// The mean of a row as an unevaluated sum of two doubles, with an error bound.
struct Mean {
    double high, low, error;
};

template <bool IS_HALF, class Half, class Single> struct HeldOf { typedef Single Type; };
template <class Half, class Single> struct HeldOf<true, Half, Single> { typedef Half Type; };

struct State {
    double sum, lost;     // `lost` accumulates the rounding errors of `sum`
    double squares, lost_squares;
    u32 inexact, unused;  // nonzero if `lost` was rounded, too

    static const bool PEAKED = false;
    static const bool SHIFTED = false;
    static const bool IS_JOINED = MEAN || SQUARES;

    __device__ __forceinline__ void clear(float) {
        sum = lost = squares = lost_squares = 0;
        inexact = unused = 0;
    }
    __device__ __forceinline__ void add_term(double x) {
        double error;
        sum = two_sum(sum, x, error);
        lost += error;
        u64 bits = same_bits<u64>(error);
        inexact |= (u32)bits | (u32)(bits >> 32);
    }
    __device__ __forceinline__ void add_square(double square) {
        double error;
        squares = two_sum(squares, square, error);
        lost_squares += error;
    }
    __device__ __forceinline__ void add(const Lanes &, const float (&values)[LANES], u32, Kept (&)[LANES]) {
        if (MEAN) {
            double together = values[0];
#pragma unroll
            for (int k = 1; k < LANES; ++k) together += values[k];
            if (HELD) {
                sum += together;
            } else if (are_close(values)) {
                add_term(together);
            } else {
#pragma unroll
                for (int k = 0; k < LANES; ++k) add_term(values[k]);
            }
        }
        if (!SQUARES) return;
        double together = 0;
        if (COARSE) {
            float coarse = values[0] * values[0];
#pragma unroll
            for (int k = 1; k < LANES; ++k) coarse = fmaf(values[k], values[k], coarse);
            together = coarse;
        }
#pragma unroll
        for (int k = 0; k < LANES && !COARSE; ++k) {
            double x = values[k];
            if (HALF)
                together = fma(x, x, together);
            else
                add_square(x * x);
        }
        if (HALF && HELD) squares += together;
        else if (HALF) add_square(together);
    }
    __device__ __forceinline__ void merge(const State &other) {
        double error, rest;
        if (MEAN) {
            sum = two_sum(sum, other.sum, error);
            lost = two_sum(lost, error, rest);
            inexact |= other.inexact | (rest != 0);
            lost = two_sum(lost, other.lost, rest);
            inexact |= rest != 0;
        }
        if (!SQUARES) return;
        squares = two_sum(squares, other.squares, error);
        lost_squares += error + other.lost_squares;
    }
    // The part that threads of held rows exchange. FLOAT16 sums of so few elements are exact, and sums of squares
    // almost; for FLOAT32 the sum only needs to be near the mean.
    struct HeldHalf {
        double sum, squares;
    };
    typedef HeldOf<HALF, HeldHalf, double>::Type Held;
    __device__ __forceinline__ void give(HeldHalf &to) const { to = {sum, squares}; }
    __device__ __forceinline__ void give(double &to) const { to = sum; }
    __device__ __forceinline__ Held held() const {
        Held to;
        give(to);
        return to;
    }
    static __device__ __forceinline__ void join(HeldHalf &a, const HeldHalf &b) {
        a.sum += b.sum;
        a.squares += b.squares;
    }
    static __device__ __forceinline__ void join(double &a, double b) { a += b; }
    __device__ __forceinline__ void take(const HeldHalf &all) {
        sum = all.sum;
        squares = all.squares;
    }
    __device__ __forceinline__ void take(double all) { sum = all; }
    // Bound on the error of `lost`, relative to the sum of the magnitudes.
    static __device__ __forceinline__ double share(const Numbers &numbers) {
        double depth = UNIT * numbers.depth;
        return 2 * depth * depth;
    }
    __device__ __forceinline__ Mean mean(const Numbers &numbers) const {
        if (!MEAN) return {0, 0, 0};
        double n = numbers.count;
        if (!is_finite(sum)) return {sum, 0, 0};
        double rest, total = two_sum(sum, lost, rest), high = share_of(total, numbers);
        double low = (fma(-high, n, total) + rest) * numbers.inverse;
        return {high, low, 4 * UNIT * fabs(low)};
    }
    // The variance from the mean of the squares, which for FLOAT16 are rounded in each load.
    __device__ __forceinline__ double variance(const Mean &mean, const Numbers &numbers, double &error) const {
        double n = numbers.count;
        error = 0;
        if (MEAN && !is_finite(sum)) return mean.high - mean.high;
        if (!is_finite(squares)) return squares;
        if (MEAN && numbers.count == 1) return 0;
        double rest, total = two_sum(squares, lost_squares, rest), high = share_of(total, numbers);
        double low = (fma(-high, n, total) + rest) * numbers.inverse;
        error = (share(numbers) + (COARSE ? 0x1.01p-21 : HALF ? 64 * UNIT : 0x1p-100)) * high;
        if (!MEAN || high == 0) return high;
        double square = mean.high * mean.high;
        double below = fma(mean.high, mean.high, -square) + 2 * mean.high * mean.low;
        error += 2 * fabs(mean.high) * mean.error;
        double difference = two_sum(high, -square, rest);
        return difference + (rest + (low - below));
    }
};

#if !PAIRS
static __device__ double activated(double x);
#endif

struct Row {
    double mean, rest;  // low part of the mean
    double factor;      // multiplier of deviations
    float share;        // relative error of a scaled deviation
    float drift;        // absolute error that the mean adds
#if STATISTICS
    double spread, spread_error, mean_error;

    __device__ __forceinline__ bool statistics(Element &to_mean, Element &to_variance, const Numbers &) const {
        to_mean = nearest(mean + rest);
        to_variance = nearest(spread);
        return is_enough(mean + rest, 1.01f * (float)mean_error) && is_enough(spread, 1.01f * (float)spread_error);
    }
#endif

    static __device__ __forceinline__ Row with(const Mean &mean, double spread, double error, const Numbers &numbers) {
        Row row;
        row.mean = mean.high;
        row.rest = mean.low;
        row.factor = 1;
        row.share = 0x1p-50f;
        if (VARIANCE) {
            double sum = spread + numbers.epsilon;
            row.factor = inverse_root(sum);
            if (error > 0) row.share = error < fabs(sum) * 0x1p-10 ? row.share + 1.01f * (float)(error / fabs(sum)) : 1;
        }
        // The mean may be split into two floats.
        double error_of_mean = mean.error + (HALF ? 0x1p-46 * fabs(mean.high) : 0);
        row.drift = error_of_mean > 0 ? 1.01f * (float)(error_of_mean * fabs(row.factor)) : 0;
#if STATISTICS
        row.spread = spread;
        row.spread_error = error + 4 * UNIT * fabs(spread);
        row.mean_error = mean.error;
#endif
        return row;
    }
    static __device__ __forceinline__ Row given(double mean, double variance, const Numbers &numbers) {
        return with(Mean{mean, 0, 0}, variance, 0, numbers);
    }
    static __device__ __forceinline__ Row of(const State &state, const Numbers &numbers) {
        double error = 0, spread = 0;
        Mean mean = state.mean(numbers);
        if (VARIANCE) spread = state.variance(mean, numbers, error);
        // The sum of the magnitudes is at most sqrt(n * sum of squares).
        if (state.inexact) mean.error += State::share(numbers) * sqrt(state.squares / numbers.count);
        return with(mean, spread, error, numbers);
    }
    template <class Sum>
    static __device__ __forceinline__ Row of_held(const State &state, const Numbers &numbers, Sum sum) {
        Mean mean = state.mean(numbers);
        Row first;
        bool is_poor = true;
        if (SQUARES) {
            double error = 0, spread = VARIANCE ? state.variance(mean, numbers, error) : 0;
            is_poor = error > 0x1p-40 * (spread + numbers.epsilon);
            first = with(mean, spread, error, numbers);
            if (COARSE || !sum.is_wanted(is_poor)) return first;
        }
        auto deviations = sum([&](float x, Sums &total) {
            double deviation = MEAN ? x - mean.high : (double)x;
            if (MEAN) total.first += deviation;
            total.second = fma(deviation, deviation, total.second);
        });
        if (SQUARES && !is_poor) return first;  // only another row of the warp wanted the sums
        // The rest of the mean; its error is relative to the mean absolute deviation, which the root bounds.
        mean.low = MEAN && is_finite(mean.high) ? deviations.first * numbers.inverse : 0;
        double squares = deviations.second * numbers.inverse, spread = squares - mean.low * mean.low;
        double part = UNIT * (numbers.depth + 8);
        mean.error = MEAN && squares > 0 ? part * squares * inverse_root(squares) : 0;
        return with(mean, spread, 2 * part * squares, numbers);
    }
    // Floats are accurate enough for FLOAT16 where nothing can cancel: each of the five steps rounds by 2^-24.
    static const bool TELLS_AT_ONCE = !ACTIVATED;
    static const bool IN_FLOATS = HALF && !ADDS;
    __device__ __forceinline__ float scaled(float x, float scale) const {
        float high = (float)mean, low = is_finite(mean) ? (float)(mean - high + rest) : 0;
        float found = (MEAN ? (x - high) - low : x) * (float)factor;
        return (SCALE ? found * scale : found) + 0.0f;  // an exact zero is positive
    }
    __device__ __forceinline__ double sum_of_terms(double x, const Beside &beside) const {
        double found = (MEAN ? (x - mean) - rest : x) * factor;
        if (SCALE) found *= beside.scale;
        if (BIAS) found += beside.bias;
        if (ADDED) found += beside.added;
        return ADDS ? found : found + 0.0;  // without summands, an exact zero is positive
    }
    // An infinite scale leaves nothing of a deviation but its sign, which must be certain.
    __device__ __forceinline__ bool has_sign(float x, float scale) const {
        if (!MEAN || !SCALE || is_finite((double)scale)) return true;
        return !(fabs(((x - mean) - rest) * factor) < drift * (2 / ENOUGH));
    }
    // Half of the allowed error goes to errors relative to the result, the other half to all others.
    template <bool IS_KEPT>
    __device__ __forceinline__ u32 at_once(
        const Lanes &, const float (&x)[LANES], const Kept (&)[LANES], const Beside (&beside)[LANES],
        Element (&results)[LANES]
    ) const {
        return undecided_of<LANES>([&](int k) { return at_once(x[k], beside[k], results[k]); });
    }
    __device__ __forceinline__ bool at_once(float x, const Beside &beside, Element &result) const {
        const float STEP = IN_FLOATS ? 0x1p-21f : 0x1p-51f, PARTS = 2 / ENOUGH;
        float last = IN_FLOATS ? scaled(x, beside.scale) : (float)sum_of_terms(x, beside), error = 0;
        if (BIAS) error += fabsf(beside.bias);
        if (ADDED) error += 2 * fabsf(beside.added);
        if (ADDS) error *= (share + STEP) * PARTS;
        if (MEAN) error += drift * PARTS * (SCALE ? fabsf(beside.scale) : 1);
        result = narrowed<Element>(last);
        return (share + STEP < ENOUGH / 2) & !(fabsf(last) < error) & has_sign(x, beside.scale);
    }
    template <bool IS_KEPT>
    __device__ __forceinline__ bool value(
        float x, u32, Kept, const Beside &beside, const Numbers &, Element &result
    ) const {
        if (share >= 1) return false;
        double found = sum_of_terms(x, beside);
        // The result and the summands bound the magnitude of the scaled deviation.
        float last = fabsf((float)found), bias = BIAS ? fabsf(beside.bias) : 0.0f, added = ADDED ? fabsf(beside.added) : 0.0f;
        float slack = share * (1.001f * last + bias + added) + (SCALE ? drift * fabsf(beside.scale) : drift);
        if (BIAS || ADDED) slack += 0x1p-51f * (last + bias + 2 * added);
        result = nearest(activated(found));
        return is_enough((float)found, slack) && has_sign(x, beside.scale);
    }
};

#if PAIRS
}
#endif
