// Settles undecided sums: first by compensated summation, which leaves only the final rounding error, and then exactly
// where that is not enough. Successive launches may each cover part of the depth, so that their reads stay in the
// cache.

const u32 AGAIN_WARPS = 8;
const u32 CHAINS = LANES;  // per lane
const u32 SETTLED = ~0u;   // list entry of a sum that is no longer undecided

struct Chain {
    double high = 0, low = 0;

    __device__ __forceinline__ void add(double x) {
        double error;
        high = two_sum(high, x, error);
        low += error;
    }
    __device__ __forceinline__ void merge(double other_high, double other_low) {
        add(other_high);
        low += other_low;
    }
};

// Sums a warp's products in [begin, end); all lanes get the sum.
static __device__ __forceinline__ Chain sum_of(
    const Task &task, const LeftLine &left, const RightLine &right, u32 begin, u32 end
) {
    u32 lane = threadIdx.x % WARP;
    Chain chains[CHAINS];
#if WINDOW
    Taps taps(task.window, begin + lane), further(task.window, WARP);
    for (u32 k = begin + lane; k < end; k += WARP * CHAINS) {
        // Without branches, so that all loads are under way together: padding reads any element.
        double products[CHAINS];
#pragma unroll
        for (u32 i = 0; i < CHAINS; ++i, taps.advance(task.window, further)) {
            u32 along = k + i * WARP;
            const Right *from = along < end ? right.find(task, taps) : nullptr;
            const Left *weight = task.window.is_plain ? left.begin + along * left.step : left.find(task, taps);
            double product = left.number(from ? weight : left.begin) * right.number(from ? from : right.begin);
            products[i] = from ? product : 0;
        }
#pragma unroll
        for (u32 i = 0; i < CHAINS; ++i) chains[i].add(products[i]);
    }
#else
    const Left *a = left.begin + begin * left.step;
    const Right *b = right.begin + begin * right.step;
    u32 count = end - begin, k = 0;
    if (left.is_straight(task) && right.is_straight(task) && is_aligned(a) && is_aligned(b)) {
#pragma unroll 4
        for (k = lane * LANES; k + LANES <= count; k += WARP * LANES) {
            Pack<Left, LANES> some = load_pack(a + k);
            Pack<Right, LANES> others = load_pack(b + k);
#pragma unroll
            for (u32 i = 0; i < LANES; ++i) chains[i].add(left.number(some.lane + i) * right.number(others.lane + i));
        }
        k = count / LANES * LANES;
    }
    for (k += lane; k < count; k += WARP * CHAINS) {
#pragma unroll
        for (u32 i = 0; i < CHAINS; ++i) {
            u32 along = k + i * WARP;
            if (along < count) chains[i].add(left.number(a + along * left.step) * right.number(b + along * right.step));
        }
    }
#endif
#pragma unroll
    for (u32 i = CHAINS / 2; i; i /= 2)
        for (u32 j = 0; j < i; ++j) chains[j].merge(chains[j + i].high, chains[j + i].low);
#pragma unroll
    for (u32 other = WARP / 2; other; other /= 2) {
        double high = __shfl_xor_sync(~0u, chains[0].high, other), low = __shfl_xor_sync(~0u, chains[0].low, other);
        chains[0].merge(high, low);
    }
    return chains[0];
}

extern "C" __global__ void __launch_bounds__(AGAIN_WARPS *WARP) sum_again(const __grid_constant__ Task task) {
    u32 last = min(task.undecided[0], task.first + task.count);
    u32 end = min(task.depth - task.begin, task.length) + task.begin;
    u32 i = task.first + blockIdx.x * AGAIN_WARPS + threadIdx.x / WARP;
    float *rests = reinterpret_cast<float *>(task.undecided + 2 + task.matrices * task.rows * task.columns);
    for (; i < last; i += gridDim.x * AGAIN_WARPS) {
        u32 element = task.undecided[2 + i];
        Spot spot(task, element);
        double norms = task.row_bounds[spot.line] * task.column_bounds[spot.across];
        if (!is_finite(norms)) {
            task.undecided[1] = 1;
            continue;
        }
        LeftLine left(task, spot.matrix, spot.row);
        RightLine right(task, spot.matrix, spot.column);
        Chain chain = sum_of(task, left, right, task.begin, end);
        if (threadIdx.x % WARP) continue;
        double *kept = task.sums + element;
        if (task.begin > 0) chain.merge(*kept, rests[i]);
        double error, sum = two_sum(chain.high, chain.low, error);
        if (end < task.depth) {  // another launch continues
            *kept = sum;
            rests[i] = (float)error;
            continue;
        }
        double addend = task.addend ? addend_of(task, spot.matrix, spot.row, spot.column) : 0;
        double factor = factor_of(task, spot), rounding = fabs(sum) * SLACK;
        if (!HAS_SCALES && is_finite(factor)) rounding *= fabs(factor);
        double bound = norms * task.part + rounding;
        Output into;
        if (!certified(task, factor, sum, bound, addend, into)) {
            task.undecided[1] = 1;
            continue;
        }
        task.target[target_offset(task, spot.matrix, spot.row, spot.column)] = into;
        task.undecided[2 + i] = SETTLED;
    }
}

// Exact sums, one at a time per block. A warp repeatedly extracts the leading bits of its products on a common grid,
// coarse enough that their sum is exact, until nothing remains; the extracted parts go into a long integer, of which
// each lane holds 32 bits.

const u32 SETTLE_WARPS = 4;
const u32 EACH = 8;           // products per lane and step
const u32 HEADROOM = 10;      // extra bits of a sum of EACH * WARP numbers, including the sign
const i32 LEAST_POWER = -448; // exponent of the lowest bit: no product with alpha has a lower one

// Adds a number that is the same in all lanes and a multiple of the lowest bit.
static __device__ __forceinline__ void add_number(i64 &limb, double number) {
    u64 bits = bits_of(number);
    if (bits << 1 == 0) return;
    u64 significand = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
    i32 shift = (i32)(bits >> 52 & 0x7ff) - 1075 - LEAST_POWER - 32 * (i32)(threadIdx.x % WARP);
    u64 digit = 0;
    if (shift >= 0) digit = shift < 32 ? significand << shift : 0;
    else if (shift > -64) digit = significand >> -shift;
    digit &= 0xffffffffull;
    limb += (i64)bits < 0 ? -(i64)digit : (i64)digit;
}

// Adds the product of a number and a float as two exact parts.
static __device__ __forceinline__ void add_scaled(i64 &limb, double number, double factor) {
    double product = number * factor;
    add_number(limb, product);
    if (factor != 1) add_number(limb, fma(number, factor, -product));
}

static __device__ __forceinline__ void add_products(i64 &limb, double (&x)[EACH], double factor) {
    while (true) {
        u32 exponent = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) exponent = max(exponent, (u32)(bits_of(x[i]) >> 52) & 0x7ff);
        exponent = greatest_of_warp(exponent);
        if (exponent == 0) return;
        double grid = made<f64>((u64)(exponent + HEADROOM) << 52), total = 0;
#pragma unroll
        for (u32 i = 0; i < EACH; ++i) {
            double leading = (x[i] + grid) - grid;
            x[i] -= leading;
            total += leading;
        }
#pragma unroll
        for (u32 lane = WARP / 2; lane; lane /= 2) total += __shfl_xor_sync(~0u, total, lane);
        add_scaled(limb, total, factor);
    }
}

// The number that the limbs hold, rounded to odd, so that rounding it again is correct.
static __device__ double long_number(i64 *limbs) {
    i64 carry = 0;
    for (u32 i = 0; i < WARP; ++i) {
        carry += limbs[i];
        limbs[i] = carry & 0xffffffffll;
        carry >>= 32;
    }
    bool is_negative = carry < 0;
    i32 top = -1;
    u64 borrowed = 1;
    for (u32 i = 0; i < WARP; ++i) {
        if (is_negative) {
            borrowed += ~(u64)limbs[i] & 0xffffffffull;
            limbs[i] = (i64)(borrowed & 0xffffffffull);
            borrowed >>= 32;
        }
        if (limbs[i]) top = (i32)i;
    }
    if (top < 0) return 0;
    u64 high = (u64)limbs[top] << 32 | (top > 0 ? (u64)limbs[top - 1] : 0);
    u64 low = top > 1 ? (u64)limbs[top - 2] : 0;
    u32 zeros = __clzll((i64)high);  // fewer than 32
    u64 significand = zeros ? high << zeros | low >> (32 - zeros) : high;
    bool is_inexact = (significand & 0x7ff) != 0 || (low << zeros & 0xffffffffull) != 0;
    for (i32 i = 0; i < top - 2; ++i) is_inexact |= limbs[i] != 0;
    i32 power = 32 * (top - 1) - (i32)zeros + 11 + LEAST_POWER;
    double number = ldexp((double)(significand >> 11 | (u64)is_inexact), power);
    return is_negative ? -number : number;
}

// Sums of a block's warps: the limbs, and `special`, the sum of all products that are infinite or NaN.
struct Shared {
    u64 limbs[WARP];
    double special[SETTLE_WARPS];
};

// Loads a warp's EACH * WARP products. Infinities and NaN go to `special`. Products of integers may have a remainder
// that a double does not hold.
static __device__ __forceinline__ void load_products(
    double (&x)[EACH], double (&rest)[EACH], double &special, const Task &task, const LeftLine &left,
    const RightLine &right, u32 begin, u32 end
) {
#pragma unroll
    for (u32 i = 0; i < EACH; ++i) {
        u32 along = begin + i * WARP + threadIdx.x % WARP;
        double product = 0;
        rest[i] = 0;
        if (along < end) {
#if WINDOW
            Taps taps(task.window, along);
            const Right *from = right.find(task, taps);
            if (from) product = number_at(from) * left.at(task, taps);
#else
            double a = left.at(task, along), b = right.at(task, along);
            product = a * b;
            if (HAS_SCALES) rest[i] = fma(a, b, -product);
#endif
        }
        bool is_number = is_finite(product);
        if (!is_number) special += product;
        x[i] = is_number ? product : 0;
    }
}

extern "C" __global__ void __launch_bounds__(SETTLE_WARPS *WARP) settle(const __grid_constant__ Task task) {
    if (task.part != 0 && !task.undecided[1]) return;
    __shared__ Shared shared;
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u32 last = min(task.undecided[0], task.first + task.count);
    u32 begin = task.begin, end = min(task.depth - begin, task.length) + begin;
    for (u32 i = task.first + blockIdx.x; i < last; i += gridDim.x) {
        u32 element = task.undecided[2 + i];
        if (element == SETTLED) continue;
        Spot spot(task, element);
        LeftLine left(task, spot.matrix, spot.row);
        RightLine right(task, spot.matrix, spot.column);
        double alpha = factor_of(task, spot), factor = is_finite(alpha) ? alpha : 1, special = 0;
        i64 limb = 0;
        if (warp == 0) shared.limbs[lane] = 0;
        for (u32 at = begin + warp * (EACH * WARP); at < end; at += SETTLE_WARPS * EACH * WARP) {
            double x[EACH], rest[EACH];
            load_products(x, rest, special, task, left, right, at, end);
            add_products(limb, x, factor);
            if (HAS_SCALES) add_products(limb, rest, factor);
        }
        for (u32 other = WARP / 2; other; other /= 2) special += __shfl_xor_sync(~0u, special, other);
        if (lane == 0) shared.special[warp] = special;
        __syncthreads();
        atomicAdd(&shared.limbs[lane], (u64)limb);
        __syncthreads();
        if (warp == 0) {
            limb = (i64)shared.limbs[lane];
            for (u32 j = 1; j < SETTLE_WARPS; ++j) special += shared.special[j];
            if (task.limbs) {
                i64 *kept = task.limbs + (u64)(i - task.first) * (WARP + 1);
                if (begin > 0) {
                    limb += kept[lane];
                    special += made<f64>((u64)kept[WARP]);
                    __syncwarp();
                }
                kept[lane] = limb;
                if (lane == 0) kept[WARP] = (i64)bits_of(special);
            }
            if (end == task.depth) {
                double addend = task.addend ? addend_of(task, spot.matrix, spot.row, spot.column) : 0;
                if (is_finite(addend) && is_finite(alpha)) add_number(limb, addend);
                shared.limbs[lane] = (u64)limb;
                __syncwarp();
                if (lane == 0) {
                    double value = long_number((i64 *)shared.limbs);
                    if (special != 0 || !is_finite(alpha)) {
                        value = (special != 0 ? special : value) * alpha + addend;
                    } else if (!is_finite(addend)) {
                        value = addend;
                    }
                    Output into;
                    finished(into, value);
                    task.target[target_offset(task, spot.matrix, spot.row, spot.column)] = into;
                }
            }
        }
        __syncthreads();
    }
}
