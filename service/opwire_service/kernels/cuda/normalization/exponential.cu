// Exponentials, by a lookup table in shared memory.

#if PAIRS
namespace settling {
typedef double Kept;
#endif

// e**x within a few ULP, or within 2^-34 where results are FLOAT16, at half the cost of `exp`: 2**(n/16) from a table,
// and the rest, at most ln(2)/32, from the series. The low four bits of n spill into the significand when n is added to
// the exponent; the table entries are reduced to compensate.
__shared__ double powers[16];
__constant__ double POWERS[16] = POWERS_OF_TWO;

static __device__ __forceinline__ void prepare() {
    u32 thread = threadIdx.y * blockDim.x + threadIdx.x, threads = blockDim.x * blockDim.y;
    for (u32 n = thread; n < 16; n += threads)
        powers[n] = __hiloint2double(__double2hiint(POWERS[n]) - (n << 16), __double2loint(POWERS[n]));
    __syncthreads();
}

// In constant memory, which instructions read as operands; literals would be moved to registers each time.
struct Exponential {
    double shift, inverse, step, rest;  // `inverse` is 16/ln(2); `step` + `rest` is ln(2)/16
    double term2, term3, term4, term5, term6;
};
__constant__ Exponential E = {0x1.8p52, 0x1.71547652b82fep+4, 0x1.62e42fefa39efp-5, 0x1.abc9e3b39803fp-60, SERIES};

// e**d for d in [-690, 0]. If the rounding constant `shift` is lower by 16 * k, the result is divided by 2**k.
static __device__ __forceinline__ double exponential_of(double d, double shift = E.shift) {
    double shifted = fma(d, E.inverse, shift), whole = shifted - shift;
    double r = fma(-whole, E.step, d), series = E.term4;
    if (!HALF) {
        r = fma(-whole, E.rest, r);
        series = fma(r, fma(r, E.term6, E.term5), series);
    }
    series = fma(r, series, E.term3);
    series = fma(r, series, E.term2);
    series = fma(r * r, series, r);
    i32 n = __double2loint(shifted);
    double entry = powers[n & 15];
    double power = __hiloint2double(__double2hiint(entry) + n * (1 << 16), __double2loint(entry));
    return fma(power, series, power);
}

// 1/x for x far from the ends of the range. The cube of the approximate inverse's error is below the rounding errors.
static __device__ __forceinline__ double inverse_of(double x) {
    double inverse;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(x));
    double rest = fma(-x, inverse, 1.0);
    return fma(inverse, fma(rest, rest, rest), inverse);
}

#if PAIRS
}
#endif
