// Copies a contiguous tensor into another layout, leaving the gaps of that layout unchanged.

const u32 THREADS = 256;

struct Task {
    const WORD *source;
    WORD *target;
    u32 first, count;
    Loops loops;
};

extern "C" __global__ void __launch_bounds__(THREADS) spread(const __grid_constant__ Task task) {
    u32 begin = blockIdx.x * THREADS + threadIdx.x;
    if (begin >= task.count) return;
    u32 place = task.first + begin, rest = place, at = 0;
    for (u32 i = 0; i < task.loops.count; ++i) {
        const Loop &loop = task.loops.loop[i];
        u32 outer = divided(rest, loop);
        at += (rest - outer * loop.size) * loop.target;
        rest = outer;
    }
    task.target[at] = task.source[place];
}
