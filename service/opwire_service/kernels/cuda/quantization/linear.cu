// Quantization and its inverse: LANES elements at a time in the order of the output's memory. SOURCE, SCALE, ZERO and
// TARGET are types; WALK0 to WALK2 say how input, scales and zero points are walked.

const int DENSE = 0;    // as the output
const int ROWS = 1;     // LANES neighbours at a time lie side by side
const int SAME = 2;     // LANES neighbours at a time are one element
const int GATHER = 3;   // anyhow
const int NOTHING = 4;  // there is none
const int LANES = 8;
const u32 THREADS = 256;

// Integers of 4 bits, of which two share a byte, the first in the lower half.
struct u4 { u8 bits; };
struct i4 { u8 bits; };

struct Task {
    const void *source, *scale, *zero;
    void *target;
    u32 *extremes;          // of DYNAMIC_QUANTIZE_LINEAR: bits of the greatest and of the least without its sign
    float *found_scale;     // and what follows from them
    void *found_zero;
    u32 first, count;
    i32 least, greatest;    // of the integers that are written
    i32 middle, unused;     // in place of zero points
    Loops loops[3];
};

template <class T> struct Packed { static const bool value = false; };
template <> struct Packed<u4> { static const bool value = true; };
template <> struct Packed<i4> { static const bool value = true; };

static __device__ __forceinline__ double number(u4 x) { return x.bits; }
static __device__ __forceinline__ double number(i4 x) { return (double)((int)(x.bits ^ 8) - 8); }
template <class T> static __device__ __forceinline__ double number(T x) { return (double)widen(x); }

static __device__ __forceinline__ u32 offset(const Loops &loops, u32 place) {
    u32 found = 0;
#pragma unroll 1
    for (u32 i = 0; i + 1 < loops.count; ++i) {
        u32 outer = divided(place, loops.loop[i]);
        found += (place - outer * loops.loop[i].size) * loops.loop[i].source;
        place = outer;
    }
    return loops.count ? found + place * loops.loop[loops.count - 1].source : 0;
}

template <class T> static __device__ __forceinline__ T element(const void *from, u32 at) {
    if constexpr (Packed<T>::value)
        return T{(u8)(((const u8 *)from)[at / 2] >> (4 * (at & 1)) & 15)};
    else
        return ((const T *)from)[at];
}

// So many neighbours, the first of them at a multiple of LANES.
template <class T> static __device__ __forceinline__ void neighbours(const void *from, u32 at, T (&to)[LANES]) {
    if constexpr (Packed<T>::value) {
        u32 word = ((const u32 *)from)[at / LANES];
#pragma unroll
        for (int k = 0; k < LANES; ++k) to[k] = T{(u8)(word >> 4 * k & 15)};
    } else {
        Pack<T, LANES> pack = ((const Pack<T, LANES> *)from)[at / LANES];
#pragma unroll
        for (int k = 0; k < LANES; ++k) to[k] = pack.lane[k];
    }
}

template <class T, int WALK>
static __device__ __forceinline__ void load(const void *from, const Loops &loops, u32 place, u32 count, T (&to)[LANES]) {
    if (WALK == NOTHING) return;
    if ((WALK == DENSE || WALK == ROWS) && count == LANES) {
        neighbours(from, WALK == DENSE ? place : offset(loops, place), to);
    } else if (WALK == SAME) {
        T single = element<T>(from, offset(loops, place));
#pragma unroll
        for (int k = 0; k < LANES; ++k) to[k] = single;
    } else {
#pragma unroll
        for (int k = 0; k < LANES; ++k)
            if (k < count) to[k] = element<T>(from, WALK == DENSE ? place + k : offset(loops, place + k));
    }
}

template <class T> static __device__ __forceinline__ void store(void *to, u32 place, u32 count, const T (&results)[LANES]) {
    if constexpr (Packed<T>::value) {
        u32 word = 0;
#pragma unroll
        for (int k = 0; k < LANES; ++k) word |= (u32)(k < count ? results[k].bits : 0) << 4 * k;
        if (count == LANES)
            ((u32 *)to)[place / LANES] = word;
        else
            for (u32 byte = 0; byte < (count + 1) / 2; ++byte) ((u8 *)to)[place / 2 + byte] = (u8)(word >> 8 * byte);
    } else if (count == LANES) {
        Pack<T, LANES> pack;
#pragma unroll
        for (int k = 0; k < LANES; ++k) pack.lane[k] = results[k];
        ((Pack<T, LANES> *)to)[place / LANES] = pack;
    } else {
#pragma unroll
        for (int k = 0; k < LANES; ++k)
            if (k < count) ((T *)to)[place + k] = results[k];
    }
}

static __device__ __forceinline__ i32 quantized(double quotient, double zero, const Task &task) {
    double whole = rint(quotient);
    whole = (whole == whole ? whole : 0) + zero;
    return (i32)fmin(fmax(whole, (double)task.least), (double)task.greatest);
}

template <class T> static __device__ __forceinline__ T integer(i32 x) {
    if constexpr (Packed<T>::value)
        return T{(u8)(x & 15)};
    else
        return (T)x;
}

// The product, rounded once.
template <class T> static __device__ __forceinline__ T product(double integer, double scale) {
    typedef Format<T> F;
    double found = integer * scale;
    if (sizeof(SOURCE) == 4 && is_finite(found)) {
        double rest = fma(integer, scale, -found);
        if (rest != 0) {
            bool is_negative = found < 0;
            u32 bits;
            round_to<T>(bits, Quotient{fabs(found), is_negative ? -rest : rest, 1.0}, 0);
            return F::make(bits | (is_negative ? F::sign : 0));
        }
    }
    return F::make(F::nearest(found));
}

struct Piece {
    u32 place, count;
};

static __device__ __forceinline__ Piece piece_of(const Task &task) {
    u64 begin = ((u64)blockIdx.x * THREADS + threadIdx.x) * LANES;
    if (begin >= task.count) return {0, 0};
    return {task.first + (u32)begin, min(task.count - (u32)begin, (u32)LANES)};
}

#if DYNAMIC
extern "C" __global__ void __launch_bounds__(THREADS) find_extremes(const __grid_constant__ Task task) {
    Piece piece = piece_of(task);
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
    // Numbers that are not negative are in the order of their bits.
    if (threadIdx.x % 32) return;
    if (__float_as_uint(greatest) > task.extremes[0]) atomicMax(task.extremes, __float_as_uint(greatest) & 0x7fffffffu);
    if (__float_as_uint(least) > task.extremes[1]) atomicMax(task.extremes + 1, __float_as_uint(least) & 0x7fffffffu);
}

// The scale of integers that reach from the least element to the greatest, 0 among them.
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
    __shared__ double shared[2];
    if (threadIdx.x == 0) {
        float scale = dynamic_scale(task);
        double least = __uint_as_float(task.extremes[1]);
        i32 zero = quantized(least / scale, task.least, task);
        shared[0] = scale;
        shared[1] = zero;
        if (blockIdx.x == 0) {
            *task.found_scale = scale;
            *(TARGET *)task.found_zero = integer<TARGET>(zero);
        }
    }
    __syncthreads();
    double scale = shared[0], zero = shared[1];
    Piece piece = piece_of(task);
    SOURCE x[LANES];
    TARGET results[LANES];
    load<SOURCE, WALK0>(task.source, task.loops[0], piece.place, piece.count, x);
#pragma unroll
    for (int k = 0; k < LANES; ++k) results[k] = integer<TARGET>(quantized(number(x[k]) / scale, zero, task));
    if (piece.count) store<TARGET>(task.target, piece.place, piece.count, results);
}
#else
extern "C" __global__ void __launch_bounds__(THREADS) convert(const __grid_constant__ Task task) {
    Piece piece = piece_of(task);
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
        double moved = WALK2 == NOTHING ? (double)task.middle : number(zero[k]);
#if QUANTIZES
        results[k] = integer<TARGET>(quantized(number(x[k]) / number(scale[k]), moved, task));
#else
        results[k] = product<TARGET>(number(x[k]) - moved, number(scale[k]));
#endif
    }
    store<TARGET>(task.target, piece.place, piece.count, results);
}
#endif
