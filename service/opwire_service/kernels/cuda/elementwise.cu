// Elementwise formulas on contiguous outputs, LANES elements at once. Generated code reads and writes single elements
// (Element, Result) and groups of LANES (Row, ResultRow). `quick` computes a result and returns false if it is
// uncertain; `careful` is slower but nearly always certain; `begin_block` runs first in each block. A block has THREADS
// threads, and at least BLOCKS blocks are resident per multiprocessor. A launch has threads for all elements, unless
// GOES_ON, where blocks loop over them with a grid stride.

// Computes one element the careful way, and lists it if it is still uncertain.
static __device__ __noinline__ void alone(const Task &task, u32 place) {
    Element element;
    read(element, task, place);
    Result result;
    if (!careful(element, result)) {
        u32 i = atomicAdd(task.uncertain, 1u);
        if (i < task.room) {
            task.uncertain[2 + 2 * i] = place;
            task.uncertain[3 + 2 * i] = 0;
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
        u32 open = 0;
        if (place + LANES > task.count) {
            for (int k = 0; k < LANES; ++k) open |= (u32)(place + k < task.count) << k;
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
            for (int k = 0; k < LANES; ++k) open |= (u32)!settled[k] << k;
        }
        for (; open; open &= open - 1) alone(task, place + __ffs(open) - 1);
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
