// Running values of long lines by a scan with decoupled look-back: blocks take one chunk after another, and each
// continues from the chunks before it. A chunk publishes its own total as soon as it is known, and later the total of
// all elements up to its end. A block prefetches the chunk PREFETCHED chunks ahead, unless that is 0. Shared memory
// holds the items of BUFFERS chunks; if that is 1, threads hold those of the waiting chunk in registers.

const u32 WARPS = THREADS / WARP;
static_assert(SHARING == THREADS, "a block has one chunk at a time");

// The same as `run_up_warp`, without branches.
static __device__ __forceinline__ void run_up_step(u32 lane, u32 apart, Running &own) {
    Running none, earlier = exchanged(own, [&](u32 word) { return __shfl_up_sync(~0u, word, apart); });
    none.clear();
    own.merge(lane >= apart ? earlier : none);
}
template <u32 COUNT> static __device__ __forceinline__ void run_up_totals(u32 lane, Running &own) {
#pragma unroll
    for (u32 apart = 1; apart < COUNT; apart *= 2) run_up_step(lane, apart, own);
}

// Inclusive scan over the threads of a warp whose values are not plain. Out of line, so that it takes no registers from
// the rest. Its loops stay rolled up: later chunks wait for it, and code that runs so rarely must be fetched first.
static __device__ __noinline__ Running run_up_items(const Input *items) {
    Input own[SHARE];
#pragma unroll
    for (u32 k = 0; k < SHARE; ++k) own[k] = items[k];
    const Extent extent = extent_of(own);
    Running sum;
    if (extent.is_plain(SHARE) && (Plain::IS_EXACT || total_of<Plain>(own).is_exact())) {
        sum = total_of<Plain>(own).running(extent);
    } else {
        sum.clear();
#pragma unroll 1
        for (u32 k = 0; k < SHARE; ++k) sum.take_exactly(items[k]);
    }
#pragma unroll 1
    for (u32 apart = 1; apart < WARP; apart *= 2) run_up_step(threadIdx.x % WARP, apart, sum);
    return sum;
}

// Returns in all lanes the value of the line's elements before a chunk. The warp looks back over WARP chunks at a time,
// to the nearest one that has published the total up to its end.
static __device__ __forceinline__ Running look_back(const ChunkStates &states, u32 me, u32 number) {
    const u32 lane = threadIdx.x % WARP;
    Running before, aggregates;
    before.clear();
    aggregates.clear();
    u32 ends = number == 0;
    for (u32 back = lane + 1; !ends; back += WARP) {
        Running found;
        found.clear();
        u32 mark = back > number ? ChunkStates::PREFIX : 0;
        while (!mark) mark = states.read(me - back, found);
        ends = __ballot_sync(~0u, mark == ChunkStates::PREFIX);
        if (back <= number && mark == ChunkStates::AGGREGATE && !(ends & ((1u << lane) - 1))) aggregates.merge(found);
        if (ends) before = exchanged(found, [&](u32 word) { return __shfl_sync(~0u, word, __ffs(ends) - 1); });
    }
    run_up_totals<WARP>(lane, aggregates);
    before.merge(exchanged(aggregates, [&](u32 word) { return __shfl_sync(~0u, word, WARP - 1); }));
    before.tidy();
    return before;
}

struct Chunk {
    u32 line, number;
};

// Chunks are assigned in the order in which blocks ask, and each block finishes its own in that order, so that the
// predecessors of a chunk always make progress.
static __device__ __forceinline__ u32 ask(const Lines &all) { return (u32)atomicAdd(all.states, 1ull) - all.first; }

const u32 SIZE = THREADS * SHARE;  // elements of a chunk

// Prefetches full chunks only; their elements must be contiguous and aligned to a full-width load.
static __device__ __forceinline__ void prefetch_chunk(const Lines &all, const Chunk &chunk) {
    if (chunk.line >= all.lines || chunk.number >= all.length / SIZE) return;
    u32 at[STEPS];
    walk(all.walk, chunk.line, at);
    prefetch(all.source + (at[0] + all.begin + chunk.number * SIZE), SIZE * sizeof(Input));
}

static __device__ __forceinline__ Chunk chunk_at(const Lines &all, u32 number) {
    u32 line = number / all.chunks;
    return {line, number - line * all.chunks};
}

// Returns a chunk past the last line if all are taken, and restores the counter for the next launch.
static __device__ __forceinline__ Chunk taken_by(const Lines &all, u32 asked) {
    if (asked >= all.count) {
        atomicAdd(all.states, ~0ull);
        return {all.lines, 0};
    }
    u32 number = all.first + asked;
    if (PREFETCHED) prefetch_chunk(all, chunk_at(all, number + PREFETCHED));
    return chunk_at(all, number);
}

// Turns an inclusive scan over a warp into an exclusive one.
template <class T> static __device__ __forceinline__ T before_each(const T &up_to) {
    T before = exchanged(up_to, [&](u32 word) { return __shfl_up_sync(~0u, word, 1); });
    if (threadIdx.x % WARP == 0) before.clear();
    return before;
}

// State of a thread's elements of a chunk, from reading them until storing their results.
struct Part {
    Plain before;   // the value of the earlier threads of its warp if plain, else empty
    Extent extent;  // of the warp

    __device__ __forceinline__ bool is_plain() const { return extent.is_plain(WARP * SHARE); }
};

// Scans a warp in plain sums. Returns false if not all are exact, and then its extent is not plain either.
static __device__ __forceinline__ bool scan_plainly(const Input (&own)[SHARE], Part &part, Running &total) {
    Plain sum = total_of<Plain>(own);
    run_up_warp<WARP>(threadIdx.x % WARP, sum);
    if (!Plain::IS_EXACT && !__all_sync(~0u, sum.is_exact())) {
        part.extent.give_up();
        return false;
    }
    part.before = before_each(sum);
    total = sum.running(part.extent);
    return true;
}

// Address of a thread's n-th group of LANES items, or null past the end of the line: the first group is at `from`, with
// `left` items from there on.
template <class T> static __device__ __forceinline__ T *group(T *tensor, u32 from, u32 step, u32 left, u32 n) {
    const u32 beyond = neighbors(n) - neighbors(0);
    return beyond < left ? tensor + (from + beyond * step) : nullptr;
}

// Reads and scans a chunk, publishes its total and leaves the inclusive scan over its warps in `totals`.
static __device__ __forceinline__ void begin_chunk(
    const Lines &all, const Chunk &chunk, Items &items, Input (&own)[SHARE], Part &part, Running *totals
) {
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u32 at[STEPS], place = chunk.number * SIZE + neighbors(0);
    walk(all.walk, chunk.line, at);
    const u32 from = at[0] + all.begin + place * all.step;
    const u32 left = max(all.length, place) - place;
    items.load([&](u32 n) { return group(all.source, from, all.step, left, n); });
    items.take(own);
    part.extent = extent_of(own).of_warp();
    Running total;
    if (!part.is_plain() || !scan_plainly(own, part, total)) {
        part.before.clear();
        total = run_up_items(items.of_thread());
    }
    if (lane == WARP - 1) totals[warp] = total;
    __syncthreads();
    if (warp) return;
    total = totals[lane % WARPS];
    run_up_totals<WARPS>(lane % WARPS, total);
    __syncwarp();
    if (lane < WARPS) totals[lane] = total;
    const u32 mark = chunk.number ? ChunkStates::AGGREGATE : ChunkStates::PREFIX;
    if (lane == WARPS - 1) ChunkStates(all).publish(chunk.line * all.chunks + chunk.number, total, mark);
}

// Recomputes a thread's results from the value before its warp if one was undecided. Its items are read again.
static __device__ __noinline__ void settle(
    const Lines &all, u32 line, u32 place, Running running, const Part part, Output *results
) {
    u32 at[STEPS], count = min(SHARE, all.length - place);
    walk(all.walk, line, at);
    Input items[SHARE] = {};
#pragma unroll
    for (u32 k = 0; k < SHARE; ++k)
        if (k < count) items[k] = all.source[at[0] + all.begin + (place + k) * all.step];
    if (extent_of(items).is_plain(SHARE) && running.exact_results(part.before, items, results)) return;
    if (part.is_plain()) running.merge(part.before.running(part.extent));
#pragma unroll 1
    for (u32 k = 0; k < count; ++k) results[k] = one_step(all, running, items[k], line, place + k);
}

// Run by the first warp: looks up the value before the chunk, publishes the total up to the chunk's end, and turns
// `totals` into the values before each warp.
static __device__ __forceinline__ void go_on(const Lines &all, const Chunk &chunk, Running *totals) {
    const u32 lane = threadIdx.x % WARP, me = chunk.line * all.chunks + chunk.number;
    const ChunkStates states(all);
    Running before = look_back(states, me, chunk.number), up_to = before;
    up_to.merge(totals[lane % WARPS]);
    up_to.tidy();
    if (lane == WARPS - 1 && chunk.number) states.publish(me, up_to, ChunkStates::PREFIX);
    up_to = exchanged(up_to, [&](u32 word) { return __shfl_up_sync(~0u, word, 1); });
    __syncwarp();
    if (lane < WARPS) totals[lane] = lane ? up_to : before;
}

// Computes and stores the results of a chunk after `begin_chunk`.
static __device__ __forceinline__ void end_chunk(
    const Lines &all, const Chunk &chunk, Items &items, Input (&own)[SHARE], const Part &part, Running *totals
) {
    if (threadIdx.x < WARP) go_on(all, chunk, totals);
    __syncthreads();
    Running running = totals[threadIdx.x / WARP];
    u32 at[STEPS], first = chunk.number * SIZE + threadIdx.x * SHARE, place = chunk.number * SIZE + neighbors(0);
    bool is_plain = part.is_plain();
    Extent extent = part.extent;
    if (BUFFERS > 1) items.take(own);  // reloaded to free registers in between
    if (!is_plain) {
        running.merge(before_each(run_up_items(items.of_thread())));
        extent = extent_of(own);
        is_plain = extent.is_plain(SHARE);
    }
    const bool are_done = is_plain && running.results(part.before, extent, own, items.of_thread());
    if (!are_done && first < all.length) settle(all, chunk.line, first, running, part, items.of_thread());
    walk(all.walk, chunk.line, at);
    const u32 to = at[1] + all.target_begin + place * all.target_step;
    const u32 left = max(all.length, place) - place;
    items.store([&](u32 n) { return group(all.target, to, all.target_step, left, n); });
}

// A block begins its next chunk before it waits for the predecessors of its current one, so that totals are usually
// published long before other blocks need them.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) run_chunks(const __grid_constant__ Lines all) {
    __shared__ Items items[BUFFERS];
    __shared__ Running totals[2][WARPS];
    __shared__ Chunk taken[2];
    const bool is_asking = threadIdx.x == THREADS - 1;  // the first warp has other work
    if (is_asking) taken[0] = taken_by(all, ask(all));
    __syncthreads();
    Input last_own[SHARE];
    Part last_part;
    Chunk last = {all.lines, 0};
#pragma unroll 1
    for (u32 n = 0;; ++n) {
        Input own[SHARE];
        Part part;
        Chunk chunk = taken[n % 2];
        const bool is_there = chunk.line < all.lines;
        u32 asked = is_asking && is_there ? ask(all) : 0;
        if (is_there) begin_chunk(all, chunk, items[n % BUFFERS], own, part, totals[n % 2]);
        if (is_asking && is_there) taken[(n + 1) % 2] = taken_by(all, asked);
        if (n) end_chunk(all, last, items[(n - 1) % BUFFERS], last_own, last_part, totals[(n - 1) % 2]);
        else __syncthreads();
        if (!is_there) return;
#pragma unroll
        for (u32 k = 0; k < SHARE; ++k) last_own[k] = own[k];
        last_part = part;
        last = chunk;
    }
}
