// Mean and variance: sums of elements and of their squares in pairs of doubles, and a bound on what they lack, so that
// variances are as exact as if deviations had been squared. MEAN and VARIANCE say which of both count.

const double NONE = -1.0;
const double UNIT = 0x1p-53;

// How much smaller than the result its error must be, and what errors count for nothing.
template <class T> struct Enough;
template <> struct Enough<f32> { static constexpr double share = 0x1p-26, least = 0x1p-151; };
template <> struct Enough<f16> { static constexpr double share = 0x1p-13, least = 0x1p-26; };

static __device__ __forceinline__ bool is_enough(double value, double error) {
    typedef Enough<Element> E;
    return !(error > E::share * fabs(value) && error > E::least);
}

// The mean of a row, as a sum of two, and how far it may be off.
struct Mean {
    double high, low, error;
};

struct State {
    double sum, lost, squares, lost_squares;  // a sum starts at 0; what it lost is added up beside it
    u32 inexact, unused;                      // not 0 if that was rounded, too

    static const bool PEAKED = false;

    __device__ __forceinline__ void clear(float) {
        sum = lost = squares = lost_squares = 0;
        inexact = unused = 0;
    }
    __device__ __forceinline__ void add(const float (&values)[LANES], u32, double (&)[LANES]) {
#pragma unroll
        for (int k = 0; k < LANES; ++k) {
            double x = values[k], error;
            sum = two_sum(sum, x, error);
            lost += error;
            u64 bits = same_bits<u64>(error);
            inexact |= (u32)bits | (u32)(bits >> 32);
            squares = two_sum(squares, x * x, error);
            lost_squares += error;
        }
    }
    __device__ __forceinline__ void merge(const State &other) {
        double error, rest;
        sum = two_sum(sum, other.sum, error);
        lost = two_sum(lost, error, rest);
        inexact |= other.inexact | (rest != 0);
        lost = two_sum(lost, other.lost, rest);
        inexact |= rest != 0;
        squares = two_sum(squares, other.squares, error);
        lost_squares += error + other.lost_squares;
    }
    // What additions of what was lost may have lost, as a part of the sum of the magnitudes.
    static __device__ __forceinline__ double share(const Numbers &numbers) {
        double depth = UNIT * numbers.depth;
        return 2 * depth * depth;
    }
    __device__ __forceinline__ Mean mean(const Numbers &numbers) const {
        double n = numbers.count;
        if (!is_finite(sum)) return {sum, 0, 0};
        double rest, total = two_sum(sum, lost, rest), high = total / n;
        double low = (fma(-high, n, total) + rest) / n;
        // The magnitudes add up to no more than the root of n times the squares.
        double error = inexact ? share(numbers) * sqrt(squares / n) : 0;
        return {high, low, error + 4 * UNIT * fabs(low)};
    }
    // The mean of the squared deviations, and its error.
    __device__ __forceinline__ double variance(const Mean &mean, const Numbers &numbers, double &error) const {
        double n = numbers.count;
        error = 0;
        if (!is_finite(squares)) return MEAN ? mean.high - mean.high : squares;
        double rest, total = two_sum(squares, lost_squares, rest), high = total / n;
        double low = (fma(-high, n, total) + rest) / n;
        error = (share(numbers) + 0x1p-100) * high;
        if (!MEAN) return high;
        double square = mean.high * mean.high;
        double below = fma(mean.high, mean.high, -square) + 2 * mean.high * mean.low;
        error += 2 * fabs(mean.high) * mean.error;
        if (squares == 0) return 0;
        double difference = two_sum(high, -square, rest);
        return difference + (rest + (low - below));
    }
};

static __device__ double activated(double x);

struct Row {
    double mean, rest;  // of the mean
    double factor;      // of deviations
    double error;       // of the mean
    double share;       // error of the factor, as a part of it
#if STATISTICS
    double spread, spread_error;

    __device__ __forceinline__ bool statistics(Element &to_mean, Element &to_variance) const {
        to_mean = nearest(mean + rest);
        to_variance = nearest(spread);
        return is_enough(mean + rest, error) && is_enough(spread, spread_error);
    }
#endif

    static __device__ __forceinline__ Row given(double mean, double variance, const Numbers &numbers) {
        return {mean, 0, 1 / sqrt(variance + numbers.epsilon), 0, 4 * UNIT};
    }
    static __device__ __forceinline__ Row of(const State &state, const Numbers &numbers) {
        Row row = {0, 0, 1, 0, 4 * UNIT};
        Mean mean = {0, 0, 0};
        if (MEAN) mean = state.mean(numbers);
        row.mean = mean.high;
        row.rest = mean.low;
        row.error = mean.error;
        if (VARIANCE) {
            double error, spread = state.variance(mean, numbers, error), sum = spread + numbers.epsilon;
            row.factor = 1 / sqrt(sum);
            if (error > 0) row.share = error < fabs(sum) * 0x1p-10 ? row.share + error / fabs(sum) : 1;
#if STATISTICS
            row.spread = spread;
            row.spread_error = error;
#endif
        }
        return row;
    }
    __device__ __forceinline__ bool value(
        float x, u32, double, const Beside &beside, const Numbers &, Element &result
    ) const {
        if (share >= 1) return false;
        double scaled = SCALE ? factor * beside.scale : factor;
        double deviation = MEAN ? (x - mean) - rest : (double)x, found = deviation * scaled;
        double slack = fabs(found) * share;
        if (MEAN && error > 0) slack += fabs(scaled) * error;
        if (BIAS) {
            slack += 4 * UNIT * fabs(beside.bias);
            found += beside.bias;
        }
        if (ADDED) {
            slack += 4 * UNIT * (fabs(beside.added) + fabs(found));
            found += beside.added;
        }
        result = nearest(activated(found));
        return is_enough(found, slack);
    }
};
