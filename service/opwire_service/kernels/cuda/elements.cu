// Inputs of elementwise formulas, LANES elements at once in the memory order of the outputs. Each of the INPUTS sources
// has its own walk, a nest of DEPTH loops.

const int DENSE = 0;   // contiguous, as the outputs
const int ROWS = 1;    // each group of LANES elements is contiguous
const int SAME = 2;    // each group of LANES elements is a single one
const int GATHER = 3;  // any strides

struct Task {
    const void *source[INPUTS];
    void *target[OUTPUTS];
    u32 *undecided;  // count, 0, then the places of the undecided results, each with a 0
    u32 first;       // place of the first element
    u32 count;
    u32 room;  // for undecided results
    u32 unused;
    float channels[4];  // values of a source that is null
    Loops loops[INPUTS];
};

template <int DEPTH> static __device__ __forceinline__ u32 offset(const Loops &loops, u32 place) {
    u32 found = 0;
#pragma unroll
    for (int i = 0; i + 1 < DEPTH; ++i) {
        u32 outer = divided(place, loops.loop[i]);
        found += (place - outer * loops.loop[i].size) * loops.loop[i].source;
        place = outer;
    }
    if (DEPTH > 0) found += place * loops.loop[DEPTH > 0 ? DEPTH - 1 : 0].source;
    return found;
}

template <class T> static __device__ __forceinline__ const T *source(const Task &task, int number) {
    const void *at = task.source[number];
    return (const T *)(CHANNELS == number ? (const void *)task.channels : at);
}

template <class T, int WALK, int DEPTH>
static __device__ __forceinline__ T one(const Task &task, int number, u32 place) {
    return source<T>(task, number)[WALK == DENSE ? place : offset<DEPTH>(task.loops[number], place)];
}

template <class T, int WALK, int DEPTH>
static __device__ __forceinline__ void load(Pack<T, LANES> &into, const Task &task, int number, u32 place) {
    const T *from = source<T>(task, number);
    const Loops &loops = task.loops[number];
    if (WALK == DENSE || WALK == ROWS) {
        into = *reinterpret_cast<const Pack<T, LANES> *>(from + (WALK == DENSE ? place : offset<DEPTH>(loops, place)));
    } else if (WALK == SAME) {
        T single = from[offset<DEPTH>(loops, place)];
#pragma unroll
        for (int k = 0; k < LANES; ++k) into.lane[k] = single;
    } else {
#pragma unroll
        for (int k = 0; k < LANES; ++k) into.lane[k] = from[offset<DEPTH>(loops, place + k)];
    }
}
