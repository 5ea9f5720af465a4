// Bitonic sort of entries in shared memory. At least BEST entries, a power of two, of each SEGMENT are kept.

// One compare-exchange step of sorting the `left` first entries of each segment, at distance `apart`.
static __device__ __forceinline__ void exchange(Entry *entries, u32 left, u32 apart, u32 sorted) {
    const u32 half = left / 2, shift = __ffs(half) - 1;  // a power of two
    __syncthreads();
    for (u32 i = threadIdx.x; i < SORTED / SEGMENT * half; i += THREADS) {
        u32 within = i & (half - 1), one = 2 * within - (within & (apart - 1)), at = (i >> shift) * SEGMENT + one;
        bool upwards = sorted == BEST || !(one & sorted);
        Entry a = entries[at], b = entries[at + apart];
        if (before(b, a) == upwards) {
            entries[at] = b;
            entries[at + apart] = a;
        }
    }
}

// Keeps the better half of each two sorted groups of BEST as one bitonic sequence, which halves the segments' entries.
static __device__ __forceinline__ void keep_better(Entry *entries, u32 left) {
    const u32 MOST = SORTED / 2 > THREADS ? SORTED / 2 / THREADS : 1;
    Entry kept[MOST];
    const u32 half = left / 2, shift = __ffs(half) - 1;
    __syncthreads();
#pragma unroll
    for (u32 n = 0; n < MOST; ++n) {
        u32 i = n * THREADS + threadIdx.x, within = i & (half - 1);
        if (i >= SORTED / SEGMENT * half) break;
        const Entry *groups = entries + (i >> shift) * SEGMENT + within / BEST * 2 * BEST;
        Entry a = groups[within % BEST], b = groups[2 * BEST - 1 - within % BEST];
        kept[n] = before(a, b) ? a : b;
    }
    __syncthreads();
#pragma unroll
    for (u32 n = 0; n < MOST; ++n) {
        u32 i = n * THREADS + threadIdx.x;
        if (i < SORTED / SEGMENT * half) entries[(i >> shift) * SEGMENT + (i & (half - 1))] = kept[n];
    }
}

// Sorts SORTED entries, SEGMENT per sequence.
extern "C" __global__ void __launch_bounds__(THREADS) sort_segments(const __grid_constant__ Top top) {
    __shared__ Entry entries[SORTED];
    const u32 GROUP = SORTED / SEGMENT;
    u32 first = (top.first + blockIdx.x) * GROUP, at[STEPS];
    for (u32 i = threadIdx.x; i < SORTED; i += THREADS) {
        // Adjacent threads read adjacent elements.
        u32 slot = top.step == 1 || top.from_entries ? i : i % GROUP * SEGMENT + i / GROUP;
        u32 sequence = first + slot / SEGMENT, place = slot % SEGMENT;
        Entry entry = none();
        if (sequence < top.sequences && place < top.size) {
            walk(top.walk, sequence, at);
            entry = taken(top, at, sequence, place);
        }
        entries[slot] = entry;
    }
    for (u32 sorted = 2; sorted <= BEST; sorted *= 2)
        for (u32 apart = sorted / 2; apart; apart /= 2) exchange(entries, SEGMENT, apart, sorted);
    for (u32 left = SEGMENT; left > BEST; left /= 2) {
        keep_better(entries, left);
        for (u32 apart = BEST / 2; apart; apart /= 2) exchange(entries, left / 2, apart, BEST);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < SORTED; i += THREADS) {
        u32 slot = top.value_step == 1 ? i : i % GROUP * SEGMENT + i / GROUP;
        u32 sequence = first + slot / SEGMENT, place = slot % SEGMENT;
        if (sequence >= top.sequences || place >= top.wanted) continue;
        walk(top.walk, sequence, at);
        put(top, at, place, place_of(entries[slot]));
    }
}
