// Coordinates of outputs in the input along one dimension, and the elements read there.

struct Sampled {
    u32 size, step;  // of the input
    float scale, input_offset, output_offset;
    u32 is_usual;  // whether coordinates lie between the elements that are read for them, once clamped to the input
};

// Two adjacent elements, or one with all the weight.
struct Around {
    u32 offset, step;  // of the first, and from it to the second, or 0 if there is none
    float weight;      // of the second
};

// Evaluated step by step in float, as on all devices.
static __device__ __forceinline__ float coordinate(const Sampled &axis, u32 output) {
    float moved = __fdiv_rn(__fsub_rn((float)output, axis.output_offset), axis.scale);
    return __fsub_rn(moved, axis.input_offset);
}

static __device__ __forceinline__ u32 integer(float x) { return x < 0x1p32f ? (u32)x : ~0u; }

// Coordinates outside are clamped to the edges, and NaN to the first element.
static __device__ __forceinline__ Around neighbors(float at, u32 size, u32 step) {
    float inside = at > 0 ? at : 0, first = floorf(inside), weight = inside - first;
    u32 index = integer(first);
    if (index >= size - 1) return {(size - 1) * step, 0, 0};
    return {index * step, weight > 0 ? step : 0, weight};
}

static __device__ __forceinline__ u32 clamped(float at, u32 size) { return min(integer(fmaxf(at, 0)), size - 1); }

// The elements from which an output is interpolated: see `ResampledAxis.pair`.
static __device__ __forceinline__ Around around(const Sampled &axis, u32 output, u32 step) {
    float at = coordinate(axis, output);
    if (axis.is_usual) return neighbors(at, axis.size, step);
    float moved = __fdiv_rn(__fsub_rn((float)output, axis.output_offset), axis.scale);
    float within = axis.input_offset < 0 ? 0 : axis.input_offset > 1 ? 1 : axis.input_offset;
    float low = floorf(__fsub_rn(moved, within)), weight = __fsub_rn(at, low);
    u32 first = clamped(low, axis.size), second = clamped(low + 1, axis.size);
    if (!isfinite(weight)) weight = __int_as_float(0x7fc00000);
    else if (first == second) weight = 0;
    return {first * step, (second - first) * step, weight};
}

// Rounding modes of coordinates.
const int HALVES_UP = 0, HALVES_DOWN = 1, UPWARDS = 2, DOWNWARDS = 3;

template <int ROUNDING> static __device__ __forceinline__ u32 nearest_index(float at, u32 size) {
    float inside = at > 0 ? at : 0, first = floorf(inside), rest = inside - first;
    u32 index = integer(first);
    if (index >= size - 1) return size - 1;
    bool is_next = ROUNDING == HALVES_UP ? rest >= 0.5f : ROUNDING == HALVES_DOWN ? rest > 0.5f : ROUNDING == UPWARDS && rest > 0;
    return index + is_next;
}
