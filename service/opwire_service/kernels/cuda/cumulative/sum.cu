// Running sums of floats, built on the accumulator of reductions.

// Out of line, since it is called rarely but from many places.
static __device__ __noinline__ bool finish_apart(const Accumulator sum, const Terms terms, Output &to) {
    return sum.finish(to, Input(), terms);
}

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
    // Whether doubles sum `count` terms, a power of two, exactly: all are multiples of the ULP of the smallest. Always
    // true for finite FLOAT16; false for infinities and NaN.
    __device__ __forceinline__ bool is_plain(u32 count) const {
        const u32 range = 29 - (31 - __clz(count));
        return top < 0x7f800000 && (HALF || top <= (least >> 1) + (range << 23));
    }
};

// Sums that a double holds exactly.
struct Plain;

struct Running : Accumulator {
    __device__ __forceinline__ void take(Input x) {
        float wide = widen(x);
        greatest = fmaxf(greatest, fabsf(wide));
        add_term(wide);
    }
    // Slower, but less often inexact.
    __device__ __forceinline__ void take_exactly(Input x) {
        float wide = widen(x);
        greatest = fmaxf(greatest, fabsf(wide));
        add_sum(wide, 0, 0);
    }
    // Doubles sum terms exactly if their exponents are close: each is a multiple of the ULP of the smallest.
    template <u32 COUNT> __device__ __forceinline__ void take_all(const Input (&items)[COUNT]) {
        static_assert(COUNT <= 32, "their sum has so many bits more");
        const u32 RANGE = 28 - 5;
        float top = 0;
        u32 least = ~0u;  // twice the bits of the smallest magnitude, minus 1, so that zero wraps around and is ignored
        double sum = -0.0;
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) {
            float x = widen(items[k]);
            top = fmaxf(top, fabsf(x));
            least = min(least, 2 * __float_as_uint(x) - 1);
            sum += x;
        }
        if (__float_as_uint(top) <= (least >> 1) + (RANGE << 23)) {
            greatest = fmaxf(greatest, top);
            add_term(sum);
        } else {
#pragma unroll
            for (u32 k = 0; k < COUNT; ++k) take(items[k]);
        }
    }
    // Results of items that follow this sum and the plain sum `before`. Returns false if any is undecided.
    template <u32 COUNT>
    __device__ __forceinline__ bool results(
        const Plain &before, const Extent &extent, const Input (&items)[COUNT], Output *to
    ) const;
    // Slower variant whose results are all settled as long as nothing was lost.
    template <u32 COUNT>
    __device__ __forceinline__ bool exact_results(const Plain &before, const Input (&items)[COUNT], Output *to) const;
    // Branch-free, and arranged so that successive sums do not wait for each other's errors.
    __device__ __forceinline__ void merge(const Running &other) {
        double error, lost, more;
        high = two_sum(high, other.high, error);
        low = two_sum(two_sum(low, other.low, lost), error, more);
        inexact |= other.inexact | (lost != 0) | (more != 0);
        greatest = fmaxf(greatest, other.greatest);
    }
    // Renormalizes: after cancellation `low` may be as large as `high`. Zeros keep their sign; infinities are
    // unchanged.
    __device__ __forceinline__ void tidy() {
        if (low != 0 && is_finite(high)) high = two_sum(high, low, low);
    }
    static __device__ __forceinline__ i32 power(double x) { return (i32)((u32)__double2hiint(x) >> 20 & 0x7ff); }
    // Usually everything but `high` is far below it, as the exponents tell, and `high` is far from a tie.
    __device__ __forceinline__ bool is_plain(Output &to, const Terms &terms) const {
        i32 least = power(high) - 45, loss = power(2 * UNIT * UNIT * terms.depth * terms.depth * terms.count) + 1;
        i32 most = (i32)(__float_as_uint(greatest) >> 23) - 126;
        bool is_far = power(low) < least && (inexact == 0 || loss + most < least);
        return is_far && certainly(high, 512u, 0x1p-43, to);
    }
    // Returns false if the result is undecided.
    __device__ __forceinline__ bool result(Output &to, const Terms &terms) const {
        bool settled = true;
        if (!is_plain(to, terms)) {
            if (low == 0 && inexact == 0)
                to = Format<Output>::make(Format<Output>::nearest(high));
            else
                settled = finish_apart(*this, terms, to);
        }
        // A sum that starts at 0 is never -0.
        if (EXCLUSIVE && widen(to) == 0) to = Format<Output>::make(0);
        return settled;
    }
};

struct Plain {
    double value;

    __device__ __forceinline__ void clear() { value = -0.0; }
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
