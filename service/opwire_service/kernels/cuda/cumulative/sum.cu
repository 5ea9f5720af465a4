// Running sums of floats, built on the accumulator of reductions. Plain sums take less work; see `plain_doubles` and
// `plain_floats`.

// What the terms of a plain sum have in common.
struct Extent;
// Sums that are usually exact.
struct Plain;

// Out of line, since it is called rarely but from many places.
static __device__ __noinline__ bool finish_apart(const Accumulator sum, const Terms terms, Output &to) {
    return sum.finish(to, Input(), terms);
}

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
