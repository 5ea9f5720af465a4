// Running sums that a double holds exactly.

// The range of the exponents of some terms.
struct Extent {
    u32 top, least;  // bits of the largest magnitude; twice the bits of the smallest nonzero one, minus 1

    __device__ __forceinline__ void clear() {
        top = 0;
        least = ~0u;
    }
    __device__ __forceinline__ void cover(Input x) {
        u32 bits = __float_as_uint(widen(x)) & 0x7fffffff;
        top = max(top, bits);
        least = min(least, 2 * bits - 1);
    }
    __device__ __forceinline__ Extent of_warp() const { return {greatest_of_warp(top), ~greatest_of_warp(~least)}; }
    // Merges the extents of all warps of a block.
    __device__ __forceinline__ void join_into(Extent &all) const {
        if (threadIdx.x % 32) return;
        atomicMax(&all.top, top);
        atomicMin(&all.least, least);
    }
    __device__ __forceinline__ void give_up() {}
    // Whether doubles sum `count` terms, a power of two, exactly: all are multiples of the ULP of the smallest. Always
    // true for finite FLOAT16; false for infinities and NaN.
    __device__ __forceinline__ bool is_plain(u32 count) const {
        const u32 range = 29 - (31 - __clz(count));
        return top < 0x7f800000 && (HALF || top <= (least >> 1) + (range << 23));
    }
};

struct Plain {
    static const bool IS_EXACT = true;  // if the extent is plain
    double value;

    __device__ __forceinline__ void clear() { value = -0.0; }
    __device__ __forceinline__ bool is_exact() const { return true; }
    __device__ __forceinline__ void merge(const Plain &other) { value += other.value; }
    template <u32 COUNT> __device__ __forceinline__ void take_all(const Input (&items)[COUNT]) {
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) value += widen(items[k]);
    }
    __device__ __forceinline__ Running running(const Extent &extent) const {
        Running sum;
        sum.clear();
        sum.high = value;
        sum.greatest = __uint_as_float(extent.top);
        return sum;
    }
    // Passes each running value to `round`.
    template <u32 COUNT, class Round>
    __device__ __forceinline__ void visit(const Input (&items)[COUNT], Round round) const {
        double sum = value;
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) {
            double next = sum + widen(items[k]);
            round(k, EXCLUSIVE ? sum + 0.0 : next);  // a sum that starts at 0 is never -0
            sum = next;
        }
    }
    // Whether doubles hold the sums with COUNT such items exactly: true if this value is a multiple of the ULP of the
    // smallest and all sums are less than 2^52 times that.
    template <u32 COUNT> __device__ __forceinline__ bool is_exact_with(const Extent &extent) const {
        u32 exponent = max((extent.least >> 1) + 1 >> 23, 1u);
        double places = __hiloint2double((exponent - 127 - 23 + 52 + 1023 << 20) + 0x80000, 0);  // 1.5 * 2^52 of them
        bool is_multiple = fabs(value) <= places / 3 && value + places - places == value;
        return extent.top == 0 || (extent.is_plain(4 * COUNT) && is_multiple);
    }
    template <u32 COUNT> __device__ __forceinline__ bool results(const Input (&items)[COUNT], Output *to) const {
        visit(items, [&](u32 k, double sum) { to[k] = Format<Output>::make(Format<Output>::nearest(sum)); });
        return true;
    }
};

template <u32 COUNT>
__device__ __forceinline__ bool Running::results(
    const Plain &before, const Extent &extent, const Input (&items)[COUNT], Output *to
) const {
    if (inexact || !is_finite(high)) return false;
    // `low` must be far below, as in `is_plain`; if it is 0, sums that are subnormal in the output are exact.
    u32 least = low == 0 ? 0 : (u32)__double2hiint(low) + (46 << 20) << 1;
    bool are_settled = true;
    before.visit(items, [&](u32 k, double sum) {
        double total = high + sum;
        to[k] = Format<Output>::make(Format<Output>::nearest(total));
        are_settled &= is_clear(total, 512u, to[k]) & ((u32)__double2hiint(total) << 1 >= least);
    });
    // Ties are rounded correctly where doubles hold the sums exactly.
    double error;
    Plain base = {two_sum(high, before.value, error)};
    return are_settled || (low == 0 && error == 0 && base.is_exact_with<COUNT>(extent));
}

// Three doubles hold the exact sum. Where one is not enough, the leading one is rounded to odd towards the rest, which
// keeps it on the same side of a tie.
template <u32 COUNT>
__device__ __forceinline__ bool Running::exact_results(const Plain &before, const Input (&items)[COUNT], Output *to) const {
    if (inexact || !is_finite(high)) return false;
    before.visit(items, [&](u32 k, double sum) {
        double error, rest, left, total = two_sum(high, sum, error), lower = two_sum(error, low, rest);
        if (lower != 0) total = two_sum(total, lower, left);
        else left = 0;
        left = left != 0 ? left : rest;
        u64 bits = same_bits<u64>(total);
        if (left != 0 && !(bits & 1)) bits += (left < 0) == (total < 0) ? 1 : -1;
        to[k] = Format<Output>::make(Format<Output>::nearest(__longlong_as_double((i64)bits)));
    });
    return true;
}
