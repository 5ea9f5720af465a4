// Elementwise formulas on contiguous outputs, LANES elements at once. Generated code reads and writes single elements
// (Element, Result) and groups of LANES (Row, ResultRow). `quick` computes a result and returns false if it is
// undecided; `settle` is slower but nearly always settled; `begin_block` runs first in each block. A block has THREADS
// threads, and at least BLOCKS blocks are resident per multiprocessor. A launch has threads for all elements, unless
// GOES_ON, where blocks loop over them with a grid stride.

// Computes one element exactly, and lists it if it is still undecided.
static __device__ __noinline__ void alone(const Task &task, u32 place) {
    Element element;
    read(element, task, place);
    Result result;
    if (!settle(element, result)) {
        u32 i = atomicAdd(task.undecided, 1u);
        if (i < task.room) {
            task.undecided[2 + 2 * i] = place;
            task.undecided[3 + 2 * i] = 0;
        }
    }
    write(task, place, result);
}

// Computes BATCH groups of LANES elements of a thread, `step` elements apart.
static __device__ __forceinline__ void some(const Task &task, u32 begin, u32 step) {
    Row rows[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 place = begin + n * step;
        if (place + LANES > task.count) break;
        read(rows[n], task, place + task.first);
    }
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 place = begin + n * step;
        u32 undecided = 0;
        if (place + LANES > task.count) {
            for (int k = 0; k < LANES; ++k) undecided |= (u32)(place + k < task.count) << k;
            place += task.first;
        } else {
            place += task.first;
            ResultRow results;
            bool settled[LANES], are_settled = true;
#pragma unroll
            for (int k = 0; k < LANES; ++k) {
                Result result;
                are_settled &= settled[k] = quick(lane(rows[n], k), result);
                put(results, k, result);
            }
            write(task, place, results);
            if (are_settled) continue;
#pragma unroll
            for (int k = 0; k < LANES; ++k) undecided |= (u32)!settled[k] << k;
        }
        for (; undecided; undecided &= undecided - 1) alone(task, place + __ffs(undecided) - 1);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) compute(const __grid_constant__ Task task) {
    const u32 row = THREADS * LANES;
    begin_block();
    if (!GOES_ON) return some(task, blockIdx.x * row * BATCH + threadIdx.x * LANES, row);
    // Rows are dealt out to blocks in turn, which balances their load.
    for (u32 first = blockIdx.x * row; first < task.count; first += gridDim.x * row * BATCH)
        some(task, first + threadIdx.x * LANES, gridDim.x * row);
}
