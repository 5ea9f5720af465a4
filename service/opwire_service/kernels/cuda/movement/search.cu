// Selects the best of many entries by first finding the last of them, digit by digit (radix select).

const u32 DIGITS = 2048;
const u32 DIGIT_SHARE = DIGITS / THREADS;
const u32 SHARE = 32;  // elements per thread in counting and collecting

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

// Finds the digit of the last of the best entries.
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
