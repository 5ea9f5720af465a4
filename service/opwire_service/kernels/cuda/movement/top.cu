// The best elements of sequences, sorted. An entry is an unsigned key that sorts in the wanted order, and a place in
// the sequence, so that no two entries are equal. Few entries are sorted in shared memory, many by radix sort; if few
// of many are wanted, those are selected first.

typedef POSITION Position;

const u32 THREADS = 256;

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

// Progress of the search for the last of the best entries of a sequence.
struct Search {
    u32 taken;  // entries that precede all those with the digits found so far
    u32 done;   // whether all entries with those digits are among the best
    u64 key, place;  // the digits found so far; once done, the upper bounds
    u32 collected, unused;
};

struct Top {
    const Unit *source;
    Unit *values;
    Position *indices;
    Entry *entries, *moved;
    Search *searches;
    u32 *counts;  // by sequence, then digit
    u32 first, count;
    u32 sequences, length, wanted;
    u32 size;    // entries to sort per sequence
    u32 pieces;  // per sequence
    u32 from_entries, to_entries;
    u32 upper, shift, bits;                    // the half of an entry that has the digit, its lowest bit, and its width
    u32 step, value_step, index_step, unused;  // along a sequence
    Walk walk;  // of a sequence: source, values, indices
};

// Maps floats to bits that sort like the values, with -0 as 0 and NaN last.
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

// An entry that sorts after all others.
static __device__ __forceinline__ Entry none() { return entry_of((Key)~(Key)0, ~0u); }

// An entry to sort, from the entries selected earlier or from the source.
static __device__ __forceinline__ Entry taken(const Top &top, const u32 (&at)[STEPS], u32 sequence, u32 place) {
    return top.from_entries ? top.entries[(u64)sequence * top.size + place] : entry_at(top, at[0], place);
}
