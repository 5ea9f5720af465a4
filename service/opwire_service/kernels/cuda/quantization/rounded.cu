// Quotients and products that floats round as if they were real numbers.

// The integer nearest to x / scale, halves to even. As long as there are halves of integers, all of them are floats: so
// rounding the quotient crosses none, and where it ends on one, the remainder tells its side.
static __device__ __forceinline__ float nearest_integer(float x, float scale) {
    float quotient = x / scale, whole = rintf(quotient);
    if (fabsf(quotient - whole) == 0.5f) {
        const float up = fabsf(scale) < 0x1p-100f ? 0x1p32f : 1;  // so that no remainder is too small for a float
        float rest = fmaf(-quotient, scale * up, x * up);
        if (rest != 0) whole = quotient + ((rest < 0) == (scale < 0) ? 0.5f : -0.5f);
    }
    return whole;
}

// Of types of at most 16 bits, which saturate long before a float misses an integer. NaN gives 0.
static __device__ __forceinline__ i32 quantized(float x, float scale, float zero, i32 least, i32 greatest) {
    float whole = nearest_integer(x, scale) + zero;
    if (whole != whole) return 0;
    return (i32)fminf(fmaxf(whole, (float)least), (float)greatest);
}
static __device__ __forceinline__ i32 quantized(i32 x, float scale, float zero, i32 least, i32 greatest) {
    double whole = rint((double)x / scale) + zero;
    if (whole != whole) return 0;
    return (i32)fmin(fmax(whole, (double)least), (double)greatest);
}

// A product rounded to odd, from which FLOAT16 rounds as from the product.
static __device__ __forceinline__ float odd_product(float a, float b) {
    float found = __fmul_rz(a, b);
    bool is_off = fabsf(found) <= 3.402823466e+38f && fmaf(a, b, -found) != 0;
    return __uint_as_float(__float_as_uint(found) | is_off);
}
