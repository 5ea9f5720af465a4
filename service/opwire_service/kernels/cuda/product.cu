// The product of floats as (high + low) * 2**exponent, high in [1, 2) apart from its sign. In a quick pass low stays 0,
// which FLOAT16 rarely notices.

struct Accumulator {
    double high;
    double low;
    i64 exponent;
    u32 kinds;    // of the elements that are no ordinary numbers
    u32 inexact;  // not 0 once high alone was not the product any more

    static const u32 ZERO = 1, INFINITE = 2, NOT_A_NUMBER = 4;
    static const bool descending = false;
    static const bool UNORDERED = false;
    static __device__ void prepare() {}

    __device__ __forceinline__ const Accumulator &total() const { return *this; }
    __device__ __forceinline__ void clear() {
        high = 1;
        low = 0;
        exponent = 0;
        kinds = 0;
        inexact = 0;
    }
    // A factor of magnitude 2**-300 to 2**256; after two of them high must be brought back to its range.
    __device__ __forceinline__ void times(double factor, double factor_low) {
        double product = high * factor;
        if (PASS == QUICK) {
            high = product;
            return;
        }
        double error = fma(high, factor, -product);
        low = fma(low, factor, fma(high, factor_low, error));
        u64 bits = same_bits<u64>(low) | same_bits<u64>(error);
        inexact |= (u32)bits | (u32)(bits >> 32);
        high = product;
    }
    __device__ __forceinline__ void normalise() {
        u64 word = same_bits<u64>(high);
        i32 power = (i32)((word >> 52) & 0x7ff) - 1023;
        exponent += power;
        high = __longlong_as_double((word & ~(0x7ffull << 52)) | (1023ull << 52));
        if (PASS != QUICK) low *= __longlong_as_double((i64)(1023 - power) << 52);
    }
    __device__ __forceinline__ void classify(float x) {
        if (x == 0) kinds |= ZERO;
        else if (x != x) kinds |= NOT_A_NUMBER;
        else if (isinf(x)) kinds |= INFINITE;
    }
    static __device__ __forceinline__ float ordinary(float x) {
        return x == 0 || !isfinite(x) ? copysignf(1.0f, x) : x;
    }
    // Several elements have an exact product: two of any format in a double, two halves even in a float.
    static __device__ __forceinline__ double exact(const float *values, int count) {
        if (count == 1) return values[0];
        if (count == 2) return HALF ? (double)(values[0] * values[1]) : (double)values[0] * (double)values[1];
        return (double)(values[0] * values[1]) * (double)(values[2] * values[3]);
    }
    template <int COUNT>
    __device__ __forceinline__ void add(const float (&values)[COUNT], u32, u32) {
        const int GROUP = COUNT == 1 ? 1 : HALF && COUNT % 4 == 0 ? 4 : 2;
#pragma unroll
        for (int k = 0; k < COUNT; k += GROUP) {
            double factor = exact(values + k, GROUP);
            // The upper words of zero and of what is not finite; no factor is subnormal.
            if (((u32)__double2hiint(factor) & 0x7fffffffu) - 1u >= 0x7fefffffu) {
                float replaced[GROUP];
#pragma unroll
                for (int i = 0; i < GROUP; ++i) {
                    classify(values[k + i]);
                    replaced[i] = ordinary(values[k + i]);
                }
                factor = exact(replaced, GROUP);
            }
            times(factor, 0);
            if (k / GROUP % 2 == 1 || k + GROUP == COUNT) normalise();
        }
    }
    __device__ __forceinline__ void merge(const Accumulator &other) {
        inexact |= other.inexact;
        times(other.high, other.low);
        normalise();
        exponent += other.exponent;
        kinds |= other.kinds;
    }
    __device__ bool finish(Output &output, Input, const Terms &terms) const {
        typedef Format<Output> F;
        u32 sign = high < 0 ? F::sign : 0;
        if (kinds) {
            bool none = kinds & NOT_A_NUMBER || kinds == (ZERO | INFINITE);
            output = F::make(none ? F::quiet_nan : sign | (kinds & INFINITE ? F::infinity : 0));
            return true;
        }
        // Far outside the format's range the exponent does not matter any more.
        i32 power = (i32)(exponent > 300 ? 300 : exponent < -300 ? -300 : exponent);
        double scale = __longlong_as_double((i64)(1023 + power) << 52);
        double total = fabs(high) * scale, rest = (high < 0 ? -low : low) * scale;
        // Each multiplication loses a few UNIT of low, which is at most so many UNIT of high; so do the merges.
        double steps = 0x1p-53 * 2 * terms.count;
        double bound = PASS == QUICK ? 2 * steps * total : inexact ? 4 * steps * steps * total : 0;
        double lower, upper = two_sum(total, rest, lower);
        u32 bits;
        bool certain = round_to<Output>(bits, Quotient{upper, lower, 1.0}, bound);
        output = F::make(bits | sign);
        return certain;
    }
};

typedef Accumulator Collector;
