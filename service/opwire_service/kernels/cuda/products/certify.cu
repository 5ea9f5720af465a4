// Sums with the bounds on their errors: where both ends of what a sum may be are rounded alike, that is the result. All
// other sums are listed.

const u32 CERTIFY_THREADS = 256;
const double SLACK = 0x1p-51;     // what an addend adds to the error, in parts of it
const double CLOSE = 0x1p-36;     // the relative error of what an activation is applied to, at most
const double ABSOLUTE = 0x1p-40;  // the error of what stays a double, at most

// False if the bound leaves it open: one on the error of the sum times alpha, or of the sum if there are scales.
static __device__ __forceinline__ bool certified(
    const Task &task, double factor, double sum, double bound, double addend, Output &into
) {
    double value = sum * factor;
    if (HAS_SCALES && is_finite(factor)) bound *= fabs(factor);
    if (!is_finite(factor)) {  // the sign decides
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

// Lists the elements that threads of the block leave open, so that those of a block stay together: bit i of `open`
// stands for the one that comes i steps after the first.
static __device__ __forceinline__ void list_open(const Task &task, u32 open, u32 first, u32 step) {
    __shared__ u32 begins[CERTIFY_THREADS / WARP];
    u32 thread = threadIdx.y * blockDim.x + threadIdx.x, lane = thread % WARP, warp = thread / WARP;
    u32 count = __popc(open), end = count;
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
        u32 begin = atomicAdd(task.open, total);
        for (u32 i = 0; i < CERTIFY_THREADS / WARP; ++i) {
            u32 own = begins[i];
            begins[i] = begin;
            begin += own;
        }
    }
    __syncthreads();
    u32 *to = task.open + 2 + begins[warp] + end - count;
    for (; open; open &= open - 1) *to++ = first + (__ffs((int)open) - 1) * step;
}

// The sums of a thread: of one row those whose columns are as many apart as the block is wide, so that neighbours in the
// list have the same row, or in a window of one column those of neighbouring rows. Where blocks are narrow, threads
// along y have the next ones.
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

const u32 CERTIFIED_TOGETHER = 4;  // loads in flight

extern "C" __global__ void __launch_bounds__(CERTIFY_THREADS) certify(const __grid_constant__ Task task) {
    Stripe stripe(task);
    u32 open = 0;
    if (stripe.count) {
        Spot spot = stripe.spot;
        Output *to = task.target + target_offset(task, spot.matrix, spot.row, spot.column);
        i64 apart = WINDOW ? task.target_steps.line : blockDim.x * task.target_steps.along;
        const double *beside = WINDOW ? task.row_bounds + spot.line : task.column_bounds + spot.across;
        double own = WINDOW ? task.column_bounds[spot.across] : task.row_bounds[spot.line];
        u32 beside_step = WINDOW ? 1 : blockDim.x;
        for (u32 i = 0; i < stripe.count; i += CERTIFIED_TOGETHER) {
            double sums[CERTIFIED_TOGETHER], others[CERTIFIED_TOGETHER];
#pragma unroll
            for (u32 j = 0; j < CERTIFIED_TOGETHER; ++j) {
                u32 k = min(i + j, stripe.count - 1);
                sums[j] = task.sums[stripe.element + k * stripe.step];
                others[j] = beside[k * beside_step];
            }
#pragma unroll
            for (u32 j = 0; j < CERTIFIED_TOGETHER; ++j) {
                if (i + j >= stripe.count) break;
                Spot here = spot;
                if (WINDOW) here.row += i + j;
                else here.column += (i + j) * blockDim.x;
                double addend = task.addend ? addend_of(task, here.matrix, here.row, here.column) : 0;
                Output into;
                // An infinite weight adds nothing in the padding.
                bool is_certain = !(WINDOW && !is_finite(others[j]));
                is_certain = is_certain && certified(task, factor_of(task, here), sums[j], own * others[j], addend, into);
                if (is_certain) to[(i + j) * apart] = into;
                else open |= 1u << (i + j);
            }
        }
    }
    list_open(task, open, stripe.element, stripe.step);
}

#if WINDOW
// The sum of the products of all channels and taps, and that of their magnitudes.
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

// Sums of few products: each thread computes one, and the sum of their magnitudes, which bounds the error.
extern "C" __global__ void __launch_bounds__(CERTIFY_THREADS) convolve(const __grid_constant__ Task task) {
    Stripe stripe(task);
    u32 open = 0;
    if (stripe.count) {
        const Spot &spot = stripe.spot;
        double magnitudes = 0, sum = task.depth ? window_sum(task, spot, magnitudes) : 0;
        double addend = task.addend ? addend_of(task, spot.matrix, spot.row, spot.column) : 0;
        Output into;
        if (certified(task, task.alpha, sum, magnitudes * task.error, addend, into))
            task.target[target_offset(task, spot.matrix, spot.row, spot.column)] = into;
        else
            open = 1;
    }
    list_open(task, open, stripe.element, 0);
}
#endif
