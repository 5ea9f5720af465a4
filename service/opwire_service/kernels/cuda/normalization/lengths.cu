// LP_NORMALIZATION: elements divided by the root of Epsilon and the square of their L1 norm, or of their L2 norm if
// SQUARED. If Epsilon CANCELS, because it is negative, rows of which it leaves next to nothing are undecided. No zero is
// negative.

const bool KEEPS = false;

static __device__ __forceinline__ void prepare() {}

struct State {
    double sum;

    static const bool PEAKED = false;
    static const bool SHIFTED = false;
    static const bool IS_JOINED = true;

    __device__ __forceinline__ void clear(float) { sum = 0; }
    __device__ __forceinline__ void add(const Lanes &, const float (&values)[LANES], u32, Kept (&)[LANES]) {
#pragma unroll
        for (int k = 0; k < LANES; ++k) {
            double x = values[k];
            sum = SQUARED ? fma(x, x, sum) : sum + fabs(x);
        }
    }
    __device__ __forceinline__ void merge(const State &other) { sum += other.sum; }
    typedef State Held;
    __device__ __forceinline__ const State &held() const { return *this; }
    static __device__ __forceinline__ void join(State &a, const State &b) { a.merge(b); }
    __device__ __forceinline__ void take(const State &all) { *this = all; }
};

static __device__ __forceinline__ f32 without_negative_zero(f32 x) { return x + 0.0f; }
static __device__ __forceinline__ f16 without_negative_zero(f16 x) { return {(u16)(x.bits == 0x8000 ? 0 : x.bits)}; }

struct Row {
    static const bool TELLS_AT_ONCE = false;
    template <bool IS_KEPT, class... Neighbors> __device__ u32 at_once(Neighbors &...) const { return 0; }

    double divisor;  // -1 if it is undecided

    static __device__ __forceinline__ Row of(const State &state, const Numbers &numbers) {
        double left = (SQUARED ? state.sum : state.sum * state.sum) + numbers.epsilon;
        return {CANCELS && fabs(left) < 0x1p-12 * fabs(numbers.epsilon) ? -1 : sqrt(left)};
    }
    template <class Sum>
    static __device__ __forceinline__ Row of_held(const State &state, const Numbers &numbers, Sum) {
        return of(state, numbers);
    }
    template <bool IS_KEPT>
    __device__ __forceinline__ bool value(
        float x, u32, Kept, const Beside &, const Numbers &, Element &result
    ) const {
        result = without_negative_zero(nearest(x / divisor));
        return !(CANCELS && divisor < 0);
    }
};
