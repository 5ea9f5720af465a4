// Loads and widens LANES consecutive elements of a row, from the input and the other tensors.

typedef Pack<Element, LANES> Lanes;

// Loads through the read-only path: inputs are never written, so loads need not wait for earlier stores.
template <int BYTES> struct WordOf { typedef uint4 Type; };
template <> struct WordOf<8> { typedef uint2 Type; };
template <> struct WordOf<4> { typedef u32 Type; };
template <> struct WordOf<2> { typedef u16 Type; };

static __device__ __forceinline__ Lanes load(const Element *at) {
    typedef WordOf<sizeof(Lanes)>::Type Word;
    union Words {
        Word word;
        Lanes lanes;
    } words;
    words.word = __ldg(reinterpret_cast<const Word *>(at));
    return words.lanes;
}

// Makes the compiler forget the widened values of halves, so that it widens them again and keeps registers free.
static __device__ __forceinline__ void forget(Lanes &lanes) {
    if (!HALF) return;
    const int WORDS = sizeof(Lanes) / 4;
    union Words {
        Lanes lanes;
        u32 word[WORDS ? WORDS : 1];
    } words;
    words.lanes = lanes;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) asm volatile("" : "+r"(words.word[i]));
    lanes = words.lanes;
}

static __device__ __forceinline__ void widened(const Lanes &lanes, float (&values)[LANES]) {
#pragma unroll
    for (int k = 0; k < LANES; ++k) values[k] = widen(lanes.lane[k]);
}

// Two adjacent FLOAT16 elements in a word; the last of an odd number is duplicated.
static __device__ __forceinline__ u32 pair_of(const Pack<f16, LANES> &lanes, int i) {
    return lanes.lane[2 * i].bits | (u32)lanes.lane[2 * i + 1 < LANES ? 2 * i + 1 : 2 * i].bits << 16;
}
static __device__ __forceinline__ u32 greater_pair(u32 a, u32 b) {
#if __CUDA_ARCH__ >= 800
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(a) : "r"(a), "r"(b));
    return a;
#else
    f16 low[2] = {{(u16)a}, {(u16)b}}, high[2] = {{(u16)(a >> 16)}, {(u16)(b >> 16)}};
    return rounded_pair(greater(widen(low[0]), widen(low[1])), greater(widen(high[0]), widen(high[1])));
#endif
}

// The largest element, or NaN if any element is NaN.
template <int COUNT> static __device__ __forceinline__ float greatest_of(const Pack<f32, LANES> (&lanes)[COUNT]) {
    float found = lanes[0].lane[0];
#pragma unroll
    for (int n = 0; n < COUNT; ++n)
#pragma unroll
        for (int k = 0; k < LANES; ++k) found = greater(found, lanes[n].lane[k]);
    return found;
}
template <int COUNT> static __device__ __forceinline__ float greatest_of(const Pack<f16, LANES> (&lanes)[COUNT]) {
    u32 found = pair_of(lanes[0], 0);
#pragma unroll
    for (int n = 0; n < COUNT; ++n)
#pragma unroll
        for (int i = 0; i < (LANES + 1) / 2; ++i) found = greater_pair(found, pair_of(lanes[n], i));
    f16 even = {(u16)found}, odd = {(u16)(found >> 16)};
    return greater(widen(even), widen(odd));
}

template <int WALK>
static __device__ __forceinline__ void load_beside(const Element *from, u32 step, float otherwise, float (&values)[LANES]) {
    if (WALK == DENSE) {
        widened(load(from), values);
        return;
    }
#pragma unroll
    for (int k = 0; k < LANES; ++k)
        values[k] = WALK == NOTHING ? otherwise : WALK == SAME && k ? values[0] : (float)widen(from[k * step]);
}
