// Nested loops: maps a place to STEPS offsets at once, through DEPTH loops, or all of them if DEPTH is 0. Offsets wrap,
// so that steps may be negative.

struct Loop {
    u32 size;
    u32 factor, shift1, shift2;  // n / size is (t + (n - t >> shift1)) >> shift2, with t the high word of factor * n
    u32 step[STEPS];
};

struct Walk {
    u32 count, unused;
    Loop loop[16];  // innermost first; a copy may split each of 8 dimensions in two
};

static __device__ __forceinline__ u32 divided(u32 place, const Loop &loop) {
    u32 t = __umulhi(loop.factor, place);
    return (t + ((place - t) >> loop.shift1)) >> loop.shift2;
}

template <int COUNT>
static __device__ __forceinline__ void walk_some(const Walk &walk, u32 place, u32 (&offset)[STEPS]) {
    const u32 last = (COUNT ? COUNT : walk.count) - 1;
#pragma unroll
    for (int k = 0; k < STEPS; ++k) offset[k] = 0;
#pragma unroll
    for (u32 i = 0; i < last; ++i) {
        const Loop &loop = walk.loop[i];
        u32 outer = divided(place, loop);
        u32 inner = place - outer * loop.size;
#pragma unroll
        for (int k = 0; k < STEPS; ++k) offset[k] += inner * loop.step[k];
        place = outer;
    }
#pragma unroll
    for (int k = 0; k < STEPS; ++k) offset[k] += place * walk.loop[last].step[k];
}

static __device__ __forceinline__ void walk(const Walk &loops, u32 place, u32 (&offset)[STEPS]) {
    walk_some<DEPTH>(loops, place, offset);
}

// Walks all loops, regardless of DEPTH.
static __device__ __forceinline__ void walk_all(const Walk &loops, u32 place, u32 (&offset)[STEPS]) {
    walk_some<0>(loops, place, offset);
}
