// Integer reductions, modulo two to the power of the width. TERM makes the term of an element x, COMBINE joins a and b.

struct Accumulator {
    typedef UNSIGNED U;
    U total;

    static const bool descending = false;
    static __device__ void prepare() {}

    __device__ __forceinline__ void clear() { total = START; }
    template <int COUNT>
    __device__ __forceinline__ void add(const Wide (&values)[COUNT], u32, u32) {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            Wide x = values[k];
            U a = total, b = TERM;
            total = COMBINE;
        }
    }
    __device__ __forceinline__ void settle() {}
    __device__ __forceinline__ void merge(const Accumulator &other) {
        U a = total, b = other.total;
        total = COMBINE;
    }
    __device__ bool finish(Output &output, Input, const Terms &) const {
        output = (Output)total;
        return true;
    }
};
