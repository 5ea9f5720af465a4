// What quick functions take of the card: quotients and roots by its coarse inverses, and which results are settled.

// The coarse inverse is within 2^-19, and the cube of its error so below the roundings.
static __device__ __forceinline__ double quick_quotient(double a, double b) {
    double inverse;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(b));
    double rest = fma(-b, inverse, 1.0);
    rest = fma(rest, rest, rest);
    return a * fma(inverse, rest, inverse);
}
// Whether a number is none to divide by so: zero, subnormal, infinite, NaN, or nearly so.
static __device__ __forceinline__ bool is_extreme(double b) {
    return ((u32)__double2hiint(b) & 0x7fffffff) - 0x00200000 > 0x7fb00000;
}

// NaN stays.
static __device__ __forceinline__ float quick_at_most(float x, float most) {
    return lesser(x, most);
}
static __device__ __forceinline__ float quick_limited(float x, float most) {
    return greater(lesser(x, most), -most);
}
// By the high words, which is as good: what is limited is far from any element. Those of infinities are included.
static __device__ __forceinline__ double quick_at_most(double x, double most) {
    u32 end = (u32)__double2hiint(most);
    return (u32)__double2hiint(x) - end < 0x7ff00001 - end ? most : x;
}
static __device__ __forceinline__ double quick_limited(double x, double most) {
    return copysign(quick_at_most(fabs(x), most), x);
}

static __device__ __forceinline__ bool is_usual(float x) { return 2 * __float_as_uint(x) - 1 < 0xfeffffff; }
static __device__ __forceinline__ bool is_usual(double x) {
    return ((u32)__double2hiint(x) & 0x7fffffff) - 0x00100000 < 0x7fe00000;
}

// The series of what the coarse inverse is off by, whose fourth power is below the roundings. Of 0 it is NaN.
static __device__ __forceinline__ double quick_root(double x) {
    double inverse;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(x));
    double root = x * inverse, rest = fma(-root, inverse, 1.0);
    return fma(root * rest, fma(rest, 0.375, 0.5), root);
}

// What any number within `slack` units of the last place, a part `reach` of it, is rounded to. False if there is more
// than one such element, or perhaps so, or an infinity that is not certain. A number that is far from all elements stands
// for those beyond.
static __device__ __forceinline__ bool quickly(double x, u32 slack, double, bool is_infinity_certain, f32 &to) {
    return at_once(x, slack, is_infinity_certain, to);
}
// By way of a float: what lies beyond its range is 0 or infinite as FLOAT16, too.
static __device__ __forceinline__ bool quickly(double x, u32, double reach, bool is_infinity_certain, f16 &to) {
    bool is_infinite = (u32)__double2hiint(x) << 1 == 0x7ff00000u << 1;
    return certainly_half((float)x, (float)(reach + 0x1p-22), to) & (is_infinity_certain | !is_infinite);
}
