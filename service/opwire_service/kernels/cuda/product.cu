// The product of floats as (high + low) * 2**exponent, with |high| in [1, 2). A quick pass does not track whether low
// is significant, and for FLOAT16 omits it.

const bool COMPENSATED = PASS != QUICK || !HALF;

struct Accumulator {
    double high;
    double low;
    i64 exponent;
    u32 kinds;    // zeros, infinities and NaN among the elements
    u32 inexact;  // nonzero once high alone was not the exact product

    static const u32 ZERO = 1, INFINITE = 2, NOT_A_NUMBER = 4;
    static const bool descending = false;
    static __device__ void prepare() {}

    __device__ __forceinline__ void clear() {
        high = 1;
        low = 0;
        exponent = 0;
        kinds = 0;
        inexact = 0;
    }
    __device__ __forceinline__ void merge(const Accumulator &other) {
        inexact |= other.inexact;
        double product = high * other.high, error = fma(high, other.high, -product);
        low = fma(low, other.high, fma(high, other.low, error));
        inexact |= low != 0 || error != 0;
        high = product;
        normalize();
        exponent += other.exponent;
        kinds |= other.kinds;
    }
    __device__ __forceinline__ void normalize() {
        u64 word = same_bits<u64>(high);
        i32 power = (i32)((word >> 52) & 0x7ff) - 1023;
        exponent += power;
        high = __longlong_as_double((word & ~(0x7ffull << 52)) | (1023ull << 52));
        low *= __longlong_as_double((i64)(1023 - power) << 52);
    }
    __device__ bool finish(Output &output, Input, const Terms &terms) const {
        // Each multiplication or merge loses a few UNIT of low, which itself is at most as many UNIT of high.
        double steps = 0x1p-53 * 2 * terms.count;
        return finish_within(output, !COMPENSATED ? 2 * steps : inexact || PASS == QUICK ? 4 * steps * steps : 0);
    }
    // Rounds the product, given a bound of its relative error. Returns false if the result is undecided.
    __device__ bool finish_within(Output &output, double error) const {
        typedef Format<Output> F;
        u32 sign = high < 0 ? F::sign : 0;
        if (kinds) {
            bool none = kinds & NOT_A_NUMBER || kinds == (ZERO | INFINITE);
            output = F::make(none ? F::quiet_nan : sign | (kinds & INFINITE ? F::infinity : 0));
            return true;
        }
        // Far outside the format's range the exact exponent is irrelevant.
        i32 power = (i32)(exponent > 300 ? 300 : exponent < -300 ? -300 : exponent);
        double scale = __longlong_as_double((i64)(1023 + power) << 52);
        double total = fabs(high) * scale, rest = (high < 0 ? -low : low) * scale;
        double lower, upper = two_sum(total, rest, lower);
        u32 bits;
        bool settled = round_to<Output>(bits, Quotient{upper, lower, 1.0}, error * total);
        output = F::make(bits | sign);
        return settled;
    }
};

// The product of a thread; |high| is within [2**-400, 2**400].
struct Collector {
    double high, low;
    i32 state;  // exponent * 8 + kinds, which shares one register
    u32 inexact;

    static const bool UNORDERED = false;

    __device__ __forceinline__ void clear() {
        high = 1;
        low = 0;
        state = 0;
        inexact = 0;
    }
    __device__ __forceinline__ void times(double factor) {
        double product = high * factor;
        if (COMPENSATED) {
            double error = fma(high, factor, -product);
            low = fma(low, factor, error);
            u64 bits = same_bits<u64>(low) | same_bits<u64>(error);
            if (PASS != QUICK) inexact |= (u32)bits | (u32)(bits >> 32);
        }
        high = product;
    }
    static __device__ __forceinline__ i32 power(double x) { return (__double2hiint(x) >> 20 & 0x7ff) - 1023; }
    // Also false for 0, infinities and NaN.
    static __device__ __forceinline__ bool within(double x, i32 limit) { return (u32)(power(x) + limit) <= 2 * limit; }
    __device__ __forceinline__ void limit() {
        if (within(high, 400)) return;
        i32 excess = power(high);  // magnitude at most 900
        double scale = __hiloint2double((1023 - excess) << 20, 0);
        high *= scale;
        if (COMPENSATED) low *= scale;
        state += 8 * excess;
    }
    // Multiplies by one element, which may be zero, infinite or NaN.
    __device__ __forceinline__ void add_any(float x) {
        if (x == 0) state |= Accumulator::ZERO;
        else if (x != x) state |= Accumulator::NOT_A_NUMBER;
        else if (isinf(x)) state |= Accumulator::INFINITE;
        times(x == 0 || !isfinite(x) ? copysignf(1.0f, x) : x);
        limit();
    }
    // Exact products of several elements: two of either format in a double, two halves even in a float.
    template <int COUNT> static __device__ __forceinline__ double exact(const float *values) {
        if (COUNT == 1) return values[0];
        if (COUNT == 2) return HALF ? (double)(values[0] * values[1]) : (double)values[0] * (double)values[1];
        return (double)(values[0] * values[1]) * (double)(values[2] * values[3]);
    }
    template <int COUNT>
    __device__ __forceinline__ void add(const float (&values)[COUNT], u32, u32) {
        const int GROUP = COUNT % 2 ? 1 : HALF && COUNT % 4 == 0 ? 4 : 2;
        static_assert(HALF || COUNT <= 4, "no part of the product may leave the range of a double");
        double factors[COUNT / GROUP], all = 1;
#pragma unroll
        for (int k = 0; k < COUNT / GROUP; ++k) {
            factors[k] = exact<GROUP>(values + k * GROUP);
            all *= factors[k];
        }
        if (within(all, 500)) {
            if (COMPENSATED) {
#pragma unroll
                for (int k = 0; k < COUNT / GROUP; ++k) times(factors[k]);
            } else {
                times(all);
            }
            limit();
        } else {
#pragma unroll
            for (int k = 0; k < COUNT; ++k) add_any(values[k]);
        }
    }
    __device__ __forceinline__ Accumulator total() const {
        Accumulator product = {high, low, state >> 3, (u32)state & 7, inexact};
        product.normalize();
        return product;
    }
};
