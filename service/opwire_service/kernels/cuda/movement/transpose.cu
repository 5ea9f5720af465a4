// Copies where neighbours in the source lie apart in the target and the other way round: tiles of ROWS along the source
// and COLUMNS along the target, both powers of two, pass through shared memory, LANES units at once. A block has THREADS.

const u32 PAD = sizeof(Unit) < 4 ? 4 / sizeof(Unit) : 1;  // moves each column on by a bank
const int SHARE = ROWS * COLUMNS / LANES / THREADS;

typedef Pack<Unit, LANES> Word;  // neighbours that are read and written at once

struct Tiles {
    const Unit *source;
    Unit *target;
    u32 first, count;   // tiles
    u32 rows, columns;  // of the matrix
    u32 across, down;   // steps between columns in the source, and between rows in the target
    u32 begin, unused;  // the unit of the source from which steps count
    Walk walk;          // source, target, row, column
};

static __device__ __forceinline__ const Word *word_at(const Unit *units, u32 unit) {
    return reinterpret_cast<const Word *>(units + unit);
}
static __device__ __forceinline__ Word *word_at(Unit *units, u32 unit) { return reinterpret_cast<Word *>(units + unit); }

extern "C" __global__ void __launch_bounds__(THREADS) transpose_tiles(const __grid_constant__ Tiles tiles) {
    alignas(16) __shared__ Unit tile[COLUMNS][ROWS + PAD];
    u32 at[STEPS];
    walk(tiles.walk, tiles.first + blockIdx.x, at);
    u32 rows = min((u32)ROWS, tiles.rows - at[2]), columns = min((u32)COLUMNS, tiles.columns - at[3]);
    Word words[SHARE];
#pragma unroll
    for (int n = 0; n < SHARE; ++n) {
        u32 i = n * THREADS + threadIdx.x, row = i % (ROWS / LANES) * LANES, column = i / (ROWS / LANES);
        if (row >= rows || column >= columns) continue;
        words[n] = *word_at(tiles.source, tiles.begin + at[0] + row + column * tiles.across);
    }
#pragma unroll
    for (int n = 0; n < SHARE; ++n) {
        u32 i = n * THREADS + threadIdx.x, row = i % (ROWS / LANES) * LANES, column = i / (ROWS / LANES);
        *reinterpret_cast<Word *>(&tile[column][row]) = words[n];
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < SHARE; ++n) {
        u32 i = n * THREADS + threadIdx.x, row = i / (COLUMNS / LANES), column = i % (COLUMNS / LANES) * LANES;
        if (row >= rows || column >= columns) continue;
        Word word;
#pragma unroll
        for (int k = 0; k < LANES; ++k) word.lane[k] = tile[column + k][row];
        *word_at(tiles.target, at[1] + row * tiles.down + column) = word;
    }
}
