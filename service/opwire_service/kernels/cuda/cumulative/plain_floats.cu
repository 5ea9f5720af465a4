// Running sums in floats, for GPUs with few float64 units.

// The largest magnitude of some terms.
struct Extent {
    u32 top;  // its bits

    __device__ __forceinline__ void clear() { top = 0; }
    __device__ __forceinline__ void cover(Input x) { top = max(top, __float_as_uint(widen(x)) & 0x7fffffff); }
    __device__ __forceinline__ Extent of_warp() const { return {greatest_of_warp(top)}; }
    // Merges the extents of all warps of a block.
    __device__ __forceinline__ void join_into(Extent &all) const {
        if (threadIdx.x % 32 == 0) atomicMax(&all.top, top);
    }
    // False for infinities and NaN.
    __device__ __forceinline__ bool is_plain(u32) const { return top < 0x7f800000; }
    __device__ __forceinline__ void give_up() { top = 0x7f800000; }
};

// The sum of two floats if a float holds it, else that of its neighbors whose last bit is 1. FLOAT16 rounds from it as
// from the sum.
static __device__ __forceinline__ float odd_sum(float a, float b) {
    float below = __fadd_rd(a, b), above = __fadd_ru(a, b);
    return __float_as_uint(below) & 1 ? below : above;
}

struct Plain {
    static const bool IS_EXACT = false;
    float high, low;
    // The sum is high + low, give or take this; after an overflow it is NaN. Its own additions are rounded as well: a
    // value takes part in fewer than 1000, each of which loses at most 2^-24 of it, so that 1.001 times it is enough.
    float lost;

    __device__ __forceinline__ void clear() {
        high = -0.0f;
        low = lost = 0;
    }
    // What `high` loses goes to `low`, and what that loses is bounded.
    __device__ __forceinline__ void add(float other_high, float other_low, float other_lost) {
        float error, more, less;
        high = two_sum(high, other_high, error);
        low = two_sum(low, error, less);
        low = two_sum(low, other_low, more);
        lost += other_lost + fabsf(less) + fabsf(more);
    }
    __device__ __forceinline__ void take(Input x) { add(widen(x), 0, 0); }
    __device__ __forceinline__ void merge(const Plain &other) { add(other.high, other.low, other.lost); }
    template <u32 COUNT> __device__ __forceinline__ void take_all(const Input (&items)[COUNT]) {
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) take(items[k]);
    }
    __device__ __forceinline__ bool is_exact() const { return lost == 0; }
    // An exact sum as doubles.
    __device__ __forceinline__ Running running(const Extent &extent) const {
        Running sum;
        sum.clear();
        sum.high = high;
        if (low != 0) sum.high = two_sum((double)high, (double)low, sum.low);
        sum.greatest = __uint_as_float(extent.top);
        return sum;
    }
    // The sum of doubles, of which floats hold the leading 48 bits.
    static __device__ __forceinline__ Plain of(double high, double low) {
        Plain sum;
        sum.high = (float)high;
        double rest = high - sum.high;  // exact, like its own rest
        sum.low = (float)rest;
        sum.lost = __double2float_ru(fabs(rest - sum.low + low));
        return sum;
    }
    // Where nothing else is left, `high` keeps the sign of zero.
    __device__ __forceinline__ bool is_high() const { return low == 0 && lost == 0; }
    // Rounds the sum. Returns false if numbers that it may be round to different ones.
    __device__ __forceinline__ bool result(f32 &to) const {
        float slack = lost * 1.001f, above = high + __fadd_ru(low, slack), below = high + __fadd_rd(low, -slack);
        to = is_high() ? high : above;
        return above == below;
    }
    __device__ __forceinline__ bool result(f16 &to) const {
        float slack = lost * 1.001f, above = odd_sum(high, __fadd_ru(low, slack));
        f16 other;
        narrow(to, is_high() ? high : above);
        narrow(other, is_high() ? high : odd_sum(high, __fadd_rd(low, -slack)));
        return to.bits == other.bits && above == above;
    }
    template <u32 COUNT> __device__ __forceinline__ bool results(const Input (&items)[COUNT], Output *to) const {
        Plain sum = *this;
        bool are_settled = true;
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) {
            if (!EXCLUSIVE) sum.take(items[k]);
            are_settled &= sum.result(to[k]);
            if (EXCLUSIVE) {
                if (widen(to[k]) == 0) narrow(to[k], 0.0f);  // a sum that starts at 0 is never -0
                sum.take(items[k]);
            }
        }
        return are_settled;
    }
};

template <u32 COUNT>
__device__ __forceinline__ bool Running::results(
    const Plain &before, const Extent &, const Input (&items)[COUNT], Output *to
) const {
    if (inexact || !is_finite(high)) return false;
    Plain sum = Plain::of(high, low);
    sum.merge(before);
    return sum.results(items, to);
}

template <u32 COUNT>
__device__ __forceinline__ bool Running::exact_results(const Plain &, const Input (&)[COUNT], Output *) const {
    return false;
}
