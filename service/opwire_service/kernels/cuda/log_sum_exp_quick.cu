// ln of a sum of exponentials in float arithmetic, with an error bound of about 2**-23 for FLOAT32 and 2**-17 for
// FLOAT16; with FLOATS, which needs `float_sums`, floats sum a few powers at a time. The output is undecided where the
// logarithm is too close to zero for that.

const float LOG2_E = 0x1.715476p+0f;

struct Accumulator {
    double high;     // the sum is high * 2**shift
    float greatest;  // largest element; NaN if any is NaN
    i32 shift;       // chosen so that the first powers are about 1

    static const bool descending = false;
    static const bool UNORDERED = !HALF;
    static const i32 SPAN = 60;      // powers are at most 2**SPAN, and for FLOAT32 at least 2**-SPAN
    static const u32 FARTHEST = 65536;  // larger magnitudes are left to the settling pass
    static __device__ void prepare() {}

    __device__ __forceinline__ const Accumulator &total() const { return *this; }
    __device__ __forceinline__ void clear() {
        high = 0;
        greatest = Bounds<float>::lowest();
        shift = -0x200000;  // any element but -infinity raises it
    }
    __device__ __forceinline__ void raise(i32 to) {
        i32 power = max(shift - to, -1000);
        high *= __hiloint2double((1023 + power) << 20, 0);
        shift = to;
    }
#if HALF
    __device__ __forceinline__ void add_powers(const float *values, int count) {
        float sum = 0, less = -(float)shift;
#pragma unroll
        for (int k = 0; k < count; ++k) {
            float power;
            asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(fmaf(values[k], LOG2_E, less)));
            sum += power;
        }
        high += sum;
    }
#else
    // e**x is 2**n * (1 + tail), with n the nearest integer.
    __device__ __forceinline__ void add_powers(const float *values, int count) {
        const float MAGIC = 0x1.8p23f;
        float floor = (float)(shift - SPAN) * 0x1.62e43p-1f;
        u32 bias = (u32)(127 - shift) << 23;
#if FLOATS
        FloatSum sum;
#else
        double sum = 0;
#endif
#pragma unroll
        for (int k = 0; k < count; ++k) {
            float x = fmaxf(values[k], floor);
            float magic = fmaf(x, LOG2_E, MAGIC), n = magic - MAGIC;
            float rest = fmaf(n, -0x1.62e43p-1f, x);
            rest = fmaf(n, 0x1.05c61p-29f, rest);
            float tail = fmaf(rest, TERM6, TERM5);
            tail = fmaf(rest, tail, TERM4);
            tail = fmaf(rest, tail, TERM3);
            tail = fmaf(rest, tail, TERM2);
            tail = fmaf(rest * rest, tail, rest);
            float scale = __uint_as_float((__float_as_uint(magic) << 23) + bias);
#if FLOATS
            sum.add(fmaf(scale, tail, scale));
        }
        high += sum.total();
#else
            sum += fmaf(scale, tail, scale);
        }
        high += sum;
#endif
    }
#endif
    template <int COUNT>
    __device__ __forceinline__ void add(const float (&values)[COUNT], u32, u32) {
        float top = values[0];
#pragma unroll
        for (int k = 1; k < COUNT; ++k) top = greater(top, values[k]);
        greatest = greater(greatest, top);
        float place = top * LOG2_E;
        if (place > (float)(shift + SPAN - 1)) raise(__float2int_rn(fminf(place, 0x1p20f)));
        add_powers(values, COUNT);
    }
    __device__ __forceinline__ void merge(const Accumulator &other) {
        Accumulator second = other;
        i32 common = max(shift, second.shift);
        raise(common);
        second.raise(common);
        high += second.high;
        greatest = greater(greatest, second.greatest);
    }
    // Error bound of the logarithm. FLOAT32: relative to a power, 2**-26 from the rest of the argument, 2**-26 from the
    // tail and 2**-24 from their sum, never all at their worst; measured errors stay below 2**-23.5. FLOAT16: half an
    // ULP of arguments up to 2**7, the error of LOG2_E, powers to 2**-22, and the summation in float.
    __device__ double bound() const { return HALF ? 0x1p-17 + fabsf(greatest) * 0x1p-25 : 0x1.bp-24; }
    __device__ bool finish(Output &output, Input, const Terms &) const {
        typedef Format<Output> F;
        output = F::make(F::quiet_nan);
        if (greatest != greatest) return true;
        if (isinf(greatest)) {
            output = F::make(F::infinity | (greatest < 0 ? F::sign : 0));
            return true;
        }
        if (fabsf(greatest) >= FARTHEST) return false;
        double value = log(high) + shift * 0x1.62e42fefa39efp-1;
        u32 bits = F::nearest(fabs(value));
        output = F::make(bits | (value < 0 ? F::sign : 0));
        return bits > 0 && bound() <= 0.5 * (F::value(bits) - F::value(bits - 1));
    }
};

typedef Accumulator Collector;
