// Sums of up to 32 floats without double, for GPUs with few float64 units.

const int MOST_FLOATS = 32;

struct FloatSum {
    float high = -0.0f, low = 0;  // the sum of no terms

    __device__ __forceinline__ void add(float x, float rest = 0) {
        float total = high + x, other = total - high;
        low += ((high - (total - other)) + (x - other)) + rest;
        high = total;
    }
    // The low part is off by at most 2^-37 of the sum, and by 2^-148 for each square below 2^-100.
    __device__ __forceinline__ void add_square(float x) {
        float square = x * x;
        add(square, fmaf(x, x, -square));
    }
    __device__ __forceinline__ double total() const { return low == 0 ? (double)high : (double)high + (double)low; }
    __device__ __forceinline__ bool is_finite() const { return fabsf(high) <= 3.402823466e+38f; }
};

// The magnitudes of terms. The low part of their sum is exact if they are close. Let each be a multiple of u, below
// 2^e u, and there be 2^n of them: additions lose multiples of u, at most 2^(e + n - 25) u each, so that the low part
// stays below 2^24 u if e <= 49 - 2n. A FLOAT16 is a multiple of 2^-24 anyway.
struct Magnitudes {
    float greatest = 0;
    u32 least = ~0u;  // twice the bits of the smallest, minus 1, so that zero wraps around and is ignored

    __device__ __forceinline__ void add(float x) {
        greatest = fmaxf(greatest, fabsf(x));
        least = min(least, 2 * __float_as_uint(x) - 1);
    }
    template <int COUNT> __device__ __forceinline__ bool are_close(bool are_halves) const {
        static_assert(COUNT <= MOST_FLOATS, "the low part may round");
        if (are_halves) return greatest <= 0x1p14f;
        const u32 RANGE = COUNT > 8 ? 15 : 19;  // of exponents, which is e - 24
        return __float_as_uint(greatest) <= (least >> 1) + (RANGE << 23);
    }
};
