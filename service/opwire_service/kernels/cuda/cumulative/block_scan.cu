// Running values of short contiguous lines, each shared by SHARING threads of a block.

// The line and position of a block's item.
struct Place {
    u32 line, number;  // `number` is the item's index in its line
    bool is_there;
    __device__ __forceinline__ Place(const Lines &all, u32 item) {
        u32 lines = all.first + blockIdx.x;
        line = lines * (THREADS / SHARING) + item / (SHARING * SHARE);
        number = item % (SHARING * SHARE);
        is_there = line < all.lines && number < all.length;
    }
};

// Inclusive scan over the threads that share a line.
template <class T> static __device__ __forceinline__ void run_up(T *shared, T &own) {
    const u32 ROW = SHARING < WARP ? 1 : SHARING / WARP;  // warps that share a line
    u32 lane = threadIdx.x % (SHARING < WARP ? SHARING : WARP), warp = threadIdx.x / WARP;
    run_up_warp<SHARING / ROW>(lane, own);
    if (SHARING > WARP) {
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

// The values of a block, either running or plain.
union Shared {
    Running running[THREADS];
    Plain plain[THREADS];
    __device__ Shared() {}
};

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) run_blocks(const __grid_constant__ Lines all) {
    __shared__ Items items;
    __shared__ Shared shared;  // inclusive scan over the threads
    __shared__ Extent extent;
    Input own[SHARE], *mine = items.of_thread();
    if (threadIdx.x == 0) extent.clear();
    items.load([&](u32 n) -> const Input * {
        Place there(all, neighbors(n));
        u32 at[STEPS];
        walk(all.walk, there.line, at);  // first, so that it is shared by all items of a line
        return there.is_there ? all.source + (at[0] + all.begin + there.number * all.step) : nullptr;
    });
#pragma unroll
    for (u32 k = 0; k < SHARE; ++k) own[k] = mine[k];
    __syncthreads();
    extent_of(own).of_warp().join_into(extent);
    __syncthreads();
    const bool is_first = threadIdx.x % SHARING == 0;
    Plain plain;
    Running running;
    plain.clear();
    running.clear();
    bool are_done = false;
    // Returns false if a thread cannot go on from an exact sum: then everything is computed again.
    const auto scan_plainly = [&] {
        Plain sum = total_of<Plain>(own);
        run_up(shared.plain, sum);
        if (!is_first) plain = shared.plain[threadIdx.x - 1];
        are_done = plain.results(own, mine);
        return Plain::IS_EXACT || !__syncthreads_or(!are_done && !plain.is_exact());
    };
    const bool is_plain = extent.is_plain(SHARING * SHARE) && scan_plainly();
    if (!is_plain) {
        plain.clear();
        Running sum = total_of<Running>(own);
        run_up(shared.running, sum);
        if (!is_first) running.merge(shared.running[threadIdx.x - 1]);
        Extent of_own = extent_of(own);
        are_done = of_own.is_plain(SHARE) && running.results(plain, of_own, own, mine);
    }
    Place place(all, threadIdx.x * SHARE);
    if (!are_done && place.is_there) {
        // Results may have overwritten some items in shared memory, so they are read again.
        u32 at[STEPS];
        walk(all.walk, place.line, at);
        if (is_plain) running.merge(plain.running(extent));
#pragma unroll 1
        for (u32 k = 0; k < SHARE && place.number + k < all.length; ++k) {
            Input x = all.source[at[0] + all.begin + (place.number + k) * all.step];
            mine[k] = one_step(all, running, x, place.line, place.number + k);
        }
    }
    items.store([&](u32 n) -> Output * {
        Place there(all, neighbors(n));
        u32 at[STEPS];
        walk(all.walk, there.line, at);
        return there.is_there ? all.target + (at[1] + all.target_begin + there.number * all.target_step) : nullptr;
    });
}
