// im2col: each element of a contiguous output is an element of the image, or 0 in the padding. Its position along each
// of AXES dimensions follows from the element of the window and the block. A thread has LANES adjacent blocks along the
// dimension INNER, and for them SPAN adjacent elements of the window. If APART, these are the same for a whole thread
// block: windows then have a walk of their own, inside that over thread blocks, so that the image is read once. If
// ADJACENT, blocks and window elements that are adjacent along INNER are adjacent in the image, too. Positions fit
// POSITION.

const u32 THREADS = 256;

struct Axis {
    u32 size, blocks, window, stride, dilation, start;
    u32 step, window_step;  // in the image, and in the columns
};

struct Unfold {
    const Unit *source;
    Unit *target;
    u32 first, count;    // thread blocks
    u32 places, unused;  // number of places that the threads walk
    Axis axis[AXES];
    Walk walk;     // source and target, then the block of each dimension, and unless APART the element of the window
    Walk windows;  // thread block and target, then the element of the window
};

typedef Pack<Unit, LANES> Lanes;
typedef POSITION Position;

extern "C" __global__ void __launch_bounds__(THREADS) unfold(const __grid_constant__ Unfold all) {
    const int WINDOW = APART ? 2 : 2 + AXES;
    u32 at[STEPS], other[STEPS];
    walk_some<WINDOW_DEPTH>(all.windows, all.first + blockIdx.x, other);
    u32 place = (other[0] * THREADS + threadIdx.x) * LANES;
    if (place >= all.places) return;
    walk(all.walk, place, at);
    const u32 *element = (APART ? other : at) + WINDOW;
    bool inside = true;
    u32 source = at[0];
    Position begin = 0;
#pragma unroll
    for (int i = 0; i < AXES; ++i) {
        const Axis &axis = all.axis[i];
        Position position = (Position)element[i] * axis.dilation - axis.start + (Position)at[2 + i] * axis.stride;
        if (i == INNER) {
            begin = position;
        } else {
            inside &= 0 <= position && position < axis.size;
            source += (u32)position * axis.step;
        }
    }
    const Axis &inner = all.axis[INNER];
    u32 left = inner.window - element[INNER];
    Lanes found[SPAN] = {};
    if (ADJACENT) {
        Unit line[SPAN + LANES - 1] = {};
        const Unit *from = all.source + source + (i64)begin;
#pragma unroll
        for (u32 j = 0; j < SPAN + LANES - 1; ++j)
            if (inside && (u64)(begin + j) < inner.size) line[j] = from[j];
#pragma unroll
        for (u32 n = 0; n < SPAN; ++n)
#pragma unroll
            for (u32 k = 0; k < LANES; ++k) found[n].lane[k] = line[n + k];
    } else {
#pragma unroll
        for (u32 n = 0; n < SPAN; ++n) {
            u32 here = source + ((u32)begin + n * inner.dilation) * inner.step;
#pragma unroll
            for (u32 k = 0; k < LANES; ++k)
                if (inside && n < left && (u64)(begin + (Position)n * inner.dilation + (Position)k * inner.stride) < inner.size)
                    found[n].lane[k] = all.source[here + k * inner.stride * inner.step];
        }
    }
    Unit *target = all.target + (at[1] + other[1]);
#pragma unroll
    for (u32 n = 0; n < SPAN; ++n)
        if (n < left) *reinterpret_cast<Lanes *>(target + n * inner.window_step) = found[n];
}
