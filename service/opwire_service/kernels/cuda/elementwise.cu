// Formulas on all elements of outputs that lie densely, LANES of them at once. A generated part says what is read and
// written of one element, an Element and a Result, and of LANES of them, a Row and a ResultRow; `quick` computes a
// result, or returns false where that is open, and `careful` does the same more slowly, and mostly is certain; a block
// begins with `begin_block`. THREADS belong to a block, of which BLOCKS fit a multiprocessor at least. A launch has
// threads for all elements, or each thread GOES_ON as many elements further.

// One element, whatever it takes.
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

// BATCH times LANES elements of a thread.
static __device__ __forceinline__ void some(const Task &task, u32 begin) {
    Row rows[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 place = begin + n * THREADS * LANES;
        if (place + LANES > task.count) break;
        read(rows[n], task, place + task.first);
    }
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 place = begin + n * THREADS * LANES;
        u32 open = 0;
        if (place + LANES > task.count) {
            for (int k = 0; k < LANES; ++k) open |= (u32)(place + k < task.count) << k;
            place += task.first;
        } else {
            place += task.first;
            ResultRow results;
#pragma unroll
            for (int k = 0; k < LANES; ++k) {
                Result result;
                open |= (u32)!quick(lane(rows[n], k), result) << k;
                put(results, k, result);
            }
            write(task, place, results);
        }
        for (; open; open &= open - 1) alone(task, place + __ffs(open) - 1);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) compute(const __grid_constant__ Task task) {
    const u32 share = THREADS * BATCH * LANES;
    begin_block();
    u32 first = blockIdx.x * share;
    do {
        some(task, first + threadIdx.x * LANES);
        first += gridDim.x * share;
    } while (GOES_ON && first < task.count);
}
