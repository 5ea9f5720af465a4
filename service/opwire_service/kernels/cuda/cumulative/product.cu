// Running products of floats, built on the accumulator of reductions.

struct Running : Accumulator {
    static const bool IS_EXACT = true;

    __device__ __forceinline__ bool is_exact() const { return true; }
    __device__ __forceinline__ void take(Input x) {
        Collector one;
        one.clear();
        one.add_any(widen(x));
        merge(one.total());
    }
    __device__ __forceinline__ void take_exactly(Input x) { take(x); }
    template <u32 COUNT> __device__ __forceinline__ void take_all(const Input (&items)[COUNT]) {
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) take(items[k]);
    }
    template <u32 COUNT> __device__ __forceinline__ bool results(const Input (&)[COUNT], Output *) const { return false; }
    template <u32 COUNT>
    __device__ __forceinline__ bool results(const Running &, const Extent &, const Input (&)[COUNT], Output *) const {
        return false;
    }
    template <u32 COUNT>
    __device__ __forceinline__ bool exact_results(const Running &, const Input (&)[COUNT], Output *) const { return false; }
    __device__ __forceinline__ const Running &running(const Extent &) const { return *this; }
    __device__ __forceinline__ void tidy() {}
    // Returns false if the result is undecided.
    __device__ __forceinline__ bool result(Output &to, const Terms &terms) const { return finish(to, Input(), terms); }
};

typedef Running Plain;
