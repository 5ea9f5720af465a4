// Element types, their widening for arithmetic and narrowing back, and their bounds.

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

struct f16 {
    u16 bits;
};

static __device__ __forceinline__ float widen(f16 x) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
}
static __device__ __forceinline__ float widen(f32 x) { return x; }
static __device__ __forceinline__ f64 widen(f64 x) { return x; }
static __device__ __forceinline__ i32 widen(i8 x) { return x; }
static __device__ __forceinline__ i32 widen(u8 x) { return x; }
static __device__ __forceinline__ i32 widen(i16 x) { return x; }
static __device__ __forceinline__ i32 widen(u16 x) { return x; }
static __device__ __forceinline__ i32 widen(i32 x) { return x; }
static __device__ __forceinline__ u32 widen(u32 x) { return x; }
static __device__ __forceinline__ i64 widen(i64 x) { return x; }
static __device__ __forceinline__ u64 widen(u64 x) { return x; }

// Only for values that came from widening, so narrowing is exact.
template <class T, class W>
static __device__ __forceinline__ void narrow(T &x, W wide) { x = (T)wide; }
static __device__ __forceinline__ void narrow(f16 &x, float wide) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x.bits) : "f"(wide));
}

// A floating-point format: magnitudes as integers that sort like the values.
template <class T> struct Format;

template <> struct Format<f32> {
    static const u32 infinity = 0x7f800000u;
    static const u32 quiet_nan = 0x7fc00000u;
    static const u32 sign = 0x80000000u;
    // For rounding, infinity has the value of the next power of two.
    static __device__ double value(u32 bits) { return bits == infinity ? 0x1p128 : (double)__uint_as_float(bits); }
    static __device__ u32 nearest(double x) { return __float_as_uint(__double2float_rn(x)); }
    static __device__ f32 make(u32 bits) { return __uint_as_float(bits); }
};

template <> struct Format<f16> {
    static const u32 infinity = 0x7c00u;
    static const u32 quiet_nan = 0x7e00u;
    static const u32 sign = 0x8000u;
    static __device__ double value(u32 bits) {
        f16 x = {(u16)bits};
        return bits == infinity ? 0x1p16 : (double)widen(x);
    }
    static __device__ u32 nearest(double x) {
        u16 bits;
        asm("cvt.rn.f16.f64 %0, %1;" : "=h"(bits) : "d"(x));
        return bits;
    }
    static __device__ f16 make(u32 bits) {
        f16 x = {(u16)bits};
        return x;
    }
};

// Adjacent elements of one vector load.
template <class T, int COUNT> struct alignas(sizeof(T) * COUNT) Pack {
    T lane[COUNT];
};

template <class T> static __device__ __forceinline__ T same_bits(double x);

template <> __device__ __forceinline__ u64 same_bits<u64>(double x) { return (u64)__double_as_longlong(x); }

static __device__ __forceinline__ bool is_finite(double x) { return (same_bits<u64>(x) << 1) < 0xffe0000000000000ull; }

// The lowest and greatest values of a type.
template <class W> struct Bounds;
template <> struct Bounds<float> {
    static __device__ float lowest() { return __uint_as_float(0xff800000u); }
    static __device__ float greatest() { return __uint_as_float(0x7f800000u); }
};
template <> struct Bounds<i32> {
    static __device__ i32 lowest() { return -2147483647 - 1; }
    static __device__ i32 greatest() { return 2147483647; }
};
template <> struct Bounds<u32> {
    static __device__ u32 lowest() { return 0; }
    static __device__ u32 greatest() { return ~0u; }
};
template <> struct Bounds<i64> {
    static __device__ i64 lowest() { return -9223372036854775807ll - 1; }
    static __device__ i64 greatest() { return 9223372036854775807ll; }
};
template <> struct Bounds<u64> {
    static __device__ u64 lowest() { return 0; }
    static __device__ u64 greatest() { return ~0ull; }
};

// Prefetches 16-byte packs, all of which must exist, into the L2 cache. No-op before sm_90.
static __device__ __forceinline__ void prefetch(const void *from, u32 bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" : : "l"(from), "r"(bytes));
#endif
}

// Maximum and minimum that propagate NaN: one instruction from sm_80 on.
static __device__ __forceinline__ float greater(float a, float b) {
#if __CUDA_ARCH__ >= 800
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(a) : "f"(a), "f"(b));
    return a;
#else
    return a != a || a > b ? a : b;
#endif
}
static __device__ __forceinline__ float lesser(float a, float b) {
#if __CUDA_ARCH__ >= 800
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(a) : "f"(a), "f"(b));
    return a;
#else
    return a != a || a < b ? a : b;
#endif
}

// Two floats rounded to FLOAT16 and packed into a word, the first in the low half.
static __device__ __forceinline__ u32 rounded_pair(float low, float high) {
    u32 both;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
#else
    f16 first, second;
    narrow(first, low);
    narrow(second, high);
    both = first.bits | (u32)second.bits << 16;
#endif
    return both;
}

// The maximum over a warp, in all of its lanes. Uses shuffles before sm_80.
static __device__ __forceinline__ u32 greatest_of_warp(u32 x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(~0u, x);
#else
#pragma unroll
    for (u32 apart = 16; apart; apart /= 2) x = max(x, __shfl_xor_sync(~0u, x, apart));
    return x;
#endif
}
