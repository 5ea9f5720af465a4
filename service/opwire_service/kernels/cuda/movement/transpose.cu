// Copies where neighbours in the source lie apart in the target and the other way round: tiles of ROWS along the source
// and COLUMNS along the target, both powers of two, pass through shared memory. A block has THREADS threads.

const u32 PAD = sizeof(SourceUnit) < 4 ? 4 / sizeof(SourceUnit) : 1;  // moves each column on by a bank
const int SHARE = ROWS * COLUMNS / THREADS;

struct Tiles {
    const SourceUnit *source;
    TargetUnit *target;
    u32 first, count;   // tiles
    u32 rows, columns;  // of the matrix
    u32 across, down;   // steps between columns in the source, and between rows in the target
    u32 begin, unused;  // the unit of the source from which steps count
    Walk walk;          // source, target, row, column
};

extern "C" __global__ void __launch_bounds__(THREADS) transpose_tiles(const __grid_constant__ Tiles tiles) {
    __shared__ SourceUnit tile[COLUMNS][ROWS + PAD];
    u32 at[STEPS];
    walk(tiles.walk, tiles.first + blockIdx.x, at);
    u32 rows = min((u32)ROWS, tiles.rows - at[2]), columns = min((u32)COLUMNS, tiles.columns - at[3]);
    SourceUnit units[SHARE];
#pragma unroll
    for (int n = 0; n < SHARE; ++n) {
        u32 i = n * THREADS + threadIdx.x, row = i % ROWS, column = i / ROWS;
        if (row < rows && column < columns) units[n] = tiles.source[tiles.begin + at[0] + row + column * tiles.across];
    }
#pragma unroll
    for (int n = 0; n < SHARE; ++n) {
        u32 i = n * THREADS + threadIdx.x;
        tile[i / ROWS][i % ROWS] = units[n];
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < SHARE; ++n) {
        u32 i = n * THREADS + threadIdx.x, row = i / COLUMNS, column = i % COLUMNS;
        if (row < rows && column < columns) tiles.target[at[1] + row * tiles.down + column] = moved(tile[column][row]);
    }
}
