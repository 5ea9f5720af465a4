// Copies of operands in double, with the sums of the squares of each line: in the copy either the elements of a line
// are neighbours, or lines are.

const u32 COPY_LINES = 8;      // lines of a block, each of a warp
const u32 COPY_THREADS = 128;  // lines of a block, each of a thread

extern "C" __global__ void clear(const __grid_constant__ Task task) {
    u32 rows = task.matrices * task.rows, columns = task.matrices * task.columns;
    u32 stride = gridDim.x * blockDim.x, at = blockIdx.x * blockDim.x + threadIdx.x;
    for (u32 i = at; i < rows; i += stride) task.row_bounds[i] = 0;
    for (u32 i = at; i < columns; i += stride) task.column_bounds[i] = 0;
    if (at < 2) task.open[at] = 0;
}

// The bounds on the errors of sums are products of those of their row and their column.
extern "C" __global__ void take_roots(const __grid_constant__ Task task) {
    u32 rows = task.matrices * task.rows, columns = task.matrices * task.columns;
    u32 stride = gridDim.x * blockDim.x, at = blockIdx.x * blockDim.x + threadIdx.x;
    for (u32 i = at; i < rows; i += stride) task.row_bounds[i] = sqrt(task.row_bounds[i]) * task.error;
    for (u32 i = at; i < columns; i += stride) task.column_bounds[i] = sqrt(task.column_bounds[i]);
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
    if (line.is_straight(task) && is_aligned(from)) {
#pragma unroll 4
        for (i += threadIdx.x * LANES; i + LANES <= end; i += WARP * LANES) {
            auto loaded = load_pack(from + i);
            Pack<double, 2> pairs[LANES / 2];
#pragma unroll
            for (u32 k = 0; k < LANES; ++k) {
                double value = line.number(loaded.lane + k);
                pairs[k / 2].lane[k % 2] = value;
                total = fma(value, value, total);
            }
#pragma unroll
            for (u32 k = 0; k < LANES / 2; ++k) *reinterpret_cast<Pack<double, 2> *>(to + i + 2 * k) = pairs[k];
        }
        i = end / LANES * LANES;
    }
#pragma unroll 4
    for (i += threadIdx.x; i < end; i += WARP) {
        double value = line.at(task, task.first + i);
        to[i] = value;
        total = fma(value, value, total);
    }
#pragma unroll
    for (u32 lane = WARP / 2; lane; lane /= 2) total += __shfl_xor_sync(~0u, total, lane);
    if (threadIdx.x == 0) atomicAdd(squares + number, total);
}

template <class Line>
static __device__ __forceinline__ void copy_across(
    const Task &task, u32 lines, double *copy, u32 pitch, double *squares
) {
    u32 blocks = (lines + COPY_THREADS - 1) / COPY_THREADS;
    u32 matrix = blockIdx.x / blocks, number = (blockIdx.x - matrix * blocks) * COPY_THREADS + threadIdx.x;
    if (number >= lines) return;
    u32 begin = blockIdx.y * task.share, end = min(begin + task.share, task.count);
    Line line(task, matrix, number);
    double *to = copy + ((u64)matrix * task.count + begin) * pitch + number, total = 0;
#pragma unroll 8
    for (u32 i = begin; i < end; ++i) {
        double value = line.at(task, task.first + i);
        *to = value;
        to += pitch;
        total = fma(value, value, total);
    }
    atomicAdd(squares + (u64)matrix * lines + number, total);
}

extern "C" __global__ void __launch_bounds__(256) copy_left_along(const __grid_constant__ Task task) {
    copy_along<LeftLine>(task, task.rows, task.left_copy, task.left_pitch, task.row_bounds);
}

#if WINDOW
extern "C" __global__ void __launch_bounds__(COPY_THREADS) unfold(const __grid_constant__ Task task) {
    u32 blocks = (task.columns + COPY_THREADS - 1) / COPY_THREADS;
    u32 matrix = blockIdx.x / blocks, column = (blockIdx.x - matrix * blocks) * COPY_THREADS + threadIdx.x;
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
    atomicAdd(task.column_bounds + (u64)matrix * task.columns + column, total);
}
#else
// Copies an operand so that the depth of a line lies side by side, for exact sums. The copy's matrices have no gaps.
const u32 TURN = 32, TURN_ROWS = 8;

template <class Line, class T>
static __device__ __forceinline__ void turn(const Task &task, u32 lines, double *copy) {
    __shared__ T part[TURN][TURN + 1];
    u32 across = (lines + TURN - 1) / TURN, matrix = blockIdx.x / across;
    u32 first = (blockIdx.x - matrix * across) * TURN, begin = blockIdx.y * TURN;
    T *to = (T *)copy + (u64)matrix * lines * task.depth;
    for (; begin < task.depth; begin += gridDim.y * TURN) {
        u32 number = first + threadIdx.x;
        if (number < lines) {
            Line line(task, matrix, number);
            for (u32 i = threadIdx.y; i < TURN && begin + i < task.depth; i += TURN_ROWS)
                part[i][threadIdx.x] = line.begin[(begin + i) * line.step];
        }
        __syncthreads();
        u32 along = begin + threadIdx.x;
        for (u32 i = threadIdx.y; i < TURN && first + i < lines; i += TURN_ROWS)
            if (along < task.depth) to[(u64)(first + i) * task.depth + along] = part[threadIdx.x][i];
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(TURN *TURN_ROWS) turn_left(const __grid_constant__ Task task) {
    turn<LeftLine, Left>(task, task.rows, task.left_copy);
}

extern "C" __global__ void __launch_bounds__(TURN *TURN_ROWS) turn_right(const __grid_constant__ Task task) {
    turn<RightLine, Right>(task, task.columns, task.right_copy);
}

extern "C" __global__ void __launch_bounds__(COPY_THREADS) copy_left_across(const __grid_constant__ Task task) {
    copy_across<LeftLine>(task, task.rows, task.left_copy, task.left_pitch, task.row_bounds);
}

extern "C" __global__ void __launch_bounds__(256) copy_right_along(const __grid_constant__ Task task) {
    copy_along<RightLine>(task, task.columns, task.right_copy, task.right_pitch, task.column_bounds);
}

extern "C" __global__ void __launch_bounds__(COPY_THREADS) copy_right_across(const __grid_constant__ Task task) {
    copy_across<RightLine>(task, task.columns, task.right_copy, task.right_pitch, task.column_bounds);
}
#endif
