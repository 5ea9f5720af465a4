// Running values along lines: one thread walks a line that lies beside others, or SHARING threads, a power of two, share a
// chunk of a line, whose chunks are added up before where it has more. LANES neighbours are loaded and stored at once.
// EXCLUSIVE leaves each element out of its own.

const u32 THREADS = 256;
const u32 LINE_THREADS = 1024;  // that add up the totals of a line
const u32 SHARE = 16;  // neighbours that a thread has
const u32 AHEAD = 8;   // elements that the thread of a line reads at once

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
        Input items[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k)
            if (i + k < all.length) items[k] = all.source[here + (i + k) * all.step];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k)
            if (i + k < all.length)
                all.target[there + (i + k) * all.target_step] = one_step(all, running, items[k], line, i + k);
    }
}

const u32 WARP = 32;

// What the thread so many before this one of its warp has.
static __device__ __forceinline__ Running of_earlier(const Running &own, u32 apart) {
    const u32 WORDS = (sizeof(Running) + 3) / 4;
    union Words {
        Running whole;
        u32 word[WORDS];
        __device__ Words() {}
    } words;
    words.whole = own;
#pragma unroll
    for (u32 i = 0; i < WORDS; ++i) words.word[i] = __shfl_up_sync(~0u, words.word[i], apart);
    return words.whole;
}

// Makes of the value of each thread that of all up to its own that share its chunk.
template <u32 COUNT> static __device__ __forceinline__ void run_up(Running *shared, Running &own) {
    const u32 ROW = COUNT < WARP ? 1 : COUNT / WARP;  // warps that share a chunk
    u32 lane = threadIdx.x % (COUNT < WARP ? COUNT : WARP), warp = threadIdx.x / WARP;
#pragma unroll
    for (u32 apart = 1; apart < COUNT && apart < WARP; apart *= 2) {
        Running earlier = of_earlier(own, apart);
        if (lane >= apart) own.merge(earlier);
    }
    __syncthreads();
    if (COUNT > WARP) {
        if (lane == WARP - 1) shared[warp] = own;
        __syncthreads();
        for (u32 other = warp / ROW * ROW; other < warp; ++other) own.merge(shared[other]);
        __syncthreads();
    }
    shared[threadIdx.x] = own;
    __syncthreads();
}

// Where the threads that share a chunk are.
struct Chunk {
    u32 line, number, place;  // `place` is that of the first element of a thread
    bool is_there;
    __device__ __forceinline__ Chunk(const Lines &all, u32 thread) {
        u32 group = (all.first + blockIdx.x) * (THREADS / SHARING) + (SHARING == THREADS ? 0 : thread / SHARING);
        line = all.chunks == 1 ? group : group / all.chunks;
        number = group - line * all.chunks;
        is_there = line < all.lines;
        place = (number * SHARING + thread % SHARING) * SHARE;
    }
};

// An element of a block among the items in shared memory: apart, so that neighbouring threads use different banks.
static __device__ __forceinline__ u32 slot(u32 i) { return i + i / SHARE; }

static_assert(SHARE % LANES == 0, "neighbours belong to one thread");
typedef Pack<Input, LANES> Lanes;

static __device__ __forceinline__ void load_items(const Lines &all, Input *items) {
#pragma unroll
    for (u32 n = 0; n < SHARE / LANES; ++n) {
        u32 i = (n * THREADS + threadIdx.x) * LANES, at[STEPS];
        Chunk chunk(all, i / SHARE);
        u32 place = chunk.place + i % SHARE;
        if (!chunk.is_there || place >= all.length) continue;
        walk(all.walk, chunk.line, at);
        Lanes lanes = *reinterpret_cast<const Lanes *>(all.source + (at[0] + all.begin + place * all.step));
#pragma unroll
        for (u32 k = 0; k < LANES; ++k) items[slot(i) + k] = lanes.lane[k];
    }
    __syncthreads();
}

// What a thread has of a chunk.
struct Own {
    Input items[SHARE];
    u32 count;

    __device__ __forceinline__ Own(const Lines &all, const Chunk &chunk, const Input *from) {
        count = chunk.is_there && chunk.place < all.length ? min(SHARE, all.length - chunk.place) : 0;
#pragma unroll
        for (u32 k = 0; k < SHARE; ++k)
            if (k < count) items[k] = from[slot(threadIdx.x * SHARE) + k];
    }
    __device__ __forceinline__ Running total() const {
        Running own;
        own.clear();
        if (count == SHARE) {
            own.take_all(items);
        } else {
#pragma unroll
            for (u32 k = 0; k < SHARE; ++k)
                if (k < count) own.take(items[k]);
        }
        return own;
    }
};

extern "C" __global__ void __launch_bounds__(THREADS) total_chunks(const __grid_constant__ Lines all) {
    __shared__ Input items[THREADS * SHARE + THREADS];
    __shared__ Running shared[THREADS];
    Chunk chunk(all, threadIdx.x);
    load_items(all, items);
    Running own = Own(all, chunk, items).total();
    run_up<SHARING>(shared, own);
    if (chunk.is_there && threadIdx.x % SHARING == SHARING - 1)
        all.totals[(u64)chunk.line * all.chunks + chunk.number] = own;
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

extern "C" __global__ void __launch_bounds__(THREADS, 3) run_chunks(const __grid_constant__ Lines all) {
    __shared__ Input items[THREADS * SHARE + THREADS];
    __shared__ Running shared[THREADS];
    Chunk chunk(all, threadIdx.x);
    load_items(all, items);
    Own mine(all, chunk, items);
    Running own = mine.total();
    run_up<SHARING>(shared, own);
    Running running;
    running.clear();
    if (chunk.is_there && all.chunks > 1) running = all.totals[(u64)chunk.line * all.chunks + chunk.number];
    if (threadIdx.x % SHARING) running.merge(shared[threadIdx.x - 1]);
#pragma unroll
    for (u32 k = 0; k < SHARE; ++k)
        if (k < mine.count)
            items[slot(threadIdx.x * SHARE) + k] = one_step(all, running, mine.items[k], chunk.line, chunk.place + k);
    __syncthreads();
#pragma unroll
    for (u32 n = 0; n < SHARE / LANES; ++n) {
        u32 i = (n * THREADS + threadIdx.x) * LANES, at[STEPS];
        Chunk there(all, i / SHARE);
        u32 place = there.place + i % SHARE;
        if (!there.is_there || place >= all.length) continue;
        walk(all.walk, there.line, at);
        Lanes lanes;
#pragma unroll
        for (u32 k = 0; k < LANES; ++k) lanes.lane[k] = items[slot(i) + k];
        *reinterpret_cast<Lanes *>(all.target + (at[1] + all.target_begin + place * all.target_step)) = lanes;
    }
}
