// Approximate inverses of floats from 2^-126 to 2^126: within 2^-23, and within 2^-22.9 of the root; of a double's, 2^-18.

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
static __device__ __forceinline__ double approximate_inverse_root(double x) {
    double inverse;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(x));
    return inverse;
}
