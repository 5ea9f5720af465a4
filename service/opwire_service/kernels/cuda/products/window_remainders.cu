// Convolutions by remainders: filters and images are scaled to integers, each filter and each image by a power of two,
// and their remainders multiplied exactly on tensor cores. A kernel computes its sums modulo each of the small numbers in
// turn, adds the remainders up as the Chinese remainder theorem has it, and certifies the results.
//
// FRACTION, BIAS, QUOTIENT and the others are generated from one list of moduli, ROW_WARPS, COLUMN_WARPS and STAGES chosen
// by the sizes.

const u32 SPLIT_WARPS = 8, SPLIT_THREADS = SPLIT_WARPS * WARP;
const u32 OCTET = 8;      // consecutive channels whose remainders a thread writes at once
const u32 PART = 64;      // channels that are consecutive before the next tap follows
const u32 PIXELS = SPLIT_THREADS * OCTET / PART;  // per block
const u32 CHUNK = 16;     // bytes per copy; channels are padded to whole chunks
const u32 STEP = 64;      // bytes of depth per step of a product
const double HIDDEN = 0x1p-100;  // square of LOST

static __device__ __forceinline__ u32 rounded_up(u32 number, u32 unit) { return (number + unit - 1) / unit * unit; }

// The layout of the remainders. Images are boxes of what the windows reach, with padding: of each pixel, its channels.
// The depth of filters has the channels in parts, and within a part, tap after tap.
struct Layout {
    i64 begin[SPATIAL];  // of the box, in the input
    u32 size[SPATIAL], pixels, channels, padded, taps, images, first_image, steps;

    __device__ __forceinline__ Layout(const Task &task) {
        const Window &window = task.window;
        pixels = taps = 1;
        u32 places = 1;
#pragma unroll
        for (u32 i = 0; i < SPATIAL; ++i) {
            i64 reach = (i64)(window.taps[i] - 1) * window.turn[i], way = (i64)(window.places[i] - 1) * window.move[i];
            begin[i] = window.base[i] + min(reach, 0ll) + min(way, 0ll);
            size[i] = (u32)(abs(reach) + abs(way)) + 1;
            pixels *= size[i];
            taps *= window.taps[i];
            places *= window.places[i];
        }
        channels = task.depth / taps;
        padded = rounded_up(channels, CHUNK);
        images = task.columns / places;
        first_image = task.column / places;
        steps = rounded_up(padded * taps, STEP) / STEP;
    }
    __device__ __forceinline__ u64 left_plane(const Task &task) const {
        return (u64)task.matrices * task.rows * steps * STEP;
    }
    __device__ __forceinline__ u64 right_plane(const Task &task) const {
        return (u64)task.matrices * images * pixels * padded;
    }
    // The tap and the channel at some depth; false for the padding behind the last.
    __device__ __forceinline__ bool find(u32 along, u32 &tap, u32 &channel) const {
        if (along >= padded * taps) return false;
        u32 first = along / (PART * taps) * PART, rest = along - first * taps, width = min(PART, padded - first);
        tap = rest / width;
        channel = first + rest - tap * width;
        return true;
    }
    // The distance of a tap's pixel from that of the window's base.
    __device__ __forceinline__ i32 reach(const Window &window, u32 tap) const {
        Taps at(window, tap);
        i64 distance = 0;
#pragma unroll
        for (u32 i = 0; i < SPATIAL; ++i) distance = distance * size[i] + at.tap[i] * window.turn[i];
        return (i32)distance;
    }
    // The pixel of a window's base, in the images of all matrices.
    __device__ __forceinline__ u32 pixel(const Task &task, u32 matrix, const Place &place) const {
        u32 number = matrix * images + place.image - first_image;
#pragma unroll
        for (u32 i = 0; i < SPATIAL; ++i)
            number = number * size[i] + (u32)(task.window.base[i] + place.position[i] * task.window.move[i] - begin[i]);
        return number;
    }
};

// What is measured of images: of each pixel the sum of squares of its channels and of their rests, the greatest of the
// former in each of `share` groups of pixels, and the factors that take the integers back.
struct Measures {
    double *squares, *rests, *greatest, *backs;

    __device__ __forceinline__ Measures(const Task &task, const Layout &layout) {
        u32 lines = task.matrices * layout.images;
        squares = task.sums;
        rests = squares + (u64)lines * layout.pixels;
        greatest = rests + (u64)lines * layout.pixels;
        backs = greatest + (u64)lines * task.share;
    }
};

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
    for (u32 lane = PART / OCTET / 2; lane; lane /= 2) x += __shfl_xor_sync(~0u, x, lane);
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

const u32 SHARERS = PART / OCTET;  // threads that share a pixel

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

const u32 EDGE = 32;                 // rows and columns per warp
const u32 DOWN = EDGE / 16, ACROSS = EDGE / 8;
const u32 TILE_ROWS = ROW_WARPS * EDGE, TILE_COLUMNS = COLUMN_WARPS * EDGE;
const u32 TILE_THREADS = ROW_WARPS * COLUMN_WARPS * WARP;
const u32 RESIDENT = 512;  // threads per multiprocessor that registers suffice for
const u32 STAGE = (TILE_ROWS + TILE_COLUMNS) * STEP;
const u32 STEP_CHUNKS = STEP / CHUNK;
const u32 LOADED_LINES = TILE_THREADS / STEP_CHUNKS;  // per pass over a stage
const u32 KEPT_GAP = 8;
const u32 KEPT_PITCH = TILE_COLUMNS + KEPT_GAP;       // of sums on their way to other threads
const u32 KEPT = TILE_ROWS / DOWN * KEPT_PITCH * 8;
const u32 SHARED_BYTES = STAGES * STAGE > KEPT ? STAGES * STAGE : KEPT;

// The bytes of a line of a stage; chunks are exchanged so that eight lines occupy different banks.
static __device__ __forceinline__ u8 *chunk_of(u8 *lines, u32 line, u32 chunk) {
    return lines + line * STEP + (chunk ^ line / 2 % STEP_CHUNKS) * CHUNK;
}

// The steps of a tile's products, for one modulus after another, and their copies to shared memory.
struct Tile {
    u8 *stages;
    const i32 *offsets;  // of each chunk of the depth in the images, from a window's base
    const u8 *left[TILE_ROWS / LOADED_LINES], *right;
    u32 base[TILE_COLUMNS / LOADED_LINES];
    u64 left_plane, right_plane;
    u32 modulus = 0, step = 0, steps, slot = 0;

    // Copies the next step to the next stage, and closes a group of copies in any case.
    __device__ __forceinline__ void fetch() {
        u32 line = threadIdx.x / STEP_CHUNKS, chunk = threadIdx.x % STEP_CHUNKS;
        u8 *rows = stages + slot * STAGE, *columns = rows + TILE_ROWS * STEP;
        slot = slot + 1 == STAGES ? 0 : slot + 1;
        if (modulus < MODULI) {
            i32 offset = offsets[step * STEP_CHUNKS + chunk];
#pragma unroll
            for (u32 i = 0; i < TILE_ROWS / LOADED_LINES; ++i)
                copy_later(chunk_of(rows, line + i * LOADED_LINES, chunk), left[i] + step * STEP);
#pragma unroll
            for (u32 i = 0; i < TILE_COLUMNS / LOADED_LINES; ++i)
                copy_later(chunk_of(columns, line + i * LOADED_LINES, chunk), right + (u32)(base[i] + offset));
            if (++step == steps) {
                step = 0;
                ++modulus;
                right += right_plane;
#pragma unroll
                for (u32 i = 0; i < TILE_ROWS / LOADED_LINES; ++i) left[i] += left_plane;
            }
        }
        close_copies();
    }
};

static __device__ __forceinline__ void multiply_stage(i32 (&sums)[DOWN][ACROSS][4], u8 *rows) {
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u8 *columns = rows + TILE_ROWS * STEP;
    u32 row = warp / COLUMN_WARPS * EDGE + lane % 16, column = warp % COLUMN_WARPS * EDGE + lane % 8 + lane / 16 * 8;
#pragma unroll
    for (u32 chunk = 0; chunk < STEP_CHUNKS; chunk += 2) {
        u32 left[DOWN][4], right[ACROSS / 2][4];
#pragma unroll
        for (u32 i = 0; i < DOWN; ++i) load_fragments(left[i], chunk_of(rows, row + i * 16, chunk + lane / 16));
#pragma unroll
        for (u32 j = 0; j < ACROSS / 2; ++j)
            load_fragments(right[j], chunk_of(columns, column + j * 16, chunk + lane / 8 % 2));
#pragma unroll
        for (u32 i = 0; i < DOWN; ++i)
#pragma unroll
            for (u32 j = 0; j < ACROSS; ++j)
                multiply_bytes(sums[i][j], left[i], right[j / 2][j % 2 * 2], right[j / 2][j % 2 * 2 + 1]);
    }
}

// Computes the sums of a tile as fractions of the product of the moduli, in units of 2**-64: the theorem adds up
// remainders times the reciprocals of their moduli, of which only the part behind the point counts.
static __device__ __forceinline__ void multiply_tile(u64 (&fractions)[DOWN][ACROSS][4], Tile &tile) {
#pragma unroll
    for (u32 i = 0; i < STAGES - 1; ++i) tile.fetch();
    u32 slot = 0;
    for (u32 m = 0; m < MODULI; ++m) {
        // A multiple of the modulus that is larger than any sum makes them positive.
        i32 sums[DOWN][ACROSS][4];
#pragma unroll
        for (u32 i = 0; i < DOWN * ACROSS * 4; ++i) (&sums[0][0][0])[i] = BIAS[m];
        for (u32 step = 0; step < tile.steps; ++step) {
            await_copies<STAGES - 2>();
            __syncthreads();
            tile.fetch();
            multiply_stage(sums, tile.stages + slot * STAGE);
            slot = slot + 1 == STAGES ? 0 : slot + 1;
        }
#pragma unroll
        for (u32 i = 0; i < DOWN * ACROSS * 4; ++i) {
            u32 sum = (u32)(&sums[0][0][0])[i];
            u32 remainder = sum - __umulhi(sum, QUOTIENT[m]) * (u32)MODULUS[m];  // or one modulus more
            (&fractions[0][0][0])[i] += remainder * FRACTION[m];
        }
    }
}

// Bounds of a window's norm and of the norm of its rests.
struct WindowNorms {
    double norm, rest, back;

    __device__ __forceinline__ WindowNorms(const Task &task, const Layout &layout, u32 matrix, const Place &place) {
        Measures measures(task, layout);
        u32 pixel = layout.pixel(task, matrix, place);
        double squares = 0, rests = 0;
        for (u32 tap = 0; tap < layout.taps; ++tap) {
            u32 at = pixel + layout.reach(task.window, tap);
            squares += measures.squares[at];
            rests += measures.rests[at];
        }
        back = measures.backs[matrix * layout.images + place.image - layout.first_image];
        norm = sqrt(squares) * (1 + 0x1p-20);
        rest = sqrt(rests) * (1 + 0x1p-20) * back;
    }
};

extern "C" __global__ void __launch_bounds__(TILE_THREADS, RESIDENT / TILE_THREADS) convolve_bytes(const __grid_constant__ Task task) {
    extern __shared__ uint4 memory[];
    Layout layout(task);
    u32 blocks = (task.columns + TILE_COLUMNS - 1) / TILE_COLUMNS, matrix = blockIdx.x / blocks;
    u32 first_column = (blockIdx.x - matrix * blocks) * TILE_COLUMNS, first_row = blockIdx.y * TILE_ROWS;
    u64 *kept = reinterpret_cast<u64 *>(memory);
    i32 *offsets = reinterpret_cast<i32 *>((u8 *)memory + SHARED_BYTES);
    for (u32 i = threadIdx.x; i < layout.steps * STEP_CHUNKS; i += TILE_THREADS) {
        u32 tap, channel;
        bool is_there = layout.find(i * CHUNK, tap, channel);
        offsets[i] = is_there ? layout.reach(task.window, tap) * (i32)layout.padded + (i32)channel : 0;
    }
    Tile tile;
    tile.stages = (u8 *)memory;
    tile.offsets = offsets;
    tile.steps = layout.steps;
    tile.left_plane = layout.left_plane(task);
    tile.right_plane = layout.right_plane(task);
    tile.right = (const u8 *)task.right_copy;
    u32 line = threadIdx.x / STEP_CHUNKS, chunk = threadIdx.x % STEP_CHUNKS;
#pragma unroll
    for (u32 i = 0; i < TILE_ROWS / LOADED_LINES; ++i) {
        u32 row = min(first_row + line + i * LOADED_LINES, task.rows - 1);
        tile.left[i] = (const u8 *)task.left_copy + (u64)(matrix * task.rows + row) * layout.steps * STEP + chunk * CHUNK;
    }
#pragma unroll
    for (u32 i = 0; i < TILE_COLUMNS / LOADED_LINES; ++i) {
        u32 column = min(first_column + line + i * LOADED_LINES, task.columns - 1);
        tile.base[i] = layout.pixel(task, matrix, Place(task.window, task.column + column)) * layout.padded;
    }
    __syncthreads();
    u64 fractions[DOWN][ACROSS][4] = {};
    multiply_tile(fractions, tile);

    // Through shared memory, so that a thread's results are of one column, and adjacent threads' of adjacent columns.
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u32 own = threadIdx.x % TILE_COLUMNS, column = first_column + own;
    bool is_inside = column < task.columns;
    Place place(task.window, task.column + min(column, task.columns - 1));
    WindowNorms window(task, layout, matrix, place);
    if (is_inside && first_row == 0 && threadIdx.x < TILE_COLUMNS)
        task.column_bounds[matrix * task.columns + column] = window.norm;
    u32 lines = task.matrices * task.rows;
    Output *to = task.target + target_offset(task, matrix, 0, min(column, task.columns - 1));
#pragma unroll
    for (u32 i = 0; i < DOWN; ++i) {
        await_copies<0>();
        __syncthreads();
#pragma unroll
        for (u32 j = 0; j < ACROSS; ++j)
#pragma unroll
            for (u32 k = 0; k < 4; ++k) {
                u32 row = warp / COLUMN_WARPS * 16 + lane / 4 + k / 2 * 8;
                kept[row * KEPT_PITCH + warp % COLUMN_WARPS * EDGE + j * 8 + lane % 4 * 2 + k % 2] = fractions[i][j][k];
            }
        __syncthreads();
        for (u32 number = threadIdx.x / TILE_COLUMNS; number < TILE_ROWS / DOWN; number += ROW_WARPS) {
            u32 row = first_row + number / 16 * EDGE + i * 16 + number % 16;
            if (row >= task.rows || !is_inside) break;
            const double *bounds = task.row_bounds + matrix * task.rows + row;
            double norm = bounds[lines], rest = bounds[2 * lines], unit = bounds[3 * lines] * window.back * FRACTION_UNIT;
            if (norm == 0 || window.norm == 0) unit = 0;  // the sum is 0 without an error
            double sum = (double)(i64)kept[number * KEPT_PITCH + own] * unit, error = FRACTION_ERROR * unit;
            double bound = rest * window.norm + (norm + rest) * window.rest + fabs(sum) * COMBINED + error;
            double addend = task.addend ? addend_of(task, matrix, row, column) : 0;
            Output into;
            bool is_known = is_finite(norm) && is_finite(window.norm)
                && certified(task, task.alpha, sum, bound * (1 + 0x1p-40), addend, into);
            if (is_known) to[row * task.target_steps.line] = into;
            else task.undecided[2 + atomicAdd(task.undecided, 1u)] = (matrix * task.rows + row) * task.columns + column;
        }
    }
}
