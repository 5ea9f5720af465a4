// Integer reductions modulo 2^width. TERM is the term of an element x; COMBINE combines a and b.

struct Accumulator {
    typedef UNSIGNED U;
    U result;

    static const bool descending = false;
    static const bool UNORDERED = false;
    static __device__ void prepare() {}

    __device__ __forceinline__ const Accumulator &total() const { return *this; }
    __device__ __forceinline__ void clear() { result = START; }
    template <int COUNT>
    __device__ __forceinline__ void add(const Wide (&values)[COUNT], u32, u32) {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            Wide x = values[k];
            U a = result, b = TERM;
            result = COMBINE;
        }
    }
    __device__ __forceinline__ void merge(const Accumulator &other) {
        U a = result, b = other.result;
        result = COMBINE;
    }
    __device__ bool finish(Output &output, Input, const Terms &) const {
        output = (Output)result;
        return true;
    }
};

typedef Accumulator Collector;
