// Loads and stores elements of any type, LANES at a time in the output's memory order, for any walk of the inputs.

const int DENSE = 0;    // contiguous, as the output
const int ROWS = 1;     // each group of LANES elements is contiguous
const int SAME = 2;     // each group of LANES elements is a single one
const int GATHER = 3;   // any strides
const int NOTHING = 4;  // no tensor
const int LANES = 8;
const u32 THREADS = 256;

// 4-bit integers, two per byte, the first in the low half.
struct u4 { u8 bits; };
struct i4 { u8 bits; };

template <class T> struct Packed { static const bool value = false; };
template <> struct Packed<u4> { static const bool value = true; };
template <> struct Packed<i4> { static const bool value = true; };

// An element as a number that holds it exactly.
static __device__ __forceinline__ float number(u4 x) { return x.bits; }
static __device__ __forceinline__ float number(i4 x) { return (float)((int)(x.bits ^ 8) - 8); }
static __device__ __forceinline__ double number(i32 x) { return x; }
static __device__ __forceinline__ double number(u32 x) { return x; }
template <class T> static __device__ __forceinline__ float number(T x) { return (float)widen(x); }

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

// Loads LANES contiguous elements, starting at a multiple of LANES.
template <class T> static __device__ __forceinline__ void neighbors(const void *from, u32 at, T (&to)[LANES]) {
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
        neighbors(from, WALK == DENSE ? place : offset(loops, place), to);
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

template <class T> static __device__ __forceinline__ T integer(i32 x) {
    if constexpr (Packed<T>::value)
        return T{(u8)(x & 15)};
    else
        return (T)x;
}

struct Piece {
    u32 place, count;
};

// The part of `count` elements from `first` that belongs to a thread.
static __device__ __forceinline__ Piece piece_of(u32 first, u32 count) {
    u64 begin = ((u64)blockIdx.x * THREADS + threadIdx.x) * LANES;
    if (begin >= count) return {0, 0};
    return {first + (u32)begin, min(count - (u32)begin, (u32)LANES)};
}
