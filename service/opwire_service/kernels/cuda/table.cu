// Lookup table of the results for all FLOAT16 values, which each block copies to shared memory if it fits there.

const u32 TABLE_BYTES = 2 << 16;

extern __shared__ uint4 block_memory[];

static __device__ __forceinline__ bool has_room() {
    u32 room;
    asm("mov.u32 %0, %dynamic_smem_size;" : "=r"(room));
    return room >= TABLE_BYTES;
}

static __device__ __forceinline__ void copy_table(const u64 *table) {
    if (!has_room()) return;
    const u32 all = TABLE_BYTES / sizeof(uint4);
#pragma unroll
    for (u32 i = 0; i < all; i += THREADS)
        block_memory[i + threadIdx.x] = reinterpret_cast<const uint4 *>(table)[i + threadIdx.x];
    __syncthreads();
}

static __device__ __forceinline__ f16 looked_up(const u64 *table, f16 x) {
    if (has_room()) return {reinterpret_cast<const u16 *>(block_memory)[x.bits]};
    return {reinterpret_cast<const u16 *>(table)[x.bits]};
}
