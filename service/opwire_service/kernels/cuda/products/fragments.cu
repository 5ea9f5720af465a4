// Tensor cores and asynchronous copies: products of 16 x 32 by 32 x 8 bytes, of which each lane of a warp holds
// fragments. Before sm_80, copies are complete at once, and a product consists of four smaller ones. On sm_90a, four warps
// also multiply lines in shared memory, without loading fragments.

// Copies 16 bytes to shared memory.
static __device__ __forceinline__ void copy_later(u8 *to, const u8 *from) {
#if __CUDA_ARCH__ >= 800
    u32 at = (u32)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" : : "r"(at), "l"(from) : "memory");
#else
    *reinterpret_cast<uint4 *>(to) = *reinterpret_cast<const uint4 *>(from);
#endif
}
static __device__ __forceinline__ void close_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" : : : "memory");
#endif
}
// Waits for all but the last groups of copies.
template <u32 LAST> static __device__ __forceinline__ void await_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" : : "n"(LAST) : "memory");
#endif
}

// Loads four matrices of 8 lines of 16 bytes; lanes 0 to 7 point to the lines of the first one, and so on. Each lane gets
// 4 bytes of line `lane / 4` of each matrix.
static __device__ __forceinline__ void load_fragments(u32 (&to)[4], const u8 *line) {
    u32 at = (u32)__cvta_generic_to_shared(line);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(at) : "memory");
}

#if __CUDA_ARCH__ < 800
static __device__ __forceinline__ void multiply_less(i32 &sum, i32 &beside, u32 left, u32 right) {
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+r"(sum), "+r"(beside) : "r"(left), "r"(right));
}
#endif

// Lane i has the sums of rows i / 4 and i / 4 + 8, and columns 2 * (i % 4) and the next.
static __device__ __forceinline__ void multiply_bytes(i32 (&sums)[4], const u32 (&left)[4], u32 right, u32 further) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right), "r"(further));
#else
    multiply_less(sums[0], sums[1], left[0], right);
    multiply_less(sums[2], sums[3], left[1], right);
    multiply_less(sums[0], sums[1], left[2], further);
    multiply_less(sums[2], sums[3], left[3], further);
#endif
}

const u32 GROUP_WARPS = 4, GROUP_EDGE = 64;  // warps that multiply together, and their rows and columns
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
const bool HAS_GROUPS = true;
#define GROUP_ASM(...) asm volatile(__VA_ARGS__)
#else  // nobody calls what follows, but it is assembled where little is optimized
const bool HAS_GROUPS = false;
#define GROUP_ASM(...)
#endif

// Describes lines of 64 bytes in shared memory, eight of which are aligned, and whose chunks of 16 bytes are exchanged
// within pairs of lines: chunk c of line i is at c ^ i / 2 % 4.
static __device__ __forceinline__ u64 lines_at(const u8 *lines) {
    const u64 eight = 8 * 64 >> 4, exchanged = 2ull << 62;
    return (u32)__cvta_generic_to_shared(lines) >> 4 | 1ull << 16 | eight << 32 | exchanged;
}
// Makes this thread's copies visible to products of groups.
static __device__ __forceinline__ void show_copies() {
    GROUP_ASM("fence.proxy.async.shared::cta;" : : : "memory");
}
static __device__ __forceinline__ void begin_products() { GROUP_ASM("wgmma.fence.sync.aligned;" : : : "memory"); }
static __device__ __forceinline__ void close_products() { GROUP_ASM("wgmma.commit_group.sync.aligned;" : : : "memory"); }
// Waits for all but the last groups of products.
template <u32 LAST> static __device__ __forceinline__ void await_products() {
    GROUP_ASM("wgmma.wait_group.sync.aligned %0;" : : "n"(LAST) : "memory");
}
// Begins to add products of 64 x 32 by 32 x 64 bytes. Each warp has 16 rows, of which its lanes have the same as in
// `multiply_bytes`.
static __device__ __forceinline__ void multiply_lines(i32 (&sums)[8][4], u64 left, u64 right) {
    GROUP_ASM(
        "wgmma.mma_async.sync.aligned.m64n64k32.s32.s8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1;"
        : "+r"(sums[0][0]), "+r"(sums[0][1]), "+r"(sums[0][2]), "+r"(sums[0][3]),
          "+r"(sums[1][0]), "+r"(sums[1][1]), "+r"(sums[1][2]), "+r"(sums[1][3]),
          "+r"(sums[2][0]), "+r"(sums[2][1]), "+r"(sums[2][2]), "+r"(sums[2][3]),
          "+r"(sums[3][0]), "+r"(sums[3][1]), "+r"(sums[3][2]), "+r"(sums[3][3]),
          "+r"(sums[4][0]), "+r"(sums[4][1]), "+r"(sums[4][2]), "+r"(sums[4][3]),
          "+r"(sums[5][0]), "+r"(sums[5][1]), "+r"(sums[5][2]), "+r"(sums[5][3]),
          "+r"(sums[6][0]), "+r"(sums[6][1]), "+r"(sums[6][2]), "+r"(sums[6][3]),
          "+r"(sums[7][0]), "+r"(sums[7][1]), "+r"(sums[7][2]), "+r"(sums[7][3])
        : "l"(left), "l"(right));
}
