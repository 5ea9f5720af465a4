// Minimum or maximum of elements: NaN is ignored unless all are NaN, -0 equals +0, and the first or last of equals
// wins. GREATEST and FIRST are 0 or 1. Elements are visited in descending order if FIRST, else in ascending order, so
// that the later visit wins among equals.

const u32 NOWHERE = ~0u;

struct Extreme {
    Wide best;
    u32 order;  // the lower one wins among equals; NOWHERE while all elements are NaN

    static const bool descending = FIRST;
    static const bool UNORDERED = false;  // whether terms of several loads may be added in any order
    static __device__ void prepare() {}

    // Maps a position to its order and back. Positions are below 2**32 - 1.
    static __device__ __forceinline__ u32 mirrored(u32 position) { return FIRST ? position : NOWHERE - 1 - position; }

    __device__ __forceinline__ void clear() {
        best = GREATEST ? Bounds<Wide>::lowest() : Bounds<Wide>::greatest();
        order = NOWHERE;
    }
    template <int COUNT>
    __device__ __forceinline__ void add(const Wide (&values)[COUNT], u32 position, u32 step) {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            bool wins = GREATEST ? values[k] >= best : values[k] <= best;
            best = wins ? values[k] : best;
            order = wins ? mirrored(position + k * step) : order;
        }
    }
    __device__ __forceinline__ void merge(const Extreme &other) {
        bool better = GREATEST ? other.best > best : other.best < best;
        if (better || (other.best == best && other.order < order)) *this = other;
    }
    __device__ u32 position(u32 terms) const { return order == NOWHERE ? (FIRST ? 0 : terms - 1) : mirrored(order); }
};

#if POSITION
struct Accumulator : Extreme {
    __device__ bool finish(Output &output, Input, const Terms &terms) const {
        output = (Output)position(terms.count);
        return true;
    }
    __device__ __forceinline__ const Accumulator &total() const { return *this; }
};
#else
struct Accumulator : Extreme {
    __device__ bool finish(Output &output, Input first, const Terms &) const {
        if (order == NOWHERE)
            output = first;
        else
            narrow(output, best);
        return true;
    }
    __device__ __forceinline__ const Accumulator &total() const { return *this; }
};
#endif

typedef Accumulator Collector;
