// Elements of an arithmetic sequence, each rounded once, LANES at once: floats as three doubles, integers modulo
// 2^width.

const u32 THREADS = 256;
const int BATCH = 4;

typedef TYPE Type;

struct Sequence {
    Pack<Type, LANES> *target;
    double start, delta;
    u64 start_bits, delta_bits;  // for integers
    u32 first, count;            // LANES elements each
    Walk walk;                   // index in the sequence
};

#if REAL
static __device__ __forceinline__ void round_odd(f32 &to, double x) { to = __double2float_rn(x); }
static __device__ __forceinline__ void round_odd(f16 &to, double x) { to = Format<f16>::make(Format<f16>::nearest(x)); }

static __device__ __forceinline__ Type term(const Sequence &sequence, u32 number) {
    Type result;
    double product = number * sequence.delta, plain = sequence.start + product;
    double total = plain;
    if (is_finite(plain) && plain != 0) {
        double lost, more, rest, least;
        lost = fma((double)number, sequence.delta, -product);
        total = two_sum(sequence.start, product, more);
        lost = two_sum(more, lost, least);
        total = two_sum(total, lost, rest);
        rest += least;
        // Rounds to odd, so that rounding again is correct: the last bit tells whether bits were dropped.
        u64 bits = same_bits<u64>(total);
        if (rest != 0 && !(bits & 1)) bits = (rest > 0) == (total > 0) ? bits + 1 : bits - 1;
        total = __longlong_as_double((i64)bits);
    }
    round_odd(result, total);
    return result;
}
#else
static __device__ __forceinline__ Type term(const Sequence &sequence, u32 number) {
    return (Type)(sequence.start_bits + number * sequence.delta_bits);
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) write_terms(const __grid_constant__ Sequence all) {
    u32 thread = blockIdx.x * (THREADS * BATCH) + threadIdx.x;
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 place = thread + n * THREADS, at[STEPS];
        if (place >= all.count) continue;
        place += all.first;
        walk(all.walk, place, at);
        Pack<Type, LANES> terms;
#pragma unroll
        for (int k = 0; k < LANES; ++k) terms.lane[k] = term(all, at[0] + k);
        all.target[place] = terms;
    }
}
