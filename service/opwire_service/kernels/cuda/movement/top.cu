// The best elements of sequences, in their order. An entry is a key, by which unsigned numbers stand in that order, and a
// place in the sequence, so that no two entries are equal. Short sequences are sorted in shared memory, as are pieces of
// long ones, which are merged; where few of many are wanted those are found first, digit by digit of the last of them.
// BEST is a power of two: so many of a piece of SEGMENT entries are kept at least, which are as many where all are wanted.

typedef POSITION Position;

const u32 THREADS = 256;
const u32 DIGITS = 2048;
const u32 DIGIT_SHARE = DIGITS / THREADS;
const u32 SHARE = 32;  // elements of a thread that counts or collects

#if WIDE
struct Entry {
    u64 key, place;
};
static __device__ __forceinline__ bool before(const Entry &a, const Entry &b) {
    return a.key < b.key || (a.key == b.key && a.place < b.place);
}
static __device__ __forceinline__ Entry entry_of(u64 key, u32 place) {
    Entry entry = {key, place};
    return entry;
}
static __device__ __forceinline__ u32 place_of(const Entry &entry) { return (u32)entry.place; }
static __device__ __forceinline__ u64 half_of(const Entry &entry, bool upper) { return upper ? entry.key : entry.place; }
#else
typedef u64 Entry;
static __device__ __forceinline__ bool before(Entry a, Entry b) { return a < b; }
static __device__ __forceinline__ Entry entry_of(u32 key, u32 place) { return (u64)key << 32 | place; }
static __device__ __forceinline__ u32 place_of(Entry entry) { return (u32)entry; }
static __device__ __forceinline__ u64 half_of(Entry entry, bool upper) { return upper ? entry >> 32 : (u32)entry; }
#endif

// How far the search for the last of the best has come in a sequence.
struct Search {
    u32 taken;  // entries before all those that have the digits found so far
    u32 done;   // whether all that have them are among the best
    u64 key, place;  // the digits found so far; once it is done the bound of both
    u32 collected, unused;
};

struct Top {
    const Unit *source;
    Unit *values;
    Position *indices;
    Entry *entries, *merged;
    Search *searches;
    u32 *counts;  // of each digit, of each sequence
    u32 first, count;
    u32 sequences, length, wanted;
    u32 size;    // entries of a sequence that are sorted
    u32 pieces;  // into which a sequence is cut
    u32 from_entries, to_entries;
    u32 width;                    // of the runs that are merged
    u32 upper, shift, bits;       // which half of an entry has the digit, its lowest bit, and how many it has
    u32 step, value_step, index_step;  // along a sequence
    Walk walk;  // of a sequence: source, values, indices
};

// Of floats the bits in the order of the values, -0 as 0, and NaN last.
static __device__ __forceinline__ Key key_of(Unit bits) {
    const Key sign = (Key)1 << (8 * sizeof(Unit) - 1), all = (Key)(sign | (sign - 1));
    Key key = bits;
    if (REAL) {
        if ((Key)(key & ~sign) > (Key)INFINITY_BITS) return all;
        if (key == sign) key = 0;
        key = key & sign ? (Key)(~key & all) : (Key)(key | sign);
    } else if (SIGNED) {
        key ^= sign;
    }
    return GREATEST ? (Key)(~key & all) : key;
}

static __device__ __forceinline__ Entry entry_at(const Top &top, u32 source, u32 place) {
    return entry_of(key_of(top.source[source + place * top.step]), place);
}

static __device__ __forceinline__ void put(const Top &top, const u32 (&at)[STEPS], u32 number, u32 place) {
    top.values[at[1] + number * top.value_step] = top.source[at[0] + place * top.step];
    top.indices[at[2] + number * top.index_step] = place;
}

// A step of sorting the first entries of each piece, as many as are left: those that stand apart change places.
static __device__ __forceinline__ void exchange(Entry *entries, u32 left, u32 apart, u32 sorted) {
    const u32 half = left / 2, shift = __ffs(half) - 1;  // a power of two
    __syncthreads();
    for (u32 i = threadIdx.x; i < SORTED / SEGMENT * half; i += THREADS) {
        u32 within = i & (half - 1), one = 2 * within - (within & (apart - 1)), at = (i >> shift) * SEGMENT + one;
        bool upwards = sorted == BEST || !(one & sorted);
        Entry a = entries[at], b = entries[at + apart];
        if (before(b, a) == upwards) {
            entries[at] = b;
            entries[at + apart] = a;
        }
    }
}

// Of two sorted groups of BEST each the better half, as one that rises and falls; pieces have half as many entries then.
static __device__ __forceinline__ void keep_better(Entry *entries, u32 left) {
    const u32 MOST = SORTED / 2 > THREADS ? SORTED / 2 / THREADS : 1;
    Entry kept[MOST];
    const u32 half = left / 2, shift = __ffs(half) - 1;
    __syncthreads();
#pragma unroll
    for (u32 n = 0; n < MOST; ++n) {
        u32 i = n * THREADS + threadIdx.x, within = i & (half - 1);
        if (i >= SORTED / SEGMENT * half) break;
        const Entry *groups = entries + (i >> shift) * SEGMENT + within / BEST * 2 * BEST;
        Entry a = groups[within % BEST], b = groups[2 * BEST - 1 - within % BEST];
        kept[n] = before(a, b) ? a : b;
    }
    __syncthreads();
#pragma unroll
    for (u32 n = 0; n < MOST; ++n) {
        u32 i = n * THREADS + threadIdx.x;
        if (i < SORTED / SEGMENT * half) entries[(i >> shift) * SEGMENT + (i & (half - 1))] = kept[n];
    }
}

// Sorts SORTED entries, which are pieces of SEGMENT each.
extern "C" __global__ void __launch_bounds__(THREADS) sort_pieces(const __grid_constant__ Top top) {
    __shared__ Entry entries[SORTED];
    const u32 GROUP = SORTED / SEGMENT;
    u32 first = (top.first + blockIdx.x) * GROUP, all = top.sequences * top.pieces;
    for (u32 i = threadIdx.x; i < SORTED; i += THREADS) {
        // Neighbouring threads read neighbours.
        u32 slot = top.step == 1 || top.from_entries ? i : i % GROUP * SEGMENT + i / GROUP;
        u32 piece = first + slot / SEGMENT, sequence = top.pieces == 1 ? piece : piece / top.pieces;
        u32 place = (piece - sequence * top.pieces) * SEGMENT + slot % SEGMENT;
        Entry entry = entry_of((Key)~(Key)0, ~0u);
        if (piece < all && place < top.size) {
            if (top.from_entries) {
                entry = top.entries[(u64)sequence * top.size + place];
            } else {
                u32 at[STEPS];
                walk(top.walk, sequence, at);
                entry = entry_at(top, at[0], place);
            }
        }
        entries[slot] = entry;
    }
    for (u32 sorted = 2; sorted <= BEST; sorted *= 2)
        for (u32 apart = sorted / 2; apart; apart /= 2) exchange(entries, SEGMENT, apart, sorted);
    for (u32 left = SEGMENT; left > BEST; left /= 2) {
        keep_better(entries, left);
        for (u32 apart = BEST / 2; apart; apart /= 2) exchange(entries, left / 2, apart, BEST);
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < SORTED; i += THREADS) {
        u32 slot = top.value_step == 1 || top.to_entries ? i : i % GROUP * SEGMENT + i / GROUP;
        u32 piece = first + slot / SEGMENT, sequence = top.pieces == 1 ? piece : piece / top.pieces;
        u32 place = (piece - sequence * top.pieces) * SEGMENT + slot % SEGMENT;
        if (piece >= all) continue;
        if (top.to_entries) {
            if (place < top.size) top.entries[(u64)sequence * top.size + place] = entries[slot];
        } else if (place < top.wanted) {
            u32 at[STEPS];
            walk(top.walk, sequence, at);
            put(top, at, place, place_of(entries[slot]));
        }
    }
}

// How many of a run are among the best: the others need not be merged any more.
static __device__ __forceinline__ u32 run_length(const Top &top, u32 begin) {
    return begin < top.size ? min(min(top.width, top.wanted), top.size - begin) : 0;
}

// Each entry finds its place among those of the run beside its own.
extern "C" __global__ void __launch_bounds__(THREADS) merge_runs(const __grid_constant__ Top top) {
    u32 item = top.first + blockIdx.x * THREADS + threadIdx.x;
    if (blockIdx.x * THREADS + threadIdx.x >= top.count) return;
    u32 sequence = item / top.size, place = item - sequence * top.size;
    const Entry *entries = top.entries + (u64)sequence * top.size;
    u32 run = place / top.width, own = place - run * top.width;
    if (own >= run_length(top, run * top.width)) return;
    u32 begin = run / 2 * 2 * top.width, other = (run ^ 1) * top.width;
    Entry entry = entries[place];
    u32 least = 0, most = (u64)(run ^ 1) * top.width < top.size ? run_length(top, other) : 0;
    while (least < most) {
        u32 middle = (least + most) / 2;
        if (before(entries[other + middle], entry))
            least = middle + 1;
        else
            most = middle;
    }
    if (own + least < top.wanted) top.merged[(u64)sequence * top.size + begin + own + least] = entry;
}

extern "C" __global__ void __launch_bounds__(THREADS) write_best(const __grid_constant__ Top top) {
    if (blockIdx.x * THREADS + threadIdx.x >= top.count) return;
    u32 item = top.first + blockIdx.x * THREADS + threadIdx.x;
    u32 sequence = item / top.wanted, number = item - sequence * top.wanted, at[STEPS];
    walk(top.walk, sequence, at);
    put(top, at, number, place_of(top.entries[(u64)sequence * top.size + number]));
}

static __device__ __forceinline__ bool has_digits(const Top &top, const Search &search, const Entry &entry) {
    const u32 above = top.shift + top.bits;
    u64 found = half_of(entry, top.upper), wanted = top.upper ? search.key : search.place;
    if (!top.upper && half_of(entry, true) != search.key) return false;
    return above >= 64 || found >> above == wanted >> above;
}

extern "C" __global__ void __launch_bounds__(THREADS) count_digits(const __grid_constant__ Top top) {
    __shared__ u32 counts[DIGITS];
    u32 block = top.first + blockIdx.x, sequence = block / top.pieces, at[STEPS];
    const Search search = top.searches[sequence];
    if (search.done) return;
    walk(top.walk, sequence, at);
#pragma unroll
    for (u32 i = 0; i < DIGIT_SHARE; ++i) counts[i * THREADS + threadIdx.x] = 0;
    __syncthreads();
    u32 begin = (block - sequence * top.pieces) * (THREADS * SHARE) + threadIdx.x;
#pragma unroll 4
    for (u32 n = 0; n < SHARE; ++n) {
        u32 place = begin + n * THREADS;
        if (place >= top.length) break;
        Entry entry = entry_at(top, at[0], place);
        u32 digit = (u32)(half_of(entry, top.upper) >> top.shift) & ((1u << top.bits) - 1);
        if (has_digits(top, search, entry)) atomicAdd(counts + digit, 1u);
    }
    __syncthreads();
#pragma unroll
    for (u32 i = 0; i < DIGIT_SHARE; ++i) {
        u32 digit = i * THREADS + threadIdx.x;
        if (counts[digit]) atomicAdd(top.counts + (u64)sequence * DIGITS + digit, counts[digit]);
    }
}

// Finds the digit that the last of the best has.
extern "C" __global__ void __launch_bounds__(THREADS) choose_digit(const __grid_constant__ Top top) {
    __shared__ u32 ends[THREADS];
    u32 sequence = top.first + blockIdx.x;
    Search search = top.searches[sequence];
    if (search.done) return;
    u32 *counts = top.counts + (u64)sequence * DIGITS + threadIdx.x * DIGIT_SHARE, own[DIGIT_SHARE], sum = 0;
#pragma unroll
    for (u32 i = 0; i < DIGIT_SHARE; ++i) {
        sum += own[i] = counts[i];
        counts[i] = 0;
    }
    ends[threadIdx.x] = sum;
    for (u32 apart = 1; apart < THREADS; apart *= 2) {
        __syncthreads();
        u32 more = threadIdx.x >= apart ? ends[threadIdx.x - apart] : 0;
        __syncthreads();
        ends[threadIdx.x] += more;
    }
    u32 end = ends[threadIdx.x] - sum, left = top.wanted - search.taken, number = 0;
    __syncthreads();
    if (end >= left || end + sum < left) return;
    for (; end + own[number] < left; ++number) end += own[number];
    search.taken += end;
    search.done = end + own[number] == left;
    u64 digit = (u64)(threadIdx.x * DIGIT_SHARE + number) << top.shift, rest = top.shift ? (1ull << top.shift) - 1 : 0;
    (top.upper ? search.key : search.place) |= digit;
    if (search.done) {
        (top.upper ? search.key : search.place) |= rest;
        if (top.upper) search.place = ~0ull;
    }
    top.searches[sequence] = search;
}

extern "C" __global__ void __launch_bounds__(THREADS) collect(const __grid_constant__ Top top) {
    u32 block = top.first + blockIdx.x, sequence = block / top.pieces, at[STEPS];
    Search *search = top.searches + sequence;
    walk(top.walk, sequence, at);
    u64 key = search->key, bound = search->place;
    u32 begin = (block - sequence * top.pieces) * (THREADS * SHARE) + threadIdx.x;
#pragma unroll 4
    for (u32 n = 0; n < SHARE; ++n) {
        u32 place = begin + n * THREADS;
        if (place >= top.length) break;
        Entry entry = entry_at(top, at[0], place);
        u64 own = half_of(entry, true);
        if (own < key || (own == key && place <= bound))
            top.entries[(u64)sequence * top.size + atomicAdd(&search->collected, 1u)] = entry;
    }
}
