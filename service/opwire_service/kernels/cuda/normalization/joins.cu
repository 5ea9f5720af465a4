// Joins what the threads that share a row have reduced.

template <class T> static __device__ __forceinline__ T from_lane(T mine, u32 distance) {
    const int WORDS = sizeof(T) / 4;
    union Words {
        T whole;
        u32 word[WORDS];
        __device__ Words() {}
    } words;
    words.whole = mine;
#pragma unroll
    for (int i = 0; i < WORDS; ++i) words.word[i] = __shfl_xor_sync(~0u, words.word[i], distance);
    return words.whole;
}

// Reduces over WIDTH adjacent threads, a power of two; all of them get the result. No kernel runs the same instance
// twice, so its shared memory needs no barrier before it is written.
template <int WIDTH, class T, class Join> static __device__ __forceinline__ void join_along_x(T &mine, Join join) {
#pragma unroll
    for (u32 distance = (WIDTH < 32 ? WIDTH : 32) / 2; distance; distance /= 2) {
        T other = from_lane(mine, distance);
        join(mine, other);
    }
    if (WIDTH <= 32) return;
    const u32 WARPS = WIDTH <= 32 ? 1 : WIDTH / 32;
    __shared__ __align__(16) char memory[32 * sizeof(T)];
    T *shared = reinterpret_cast<T *>(memory);
    // Such a block has few rows, each of which has consecutive warps.
    u32 thread = threadIdx.y * WIDTH + threadIdx.x, warp = thread / 32, first = warp / WARPS * WARPS;
    if (thread % 32 == 0) shared[warp] = mine;
    __syncthreads();
    mine = shared[first];
#pragma unroll
    for (u32 other = 1; other < WARPS; ++other) join(mine, shared[first + other]);
}
