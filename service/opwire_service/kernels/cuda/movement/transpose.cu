// Transposing copies: tiles of ROWS along the source and COLUMNS along the target, both powers of two, pass through
// shared memory, LANES units at once; squares of LANES x LANES are transposed by the thread that reads them from there.
// A block has THREADS threads and DEEP tiles, of consecutive matrices.

typedef Pack<Unit, LANES> Word;  // adjacent units that are read and written at once

const int TILE = ROWS * COLUMNS / LANES, SHARE = DEEP * TILE / THREADS, HIGH = ROWS / LANES, WIDE = COLUMNS / LANES;
const u32 PAD = sizeof(Word) < 4 ? 4 / sizeof(Word) : 1;  // shifts each group of columns by one bank

struct Tiles {
    const Unit *source;
    Unit *target;
    u32 first, count;       // blocks
    u32 rows, columns;      // of a matrix
    u32 across, down;       // steps between columns in the source, and between rows in the target
    u32 begin, matrices;    // the unit of the source that steps start from, and the number of consecutive matrices
    u32 step, target_step;  // between matrices
    Walk walk;              // source, target, row, column, matrix
};

// The tile and item of a thread in one of its turns, given the number of items per tile.
struct Turn {
    u32 tile, i;
    __device__ __forceinline__ Turn(u32 n, u32 items) {
        i = n * THREADS + threadIdx.x;
        tile = DEEP > 1 ? i / items : 0;
        if (DEEP > 1) i %= items;
    }
};

static __device__ __forceinline__ const Word *word_at(const Unit *units, u32 unit) {
    return reinterpret_cast<const Word *>(units + unit);
}
static __device__ __forceinline__ Word *word_at(Unit *units, u32 unit) { return reinterpret_cast<Word *>(units + unit); }

extern "C" __global__ void __launch_bounds__(THREADS) transpose_tiles(const __grid_constant__ Tiles all) {
    __shared__ Word tiles[DEEP][WIDE][LANES * HIGH + PAD];
    u32 at[STEPS];
    walk(all.walk, all.first + blockIdx.x, at);
    u32 rows = all.rows - at[2], columns = all.columns - at[3], matrices = all.matrices - at[4];
    Word words[SHARE];
#pragma unroll
    for (int n = 0; n < SHARE; ++n) {
        Turn turn(n, TILE);
        u32 row = turn.i % HIGH * LANES, column = turn.i / HIGH;
        if (row >= rows || column >= columns || (DEEP > 1 && turn.tile >= matrices)) continue;
        words[n] = *word_at(all.source, all.begin + at[0] + row + column * all.across + turn.tile * all.step);
    }
#pragma unroll
    for (int n = 0; n < SHARE; ++n) {
        Turn turn(n, TILE);
        u32 column = turn.i / HIGH;
        tiles[turn.tile][column / LANES][column % LANES * HIGH + turn.i % HIGH] = words[n];
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < SHARE / LANES; ++n) {
        Turn turn(n, TILE / LANES);
        u32 row = turn.i / WIDE * LANES, column = turn.i % WIDE * LANES;
        if (row >= rows || column >= columns || (DEEP > 1 && turn.tile >= matrices)) continue;
        Word square[LANES];
#pragma unroll
        for (int k = 0; k < LANES; ++k) square[k] = tiles[turn.tile][turn.i % WIDE][k * HIGH + turn.i / WIDE];
#pragma unroll
        for (int k = 0; k < LANES; ++k) {
            Word word;
#pragma unroll
            for (int j = 0; j < LANES; ++j) word.lane[j] = square[j].lane[k];
            *word_at(all.target, at[1] + (row + k) * all.down + column + turn.tile * all.target_step) = word;
        }
    }
}
