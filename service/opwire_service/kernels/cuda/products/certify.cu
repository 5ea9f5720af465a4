// Sums with the bounds on their errors: where both ends of what a sum may be are rounded alike, that is the result. All
// other sums are listed.

const u32 CERTIFY_THREADS = 256;
const double SLACK = 0x1p-51;     // what an addend adds to the error, in parts of it
const double CLOSE = 0x1p-36;     // the relative error of what an activation is applied to, at most
const double ABSOLUTE = 0x1p-40;  // the error of what stays a double, at most

// False if the bound leaves it open.
static __device__ __forceinline__ bool certified(const Task &task, double sum, double bound, double addend, Output &into) {
    double value = sum * task.alpha;
    if (!is_finite(task.alpha)) {  // the sign decides
        if (is_finite(sum) && !(fabs(sum) > bound)) return false;
        bound = 0;
    }
    if (task.addend) {
        value += addend;
        bound += fabs(addend) * SLACK;
    }
    if (!is_finite(value)) {
        finished(into, value);
        return true;
    }
#if FINISH == 0
    typedef Format<Output> F;
    u32 high = F::nearest(value + bound), low = F::nearest(value - bound);
    into = F::make(value == 0 && bound == 0 ? 0 : high);
    return high == low || (value == 0 && bound == 0);
#else
    if (bound > (FINISH == OPEN ? ABSOLUTE : CLOSE * fabs(value))) return false;
    finished(into, value == 0 ? 0.0 : value);
    return true;
#endif
}

// One place in the list for each thread of the warp that wants one.
static __device__ __forceinline__ void list_open(const Task &task, bool is_open, u32 element) {
    u32 those = __ballot_sync(~0u, is_open);
    if (!those) return;
    u32 lane = threadIdx.x % WARP, leader = __ffs(those) - 1, begin = 0;
    if (lane == leader) begin = atomicAdd(task.open, __popc(those));
    begin = __shfl_sync(~0u, begin, leader);
    if (is_open) task.open[2 + begin + __popc(those & ((1u << lane) - 1))] = element;
}

extern "C" __global__ void __launch_bounds__(CERTIFY_THREADS) certify(const __grid_constant__ Task task) {
    u32 i = blockIdx.x * CERTIFY_THREADS + threadIdx.x;
    bool is_open = false;
    if (i < task.count) {
        u32 element = task.first + i, line = element / task.columns, column = element - line * task.columns;
        u32 matrix = line / task.rows, row = line - matrix * task.rows;
        double row_bound = task.row_bounds[line];
        double bound = row_bound * task.column_bounds[(u64)matrix * task.columns + column];
        double addend = task.addend ? addend_of(task, matrix, row, column) : 0;
        Output into;
        // An infinite weight adds nothing in the padding.
        is_open = WINDOW && !is_finite(row_bound);
        is_open = is_open || !certified(task, task.sums[element], bound, addend, into);
        if (!is_open) task.target[target_offset(task, matrix, row, column)] = into;
    }
    list_open(task, is_open, task.first + i);
}

#if WINDOW
// Sums of few products: each thread computes one, and the sum of their magnitudes, which bounds the error.
extern "C" __global__ void __launch_bounds__(CERTIFY_THREADS) convolve(const __grid_constant__ Task task) {
    u32 i = blockIdx.x * CERTIFY_THREADS + threadIdx.x;
    bool is_open = false;
    if (i < task.count) {
        u32 element = task.first + i, line = element / task.columns, column = element - line * task.columns;
        u32 matrix = line / task.rows, row = line - matrix * task.rows;
        LeftLine left(task, matrix, row);
        RightLine right(task, matrix, column);
        Taps taps(task.window, 0);
        double sum = 0, magnitudes = 0;
        for (u32 k = 0; k < task.depth; ++k, taps.next(task.window)) {
            const Input *from = right.find(task, taps);
            if (!from) continue;
            double product = number_at(from) * left.at(task, taps);
            sum += product;
            magnitudes += fabs(product);
        }
        double addend = task.addend ? addend_of(task, matrix, row, column) : 0;
        Output into;
        is_open = !certified(task, sum, magnitudes * task.error, addend, into);
        if (!is_open) task.target[target_offset(task, matrix, row, column)] = into;
    }
    list_open(task, is_open, task.first + i);
}
#endif
