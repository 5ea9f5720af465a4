// Primitives of formulas on integers, modulo 2^width of their type.

template <class T> struct Width { static const int bits = 8 * sizeof(T); };
template <class T> static __device__ __forceinline__ bool is_signed() { return (T)-1 < (T)1; }

template <class T> static __device__ __forceinline__ T integer_add(T a, T b) { return (T)((u64)a + (u64)b); }
template <class T> static __device__ __forceinline__ T integer_subtract(T a, T b) { return (T)((u64)a - (u64)b); }
template <class T> static __device__ __forceinline__ T integer_multiply(T a, T b) { return (T)((u64)a * (u64)b); }
template <class T> static __device__ __forceinline__ T integer_negate(T a) { return (T)(0 - (u64)a); }
// The lowest number of up to 16 bits saturates.
template <class T> static __device__ __forceinline__ T integer_absolute(T a) {
    T opposite = integer_negate(a);
    if (sizeof(T) < 4 && a < 0 && opposite < 0) return (T)(opposite - 1);
    return a < 0 ? opposite : a;
}
template <class T> static __device__ __forceinline__ T integer_sign(T a) { return (T)((a > 0) - (a < 0)); }
template <class T> static __device__ __forceinline__ T integer_minimum(T a, T b) { return b < a ? b : a; }
template <class T> static __device__ __forceinline__ T integer_maximum(T a, T b) { return b > a ? b : a; }

// Division by zero sets all bits, but negative numbers of up to 32 bits give 1.
template <class T> static __device__ __forceinline__ T by_zero(T a) {
    return sizeof(T) <= 4 && a < 0 ? (T)1 : (T)-1;
}
template <class T> static __device__ __forceinline__ T integer_divide(T a, T b) {
    if (b == 0) return by_zero(a);
    if (is_signed<T>() && b == (T)-1) return integer_negate(a);  // the minimum has no positive counterpart
    return (T)(a / b);
}
template <class T> static __device__ __forceinline__ T integer_remainder(T a, T b) {
    if (b == 0) return sizeof(T) <= 4 && is_signed<T>() ? a : (T)-1;
    if (is_signed<T>() && b == (T)-1) return 0;
    return (T)(a % b);
}
template <class T> static __device__ __forceinline__ T integer_floor_remainder(T a, T b) {
    if (b == 0) return by_zero(a);
    T rest = integer_remainder(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;
}
template <class T> static __device__ __forceinline__ T integer_mean(T a, T b) {
    static_assert(sizeof(T) <= 4, "the sum is one of 32 bits");
    u32 total = (u32)a + (u32)b;  // wraps
    return is_signed<T>() ? (T)((i32)total / 2) : (T)(total / 2);
}

// Negative exponents truncate. Powers wrap around in 32 bits, or 64, and those of narrower types then saturate.
template <class T, class E> static __device__ T integer_power(T base, E exponent) {
    if (exponent < 0) {
        if (base == 1) return 1;
        return is_signed<T>() && base == (T)-1 ? (exponent & 1 ? (T)-1 : (T)1) : (T)0;
    }
    u64 result = 1, factor = (u64)base;
    for (u64 rest = (u64)exponent; rest; rest >>= 1, factor *= factor)
        if (rest & 1) result *= factor;
    if (sizeof(T) >= 4) return (T)result;
    i64 value = is_signed<T>() ? (i64)(i32)result : (i64)(u32)result;
    i64 least = is_signed<T>() ? -(1LL << (Width<T>::bits - 1)) : 0, greatest = least + (1LL << Width<T>::bits) - 1;
    return (T)(value < least ? least : value > greatest ? greatest : value);
}

// Constants outside a type's range are passed as 64 bits, which hold all values of the types that have such constants.
template <class A, class B> struct Wider { typedef i64 Both; };
template <class A> struct Wider<A, A> { typedef A Both; };
#define COMPARE(name, operation)                                                        \
    template <class A, class B> static __device__ __forceinline__ i32 integer_##name(A a, B b) { \
        typedef typename Wider<A, B>::Both Both;                                        \
        return (Both)a operation (Both)b;                                               \
    }
COMPARE(equal, ==)
COMPARE(less, <)
COMPARE(less_equal, <=)
COMPARE(greater, >)
COMPARE(greater_equal, >=)
#undef COMPARE

template <class U> static __device__ __forceinline__ i32 shift_places(U b) {
    return ((i32)b & 31) | (Width<U>::bits > 32 && b >= 32 ? 32 : 0);
}
template <class U> static __device__ __forceinline__ U bits_left(U a, U b) { return (U)((u64)a << shift_places(b)); }
template <class U> static __device__ __forceinline__ U bits_right(U a, U b) { return (U)((u64)a >> shift_places(b)); }
template <class U> static __device__ __forceinline__ i32 bits_count(U a) { return __popcll((u64)a); }

static __device__ __forceinline__ double sum_of_two(double a, double b, double &error) {
    double sum = a + b;
    double other = sum - a;
    error = (a - (sum - other)) + (b - other);
    return sum;
}

// Converts to T: truncated, then saturated; NaN gives 0.
template <class T> static __device__ __forceinline__ T saturated(double x) {
    const int bits = Width<T>::bits;
    const double above = is_signed<T>() ? scalbn(1.0, bits - 1) : scalbn(1.0, bits);
    if (x != x) return 0;
    if (x >= above) return is_signed<T>() ? (T)(((u64)1 << (bits - 1)) - 1) : (T)-1;
    if (is_signed<T>()) return x <= -above ? (T)((u64)1 << (bits - 1)) : (T)(i64)x;
    return x <= 0 ? (T)0 : (T)(u64)x;
}

// The floor of a sum of doubles, each of which is below half an ULP of the previous one.
static __device__ __forceinline__ double floor_of(const double (&part)[4], double &below) {
    double top = 0;
    below = 0;
    for (int i = 0; i < 4; ++i) {
        double whole = floor(part[i]);
        double rest;
        top = sum_of_two(top, whole, rest);
        below += rest;
        if (whole != part[i]) break;
    }
    return top;
}

// x * scale + bias, computed exactly, then truncated and saturated.
template <class T> static __device__ T scaled_integer(T x, float scale, float bias) {
    double s = scale, b = bias;
    if (!isfinite(s) || !isfinite(b)) return saturated<T>((double)x * s + b);
    // Split so that each part is exact in a double, and its product with the scale in one or two doubles.
    T few = Width<T>::bits == 64 ? (T)(x & 0xfff) : (T)0;
    double high = (double)(T)(x - few), product = high * s;
    double part[4] = {product, fma(high, s, -product), (double)few * s, b};
    for (int pass = 0; pass < 5; ++pass)  // until no parts overlap
        for (int i = 2; i >= 0; --i) part[i] = sum_of_two(part[i], part[i + 1], part[i + 1]);
    bool is_negative = part[0] < 0;
    if (is_negative)
        for (int i = 0; i < 4; ++i) part[i] = -part[i];
    if (part[0] >= 36893488147419103232.0) return saturated<T>(is_negative ? -part[0] : part[0]);
    double below, top = floor_of(part, below);
    // At most 65 bits; numbers that do not fit 64 are beyond all types.
    if (top >= 18446744073709551616.0 + (below < 0 ? 4096.0 : 0.0)) return saturated<T>(is_negative ? -1e30 : 1e30);
    u64 whole = top >= 18446744073709551616.0 ? (u64)(i64)below : (u64)top + (u64)(i64)below;
    if (Width<T>::bits < 64 || is_signed<T>()) {
        u64 most = is_signed<T>() ? (((u64)1 << (Width<T>::bits - 1)) - !is_negative) : (((u64)1 << (Width<T>::bits & 63)) - 1);
        if (is_negative && !is_signed<T>()) return 0;
        if (whole > most) whole = most;
        return (T)(is_negative ? 0 - whole : whole);
    }
    return is_negative ? (T)0 : (T)whole;
}
