// Roots of sums of powers above 2, scaled by the largest magnitude so that nothing overflows.

struct Accumulator {
    double sum;      // of the powers of the magnitudes divided by the largest
    float greatest;  // largest magnitude
    u32 has_nan;

    __device__ __forceinline__ void clear() {
        sum = 0;
        greatest = 0;
        has_nan = 0;
    }
    static __device__ __forceinline__ double share(float x, float of) { return pow((double)x / of, (double)POWER); }
    __device__ __forceinline__ void add_term(float x) {
        x = fabsf(x);
        has_nan |= x != x;
        if (x > greatest) {
            sum = 1 + (greatest > 0 ? sum * share(greatest, x) : 0);
            greatest = x;
        } else if (x > 0) {
            sum += share(x, greatest);
        }
    }
    __device__ __forceinline__ void merge(Accumulator other) {
        if (other.greatest > greatest) {
            Accumulator mine = *this;
            *this = other;
            other = mine;
        }
        has_nan |= other.has_nan;
        if (other.greatest > 0) sum += other.sum * share(other.greatest, greatest);
    }
    __device__ __forceinline__ bool finish(Output &output, Input, const Terms &) const {
        typedef Format<Output> F;
        double root = greatest > 0 && is_finite(greatest) ? pow(sum, 1.0 / POWER) * greatest : greatest;
        output = F::make(has_nan ? F::quiet_nan : F::nearest(root));
        return true;
    }
};

struct Collector : Accumulator {
    template <int COUNT> __device__ __forceinline__ void add(const float (&values)[COUNT], u32, u32) {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) add_term(values[k]);
    }
    __device__ __forceinline__ const Accumulator &total() const { return *this; }
};
