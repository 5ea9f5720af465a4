// Coordinates of nonzero elements in row-major order: counted per tile, scanned, and written after those of earlier
// tiles. The remaining rows are 0.

const u32 THREADS = 256;
const u32 SHARE = 8;  // elements per thread
const u32 WARP = 32;

struct Nonzero {
    const Unit *source;
    u32 *ends;  // of each tile; at first its count
    u32 *rows, *total;
    u32 first, count;    // range in elements, tiles or numbers, depending on the kernel
    u32 elements, tiles;
    u32 columns, unused;
    u32 row_step, column_step;
    Walk walk;         // of the input: source
    Walk coordinates;  // the input's sizes
};

// Ignores the sign bit of floats, as -0 is zero.
static __device__ __forceinline__ bool is_nonzero(Unit bits) { return REAL ? (Unit)(bits << 1) != 0 : bits != 0; }

// The nonzero elements of a warp, in masks of WARP consecutive elements.
struct Found {
    u32 begin;  // first of the warp's elements
    u32 masks[SHARE], count;

    __device__ __forceinline__ Found(const Nonzero &all, u32 tile) {
        begin = (tile * THREADS + threadIdx.x / WARP * WARP) * SHARE;
        count = 0;
#pragma unroll
        for (u32 k = 0; k < SHARE; ++k) {
            u32 place = begin + k * WARP + threadIdx.x % WARP, at[STEPS];
            bool is_found = false;
            if (place < all.elements) {
                walk(all.walk, place, at);
                is_found = is_nonzero(all.source[at[0]]);
            }
            masks[k] = __ballot_sync(~0u, is_found);
            count += __popc(masks[k]);
        }
    }
};

// Exclusive scan of one number per warp; `total` gets the sum of all.
static __device__ __forceinline__ u32 sum_before(u32 number, u32 &total) {
    __shared__ u32 shared[THREADS / WARP];
    __syncthreads();
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = number;
    __syncthreads();
    u32 before = total = 0;
#pragma unroll
    for (u32 warp = 0; warp < THREADS / WARP; ++warp) {
        if (warp == threadIdx.x / WARP) before = total;
        total += shared[warp];
    }
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS) count_tiles(const __grid_constant__ Nonzero all) {
    u32 tile = all.first + blockIdx.x, total;
    sum_before(Found(all, tile).count, total);
    if (threadIdx.x == 0) all.ends[tile] = total;
}

extern "C" __global__ void __launch_bounds__(THREADS) sum_tiles(const __grid_constant__ Nonzero all) {
    u32 before = 0, lane = threadIdx.x % WARP;
    for (u32 tile = threadIdx.x * SHARE; tile - threadIdx.x * SHARE < all.tiles; tile += THREADS * SHARE) {
        u32 own = 0, total;
        for (u32 k = 0; k < SHARE && tile + k < all.tiles; ++k) own += all.ends[tile + k];
        u32 end = own;
        for (u32 apart = 1; apart < WARP; apart *= 2) {
            u32 more = __shfl_up_sync(~0u, end, apart);
            if (lane >= apart) end += more;
        }
        u32 at = before + end - own + sum_before(__shfl_sync(~0u, end, WARP - 1), total);
        for (u32 k = 0; k < SHARE && tile + k < all.tiles; ++k) {
            at += all.ends[tile + k];
            all.ends[tile + k] = at;
        }
        before += total;
    }
    if (threadIdx.x == 0) *all.total = before;
}

extern "C" __global__ void __launch_bounds__(THREADS) write_rows(const __grid_constant__ Nonzero all) {
    u32 tile = all.first + blockIdx.x, lane = threadIdx.x % WARP, total;
    Found found(all, tile);
    u32 row = (tile ? all.ends[tile - 1] : 0) + sum_before(found.count, total);
#pragma unroll
    for (u32 k = 0; k < SHARE; ++k) {
        if (found.masks[k] >> lane & 1) {
            u32 mine = row + __popc(found.masks[k] & ((1u << lane) - 1)), place = found.begin + k * WARP + lane;
            for (u32 i = 0; i < all.columns; ++i) {
                const Loop &loop = all.coordinates.loop[i];
                u32 outer = divided(place, loop);
                all.rows[mine * all.row_step + (all.columns - 1 - i) * all.column_step] = place - outer * loop.size;
                place = outer;
            }
        }
        row += __popc(found.masks[k]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) clear_rows(const __grid_constant__ Nonzero all) {
    u32 left = *all.total * all.columns;
#pragma unroll
    for (u32 k = 0; k < SHARE; ++k) {
        u32 i = (blockIdx.x * SHARE + k) * THREADS + threadIdx.x;
        if (i >= all.count || all.first + i < left) continue;
        i += all.first;
        u32 row = i / all.columns;
        all.rows[row * all.row_step + (i - row * all.columns) * all.column_step] = 0;
    }
}
