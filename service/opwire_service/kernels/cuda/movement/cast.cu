// Casts elements to another type: to floats by rounding to nearest, from floats to integers by truncation and
// saturation with NaN becoming 0, and between integers modulo 2^width, but to 8 bits modulo 2^32 and then saturated.

typedef Pack<SOURCE, LANES> SourceUnit;
typedef Pack<TARGET, LANES> TargetUnit;

template <class T> struct Limits;  // of the integers that a float is first saturated to
template <> struct Limits<i8> { static const i32 least = -128, greatest = 127; };
template <> struct Limits<u8> { static const i32 least = 0, greatest = 255; };
template <> struct Limits<i16> { static const i32 least = -32768, greatest = 32767; };
template <> struct Limits<u16> { static const i32 least = 0, greatest = 65535; };

// Widens exactly to float, double or 64 bits.
static __device__ __forceinline__ float widened(f16 x) { return widen(x); }
static __device__ __forceinline__ float widened(f32 x) { return x; }
static __device__ __forceinline__ double widened(f64 x) { return x; }
static __device__ __forceinline__ u64 widened(u64 x) { return x; }
template <class T> static __device__ __forceinline__ i64 widened(T x) { return x; }

// The instructions saturate to the type, but their result for NaN is arbitrary.
static __device__ __forceinline__ void cut(i32 &to, float x) { to = __float2int_rz(x); }
static __device__ __forceinline__ void cut(i32 &to, double x) { to = __double2int_rz(x); }
static __device__ __forceinline__ void cut(u32 &to, float x) { to = __float2uint_rz(x); }
static __device__ __forceinline__ void cut(u32 &to, double x) { to = __double2uint_rz(x); }
static __device__ __forceinline__ void cut(i64 &to, float x) { to = __float2ll_rz(x); }
static __device__ __forceinline__ void cut(i64 &to, double x) { to = __double2ll_rz(x); }
static __device__ __forceinline__ void cut(u64 &to, float x) { to = __float2ull_rz(x); }
static __device__ __forceinline__ void cut(u64 &to, double x) { to = __double2ull_rz(x); }
template <class T, class W> static __device__ __forceinline__ void cut(T &to, W x) {
    i32 wide;
    cut(wide, x);
    to = (T)max(Limits<T>::least, min(wide, Limits<T>::greatest));
}

template <class T, class W> static __device__ __forceinline__ void of_float(T &to, W x) {
    if (x != x)
        to = 0;
    else
        cut(to, x);
}
static __device__ __forceinline__ void of_float(f64 &to, float x) { to = x; }
static __device__ __forceinline__ void of_float(f32 &to, float x) { to = x; }
static __device__ __forceinline__ void of_float(f32 &to, double x) { to = __double2float_rn(x); }
static __device__ __forceinline__ void of_float(f16 &to, float x) { narrow(to, x); }
static __device__ __forceinline__ void of_float(f16 &to, double x) { to = Format<f16>::make(Format<f16>::nearest(x)); }

template <class T> static __device__ __forceinline__ void make(T &to, float x) { of_float(to, x); }
template <class T> static __device__ __forceinline__ void make(T &to, double x) { of_float(to, x); }
template <class T> static __device__ __forceinline__ void make(T &to, i64 x) { to = (T)x; }
template <class T> static __device__ __forceinline__ void make(T &to, u64 x) { to = (T)x; }
template <class W> static __device__ __forceinline__ void in_8_bits(i8 &to, W x) {
    to = (i8)max(-128, min((i32)(u32)(u64)x, 127));
}
template <class W> static __device__ __forceinline__ void in_8_bits(u8 &to, W x) { to = (u8)min((u32)(u64)x, 255u); }
static __device__ __forceinline__ void make(i8 &to, i64 x) { in_8_bits(to, x); }
static __device__ __forceinline__ void make(i8 &to, u64 x) { in_8_bits(to, x); }
static __device__ __forceinline__ void make(u8 &to, i64 x) { in_8_bits(to, x); }
static __device__ __forceinline__ void make(u8 &to, u64 x) { in_8_bits(to, x); }
static __device__ __forceinline__ void make(f64 &to, i64 x) { to = __ll2double_rn(x); }
static __device__ __forceinline__ void make(f64 &to, u64 x) { to = __ull2double_rn(x); }
static __device__ __forceinline__ void make(f32 &to, i64 x) { to = __ll2float_rn(x); }
static __device__ __forceinline__ void make(f32 &to, u64 x) { to = __ull2float_rn(x); }
// Clamps to just beyond the largest FLOAT16; smaller integers are exact as floats.
static __device__ __forceinline__ void make(f16 &to, i64 x) { narrow(to, (float)(i32)max(-70000ll, min(x, 70000ll))); }
static __device__ __forceinline__ void make(f16 &to, u64 x) { narrow(to, (float)(u32)min(x, 70000ull)); }

static __device__ __forceinline__ TargetUnit moved(const SourceUnit &unit) {
    TargetUnit made;
#pragma unroll
    for (int k = 0; k < LANES; ++k) make(made.lane[k], widened(unit.lane[k]));
    return made;
}
