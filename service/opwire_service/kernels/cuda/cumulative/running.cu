// Running values along lines: one thread walks a line that lies beside others, or SHARING threads, a power of two, share a
// chunk of a line; where it has more they go on from the chunks before, of which each tells its total once that is known,
// and then that of all up to it. A thread of a chunk has SHARE neighbours, of which LANES are loaded and stored at once,
// that of a line reads AHEAD elements at once. A block of chunks asks for the one that begins PREFETCHED blocks later, unless
// that is 0. EXCLUSIVE leaves each element out of its own.

struct Lines {
    const Input *source;
    Output *target;
    u64 *told;       // how many chunks have begun, and then what they tell; see `Told`
    u32 *uncertain;  // how many, 0, then for each open result its line and its place in it
    Terms terms;
    u32 first, count;    // lines, or chunks of blocks
    u32 lines, length;
    u32 chunks, each;  // of a line, and of a block
    u32 step, target_step;
    u32 begin, target_begin;  // of a line, which may be walked backwards
    u32 room, spare;
    Walk walk;  // source, target
};

static __device__ void note_open(const Lines &all, u32 line, u32 place) {
    u32 i = atomicAdd(all.uncertain, 1u);
    if (i >= all.room) return;
    all.uncertain[2 + 2 * i] = line;
    all.uncertain[3 + 2 * i] = place;
}

static __device__ __forceinline__ Output one_step(const Lines &all, Running &running, Input x, u32 line, u32 place) {
    Output result;
    bool certain = true;
    if (EXCLUSIVE) certain = running.result(result, all.terms);
    running.take(x);
    if (!EXCLUSIVE) certain = running.result(result, all.terms);
    if (!certain) note_open(all, line, place);
    return result;
}

extern "C" __global__ void __launch_bounds__(THREADS) run_lines(const __grid_constant__ Lines all) {
    u32 line = blockIdx.x * THREADS + threadIdx.x, at[STEPS];
    if (line >= all.count) return;
    line += all.first;
    walk(all.walk, line, at);
    u32 here = at[0] + all.begin, there = at[1] + all.target_begin;
    Running running;
    running.clear();
    for (u32 i = 0; i < all.length; i += AHEAD) {
        Input items[AHEAD] = {};
        Output results[AHEAD];
        Extent extent;
        Plain none, total;
        extent.clear();
        none.clear();
        total.clear();
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k)
            if (i + k < all.length) items[k] = all.source[here + (i + k) * all.step];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) extent.cover(items[k]);
        if (extent.is_plain(AHEAD) && running.results(none, items, results)) {
            total.take_all(items);
            running.merge(total.running(extent));
        } else {
#pragma unroll
            for (u32 k = 0; k < AHEAD; ++k)
                if (i + k < all.length) results[k] = one_step(all, running, items[k], line, i + k);
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k)
            if (i + k < all.length) all.target[there + (i + k) * all.target_step] = results[k];
    }
}

const u32 WARP = 32;

// A value as words.
template <class T> union Words {
    static const u32 COUNT = (sizeof(T) + 3) / 4;
    T whole;
    u32 word[COUNT];
    __device__ __forceinline__ Words() {}
};

// What is made of a value, word by word.
template <class T, class Exchange> static __device__ __forceinline__ T exchanged(const T &own, Exchange exchange) {
    Words<T> words;
    words.whole = own;
#pragma unroll
    for (u32 i = 0; i < Words<T>::COUNT; ++i) words.word[i] = exchange(words.word[i]);
    return words.whole;
}

// Makes of the value of each of COUNT threads of a warp that of all up to its own.
template <u32 COUNT, class T> static __device__ __forceinline__ void run_up_warp(u32 lane, T &own) {
#pragma unroll
    for (u32 apart = 1; apart < COUNT; apart *= 2) {
        T earlier = exchanged(own, [&](u32 word) { return __shfl_up_sync(~0u, word, apart); });
        if (lane >= apart) own.merge(earlier);
    }
}

// The same of all threads that share a chunk.
template <u32 COUNT, class T> static __device__ __forceinline__ void run_up(T *shared, T &own) {
    const u32 ROW = COUNT < WARP ? 1 : COUNT / WARP;  // warps that share a chunk
    u32 lane = threadIdx.x % (COUNT < WARP ? COUNT : WARP), warp = threadIdx.x / WARP;
    run_up_warp<COUNT / ROW>(lane, own);
    __syncthreads();
    if (COUNT > WARP) {
        if (lane == WARP - 1) shared[warp] = own;
        __syncthreads();
        T others = shared[warp / ROW * ROW + lane % ROW];
        run_up_warp<ROW>(lane, others);
        T before = exchanged(others, [&](u32 word) { return __shfl_sync(~0u, word, (warp + ROW - 1) % ROW); });
        if (warp % ROW) own.merge(before);
        __syncthreads();
    }
    shared[threadIdx.x] = own;
    __syncthreads();
}

// Where the threads that share a chunk are.
struct Chunk {
    u32 line, number, place;  // `place` is that of the first element of a thread
    bool is_there;
    __device__ __forceinline__ Chunk(const Lines &all, u32 block, u32 thread) {
        u32 group = (all.first + block) * (THREADS / SHARING) + (SHARING == THREADS ? 0 : thread / SHARING);
        line = CHUNKED ? group / all.chunks : group;
        number = group - line * all.chunks;
        place = (number * SHARING + thread % SHARING) * SHARE;
        is_there = line < all.lines && place < all.length;
    }
};

static_assert(SHARE % LANES == 0, "neighbours belong to one thread");
typedef Pack<Input, LANES> Lanes;

// LANES neighbours of a block's elements, which a thread loads and stores.
struct Neighbours {
    u32 i, line, place;  // in the block; in the tensors
    bool is_there;
    __device__ __forceinline__ Neighbours(const Lines &all, u32 block, u32 n) {
        i = (n * THREADS + threadIdx.x) * LANES;
        Chunk chunk(all, block, i / SHARE);
        line = chunk.line;
        place = chunk.place + i % SHARE;
        is_there = chunk.is_there && place < all.length;
    }
    // Those that are not there are zeros.
    __device__ __forceinline__ Lanes load(const Lines &all) const {
        u32 at[STEPS];
        walk(all.walk, line, at);  // at first, so that it is done once for all that are of one line
        if (!is_there) return Lanes{};
        return *reinterpret_cast<const Lanes *>(all.source + (at[0] + all.begin + place * all.step));
    }
    __device__ __forceinline__ void store(const Lines &all, const Lanes &lanes) const {
        u32 at[STEPS];
        walk(all.walk, line, at);
        if (!is_there) return;
        *reinterpret_cast<Lanes *>(all.target + (at[1] + all.target_begin + place * all.target_step)) = lanes;
    }
};

// An element of a block among the items in shared memory: apart, so that neighbouring threads use different banks.
static __device__ __forceinline__ u32 slot(u32 i) { return i + i / SHARE; }

// What the items of a thread have in common.
static __device__ __forceinline__ Extent extent_of(const Input (&items)[SHARE]) {
    Extent own;
    own.clear();
#pragma unroll
    for (u32 k = 0; k < SHARE; ++k) own.cover(items[k]);
    return own;
}

// The values of a block, which are running ones or plain.
union Shared {
    Running running[THREADS];
    Plain plain[THREADS];
    __device__ Shared() {}
};

template <class T> static __device__ __forceinline__ T total_of(const Input (&items)[SHARE]) {
    T own;
    own.clear();
    own.take_all(items);
    return own;
}

// What chunks tell others: the total of each, or of all up to it. Each word has a mark beside it that is written with it, so
// that others need no order among them.
struct Told {
    volatile u64 *first;  // word of that of the first chunk; its next one stands behind those of all chunks
    u64 step;

    __device__ __forceinline__ Told(const Lines &all, bool up_to) {
        step = (u64)all.lines * all.chunks;
        first = all.told + 1 + (up_to ? Words<Running>::COUNT * step : 0);
    }
    __device__ __forceinline__ void tell(u32 chunk, const Running &total) const {
        Words<Running> words;
        words.whole = total;
#pragma unroll
        for (u32 i = 0; i < Words<Running>::COUNT; ++i) first[i * step + chunk] = (u64)words.word[i] << 32 | 1;
    }
    // Whether all of it was told.
    __device__ __forceinline__ bool hear(u32 chunk, Running &total) const {
        Words<Running> words;
        u32 marks = 1;
#pragma unroll
        for (u32 i = 0; i < Words<Running>::COUNT; ++i) {
            u64 word = first[i * step + chunk];
            words.word[i] = (u32)(word >> 32);
            marks &= (u32)word;
        }
        total = words.whole;
        return marks;
    }
};

// Finds the value of all elements of a line before a chunk, and tells others that of all up to it: WATCHERS warps look at as many
// chunks as they have threads at once, up to the last one that told that of all up to it.
template <class Stage>
static __device__ __forceinline__ void look_back(const Lines &all, const Chunk &chunk, const Stage &stage,
                                                 Running &before) {
    __shared__ u32 ends[WATCHERS];
    __shared__ Running shared[WATCHERS];
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, me = chunk.line * all.chunks + chunk.number;
    const Told totals(all, false), sums(all, true);
    if (threadIdx.x == THREADS - 1) before.clear();
    u32 last = WATCHERS;
    for (u32 back = threadIdx.x + 1; last == WATCHERS; back += WATCHERS * WARP) {
        if (warp < WATCHERS) {
            Running own, alone;
            own.clear();
            bool is_end = back > chunk.number, is_told = is_end;
            while (!is_told) {
                is_told = totals.hear(me - back, alone);
                is_end = sums.hear(me - back, own);
                if (!is_end) own = alone;
                is_told |= is_end;
            }
            u32 ending = __ballot_sync(~0u, is_end);
            if (ending & ((1u << lane) - 1)) own.clear();
#pragma unroll
            for (u32 apart = 1; apart < WARP; apart *= 2)
                own.merge(exchanged(own, [&](u32 word) { return __shfl_xor_sync(~0u, word, apart); }));
            if (lane == 0) {
                ends[warp] = ending;
                shared[warp] = own;
            }
        }
        __syncthreads();
        for (last = 0; last < WATCHERS && !ends[last]; ++last) continue;
        if (threadIdx.x == THREADS - 1)
            for (u32 i = 0; i <= last && i < WATCHERS; ++i) before.merge(shared[i]);
        __syncthreads();
    }
    if (threadIdx.x < THREADS - 1) return;
    Running up_to = before;
    up_to.merge(stage.total());
    sums.tell(me, up_to);
}

// Chunks that wait for others are taken in the order in which threads ask, so that those before are never behind.
static __device__ __forceinline__ u32 next_block(const Lines &all) {
    __shared__ u32 begun;
    if (threadIdx.x == 0) begun = (u32)atomicAdd(all.told, 1ull) - all.first;
    __syncthreads();
    return begun;
}

// Only a whole chunk, whose elements are neighbours and begin at a multiple of a load's bytes.
static __device__ __forceinline__ void prefetch_chunk(const Lines &all, u32 block) {
    const u32 COUNT = SHARING * SHARE;
    if (!PREFETCHED || threadIdx.x) return;
    Chunk chunk(all, block + PREFETCHED, 0);
    if (!chunk.is_there || all.length - chunk.place < COUNT) return;
    u32 at[STEPS];
    walk(all.walk, chunk.line, at);
    prefetch(all.source + (at[0] + all.begin + chunk.place), COUNT * sizeof(Input));
}

static __device__ __forceinline__ void take(const Input *items, Input (&own)[SHARE]) {
#pragma unroll
    for (u32 k = 0; k < SHARE; ++k) own[k] = items[k];
}

// A block's chunk, or its chunks, from when they are read until their results are stored.
struct Stage {
    Input items[THREADS * SHARE + THREADS];
    Shared shared;  // the value of all threads up to each
    Extent extent;

    __device__ Stage() {}
    __device__ __forceinline__ bool is_plain() const { return extent.is_plain(SHARING * SHARE); }
    __device__ __forceinline__ Running total() const {
        return is_plain() ? shared.plain[threadIdx.x].running(extent) : shared.running[threadIdx.x];
    }
};

// Reads a chunk and adds it up, which tells others its total.
static __device__ __forceinline__ void begin_chunk(const Lines &all, Stage &stage, u32 block,
                                                   Input (&own)[SHARE]) {
    prefetch_chunk(all, block);
#pragma unroll
    for (u32 n = 0; n < SHARE / LANES; ++n) {
        Neighbours there(all, block, n);
        Lanes lanes = there.load(all);
#pragma unroll
        for (u32 k = 0; k < LANES; ++k) stage.items[slot(there.i) + k] = lanes.lane[k];
    }
    if (threadIdx.x == 0) stage.extent.clear();
    __syncthreads();
    take(stage.items + slot(threadIdx.x * SHARE), own);
    extent_of(own).join_into(stage.extent);
    __syncthreads();
    if (stage.is_plain()) {
        Plain sum = total_of<Plain>(own);
        run_up<SHARING>(stage.shared.plain, sum);
    } else {
        Running sum = total_of<Running>(own);
        run_up<SHARING>(stage.shared.running, sum);
    }
    if (!CHUNKED || threadIdx.x < THREADS - 1) return;
    Chunk chunk(all, block, threadIdx.x);
    if (chunk.number) Told(all, false).tell(chunk.line * all.chunks + chunk.number, stage.total());
}

// Computes and stores the results of a chunk that was begun. If it goes on from others it takes its items again: they need
// no registers meanwhile.
static __device__ __forceinline__ void end_chunk(const Lines &all, Stage &stage, u32 block, Input (&own)[SHARE]) {
    __shared__ Running before;  // the chunk
    Input *mine = stage.items + slot(threadIdx.x * SHARE);
    Chunk chunk(all, block, threadIdx.x);
    const bool is_plain = stage.is_plain();
    Plain plain;
    Running running;
    plain.clear();
    running.clear();
    if (CHUNKED) {
        look_back(all, chunk, stage, before);
        running = before;
        take(mine, own);
    }
    if (threadIdx.x % SHARING) {
        if (is_plain) plain = stage.shared.plain[threadIdx.x - 1];
        else running.merge(stage.shared.running[threadIdx.x - 1]);
    }
    bool are_done = false;
    if (is_plain && !CHUNKED)
        are_done = plain.results(own, mine);
    else if (is_plain || extent_of(own).is_plain(SHARE))
        are_done = running.results(plain, own, mine);
    if (!are_done && chunk.is_there) {
        // Results of some may have taken the places of the items, which are read again.
        u32 at[STEPS];
        walk(all.walk, chunk.line, at);
        if (is_plain) running.merge(plain.running(stage.extent));
#pragma unroll 1
        for (u32 k = 0; k < SHARE && chunk.place + k < all.length; ++k) {
            Input x = all.source[at[0] + all.begin + (chunk.place + k) * all.step];
            mine[k] = one_step(all, running, x, chunk.line, chunk.place + k);
        }
    }
    __syncthreads();
#pragma unroll
    for (u32 n = 0; n < SHARE / LANES; ++n) {
        Neighbours there(all, block, n);
        Lanes lanes;
#pragma unroll
        for (u32 k = 0; k < LANES; ++k) lanes.lane[k] = stage.items[slot(there.i) + k];
        there.store(all, lanes);
    }
}

// A block that takes one chunk after the other begins the next one before it waits for those before its own: so others
// mostly know its total long before they need it.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) run_chunks(const __grid_constant__ Lines all) {
    __shared__ Stage stages[STAGES];
    Input own[SHARE];
    if (!CHUNKED) {
        begin_chunk(all, stages[0], blockIdx.x, own);
        end_chunk(all, stages[0], blockIdx.x, own);
        return;
    }
    u32 begun = all.count;
#pragma unroll 1
    for (u32 n = 0;; ++n) {
        u32 block = n < all.each ? next_block(all) : all.count;
        if (block < all.count) begin_chunk(all, stages[n % STAGES], block, own);
        if (n) end_chunk(all, stages[(n - 1) % STAGES], begun, own);
        if (block >= all.count) return;
        begun = block;
    }
}
