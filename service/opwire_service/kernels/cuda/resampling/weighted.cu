// Rounds weighted sums of elements, computed in double: for integers if the result is settled, for floats if the error
// is far below an ULP.

template <class T> struct Enough;
template <> struct Enough<f32> { static constexpr float share = 0x1p-26f, least = 0; };
template <> struct Enough<f16> { static constexpr float share = 0x1p-13f, least = 0x1p-26f; };

const float SLACK = 0x1p-47f;  // error of a sum, relative to the sum of the magnitudes

template <class T> static __device__ __forceinline__ bool settled(double value, float mass, T &to) {
    to = Format<T>::make(Format<T>::nearest(value));
    float error = SLACK * mass;
    return !(error > Enough<T>::share * fabsf((float)value) && error > Enough<T>::least);
}

// A float usually suffices.
template <class T> static __device__ __forceinline__ bool settled_integer(double value, float mass, T &to) {
    float nearly = (float)value;
    to = (T)(int)rintf(nearly);
    if (fabsf(fabsf(nearly - floorf(nearly)) - 0.5f) > 0x1p-12f) return true;
    to = (T)(int)rint(value);
    return fabs(fabs(value - floor(value)) - 0.5) > SLACK * mass;
}
template <> __device__ __forceinline__ bool settled(double value, float mass, i8 &to) { return settled_integer(value, mass, to); }
template <> __device__ __forceinline__ bool settled(double value, float mass, u8 &to) { return settled_integer(value, mass, to); }

// An exact sum as two doubles.
struct Exactly {
    double high, low;
    bool is_exact;

    __device__ __forceinline__ void add(double weight, double x) {
        double error, rest, term = weight * x;
        double more = fma(weight, x, -term);
        high = two_sum(high, term, error);
        low = two_sum(low, error, rest);
        is_exact &= rest == 0;
        low = two_sum(low, more, rest);
        is_exact &= rest == 0 && (fabs(term) > 1e-200 || weight == 0 || x == 0);
    }
};

template <class T> static __device__ __forceinline__ void rounded(double high, double low, T &to) {
    typedef Format<T> F;
    bool is_negative = high < 0;
    u32 bits = 0;
    if (high != 0) round_to<T>(bits, Quotient{fabs(high), is_negative ? -low : low, 1.0}, 0);
    to = F::make(bits | (is_negative ? F::sign : 0));
}
template <class T> static __device__ __forceinline__ void rounded_integer(double high, double low, T &to) {
    double below = floor(high), side = (high - below) - 0.5;
    if (side == 0) side = low;
    to = (T)(int)(side == 0 ? rint(high) : side > 0 ? below + 1 : below);
}
template <> __device__ __forceinline__ void rounded(double high, double low, i8 &to) { rounded_integer(high, low, to); }
template <> __device__ __forceinline__ void rounded(double high, double low, u8 &to) { rounded_integer(high, low, to); }

template <class T> static __device__ __forceinline__ bool settled(const Exactly &sum, T &to) {
    if (!sum.is_exact || !is_finite(sum.high)) return false;
    double low, high = two_sum(sum.high, sum.low, low);
    rounded(high, low, to);
    return true;
}
