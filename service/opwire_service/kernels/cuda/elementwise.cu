// A formula on all elements of an output that lies densely, LANES of them at once. SOURCE0 to SOURCE2 are the types of
// the inputs, of which there are INPUTS, and WALK0 to WALK2 say how each is walked, in nests of DEPTH0 to DEPTH2 loops.
// THREADS belong to a block, of which BLOCKS fit a multiprocessor at least. A launch has threads for all elements, or
// each thread GOES_ON as many elements further.

const int DENSE = 0;   // as the output
const int ROWS = 1;    // LANES neighbours at a time lie side by side
const int SAME = 2;    // LANES neighbours at a time are one element
const int GATHER = 3;  // anyhow

typedef OUTPUT Output;

struct Task {
    const void *source[3];
    Output *target;
    u32 *uncertain;  // how many, 0, then the places of the results that must be computed again, each with a 0
    u32 first;       // place of the first element
    u32 count;
    u32 room;  // for uncertain results
    u32 unused;
    float channels[4];  // in place of a source that is null
    Loops loops[3];
};

// From a generated part: what a block begins with; what an element is, or false where that is open; and for those slower, but mostly certain.
static __device__ __forceinline__ void begin_block();
static __device__ __forceinline__ bool quick(SOURCE0 x0, SOURCE1 x1, SOURCE2 x2, Output &result);
static __device__ __forceinline__ bool careful(SOURCE0 x0, SOURCE1 x1, SOURCE2 x2, Output &result);

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

// One element, whatever it takes.
static __device__ __noinline__ void alone(const Task &task, u32 place) {
    SOURCE0 x0 = one<SOURCE0, WALK0, DEPTH0>(task, 0, place);
    SOURCE1 x1{};
    SOURCE2 x2{};
    if (INPUTS > 1) x1 = one<SOURCE1, WALK1, DEPTH1>(task, 1, place);
    if (INPUTS > 2) x2 = one<SOURCE2, WALK2, DEPTH2>(task, 2, place);
    Output result;
    if (!careful(x0, x1, x2, result)) {
        u32 i = atomicAdd(task.uncertain, 1u);
        if (i < task.room) {
            task.uncertain[2 + 2 * i] = place;
            task.uncertain[3 + 2 * i] = 0;
        }
    }
    task.target[place] = result;
}

// BATCH times LANES elements of a thread.
static __device__ __forceinline__ void some(const Task &task, u32 begin) {
    Pack<SOURCE0, LANES> x0[BATCH];
    Pack<SOURCE1, LANES> x1[BATCH];
    Pack<SOURCE2, LANES> x2[BATCH];
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 place = begin + n * THREADS * LANES;
        if (place + LANES > task.count) break;
        place += task.first;
        load<SOURCE0, WALK0, DEPTH0>(x0[n], task, 0, place);
        if (INPUTS > 1) load<SOURCE1, WALK1, DEPTH1>(x1[n], task, 1, place);
        if (INPUTS > 2) load<SOURCE2, WALK2, DEPTH2>(x2[n], task, 2, place);
    }
#pragma unroll
    for (int n = 0; n < BATCH; ++n) {
        u32 place = begin + n * THREADS * LANES;
        u32 open = 0;
        if (place + LANES > task.count) {
            for (int k = 0; k < LANES; ++k) open |= (u32)(place + k < task.count) << k;
            place += task.first;
        } else {
            place += task.first;
            Pack<Output, LANES> results;
#pragma unroll
            for (int k = 0; k < LANES; ++k)
                open |= (u32)!quick(x0[n].lane[k], x1[n].lane[k], x2[n].lane[k], results.lane[k]) << k;
            *reinterpret_cast<Pack<Output, LANES> *>(task.target + place) = results;
        }
        for (; open; open &= open - 1) alone(task, place + __ffs(open) - 1);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) compute(const __grid_constant__ Task task) {
    const u32 share = THREADS * BATCH * LANES;
    begin_block();
    u32 first = blockIdx.x * share;
    do {
        some(task, first + threadIdx.x * LANES);
        first += gridDim.x * share;
    } while (GOES_ON && first < task.count);
}
