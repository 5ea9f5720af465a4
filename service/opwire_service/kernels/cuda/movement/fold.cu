// Folds columns into a contiguous image, summing where blocks overlap. Integers wrap. Floats are summed in two doubles;
// a result is undecided if that loses bits.

const u32 THREADS = 256;

typedef TYPE Type;

struct Axis {
    u32 size, blocks, window, stride, dilation, start;
    u32 step, block_step;  // in the columns
};

struct Fold {
    const Type *source;
    Type *target;
    u32 *undecided;  // count, 0, then the places of the undecided results, each with a 0
    u32 first, count;
    u32 room, unused;
    Axis axis[AXES];
    Walk walk;  // source, then the position along each dimension
};

#if REAL
static __device__ __forceinline__ f64 wide_of(f16 x) { return widen(x); }
static __device__ __forceinline__ f64 wide_of(f32 x) { return x; }
static __device__ __forceinline__ f64 wide_of(f64 x) { return x; }

// Rounds to odd: the last bit tells whether bits were dropped, so that rounding again to a narrower type is correct.
static __device__ __forceinline__ f64 to_odd(f64 total, f64 rest) {
    u64 bits = same_bits<u64>(total);
    if (rest == 0 || rest != rest || (bits & 1)) return total;
    return __longlong_as_double((i64)((rest > 0) == (total > 0) ? bits + 1 : bits - 1));
}
static __device__ __forceinline__ void round_sum(f16 &to, f64 total, f64 rest) {
    to = Format<f16>::make(Format<f16>::nearest(to_odd(total, rest)));
}
static __device__ __forceinline__ void round_sum(f32 &to, f64 total, f64 rest) {
    to = __double2float_rn(to_odd(total, rest));
}
static __device__ __forceinline__ void round_sum(f64 &to, f64 total, f64) { to = total; }

struct Sum {
    f64 high, low;
    bool lost;

    __device__ void clear() {
        high = -0.0;
        low = 0;
        lost = false;
    }
    __device__ __forceinline__ void add(Type x) {
        f64 error, rest;
        high = two_sum(high, wide_of(x), error);
        low = two_sum(low, error, rest);
        lost |= rest != 0;
    }
    // Returns false if the result is undecided.
    __device__ bool finish(Type &to, bool covered) const {
        f64 rest = 0, total = covered ? high : 0;
        if (!is_finite(total)) {
            round_sum(to, total, 0);
            return sizeof(Type) < 8;
        }
        if (low != 0) total = two_sum(high, low, rest);
        round_sum(to, total, rest);
        return !lost;
    }
};
#else
struct Sum {
    Type total;

    __device__ void clear() { total = 0; }
    __device__ __forceinline__ void add(Type x) { total += x; }
    __device__ bool finish(Type &to, bool) const {
        to = total;
        return true;
    }
};
#endif

// Sums the contributions to a position along the dimensions from I on, over windows or blocks, whichever are fewer.
template <int I> struct Visitor {
    static __device__ void visit(const Fold &fold, const u32 (&offset)[STEPS], u32 source, Sum &sum, bool &covered) {
        const Axis &axis = fold.axis[I];
        u64 at = (u64)offset[1 + I] + axis.start;
        bool by_window = axis.window <= axis.blocks;
        u32 candidates = by_window ? axis.window : axis.blocks;
        u64 candidate_step = by_window ? axis.dilation : axis.stride, other_step = by_window ? axis.stride : axis.dilation;
        u64 others = by_window ? axis.blocks : axis.window;
        u32 step = by_window ? axis.step : axis.block_step, other = by_window ? axis.block_step : axis.step;
        for (u32 candidate = 0; candidate < candidates; ++candidate) {
            u64 taken = candidate * candidate_step;
            if (taken > at) return;
            u64 left = at - taken, number = left;
            if (other_step != 1) number = left >> 32 ? left / other_step : (u32)left / (u32)other_step;
            if (number < others && number * other_step == left)
                Visitor<I + 1>::visit(fold, offset, source + candidate * step + (u32)number * other, sum, covered);
        }
    }
};
template <> struct Visitor<AXES> {
    static __device__ __forceinline__ void visit(const Fold &fold, const u32 (&)[STEPS], u32 source, Sum &sum, bool &covered) {
        sum.add(fold.source[source]);
        covered = true;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS) fold(const __grid_constant__ Fold all) {
    u32 place = blockIdx.x * THREADS + threadIdx.x, offset[STEPS];
    if (place >= all.count) return;
    place += all.first;
    walk(all.walk, place, offset);
    Sum sum;
    sum.clear();
    bool covered = false;
    Visitor<0>::visit(all, offset, offset[0], sum, covered);
    if (sum.finish(all.target[place], covered)) return;
    u32 i = atomicAdd(all.undecided, 1u);
    if (i < all.room) {
        all.undecided[2 + 2 * i] = place;
        all.undecided[3 + 2 * i] = 0;
    }
}
