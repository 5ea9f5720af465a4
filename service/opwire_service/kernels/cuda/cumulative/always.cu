// Running values that have no simpler representation.

// Always plain.
struct Extent {
    __device__ __forceinline__ void clear() {}
    __device__ __forceinline__ void cover(Input) {}
    __device__ __forceinline__ Extent of_warp() const { return *this; }
    __device__ __forceinline__ void join_into(Extent &) const {}
    __device__ __forceinline__ bool is_plain(u32) const { return true; }
    __device__ __forceinline__ void give_up() {}
};
