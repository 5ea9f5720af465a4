// Where outputs lie in the input along one dimension, and what is read there.

struct Sampled {
    u32 size, step;  // of the input
    float scale, input_offset, output_offset;
    u32 unused;
};

// Two neighbours, or one with all the weight.
struct Pair {
    u32 offset, step;  // of the first, and from it to the second, 0 if there is none
    double weight;     // of the second, exact
};

// Step by step in float, as everywhere.
static __device__ __forceinline__ double coordinate(const Sampled &axis, u32 output) {
    float moved = __fdiv_rn(__fsub_rn((float)output, axis.output_offset), axis.scale);
    return __fsub_rn(moved, axis.input_offset);
}

// Moved to the edges if it lies outside.
static __device__ __forceinline__ double within(double x, u32 size) {
    return x != x ? 0 : fmin(fmax(x, 0.0), size - 1.0);
}

static __device__ __forceinline__ Pair neighbours(double at, u32 size, u32 step) {
    double inside = within(at, size), first = floor(inside);
    return {(u32)first * step, inside > first ? step : 0, inside - first};
}

// HALVES_UP, UPWARDS or DOWNWARDS.
const int HALVES_UP = 0, UPWARDS = 1, DOWNWARDS = 2;

template <int ROUNDING> static __device__ __forceinline__ u32 nearest_index(double at, u32 size) {
    double inside = within(at, size);
    double chosen = ROUNDING == HALVES_UP ? floor(inside + 0.5) : ROUNDING == UPWARDS ? ceil(inside) : floor(inside);
    return (u32)fmin(chosen, size - 1.0);
}
