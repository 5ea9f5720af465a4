// The coordinates of what is not zero, row by row: counted tile by tile, summed up, and written where the tiles before
// end. Rows that are left are 0.

const u32 THREADS = 256;
const u32 SHARE = 8;  // neighbours that a thread looks at

struct Nonzero {
    const Unit *source;
    u32 *ends;  // of each tile; at first how many it has
    u32 *rows, *total;
    u32 first, count;    // elements, tiles or numbers, whatever a kernel counts
    u32 elements, tiles;
    u32 columns, unused;
    u32 row_step, column_step;
    Walk walk;         // of the input: source
    Walk coordinates;  // its sizes
};

// -0 has a bit that does not count.
static __device__ __forceinline__ bool is_nonzero(Unit bits) { return REAL ? (Unit)(bits << 1) != 0 : bits != 0; }

// Which of the neighbours from `begin` on are not zero.
static __device__ __forceinline__ u32 found_at(const Nonzero &all, u32 begin) {
    u32 found = 0, at[STEPS];
#pragma unroll
    for (u32 k = 0; k < SHARE; ++k) {
        if (begin >= all.elements || all.elements - begin <= k) break;
        walk(all.walk, begin + k, at);
        found |= (u32)is_nonzero(all.source[at[0]]) << k;
    }
    return found;
}

// Of a number for each thread the sum of all up to its own.
static __device__ __forceinline__ u32 running_sum(u32 number, u32 (&shared)[THREADS]) {
    __syncthreads();
    shared[threadIdx.x] = number;
    for (u32 apart = 1; apart < THREADS; apart *= 2) {
        __syncthreads();
        u32 more = threadIdx.x >= apart ? shared[threadIdx.x - apart] : 0;
        __syncthreads();
        shared[threadIdx.x] += more;
    }
    __syncthreads();
    return shared[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(THREADS) count_tiles(const __grid_constant__ Nonzero all) {
    __shared__ u32 shared[THREADS];
    u32 tile = all.first + blockIdx.x;
    u32 end = running_sum(__popc(found_at(all, (tile * THREADS + threadIdx.x) * SHARE)), shared);
    if (threadIdx.x == THREADS - 1) all.ends[tile] = end;
}

extern "C" __global__ void __launch_bounds__(THREADS) sum_tiles(const __grid_constant__ Nonzero all) {
    __shared__ u32 shared[THREADS];
    u32 before = 0;
    for (u32 tile = threadIdx.x * SHARE; tile - threadIdx.x * SHARE < all.tiles; tile += THREADS * SHARE) {
        u32 own = 0;
        for (u32 k = 0; k < SHARE && tile + k < all.tiles; ++k) own += all.ends[tile + k];
        u32 end = running_sum(own, shared), at = before + end - own;
        for (u32 k = 0; k < SHARE && tile + k < all.tiles; ++k) {
            at += all.ends[tile + k];
            all.ends[tile + k] = at;
        }
        before += shared[THREADS - 1];
    }
    if (threadIdx.x == 0) *all.total = before;
}

extern "C" __global__ void __launch_bounds__(THREADS) write_rows(const __grid_constant__ Nonzero all) {
    __shared__ u32 shared[THREADS];
    u32 tile = all.first + blockIdx.x, begin = (tile * THREADS + threadIdx.x) * SHARE;
    u32 found = found_at(all, begin), own = __popc(found);
    u32 row = (tile ? all.ends[tile - 1] : 0) + running_sum(own, shared) - own;
    for (; found; found &= found - 1) {
        u32 place = begin + __ffs(found) - 1;
        for (u32 i = 0; i < all.columns; ++i) {
            const Loop &loop = all.coordinates.loop[i];
            u32 outer = divided(place, loop);
            all.rows[row * all.row_step + (all.columns - 1 - i) * all.column_step] = place - outer * loop.size;
            place = outer;
        }
        ++row;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) clear_rows(const __grid_constant__ Nonzero all) {
    u32 i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= all.count) return;
    i += all.first;
    u32 row = i / all.columns;
    if (row >= *all.total) all.rows[row * all.row_step + (i - row * all.columns) * all.column_step] = 0;
}
