// Nested loops over TENSORS tensors at once.

struct Axis {
    u32 size;
    u32 factor, shift1, shift2;  // n / size is (t + (n - t >> shift1)) >> shift2, with t the high word of factor * n
    u32 step[TENSORS];
};

struct Nest {
    u32 count, unused;
    Axis axis[8];  // innermost first
};

struct Offsets {
    u32 of[TENSORS];
};

static __device__ __forceinline__ u32 quotient(u32 index, const Axis &axis) {
    u32 t = __umulhi(axis.factor, index);
    return (t + ((index - t) >> axis.shift1)) >> axis.shift2;
}

static __device__ __forceinline__ void walk(const Axis &axis, u32 count, Offsets &at) {
#pragma unroll
    for (int k = 0; k < TENSORS; ++k) at.of[k] += count * axis.step[k];
}

// Adds the offsets of an index in all tensors.
static __device__ __forceinline__ void go_to(const Nest &nest, u32 index, Offsets &at) {
#pragma unroll 1
    for (u32 i = 0; i + 1 < nest.count; ++i) {
        u32 outer = quotient(index, nest.axis[i]);
        walk(nest.axis[i], index - outer * nest.axis[i].size, at);
        index = outer;
    }
    if (nest.count) walk(nest.axis[nest.count - 1], index, at);
}

// The offset of an index in the first tensor.
static __device__ __forceinline__ u32 first_offset(const Nest &nest, u32 index) {
    u32 at = 0;
#pragma unroll 1
    for (u32 i = 0; i + 1 < nest.count; ++i) {
        u32 outer = quotient(index, nest.axis[i]);
        at += (index - outer * nest.axis[i].size) * nest.axis[i].step[0];
        index = outer;
    }
    return nest.count ? at + index * nest.axis[nest.count - 1].step[0] : 0;
}
