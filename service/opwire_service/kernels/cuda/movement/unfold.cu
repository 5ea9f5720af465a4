// Columns of blocks of an image: each element of a dense output is one of the image, or 0 in the padding. A position along
// each of AXES dimensions follows from which element of the window it is, and which block. A thread has LANES blocks that
// are neighbours along the dimension INNER, and of them SPAN neighbours of the window along it; which ones is the same in
// a whole block of threads, if APART, where windows have a walk of their own.

const u32 THREADS = 256;

struct Axis {
    u32 size, blocks, window, stride, dilation, start;
    u32 step, window_step;  // in the image, and in the columns
};

struct Unfold {
    const Unit *source;
    Unit *target;
    u32 first, count;
    Axis axis[AXES];
    Walk walk;     // source and target, then the block of each dimension, and unless APART the element of the window
    Walk windows;  // of which the third and further offsets are elements of the window
};

typedef Pack<Unit, LANES> Lanes;

extern "C" __global__ void __launch_bounds__(THREADS) unfold(const __grid_constant__ Unfold all) {
    const int WINDOW = APART ? 2 : 2 + AXES;
    u32 place = (blockIdx.x * THREADS + threadIdx.x) * LANES, at[STEPS], other[STEPS];
    if (place >= all.count) return;
    walk(all.walk, all.first + place, at);
    walk_all(all.windows, blockIdx.y, other);
    const u32 *element = (APART ? other : at) + WINDOW;
    bool inside = true;
    u32 source = at[0];
    i64 begin = 0;
#pragma unroll
    for (int i = 0; i < AXES; ++i) {
        const Axis &axis = all.axis[i];
        i64 position = (i64)element[i] * axis.dilation - axis.start + (i64)at[2 + i] * axis.stride;
        if (i == INNER)
            begin = position;
        else
            inside &= 0 <= position && position < axis.size;
        source += (u32)position * axis.step;
    }
    const Axis &inner = all.axis[INNER];
    u32 left = inner.window - element[INNER];
    Lanes found[SPAN] = {};
#pragma unroll
    for (u32 n = 0; n < SPAN; ++n) {
        u32 here = source + n * inner.dilation * inner.step;
#pragma unroll
        for (u32 k = 0; k < LANES; ++k)
            if (inside && n < left && (u64)(begin + (i64)n * inner.dilation + (i64)k * inner.stride) < inner.size)
                found[n].lane[k] = all.source[here + k * inner.stride * inner.step];
    }
    Unit *target = all.target + (at[1] + other[1]);
#pragma unroll
    for (u32 n = 0; n < SPAN; ++n)
        if (n < left) *reinterpret_cast<Lanes *>(target + n * inner.window_step) = found[n];
}
