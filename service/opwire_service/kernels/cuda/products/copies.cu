// Copies operands to double, and sums the squares of each line. In a copy either the elements of a line or adjacent
// lines are contiguous.

const u32 COPY_LINES = 8;       // lines per block, one per warp
const u32 PAIR = 2;             // consecutive doubles that a thread writes at once
const u32 UNFOLD_THREADS = 128; // columns per block, one per thread

// Stores a line's sum of squares, or adds to it. Each slice has one owner, also when the depth is copied in parts.
static __device__ __forceinline__ void keep_squares(
    const Task &task, u32 lines, double *squares, u32 number, double total
) {
    double &kept = squares[(u64)blockIdx.y * task.matrices * lines + number];
    kept = task.first ? kept + total : total;
}

const u32 BOUND_LINES = 32, BOUND_SLICES = 8;  // lines per block, and threads per line

// Computes the bounds of rows and columns, whose products bound the errors of sums, and clears the list of undecided
// sums, which reuses the memory of the copies.
extern "C" __global__ void __launch_bounds__(BOUND_LINES *BOUND_SLICES) begin_certifying(const __grid_constant__ Task task) {
    __shared__ double totals[BOUND_SLICES][BOUND_LINES];
    u32 rows = task.matrices * task.rows, row_blocks = (rows + BOUND_LINES - 1) / BOUND_LINES;
    bool is_row = blockIdx.x < row_blocks;
    u32 lines = is_row ? rows : task.matrices * task.columns, slices = is_row ? task.row_slices : task.column_slices;
    u32 number = (blockIdx.x - (is_row ? 0 : row_blocks)) * BOUND_LINES + threadIdx.x;
    double *squares = is_row ? task.row_bounds : task.column_bounds, total = 0;
    if (number < lines)
        for (u32 i = threadIdx.y; i < slices; i += BOUND_SLICES) total += squares[(u64)i * lines + number];
    totals[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y) return;
    for (u32 i = 1; i < BOUND_SLICES; ++i) total += totals[i][threadIdx.x];
    if (number < lines) squares[number] = sqrt(total) * (is_row ? task.error : 1);
    if (blockIdx.x == 0 && threadIdx.x < 2) task.undecided[threadIdx.x] = 0;
}

template <class Line>
static __device__ __forceinline__ void copy_along(
    const Task &task, u32 lines, double *copy, u32 pitch, double *squares
) {
    u32 number = blockIdx.x * COPY_LINES + threadIdx.y;
    if (number >= task.matrices * lines) return;
    u32 matrix = number / lines, i = blockIdx.y * task.share, end = min(i + task.share, task.count);
    Line line(task, matrix, number - matrix * lines);
    double *to = copy + (u64)number * pitch, total = 0;
    auto from = line.begin + task.first;
    if (line.is_straight(task) && is_aligned<PAIR>(from)) {
#pragma unroll 8
        for (i += threadIdx.x * PAIR; i + PAIR <= end; i += WARP * PAIR) {
            auto loaded = load_pack<PAIR>(from + i);
            Pack<double, PAIR> pair;
#pragma unroll
            for (u32 k = 0; k < PAIR; ++k) {
                double value = line.number(loaded.lane + k);
                pair.lane[k] = value;
                total = fma(value, value, total);
            }
            *reinterpret_cast<Pack<double, PAIR> *>(to + i) = pair;
        }
        i = end / PAIR * PAIR;
    }
#pragma unroll 4
    for (i += threadIdx.x; i < end; i += WARP) {
        double value = line.at(task, task.first + i);
        to[i] = value;
        total = fma(value, value, total);
    }
#pragma unroll
    for (u32 lane = WARP / 2; lane; lane /= 2) total += __shfl_xor_sync(~0u, total, lane);
    if (threadIdx.x == 0) keep_squares(task, lines, squares, number, total);
}

extern "C" __global__ void __launch_bounds__(256) copy_left_along(const __grid_constant__ Task task) {
    copy_along<LeftLine>(task, task.rows, task.left_copy, task.left_pitch, task.row_bounds);
}

#if WINDOW
extern "C" __global__ void __launch_bounds__(UNFOLD_THREADS) unfold(const __grid_constant__ Task task) {
    u32 blocks = (task.columns + UNFOLD_THREADS - 1) / UNFOLD_THREADS;
    u32 matrix = blockIdx.x / blocks, column = (blockIdx.x - matrix * blocks) * UNFOLD_THREADS + threadIdx.x;
    if (column >= task.columns) return;
    u32 begin = blockIdx.y * task.share, end = min(begin + task.share, task.count);
    RightLine line(task, matrix, column);
    Taps taps(task.window, task.first + begin);
    double *to = task.right_copy + ((u64)matrix * task.count + begin) * task.right_pitch + column, total = 0;
#pragma unroll 4
    for (u32 i = begin; i < end; ++i, taps.next(task.window)) {
        const Right *from = line.find(task, taps);
        double value = from ? line.number(from) : 0;
        *to = value;
        to += task.right_pitch;
        total = fma(value, value, total);
    }
    keep_squares(task, task.columns, task.column_bounds, matrix * task.columns + column, total);
}
#else
const u32 ACROSS = 32, ACROSS_ROWS = 8;  // lines per block, and threads per line
const u32 DEEP = 64;                     // elements of a line per step

// Copies lines that are not contiguous along the depth and, if there is room, also transposes them. The second
// summation reads the transposed copy, whose matrices have no gaps.
template <class Line, class T>
static __device__ __forceinline__ void copy_across(
    const Task &task, u32 lines, double *copy, u32 pitch, T *turned, double *squares
) {
    const u32 EACH = DEEP / ACROSS_ROWS;
    __shared__ T part[DEEP][ACROSS + 1];
    __shared__ double totals[ACROSS_ROWS][ACROSS];
    u32 across = (lines + ACROSS - 1) / ACROSS, matrix = blockIdx.x / across;
    u32 first = (blockIdx.x - matrix * across) * ACROSS, number = first + threadIdx.x, held = min(ACROSS, lines - first);
    bool is_line = number < lines;
    Line line(task, matrix, is_line ? number : first);
    u32 begin = blockIdx.y * task.share, end = min(begin + task.share, task.count);
    const T *from = line.begin + (task.first + begin + threadIdx.y) * line.step;
    double *to = copy + ((u64)matrix * task.count + begin + threadIdx.y) * pitch + number, total = 0;
    i64 step = ACROSS_ROWS * line.step;
    u64 to_step = (u64)ACROSS_ROWS * pitch;
    if (turned) turned += ((u64)matrix * lines + first) * task.depth + task.first;
    for (; begin < end; begin += DEEP, from += EACH * step, to += EACH * to_step) {
        u32 count = end - begin, own = is_line && threadIdx.y < count ? (count - threadIdx.y - 1) / ACROSS_ROWS + 1 : 0;
        T some[EACH];
#pragma unroll
        for (u32 i = 0; i < EACH; ++i)
            if (i < own) some[i] = from[i * step];
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            if (i >= own) break;
            double value = line.number(some + i);
            to[i * to_step] = value;
            total = fma(value, value, total);
        }
        if (!turned) continue;
#pragma unroll
        for (u32 i = 0; i < EACH; ++i)
            if (i < own) part[threadIdx.y + i * ACROSS_ROWS][threadIdx.x] = some[i];
        __syncthreads();
        for (u32 i = threadIdx.y; i < held; i += ACROSS_ROWS)
            for (u32 along = threadIdx.x; along < min(count, DEEP); along += ACROSS)
                turned[(u64)i * task.depth + begin + along] = part[along][i];
        __syncthreads();
    }
    totals[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y || !is_line) return;
    for (u32 i = 1; i < ACROSS_ROWS; ++i) total += totals[i][threadIdx.x];
    keep_squares(task, lines, squares, matrix * lines + number, total);
}

extern "C" __global__ void __launch_bounds__(ACROSS *ACROSS_ROWS) copy_left_across(const __grid_constant__ Task task) {
    copy_across<LeftLine>(task, task.rows, task.left_copy, task.left_pitch, task.left_turned, task.row_bounds);
}

extern "C" __global__ void __launch_bounds__(256) copy_right_along(const __grid_constant__ Task task) {
    copy_along<RightLine>(task, task.columns, task.right_copy, task.right_pitch, task.column_bounds);
}

extern "C" __global__ void __launch_bounds__(ACROSS *ACROSS_ROWS) copy_right_across(const __grid_constant__ Task task) {
    copy_across<RightLine>(task, task.columns, task.right_copy, task.right_pitch, task.right_turned, task.column_bounds);
}
#endif
