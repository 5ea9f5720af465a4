// Linear interpolation in pairs of floats, for GPUs with few float64 units. WEIGHT_BITS says how many bits the product of
// weights has after the point, or is -1 if they may have many.

typedef ELEMENT Element;

// Puts the dimension along which outputs are contiguous last.
static __device__ constexpr int in_order(int i) {
    return INNER < 0 ? i : i == RESAMPLED - 1 ? INNER : i == INNER ? RESAMPLED - 1 : i;
}

#if PAIRS
// The elements read for an output.
struct Seen {
    float mass;   // their magnitudes times those of their weights
    u32 most;     // the greatest bits of a magnitude
    u32 least;    // twice the bits of the smallest magnitude, minus 1, so that zero wraps around and is ignored
};

template <int DIMENSION>
static __device__ __forceinline__ auto between_in_pairs(const Element *source, const Around (&pairs)[RESAMPLED], Seen &seen) {
    if constexpr (DIMENSION == RESAMPLED) {
        float x = widen(*source);
        u32 bits = __float_as_uint(x);
        seen = {fabsf(x), bits & 0x7fffffff, 2 * bits - 1};
        return x;
    } else {
        const Around &pair = pairs[in_order(DIMENSION)];
        Seen other;
        source += pair.offset;
        auto low = between_in_pairs<DIMENSION + 1>(source, pairs, seen);
        auto high = between_in_pairs<DIMENSION + 1>(source + pair.step, pairs, other);
        bool is_alone = pair.weight == 0;
        float mass = fabsf(1 - pair.weight) * seen.mass + fabsf(pair.weight) * other.mass;
        seen = {is_alone ? seen.mass : mass, max(seen.most, other.most), min(seen.least, other.least)};
        Pair rest = product(pair.weight, high);
        Pair value = WEIGHT_BITS < 0 ? product_sum(exact_sum(1, -pair.weight), low, rest)
                                     : product_sum(1 - pair.weight, low, rest);
        return chosen(is_alone, pair_of(low), value);
    }
}

// Whether no operation rounds. Let elements be multiples of u, and their products of u/2^WEIGHT_BITS: below 2^45 of
// those, a low part stays below 2^21 of them, and the sum of all that make one up below 2^24.
static __device__ __forceinline__ bool is_exact(const Seen &seen) {
    const u32 RANGE = 45 - 1 - (sizeof(Element) == 2 ? 10 : 23) - WEIGHT_BITS;  // of exponents
    u32 least = seen.least >> 1;
    return WEIGHT_BITS >= 0 & seen.most <= least + (RANGE << 23) & seen.most < 0x7e800000 & least >= (WEIGHT_BITS + 2) << 23;
}

static __device__ __forceinline__ void nearest(Pair x, f32 &to) { to = x.hi; }
static __device__ __forceinline__ void nearest(Pair x, f16 &to) { narrow(to, odd_sum(x.hi, x.lo)); }

// Unless they are exact, products and their sum lose at most 13 * 2^-48 of the magnitudes along each dimension, and the
// magnitudes are themselves rounded.
static __device__ __forceinline__ bool interpolate_in_pairs(
    const Element *source, const Around (&pairs)[RESAMPLED], Element &result
) {
    const u32 LEAST_RESULT = 0x0d800000;  // bits of 2^-100: less leaves the low part too few bits
    const float REACH = (RESAMPLED * 14 + 2) * 0x1p-48f;
    Seen seen;
    Pair value = between_in_pairs<0>(source, pairs, seen);
    bool is_settled = WEIGHT_BITS < 0 && narrowly_within(value, REACH * seen.mass, LEAST_RESULT, false, result);
    if (WEIGHT_BITS >= 0) {
        nearest(value, result);
        is_settled = is_exact(seen);
    }
    if (seen.most == 0) narrow(result, 0.0f);
    return is_settled | seen.most == 0;
}
#endif
