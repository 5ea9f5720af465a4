// Running values of integers, modulo two to the power of their width. COMBINE makes one of a and b, START is that of none.

struct Terms {
    double depth;
    u32 count, unused;
};

struct Accumulator {
    UNSIGNED value;

    __device__ __forceinline__ void clear() { value = START; }
    __device__ __forceinline__ void merge(const Accumulator &other) {
        UNSIGNED a = value, b = other.value;
        value = COMBINE;
    }
    __device__ __forceinline__ void take(Input x) {
        UNSIGNED a = value, b = (UNSIGNED)x;
        value = COMBINE;
    }
    template <u32 COUNT> __device__ __forceinline__ bool take_all(const Input (&items)[COUNT]) {
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) take(items[k]);
        return true;
    }
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
    __device__ __forceinline__ bool result(Output &to, const Terms &) const {
        to = (Output)value;
        return true;
    }
};

typedef Accumulator Running;
