// Running values of adjacent lines: each thread walks one line and reads AHEAD elements at once.

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
        Plain none;
        extent.clear();
        none.clear();
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k)
            if (i + k < all.length) items[k] = all.source[here + (i + k) * all.step];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) extent.cover(items[k]);
        const bool is_plain = extent.is_plain(AHEAD) && running.results(none, extent, items, results);
        if (is_plain && (Plain::IS_EXACT || total_of<Plain>(items).is_exact())) {
            running.merge(total_of<Plain>(items).running(extent));
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
