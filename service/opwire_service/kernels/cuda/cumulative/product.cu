// Running products of floats, as those of reductions.

struct Running : Accumulator {
    __device__ __forceinline__ void take(Input x) {
        Collector one;
        one.clear();
        one.add_any(widen(x));
        merge(one.total());
    }
    template <u32 COUNT> __device__ __forceinline__ bool take_all(const Input (&items)[COUNT]) {
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) take(items[k]);
        return false;
    }
    template <u32 COUNT> __device__ __forceinline__ bool results(const Input (&)[COUNT], Output *) const { return false; }
    // False if it is open.
    __device__ __forceinline__ bool result(Output &to, const Terms &terms) const { return finish(to, Input(), terms); }
};
