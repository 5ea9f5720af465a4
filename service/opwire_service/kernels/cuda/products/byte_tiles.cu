// Tiles of sums of products of bytes, modulo one small number after another: the Chinese remainder theorem turns them into
// fractions of the product of all.
//
// FRACTION, BIAS, QUOTIENT and the others are generated from one list of moduli; ROW_WARPS, COLUMN_WARPS and STAGES are
// chosen by the sizes.

const u32 EDGE = 32;  // rows and columns per warp, if all of a block's were in a square
const u32 TILE_ROWS = ROW_WARPS * EDGE, TILE_COLUMNS = COLUMN_WARPS * EDGE;
const u32 TILE_THREADS = ROW_WARPS * COLUMN_WARPS * WARP;
const u32 RESIDENT = 512;  // threads per multiprocessor that registers suffice for
const bool IN_GROUPS = HAS_GROUPS && TILE_ROWS % GROUP_EDGE == 0 && TILE_COLUMNS % GROUP_EDGE == 0;
const u32 DOWN = IN_GROUPS ? 1 : 2, ACROSS = IN_GROUPS ? 8 : 4;  // products of a warp, of 16 rows and 8 columns
const u32 GROUPS_ACROSS = IN_GROUPS ? TILE_COLUMNS / GROUP_EDGE : 1;
const u32 STAGE = (TILE_ROWS + TILE_COLUMNS) * STEP;
const u32 STEP_CHUNKS = STEP / CHUNK;
const u32 LOADED_LINES = TILE_THREADS / STEP_CHUNKS;  // per pass over a stage
const u32 AHEAD = IN_GROUPS ? STAGES - 2 : STAGES - 1;  // stages that are being copied; groups still read one more

// The first row and column of a warp's sums in the tile.
struct Corner {
    u32 row, column;

    __device__ __forceinline__ Corner() {
        u32 warp = threadIdx.x / WARP, group = __shfl_sync(~0u, warp / GROUP_WARPS, 0);
        row = IN_GROUPS ? group / GROUPS_ACROSS * GROUP_EDGE + warp % GROUP_WARPS * 16 : warp / COLUMN_WARPS * EDGE;
        column = IN_GROUPS ? group % GROUPS_ACROSS * GROUP_EDGE : warp % COLUMN_WARPS * EDGE;
    }
};

// The bytes of a line of a stage; chunks are exchanged so that eight lines occupy different banks.
static __device__ __forceinline__ u8 *chunk_of(u8 *lines, u32 line, u32 chunk) {
    return lines + line * STEP + (chunk ^ line / 2 % STEP_CHUNKS) * CHUNK;
}

// The steps of a tile's products, for one modulus after another, and their copies to shared memory.
struct Tile {
    u8 *stages;
    const i32 *offsets;  // of each chunk of the depth in the images, from a window's base
    const u8 *left[TILE_ROWS / LOADED_LINES], *right;
    u32 base[TILE_COLUMNS / LOADED_LINES];
    u64 left_plane, right_plane;
    u32 modulus = 0, step = 0, steps, slot = 0;

    // Copies the next step to the next stage, and closes a group of copies in any case.
    __device__ __forceinline__ void fetch() {
        u32 line = threadIdx.x / STEP_CHUNKS, chunk = threadIdx.x % STEP_CHUNKS;
        u8 *rows = stages + slot * STAGE, *columns = rows + TILE_ROWS * STEP;
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        if (modulus < MODULI) {
            i32 offset = offsets[step * STEP_CHUNKS + chunk];
#pragma unroll
            for (u32 i = 0; i < TILE_ROWS / LOADED_LINES; ++i)
                copy_later(chunk_of(rows, line + i * LOADED_LINES, chunk), left[i] + step * STEP);
#pragma unroll
            for (u32 i = 0; i < TILE_COLUMNS / LOADED_LINES; ++i)
                copy_later(chunk_of(columns, line + i * LOADED_LINES, chunk), right + (u32)(base[i] + offset));
            if (++step == steps) {
                step = 0;
                ++modulus;
                right += right_plane;
#pragma unroll
                for (u32 i = 0; i < TILE_ROWS / LOADED_LINES; ++i) left[i] += left_plane;
            }
        }
        close_copies();
    }
};

static __device__ __forceinline__ void multiply_stage(i32 (&sums)[2][4][4], u8 *rows, const Corner &corner) {
    u32 lane = threadIdx.x % WARP;
    u8 *columns = rows + TILE_ROWS * STEP;
    u32 row = corner.row + lane % 16, column = corner.column + lane % 8 + lane / 16 * 8;
#pragma unroll
    for (u32 chunk = 0; chunk < STEP_CHUNKS; chunk += 2) {
        u32 left[2][4], right[2][4];
#pragma unroll
        for (u32 i = 0; i < 2; ++i) load_fragments(left[i], chunk_of(rows, row + i * 16, chunk + lane / 16));
#pragma unroll
        for (u32 j = 0; j < 2; ++j)
            load_fragments(right[j], chunk_of(columns, column + j * 16, chunk + lane / 8 % 2));
#pragma unroll
        for (u32 i = 0; i < 2; ++i)
#pragma unroll
            for (u32 j = 0; j < 4; ++j)
                multiply_bytes(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
    }
}
// By groups; the products of the stage are still under way afterwards.
static __device__ __forceinline__ void multiply_stage(i32 (&sums)[1][8][4], u8 *rows, const Corner &corner) {
    u64 left = lines_at(rows + corner.row / GROUP_EDGE * GROUP_EDGE * STEP);
    u64 right = lines_at(rows + (TILE_ROWS + corner.column) * STEP);
    begin_products();
#pragma unroll
    for (u32 chunk = 0; chunk < STEP_CHUNKS; chunk += 2) multiply_lines(sums[0], left + chunk, right + chunk);
    close_products();
}

// Computes the sums of a tile as fractions of the product of the moduli, in units of 2**-64: the theorem adds up
// remainders times the reciprocals of their moduli, of which only the part behind the point counts.
static __device__ __forceinline__ void multiply_tile(u64 (&fractions)[DOWN][ACROSS][4], Tile &tile, const Corner &corner) {
#pragma unroll
    for (u32 i = 0; i < AHEAD; ++i) tile.fetch();
    u32 slot = 0;
    for (u32 m = 0; m < MODULI; ++m) {
        // A multiple of the modulus that is larger than any sum makes them positive.
        i32 sums[DOWN][ACROSS][4];
#pragma unroll
        for (u32 i = 0; i < DOWN * ACROSS * 4; ++i) (&sums[0][0][0])[i] = BIAS[m];
        for (u32 step = 0; step < tile.steps; ++step) {
            await_copies<AHEAD - 1>();
            if (IN_GROUPS) show_copies();
            __syncthreads();
            if (!IN_GROUPS) tile.fetch();
            multiply_stage(sums, tile.stages + slot * STAGE, corner);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
            if (!IN_GROUPS) continue;
            tile.fetch();
            await_products<1>();
        }
        if (IN_GROUPS) {
            await_products<0>();
#pragma unroll
            for (u32 i = 0; i < DOWN * ACROSS * 4; ++i) asm volatile("" : "+r"((&sums[0][0][0])[i]) : : "memory");
        }
#pragma unroll
        for (u32 i = 0; i < DOWN * ACROSS * 4; ++i) {
            u32 sum = (u32)(&sums[0][0][0])[i];
            u32 remainder = sum - __umulhi(sum, QUOTIENT[m]) * (u32)MODULUS[m];  // or one modulus more
            (&fractions[0][0][0])[i] += remainder * FRACTION[m];
        }
    }
}
