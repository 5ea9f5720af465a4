// Softmax of contiguous blocks of doubles into an output of any strides.

const u32 SOFTMAX_THREADS = 512;
const u32 RANK = 4;

typedef INPUT Result;

struct Softmax {
    const double *values;
    Result *target;
    u64 block;           // elements per block
    u32 first, blocks;
    u32 kept[RANK], joined[RANK];            // sizes, outermost first: of the blocks, and within a block
    i64 kept_step[RANK], joined_step[RANK];  // of the output
};

static __device__ __forceinline__ i64 walked(const u32 (&sizes)[RANK], const i64 (&steps)[RANK], u64 index) {
    i64 offset = 0;
#pragma unroll
    for (int i = RANK - 1; i >= 0; --i) {
        u64 rest = index / sizes[i];
        offset += (i64)(index - rest * sizes[i]) * steps[i];
        index = rest;
    }
    return offset;
}

static __device__ __forceinline__ double combined(double a, double b, bool is_sum) {
    return is_sum ? a + b : fmax(a, b);
}

// Reduces over all threads in a fixed order; every thread gets the result.
static __device__ double of_block(double value, bool is_sum) {
    __shared__ double part[SOFTMAX_THREADS / 32];
    __shared__ double total;
#pragma unroll
    for (u32 lane = 16; lane; lane /= 2) value = combined(value, __shfl_xor_sync(~0u, value, lane), is_sum);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (u32 i = 1; i < SOFTMAX_THREADS / 32; ++i) value = combined(value, part[i], is_sum);
        total = value;
    }
    __syncthreads();
    return total;
}

extern "C" __global__ void __launch_bounds__(SOFTMAX_THREADS) normalize(const __grid_constant__ Softmax task) {
    u32 number = task.first + blockIdx.x;
    const double *values = task.values + number * task.block;
    Result *target = task.target + walked(task.kept, task.kept_step, number);
    double greatest = -__longlong_as_double(0x7ff0000000000000ll), total = 0;
    for (u64 i = threadIdx.x; i < task.block; i += SOFTMAX_THREADS) greatest = fmax(greatest, values[i]);
    greatest = of_block(greatest, false);
    for (u64 i = threadIdx.x; i < task.block; i += SOFTMAX_THREADS) total += exp(values[i] - greatest);
    total = of_block(total, true);
    for (u64 i = threadIdx.x; i < task.block; i += SOFTMAX_THREADS) {
        typedef Format<Result> F;
        double value = exp(values[i] - greatest) / total;
        target[walked(task.joined, task.joined_step, i)] =
            value != value ? F::make(F::quiet_nan) : F::make(F::nearest(value));
    }
}
