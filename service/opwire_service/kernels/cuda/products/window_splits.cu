// Splits filters and images into the remainders of integers, and measures them.

const u32 SPLIT_WARPS = 8, SPLIT_THREADS = SPLIT_WARPS * WARP;
const u32 OCTET = 8;             // consecutive channels whose remainders a thread writes at once
const u32 SHARERS = PART / OCTET;                 // threads that share a pixel
const u32 PIXELS = SPLIT_THREADS / SHARERS;       // per block
const double HIDDEN = 0x1p-100;  // square of LOST

template <class Join> static __device__ __forceinline__ double joined_in_block(double x, Join join) {
    __shared__ double parts[SPLIT_WARPS];
    for (u32 lane = WARP / 2; lane; lane /= 2) x = join(x, __shfl_xor_sync(~0u, x, lane));
    __syncthreads();
    if (threadIdx.x % WARP == 0) parts[threadIdx.x / WARP] = x;
    __syncthreads();
    x = parts[0];
    for (u32 i = 1; i < SPLIT_WARPS; ++i) x = join(x, parts[i]);
    return x;
}
static __device__ __forceinline__ double sum_of_block(double x) {
    return joined_in_block(x, [](double a, double b) { return a + b; });
}
static __device__ __forceinline__ double greatest_of_block(double x) {
    return joined_in_block(x, [](double a, double b) { return a > b ? a : b; });
}

// Adds up over the threads that share a pixel.
static __device__ __forceinline__ double sum_of_pixel(double x) {
    for (u32 lane = SHARERS / 2; lane; lane /= 2) x += __shfl_xor_sync(~0u, x, lane);
    return x;
}

typedef Pack<u32, 2> Bytes;

struct Packed {
    u32 word[MODULI][2] = {};

    __device__ __forceinline__ void add(const Digits &digits, u32 at, const float (&by)[MODULI][3]) {
#pragma unroll
        for (u32 m = 0; m < MODULI; ++m) word[m][at / 4] |= (digits.remainder(m, by[m]) & 0xff) << (at % 4 * 8);
    }
    __device__ __forceinline__ void store(u8 *to, u64 plane) const {
#pragma unroll
        for (u32 m = 0; m < MODULI; ++m) *reinterpret_cast<Bytes *>(to + m * plane) = {word[m][0], word[m][1]};
    }
};

// Splits a filter into remainders, and keeps the same four numbers as `split`.
static __device__ void split_filter(const Task &task, u32 number) {
    Layout layout(task);
    const Window &window = task.window;
    u32 lines = task.matrices * task.rows, matrix = number / task.rows;
    LeftLine line(task, matrix, number - matrix * task.rows);
    double squares = 0;
    for (u32 along = threadIdx.x; along < task.depth; along += SPLIT_THREADS) {
        double x = line.at(task, along);
        squares = fma(x, x, squares);
    }
    double norm = sqrt(sum_of_block(squares)) * (1 + 0x1p-20);
    bool is_number = is_finite(norm);
    Scaling scaling(norm);
    u8 *to = (u8 *)task.left_copy + (u64)number * layout.steps * STEP;
    for (u32 along = threadIdx.x * OCTET; along < layout.steps * STEP; along += SPLIT_THREADS * OCTET) {
        Packed packed;
        u32 tap, channel;
        if (is_number && layout.find(along, tap, channel)) {
            Taps taps(window, tap);
            taps.channel = channel;
#pragma unroll
            for (u32 i = 0; i < OCTET; ++i, ++taps.channel)
                if (channel + i < layout.channels)
                    packed.add(scaling.digits((float)line.at(task, taps)), i, LEFT_BY);
        }
        packed.store(to + along, layout.left_plane(task));
    }
    double rest = sum_of_block(scaling.rests);
    bool is_exact = __syncthreads_and(scaling.is_exact);
    if (threadIdx.x) return;
    task.row_bounds[number] = norm * task.error;
    task.row_bounds[lines + number] = norm;
    task.row_bounds[2 * lines + number] = is_exact ? 0 : (sqrt(rest) * (1 + 0x1p-5) + LOST) * scaling.back();
    task.row_bounds[3 * lines + number] = scaling.back();
}

// Pixels of an image, some channels at a time.
struct Patch {
    const Right *from[PIXELS];  // or null for padding
    float part[PIXELS][PART + 4];

    __device__ __forceinline__ void place(const Task &task, const Layout &layout, u32 line, u32 first) {
        __syncthreads();
        if (threadIdx.x < PIXELS) {
            const Window &window = task.window;
            u32 matrix = line / layout.images, rest = first + threadIdx.x;
            bool is_inside = rest < layout.pixels;
            i64 offset = (i64)(layout.first_image + line - matrix * layout.images) * window.image;
#pragma unroll
            for (int i = SPATIAL - 1; i >= 0; --i) {
                i64 at = layout.begin[i] + rest % layout.size[i];
                rest /= layout.size[i];
                is_inside &= (u64)at < window.size[i];
                offset += at * window.space[i];
            }
            from[threadIdx.x] = is_inside ? task.right + matrix_offset(task, task.right_steps, matrix) + offset : nullptr;
        }
    }
    // Loads channels, with zeros for padding.
    __device__ __forceinline__ void load(const Task &task, const Layout &layout, u32 channel) {
        const Window &window = task.window;
        __syncthreads();
        bool is_along = abs(window.channel) < abs(window.space[SPATIAL - 1]);
#pragma unroll
        for (u32 i = 0; i < OCTET; ++i) {
            u32 number = threadIdx.x + i * SPLIT_THREADS;
            u32 pixel = is_along ? number / PART : number % PIXELS, own = is_along ? number % PART : number / PIXELS;
            const Right *at = channel + own < layout.channels ? from[pixel] : nullptr;
            part[pixel][own] = at ? widen(at[(channel + own) * window.channel]) : 0.0f;
        }
        __syncthreads();
    }
};

static __device__ void measure_pixels(const Task &task, u32 line, u32 group) {
    __shared__ Patch patch;
    Layout layout(task);
    Measures measures(task, layout);
    u32 pixel = threadIdx.x / SHARERS, own = threadIdx.x % SHARERS * OCTET;
    double greatest = 0;
    for (u32 first = group * PIXELS; first < layout.pixels; first += task.share * PIXELS) {
        patch.place(task, layout, line, first);
        double squares = 0;
        for (u32 channel = 0; channel < layout.channels; channel += PART) {
            patch.load(task, layout, channel);
#pragma unroll
            for (u32 i = 0; i < OCTET; ++i) {
                double x = patch.part[pixel][own + i];
                squares = fma(x, x, squares);
            }
        }
        squares = sum_of_pixel(squares);
        if (own == 0 && first + pixel < layout.pixels) measures.squares[(u64)line * layout.pixels + first + pixel] = squares;
        if (is_finite(squares) && squares > greatest) greatest = squares;
    }
    greatest = greatest_of_block(greatest);
    if (threadIdx.x == 0) measures.greatest[line * task.share + group] = greatest;
}

// Splits the filters, and measures the images; also clears the list of undecided sums.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS) split_filters(const __grid_constant__ Task task) {
    u32 filters = task.matrices * task.rows, block = blockIdx.x;
    if (block == 0 && threadIdx.x < 2) task.undecided[threadIdx.x] = 0;
    if (block < filters) return split_filter(task, block);
    block -= filters;
    measure_pixels(task, block / task.share, block % task.share);
}

// Splits the images. The bytes of pixels with infinities or NaN are 0, and the norms of their windows are not finite.
extern "C" __global__ void __launch_bounds__(SPLIT_THREADS) split_images(const __grid_constant__ Task task) {
    __shared__ Patch patch;
    Layout layout(task);
    Measures measures(task, layout);
    u32 groups = (layout.pixels + PIXELS - 1) / PIXELS, line = blockIdx.x / groups, group = blockIdx.x - line * groups;
    double greatest = 0;
    for (u32 i = threadIdx.x; i < task.share; i += SPLIT_THREADS) {
        double other = measures.greatest[line * task.share + i];
        if (other > greatest) greatest = other;
    }
    greatest = greatest_of_block(greatest);
    Scaling scaling(sqrt(greatest * layout.taps) * (1 + 0x1p-20));
    u32 pixel = group * PIXELS + threadIdx.x / SHARERS, own = threadIdx.x % SHARERS * OCTET;
    u64 number = (u64)line * layout.pixels + pixel;
    bool is_inside = pixel < layout.pixels, is_number = is_inside && is_finite(measures.squares[number]);
    patch.place(task, layout, line, group * PIXELS);
    for (u32 channel = 0; channel < layout.padded; channel += PART) {
        patch.load(task, layout, channel);
        if (!is_inside || channel + own >= layout.padded) continue;
        Packed packed;
        const float *from = patch.part[threadIdx.x / SHARERS] + own;
#pragma unroll
        for (u32 i = 0; i < OCTET; ++i) packed.add(scaling.digits(is_number ? from[i] : 0.0f), i, RIGHT_BY);
        packed.store((u8 *)task.right_copy + number * layout.padded + channel + own, layout.right_plane(task));
    }
    double rest = sum_of_pixel(scaling.is_exact ? 0 : scaling.rests * (1 + 0x1p-4) + HIDDEN);
    if (own == 0 && is_inside) measures.rests[number] = rest;
    if (group == 0 && threadIdx.x == 0) measures.backs[line] = scaling.back();
}

