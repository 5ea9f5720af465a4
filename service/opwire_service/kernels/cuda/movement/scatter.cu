// Scatter in two passes: each tuple claims its slot, and the last claim wins; then the output takes the update of each
// slot's owner, or the input where there is none. Many slots are claimed part by part, each of which the cache holds.

const u32 THREADS = 256;

struct Claims {
    u32 *owners;  // per slot, the 1-based number of the last tuple that claims it; initially 0
    const Index *indices;
    u32 first, count;  // tuples
    u32 begin, end;    // slots that may be claimed now
    Tuple tuple;
    Walk walk;  // indices, slots, number of the tuple
};

extern "C" __global__ void __launch_bounds__(THREADS) claim_slots(const __grid_constant__ Claims claims) {
    u32 place = blockIdx.x * THREADS + threadIdx.x, offset[STEPS];
    if (place >= claims.count) return;
    walk_all(claims.walk, claims.first + place, offset);
    u32 slot = written_offset(claims.tuple, claims.indices + offset[0]);
    if (slot == NOWHERE) return;
    slot += offset[1];
    if (slot >= claims.begin && slot < claims.end) atomicMax(claims.owners + slot, offset[2] + 1);
}

struct Settlement {
    const Unit *source, *updates;
    Unit *target;
    const u32 *owners;
    u32 first, count;  // units of a contiguous target
    Walk walk;         // slots, and in units: source, updates
    Walk tuples;       // in units: updates
};

extern "C" __global__ void __launch_bounds__(THREADS) settle(const __grid_constant__ Settlement all) {
    u32 place = blockIdx.x * THREADS + threadIdx.x, offset[STEPS];
    if (place >= all.count) return;
    place += all.first;
    walk(all.walk, place, offset);
    u32 owner = all.owners[offset[0]];
    if (owner) {
        u32 brought[STEPS];
        walk_all(all.tuples, owner - 1, brought);
        all.target[place] = all.updates[offset[2] + brought[2]];
    } else {
        all.target[place] = all.source[offset[1]];
    }
}
