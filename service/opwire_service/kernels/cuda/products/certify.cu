// Certifies sums by their error bounds: if both ends of a sum's interval round to the same value, that is the result.
// All other sums are listed as undecided.

const u32 CERTIFY_THREADS = 256;
const double SLACK = 0x1p-51;     // error due to an addend, relative to the addend
const double CLOSE = 0x1p-36;     // maximum relative error of an activation's operand
const double ABSOLUTE = 0x1p-40;  // maximum absolute error of a result that stays a double

// Returns false if the result is undecided. `bound` limits the error of sum * alpha, or of the sum alone with scales.
static __device__ __forceinline__ bool certified(
    const Task &task, double factor, double sum, double bound, double addend, Output &into
) {
    double value = sum * factor;
    if (HAS_SCALES && is_finite(factor)) bound *= fabs(factor);
    if (!is_finite(factor)) {  // only the sign matters
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
    if (bound != bound) return false;  // an infinite operand that meets nothing but padding
#if FINISH == 0
    typedef Format<Output> F;
    u32 high = F::nearest(value + bound), low = F::nearest(value - bound);
    into = F::make(value == 0 && bound == 0 ? 0 : high);
    return high == low || (value == 0 && bound == 0);
#else
    if (bound > (FINISH == UNROUNDED ? ABSOLUTE : CLOSE * fabs(value))) return false;
    finished(into, value == 0 ? 0.0 : value);
    return true;
#endif
}

// Lists the undecided elements of the block's threads contiguously. Bit i of `undecided` stands for the element i steps
// after the first.
static __device__ __forceinline__ void list_undecided(const Task &task, u32 undecided, u32 first, u32 step) {
    __shared__ u32 begins[CERTIFY_THREADS / WARP];
    u32 thread = threadIdx.y * blockDim.x + threadIdx.x, lane = thread % WARP, warp = thread / WARP;
    u32 count = __popc(undecided), end = count;
    if (!__syncthreads_or((int)count)) return;
#pragma unroll
    for (u32 other = 1; other < WARP; other *= 2) {
        u32 before = __shfl_up_sync(~0u, end, other);
        if (lane >= other) end += before;
    }
    if (lane == WARP - 1) begins[warp] = end;
    __syncthreads();
    if (thread == 0) {
        u32 total = 0;
        for (u32 i = 0; i < CERTIFY_THREADS / WARP; ++i) total += begins[i];
        u32 begin = atomicAdd(task.undecided, total);
        for (u32 i = 0; i < CERTIFY_THREADS / WARP; ++i) {
            u32 own = begins[i];
            begins[i] = begin;
            begin += own;
        }
    }
    __syncthreads();
    u32 *to = task.undecided + 2 + begins[warp] + end - count;
    for (; undecided; undecided &= undecided - 1) *to++ = first + (__ffs((int)undecided) - 1) * step;
}

// The sums of a thread: of one row, in columns one block width apart, so that adjacent list entries share a row; or
// with WINDOW, of one column, in consecutive rows. Threads along y take the next rows where blocks are narrow.
struct Stripe {
    Spot spot;
    u32 element, step, count;

    __device__ __forceinline__ Stripe(const Task &task) {
        u32 wide = WINDOW ? 1 : task.share, high = WINDOW ? task.share : 1, width = blockDim.x * wide;
        u32 chunks = (task.columns + width - 1) / width, groups = (task.rows + high - 1) / high;
        u32 block = task.first + blockIdx.x, outer = block / chunks;
        u32 group = outer * blockDim.y + threadIdx.y;
        spot.matrix = group / groups;
        spot.row = (group - spot.matrix * groups) * high;
        spot.column = (block - outer * chunks) * width + threadIdx.x;
        spot.line = spot.matrix * task.rows + spot.row;
        spot.across = spot.matrix * task.columns + spot.column;
        element = spot.line * task.columns + spot.column;
        step = WINDOW ? task.columns : blockDim.x;
        count = 0;
        if (spot.matrix < task.matrices && spot.column < task.columns) {
            u32 left = WINDOW ? task.rows - spot.row : (task.columns - spot.column + blockDim.x - 1) / blockDim.x;
            count = min(task.share, left);
        }
    }
};

// Certifies a sum of the matrices. With WINDOW it is undecided if the bound is infinite, since an infinite weight
// contributes nothing where it meets padding.
static __device__ __forceinline__ bool is_settled(
    const Task &task, double factor, double sum, double own, double beside, double addend, Output &into
) {
    return !(WINDOW && !is_finite(beside)) && certified(task, factor, sum, own * beside, addend, into);
}

// Fast variant that also returns false for infinities and NaN.
static __device__ __forceinline__ bool is_settled_at_once(
    const Task &task, double factor, double sum, double own, double beside, double addend, Output &into
) {
#if FINISH == 0
    typedef Format<Output> F;
    double value = sum * factor, bound = own * beside;
    if (HAS_SCALES) bound *= fabs(factor);
    if (task.addend) {
        value += addend;
        bound += fabs(addend) * SLACK;
    }
    u32 high = F::nearest(value + bound), low = F::nearest(value - bound);
    into = F::make(high);
    return high == low && (high & F::infinity) != F::infinity && is_finite(factor);
#else
    return is_settled(task, factor, sum, own, beside, addend, into);
#endif
}

// Iterator over the sums of a stripe: the addresses read and written, and their steps.
struct Course {
    const double *sum, *beside;
    Output *to;
    i64 sum_step, beside_step, to_step;
    double own;
    Spot spot;

    __device__ __forceinline__ Course(const Task &task, const Stripe &stripe) : spot(stripe.spot) {
        sum = task.sums + stripe.element;
        sum_step = stripe.step;
        beside = WINDOW ? task.row_bounds + spot.line : task.column_bounds + spot.across;
        beside_step = WINDOW ? 1 : blockDim.x;
        own = WINDOW ? task.column_bounds[spot.across] : task.row_bounds[spot.line];
        to = task.target + target_offset(task, spot.matrix, spot.row, spot.column);
        to_step = WINDOW ? task.target_steps.line : blockDim.x * task.target_steps.along;
    }
    __device__ __forceinline__ void advance(u32 count) {
        sum += count * sum_step;
        beside += count * beside_step;
        to += count * to_step;
        if (WINDOW) spot.row += count;
        else spot.column += count * blockDim.x;
    }
    __device__ __forceinline__ double addend(const Task &task) const {
        return task.addend ? addend_of(task, spot.matrix, spot.row, spot.column) : 0;
    }
    // Settles the next COUNT sums, all read at once. Returns the bits of the undecided ones.
    template <u32 COUNT> __device__ __forceinline__ u32 settle(const Task &task) {
        double sums[COUNT], others[COUNT];
#pragma unroll
        for (u32 i = 0; i < COUNT; ++i) {
            sums[i] = sum[i * sum_step];
            others[i] = beside[i * beside_step];
        }
        u32 undecided = 0;
#pragma unroll
        for (u32 i = 0; i < COUNT; ++i, advance(1)) {
            Output into;
            if (is_settled_at_once(task, factor_of(task, spot), sums[i], own, others[i], addend(task), into)) *to = into;
            else undecided |= 1u << i;
        }
        return undecided;
    }
};

const u32 CERTIFIED_TOGETHER = 4;
const u32 CERTIFY_BLOCKS = 6;  // resident per multiprocessor

extern "C" __global__ void __launch_bounds__(CERTIFY_THREADS, CERTIFY_BLOCKS) certify(const __grid_constant__ Task task) {
    Stripe stripe(task);
    u32 undecided = 0;
    if (stripe.count) {
        Course course(task, stripe);
        u32 i = 0;
        for (; i + CERTIFIED_TOGETHER <= stripe.count; i += CERTIFIED_TOGETHER)
            undecided |= course.settle<CERTIFIED_TOGETHER>(task) << i;
        for (; i < stripe.count; ++i) undecided |= course.settle<1>(task) << i;
        for (u32 rest = FINISH == ROUNDED ? undecided : 0; rest; rest &= rest - 1) {
            Course at(task, stripe);
            at.advance(__ffs((int)rest) - 1);
            Output into;
            double factor = factor_of(task, at.spot);
            if (!is_settled(task, factor, *at.sum, at.own, *at.beside, at.addend(task), into)) continue;
            *at.to = into;
            undecided &= ~(rest & -rest);
        }
    }
    list_undecided(task, undecided, stripe.element, stripe.step);
}

#if WINDOW
// The sum of the products over all channels and taps, and the sum of their magnitudes.
static __device__ __forceinline__ double window_sum(const Task &task, const Spot &spot, double &magnitudes) {
    const Window &window = task.window;
    LeftLine left(task, spot.matrix, spot.row);
    RightLine right(task, spot.matrix, spot.column);
    u32 channels = task.depth / (window.taps[0] * window.taps[1] * window.taps[2]);
    i64 along = window.turn[2] * window.space[2];
    double sum = 0;
    for (u32 c = 0; c < channels; ++c, left.begin += window.weight_channel, right.begin += window.channel) {
        const Left *plane = left.begin;
        i64 z = right.spot[0];
        for (u32 i = 0; i < window.taps[0]; ++i, z += window.turn[0], plane += window.weight[0]) {
            if ((u64)z >= window.size[0]) continue;
            const Left *line = plane;
            i64 y = right.spot[1];
            for (u32 j = 0; j < window.taps[1]; ++j, y += window.turn[1], line += window.weight[1]) {
                if ((u64)y >= window.size[1]) continue;
                const Left *weight = line;
                i64 x = right.spot[2];
                const Right *from = right.begin + z * window.space[0] + y * window.space[1] + x * window.space[2];
#pragma unroll 4
                for (u32 k = 0; k < window.taps[2]; ++k, x += window.turn[2], from += along, weight += window.weight[2]) {
                    if ((u64)x >= window.size[2]) continue;
                    double number = number_at(from), other = number_at(weight);
                    sum = fma(number, other, sum);
                    magnitudes = fma(fabs(number), fabs(other), magnitudes);
                }
            }
        }
    }
    return sum;
}

// Sums of few products: each thread computes one, and bounds its error by the sum of the magnitudes.
extern "C" __global__ void __launch_bounds__(CERTIFY_THREADS) convolve(const __grid_constant__ Task task) {
    Stripe stripe(task);
    u32 undecided = 0;
    if (stripe.count) {
        const Spot &spot = stripe.spot;
        double magnitudes = 0, sum = task.depth ? window_sum(task, spot, magnitudes) : 0;
        double addend = task.addend ? addend_of(task, spot.matrix, spot.row, spot.column) : 0;
        Output into;
        if (certified(task, task.alpha, sum, magnitudes * task.error, addend, into))
            task.target[target_offset(task, spot.matrix, spot.row, spot.column)] = into;
        else
            undecided = 1;
    }
    list_undecided(task, undecided, stripe.element, 0);
}
#endif
