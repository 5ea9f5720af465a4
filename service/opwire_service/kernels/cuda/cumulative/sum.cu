// Running sums of floats, as those of reductions.

// Apart, since it is seldom called from many places.
static __device__ __noinline__ bool finish_apart(const Accumulator sum, const Terms terms, Output &to) {
    return sum.finish(to, Input(), terms);
}

static __device__ __forceinline__ bool plainly(double x, f32 &to) { return at_once(x, 512u, false, to); }
static __device__ __forceinline__ bool plainly(double x, f16 &to) { return certainly(x, 512u, 0x1p-43, to); }

// Which exponents some terms have.
struct Extent {
    u32 top, least;  // the bits of the greatest magnitude; twice those of the least but 0, less 1

    __device__ __forceinline__ void clear() {
        top = 0;
        least = ~0u;
    }
    __device__ __forceinline__ void cover(Input x) {
        u32 bits = __float_as_uint(widen(x)) & 0x7fffffff;
        top = max(top, bits);
        least = min(least, 2 * bits - 1);
    }
    // Of all threads.
    __device__ __forceinline__ void join_into(Extent &all) const {
        u32 highest = greatest_of_warp(top), lowest = ~greatest_of_warp(~least);
        if (threadIdx.x % 32) return;
        atomicMax(&all.top, highest);
        atomicMin(&all.least, lowest);
    }
    // Whether doubles add up so many of them without error, a power of two: all are multiples of the last place of the
    // least. Those of FLOAT16 always are; infinities and NaN are none.
    __device__ __forceinline__ bool is_plain(u32 count) const {
        const u32 range = 29 - (31 - __clz(count));
        return top < 0x7f800000 && (HALF || top <= (least >> 1) + (range << 23));
    }
};

// Sums that doubles hold.
struct Plain;

struct Running : Accumulator {
    __device__ __forceinline__ void take(Input x) {
        float wide = widen(x);
        greatest = fmaxf(greatest, fabsf(wide));
        add_term(wide);
    }
    // Doubles add up terms exactly if the exponents are close: each is a multiple of the last place of the least.
    template <u32 COUNT> __device__ __forceinline__ void take_all(const Input (&items)[COUNT]) {
        static_assert(COUNT <= 32, "their sum has so many bits more");
        const u32 RANGE = 28 - 5;
        float top = 0;
        u32 least = ~0u;  // twice the bits of the least magnitude, less 1, so that zero is not the least
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
    // The results of terms behind this one and some that are plain together with them. False if one of them is open.
    template <u32 COUNT>
    __device__ __forceinline__ bool results(const Plain &before, const Input (&items)[COUNT], Output *to) const;
    // Mostly nothing was lost yet on either side.
    __device__ __forceinline__ void merge(const Running &other) {
        if (low != 0 || other.low != 0) {
            Accumulator::merge(other);
            return;
        }
        high = two_sum(high, other.high, low);
        greatest = fmaxf(greatest, other.greatest);
        inexact |= other.inexact;
    }
    static __device__ __forceinline__ i32 power(double x) { return (i32)((u32)__double2hiint(x) >> 20 & 0x7ff); }
    // Mostly all but `high` lies far below it, and `high` far from the middle of two floats: their exponents tell.
    __device__ __forceinline__ bool is_plain(Output &to, const Terms &terms) const {
        i32 least = power(high) - 45, loss = power(2 * UNIT * UNIT * terms.depth * terms.depth * terms.count) + 1;
        i32 most = (i32)(__float_as_uint(greatest) >> 23) - 126;
        bool is_far = power(low) < least && (inexact == 0 || loss + most < least);
        return is_far && certainly(high, 512u, 0x1p-43, to);
    }
    // False if it is open.
    __device__ __forceinline__ bool result(Output &to, const Terms &terms) const {
        bool certain = true;
        if (!is_plain(to, terms)) {
            if (low == 0 && inexact == 0)
                to = Format<Output>::make(Format<Output>::nearest(high));
            else
                certain = finish_apart(*this, terms, to);
        }
        // A sum that starts at 0 is never -0.
        if (EXCLUSIVE && widen(to) == 0) to = Format<Output>::make(0);
        return certain;
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
    // What is made of each running value.
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
    template <u32 COUNT> __device__ __forceinline__ bool results(const Input (&items)[COUNT], Output *to) const {
        visit(items, [&](u32 k, double sum) { to[k] = Format<Output>::make(Format<Output>::nearest(sum)); });
        return true;
    }
};

template <u32 COUNT>
__device__ __forceinline__ bool Running::results(const Plain &before, const Input (&items)[COUNT], Output *to) const {
    if (inexact || !is_finite(high)) return false;
    u32 least = low == 0 ? 0 : (u32)__double2hiint(low) + (46 << 20) << 1;  // that `low` lies far below, as below
    bool are_certain = true;
    before.visit(items, [&](u32 k, double sum) {
        double total = high + sum;
        u32 size = (u32)__double2hiint(total) << 1;
        are_certain &= (size >= least) & plainly(total, to[k]);
    });
    return are_certain;
}
