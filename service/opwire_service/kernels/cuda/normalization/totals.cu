// Sums of pairs of floats in three floats.
//
// With u = 2^-24, let an element take part in at most k additions and merges, and A be the sum of the magnitudes. `high`
// and the sums of its rounding errors are exact. These errors and the low parts of the pairs are at most uA each, so
// that `low` is at most 2kuA; it loses at most u of that each time, so that `lowest` is at most 2k(k + 1)u^2 A. Only the
// three additions to that round, each by u of it: the sum is off by at most 8(k + 2)^3 u^3 A.

struct Total {
    float high, low, lowest;

    __device__ __forceinline__ void clear() { high = low = lowest = 0; }
    __device__ __forceinline__ void add(Pair x) {
        Pair top = exact_sum(high, x.hi), rest = exact_sum(top.lo, x.lo), middle = exact_sum(low, rest.hi);
        high = top.hi;
        low = middle.hi;
        lowest += middle.lo + rest.lo;
    }
    __device__ __forceinline__ void merge(const Total &other) {
        add({other.high, other.low});
        lowest += other.lowest;
    }
    __device__ __forceinline__ Pair value() const {
        Pair below = exact_sum(low, lowest), top = exact_sum(high, below.hi);
        return ordered_sum(top.hi, top.lo + below.lo);
    }
};
