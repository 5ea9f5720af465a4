// Running values along lines: one thread walks a line that lies beside others, or SHARING threads, a power of two, share a
// chunk of a line, whose chunks are added up before where it has more. A thread of a chunk has SHARE neighbours, of which
// LANES are loaded and stored at once. EXCLUSIVE leaves each element out of its own.

const u32 THREADS = 256;
const u32 LINE_THREADS = 1024;  // that add up the totals of a line
const u32 AHEAD = 16;           // elements that the thread of a line reads at once
const u32 BLOCKS = 3;           // that share a multiprocessor

struct Lines {
    const Input *source;
    Output *target;
    Running *totals;  // of the chunks, line by line
    u32 *uncertain;   // how many, 0, then for each open result its line and its place in it
    Terms terms;
    u32 first, count;    // lines, or blocks
    u32 lines, length;
    u32 chunks, unused;  // of a line
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

// What is made of a value, word by word.
template <class T, class Exchange> static __device__ __forceinline__ T exchanged(const T &own, Exchange exchange) {
    const u32 WORDS = (sizeof(T) + 3) / 4;
    union Words {
        T whole;
        u32 word[WORDS];
        __device__ Words() {}
    } words;
    words.whole = own;
#pragma unroll
    for (u32 i = 0; i < WORDS; ++i) words.word[i] = exchange(words.word[i]);
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
        line = all.chunks == 1 ? group : group / all.chunks;
        number = group - line * all.chunks;
        is_there = line < all.lines;
        place = (number * SHARING + thread % SHARING) * SHARE;
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
        if (!is_there) return Lanes{};
        walk(all.walk, line, at);
        return *reinterpret_cast<const Lanes *>(all.source + (at[0] + all.begin + place * all.step));
    }
    __device__ __forceinline__ void store(const Lines &all, const Lanes &lanes) const {
        u32 at[STEPS];
        if (!is_there) return;
        walk(all.walk, line, at);
        *reinterpret_cast<Lanes *>(all.target + (at[1] + all.target_begin + place * all.target_step)) = lanes;
    }
};

// An element of a block among the items in shared memory: apart, so that neighbouring threads use different banks.
static __device__ __forceinline__ u32 slot(u32 i) { return i + i / SHARE; }

// What the items of all threads of a block have in common.
static __device__ __forceinline__ Extent extent_of_block(const Input (&items)[SHARE]) {
    __shared__ Extent all;
    if (threadIdx.x == 0) all.clear();
    __syncthreads();
    Extent own;
    own.clear();
#pragma unroll
    for (u32 k = 0; k < SHARE; ++k) own.cover(items[k]);
    own.join_into(all);
    __syncthreads();
    return all;
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

extern "C" __global__ void __launch_bounds__(THREADS) total_chunks(const __grid_constant__ Lines all) {
    __shared__ Shared shared;
    Input items[SHARE];
#pragma unroll
    for (u32 n = 0; n < SHARE / LANES; ++n) {
        Lanes lanes = Neighbours(all, blockIdx.x, n).load(all);
#pragma unroll
        for (u32 k = 0; k < LANES; ++k) items[n * LANES + k] = lanes.lane[k];
    }
    Extent extent = extent_of_block(items);
    Running own;
    if (extent.is_plain(THREADS * SHARE)) {
        Plain plain = total_of<Plain>(items);
        run_up<THREADS>(shared.plain, plain);
        own = plain.running(extent);
    } else {
        own = total_of<Running>(items);
        run_up<THREADS>(shared.running, own);
    }
    if (threadIdx.x == THREADS - 1) all.totals[all.first + blockIdx.x] = own;
}

// Makes of the total of each chunk that of all before it: each thread has several neighbours.
extern "C" __global__ void __launch_bounds__(LINE_THREADS) total_lines(const __grid_constant__ Lines all) {
    __shared__ Running shared[LINE_THREADS];
    Running *totals = all.totals + (u64)(all.first + blockIdx.x) * all.chunks, own;
    u32 several = (all.chunks + LINE_THREADS - 1) / LINE_THREADS;
    u32 begin = min(threadIdx.x * several, all.chunks), end = min(begin + several, all.chunks);
    own.clear();
#pragma unroll 4
    for (u32 i = begin; i < end; ++i) own.merge(totals[i]);
    run_up<LINE_THREADS>(shared, own);
    Running before;
    before.clear();
    if (threadIdx.x) before = shared[threadIdx.x - 1];
#pragma unroll 4
    for (u32 i = begin; i < end; ++i) {
        Running total = totals[i];
        totals[i] = before;
        before.merge(total);
    }
}

// The blocks begin with what was read last, which may still be in the cache.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) run_chunks(const __grid_constant__ Lines all) {
    __shared__ Input items[THREADS * SHARE + THREADS];
    __shared__ Shared shared;
    u32 block = gridDim.x - 1 - blockIdx.x;
#pragma unroll
    for (u32 n = 0; n < SHARE / LANES; ++n) {
        Neighbours there(all, block, n);
        Lanes lanes = there.load(all);
#pragma unroll
        for (u32 k = 0; k < LANES; ++k) items[slot(there.i) + k] = lanes.lane[k];
    }
    __syncthreads();
    Input *mine = items + slot(threadIdx.x * SHARE), own[SHARE];
#pragma unroll
    for (u32 k = 0; k < SHARE; ++k) own[k] = mine[k];
    Chunk chunk(all, block, threadIdx.x);
    Running running;
    running.clear();
    if (chunk.is_there && all.chunks > 1) running = all.totals[(u64)chunk.line * all.chunks + chunk.number];
    Extent extent = extent_of_block(own);
    bool are_done = false;
    if (extent.is_plain(SHARING * SHARE)) {
        Plain plain = total_of<Plain>(own);
        run_up<SHARING>(shared.plain, plain);
        plain.clear();
        if (threadIdx.x % SHARING) plain = shared.plain[threadIdx.x - 1];
        are_done = all.chunks == 1 ? plain.results(own, mine) : running.results(plain, own, mine);
        if (!are_done) running.merge(plain.running(extent));
    } else {
        Running total = total_of<Running>(own);
        run_up<SHARING>(shared.running, total);
        if (threadIdx.x % SHARING) running.merge(shared.running[threadIdx.x - 1]);
    }
    if (!are_done) {
#pragma unroll
        for (u32 k = 0; k < SHARE; ++k) mine[k] = own[k];
#pragma unroll 1
        for (u32 k = 0; k < SHARE && chunk.is_there && chunk.place + k < all.length; ++k)
            mine[k] = one_step(all, running, mine[k], chunk.line, chunk.place + k);
    }
    __syncthreads();
#pragma unroll
    for (u32 n = 0; n < SHARE / LANES; ++n) {
        Neighbours there(all, block, n);
        Lanes lanes;
#pragma unroll
        for (u32 k = 0; k < LANES; ++k) lanes.lane[k] = items[slot(there.i) + k];
        there.store(all, lanes);
    }
}
