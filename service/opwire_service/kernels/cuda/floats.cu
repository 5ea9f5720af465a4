// Primitives of formulas on floats: on float and double, with at most one rounding each, and on stored bits.

template <class T> struct Stored;
template <> struct Stored<f16> { typedef u16 U; };
template <> struct Stored<f32> { typedef u32 U; };
template <> struct Stored<f64> { typedef u64 U; };
template <> struct Stored<i8> { typedef u8 U; };
template <> struct Stored<u8> { typedef u8 U; };
template <> struct Stored<i16> { typedef u16 U; };
template <> struct Stored<u16> { typedef u16 U; };
template <> struct Stored<i32> { typedef u32 U; };
template <> struct Stored<u32> { typedef u32 U; };
template <> struct Stored<i64> { typedef u64 U; };
template <> struct Stored<u64> { typedef u64 U; };

template <class T> static __device__ __forceinline__ typename Stored<T>::U bits_of(T x) {
    return (typename Stored<T>::U)x;
}
template <> __device__ __forceinline__ u16 bits_of(f16 x) { return x.bits; }
template <> __device__ __forceinline__ u32 bits_of(f32 x) { return __float_as_uint(x); }
template <> __device__ __forceinline__ u64 bits_of(f64 x) { return (u64)__double_as_longlong(x); }

static __device__ __forceinline__ void of_bits(f16 &x, u16 bits) { x.bits = bits; }
static __device__ __forceinline__ void of_bits(f32 &x, u32 bits) { x = __uint_as_float(bits); }
static __device__ __forceinline__ void of_bits(f64 &x, u64 bits) { x = __longlong_as_double((i64)bits); }
template <class T> static __device__ __forceinline__ void of_bits(T &x, typename Stored<T>::U bits) { x = (T)bits; }

template <class T> static __device__ __forceinline__ T made(typename Stored<T>::U bits) {
    T x;
    of_bits(x, bits);
    return x;
}

// Changes only the sign, also of NaN.
template <class T> static __device__ __forceinline__ T stored_absolute(T x) {
    typedef typename Stored<T>::U U;
    return made<T>((U)(bits_of(x) & (U)((U)~(U)0 >> 1)));
}
template <class T> static __device__ __forceinline__ T stored_negate(T x) {
    typedef typename Stored<T>::U U;
    return made<T>((U)(bits_of(x) ^ (U)~(U)((U)~(U)0 >> 1)));
}

template <class T> static __device__ __forceinline__ T narrowed(float wide) {
    T x;
    narrow(x, wide);
    return x;
}

// Common names for float and double.
template <class W> static __device__ __forceinline__ W not_a_number() { return (W)__uint_as_float(0x7fc00000u); }

template <class W> static __device__ __forceinline__ W least_of(W a, W b) { return a <= b || b != b ? a : b; }
template <class W> static __device__ __forceinline__ W greatest_of(W a, W b) { return a >= b || b != b ? a : b; }
// The explicit NaN check keeps the compiler from using saturation to [0, 1], which would turn NaN into 0.
template <class W> static __device__ __forceinline__ W limited_to(W x, W least, W most) {
    return x != x ? greatest_of(least, most) : greatest_of(least, least_of(x, most));
}
template <class W> static __device__ __forceinline__ W sign_of(W x) { return (W)((x > 0) - (x < 0)); }
template <class W> static __device__ __forceinline__ W rest_of(W a, W b) {
    return isinf(b) ? not_a_number<W>() : fmod(a, b);
}
template <class W> static __device__ __forceinline__ W floor_rest_of(W a, W b) {
    W rest = rest_of(a, b);
    if (rest == 0) return copysign((W)0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}
// Halving the sum is exact unless it is subnormal, and then the sum itself is exact.
template <class W> static __device__ __forceinline__ W mean_of(W a, W b) {
    W half = (a + b) * (W)0.5;
    return isinf(half) ? a * (W)0.5 + b * (W)0.5 : half;
}
