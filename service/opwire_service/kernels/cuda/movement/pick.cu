// Gathers the units of a contiguous output by tuples of indices. With REVERSE it reverses sequences instead: the tuple
// is the length of the sequence, and the third offset the position in it.

const u32 THREADS = 256;
const int BATCH = 4;

struct Pick {
    const Unit *source;
    Unit *target;
    const Index *indices;
    u32 first, count;
    Tuple tuple;
    Walk walk;  // in units: indices, source, and position
};

static __device__ __forceinline__ u32 mirrored(const Tuple &tuple, const Index *lengths, u32 place) {
    const Component &along = tuple.component[0];
    u64 length = min((u64)*lengths, (u64)along.size);
    return (place < length ? (u32)length - 1 - place : place) * along.step;
}

extern "C" __global__ void __launch_bounds__(THREADS) pick_units(const __grid_constant__ Pick pick) {
    u32 begin = blockIdx.x * (THREADS * BATCH) + threadIdx.x;
    u32 sources[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 place = begin + n * THREADS, offset[STEPS];
        if (place >= pick.count) continue;
        walk(pick.walk, pick.first + place, offset);
        const Index *indices = pick.indices + offset[0];
        sources[n] = offset[1] + (REVERSE ? mirrored(pick.tuple, indices, offset[2]) : read_offset(pick.tuple, indices));
    }
    Unit units[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n)
        if (begin + n * THREADS < pick.count) units[n] = pick.source[sources[n]];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 place = begin + n * THREADS;
        if (place < pick.count) pick.target[pick.first + place] = units[n];
    }
}
