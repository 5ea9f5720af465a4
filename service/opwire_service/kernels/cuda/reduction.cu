// The loops of a reduction, around a Collector, which gathers the terms of a thread, and an Accumulator, which merges
// them. LANES elements are loaded at once, with ROW_BATCH or COLUMN_BATCH loads in flight. The last block to finish of
// those that share outputs merges their results. If PASS is QUICK, blocks with an undecided output are marked, and the
// same launch with PASS set to SETTLE settles those.

const int THREADS = 256;

static_assert(sizeof(Accumulator) == ACCUMULATOR_BYTES, "the caller sizes the partial results");

struct Task {
    const Input *source;
    Output *target;
    Accumulator *partial;  // by split, then output; unused without splits
    u32 *undecided;        // count, 0, then source and target offsets of the undecided outputs
    u32 *state;            // initially 0; unless PASS is ONLY: whether any block is marked, then a mark per block on x;
                           // with splits, then the number of finished splits per block along x
    Terms terms;
    u32 outputs;   // single outputs in `rows`, groups of LANES in `columns`
    u32 items;     // of the reduced loops: LANES terms each in `rows`, one in `columns`
    u32 stretch;   // items per split in `columns`
    u32 splits;
    u32 room;      // for undecided outputs
    u32 share;     // single outputs per block, a power of two
    u32 blocks;    // along x, if each share has one
    u32 unused;
    Loops kept, reduced;
};

struct Place {
    u32 source, target;
};

static __device__ __forceinline__ Place place(const Loops &loops, u32 index) {
    Place at = {0, 0};
#pragma unroll 1
    for (u32 i = 0; i + 1 < loops.count; ++i) {
        const Loop &loop = loops.loop[i];
        u32 outer = divided(index, loop);
        u32 inner = index - outer * loop.size;
        at.source += inner * loop.source;
        at.target += inner * loop.target;
        index = outer;
    }
    if (loops.count) {
        const Loop &loop = loops.loop[loops.count - 1];
        at.source += index * loop.source;
        at.target += index * loop.target;
    }
    return at;
}

typedef Pack<Input, LANES> Lanes;

static __device__ __forceinline__ Lanes load(const Input *at) { return *reinterpret_cast<const Lanes *>(at); }

// Loads a batch. Usually there is only one reduced loop, which takes no divisions.
template <int BATCH, class Item>
static __device__ __forceinline__ void load_batch(Lanes (&lanes)[BATCH], const Loops &reduced, const Input *source, Item item) {
    if (reduced.count <= 1) {
        u32 step = reduced.loop[0].source;
#pragma unroll
        for (int k = 0; k < BATCH; ++k) lanes[k] = load(source + item(k) * step);
    } else {
#pragma unroll
        for (int k = 0; k < BATCH; ++k) lanes[k] = load(source + place(reduced, item(k)).source);
    }
}

// Adds the terms of a batch of loads at once, or visits the loads one by one.
template <class Terms, class Visit>
static __device__ __forceinline__ void add_loads(Terms &terms, const Lanes (&lanes)[ROW_BATCH], Visit visit) {
    if constexpr (Terms::UNORDERED) {
        Wide values[ROW_BATCH * LANES];
#pragma unroll
        for (int k = 0; k < ROW_BATCH * LANES; ++k) values[k] = widen(lanes[k / LANES].lane[k % LANES]);
        terms.add(values, 0, 0);
    } else {
#pragma unroll
        for (int k = 0; k < ROW_BATCH; ++k) visit(k);
    }
}

static __device__ void finish(const Task &task, const Accumulator &total, Place at, u32 block) {
    Output output;
    bool settled = total.finish(output, task.source[at.source], task.terms);
    if (!settled && PASS == QUICK) {
        task.state[0] = task.state[1 + block] = 1;
    } else if (!settled) {
        u32 i = atomicAdd(task.undecided, 1u);
        if (i < task.room) {
            task.undecided[2 + 2 * i] = at.source;
            task.undecided[3 + 2 * i] = at.target;
        }
    }
    task.target[at.target] = output;
}

static __device__ __forceinline__ void merge_in_warp(Accumulator &total, u32 width) {
    for (u32 distance = width / 2; distance; distance /= 2) {
        const int WORDS = sizeof(Accumulator) / 4;
        union Words {
            Accumulator whole;
            u32 word[WORDS];
            __device__ Words() {}
        } words;
        words.whole = total;
#pragma unroll
        for (int i = 0; i < WORDS; ++i) words.word[i] = __shfl_xor_sync(~0u, words.word[i], distance);
        total.merge(words.whole);
    }
}

static __device__ __forceinline__ u32 thread_in_block() { return threadIdx.y * blockDim.x + threadIdx.x; }

// Merges `width` adjacent threads; only the first of them gets the result.
static __device__ __forceinline__ void merge_threads(Accumulator &total, u32 width) {
    merge_in_warp(total, min(width, 32));
    if (width <= 32) return;
    __shared__ __align__(16) char memory[THREADS / 32 * sizeof(Accumulator)];
    Accumulator *shared = reinterpret_cast<Accumulator *>(memory);
    u32 thread = thread_in_block();
    if (thread % 32 == 0) shared[thread / 32] = total;
    __syncthreads();
    if (thread % width == 0)
        for (u32 i = 1; i < width / 32; ++i) total.merge(shared[thread / 32 + i]);
    __syncthreads();
}

// Merges along y, and passes each lane with its result to one of the threads.
template <class Use>
static __device__ __forceinline__ void merge_along_y(Collector (&terms)[LANES], Use use) {
    __shared__ __align__(16) char memory[THREADS / 2 * LANES * sizeof(Accumulator)];
    Accumulator *shared = reinterpret_cast<Accumulator *>(memory) + threadIdx.x;
    u32 half = blockDim.y / 2, row = threadIdx.y % half * LANES;
    if (threadIdx.y >= half)
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) shared[(row + lane) * blockDim.x] = terms[lane].total();
    __syncthreads();
    if (threadIdx.y < half)
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) {
            Accumulator total = terms[lane].total();
            total.merge(shared[(row + lane) * blockDim.x]);
            shared[(row + lane) * blockDim.x] = total;
        }
    __syncthreads();
    for (u32 left = half * LANES / 2; left >= LANES; left /= 2) {
        for (u32 i = threadIdx.y; i < left; i += blockDim.y)
            shared[i * blockDim.x].merge(shared[(i + left) * blockDim.x]);
        __syncthreads();
    }
    for (u32 lane = threadIdx.y; lane < LANES; lane += blockDim.y) use(lane, shared[lane * blockDim.x]);
    __syncthreads();
}

// Whether this block is the last to finish of those that share its outputs; it then sees the writes of all of them.
static __device__ __forceinline__ bool last_of_splits(const Task &task, u32 block) {
    __shared__ bool last;
    __syncthreads();
    if (thread_in_block() == 0) {
        u32 *finished = task.state + (PASS == ONLY ? 0 : 1 + task.blocks) + block;
        __threadfence();
        last = atomicAdd(finished, 1u) + 1 == task.splits;
        if (last) *finished = 0;  // for the settling pass
        __threadfence();
    }
    __syncthreads();
    return last;
}

// Merges the splits of a block's outputs; `outputs` is the total number of single outputs.
template <class Where>
static __device__ __forceinline__ void merge_splits(const Task &task, u32 block, u64 outputs, Where where) {
    if (!last_of_splits(task, block)) return;
    u32 threads = blockDim.x * blockDim.y, width = max(threads / task.share, 1);
    for (u32 first = thread_in_block() / width; first < task.share; first += threads / width) {
        u64 output = (u64)block * task.share + first;
        bool present = output < outputs;
        Accumulator total;
        total.clear();
        if (present)
            for (u32 split = thread_in_block() % width; split < task.splits; split += width)
                total.merge(task.partial[split * outputs + output]);
        merge_threads(total, width);
        if (present && thread_in_block() % width == 0) finish(task, total, where((u32)output), block);
    }
}

// Threads along x share an output: x runs over items of LANES contiguous terms, y over outputs.
static __device__ __forceinline__ void rows(const Task &task, u32 block) {
    Collector terms;
    terms.clear();
    u64 output = (u64)block * blockDim.y + threadIdx.y;
    bool present = output < task.outputs;
    Place at = {0, 0};
    if (present) at = place(task.kept, (u32)output);
    // Splits are interleaved, so that all blocks read from the same region.
    u32 begin = blockIdx.y * blockDim.x + threadIdx.x, step = gridDim.y * blockDim.x;
    u32 count = present && begin < task.items ? (task.items - begin - 1) / step + 1 : 0;
    const Input *source = task.source + at.source;
    auto visit = [&](const Lanes &lanes, u32 item) {
        Wide values[LANES];
#pragma unroll
        for (int k = 0; k < LANES; ++k) values[k] = widen(lanes.lane[Accumulator::descending ? LANES - 1 - k : k]);
        u32 position = item * LANES + (Accumulator::descending ? LANES - 1 : 0);
        terms.add(values, position, Accumulator::descending ? ~0u : 1u);
    };
    auto item = [&](u32 i) { return begin + (Accumulator::descending ? count - 1 - i : i) * step; };
    u32 done = 0;
    for (; count - done >= ROW_BATCH; done += ROW_BATCH) {
        Lanes lanes[ROW_BATCH];
        load_batch(lanes, task.reduced, source, [&](int k) { return item(done + k); });
        add_loads(terms, lanes, [&](int k) { visit(lanes[k], item(done + k)); });
    }
    for (; done < count; ++done) visit(load(source + place(task.reduced, item(done)).source), item(done));
    Accumulator total = terms.total();
    merge_threads(total, blockDim.x);
    bool first = present && threadIdx.x == 0;
    if (task.splits == 1) {
        if (first) finish(task, total, at, block);
        return;
    }
    if (first) task.partial[(u64)blockIdx.y * task.outputs + output] = total;
    merge_splits(task, block, task.outputs, [&](u32 output) { return place(task.kept, output); });
}

// Hides a number's value from the compiler, so that values derived from it are recomputed instead of kept in registers.
static __device__ __forceinline__ u32 forgotten(u32 number) {
    asm volatile("" : "+r"(number));
    return number;
}

// Threads along x have LANES outputs each, contiguous in the input; threads along y share them.
static __device__ __forceinline__ void columns(const Task &task, u32 block) {
    Collector terms[LANES];
#pragma unroll
    for (int lane = 0; lane < LANES; ++lane) terms[lane].clear();
    u64 column = (u64)block * blockDim.x + threadIdx.x;
    bool present = column < task.outputs;
    u32 begin = blockIdx.y * task.stretch + threadIdx.y;
    u32 end = (u32)min((u64)blockIdx.y * task.stretch + task.stretch, (u64)task.items);
    u32 count = present && begin < end ? (end - begin - 1) / blockDim.y + 1 : 0;
    const Input *source = task.source + (present ? place(task.kept, (u32)column).source : 0);
    u32 step = Accumulator::descending ? 0u - blockDim.y : blockDim.y;
    auto item = [&](u32 i) { return begin + (Accumulator::descending ? count - 1 - i : i) * blockDim.y; };
    u32 done = 0;
    for (; count - done >= COLUMN_BATCH; done += COLUMN_BATCH) {
        Lanes lanes[COLUMN_BATCH];
        load_batch(lanes, task.reduced, source, [&](int k) { return item(done + k); });
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) {
            Wide values[COLUMN_BATCH];
#pragma unroll
            for (int k = 0; k < COLUMN_BATCH; ++k) values[k] = widen(lanes[k].lane[lane]);
            terms[lane].add(values, item(done), step);
        }
    }
    for (; done < count; ++done) {
        Lanes lanes = load(source + place(task.reduced, item(done)).source);
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) {
            Wide values[1] = {widen(lanes.lane[lane])};
            terms[lane].add(values, item(done), step);
        }
    }
    block = forgotten(block);
    column = (u64)block * blockDim.x + threadIdx.x;
    present = column < task.outputs;
    Place at = {0, 0};
    if (present) at = place(task.kept, (u32)column);
    u32 target_step = task.kept.loop[0].target / LANES;
    auto beside = [&](Place at, u32 lane) { return Place{at.source + lane, at.target + lane * target_step}; };
    auto use = [&](u32 lane, const Accumulator &total) {
        if (!present) return;
        if (task.splits > 1)
            task.partial[((u64)blockIdx.y * task.outputs + column) * LANES + lane] = total;
        else
            finish(task, total, beside(at, lane), block);
    };
    if (blockDim.y > 1) {
        merge_along_y(terms, use);
    } else {
#pragma unroll
        for (int lane = 0; lane < LANES; ++lane) use(lane, terms[lane].total());
    }
    if (task.splits > 1)
        merge_splits(task, block, (u64)task.outputs * LANES,
                     [&](u32 output) { return beside(place(task.kept, output / LANES), output % LANES); });
}

template <class Work> static __device__ __forceinline__ void for_blocks(const Task &task, Work work) {
    if (PASS == SETTLE && !task.state[0]) return;
    Accumulator::prepare();
    if (PASS != SETTLE) return work(blockIdx.x);
    for (u32 block = blockIdx.x; block < task.blocks; block += gridDim.x)
        if (task.state[1 + block]) work(block);
}

extern "C" __global__ void __launch_bounds__(THREADS, ROW_BLOCKS) reduce_rows(const __grid_constant__ Task task) {
    for_blocks(task, [&](u32 block) { rows(task, block); });
}

extern "C" __global__ void __launch_bounds__(THREADS, COLUMN_BLOCKS) reduce_columns(const __grid_constant__ Task task) {
    for_blocks(task, [&](u32 block) { columns(task, block); });
}
