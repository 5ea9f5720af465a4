// GPU support of quick functions: quotients and roots from approximate inverses, and the check whether a result is
// settled.

// The approximate inverse is within 2^-19, so the cube of its error is below the rounding errors.
static __device__ __forceinline__ double quick_quotient(double a, double b) {
    double inverse;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(b));
    double rest = fma(-b, inverse, 1.0);
    rest = fma(rest, rest, rest);
    return a * fma(inverse, rest, inverse);
}
// Whether a divisor is unsuitable for `quick_quotient`: zero, subnormal, infinite, NaN, or nearly so.
static __device__ __forceinline__ bool is_extreme(double b) {
    return ((u32)__double2hiint(b) & 0x7fffffff) - 0x00200000 > 0x7fb00000;
}

// NaN is preserved.
static __device__ __forceinline__ float quick_at_most(float x, float most) {
    return lesser(x, most);
}
static __device__ __forceinline__ float quick_limited(float x, float most) {
    return greater(lesser(x, most), -most);
}
// Comparing the high words, including those of infinities, suffices, as limited numbers are far from any element.
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

// Corrects the approximate inverse by the series of its error, whose fourth power is negligible. NaN for 0.
static __device__ __forceinline__ double quick_root(double x) {
    double inverse;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(x));
    double root = x * inverse, rest = fma(-root, inverse, 1.0);
    return fma(root * rest, fma(rest, 0.375, 0.5), root);
}

// Rounds a number known within `slack` ULP, or a relative error of `reach`. Returns false if the result may be
// ambiguous, or is infinite and infinities are not settled. A number far outside the elements' range stands for all
// beyond it.
static __device__ __forceinline__ bool quickly(double x, u32 slack, double, bool is_infinity_settled, f32 &to) {
    return at_once(x, slack, is_infinity_settled, to);
}
// Goes through float: numbers beyond its range are 0 or infinite as FLOAT16, too.
static __device__ __forceinline__ bool quickly(double x, u32, double reach, bool is_infinity_settled, f16 &to) {
    bool is_infinite = (u32)__double2hiint(x) << 1 == 0x7ff00000u << 1;
    return certainly_half((float)x, (float)(reach + 0x1p-22), to) & (is_infinity_settled | !is_infinite);
}
