// Running values along lines: one thread walks a line that lies beside others, or SHARING threads, a power of two, share a
// chunk of a line. Where it has more chunks, a block has one, and tells those after it what it comes to. LANES neighbours
// are loaded and stored at once. EXCLUSIVE leaves each element out of its own.

const u32 THREADS = 256;
const u32 SHARE = 16;  // neighbours that a thread has
const u32 AHEAD = 8;   // elements that the thread of a line reads at once

struct Lines {
    const Input *source;
    Output *target;
    Running *totals;  // of the chunks, line by line, then those of all up to each
    u32 *uncertain;   // how many, 0, then for each open result its line and its place in it
    u32 *told;        // how many chunks were begun, then of each which totals it has told, all 0 at first
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

// A running value as the words that threads of a warp exchange.
union Words {
    static const u32 COUNT = (sizeof(Running) + 3) / 4;
    Running whole;
    u32 word[COUNT];
    __device__ __forceinline__ Words(const Running &from) : whole(from) {}
};

// What the thread so many before this one of its warp has.
static __device__ __forceinline__ Running of_earlier(const Running &own, u32 apart) {
    Words words(own);
#pragma unroll
    for (u32 i = 0; i < Words::COUNT; ++i) words.word[i] = __shfl_up_sync(~0u, words.word[i], apart);
    return words.whole;
}

// What the last thread of its warp has.
static __device__ __forceinline__ Running of_last(const Running &own) {
    Words words(own);
#pragma unroll
    for (u32 i = 0; i < Words::COUNT; ++i) words.word[i] = __shfl_sync(~0u, words.word[i], WARP - 1);
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
    __device__ __forceinline__ Chunk(const Lines &all, u32 block, u32 thread) {
        u32 group = block * (THREADS / SHARING) + (SHARING == THREADS ? 0 : thread / SHARING);
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

static __device__ __forceinline__ void load_items(const Lines &all, u32 block, Input *items) {
#pragma unroll
    for (u32 n = 0; n < SHARE / LANES; ++n) {
        u32 i = (n * THREADS + threadIdx.x) * LANES, at[STEPS];
        Chunk chunk(all, block, i / SHARE);
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
    // What they come to, and whether `results` may give each of the running values.
    __device__ __forceinline__ Running total(bool &are_plain) const {
        Running own;
        own.clear();
        are_plain = false;
        if (count == SHARE) {
            are_plain = own.take_all(items);
        } else {
#pragma unroll
            for (u32 k = 0; k < SHARE; ++k)
                if (k < count) own.take(items[k]);
        }
        return own;
    }
};

// Which chunk of all a block has, where others wait for what it comes to: those before it were begun.
static __device__ __forceinline__ u32 next_chunk(const Lines &all) {
    __shared__ u32 number;
    if (threadIdx.x == 0) number = atomicAdd(all.told, 1u);
    __syncthreads();
    return number;
}

const u32 OWN = 1, ALL = 2;  // that a chunk told its own total, and that of all up to it

static __device__ __forceinline__ void tell(const Lines &all, u32 chunk, u32 what, const Running &total) {
    all.totals[chunk + (what == ALL ? (u64)all.lines * all.chunks : 0)] = total;
    __threadfence();
    *reinterpret_cast<volatile u32 *>(all.told + 1 + chunk) = what;
}

// What another chunk has told, once it has told anything: false if that is not yet what all up to it come to.
static __device__ __forceinline__ bool hear(const Lines &all, u32 chunk, Running &total) {
    volatile u32 *told = all.told + 1 + chunk;
    u32 what = *told;
    while (!what) what = *told;
    __threadfence();
    total = all.totals[chunk + (what == ALL ? (u64)all.lines * all.chunks : 0)];
    return what == ALL;
}

// What all chunks before one of a line come to, found by a warp, which looks back at as many at once as it has threads.
static __device__ __forceinline__ Running found_before(const Lines &all, u32 chunk, u32 number) {
    Running before;
    before.clear();
    for (u32 lane = threadIdx.x;; number -= WARP) {
        Running told;
        told.clear();
        bool is_end = lane >= number;
        if (!is_end) is_end = hear(all, chunk - 1 - lane, told);
        chunk -= WARP;
        u32 ends = __ballot_sync(~0u, is_end);
        if (ends && lane >= (u32)__ffs(ends)) told.clear();
#pragma unroll
        for (u32 apart = 1; apart < WARP; apart *= 2) {
            Running earlier = of_earlier(told, apart);
            if (lane >= apart) told.merge(earlier);
        }
        before.merge(of_last(told));
        if (ends) return before;
    }
}

// What all chunks before that of a block come to, whose own total is given: for all its threads.
static __device__ __forceinline__ Running before_chunk(const Lines &all, const Chunk &chunk, u32 block, const Running &own) {
    __shared__ __align__(16) char memory[sizeof(Running)];
    Running &before = *reinterpret_cast<Running *>(memory);
    if (threadIdx.x < WARP) {
        bool is_first = chunk.number == 0;
        if (threadIdx.x == 0) tell(all, block, is_first ? ALL : OWN, own);
        Running found = found_before(all, block, chunk.number);
        if (threadIdx.x == 0) {
            before = found;
            found.merge(own);
            if (!is_first) tell(all, block, ALL, found);
        }
    }
    __syncthreads();
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS, 3) run_chunks(const __grid_constant__ Lines all) {
    __shared__ Input items[THREADS * SHARE + THREADS];
    __shared__ Running shared[THREADS];
    u32 block = all.chunks == 1 ? all.first + blockIdx.x : next_chunk(all);
    Chunk chunk(all, block, threadIdx.x);
    load_items(all, block, items);
    Own mine(all, chunk, items);
    bool are_plain;
    Running own = mine.total(are_plain), running;
    run_up<SHARING>(shared, own);
    running.clear();
    if (all.chunks > 1) running = before_chunk(all, chunk, block, shared[THREADS - 1]);
    if (threadIdx.x % SHARING) running.merge(shared[threadIdx.x - 1]);
    Output *to = items + slot(threadIdx.x * SHARE);
    if (!are_plain || !running.results(mine.items, to)) {
#pragma unroll
        for (u32 k = 0; k < SHARE; ++k) to[k] = mine.items[k];
#pragma unroll 1
        for (u32 k = 0; k < mine.count; ++k) to[k] = one_step(all, running, to[k], chunk.line, chunk.place + k);
    }
    __syncthreads();
#pragma unroll
    for (u32 n = 0; n < SHARE / LANES; ++n) {
        u32 i = (n * THREADS + threadIdx.x) * LANES, at[STEPS];
        Chunk there(all, block, i / SHARE);
        u32 place = there.place + i % SHARE;
        if (!there.is_there || place >= all.length) continue;
        walk(all.walk, there.line, at);
        Lanes lanes;
#pragma unroll
        for (u32 k = 0; k < LANES; ++k) lanes.lane[k] = items[slot(i) + k];
        *reinterpret_cast<Lanes *>(all.target + (at[1] + all.target_begin + place * all.target_step)) = lanes;
    }
}
