// Approximate inverses of floats from 2^-126 to 2^126: within 2^-23, and within 2^-22.9 of the root.

static __device__ __forceinline__ float approximate_inverse(float x) {
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
}
static __device__ __forceinline__ float approximate_inverse_root(float x) {
    float inverse;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
}
