// SOFTMAX of FLOAT16: sums of e**x, scaled by a power of two near the exponential of the largest element.

const bool KEEPS = true;

// Error bound of results, in ULP of a double.
const u32 SLACK = 1u << 20;

// Relative error of a term times the factor: term, factor and product are rounded, and the terms of rows that are read
// twice are computed in floats; see `exponential_in_floats`.
const double REACH = HELD ? 0x1p-22 : 0x1p-21;

// This far below the largest element results are 0, and the effect on sums is negligible.
const float NEGLIGIBLE = 64;

// The rounding constant of a row, with the shift of its exponents subtracted.
static __device__ __forceinline__ double shift_of(float peak) {
    return E.shift - 16.0 * rintf(peak > Bounds<float>::lowest() ? peak * 1.4427f : 0.0f);
}

// e**x / 2**shift within 2**-21.5. The product of an element and the leading 13 bits of log2(e) is exact, and so is its
// fraction; the product with the rest of log2(e) is added to that, and `ex2` is within 2**-22.
static __device__ __forceinline__ float exponential_in_floats(float x, i32 shift) {
    const float ROUNDER = 0x1.8p23f;
    float shifted = fmaf(x, 0x1.715476p+0f, ROUNDER);
    float rest = fmaf(x, 0x1.1d94aep-14f, fmaf(x, 0x1.715p+0f, ROUNDER - shifted)), power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(rest));
    return __uint_as_float(__float_as_uint(power) + (__float_as_uint(shifted) - (u32)shift << 23));
}

static __device__ __forceinline__ double widest(u16 bits) {
    double wide;
    asm("cvt.f64.f16 %0, %1;" : "=d"(wide) : "h"(bits));
    return wide;
}

// The scale of a row. Elements are clamped to the negligible value, which makes -inf finite unless no number is that
// far below the largest element; the sum is then NaN.
struct Scale {
    double shift;
    u32 least;  // the negligible value, as a pair

    static __device__ __forceinline__ Scale of(float peak) {
        f16 low;
        narrow(low, (peak > Bounds<float>::lowest() ? peak : 0.0f) - NEGLIGIBLE);
        return {shift_of(peak), low.bits * 0x10001u};
    }
    __device__ __forceinline__ void exponentials_of(const Lanes &lanes, double (&terms)[LANES]) const {
#pragma unroll
        for (int i = 0; i < (LANES + 1) / 2; ++i) {
            u32 pair = greater_pair(pair_of(lanes, i), least);
            terms[2 * i] = exponential_of(widest((u16)pair), shift);
            if (2 * i + 1 < LANES) terms[2 * i + 1] = exponential_of(widest((u16)(pair >> 16)), shift);
        }
    }
};

struct State {
    double sum, shift;
    float peak;  // the largest element, or NaN if any is NaN
    u32 least;

    static const bool PEAKED = true;
    static const bool SHIFTED = false;
    static const bool IS_JOINED = true;

    __device__ __forceinline__ Scale scale() const { return {shift, least}; }
    __device__ __forceinline__ void clear(float to) {
        Scale scale = Scale::of(to);
        sum = 0;
        peak = to;
        shift = scale.shift;
        least = scale.least;
    }
    __device__ __forceinline__ void raise(float to) {
        float before = peak;
        double shift_before = shift;
        to = greater(before, to);
        if (to == before) return;
        double terms = sum;
        clear(to);
        i32 exponent = 1023 + (i32)max((shift - shift_before) * 0.0625, -1023.0);
        sum = before > Bounds<float>::lowest() && exponent ? terms * __hiloint2double(exponent << 20, 0) : 0;
    }
    __device__ __forceinline__ void add(const Lanes &lanes, const float (&)[LANES], u32, Kept (&kept)[LANES]) {
        if (!HELD) {
            const Lanes all[1] = {lanes};
            raise(greatest_of(all));
        }
        double terms[LANES];
        scale().exponentials_of(lanes, terms);
#pragma unroll
        for (int k = 0; k < LANES; ++k) kept[k] = (Kept)terms[k];
#pragma unroll
        for (int apart = 1; apart < LANES; apart *= 2)
#pragma unroll
            for (int k = 0; k + apart < LANES; k += 2 * apart) terms[k] += terms[k + apart];
        sum += terms[0];
    }
    __device__ __forceinline__ void merge(State other) {
        raise(other.peak);
        other.raise(peak);
        sum += other.sum;
    }
    // The part that threads exchange once they share the same peak.
    typedef double Held;
    __device__ __forceinline__ Held held() const { return sum; }
    static __device__ __forceinline__ void join(Held &a, const Held &b) { a += b; }
    __device__ __forceinline__ void take(const Held &all) { sum = all; }
};

struct Row {
    double factor, shift;
    float below, above;  // the factor, minus and plus the error of terms
    u32 least;
    u32 unknown;         // the bits of all LANES elements if the sum is undecided

    static const bool TELLS_AT_ONCE = true;

    template <bool IS_KEPT>
    __device__ __forceinline__ u32 at_once(
        const Lanes &lanes, const float (&)[LANES], const Kept (&kept)[LANES], const Beside (&)[LANES],
        Element (&results)[LANES]
    ) const {
        float terms[LANES];
        if (IS_KEPT) {
#pragma unroll
            for (int k = 0; k < LANES; ++k) terms[k] = kept[k];
        } else {
            i32 power = (i32)((E.shift - shift) * 0.0625);
#pragma unroll
            for (int k = 0; k < LANES; ++k) {
                u32 pair = greater_pair(pair_of(lanes, k / 2), least);
                f16 x = {(u16)(k % 2 ? pair >> 16 : pair)};
                terms[k] = exponential_in_floats(widen(x), power);
            }
        }
        return undecided_halves(terms, below, above, results) | unknown;
    }
    static __device__ __forceinline__ Row of(const State &state, const Numbers &) {
        Row row;
        // False with infinity, only negative infinity, or NaN.
        bool is_number = fabsf(state.peak) < Bounds<float>::greatest();
        row.factor = is_number ? inverse_of(state.sum) : __longlong_as_double(0x7ff8000000000000ll);
        row.shift = state.shift;
        row.below = (float)(row.factor * (1 - REACH));
        row.above = (float)(row.factor * (1 + REACH));
        row.least = state.least;
        row.unknown = is_number && state.sum != state.sum ? (1u << LANES) - 1 : 0;
        return row;
    }
    template <class Sum>
    static __device__ __forceinline__ Row of_held(const State &state, const Numbers &numbers, Sum) {
        return of(state, numbers);
    }
    template <bool IS_KEPT>
    __device__ __forceinline__ bool value(
        float x, u32, Kept, const Beside &, const Numbers &, Element &result
    ) const {
        f16 low = {(u16)least};
        return !unknown && certainly(exponential_of(greater(x, widen(low)), shift) * factor, SLACK, SLACK * 0x1p-53, result);
    }
};
