// What generated CUDA C needs to compile for the host: types, intrinsics, and approximate inverses with errors drawn as
// large as a GPU's may be.
#include <math.h>
#include <stdint.h>
#include <string.h>

#define __device__
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))

typedef uint16_t u16;
typedef int32_t i32;
typedef uint32_t u32;
typedef uint64_t u64;
typedef float f32;
struct f16 {
    u16 bits;
};

template <class To, class From> static inline To same_bits(From from) {
    To to;
    static_assert(sizeof to == sizeof from, "sizes differ");
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline i32 __float_as_int(float x) { return same_bits<i32>(x); }
static inline u32 __float_as_uint(float x) { return same_bits<u32>(x); }
static inline float __int_as_float(u32 x) { return same_bits<float>(x); }
static inline float __uint_as_float(u32 x) { return same_bits<float>(x); }

static inline float widen(f32 x) { return x; }
static inline float widen(f16 x) { return (float)same_bits<_Float16>(x.bits); }
static inline u32 half_bits(float x) { return same_bits<u16>((_Float16)x); }
static inline u32 rounded_pair(float low, float high) { return half_bits(low) | half_bits(high) << 16; }
static inline float greater(float a, float b) { return a != a || a > b ? a : b; }
static inline float lesser(float a, float b) { return a != a || a < b ? a : b; }

// A relative error of up to `most`, the same for the same number.
static inline float off(float x, double right, double most) {
    u32 mixed = (__float_as_uint(x) ^ 0x9e3779b9u) * 0x85ebca6bu;
    mixed = (mixed ^ mixed >> 15) * 0xc2b2ae35u;
    return (float)(right * (1 + ((mixed >> 8) * 0x1p-23 - 1) * most));
}
static inline bool is_flushed(float x) { return fabsf(x) < 0x1p-126f; }
static inline float approximate_inverse(float x) {
    float inverse = is_flushed(x) ? copysignf(INFINITY, x) : off(x, 1.0 / x, 0x1p-24);
    return is_flushed(inverse) ? copysignf(0, x) : inverse;
}
static inline float approximate_inverse_root(float x) {
    return is_flushed(x) ? copysignf(INFINITY, x) : off(x, 1.0 / sqrt(x), 0.57 * 0x1p-23);
}
static inline int __double2loint(double x) { return (int)same_bits<u64>(x); }
static inline int __double2hiint(double x) { return (int)(same_bits<u64>(x) >> 32); }
static inline float __double2float_rn(double x) { return (float)x; }
static inline u64 bits_of(double x) { return same_bits<u64>(x); }
static inline int __clz(u32 x) { return __builtin_clz(x); }
static inline u32 min(u32 a, u32 b) { return a < b ? a : b; }

template <class T> struct Format;
template <> struct Format<f32> {
    static u32 nearest(double x) { return __float_as_uint((float)x); }
    static f32 make(u32 bits) { return __uint_as_float(bits); }
};
template <> struct Format<f16> {
    static u32 nearest(double x) { return same_bits<u16>((_Float16)x); }
    static f16 make(u32 bits) { return {(u16)bits}; }
};
template <class W> struct Bounds;
template <> struct Bounds<float> {
    static float lowest() { return -INFINITY; }
    static float greatest() { return INFINITY; }
};
template <class T, int COUNT> struct Pack {
    T lane[COUNT];
};

// A single thread.
static const struct {
    u32 x, y;
} threadIdx = {0, 0}, blockDim = {1, 1};
