// Copies where neighbours in the source lie apart in the target and the other way round: tiles of ROWS along the source
// and COLUMNS along the target, both powers of two, pass through shared memory, LANES units at once. A block has THREADS,
// and DEEP tiles of matrices that follow each other.

const u32 PAD = sizeof(Unit) < 4 ? 4 / sizeof(Unit) : 1;  // moves each column on by a bank
const int TILE = ROWS * COLUMNS / LANES, SHARE = DEEP * TILE / THREADS;

typedef Pack<Unit, LANES> Word;  // neighbours that are read and written at once

struct Tiles {
    const Unit *source;
    Unit *target;
    u32 first, count;       // blocks
    u32 rows, columns;      // of a matrix
    u32 across, down;       // steps between columns in the source, and between rows in the target
    u32 begin, matrices;    // the unit of the source from which steps count, and matrices that follow each other
    u32 step, target_step;  // between those
    Walk walk;              // source, target, row, column, matrix
};

// What a thread moves in one of its turns: a word along the source, and one along the target.
struct Turn {
    u32 i, tile;
    __device__ __forceinline__ Turn(int n) {
        i = n * THREADS + threadIdx.x;
        tile = DEEP > 1 ? i / TILE : 0;
        if (DEEP > 1) i %= TILE;
    }
    __device__ __forceinline__ u32 row_from() const { return i % (ROWS / LANES) * LANES; }
    __device__ __forceinline__ u32 column_from() const { return i / (ROWS / LANES); }
    __device__ __forceinline__ u32 row_to() const { return i / (COLUMNS / LANES); }
    __device__ __forceinline__ u32 column_to() const { return i % (COLUMNS / LANES) * LANES; }
};

static __device__ __forceinline__ const Word *word_at(const Unit *units, u32 unit) {
    return reinterpret_cast<const Word *>(units + unit);
}
static __device__ __forceinline__ Word *word_at(Unit *units, u32 unit) { return reinterpret_cast<Word *>(units + unit); }

extern "C" __global__ void __launch_bounds__(THREADS) transpose_tiles(const __grid_constant__ Tiles all) {
    alignas(16) __shared__ Unit tiles[DEEP][COLUMNS][ROWS + PAD];
    u32 at[STEPS];
    walk(all.walk, all.first + blockIdx.x, at);
    u32 rows = all.rows - at[2], columns = all.columns - at[3], matrices = all.matrices - at[4];
    Word words[SHARE];
#pragma unroll
    for (int n = 0; n < SHARE; ++n) {
        Turn turn(n);
        u32 row = turn.row_from(), column = turn.column_from();
        if (row >= rows || column >= columns || (DEEP > 1 && turn.tile >= matrices)) continue;
        words[n] = *word_at(all.source, all.begin + at[0] + row + column * all.across + turn.tile * all.step);
    }
#pragma unroll
    for (int n = 0; n < SHARE; ++n) {
        Turn turn(n);
        *reinterpret_cast<Word *>(&tiles[turn.tile][turn.column_from()][turn.row_from()]) = words[n];
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < SHARE; ++n) {
        Turn turn(n);
        u32 row = turn.row_to(), column = turn.column_to();
        if (row >= rows || column >= columns || (DEEP > 1 && turn.tile >= matrices)) continue;
        Word word;
#pragma unroll
        for (int k = 0; k < LANES; ++k) word.lane[k] = tiles[turn.tile][column + k][row];
        *word_at(all.target, at[1] + row * all.down + column + turn.tile * all.target_step) = word;
    }
}
