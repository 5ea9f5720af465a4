// Rounds real numbers that are known up to a relative error, and tells whether the result is settled.

template <class T> struct Binary64;
template <> struct Binary64<f32> { static const u32 least = 1023 - 125, range = 250; };
template <> struct Binary64<f16> { static const u32 least = 1023 - 13, range = 27; };

// Whether the bits that rounding drops are more than `slack` away from a tie.
static __device__ __forceinline__ bool is_clear(double x, u32 slack, f32) {
    u32 rest = (u32)__double2loint(x) * 8;  // without the bits that are kept
    return rest - 8 * (0x10000000 - slack) > 16 * slack;
}
static __device__ __forceinline__ bool is_clear(double x, u32 slack, f16) {
    u64 rest = bits_of(x) & ((1ull << 42) - 1);
    return rest - ((1ull << 41) - slack) > 2 * slack;
}

// Rounds a double known within `slack` ULP, or a relative error of `reach`. Returns false if numbers within that error
// round to different floats.
template <class T> static __device__ __forceinline__ bool certainly(double x, u32 slack, double reach, T &to) {
    typedef Format<T> F;
    typedef Binary64<T> B;
    u32 nearest = F::nearest(x);
    to = F::make(nearest);
    u32 exponent = ((u32)__double2hiint(x) >> 20) & 0x7ff;
    if (exponent - B::least < B::range) return is_clear(x, slack, to);
    return F::nearest(x * (1 - reach)) == F::nearest(x * (1 + reach));
}

// Branch-free variant, so that the statements of adjacent elements interleave. Also returns false for results that are
// subnormal or nearly so, except 0, and for infinities unless they are settled. Beyond the range of FLOAT32 the low
// bits matter only at the overflow threshold; elsewhere they may cause a needless false.
static __device__ __forceinline__ bool at_once(double x, u32 slack, bool is_infinity_settled, f32 &to) {
    to = __double2float_rn(x);
    u32 above = (u32)__double2hiint(x) * 2 - (1023 - 125 << 21);
    bool is_small = above >= (u32)-(200 - 125 << 21);
    bool is_infinite = above == (0x7ff00000u << 1) - (1023 - 125 << 21);
    return is_clear(x, slack, to) & !is_small & (is_infinity_settled | !is_infinite);
}

// Variant from float to FLOAT16; one instruction rounds both ends.
static __device__ __forceinline__ bool certainly_half(float x, float reach, f16 &to) {
    u32 both = rounded_pair(x * (1 - reach), x * (1 + reach));
    to.bits = (u16)both;
    return both >> 16 == (both & 0xffff) || x != x;
}

// Variant for adjacent elements times any factor in [least, most]; one instruction rounds two of them. Returns the bits
// of the undecided ones.
template <int COUNT>
static __device__ __forceinline__ u32 undecided_halves(const float (&x)[COUNT], float least, float most, f16 (&to)[COUNT]) {
    const int WORDS = (COUNT + 1) / 2;
    u32 unlike[WORDS], any = 0;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
        float even = x[2 * i], odd = 2 * i + 1 < COUNT ? x[2 * i + 1] : even;
        u32 above = rounded_pair(even * most, odd * most), below = rounded_pair(even * least, odd * least);
        any |= unlike[i] = above ^ below;
        to[2 * i].bits = (u16)above;
        if (2 * i + 1 < COUNT) to[2 * i + 1].bits = (u16)(above >> 16);
    }
    u32 undecided = 0;
    if (any) {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) undecided |= (u32)((unlike[k / 2] >> k % 2 * 16 & 0xffff) != 0) << k;
    }
    return undecided;
}
