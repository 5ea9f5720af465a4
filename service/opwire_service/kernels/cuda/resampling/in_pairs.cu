// Linear interpolation in pairs of floats, for GPUs with few float64 units.

typedef ELEMENT Element;

// Puts the dimension along which outputs are contiguous last.
static __device__ constexpr int in_order(int i) {
    return INNER < 0 ? i : i == RESAMPLED - 1 ? INNER : i == INNER ? RESAMPLED - 1 : i;
}

#if PAIRS
const u32 LEAST_RESULT = 0x0d800000;  // bits of 2^-100: less leaves the low part too few bits

// The same in pairs of floats. `mass` bounds the magnitudes, `signs` has the bits that all elements have.
template <int DIMENSION>
static __device__ __forceinline__ auto between_in_pairs(
    const Element *source, const Around (&pairs)[RESAMPLED], float &mass, u32 &signs
) {
    if constexpr (DIMENSION == RESAMPLED) {
        float x = widen(*source);
        mass = fabsf(x);
        signs = sign_bit(x);
        return x;
    } else {
        const Around &pair = pairs[in_order(DIMENSION)];
        float more;
        u32 others;
        source += pair.offset;
        auto low = between_in_pairs<DIMENSION + 1>(source, pairs, mass, signs);
        auto high = between_in_pairs<DIMENSION + 1>(source + pair.step, pairs, more, others);
        bool is_alone = pair.weight == 0;
        Pair value = product_sum(exact_sum(1, -pair.weight), low, product(pair.weight, high));
        mass = is_alone ? mass : fabsf(1 - pair.weight) * mass + fabsf(pair.weight) * more;
        signs &= is_alone ? ~0u : others;
        return chosen(is_alone, pair_of(low), value);
    }
}

// Along each dimension, products and their sum lose at most 13 * 2^-48 of the magnitudes, which are themselves rounded. A
// result of zeros is -0 if all are.
static __device__ __forceinline__ bool interpolate_in_pairs(
    const Element *source, const Around (&pairs)[RESAMPLED], Element &result
) {
    const float REACH = (RESAMPLED * 14 + 2) * 0x1p-48f;
    float mass;
    u32 signs;
    Pair value = between_in_pairs<0>(source, pairs, mass, signs);
    if (narrowly_within(value, REACH * mass, LEAST_RESULT, false, result)) return true;
    bool is_zero = mass == 0;
#pragma unroll
    for (int i = 0; i < RESAMPLED; ++i) is_zero &= pairs[i].weight >= 0 && pairs[i].weight <= 1;
    if (is_zero) narrow(result, __uint_as_float(signs));
    return is_zero;
}
#endif
