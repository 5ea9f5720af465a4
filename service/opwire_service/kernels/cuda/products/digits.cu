// Numbers as integers of three digits, and their remainders modulo several small numbers.
//
// MODULUS, INVERSE, LEFT_BY, RIGHT_BY and LARGEST_NORM are generated from one list of moduli.

const float ROUNDING = 0x1.8p23f;  // adding it rounds a float to an integer, which its lowest byte holds modulo 256
const float DIGIT = 0x1p16f;
const i32 TOP_POWER = 32;          // an integer is digits[0] + 2**16 digits[1] + 2**32 digits[2]
const double LOST = 0x1p-50;       // limits the norm of what underflow hides
const double COMBINED = 0x1p-50;   // error of a sum made of its remainders, relative to it, and of operations on it

static __device__ __forceinline__ float power_of_two(i32 exponent) {
    return __int_as_float((exponent + 127) << 23);
}

// An element as an integer of three digits, and the rest.
struct Digits {
    float digit[3], rest;

    __device__ __forceinline__ Digits(float x) {
#pragma unroll
        for (int i = 2; i >= 0; --i) {
            digit[i] = (x + ROUNDING) - ROUNDING;
            x -= digit[i];
            if (i) x *= DIGIT;
        }
        rest = x;
    }
    // The remainder of the integer times a number, in the lowest byte. The first modulus is that of bytes.
    __device__ __forceinline__ u32 remainder(u32 m, const float (&by)[3]) const {
        if (m == 0) return __float_as_uint(fmaf(digit[0], by[0], ROUNDING));
        float sum = fmaf(digit[2], by[2], fmaf(digit[1], by[1], digit[0] * by[0]));
        float times = fmaf(sum, INVERSE[m], ROUNDING) - ROUNDING;
        return __float_as_uint(fmaf(-MODULUS[m], times, sum) + ROUNDING);
    }
};

// Scales the numbers of a line by a power of two, so that its norm is at most the largest, and measures what rounding
// them to integers leaves.
struct Scaling {
    i32 exponent;
    float scale, again, rests = 0;  // two factors, as one may be too large or too small; the sum of squares of the rests
    bool is_exact = true;

    __device__ __forceinline__ Scaling(double norm) {
        exponent = is_finite(norm) && norm > 0 ? ilogb(LARGEST_NORM / norm) : 0;
        i32 half = (exponent - TOP_POWER) / 2;
        scale = power_of_two(half);
        again = power_of_two(exponent - TOP_POWER - half);
    }
    __device__ __forceinline__ Digits digits(float x) {
        float scaled = x * scale * again;
        Digits digits(scaled);
        rests = fmaf(digits.rest, digits.rest, rests);
        is_exact &= digits.rest == 0 && (scaled == 0) == (x == 0);
        return digits;
    }
    // The factor that takes the integers back.
    __device__ __forceinline__ double back() const { return ldexp(1.0, -exponent); }
};

static __device__ __forceinline__ double warp_sum(double x) {
#pragma unroll
    for (u32 lane = WARP / 2; lane; lane /= 2) x += __shfl_xor_sync(~0u, x, lane);
    return x;
}
