// Running products of floats, as those of reductions.

struct Running : Accumulator {
    __device__ __forceinline__ void take(Input x) {
        Collector one;
        one.clear();
        one.add_any(widen(x));
        merge(one.total());
    }
    // False if it is open.
    __device__ __forceinline__ bool result(Output &to, const Terms &terms) const { return finish(to, Input(), terms); }
};
