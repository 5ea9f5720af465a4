// Copies between two strided views by rows of units, so that most threads compute the offsets of their row only once.

const u32 THREADS = 256;
const int BATCH = 4;  // units in flight per thread

struct Rows {
    const SourceUnit *source;
    TargetUnit *target;
    u32 first, count;       // rows
    u32 begin, width;       // the unit of the source that steps start from, and units per row
    u32 step, target_step;  // along a row
    Walk walk;              // of the rows: source, target
};

extern "C" __global__ void __launch_bounds__(THREADS) copy_rows(const __grid_constant__ Rows rows) {
    u32 row = blockIdx.x * blockDim.y + threadIdx.y, offset[STEPS];
    u32 column = blockIdx.y * (blockDim.x * BATCH) + threadIdx.x;
    if (row >= rows.count) return;
    walk(rows.walk, rows.first + row, offset);
    SourceUnit units[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 at = column + n * blockDim.x;
        if (at < rows.width) units[n] = rows.source[rows.begin + offset[0] + at * rows.step];
    }
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 at = column + n * blockDim.x;
        if (at < rows.width) rows.target[offset[1] + at * rows.target_step] = moved(units[n]);
    }
}
