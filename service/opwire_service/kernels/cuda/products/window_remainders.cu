// Convolutions by remainders: one block multiplies the remainders of a tile's filters and windows, and certifies the sums.

const u32 KEPT_GAP = 8;
const u32 KEPT_PITCH = TILE_COLUMNS + KEPT_GAP;  // of sums on their way to other threads
const u32 KEPT_PASSES = 2;                       // in which the rows of a warp are kept
const u32 KEPT_ROWS = 16 * DOWN / KEPT_PASSES;   // of a warp
const u32 KEPT = TILE_ROWS / KEPT_PASSES * KEPT_PITCH * 8;
const u32 CERTIFIED = TILE_ROWS / KEPT_PASSES / (TILE_THREADS / TILE_COLUMNS);  // sums of a thread in a pass
const u32 SHARED_BYTES = STAGES * STAGE > KEPT ? STAGES * STAGE : KEPT;

// Bounds of a window's norm and of the norm of its rests.
struct WindowNorms {
    double norm, rest, back;

    __device__ __forceinline__ WindowNorms(const Task &task, const Layout &layout, u32 matrix, const Place &place) {
        Measures measures(task, layout);
        u32 pixel = layout.pixel(task, matrix, place);
        double squares = 0, rests = 0;
        for (u32 tap = 0; tap < layout.taps; ++tap) {
            u32 at = pixel + layout.reach(task.window, tap);
            squares += measures.squares[at];
            rests += measures.rests[at];
        }
        back = measures.backs[matrix * layout.images + place.image - layout.first_image];
        norm = sqrt(squares) * (1 + 0x1p-20);
        rest = sqrt(rests) * (1 + 0x1p-20) * back;
    }
};

extern "C" __global__ void __launch_bounds__(TILE_THREADS, RESIDENT / TILE_THREADS) convolve_bytes(const __grid_constant__ Task task) {
    extern __shared__ __align__(512) uint4 memory[];
    Layout layout(task);
    u32 blocks = (task.columns + TILE_COLUMNS - 1) / TILE_COLUMNS, matrix = blockIdx.x / blocks;
    u32 first_column = (blockIdx.x - matrix * blocks) * TILE_COLUMNS, first_row = blockIdx.y * TILE_ROWS;
    u64 *kept = reinterpret_cast<u64 *>(memory);
    i32 *offsets = reinterpret_cast<i32 *>((u8 *)memory + SHARED_BYTES);
    for (u32 i = threadIdx.x; i < layout.steps * STEP_CHUNKS; i += TILE_THREADS) {
        u32 tap, channel;
        bool is_there = layout.find(i * CHUNK, tap, channel);
        offsets[i] = is_there ? layout.reach(task.window, tap) * (i32)layout.padded + (i32)channel : 0;
    }
    Tile tile;
    tile.stages = (u8 *)memory;
    tile.offsets = offsets;
    tile.steps = layout.steps;
    tile.left_plane = layout.left_plane(task);
    tile.right_plane = layout.right_plane(task);
    tile.right = (const u8 *)task.right_copy;
    u32 line = threadIdx.x / STEP_CHUNKS, chunk = threadIdx.x % STEP_CHUNKS;
#pragma unroll
    for (u32 i = 0; i < TILE_ROWS / LOADED_LINES; ++i) {
        u32 row = min(first_row + line + i * LOADED_LINES, task.rows - 1);
        tile.left[i] = (const u8 *)task.left_copy + (u64)(matrix * task.rows + row) * layout.steps * STEP + chunk * CHUNK;
    }
#pragma unroll
    for (u32 i = 0; i < TILE_COLUMNS / LOADED_LINES; ++i) {
        u32 column = min(first_column + line + i * LOADED_LINES, task.columns - 1);
        tile.base[i] = layout.pixel(task, matrix, Place(task.window, task.column + column)) * layout.padded;
    }
    __syncthreads();
    u64 fractions[DOWN][ACROSS][4] = {};
    const Corner corner;
    multiply_tile(fractions, tile, corner);

    // Through shared memory, so that a thread's results are of one column, and adjacent threads' of adjacent columns.
    u32 lane = threadIdx.x % WARP, own = threadIdx.x % TILE_COLUMNS, column = first_column + own;
    bool is_inside = column < task.columns;
    Place place(task.window, task.column + min(column, task.columns - 1));
    WindowNorms window(task, layout, matrix, place);
    if (is_inside && first_row == 0 && threadIdx.x < TILE_COLUMNS)
        task.column_bounds[matrix * task.columns + column] = window.norm;
    u32 lines = task.matrices * task.rows;
    Output *to = task.target + target_offset(task, matrix, 0, min(column, task.columns - 1));
#pragma unroll
    for (u32 pass = 0; pass < KEPT_PASSES; ++pass) {
        await_copies<0>();
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < DOWN * ACROSS * 4; ++i) {
            u32 j = i / 4 % ACROSS, k = i % 4, row = i / (4 * ACROSS) * 16 + k / 2 * 8;
            if (row / KEPT_ROWS != pass) continue;
            u64 *line = kept + (corner.row / KEPT_PASSES + row % KEPT_ROWS + lane / 4) * KEPT_PITCH;
            line[corner.column + j * 8 + lane % 4 * 2 + k % 2] = (&fractions[0][0][0])[i];
        }
        __syncthreads();
#pragma unroll 1
        for (u32 n = 0; n < CERTIFIED; ++n) {
            u32 number = threadIdx.x / TILE_COLUMNS + n * (TILE_THREADS / TILE_COLUMNS);
            u32 row = first_row + (number / KEPT_ROWS * KEPT_PASSES + pass) * KEPT_ROWS + number % KEPT_ROWS;
            if (row >= task.rows || !is_inside) continue;
            const double *bounds = task.row_bounds + matrix * task.rows + row;
            double norm = bounds[lines], rest = bounds[2 * lines], unit = bounds[3 * lines] * window.back * FRACTION_UNIT;
            if (norm == 0 || window.norm == 0) unit = 0;  // the sum is 0 without an error
            double sum = (double)(i64)kept[number * KEPT_PITCH + own] * unit, error = FRACTION_ERROR * unit;
            double bound = rest * window.norm + (norm + rest) * window.rest + fabs(sum) * COMBINED + error;
            double addend = task.addend ? addend_of(task, matrix, row, column) : 0;
            Output into;
            bool is_known = is_finite(norm) && is_finite(window.norm)
                && certified(task, task.alpha, sum, bound * (1 + 0x1p-40), addend, into);
            if (is_known) to[row * task.target_steps.line] = into;
            else task.undecided[2 + atomicAdd(task.undecided, 1u)] = (matrix * task.rows + row) * task.columns + column;
        }
    }
}
