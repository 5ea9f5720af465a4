// Mean and variance in pairs of floats, for GPUs with few float64 units; see `moments` for MEAN and VARIANCE, and for
// what settles the undecided results, in double but from the same sums. LENGTHS are roots of sums that are not divided.
//
// Rows sum their elements less the first one, so that a mean far above the deviations costs no bits: the square of the
// mean of these differences is at most as many times their variance as the row has elements.
//
// With u = 2^-24, A the mean magnitude of the elements summed, and Q their mean square:
// - LANES elements or squares of FLOAT16 are summed in two floats. The low part is at most (LANES + 3)u of their
//   magnitudes; it rounds LANES times, and the low part of a square is within 3u^2. With what `totals` adds, sums are
//   off by at most a grain of the magnitudes, which the host computes.
// - Those of FLOAT32 are added one by one, as results near 0 need more. Only `lowest` rounds: an addition loses at most
//   u |lowest| and u |lowest + lowest before|, a merge 3u |lowest| and 2u |lowest| of the other. So a sum is off by at
//   most 6u of the sum of |lowest| after each addition and merge. The low part of a square rounds twice, by at most u.
// - A quotient is within 2^-43, and the value of a sum within 2^-47 of its high and low part. The mean is off by at most
//   that and the error of the sum, and its difference from an element by another 4u^2 |mean|.
// - The variance is Q - mean^2, off by at most the error of Q, that of the mean times 2 |mean|, and 4 * 2^-43 Q.
// - `inverse_root` is within 2^-44, and turns an error of the variance into half of it.
// - Differences, products and sums of pairs are within 6u^2 each: 2^-43 with those of a result.

static __device__ __forceinline__ void prepare() {}

const float LEAST_RESULT_SIZE = 0x1p-100f;
const u32 LEAST_RESULT = 0x0d800000;       // its bits: less leaves the low part too few bits
const float TINY = 0x1p-147f;              // exceeds what parts lose that are too small for a float
const float OF_RESULT = 0x1p-42f;          // relative error of a result whose mean and variance are exact
const float SHRUNK = 0x1p-40f;             // keeps sums of elements finite, unless an element is not

// A result, which is no negative zero if LENGTHS.
static __device__ __forceinline__ f32 signed_right(f32 x) { return LENGTHS ? x + 0.0f : x; }
static __device__ __forceinline__ f16 signed_right(f16 x) { return {(u16)(LENGTHS && x.bits == 0x8000 ? 0 : x.bits)}; }

// 1 / sqrt(x). The approximation r is within 2^-22.9, so that 1 - x r^2 is at most 2^-21.8; it is off by 2^-44, which
// counts half, and the correction by another 2^-45.
static __device__ __forceinline__ Pair inverse_root(Pair x) {
    float r = approximate_inverse_root(x.hi), square = r * r, lost = fmaf(r, r, -square);
    float rest = fmaf(-x.lo, square, fmaf(-x.hi, lost, fmaf(-x.hi, square, 1.0f)));
    return ordered_sum(r, r * rest * fmaf(rest, 0.375f, 0.5f));
}

// Few terms in two floats.
struct Few {
    Pair total;

    __device__ __forceinline__ void add(Pair x, bool is_first) {
        Pair s = is_first ? x : exact_sum(total.hi, x.hi);
        total = {s.hi, is_first ? s.lo : total.lo + (s.lo + x.lo)};
    }
};

struct State {
    Total sum, squares;
    float first;       // of the row, if MEAN
    float slack, slack_of_squares;  // errors of the sums, in grains
    float witness;     // not finite if an element is not

    static const bool PEAKED = false;
    static const bool SHIFTED = MEAN;
    static const bool IS_JOINED = true;

    __device__ __forceinline__ void clear(float to) {
        sum.clear();
        squares.clear();
        first = to;
        slack = slack_of_squares = witness = 0;
    }
    __device__ __forceinline__ Pair shifted(float x) const { return MEAN ? exact_sum(x, -first) : Pair{x, 0}; }
    static __device__ __forceinline__ Pair squared(Pair d) {
        float square = d.hi * d.hi;
        float lost = fmaf(d.hi, d.hi, -square);
        return {square, MEAN ? fmaf(d.lo, d.lo, fmaf(2 * d.hi, d.lo, lost)) : HALF ? 0 : lost};
    }
    __device__ __forceinline__ void add(const Lanes &, const float (&values)[LANES], u32, Kept (&)[LANES]) {
        Few elements, products;
#pragma unroll
        for (int k = 0; k < LANES; ++k) {
            Pair d = shifted(values[k]), square = squared(d);
            witness = fmaf(MEAN ? values[k] : fabsf(values[k]), SHRUNK, witness);
            if (HALF) {
                elements.add(d, k == 0);
                products.add(square, k == 0);
                if (MEAN) slack += fabsf(d.hi);
            } else {
                add_exactly(d, square);
            }
        }
        if (HALF && MEAN) sum.add(elements.total);
        if (HALF && VARIANCE) squares.add(products.total);
    }
    __device__ __forceinline__ void add_exactly(Pair d, Pair square) {
        if (MEAN) {
            sum.add(d);
            slack += fabsf(sum.lowest);
        }
        if (VARIANCE) {
            squares.add(square);
            slack_of_squares = fmaf(3, fabsf(squares.lowest), slack_of_squares) + fabsf(square.lo);
        }
    }
    __device__ __forceinline__ void merge(const State &other) {
        first = fmaxf(first, other.first);  // a state of no elements may not know it
        join(*this, other);
    }
    typedef State Held;
    __device__ __forceinline__ const State &held() const { return *this; }
    static __device__ __forceinline__ void join(State &a, const State &b) {
        if (MEAN) {
            a.sum.merge(b.sum);
            a.slack += b.slack;
            if (!HALF) a.slack += fabsf(a.sum.lowest);
        }
        if (VARIANCE) {
            a.squares.merge(b.squares);
            a.slack_of_squares = fmaf(3, fabsf(a.squares.lowest), a.slack_of_squares + b.slack_of_squares);
        }
        a.witness += b.witness;
    }
    __device__ __forceinline__ void take(const State &all) { *this = all; }


    static __device__ __forceinline__ bool is_finite(float x) { return fabsf(x) <= 3.402823466e+38f; }
    __device__ __forceinline__ bool has_numbers_only() const {
        return is_finite(witness);
    }
    // Whether sums left the range of floats although no element did.
    __device__ __forceinline__ bool is_lost() const {
        return has_numbers_only() && !(is_finite(sum.high) && is_finite(squares.high));
    }

    __device__ __forceinline__ float error_of_squares(const Numbers &numbers) const {
        return numbers.grain_of_squares * (HALF ? squares.high : slack_of_squares);
    }
    static __device__ double error_of(float of_sum, double lost, const Numbers &numbers) {
        return (of_sum + settling::UNIT * fabs(lost)) * numbers.inverse;
    }

    // The row in double, if it is not lost.
    __device__ settling::Row precise(const Numbers &numbers) const {
        settling::State state;
        state.clear(0);
        state.sum = sum.high;
        state.lost = (double)sum.low + sum.lowest;
        state.squares = squares.high;
        state.lost_squares = (double)squares.low + squares.lowest;
        if (!has_numbers_only()) {
            state.sum = state.squares = witness;
            return settling::Row::of(state, numbers);
        }
        double error = 0, spread = 0;
        settling::Mean mean = state.mean(numbers);
        if (MEAN) mean.error += error_of(1.01f * numbers.grain * slack, state.lost, numbers);
        if (VARIANCE) {
            spread = state.variance(mean, numbers, error);
            error += error_of(1.01f * error_of_squares(numbers), state.lost_squares, numbers) + 0x1p-140;
        }
        if (MEAN && numbers.count == 1) error = 0;
        if (MEAN) {
            double rest;
            mean.high = two_sum(first, mean.high, rest);
            mean.low += rest;
            mean.error += settling::UNIT * fabs(mean.low);
        }
        return settling::Row::with(mean, spread, error, numbers);
    }
};

// What pairs leave undecided. A call keeps its float64 arithmetic apart from that of all elements.
static __device__ __noinline__ bool settled_in_double(
    State sums, float x, Beside beside, const Numbers &numbers, Element &result
) {
    settling::Row row = GIVEN ? settling::Row::given(sums.first, sums.squares.high, numbers) : sums.precise(numbers);
    return row.template value<false>(x, 0, {}, beside, numbers, result) & (GIVEN | !sums.is_lost());
}

struct Row {
    State sums;    // or the given mean as the first element, and the variance as the sum of squares
    Pair mean;     // of the shifted elements
    Pair factor;   // NaN if all results are
    Pair center;   // the mean of the elements
    float share;   // relative error of a scaled deviation
    float drift;   // absolute error that the mean adds, and the center
    float drift_of_center;

    static const bool TELLS_AT_ONCE = true;

    static __device__ __forceinline__ Pair share_of(const Total &total, const Numbers &numbers) {
        float count = (float)numbers.count;
        return quotient(total.value(), Pair{count, (float)(i32)(numbers.count - (u32)count)});
    }
    // Sets the factor and the errors from the variance, and from errors of it and of the mean.
    __device__ __forceinline__ void scale_by(Pair spread, float error, float of_mean, const Numbers &numbers) {
        factor = pair_of(1.0f);
        share = OF_RESULT;
        bool is_known = true;
        if (VARIANCE) {
            float epsilon = numbers.single_epsilon;
            Pair all = sum(spread, epsilon);
            error += 0x1p-44f * (fabsf(spread.hi) + fabsf(epsilon));
            is_known = (all.hi >= 0x1p-100f) & (all.hi <= 0x1p100f) & (error <= 0x1p-12f * all.hi);
            factor = inverse_root(all);
            share += 0.51f * error * factor.hi * factor.hi;
        }
        drift = fmaf(1.01f * of_mean, factor.hi, of_mean > 0 ? 2 * TINY : TINY);
        center = sum(sums.first, mean);
        drift_of_center = fmaf(0x1p-44f * (fabsf(sums.first) + fabsf(mean.hi)), factor.hi, drift);
        if (!is_known) {
            factor = pair_of(1.0f);
            share = drift = drift_of_center = Bounds<float>::greatest();
        }
    }
    static __device__ __forceinline__ Row given(float mean, float variance, const Numbers &numbers) {
        Row row;
        row.sums.clear(mean);
        row.sums.squares.high = variance;
        row.mean = pair_of(0.0f);
        row.scale_by(pair_of(variance), 0, 0, numbers);
        return row;
    }
    static __device__ __forceinline__ Row of(const State &state, const Numbers &numbers) {
        Row row;
        row.sums = state;
        Pair square = VARIANCE ? share_of(state.squares, numbers) : pair_of(0.0f);
        float inverse = approximate_inverse((float)numbers.count), of_mean = 0;
        float error = 1.01f * state.error_of_squares(numbers) * inverse + 0x1p-41f * square.hi + 0x1p-140f;
        row.mean = pair_of(0.0f);
        if (MEAN) {
            row.mean = share_of(state.sum, numbers);
            float of_sum = fmaf(1.01f * numbers.grain, state.slack, 0x1p-47f * fabsf(state.sum.low));
            of_mean = of_sum * inverse + 0x1p-42f * fabsf(row.mean.hi);
            if (state.sum.value().hi != 0) of_mean += TINY;
            square = gap(square, product(row.mean, row.mean));
            error = fmaf(2.01f * of_mean, fabsf(row.mean.hi), error);
        }
        if (MEAN && numbers.count == 1) {
            square = pair_of(0.0f);
            error = 0;
        }
        row.scale_by(square, error, of_mean, numbers);
        if (!state.has_numbers_only() && MEAN && VARIANCE) row.factor = pair_of(__uint_as_float(0x7fc00000u));
        return row;
    }
    template <class Sum>
    static __device__ __forceinline__ Row of_held(const State &state, const Numbers &numbers, Sum) {
        return of(state, numbers);
    }

    __device__ __forceinline__ bool is_nan() const { return factor.hi != factor.hi; }

    // An element less the mean.
    __device__ __forceinline__ Pair deviation(float x) const {
        if (!MEAN) return {x, 0};
        Pair d = exact_sum(x, -sums.first);
        if (GIVEN) return d;
        Pair s = exact_sum(d.hi, -mean.hi);
        return {s.hi, s.lo + (d.lo - mean.lo)};
    }
    template <class To> __device__ __forceinline__ bool is_settled(float x, const Beside &beside, To &result) const {
        Pair d = deviation(x), t = VARIANCE ? loose_product(d, factor) : d;
        float error = fmaf(fabsf(t.hi), share, drift), last;
        if (SCALE) {
            t = loose_product(t, beside.scale);
            error *= fabsf(beside.scale);
        }
        last = t.hi;
        if (BIAS) {
            Pair s = exact_sum(t.hi, beside.bias);
            t = {s.hi, s.lo + t.lo};
            last += beside.bias;
            error = fmaf(fabsf(beside.bias), OF_RESULT, error);
        }
        if (ADDED) {
            Pair s = exact_sum(t.hi, beside.added);
            t = {s.hi, s.lo + t.lo};
            last += beside.added;
            error = fmaf(fabsf(beside.added), OF_RESULT, error);
        }
        Pair found = exact_sum(t.hi, t.lo);
        bool is_sure = rounds_alike(found, found.lo - error, found.lo + error, LEAST_RESULT, false, result);
        // A sum of zeros has the sign that they give it; without summands, it is positive.
        bool is_zero = (d.hi == 0) & (drift <= TINY) & (last == 0);
        if (is_zero) result = narrowed<Element>(ADDS ? last : 0.0f);
        if (is_nan()) result = narrowed<Element>(factor.hi);
        result = signed_right(result);
        return is_sure | is_zero | is_nan();
    }
    template <bool IS_KEPT>
    __device__ __forceinline__ u32 at_once(
        const Lanes &, const float (&x)[LANES], const Kept (&)[LANES], const Beside (&beside)[LANES],
        f32 (&results)[LANES]
    ) const {
        return undecided_of<LANES>([&](int k) { return is_settled(x[k], beside[k], results[k]); });
    }
    // First in floats: each of at most seven steps rounds by 2^-24.
    template <bool IS_KEPT>
    __device__ __forceinline__ u32 at_once(
        const Lanes &, const float (&x)[LANES], const Kept (&)[LANES], const Beside (&beside)[LANES],
        f16 (&results)[LANES]
    ) const {
        u32 undecided = undecided_of<LANES>([&](int k) {
            float d = !MEAN ? x[k] : GIVEN ? x[k] - sums.first : (x[k] - center.hi) - center.lo;
            float found = VARIANCE ? d * factor.hi : d, error = fmaf(fabsf(found), share + 0x1p-21f, drift_of_center);
            if (SCALE) found *= beside[k].scale, error *= fabsf(beside[k].scale);
            if (BIAS) found += beside[k].bias, error = fmaf(fabsf(beside[k].bias), 0x1p-22f, error);
            if (ADDED) found += beside[k].added, error = fmaf(fabsf(beside[k].added), 0x1p-22f, error);
            u32 both = rounded_pair(found - error, found + error);
            results[k] = signed_right(f16{(u16)both});
            return (both >> 16 == (both & 0xffff)) & (found == found);
        });
        if (undecided) {
#pragma unroll
            for (int k = 0; k < LANES; ++k)
                if (undecided >> k & 1) undecided ^= (u32)is_settled(x[k], beside[k], results[k]) << k;
        }
        return undecided;
    }

    template <bool IS_KEPT>
    __device__ __forceinline__ bool value(
        float x, u32, Kept, const Beside &beside, const Numbers &numbers, Element &result
    ) const {
        bool is_found = settled_in_double(sums, x, beside, numbers, result);
        result = signed_right(result);
        return is_found;
    }
#if STATISTICS
    __device__ bool statistics(Element &to_mean, Element &to_variance, const Numbers &numbers) const {
        return sums.precise(numbers).statistics(to_mean, to_variance, numbers) & !sums.is_lost();
    }
#endif
};
