// Copies between two strided views in units of elements that are contiguous in both, one unit per thread. FILL writes
// the same unit everywhere. BAND skips the places whose third offset is outside of a range.

const u32 THREADS = 256;
const int BATCH = 4;  // units in flight per thread

struct Copy {
    const SourceUnit *source;
    TargetUnit *target;
    u64 value[2];      // of FILL
    u32 first, count;  // units
    u32 begin, target_begin;  // the units that steps start from; source steps may be negative
    u32 start, span;          // of BAND: start of the third offset, and its limit
    Walk walk;         // in units: source, target
};

extern "C" __global__ void __launch_bounds__(THREADS) copy_units(const __grid_constant__ Copy copy) {
    u32 thread = blockIdx.x * (THREADS * BATCH) + threadIdx.x;
    SourceUnit units[BATCH];
    u32 targets[BATCH];
    bool chosen[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 place = thread + n * THREADS, offset[STEPS];
        chosen[n] = place < copy.count;
        if (!chosen[n]) continue;
        walk(copy.walk, copy.first + place, offset);
        if (BAND && copy.start + offset[STEPS - 1] >= copy.span) chosen[n] = false;
        if (!chosen[n]) continue;
        units[n] = FILL ? *reinterpret_cast<const SourceUnit *>(copy.value) : copy.source[copy.begin + offset[0]];
        targets[n] = copy.target_begin + offset[1];
    }
#pragma unroll
    for (int n = 0; n < BATCH; ++n)
        if (chosen[n]) copy.target[targets[n]] = moved(units[n]);
}
