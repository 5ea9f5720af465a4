// ELEMENT_WISE_QUANTIZED_LINEAR_ADD: both products are exact, and so is their sum together with its rounding error. A,
// B and TARGET are types; WALK0 and WALK1 are the walks of A and B.

struct Task {
    const void *a, *b;
    void *target;
    const float *scale[3];  // of A, B and the output
    const void *zero[3];    // or null
    u32 first, count;
    i32 least, greatest;  // bounds of the integers that are written
    Loops loops[2];
};

template <class T> static __device__ __forceinline__ double zero_point(const void *at) {
    return at ? (double)widen(*(const T *)at) : 0;
}

// (a + b) / scale, rounded half to even; only approximate beyond all integers, and NaN for NaN.
static __device__ __forceinline__ double steps(double a, double b, double scale) {
    double rest, total = two_sum(a, b, rest), quotient = total / scale;
    if (!(fabs(quotient) < 0x1p20)) return quotient != quotient ? quotient : quotient > 0 ? 1e9 : -1e9;
    double below = floor(quotient), side = (total - (below + 0.5) * scale) + rest;
    if (scale < 0) side = -side;
    if (side == 0) return below + (fmod(below, 2.0) != 0);
    return side > 0 ? below + 1 : side < 0 ? below : 0;
}

extern "C" __global__ void __launch_bounds__(THREADS) add(const __grid_constant__ Task task) {
    Piece piece = piece_of(task.first, task.count);
    if (!piece.count) return;
    A a[LANES];
    B b[LANES];
    TARGET results[LANES];
    load<A, WALK0>(task.a, task.loops[0], piece.place, piece.count, a);
    load<B, WALK1>(task.b, task.loops[1], piece.place, piece.count, b);
    double scale_a = *task.scale[0], scale_b = *task.scale[1], scale = *task.scale[2];
    double zero_a = zero_point<A>(task.zero[0]), zero_b = zero_point<B>(task.zero[1]);
    double zero = zero_point<TARGET>(task.zero[2]);
#pragma unroll
    for (int k = 0; k < LANES; ++k) {
        double found = steps((number(a[k]) - zero_a) * scale_a, (number(b[k]) - zero_b) * scale_b, scale) + zero;
        found = found == found ? fmin(fmax(found, (double)task.least), (double)task.greatest) : 0;
        results[k] = integer<TARGET>((i32)found);
    }
    store<TARGET>(task.target, piece.place, piece.count, results);
}
