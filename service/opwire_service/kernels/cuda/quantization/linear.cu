// Quantization and dequantization. SOURCE, SCALE, ZERO and TARGET are types; WALK0 to WALK2 are the walks of input,
// scales and zero points.

struct Task {
    const void *source, *scale, *zero;
    void *target;
    u32 *extremes;          // of DYNAMIC_QUANTIZE_LINEAR: bits of the maximum, and of the minimum without its sign
    float *found_scale;     // results derived from the extremes
    void *found_zero;
    u32 first, count;
    i32 least, greatest;    // bounds of the integers that are written
    i32 middle, unused;     // used in place of zero points
    Loops loops[3];
};

// The difference of an integer and its zero point, times a scale, rounded once. That of at most 16 bits is a float.
template <class T> static __device__ __forceinline__ T product(float integer, float zero, float scale) {
    float difference = integer - zero;
    T result;
    narrow(result, sizeof(T) == 4 ? difference * scale : odd_product(difference, scale));
    return result;
}
template <class T> static __device__ __forceinline__ T product(double integer, double zero, double scale) {
    typedef Format<T> F;
    double difference = integer - zero, found = difference * scale;
    if (is_finite(found)) {
        double rest = fma(difference, scale, -found);
        if (rest != 0) {
            bool is_negative = found < 0;
            u32 bits;
            round_to<T>(bits, Quotient{fabs(found), is_negative ? -rest : rest, 1.0}, 0);
            return F::make(bits | (is_negative ? F::sign : 0));
        }
    }
    return F::make(F::nearest(found));
}
typedef decltype(number(SOURCE())) Number;

#if DYNAMIC
extern "C" __global__ void __launch_bounds__(THREADS) find_extremes(const __grid_constant__ Task task) {
    Piece piece = piece_of(task.first, task.count);
    SOURCE x[LANES];
    float greatest = 0, least = 0;
    load<SOURCE, WALK0>(task.source, task.loops[0], piece.place, piece.count, x);
#pragma unroll
    for (int k = 0; k < LANES; ++k) {
        if (k >= piece.count) continue;
        greatest = fmaxf(greatest, widen(x[k]));
        least = fmaxf(least, -widen(x[k]));
    }
    for (u32 distance = 16; distance; distance /= 2) {
        greatest = fmaxf(greatest, __shfl_xor_sync(~0u, greatest, distance));
        least = fmaxf(least, __shfl_xor_sync(~0u, least, distance));
    }
    // The bits of non-negative floats sort like their values.
    if (threadIdx.x % 32) return;
    if (__float_as_uint(greatest) > task.extremes[0]) atomicMax(task.extremes, __float_as_uint(greatest) & 0x7fffffffu);
    if (__float_as_uint(least) > task.extremes[1]) atomicMax(task.extremes + 1, __float_as_uint(least) & 0x7fffffffu);
}

// The scale for integers that cover the range from minimum to maximum, including 0.
static __device__ float dynamic_scale(const Task &task) {
    double greatest = __uint_as_float(task.extremes[0]), least = __uint_as_float(task.extremes[1]);
    if (greatest == 0 && least == 0) return 1;
    double rest, span = two_sum(greatest, least, rest);
    if (!is_finite(span)) return __uint_as_float(0x7f800000u);
    u32 bits;
    round_to<f32>(bits, Quotient{span, rest, (double)task.greatest - task.least}, 0);
    return __uint_as_float(bits);
}

extern "C" __global__ void __launch_bounds__(THREADS) convert(const __grid_constant__ Task task) {
    __shared__ float shared[2];
    if (threadIdx.x == 0) {
        float scale = dynamic_scale(task);
        float least = __uint_as_float(task.extremes[1]);
        i32 zero = quantized(least, scale, (float)task.least, task.least, task.greatest);
        shared[0] = scale;
        shared[1] = zero;
        if (blockIdx.x == 0) {
            *task.found_scale = scale;
            *(TARGET *)task.found_zero = integer<TARGET>(zero);
        }
    }
    __syncthreads();
    float scale = shared[0], zero = shared[1];
    Piece piece = piece_of(task.first, task.count);
    SOURCE x[LANES];
    TARGET results[LANES];
    load<SOURCE, WALK0>(task.source, task.loops[0], piece.place, piece.count, x);
#pragma unroll
    for (int k = 0; k < LANES; ++k) results[k] = integer<TARGET>(quantized(widen(x[k]), scale, zero, task.least, task.greatest));
    if (piece.count) store<TARGET>(task.target, piece.place, piece.count, results);
}
#else
extern "C" __global__ void __launch_bounds__(THREADS) convert(const __grid_constant__ Task task) {
    Piece piece = piece_of(task.first, task.count);
    if (!piece.count) return;
    SOURCE x[LANES];
    SCALE scale[LANES];
    ZERO zero[LANES];
    TARGET results[LANES];
    load<SOURCE, WALK0>(task.source, task.loops[0], piece.place, piece.count, x);
    load<SCALE, WALK1>(task.scale, task.loops[1], piece.place, piece.count, scale);
    load<ZERO, WALK2>(task.zero, task.loops[2], piece.place, piece.count, zero);
#pragma unroll
    for (int k = 0; k < LANES; ++k) {
#if QUANTIZES
        const float moved = WALK2 == NOTHING ? task.middle : number(zero[k]);
        results[k] = integer<TARGET>(quantized(widen(x[k]), widen(scale[k]), moved, task.least, task.greatest));
#else
        const Number moved = WALK2 == NOTHING ? task.middle : number(zero[k]);
        results[k] = product<TARGET>(number(x[k]), moved, (Number)widen(scale[k]));
#endif
    }
    store<TARGET>(task.target, piece.place, piece.count, results);
}
#endif
