// Nested loops, and the division by multiplication that maps an index to its position in them.

#ifndef LOOPS
#define LOOPS 8
#endif

struct Loop {
    u32 size, source, target;
    u32 factor, shift1, shift2;  // n / size is (t + (n - t >> shift1)) >> shift2, with t the high word of factor * n
};

struct Loops {
    u32 count, unused;
    Loop loop[LOOPS];  // innermost first
};

static __device__ __forceinline__ u32 divided(u32 index, const Loop &loop) {
    u32 t = __umulhi(loop.factor, index);
    return (t + ((index - t) >> loop.shift1)) >> loop.shift2;
}
