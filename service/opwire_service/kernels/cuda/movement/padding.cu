// Pads the rows of a tensor at both ends, with a constant or with elements of the row, as MODE selects.

const u32 THREADS = 256;
const int BATCH = 4;  // units in flight per thread

const int CONSTANT = 0, EDGE = 1, REFLECTION = 2, SYMMETRIC = 3, WRAP = 4;

struct Padding {
    const Unit *source;
    Unit *target;
    u64 value;
    u32 first, count;       // rows
    u32 width, size;        // of target rows, and of source rows
    u32 start, unused;      // units before the source row
    u32 step, target_step;  // along a row
    Walk walk;              // of the rows: source, target
};

// The unit of the source row for a place of the padded row.
static __device__ __forceinline__ u32 folded(const Padding &padding, u32 at) {
    u32 size = padding.size, start = padding.start;
    bool is_before = at < start;
    if (!is_before && at - start < size) return at - start;
    if (MODE == EDGE || size == 1) return is_before ? 0 : size - 1;
    // Distance beyond the nearer end, counted from 0, then reduced by whole periods.
    u32 beyond = is_before ? start - 1 - at : at - start - size;
    if (MODE == WRAP) return is_before ? size - 1 - beyond % size : beyond % size;
    u32 length = MODE == REFLECTION ? size - 1 : size, within = beyond % length;
    bool is_turned = beyond / length % 2;
    u32 inward = MODE == REFLECTION ? within + 1 : within;
    return is_before != is_turned ? inward : size - 1 - inward;
}

extern "C" __global__ void __launch_bounds__(THREADS) pad_rows(const __grid_constant__ Padding padding) {
    u32 row = blockIdx.x * blockDim.y + threadIdx.y, offset[STEPS];
    u32 column = blockIdx.y * (blockDim.x * BATCH) + threadIdx.x;
    if (row >= padding.count) return;
    walk(padding.walk, padding.first + row, offset);
    Unit units[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 at = column + n * blockDim.x;
        if (at >= padding.width) continue;
        if (MODE == CONSTANT) {
            u32 from = at - padding.start;
            units[n] = at >= padding.start && from < padding.size ? padding.source[offset[0] + from * padding.step]
                                                                  : (Unit)padding.value;
        } else {
            units[n] = padding.source[offset[0] + folded(padding, at) * padding.step];
        }
    }
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 at = column + n * blockDim.x;
        if (at < padding.width) padding.target[offset[1] + at * padding.target_step] = units[n];
    }
}
