// Numbers as unevaluated sums of two floats, about 48 bits: for GPUs whose float64 arithmetic is slow.
//
// Functions take pairs and floats alike. In all results but those of `step` and `rising_step`, the low part is at most
// half an ULP of the high one. With u = 2^-24, sums and products are within 6u^2 of the magnitudes that enter them,
// quotients and roots within 2^-43; `scripts/pairs.py` adds up the errors of functions, operation by operation.

struct Pair {
    float hi, lo;
};

static __device__ __forceinline__ float hi_of(float x) { return x; }
static __device__ __forceinline__ float hi_of(Pair x) { return x.hi; }
static __device__ __forceinline__ float lo_of(float) { return 0; }
static __device__ __forceinline__ float lo_of(Pair x) { return x.lo; }
static __device__ __forceinline__ Pair pair_of(float x) { return {x, 0}; }
static __device__ __forceinline__ Pair pair_of(Pair x) { return x; }

template <class T> struct IsPair { static const bool value = false; };
template <> struct IsPair<Pair> { static const bool value = true; };

// Exact unless |a| < |b|.
static __device__ __forceinline__ Pair ordered_sum(float a, float b) {
    float total = a + b;
    return {total, b - (total - a)};
}
// Exact.
static __device__ __forceinline__ Pair exact_sum(float a, float b) {
    float total = a + b, other = total - a;
    return {total, (a - (total - other)) + (b - other)};
}

template <class A, class B> static __device__ __forceinline__ Pair sum(A a, B b) {
    Pair s = exact_sum(hi_of(a), hi_of(b));
    if (IsPair<A>::value && IsPair<B>::value) return ordered_sum(s.hi, s.lo + (lo_of(a) + lo_of(b)));
    if (IsPair<A>::value) return ordered_sum(s.hi, s.lo + lo_of(a));
    return IsPair<B>::value ? ordered_sum(s.hi, s.lo + lo_of(b)) : s;
}
static __device__ __forceinline__ float negated(float a) { return -a; }
static __device__ __forceinline__ Pair negated(Pair a) { return {-a.hi, -a.lo}; }
template <class A, class B> static __device__ __forceinline__ Pair gap(A a, B b) { return sum(a, negated(b)); }

// A product whose parts may overlap; that of floats is exact.
template <class A, class B> static __device__ __forceinline__ Pair loose_product(A a, B b) {
    float p = hi_of(a) * hi_of(b), rest = fmaf(hi_of(a), hi_of(b), -p);
    if (IsPair<B>::value) rest = fmaf(hi_of(a), lo_of(b), rest);
    if (IsPair<A>::value) rest = fmaf(lo_of(a), hi_of(b), rest);
    return {p, rest};
}
template <class A, class B> static __device__ __forceinline__ Pair product(A a, B b) {
    Pair p = loose_product(a, b);
    return IsPair<A>::value || IsPair<B>::value ? ordered_sum(p.hi, p.lo) : p;
}
template <class A, class B, class C> static __device__ __forceinline__ Pair product_sum(A a, B b, C c) {
    Pair p = loose_product(a, b), s = exact_sum(p.hi, hi_of(c));
    return ordered_sum(s.hi, s.lo + (IsPair<C>::value ? p.lo + lo_of(c) : p.lo));
}

// Steps of Horner's scheme, value * t + c: where the product is less than c, and for any.
template <class A, class B, class C> static __device__ __forceinline__ Pair step(A value, B t, C c) {
    Pair p = loose_product(value, t), s = ordered_sum(hi_of(c), p.hi);
    return {s.hi, s.lo + (IsPair<C>::value ? p.lo + lo_of(c) : p.lo)};
}
template <class A, class B, class C> static __device__ __forceinline__ Pair rising_step(A value, B t, C c) {
    Pair p = loose_product(value, t), s = exact_sum(p.hi, hi_of(c));
    return {s.hi, s.lo + (IsPair<C>::value ? p.lo + lo_of(c) : p.lo)};
}
static __device__ __forceinline__ Pair tidied(Pair x) { return ordered_sum(x.hi, x.lo); }

// One correction of the quotient by the approximate inverse, which is within 2^-23.
template <class A, class B> static __device__ __forceinline__ Pair quotient(A a, B b) {
    float inverse = approximate_inverse(hi_of(b)), q = hi_of(a) * inverse, rest = fmaf(-q, hi_of(b), hi_of(a));
    if (IsPair<A>::value) rest += lo_of(a);
    if (IsPair<B>::value) rest = fmaf(-q, lo_of(b), rest);
    return ordered_sum(q, rest * inverse);
}
// The same from the approximate inverse root, within 2^-22.9. NaN for 0 and infinity.
template <class A> static __device__ __forceinline__ Pair root(A x) {
    float inverse = approximate_inverse_root(hi_of(x)), r = hi_of(x) * inverse, rest = fmaf(-r, r, hi_of(x));
    if (IsPair<A>::value) rest += lo_of(x);
    return ordered_sum(r, rest * (0.5f * inverse));
}

static __device__ __forceinline__ u32 sign_bit(float x) { return __float_as_uint(x) & 0x80000000u; }
static __device__ __forceinline__ float flipped(float x, u32 sign) { return __uint_as_float(__float_as_uint(x) ^ sign); }
static __device__ __forceinline__ Pair flipped(Pair x, u32 sign) { return {flipped(x.hi, sign), flipped(x.lo, sign)}; }

static __device__ __forceinline__ float size_of(float x) { return fabsf(x); }
static __device__ __forceinline__ Pair size_of(Pair x) { return flipped(x, sign_bit(x.hi)); }

static __device__ __forceinline__ float chosen(bool yes, float a, float b) { return yes ? a : b; }
template <class A, class B> static __device__ __forceinline__ Pair chosen(bool yes, A a, B b) {
    return {yes ? hi_of(a) : hi_of(b), yes ? lo_of(a) : lo_of(b)};
}

// NaN is preserved.
static __device__ __forceinline__ float at_most(float x, float most) { return lesser(x, most); }
static __device__ __forceinline__ float limited(float x, float most) { return greater(lesser(x, most), -most); }
static __device__ __forceinline__ Pair at_most(Pair x, float most) { return chosen(x.hi > most, most, x); }
static __device__ __forceinline__ Pair limited(Pair x, float most) {
    return chosen(fabsf(x.hi) > most, flipped(most, sign_bit(x.hi)), x);
}
static __device__ __forceinline__ float unless_negative(float x) { return sign_bit(x) ? x * 0 : x; }
static __device__ __forceinline__ Pair unless_negative(Pair x) { return chosen(sign_bit(x.hi), x.hi * 0, x); }

// Comparisons are false for NaN.
template <class A, class B> static __device__ __forceinline__ bool is_same(A a, B b) {
    return (hi_of(a) == hi_of(b)) & (lo_of(a) == lo_of(b));
}
template <class A, class B> static __device__ __forceinline__ bool is_less(A a, B b) {
    return (hi_of(a) < hi_of(b)) | ((hi_of(a) == hi_of(b)) & (lo_of(a) < lo_of(b)));
}
template <class A, class B> static __device__ __forceinline__ bool is_least(A a, B b) { return is_less(a, b) | is_same(a, b); }
static __device__ __forceinline__ bool is_less(float a, float b) { return a < b; }
static __device__ __forceinline__ bool is_least(float a, float b) { return a <= b; }
template <class A, class B> static __device__ __forceinline__ auto lesser_of(A a, B b) { return chosen(is_less(a, b), a, b); }
template <class A, class B> static __device__ __forceinline__ auto greater_of(A a, B b) { return chosen(is_less(b, a), a, b); }

static __device__ __forceinline__ bool is_normal(float x) { return (__float_as_uint(x) & 0x7fffffff) - 0x00800000 < 0x7f000000; }

// An integer nearest to a product below 2^21, or next to it near a tie: as a number, and in the low bits of `moved`.
const float TO_WHOLE = 0x1.8p23f;
static __device__ __forceinline__ i32 whole_of(float moved) { return __float_as_int(moved) - __float_as_int(TO_WHOLE); }

// A number less k times the sum of three floats, which is pi or pi/2; k is a multiple of 1/2, or whole for pi/2, and the
// result below 2. The first step is exact but for k = 1/2, where what it loses is. The result is within 8u^2 of itself
// where it is at least twice k * b, so that nothing cancels.
static __device__ __forceinline__ Pair turned_back(float x, float k, float a, float b, float c) {
    float near = fmaf(-k, a, x), lost = x - fmaf(k, a, near), p = k * b;
    Pair s = ordered_sum(near, -p);
    return ordered_sum(s.hi, (s.lo - fmaf(k, b, -p)) + fmaf(-k, c, lost));
}

// Two to a power from -126 to 127.
static __device__ __forceinline__ float two_to(i32 exponent) { return __int_as_float((exponent << 23) + 0x3f800000); }
static __device__ __forceinline__ float scaled(float x, i32 exponent) { return x * two_to(exponent); }
static __device__ __forceinline__ Pair scaled(Pair x, i32 exponent) {
    float scale = two_to(exponent);
    return {x.hi * scale, x.lo * scale};
}

// The significand from sqrt(1/2) on, less 1, and the exponent.
static __device__ __forceinline__ u32 shifted_bits(float x) { return __float_as_uint(x) + (0x3f800000u - 0x3f3504f4u); }
static __device__ __forceinline__ float exponent_of(float x) {
    return __uint_as_float(0x4b000000u + (shifted_bits(x) >> 23)) - (0x1p23f + 127);
}
static __device__ __forceinline__ float fraction_of(float x) {
    return __uint_as_float((shifted_bits(x) & 0x7fffff) + 0x3f3504f4u) - 1;
}
static __device__ __forceinline__ Pair fraction_of(Pair x) {
    float scale = __uint_as_float(0x7f000000u - (shifted_bits(x.hi) & 0x7f800000u));
    return ordered_sum(fraction_of(x.hi), x.lo * scale);
}
static __device__ __forceinline__ float exponent_of(Pair x) { return exponent_of(x.hi); }

// Whether an element is neither 0 nor at least 2^-60; negative zeros are none either, as sums lose their sign.
static __device__ __forceinline__ bool is_tiny(float x) {
    u32 bits = __float_as_uint(x);
    return (bits << 1 | bits >> 31) - 1 < 2 * 0x21800000u - 1;
}
// Whether the magnitude is outside [least, 2^126], both given as bits.
static __device__ __forceinline__ bool is_beyond(float x, u32 least) {
    return (__float_as_uint(x) & 0x7fffffff) - least > 0x7e800000u - least;
}

// Rounds a number between x.hi + less and x.hi + more. Returns false if the result may be ambiguous, or is outside
// [least, 2^126] unless it is a certain zero.
static __device__ __forceinline__ bool rounds_alike(Pair x, float less, float more, u32 least, bool is_zero_certain, f32 &to) {
    to = x.hi;
    bool is_safe = !is_beyond(x.hi, least) | (is_zero_certain & (__float_as_uint(x.hi) == 0));
    return (x.hi + less == x.hi) & (x.hi + more == x.hi) & is_safe;
}
// A sum rounded to odd, from which FLOAT16 rounds as from the sum itself.
static __device__ __forceinline__ float odd_sum(float hi, float lo) {
    Pair s = ordered_sum(hi, lo);
    u32 bits = __float_as_uint(s.hi), step = sign_bit(s.hi) == sign_bit(s.lo) ? 1u : ~0u;
    return __uint_as_float((s.lo == 0) | (bits & 1) ? bits : bits + step);
}
static __device__ __forceinline__ bool rounds_alike(Pair x, float less, float more, u32, bool is_zero_certain, f16 &to) {
    u32 both = rounded_pair(odd_sum(x.hi, more), odd_sum(x.hi, less));
    to.bits = (u16)both;
    bool is_safe = !is_beyond(x.hi, 1) | (is_zero_certain & (__float_as_uint(x.hi) == 0));
    return (both >> 16 == (both & 0xffff)) & is_safe;
}
// The same for a number known within a relative error, and within an absolute one.
template <class T> static __device__ __forceinline__ bool narrowly(Pair x, float reach, u32 least, bool is_zero_certain, T &to) {
    return rounds_alike(x, fmaf(x.hi, -reach, x.lo), fmaf(x.hi, reach, x.lo), least, is_zero_certain, to);
}
template <class T> static __device__ __forceinline__ bool narrowly_within(Pair x, float reach, u32 least, bool is_zero_certain, T &to) {
    return rounds_alike(x, x.lo - reach, x.lo + reach, least, is_zero_certain, to);
}

// The bits of a function's results for the numbers that pairs do not take.
struct Known {
    u32 zero, minus_zero, infinite, minus_infinite, not_a_number;
};
static __device__ __forceinline__ void put_bits(f32 &to, u32 bits) { to = __uint_as_float(bits); }
static __device__ __forceinline__ void put_bits(f16 &to, u32 bits) { to.bits = (u16)bits; }

// Returns false for other numbers.
template <class T> static __device__ __forceinline__ bool is_known(float x, const Known &known, T &to) {
    u32 size = __float_as_uint(x) & 0x7fffffff;
    bool is_zero = size == 0, is_infinite = size == 0x7f800000, is_negative = sign_bit(x) != 0;
    u32 found = is_negative ? (is_zero ? known.minus_zero : known.minus_infinite) : is_zero ? known.zero : known.infinite;
    put_bits(to, x != x ? known.not_a_number : found);
    return is_zero | is_infinite | (x != x);
}

// A number times slope * x + start, limited to [0, 1]. The line is within `margin` of its high part, and the product
// within `error` times x.
template <class T>
static __device__ __forceinline__ bool times_ramp(
    float x, float slope, float start, float error, float margin, u32 least, bool is_zero_certain, T &to
) {
    Pair line = sum(product(slope, x), start);
    bool is_inside = (line.hi > margin) & (line.hi < 1 - margin), is_above = line.hi > 1 + margin;
    bool is_settled = narrowly_within(product(x, line), fabsf(x) * error, least, is_zero_certain, to) & is_inside;
    bool is_limited = (line.hi < -margin) | is_above;
    if (is_limited) narrow(to, is_above ? x : x * 0);
    return is_settled | is_limited;
}
