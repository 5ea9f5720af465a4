// What generated CUDA C needs to compile for the host: types, intrinsics, and approximate inverses with errors drawn as
// large as a GPU's may be.
#include <math.h>
#include <stdint.h>
#include <string.h>

#define __device__
#define __shared__ static
#define __global__
#define __noinline__ __attribute__((noinline))
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(size) __attribute__((aligned(size)))
#define __forceinline__ inline __attribute__((always_inline))

typedef uint16_t u16;
typedef int32_t i32;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef uint8_t u8;
typedef int16_t i16;
typedef int64_t i64;
typedef float f32;
typedef double f64;
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
static inline double approximate_inverse_root(double x) { return off((float)x, 1.0 / sqrt(x), 0x1p-18); }
static inline int __double2loint(double x) { return (int)same_bits<u64>(x); }
static inline int __double2hiint(double x) { return (int)(same_bits<u64>(x) >> 32); }
static inline double __hiloint2double(int high, int low) { return same_bits<double>((u64)(u32)high << 32 | (u32)low); }
static inline float __double2float_rn(double x) { return (float)x; }
static inline i64 __double_as_longlong(double x) { return same_bits<i64>(x); }
static inline double __longlong_as_double(i64 x) { return same_bits<double>(x); }
static inline bool is_finite(double x) { return isfinite(x); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline int __ffs(u32 x) { return __builtin_ffs(x); }
static inline u32 __umulhi(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
static inline int __clz(u32 x) { return __builtin_clz(x); }
static inline u32 min(u32 a, u32 b) { return a < b ? a : b; }
static inline u32 max(u32 a, u32 b) { return a > b ? a : b; }
static inline i32 min(i32 a, i32 b) { return a < b ? a : b; }
static inline i32 max(i32 a, i32 b) { return a > b ? a : b; }
template <class T> static inline T same_bits(double x) { return same_bits<T, double>(x); }

template <class T> struct Format;
template <> struct Format<f32> {
    static const u32 infinity = 0x7f800000u, quiet_nan = 0x7fc00000u, sign = 0x80000000u;
    static double value(u32 bits) { return bits == infinity ? 0x1p128 : (double)__uint_as_float(bits); }
    static u32 nearest(double x) { return __float_as_uint((float)x); }
    static f32 make(u32 bits) { return __uint_as_float(bits); }
};
template <> struct Format<f16> {
    static const u32 infinity = 0x7c00u, quiet_nan = 0x7e00u, sign = 0x8000u;
    static double value(u32 bits) { return bits == infinity ? 0x1p16 : widen(f16{(u16)bits}); }
    static u32 nearest(double x) { return same_bits<u16>((_Float16)x); }
    static f16 make(u32 bits) { return {(u16)bits}; }
};
static inline void narrow(f32 &to, float x) { to = x; }
static inline void narrow(f16 &to, float x) { to.bits = (u16)half_bits(x); }
template <class W> struct Bounds;
template <> struct Bounds<float> {
    static float lowest() { return -INFINITY; }
    static float greatest() { return INFINITY; }
};
template <class T, int COUNT> struct Pack {
    T lane[COUNT];
};

// The threads of a launch take turns; they share nothing.
struct Index {
    u32 x, y;
};
static Index threadIdx, blockIdx, blockDim = {1, 1};
static inline u32 atomicAdd(u32 *to, u32 more) {
    u32 before = *to;
    *to += more;
    return before;
}
