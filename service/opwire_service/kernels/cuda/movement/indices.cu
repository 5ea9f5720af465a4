// Index rules: negative indices count from the end; out-of-range indices read the nearest element and write nothing.
// INDEX is their type. A tuple of indices yields an offset.

typedef INDEX Index;

const u32 NOWHERE = ~0u;

struct Component {
    u32 place, size, step;  // offset of the index within the tuple, size of its dimension, and its step
};

struct Tuple {
    u32 count, unused;
    Component component[8];
};

static __device__ __forceinline__ i64 counted(i64 index, u32 size) { return index < 0 ? index + size : index; }
static __device__ __forceinline__ i64 counted(u64 index, u32 size) { return index < size ? (i64)index : size; }

static __device__ __forceinline__ i64 counted(const Index *at, u32 size) {
    const bool is_signed = (Index)-1 < (Index)1;
    return is_signed ? counted((i64)*at, size) : counted((u64)*at, size);
}

static __device__ __forceinline__ u32 read_offset(const Tuple &tuple, const Index *indices) {
    u32 offset = 0;
    for (u32 i = 0; i < tuple.count; ++i) {
        const Component &part = tuple.component[i];
        i64 index = counted(indices + part.place, part.size);
        offset += (u32)max(0ll, min(index, (i64)part.size - 1)) * part.step;
    }
    return offset;
}

static __device__ __forceinline__ u32 written_offset(const Tuple &tuple, const Index *indices) {
    u32 offset = 0;
    for (u32 i = 0; i < tuple.count; ++i) {
        const Component &part = tuple.component[i];
        i64 index = counted(indices + part.place, part.size);
        if (index < 0 || index >= part.size) return NOWHERE;
        offset += (u32)index * part.step;
    }
    return offset;
}
