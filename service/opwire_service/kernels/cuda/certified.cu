// Real numbers known up to a relative error, rounded to a float where that is sure.

template <class T> struct Binary64;
template <> struct Binary64<f32> { static const int lost = 29, least = 1023 - 125, range = 250; };
template <> struct Binary64<f16> { static const int lost = 42, least = 1023 - 13, range = 27; };

// What any number within `slack` units of the last place of a double, a part `reach` of it, is rounded to. False if
// there is more than one such float.
template <class T> static __device__ __forceinline__ bool certainly(double x, u64 slack, double reach, T &to) {
    typedef Format<T> F;
    typedef Binary64<T> B;
    u64 bits = bits_of(x);
    u32 nearest = F::nearest(x);
    to = F::make(nearest);
    u32 exponent = (u32)(bits >> 52) & 0x7ff;
    if (exponent - B::least < B::range) {
        u64 rest = bits & ((1ull << B::lost) - 1);
        return rest - ((1ull << (B::lost - 1)) - slack) > 2 * slack;
    }
    return F::nearest(x * (1 - reach)) == F::nearest(x * (1 + reach));
}

// The same for a float and FLOAT16.
static __device__ __forceinline__ bool certainly(float x, u32 slack, float reach, f16 &to) {
    narrow(to, x);
    u32 bits = bits_of(x), exponent = (bits >> 23) & 0xff;
    if (exponent - (127 - 13) < 27) {
        u32 rest = bits & ((1u << 13) - 1);
        return rest - ((1u << 12) - slack) > 2 * slack;
    }
    return narrowed<f16>(x * (1 - reach)).bits == narrowed<f16>(x * (1 + reach)).bits;
}
