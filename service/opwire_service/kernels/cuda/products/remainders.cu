// Products by remainders: lines are scaled to integers, which are multiplied exactly, modulo several small numbers, by
// the byte products of the library; the Chinese remainder theorem gives each sum of integers. What the scaling rounds
// off is measured, so that the sums can be certified.
//
// WEIGHT, PRODUCT and the others are generated from one list of moduli.

const u32 SPLIT_LINES = 8;     // lines per block, one per warp
const u32 SPLIT_DEEP = 512;    // elements of a line per step
const u32 QUAD = 4;            // consecutive elements whose bytes a thread writes at once
const u32 SPLIT_PITCH = SPLIT_DEEP + QUAD;
const u32 STEPS_DEEP = SPLIT_DEEP / (WARP * QUAD);

template <class Line> struct Splitting {
    float (&part)[SPLIT_LINES][SPLIT_PITCH];
    const Task &task;
    u32 first, lines;

    // Loads a step of the block's lines, with zeros beyond their ends.
    __device__ __forceinline__ void load(u32 begin) {
        __syncthreads();
        Line line(task, 0, first);
        i64 apart = Line(task, 0, first + 1).begin - line.begin;
        bool is_along = abs(line.step) <= abs(apart);
        u32 thread = threadIdx.x;
#pragma unroll
        for (u32 i = 0; i < SPLIT_LINES * SPLIT_DEEP / (SPLIT_LINES * WARP); ++i) {
            u32 own = is_along ? thread / WARP : thread % SPLIT_LINES;
            u32 along = is_along ? thread % WARP + i * WARP : thread / SPLIT_LINES + i * WARP;
            bool is_inside = first + own < lines && begin + along < task.depth;
            part[own][along] = is_inside ? widen(line.begin[own * apart + (begin + along) * line.step]) : 0.0f;
        }
        __syncthreads();
    }
};

// Splits lines into remainders, and copies them if they are not contiguous along the depth. Keeps four numbers of each,
// one array after another: the bound for `sum_again`, the norm, the norm of what is rounded off, and the factor that
// takes its integers back. The remainders of a line with infinities or NaN are 0, and its norm is not finite.
template <class Line, class T>
static __device__ __forceinline__ void split(
    const Task &task, u32 lines, u32 pitch, u8 *planes, double *kept, double error, const float (&by)[MODULI][3],
    T *turned
) {
    __shared__ alignas(16) float part[SPLIT_LINES][SPLIT_PITCH];
    u32 lane = threadIdx.x % WARP, own = threadIdx.x / WARP, number = blockIdx.x * SPLIT_LINES + own;
    Splitting<Line> from{part, task, blockIdx.x * SPLIT_LINES, lines};
    double squares = 0;
    for (u32 begin = 0; begin < task.depth; begin += SPLIT_DEEP) {
        from.load(begin);
#pragma unroll
        for (u32 i = 0; i < SPLIT_DEEP / WARP; ++i) {
            u32 along = begin + i * WARP + lane;
            float x = part[own][along - begin];
            squares = fma((double)x, (double)x, squares);
            if (turned && number < lines && along < task.depth) narrow(turned[(u64)number * task.depth + along], x);
        }
    }
    double norm = sqrt(warp_sum(squares)) * (1 + 0x1p-20);
    bool is_number = is_finite(norm);
    Scaling scaling(norm);
    u64 plane = (u64)pitch * lines;
    for (u32 begin = 0; begin < pitch; begin += SPLIT_DEEP) {
        from.load(begin);
#pragma unroll
        for (u32 i = 0; i < STEPS_DEEP; ++i) {
            u32 along = (i * WARP + lane) * QUAD;
            u32 packed[MODULI] = {};
#pragma unroll
            for (u32 j = 0; j < QUAD; ++j) {
                Digits digits = scaling.digits(is_number ? part[own][along + j] : 0.0f);
#pragma unroll
                for (u32 m = 0; m < MODULI; ++m)
                    packed[m] |= (digits.remainder(m, by[m]) & 0xff) << (8 * j);
            }
            if (number >= lines || begin + along >= pitch) continue;
#pragma unroll
            for (u32 m = 0; m < MODULI; ++m)
                *reinterpret_cast<u32 *>(planes + m * plane + (u64)number * pitch + begin + along) = packed[m];
        }
    }
    double back = scaling.back(), rest = warp_sum(scaling.rests);
    bool is_exact = __all_sync(~0u, scaling.is_exact);
    if (lane || number >= lines) return;
    kept[number] = norm * error;
    kept[lines + number] = norm;
    kept[2 * lines + number] = is_exact ? 0 : (sqrt(rest) * (1 + 0x1p-5) + LOST) * back;
    kept[3 * lines + number] = back;
}

extern "C" __global__ void __launch_bounds__(SPLIT_LINES *WARP) split_left(const __grid_constant__ Task task) {
    split<LeftLine>(task, task.rows, task.left_pitch, (u8 *)task.left_copy, task.row_bounds, task.error, LEFT_BY,
                    task.left_turned);
}

// Also clears the list of undecided sums.
extern "C" __global__ void __launch_bounds__(SPLIT_LINES *WARP) split_right(const __grid_constant__ Task task) {
    if (blockIdx.x == 0 && threadIdx.x < 2) task.undecided[threadIdx.x] = 0;
    split<RightLine>(task, task.columns, task.right_pitch, (u8 *)task.right_copy, task.column_bounds, 1, RIGHT_BY,
                     task.right_turned);
}

typedef __int128 i128;

// The integer that has the given remainders, rounded to double: below half the product of the moduli in magnitude.
static __device__ __forceinline__ double combined(const i32 (&remainders)[MODULI]) {
    i64 limbs[LIMBS] = {};
#pragma unroll
    for (u32 m = 0; m < MODULI; ++m)
#pragma unroll
        for (u32 i = 0; i < LIMBS; ++i) limbs[i] += (i64)remainders[m] * WEIGHT[m][i];
    double about = 0;
    i128 total = 0;
#pragma unroll
    for (int i = LIMBS - 1; i >= 0; --i) {
        about = about * (double)(1 << LIMB_BITS) + (double)limbs[i];
        total = (total << LIMB_BITS) + limbs[i];
    }
    i64 times = __double2ll_rn(about * INVERSE_PRODUCT);
    total -= (i128)times * ((i128)PRODUCT_HIGH << 64 | PRODUCT_LOW);
    const u32 low_bits = 48;
    return fma((double)(i64)(total >> low_bits), 0x1p48, (double)(i64)(total & ((1ll << low_bits) - 1)));
}

// Certifies the sums of a tile from their remainders.
extern "C" __global__ void __launch_bounds__(CERTIFY_THREADS) combine(const __grid_constant__ Task task) {
    Stripe stripe(task);
    u32 undecided = 0;
    if (stripe.count) {
        Spot spot = stripe.spot;
        u64 pitch = (task.columns + QUAD - 1) / QUAD * QUAD, plane = task.rows * pitch;
        const i32 *from = (const i32 *)task.sums + spot.row * pitch;
        const double *row = task.row_bounds + spot.row, *columns = task.column_bounds;
        double norm = row[task.rows], rest = row[2 * task.rows], back = row[3 * task.rows];
        double scale = is_finite(task.alpha) ? fabs(task.alpha) : 1;
        for (u32 i = 0; i < stripe.count; ++i, spot.column += blockDim.x) {
            i32 remainders[MODULI];
#pragma unroll
            for (u32 m = 0; m < MODULI; ++m) remainders[m] = from[m * plane + spot.column];
            const double *column = columns + spot.column;
            double other = column[task.columns], other_rest = column[2 * task.columns];
            bool is_number = is_finite(norm) && is_finite(other);  // if not, see sum_special
            double sum = combined(remainders) * back * column[3 * task.columns];
            double bound = (rest * other + (norm + rest) * other_rest + fabs(sum) * COMBINED) * scale * (1 + 0x1p-40);
            double addend = task.addend ? addend_of(task, spot.matrix, spot.row, spot.column) : 0;
            Output into;
            bool is_known = certified(task, task.alpha, sum, bound, addend, into);
            if (is_known && is_number) task.target[target_offset(task, spot.matrix, spot.row, spot.column)] = into;
            undecided |= (u32)(!is_known && is_number) << i;
        }
    }
    list_undecided(task, undecided, stripe.element, stripe.step);
}

const u32 SPECIAL_SIDE = 64, SPECIAL_DEEP = 16;  // rows and columns per block, and products per step
const u32 SPECIAL_EACH = 4;                      // rows and columns per thread
const u32 SPECIAL_ACROSS = SPECIAL_SIDE / SPECIAL_EACH;

// An element as a number that takes part alike in a sum that is infinite or NaN: finite ones only by their signs.
static __device__ __forceinline__ float special_part(float x) {
    return !is_finite(x) || x == 0 ? x : copysignf(1.0f, x);
}

// Sums of lines with infinities or NaN, which are themselves infinite or NaN. Blocks without such lines return at once.
extern "C" __global__ void __launch_bounds__(SPLIT_LINES *WARP) sum_special(const __grid_constant__ Task task) {
    __shared__ float left[SPECIAL_DEEP][SPECIAL_SIDE + 1], right[SPECIAL_DEEP][SPECIAL_SIDE + 1];
    u32 thread = threadIdx.x, row = blockIdx.x * SPECIAL_SIDE, column = blockIdx.y * SPECIAL_SIDE;
    bool is_row = thread < SPECIAL_SIDE;
    u32 number = is_row ? row + thread : column + thread - SPECIAL_SIDE;
    bool is_inside = thread < 2 * SPECIAL_SIDE && number < (is_row ? task.rows : task.columns);
    const double *norms = is_row ? task.row_bounds + task.rows : task.column_bounds + task.columns;
    if (!__syncthreads_or(is_inside && !is_finite(norms[number]))) return;
    float sums[SPECIAL_EACH][SPECIAL_EACH] = {};
    u32 down = thread / SPECIAL_ACROSS * SPECIAL_EACH, over = thread % SPECIAL_ACROSS * SPECIAL_EACH;
    for (u32 begin = 0; begin < task.depth; begin += SPECIAL_DEEP) {
        __syncthreads();
        for (u32 i = thread; i < SPECIAL_DEEP * SPECIAL_SIDE; i += SPLIT_LINES * WARP) {
            u32 line = i / SPECIAL_DEEP, along = i % SPECIAL_DEEP;
            bool is_there = begin + along < task.depth;
            left[along][line] = is_there && row + line < task.rows
                ? special_part((float)LeftLine(task, 0, row + line).at(task, begin + along)) : 0;
            right[along][line] = is_there && column + line < task.columns
                ? special_part((float)RightLine(task, 0, column + line).at(task, begin + along)) : 0;
        }
        __syncthreads();
        for (u32 k = 0; k < min(SPECIAL_DEEP, task.depth - begin); ++k)
#pragma unroll
            for (u32 i = 0; i < SPECIAL_EACH; ++i)
#pragma unroll
                for (u32 j = 0; j < SPECIAL_EACH; ++j)
                    sums[i][j] = fmaf(left[k][down + i], right[k][over + j], sums[i][j]);
    }
    for (u32 i = 0; i < SPECIAL_EACH; ++i)
        for (u32 j = 0; j < SPECIAL_EACH; ++j) {
            u32 r = row + down + i, c = column + over + j;
            if (r >= task.rows || c >= task.columns) continue;
            if (is_finite(task.row_bounds[task.rows + r]) && is_finite(task.column_bounds[task.columns + c])) continue;
            double value = sums[i][j] * task.alpha + (task.addend ? addend_of(task, 0, r, c) : 0);
            finished(task.target[target_offset(task, 0, r, c)], value);
        }
}
