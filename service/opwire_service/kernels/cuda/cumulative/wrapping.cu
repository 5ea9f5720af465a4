// Running values of integers, modulo 2^width. COMBINE combines a and b; START is the identity.

struct Terms {
    double depth;
    u32 count, unused;
};

struct Accumulator {
    static const bool IS_EXACT = true;
    UNSIGNED value;

    __device__ __forceinline__ bool is_exact() const { return true; }
    __device__ __forceinline__ void clear() { value = START; }
    __device__ __forceinline__ void merge(const Accumulator &other) {
        UNSIGNED a = value, b = other.value;
        value = COMBINE;
    }
    __device__ __forceinline__ void take(Input x) {
        UNSIGNED a = value, b = (UNSIGNED)x;
        value = COMBINE;
    }
    __device__ __forceinline__ void take_exactly(Input x) { take(x); }
    template <u32 COUNT> __device__ __forceinline__ void take_all(const Input (&items)[COUNT]) {
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) take(items[k]);
    }
    // Running values that continue from this one.
    template <u32 COUNT> __device__ __forceinline__ bool results(const Input (&items)[COUNT], Output *to) const {
        Accumulator running = *this;
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) {
            if (EXCLUSIVE) to[k] = (Output)running.value;
            running.take(items[k]);
            if (!EXCLUSIVE) to[k] = (Output)running.value;
        }
        return true;
    }
    template <u32 COUNT>
    __device__ __forceinline__ bool results(
        const Accumulator &before, const Extent &, const Input (&items)[COUNT], Output *to
    ) const {
        Accumulator running = *this;
        running.merge(before);
        return running.results(items, to);
    }
    template <u32 COUNT>
    __device__ __forceinline__ bool exact_results(const Accumulator &before, const Input (&items)[COUNT], Output *to) const {
        return results(before, Extent(), items, to);
    }
    __device__ __forceinline__ const Accumulator &running(const Extent &) const { return *this; }
    __device__ __forceinline__ void tidy() {}
    __device__ __forceinline__ bool result(Output &to, const Terms &) const {
        to = (Output)value;
        return true;
    }
};

typedef Accumulator Running;
typedef Accumulator Plain;
