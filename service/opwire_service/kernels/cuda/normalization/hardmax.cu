// HARDMAX: 1 at the first maximum, ignoring NaN, or at the first element if that is NaN.

const bool KEEPS = false;

static __device__ __forceinline__ void prepare() {}

struct State {
    float best;
    u32 index;  // of the maximum; the largest value of the type if there is none

    static const bool PEAKED = false;
    static const bool SHIFTED = false;
    static const bool IS_JOINED = true;

    __device__ __forceinline__ void clear(float) {
        best = Bounds<float>::lowest();
        index = ~0u;
    }
    __device__ __forceinline__ void offer(float value, u32 at) {
        if (value > best || (value == best && at < index)) {
            best = value;
            index = at;
        }
    }
    __device__ __forceinline__ void add(const Lanes &, const float (&values)[LANES], u32 first, Kept (&)[LANES]) {
        const bool wins = first == 0 && values[0] != values[0];  // NaN at the first place
        offer(wins ? Bounds<float>::greatest() : values[0], first);
#pragma unroll
        for (int k = 1; k < LANES; ++k) offer(values[k], first + k);
    }
    __device__ __forceinline__ void merge(const State &other) { offer(other.best, other.index); }
    typedef State Held;
    __device__ __forceinline__ const State &held() const { return *this; }
    static __device__ __forceinline__ void join(State &a, const State &b) { a.merge(b); }
    __device__ __forceinline__ void take(const State &all) { *this = all; }
};

struct Row {
    static const bool TELLS_AT_ONCE = false;
    template <bool IS_KEPT, class... Neighbors> __device__ u32 at_once(Neighbors &...) const { return 0; }

    u32 winner;

    static __device__ __forceinline__ Row of(const State &state, const Numbers &) {
        return {state.index == ~0u ? 0 : state.index};
    }
    template <class Sum>
    static __device__ __forceinline__ Row of_held(const State &state, const Numbers &numbers, Sum) {
        return of(state, numbers);
    }
    template <bool IS_KEPT>
    __device__ __forceinline__ bool value(
        float, u32 index, Kept, const Beside &, const Numbers &, Element &result
    ) const {
        result = nearest(index == winner ? 1.0 : 0.0);
        return true;
    }
};
