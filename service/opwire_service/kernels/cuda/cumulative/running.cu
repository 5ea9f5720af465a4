// Common parts of running values along lines. Adjacent lines are walked by one thread each; a short contiguous line is
// shared by SHARING threads, a power of two; a long one is split into chunks, each shared by THREADS threads. A thread
// that shares has SHARE consecutive elements, of which LANES are loaded and stored at once. EXCLUSIVE leaves each
// element out of its own result.

struct Lines {
    const Input *source;
    Output *target;
    u64 *states;       // number of chunks begun, 0, then what they publish; see `ChunkStates`
    u32 *undecided;  // count, 0, then the line and position of each undecided result
    Terms terms;
    u32 first, count;    // range of this launch: lines, chunks, or groups of lines
    u32 lines, length;
    u32 chunks;  // per line
    u32 room;    // for undecided results
    u32 step, target_step;
    u32 begin, target_begin;  // first element of a line, which may be walked backwards
    Walk walk;  // source, target
};

static __device__ void list_undecided(const Lines &all, u32 line, u32 place) {
    u32 i = atomicAdd(all.undecided, 1u);
    if (i >= all.room) return;
    all.undecided[2 + 2 * i] = line;
    all.undecided[3 + 2 * i] = place;
}

static __device__ __forceinline__ Output one_step(const Lines &all, Running &running, Input x, u32 line, u32 place) {
    Output result;
    bool settled = true;
    if (EXCLUSIVE) settled = running.result(result, all.terms);
    running.take(x);
    if (!EXCLUSIVE) settled = running.result(result, all.terms);
    if (!settled) list_undecided(all, line, place);
    return result;
}

const u32 WARP = 32;

// A value as 32-bit words.
template <class T> union Words {
    static const u32 COUNT = (sizeof(T) + 3) / 4;
    T whole;
    u32 word[COUNT];
    __device__ __forceinline__ Words() {}
};

// Applies `exchange` to a value word by word.
template <class T, class Exchange> static __device__ __forceinline__ T exchanged(const T &own, Exchange exchange) {
    Words<T> words;
    words.whole = own;
#pragma unroll
    for (u32 i = 0; i < Words<T>::COUNT; ++i) words.word[i] = exchange(words.word[i]);
    return words.whole;
}

// Inclusive scan over COUNT lanes of a warp.
template <u32 COUNT, class T> static __device__ __forceinline__ void run_up_warp(u32 lane, T &own) {
#pragma unroll
    for (u32 apart = 1; apart < COUNT; apart *= 2) {
        T earlier = exchanged(own, [&](u32 word) { return __shfl_up_sync(~0u, word, apart); });
        if (lane >= apart) own.merge(earlier);
    }
}

static_assert(SHARE % LANES == 0, "neighbors belong to one thread");
typedef Pack<Input, LANES> Lanes;

// First item, within the block, of the n-th group of LANES items that a thread loads and stores.
static __device__ __forceinline__ u32 neighbors(u32 n) {
    return ((threadIdx.x / WARP * (SHARE / LANES) + n) * WARP + threadIdx.x % WARP) * LANES;
}

// The items of a block in shared memory, grouped by owning thread. APART padding elements separate the threads' items
// so that adjacent threads use different banks. Items are exchanged only within a warp.
struct alignas(16) Items {
    static const u32 VECTOR = APART * sizeof(Input) % 16 ? 1 : 16 / sizeof(Input);
    typedef Pack<Input, VECTOR> Vector;
    Input item[THREADS * (SHARE + APART)];

    __device__ __forceinline__ Input *of_thread() { return item + threadIdx.x * (SHARE + APART); }
    __device__ __forceinline__ Input *at(u32 i) { return item + i + i / SHARE * APART; }

    // Loads groups of LANES elements. `from` returns their address, or null to load zeros.
    template <class Where> __device__ __forceinline__ void load(Where from) {
        Lanes lanes[SHARE / LANES];
#pragma unroll
        for (u32 n = 0; n < SHARE / LANES; ++n) {
            const Lanes *there = reinterpret_cast<const Lanes *>(from(n));
            lanes[n] = there ? *there : Lanes{};
        }
        __syncwarp();
#pragma unroll
        for (u32 n = 0; n < SHARE / LANES; ++n) put(at(neighbors(n)), lanes[n]);
        __syncwarp();
    }
    template <class Where> __device__ __forceinline__ void store(Where to) {
        __syncwarp();
#pragma unroll
        for (u32 n = 0; n < SHARE / LANES; ++n) {
            Lanes *there = reinterpret_cast<Lanes *>(to(n));
            Lanes lanes;
            get(at(neighbors(n)), lanes);
            if (there) *there = lanes;
        }
    }
    __device__ __forceinline__ void take(Input (&own)[SHARE]) {
#pragma unroll
        for (u32 k = 0; k < SHARE; k += VECTOR) {
            Vector vector = *reinterpret_cast<const Vector *>(of_thread() + k);
#pragma unroll
            for (u32 i = 0; i < VECTOR; ++i) own[k + i] = vector.lane[i];
        }
    }
    __device__ __forceinline__ void give(const Output (&results)[SHARE]) {
#pragma unroll
        for (u32 k = 0; k < SHARE; k += VECTOR) {
            Vector vector;
#pragma unroll
            for (u32 i = 0; i < VECTOR; ++i) vector.lane[i] = results[k + i];
            *reinterpret_cast<Vector *>(of_thread() + k) = vector;
        }
    }
    // Uses vectors where they are aligned.
    static __device__ __forceinline__ void put(Input *to, const Lanes &lanes) {
        if (APART * sizeof(Input) % sizeof(Lanes) == 0) {
            *reinterpret_cast<Lanes *>(to) = lanes;
        } else {
#pragma unroll
            for (u32 k = 0; k < LANES; ++k) to[k] = lanes.lane[k];
        }
    }
    static __device__ __forceinline__ void get(const Input *from, Lanes &lanes) {
        if (APART * sizeof(Input) % sizeof(Lanes) == 0) {
            lanes = *reinterpret_cast<const Lanes *>(from);
        } else {
#pragma unroll
            for (u32 k = 0; k < LANES; ++k) lanes.lane[k] = from[k];
        }
    }
};

// The extent of a thread's items.
static __device__ __forceinline__ Extent extent_of(const Input (&items)[SHARE]) {
    Extent own;
    own.clear();
#pragma unroll
    for (u32 k = 0; k < SHARE; ++k) own.cover(items[k]);
    return own;
}

template <class T, u32 COUNT> static __device__ __forceinline__ T total_of(const Input (&items)[COUNT]) {
    T own;
    own.clear();
    own.take_all(items);
    return own;
}
