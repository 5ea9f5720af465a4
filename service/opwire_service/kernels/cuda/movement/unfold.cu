// Columns of blocks of an image: each element of a dense output is one of the image, or 0 in the padding. Of each of AXES
// dimensions two offsets are which element of the window it is, and which block. A thread has LANES blocks that are
// neighbours along the dimension INNER.

const u32 THREADS = 256;

struct Axis {
    u32 size, blocks, window, stride, dilation, start;
    u32 step, unused;  // in the image
};

struct Unfold {
    const Unit *source;
    Unit *target;
    u32 first, count;
    Axis axis[AXES];
    Walk walk;  // source, then window and block of each dimension
};

extern "C" __global__ void __launch_bounds__(THREADS) unfold(const __grid_constant__ Unfold all) {
    u32 place = (blockIdx.x * THREADS + threadIdx.x) * LANES, offset[STEPS];
    if (place >= all.count) return;
    place += all.first;
    walk(all.walk, place, offset);
    bool inside = true;
    u32 source = offset[0];
    i64 begin = 0;
#pragma unroll
    for (int i = 0; i < AXES; ++i) {
        const Axis &axis = all.axis[i];
        i64 at = (i64)offset[1 + 2 * i] * axis.dilation + (i64)offset[2 + 2 * i] * axis.stride - axis.start;
        if (i == INNER)
            begin = at;
        else
            inside &= 0 <= at && at < axis.size;
        source += (u32)at * axis.step;
    }
    const Axis &inner = all.axis[INNER];
    Pack<Unit, LANES> found = {};
#pragma unroll
    for (u32 k = 0; k < LANES; ++k)
        if (inside && (u64)(begin + (i64)k * inner.stride) < inner.size)
            found.lane[k] = all.source[source + k * inner.stride * inner.step];
    *reinterpret_cast<Pack<Unit, LANES> *>(all.target + place) = found;
}
