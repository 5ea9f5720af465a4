// LANES neighbours of a row: how they are loaded, of the input and of the tensors beside it, and widened.

typedef Pack<Element, LANES> Lanes;

// Of an input, which nobody writes meanwhile: so loads need not wait for the stores before them.
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

// Makes the compiler forget what it made of halves: it shall do so again rather than hold that in registers as well.
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
