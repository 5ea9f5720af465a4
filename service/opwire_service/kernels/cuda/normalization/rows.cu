// Operators that compute each element from a reduction over its row. A family defines
//   State: the reduction: clear(peak), add(lanes, values, first, kept), merge(other); PEAKED if the largest element
//          should be known beforehand where that is free, SHIFTED if the first one must be; kept are terms that `value` can reuse; if IS_JOINED, threads
//          that hold rows exchange only held(), combined by join and read back by take
//   Row:   of(state, numbers), or of_held(state, numbers, sum), where sum(term) accumulates terms of all elements in
//          Sums; value<IS_KEPT>(x, index, kept, beside, numbers, result) returns whether the result is settled; if
//          TELLS_AT_ONCE, at_once<IS_KEPT>(lanes, x, kept, beside, results) computes LANES elements and returns the
//          bits of the undecided ones, without a branch if there are none, as is usual
//   KEEPS: whether terms are kept at all; prepare(): run first by each block
//   settling::State and settling::Row, if RESUMS: sum rows again whose results Row leaves undecided, and settle those; no
//          blocks share such rows
// If BY_ROWS, LANES consecutive elements of a row are contiguous and SHARING threads along x share a row; otherwise
// threads along y do. A row is STRAIGHT if a single step leads from each item to the next, and FULL if every thread
// that holds it holds HELD items. A block that holds a row prefetches that of the block PREFETCHED later, unless it is
// 0. SCALE, BIAS and ADDED name the walks of those tensors.

const int SOURCE_AT = 0, TARGET_AT = 1, SCALE_AT = 2, BIAS_AT = 3, ADDED_AT = 4, MEAN_AT = 5, VARIANCE_AT = 6;
const u32 STATISTIC = ~0u;  // in place of an element's index: the statistics of a row are undecided

static_assert(sizeof(State) == STATE_BYTES && sizeof(Row) == ROW_BYTES, "the caller sizes the scratch memory");

struct Task {
    const Element *source;
    Element *target;
    const Element *scale, *bias, *added;
    Element *mean, *variance;  // inputs, outputs, or null
    State *partial;            // by split, then row
    Row *rows;
    u32 *undecided;  // count, 0, then rows and indices of the undecided results
    Numbers numbers;
    u32 first, outputs;  // the rows of this launch
    u32 items;           // per row, LANES elements each
    u32 stretch;         // items per split
    u32 splits;
    u32 room;            // for undecided results
    u32 step[TENSORS];   // between the LANES elements of an item
    u32 unused;
    Nest kept, reduced;
};

static __device__ __forceinline__ void go_along(const Task &task, u32 item, Offsets &at) {
    if (STRAIGHT) walk(task.reduced.axis[0], item, at);
    else go_to(task.reduced, item, at);
}

static __device__ __forceinline__ u32 source_offset(const Task &task, u32 item) {
    return STRAIGHT ? item * task.reduced.axis[0].step[SOURCE_AT] : first_offset(task.reduced, item);
}

static __device__ __forceinline__ void list(const Task &task, u32 row, u32 index) {
    u32 i = atomicAdd(task.undecided, 1u);
    if (i < task.room) {
        task.undecided[2 + 2 * i] = row;
        task.undecided[3 + 2 * i] = index;
    }
}

template <int WALK>
static __device__ __forceinline__ float one_beside(const Element *from, u32 place, float otherwise) {
    return WALK == NOTHING ? otherwise : (float)widen(from[place]);
}

// Recomputes the undecided elements, few if any, one by one and from scratch.
template <class Settling>
static __device__ __forceinline__ void settle(
    const Task &task, const Settling &row, u32 output, const Offsets &at, u32 item, u32 undecided
) {
#pragma unroll 1
    for (; undecided; undecided &= undecided - 1) {
        u32 k = __ffs(undecided) - 1, index = item * LANES + k;
        Beside beside = {
            one_beside<SCALE>(task.scale, at.of[SCALE_AT] + k * task.step[SCALE_AT], 1),
            one_beside<BIAS>(task.bias, at.of[BIAS_AT] + k * task.step[BIAS_AT], 0),
            one_beside<ADDED>(task.added, at.of[ADDED_AT] + k * task.step[ADDED_AT], 0),
        };
        float x = widen(task.source[at.of[SOURCE_AT] + k]);
        Element result;
        if (!row.template value<false>(x, index, {}, beside, task.numbers, result)) list(task, output, index);
        task.target[at.of[TARGET_AT] + k] = result;
    }
}

// Computes and stores the LANES results of an item of a row, and leaves the undecided ones.
template <bool IS_KEPT, class Own, class Leave>
static __device__ __forceinline__ void put(
    const Task &task, const Own &row, Offsets at, u32 item, const Lanes &lanes, const Kept (&kept)[LANES], Leave leave
) {
    go_along(task, item, at);
    float x[LANES], scale[LANES], bias[LANES], added[LANES];
    widened(lanes, x);
    load_beside<SCALE>(task.scale + at.of[SCALE_AT], task.step[SCALE_AT], 1, scale);
    load_beside<BIAS>(task.bias + at.of[BIAS_AT], task.step[BIAS_AT], 0, bias);
    load_beside<ADDED>(task.added + at.of[ADDED_AT], task.step[ADDED_AT], 0, added);
    Beside beside[LANES];
    Lanes results;
#pragma unroll
    for (int k = 0; k < LANES; ++k) beside[k] = {scale[k], bias[k], added[k]};
    u32 undecided;
    if constexpr (Own::TELLS_AT_ONCE) {
        undecided = row.template at_once<IS_KEPT>(lanes, x, kept, beside, results.lane);
    } else {
        undecided = undecided_of<LANES>([&](int k) {
            u32 index = item * LANES + k;
            return row.template value<IS_KEPT>(x[k], index, kept[k], beside[k], task.numbers, results.lane[k]);
        });
    }
    *reinterpret_cast<Lanes *>(task.target + at.of[TARGET_AT]) = results;
    if (undecided) leave(at, item, undecided);
}

#if !RESUMS
static __device__ __forceinline__ void leave(
    const Task &task, const Row &row, u32 output, const Offsets &at, u32 item, u32 undecided
) {
    if (Row::TELLS_AT_ONCE) {
        settle(task, row, output, at, item, undecided);
    } else {
        for (; undecided; undecided &= undecided - 1) list(task, output, item * LANES + __ffs(undecided) - 1);
    }
}
#endif

template <class S> static __device__ __forceinline__ S cleared(float peak = Bounds<float>::lowest()) {
    S state;
    state.clear(peak);
    return state;
}

// What a state is cleared to: the first element of the row where it must be known.
template <class S> static __device__ __forceinline__ float start_of(const Task &task, const Offsets &at) {
    return S::SHIFTED ? (float)widen(task.source[at.of[SOURCE_AT]]) : Bounds<float>::lowest();
}

template <int WIDTH, class S> static __device__ __forceinline__ void join_rows(S &state) {
    join_along_x<WIDTH>(state, [](S &a, const S &b) { a.merge(b); });
}

// Reduces along y, for threads that share columns.
template <class S> static __device__ __forceinline__ void join_columns(S &state) {
    __shared__ __align__(16) char memory[BLOCK * sizeof(S)];
    S *shared = reinterpret_cast<S *>(memory);
    u32 mine = threadIdx.y * blockDim.x + threadIdx.x;
    shared[mine] = state;
    for (u32 half = blockDim.y / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.y < half) {
            state.merge(shared[mine + half * blockDim.x]);
            shared[mine] = state;
        }
    }
    __syncthreads();
    state = shared[threadIdx.x];
}

// The row of a thread, and the thread's index among those that share the row.
struct Part {
    u32 output, lead, sharing;
    bool present;
    Offsets at;
};

static __device__ __forceinline__ Part part_of(const Task &task) {
    Part part;
    u64 output = (u64)blockIdx.x * (BY_ROWS ? blockDim.y : blockDim.x) + (BY_ROWS ? threadIdx.y : threadIdx.x);
    part.present = output < task.outputs;
    part.output = task.first + (u32)output;
    part.lead = BY_ROWS ? threadIdx.x : threadIdx.y;
    part.sharing = BY_ROWS ? blockDim.x : blockDim.y;
    part.at = Offsets{};
    if (part.present) go_to(task.kept, part.output, part.at);
    return part;
}

// Visits a thread's items in [begin, end), with BATCH loads in flight.
template <class Visit>
static __device__ __forceinline__ void visit(const Task &task, const Part &part, u32 begin, u32 end, Visit use) {
    if (!part.present) return;
    const Element *source = task.source + part.at.of[SOURCE_AT];
    auto from = [&](u32 item) { return load(source + source_offset(task, item)); };
    u64 item = (u64)begin + part.lead;
    for (; item + (u64)(BATCH - 1) * part.sharing < end; item += (u64)BATCH * part.sharing) {
        Lanes lanes[BATCH];
#pragma unroll
        for (int n = 0; n < BATCH; ++n) lanes[n] = from((u32)item + n * part.sharing);
#pragma unroll
        for (int n = 0; n < BATCH; ++n) use(lanes[n], (u32)item + n * part.sharing);
    }
    for (; item < end; item += part.sharing) use(from((u32)item), (u32)item);
}

template <class S, class K>
static __device__ __forceinline__ S gathered(const Task &task, const Part &part, u32 begin, u32 end, float peak) {
    S state = cleared<S>(peak);
    visit(task, part, begin, end, [&](const Lanes &lanes, u32 item) {
        float values[LANES];
        K kept[LANES];
        widened(lanes, values);
        state.add(lanes, values, item * LANES, kept);
    });
    if (BY_ROWS)
        join_rows<SHARING>(state);
    else
        join_columns(state);
    return state;
}

template <class Leave>
static __device__ __forceinline__ void put_all(
    const Task &task, const Part &part, const Row &row, u32 begin, u32 end, Leave leave
) {
    Kept kept[LANES] = {};
    visit(task, part, begin, end, [&](const Lanes &lanes, u32 item) {
        put<false>(task, row, part.at, item, lanes, kept, leave);
    });
}

#if RESUMS
// A row summed again by what settles its undecided results; all threads that share it take part.
static __device__ __forceinline__ settling::Row settling_row(const Task &task, const Part &part, float peak) {
    typedef settling::State Again;
    return settling::Row::of(gathered<Again, settling::Kept>(task, part, 0, task.items, peak), task.numbers);
}
#endif

static __device__ __forceinline__ u32 split_begin(const Task &task) { return blockIdx.y * task.stretch; }
static __device__ __forceinline__ u32 split_end(const Task &task) {
    return (u32)min((u64)blockIdx.y * task.stretch + task.stretch, (u64)task.items);
}

static __device__ __forceinline__ void put_statistics(const Task &task, const Row &row, u32 output, const Offsets &at) {
#if STATISTICS
    Element &mean = task.mean[at.of[MEAN_AT]], &variance = task.variance[at.of[VARIANCE_AT]];
    if (!row.statistics(mean, variance, task.numbers)) list(task, output, STATISTIC);
#endif
}

#if HELD
// Index within the row of a thread's n-th item, and whether it exists.
static __device__ __forceinline__ u32 held_item(u32 n) { return threadIdx.x + n * SHARING; }
static __device__ __forceinline__ bool is_held(u32 n, u32 items) { return FULL || held_item(n) < items; }

// Accumulates a term function over all values that the threads of a row hold.
struct HeldSum {
    const Lanes (&lanes)[HELD];
    u32 items;

    template <class Term> __device__ __forceinline__ Sums operator()(Term term) const {
        Sums total = {0, 0};
#pragma unroll
        for (int n = 0; n < HELD; ++n)
            if (is_held(n, items)) {
                float values[LANES];
                widened(lanes[n], values);
#pragma unroll
                for (int k = 0; k < LANES; ++k) term(values[k], total);
            }
        join_along_x<SHARING>(total, [](Sums &a, const Sums &b) {
            a.first += b.first;
            a.second += b.second;
        });
        return total;
    }
    // Whether any thread of the row wants a sum; all threads then take part.
    __device__ __forceinline__ bool is_wanted(bool by_me) const {
        return SHARING <= 32 ? __any_sync(~0u, by_me) : __syncthreads_or(by_me);
    }
};

// Requires one row per block, with contiguous elements.
static __device__ __forceinline__ void prefetch_row(const Task &task) {
    u64 output = (u64)blockIdx.x + PREFETCHED;
    if (!PREFETCHED || threadIdx.x || output >= task.outputs) return;
    Offsets at = {};
    go_to(task.kept, task.first + (u32)output, at);
    prefetch(task.source + at.of[SOURCE_AT], task.items * sizeof(Lanes));
}

// Rows held in the registers of a block, with all loads in flight at once. Threads without a row read the first one but
// store nothing; items past the end of a row repeat the last one.
extern "C" __global__ void __launch_bounds__(BLOCK, RESIDENT) held_rows(const __grid_constant__ Task task) {
    prefetch_row(task);
    if (!RESUMS) prepare();
    Part part = part_of(task);
    const Element *source = task.source + part.at.of[SOURCE_AT];
    Lanes lanes[HELD];
    float values[HELD][LANES];
    Kept kept[HELD][LANES];
#pragma unroll
    for (int n = 0; n < HELD; ++n)
        lanes[n] = load(source + source_offset(task, FULL ? held_item(n) : min(held_item(n), task.items - 1)));
    if (RESUMS) prepare();  // while loads are in flight
#pragma unroll
    for (int n = 0; n < HELD; ++n) widened(lanes[n], values[n]);
    State state;
    float peak = start_of<State>(task, part.at);
    if (State::PEAKED) {
        peak = greatest_of(lanes);
        join_along_x<SHARING>(peak, [](float &a, float b) { a = greater(a, b); });
    }
    state.clear(peak);
#pragma unroll
    for (int n = 0; n < HELD; ++n)
        if (is_held(n, task.items)) state.add(lanes[n], values[n], held_item(n) * LANES, kept[n]);
    if (State::IS_JOINED) {
        State::Held held = state.held();
        join_along_x<SHARING>(held, [](State::Held &a, const State::Held &b) { State::join(a, b); });
        state.take(held);
    }
#pragma unroll
    for (int n = 0; n < HELD; ++n) forget(lanes[n]);
    Row row = Row::of_held(state, task.numbers, HeldSum{lanes, task.items});
    if (part.present && threadIdx.x == 0) put_statistics(task, row, part.output, part.at);
#if RESUMS
    u32 undecided = 0;  // of the LANES results of each item
    auto left = [&](const Offsets &, u32 item, u32 lanes) { undecided |= lanes << (item - threadIdx.x) / SHARING * LANES; };
#else
    auto left = [&](const Offsets &at, u32 item, u32 lanes) { leave(task, row, part.output, at, item, lanes); };
#endif
#pragma unroll
    for (int n = 0; n < HELD; ++n) {
        forget(lanes[n]);
        if (part.present && is_held(n, task.items)) put<KEEPS>(task, row, part.at, held_item(n), lanes[n], kept[n], left);
    }
#if RESUMS
    if (!HeldSum{lanes, task.items}.is_wanted(undecided)) return;
    settling::Row again = settling_row(task, part, peak);
#pragma unroll 1
    for (u32 n = 0; undecided; ++n, undecided >>= LANES) {
        u32 of_item = undecided & ((1u << LANES) - 1);
        Offsets at = part.at;
        go_along(task, held_item(n), at);
        if (of_item) settle(task, again, part.output, at, held_item(n), of_item);
    }
#endif
}
#else
// Rows that a block reads twice, once to reduce and once to compute results.
extern "C" __global__ void __launch_bounds__(BLOCK) whole_rows(const __grid_constant__ Task task) {
    prepare();
    Part part = part_of(task);
    const float start = start_of<State>(task, part.at);
    Row row = Row::of(gathered<State, Kept>(task, part, 0, task.items, start), task.numbers);
    if (part.present && part.lead == 0) put_statistics(task, row, part.output, part.at);
#if RESUMS
    u32 undecided = 0;
    put_all(task, part, row, 0, task.items, [&](const Offsets &, u32, u32 lanes) { undecided |= lanes; });
    if (!__syncthreads_or(undecided)) return;
    settling::Row again = settling_row(task, part, start);
    if (undecided)
        put_all(task, part, row, 0, task.items, [&](const Offsets &at, u32 item, u32 lanes) {
            settle(task, again, part.output, at, item, lanes);
        });
#else
    put_all(task, part, row, 0, task.items, [&](const Offsets &at, u32 item, u32 lanes) {
        leave(task, row, part.output, at, item, lanes);
    });
#endif
}

#if !RESUMS

// Rows shared by several blocks, in three launches: reduce each split, merge the splits, compute the results.
extern "C" __global__ void __launch_bounds__(BLOCK) split_rows(const __grid_constant__ Task task) {
    prepare();
    Part part = part_of(task);
    const float start = start_of<State>(task, part.at);
    State state = gathered<State, Kept>(task, part, split_begin(task), split_end(task), start);
    if (part.present && part.lead == 0) task.partial[(u64)blockIdx.y * task.outputs + (part.output - task.first)] = state;
}

extern "C" __global__ void __launch_bounds__(BLOCK) join_splits(const __grid_constant__ Task task) {
    prepare();
    u64 number = (u64)blockIdx.x * blockDim.y + threadIdx.y;
    bool present = number < task.outputs;
    State state = cleared<State>();
    if (present)
        for (u32 split = threadIdx.x; split < task.splits; split += blockDim.x)
            state.merge(task.partial[(u64)split * task.outputs + number]);
    join_rows<32>(state);
    if (!present || threadIdx.x) return;
    Row row = Row::of(state, task.numbers);
    Offsets at = {};
    go_to(task.kept, task.first + (u32)number, at);
    put_statistics(task, row, task.first + (u32)number, at);
    task.rows[number] = row;
}

extern "C" __global__ void __launch_bounds__(BLOCK) put_rows(const __grid_constant__ Task task) {
    prepare();
    Part part = part_of(task);
    if (!part.present) return;
#if GIVEN
    Row row = Row::given(widen(task.mean[part.at.of[MEAN_AT]]), widen(task.variance[part.at.of[VARIANCE_AT]]), task.numbers);
#else
    Row row = task.rows[part.output - task.first];
#endif
    put_all(task, part, row, split_begin(task), split_end(task), [&](const Offsets &at, u32 item, u32 lanes) {
        leave(task, row, part.output, at, item, lanes);
    });
}
#endif
#endif
