// The best elements of sequences, in their order. An entry is a key, by which unsigned numbers stand in that order, and a
// place in the sequence, so that no two entries are equal. Few entries are sorted in shared memory, many digit by digit;
// where few of many are wanted those are found first.

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
    Entry *entries, *moved;
    Search *searches;
    u32 *counts;  // of each digit, of each sequence
    u32 first, count;
    u32 sequences, length, wanted;
    u32 size;    // entries of a sequence that are sorted
    u32 pieces;  // into which a sequence is cut
    u32 from_entries, to_entries;
    u32 upper, shift, bits;                    // which half of an entry has the digit, its lowest bit, and how many it has
    u32 step, value_step, index_step, unused;  // along a sequence
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

// What stands behind all entries.
static __device__ __forceinline__ Entry none() { return entry_of((Key)~(Key)0, ~0u); }

// An entry of a sequence that is to be sorted.
static __device__ __forceinline__ Entry taken(const Top &top, const u32 (&at)[STEPS], u32 sequence, u32 place) {
    return top.from_entries ? top.entries[(u64)sequence * top.size + place] : entry_at(top, at[0], place);
}
