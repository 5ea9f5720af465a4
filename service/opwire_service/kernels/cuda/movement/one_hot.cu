// One-hot encoding into a contiguous output, LANES elements at once: one value where the index equals the position
// along the axis, another one elsewhere. Several lanes are consecutive along the axis.

const u32 THREADS = 256;
const int BATCH = 4;

struct OneHot {
    const Unit *values;
    Pack<Unit, LANES> *target;
    const Index *indices;
    u32 first, count;    // LANES elements each
    u32 off, on;         // offsets of the values
    u32 size, unused;    // of the axis
    Walk walk;           // indices, position along the axis
};

extern "C" __global__ void __launch_bounds__(THREADS) mark(const __grid_constant__ OneHot hot) {
    u32 begin = blockIdx.x * (THREADS * BATCH) + threadIdx.x;
    Unit off = hot.values[hot.off], on = hot.values[hot.on];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 place = begin + n * THREADS, offset[STEPS];
        if (place >= hot.count) continue;
        place += hot.first;
        walk(hot.walk, place, offset);
        i64 named = counted(hot.indices + offset[0], hot.size);
        Pack<Unit, LANES> units;
#pragma unroll
        for (int k = 0; k < LANES; ++k) units.lane[k] = named == (i64)offset[1] + k ? on : off;
        hot.target[place] = units;
    }
}
