// Stable LSD radix sort of entries: blocks count the digits of their entries, a scan of the counts gives the target of
// each digit, and blocks move their entries there in order.

const u32 DIGITS = 256, WARP = 32, WARPS = THREADS / WARP;
const u32 SHARE = (32 << 10) / sizeof(Entry) / THREADS, TILE = THREADS * SHARE;  // entries per thread, and per block
const u32 AHEAD = 8;  // counts in flight per thread

static_assert(DIGITS == THREADS, "each thread has a digit");

static __device__ __forceinline__ u32 digit_of(const Top &top, const Entry &entry) {
    return (u32)(half_of(entry, top.upper) >> top.shift) % DIGITS;
}

// The entries of a block.
struct Tile {
    u32 sequence, number, begin, at[STEPS];
    __device__ __forceinline__ Tile(const Top &top) {
        u32 block = top.first + blockIdx.x;
        sequence = block / top.pieces;
        number = block - sequence * top.pieces;
        begin = number * TILE;
        walk(top.walk, sequence, at);
    }
    __device__ __forceinline__ Entry take(const Top &top, u32 i) const {
        return i < top.size - begin ? taken(top, at, sequence, begin + i) : none();
    }
    // Per tile, the number of entries with a digit, later replaced by the number before the tile; the total comes last.
    __device__ __forceinline__ u32 *counts(const Top &top, u32 digit) const {
        return top.counts + ((u64)sequence * DIGITS + digit) * (top.pieces + 1);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS) tally_digits(const __grid_constant__ Top top) {
    __shared__ u32 counts[DIGITS];
    Tile tile(top);
    Entry own[SHARE];
#pragma unroll
    for (u32 n = 0; n < SHARE; ++n) own[n] = tile.take(top, n * THREADS + threadIdx.x);
    counts[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (u32 n = 0; n < SHARE; ++n)
        if (n * THREADS + threadIdx.x < top.size - tile.begin) atomicAdd(counts + digit_of(top, own[n]), 1u);
    __syncthreads();
    tile.counts(top, threadIdx.x)[tile.number] = counts[threadIdx.x];
}

// Inclusive scan over the lanes of a warp.
static __device__ __forceinline__ u32 sum_up_warp(u32 lane, u32 sum) {
#pragma unroll
    for (u32 apart = 1; apart < WARP; apart *= 2) {
        u32 more = __shfl_up_sync(~0u, sum, apart);
        if (lane >= apart) sum += more;
    }
    return sum;
}

// Each warp turns the counts of a digit into an exclusive scan over the tiles.
extern "C" __global__ void __launch_bounds__(THREADS) add_tallies(const __grid_constant__ Top top) {
    u32 lane = threadIdx.x % WARP, row = top.first + blockIdx.x * WARPS + threadIdx.x / WARP, before = 0;
    u32 *counts = top.counts + (u64)row * (top.pieces + 1) + lane;
    for (u32 begin = 0; begin <= top.pieces; begin += WARP * AHEAD) {
        u32 own[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) own[k] = begin + k * WARP + lane < top.pieces ? counts[begin + k * WARP] : 0;
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            u32 sum = sum_up_warp(lane, own[k]);
            if (begin + k * WARP + lane <= top.pieces) counts[begin + k * WARP] = before + sum - own[k];
            before += __shfl_sync(~0u, sum, WARP - 1);
        }
    }
}

// Exclusive scan over the threads of a block.
static __device__ __forceinline__ u32 sum_before(u32 own) {
    __shared__ u32 sums[WARPS];
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, sum = sum_up_warp(lane, own);
    if (lane == WARP - 1) sums[warp] = sum;
    __syncthreads();
    for (u32 i = 0; i < warp; ++i) sum += sums[i];
    __syncthreads();
    return sum - own;
}

// The lanes of a warp with the same digit.
static __device__ __forceinline__ u32 lanes_with(u32 digit) {
    u32 lanes = ~0u;
#pragma unroll
    for (u32 bit = 1; bit < DIGITS; bit *= 2) {
        u32 votes = __ballot_sync(~0u, digit & bit);
        lanes &= digit & bit ? votes : ~votes;
    }
    return lanes;
}

extern "C" __global__ void __launch_bounds__(THREADS) move_entries(const __grid_constant__ Top top) {
    __shared__ Entry entries[TILE];
    __shared__ u32 counts[WARPS][DIGITS], targets[DIGITS];
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    Tile tile(top);
    Entry own[SHARE];
    u32 ranks[SHARE], *mine = counts[warp];
#pragma unroll
    for (u32 n = 0; n < SHARE; ++n) own[n] = tile.take(top, (warp * SHARE + n) * WARP + lane);
#pragma unroll
    for (u32 i = 0; i < DIGITS; i += WARP) mine[i + lane] = 0;
    __syncwarp();
#pragma unroll
    for (u32 n = 0; n < SHARE; ++n) {
        u32 digit = digit_of(top, own[n]), same = lanes_with(digit);
        ranks[n] = mine[digit] + __popc(same & ((1u << lane) - 1));
        __syncwarp();
        if (same >> lane == 1) mine[digit] = ranks[n] + 1;
        __syncwarp();
    }
    __syncthreads();
    u32 *before = tile.counts(top, threadIdx.x), total = 0;
#pragma unroll
    for (u32 i = 0; i < WARPS; ++i) total += counts[i][threadIdx.x];
    u32 begin = sum_before(total), all_before = sum_before(before[top.pieces]);
    targets[threadIdx.x] = all_before + before[tile.number] - begin;
#pragma unroll
    for (u32 i = 0; i < WARPS; ++i) {
        u32 count = counts[i][threadIdx.x];
        counts[i][threadIdx.x] = begin;
        begin += count;
    }
    __syncthreads();
#pragma unroll
    for (u32 n = 0; n < SHARE; ++n) entries[mine[digit_of(top, own[n])] + ranks[n]] = own[n];
    __syncthreads();
#pragma unroll
    for (u32 n = 0; n < SHARE; ++n) {
        u32 i = n * THREADS + threadIdx.x;
        if (i >= top.size - tile.begin) break;
        Entry entry = entries[i];
        u32 to = targets[digit_of(top, entry)] + i;
        if (top.to_entries)
            top.moved[(u64)tile.sequence * top.size + to] = entry;
        else if (to < top.wanted)
            put(top, tile.at, to, place_of(entry));
    }
}
