// Pooling by sums over windows, with a Collector and an Accumulator: the mean if MEAN, else a norm. Windows of WINDOW0
// x WINDOW1 x WINDOW2 elements, if nonzero, have one thread each, or one per STRIP adjacent windows. Other windows are
// shared by the threads along x. With FLOATS, small windows need doubles only where floats leave results undecided.

const int SPATIAL = 3;
const int SOURCE_AT = 0, TARGET_AT = 1, PLACE_AT = 2;
const u32 FLUSH = 4096;  // elements after which the collector is merged into the accumulator

typedef POSITION Position;

struct Dimension {
    u32 size, stride, window, start, dilation;
    u32 step;  // in the source
};

struct Pooling {
    const Input *source;
    Output *target;
    u32 *undecided;      // count, 0, then the indices of the undecided outputs, each with a 0
    u32 first, outputs;  // the outputs to compute
    u32 room;            // for undecided outputs
    u32 divisor;         // of all means, or 0 to count the elements of each window
    Dimension dimension[SPATIAL];
    Nest nest;  // over the outputs: source without spatial dimensions, target, and spatial positions
};

static __device__ __forceinline__ void store(const Pooling &pooling, u32 output, u32 at, Accumulator total, u32 elements) {
    u32 divisor = pooling.divisor ? pooling.divisor : elements;
    Output result;
    bool is_settled = true;
    if (elements == 0 && (!MEAN || divisor == 0)) {
        result = Format<Output>::make(MEAN ? Format<Output>::quiet_nan : 0);
    } else {
#if MEAN
        if (elements < divisor) total.add_term(0.0);  // padding
#endif
        Terms terms = {elements + 32.0, divisor, 0};
        is_settled = total.finish(result, Input(), terms);
    }
    pooling.target[at] = result;
    if (is_settled) return;
    u32 i = atomicAdd(pooling.undecided, 1u);
    if (i < pooling.room) {
        pooling.undecided[2 + 2 * i] = output;
        pooling.undecided[3 + 2 * i] = 0;
    }
}

struct Span {
    u32 offset, count, step;
};

static __device__ __forceinline__ Span span(const Dimension &d, u32 output) {
    Position begin = (Position)output * d.stride - d.start;
    Position skipped = begin < 0 ? (-begin + d.dilation - 1) / d.dilation : 0;
    Position first = begin + skipped * d.dilation;
    Position room = first < (Position)d.size ? ((Position)d.size - first - 1) / d.dilation + 1 : 0;
    Position count = min((Position)d.window - skipped, room);
    return {(u32)first * d.step, (u32)max(count, (Position)0), d.dilation * d.step};
}

// Sums every `step`-th element of a window, starting at `first`.
static __device__ __forceinline__ Accumulator gathered(
    const Pooling &pooling, const Offsets &at, u32 first, u32 step, u32 &elements
) {
    const Input *source = pooling.source + at.of[SOURCE_AT];
    Span z = span(pooling.dimension[0], at.of[PLACE_AT]), y = span(pooling.dimension[1], at.of[PLACE_AT + 1]);
    Span x = span(pooling.dimension[2], at.of[PLACE_AT + 2]);
    elements = z.count * y.count * x.count;
    Accumulator total;
    total.clear();
    Collector terms;
    terms.clear();
    u32 since = 0, column = first, line = 0, lines = z.count * y.count;
    for (u32 element = first; element < elements; element += step, column += step) {
        if (column >= x.count) {
            u32 more = column / x.count;
            line += more;
            column -= more * x.count;
        }
        u32 plane = lines == y.count ? 0 : line / y.count, row = line - plane * y.count;
        u32 from = z.offset + plane * z.step + y.offset + row * y.step + x.offset + column * x.step;
        float values[1] = {widen(source[from])};
        terms.add(values, 0, 0);
        if (++since == FLUSH) {
            total.merge(terms.total());
            terms.clear();
            since = 0;
        }
    }
    total.merge(terms.total());
    return total;
}

#if STRIP || (WINDOW0 && FLOATS && SQUARED)
// Computes a single window.
static __device__ __noinline__ void alone(const Pooling &pooling, u32 number) {
    Offsets at = {};
    go_to(pooling.nest, number, at);
    u32 elements;
    Accumulator total = gathered(pooling, at, 0, 1, elements);
    store(pooling, number, at.of[TARGET_AT], total, elements);
}
#endif

#if STRIP
// The quotient of an exact sum, rounded once.
static __device__ __noinline__ Output divided(double sum, u32 divisor) {
    typedef Format<Output> F;
    bool is_negative = sum < 0;
    u32 bits;
    round_to<Output>(bits, Quotient{fabs(sum), 0.0, (double)divisor}, 0);
    return F::make(bits | (is_negative ? F::sign : 0));
}

static __device__ __forceinline__ Output mean_of(double sum, u32 divisor) {
    double share = divisor == WINDOW0 * WINDOW1 * WINDOW2 ? 1.0 / (WINDOW0 * WINDOW1 * WINDOW2) : 1.0 / divisor;
    if ((divisor & (divisor - 1)) == 0)  // the product with a power of two is exact
        return Format<Output>::make(Format<Output>::nearest(sum * share));
    Output result;
    return certainly(sum * share, 4, 4 * UNIT, result) ? result : divided(sum, divisor);
}

#if FLOATS
const u32 LEAST_RESULT = 0x0d800000;  // bits of 2^-100: less leaves the low part too few bits
typedef FloatSum Column;
const int ELEMENTS = WINDOW0 * WINDOW1 * WINDOW2;
struct Sizes : Magnitudes {
    __device__ __forceinline__ bool are_fit() const { return are_close<ELEMENTS>(HALF); }
};

static __device__ __forceinline__ void add(Column &sum, float x) { sum.add(x); }
static __device__ __forceinline__ void add(Column &sum, const Column &other) { sum.add(other.high, other.low); }
static __device__ __forceinline__ bool is_settled(const Column &sum) { return sum.is_finite(); }
static __device__ __forceinline__ Output mean_of(const Column &sum, u32 divisor) {
    Pair total = sum.low == 0 ? Pair{sum.high, 0} : ordered_sum(sum.high, sum.low);
    Output result;
    float by = divisor;
    bool is_power = (divisor & (divisor - 1)) == 0;  // whose inverse is exact
    Pair mean = is_power ? product(total, __uint_as_float(0x7f000000 - __float_as_uint(by))) : quotient(total, by);
    if (narrowly(mean, is_power ? 0 : 0x1.2p-43f, LEAST_RESULT, false, result)) return result;
    if (total.hi != 0) return mean_of(sum.total(), divisor);
    narrow(result, total.hi);
    return result;
}
#else
typedef double Column;
// A double adds a few floats exactly if their exponents are close.
struct Sizes {
    float top = 0;
    u32 least = ~0u;

    __device__ __forceinline__ void add(float x) {
        top = fmaxf(top, fabsf(x));
        least = min(least, 2 * __float_as_uint(x) - 1);
    }
    __device__ __forceinline__ bool are_fit() const {
        return HALF || __float_as_uint(top) <= (least >> 1) + ((28u - 6) << 23);
    }
};
static __device__ __forceinline__ void add(Column &sum, double x) { sum += x; }
static __device__ __forceinline__ bool is_settled(Column) { return true; }
#endif

const int COVER = (STRIP - 1) * STRIDE + (WINDOW2 - 1) * DILATION + 1;  // columns of a strip
const int AHEAD = (PACK - START % PACK) % PACK;                         // from an aligned address to the first column
const int LOADS = (AHEAD + COVER + PACK - 1) / PACK;

// Sums the elements of a strip exactly, column by column, if their exponents are close; others are left to `alone`.
extern "C" __global__ void __launch_bounds__(THREADS) sum_strips(const __grid_constant__ Pooling pooling) {
    u32 strip = blockIdx.x * THREADS + threadIdx.x;
    if (strip >= pooling.outputs / STRIP) return;
    u32 number = pooling.first + strip * STRIP;
    Offsets at = {};
    go_to(pooling.nest, number, at);
    Position begin = (Position)at.of[PLACE_AT + 2] * STRIDE - START;
    Column column[COVER];
#pragma unroll
    for (int c = 0; c < COVER; ++c) column[c] = Column{-0.0f};
    Sizes sizes;
    u32 rows = 0;
#pragma unroll
    for (int line = 0; line < WINDOW0 * WINDOW1; ++line) {
        const Dimension &deep = pooling.dimension[0], &down = pooling.dimension[1];
        Position z = (Position)at.of[PLACE_AT] * deep.stride - deep.start + (Position)(line / WINDOW1) * deep.dilation;
        Position y = (Position)at.of[PLACE_AT + 1] * down.stride - down.start + (Position)(line % WINDOW1) * down.dilation;
        if (z < 0 || z >= (Position)deep.size || y < 0 || y >= (Position)down.size) continue;
        ++rows;
        const Input *source = pooling.source + at.of[SOURCE_AT] + (u32)z * deep.step + (u32)y * down.step;
#pragma unroll
        for (int n = 0; n < LOADS; ++n) {
            Position x = begin - AHEAD + n * PACK;
            bool is_there = x >= 0 && x < (Position)pooling.dimension[2].size;
            Pack<Input, PACK> pack = {};
            if (is_there) pack = *reinterpret_cast<const Pack<Input, PACK> *>(source + x);
#pragma unroll
            for (int k = 0; k < PACK; ++k) {
                int c = n * PACK + k - AHEAD;
                if (c < 0 || c >= COVER) continue;
                float value = is_there ? widen(pack.lane[k]) : -0.0f;
                if (MAGNITUDE) value = fabsf(value);
                sizes.add(value);
                add(column[c], value);
            }
        }
    }
    bool are_fit = sizes.are_fit();
    Pack<Output, STRIP> results;
    u32 undecided = 0;
#pragma unroll
    for (int k = 0; k < STRIP; ++k) {
        Column sum = column[k * STRIDE];
        u32 columns = 0;
#pragma unroll
        for (int i = 0; i < WINDOW2; ++i) {
            Position x = begin + k * STRIDE + i * DILATION;
            columns += x >= 0 && x < (Position)pooling.dimension[2].size;
            if (i) add(sum, column[k * STRIDE + i * DILATION]);
        }
        u32 elements = rows * columns, divisor = !MEAN ? 1 : pooling.divisor ? pooling.divisor : elements;
        if (MEAN ? elements < divisor : elements == 0) add(sum, 0.0f);  // padding
        results.lane[k] = mean_of(sum, divisor);
        undecided |= (u32)!(are_fit & is_settled(sum)) << k;
    }
    *reinterpret_cast<Pack<Output, STRIP> *>(pooling.target + at.of[TARGET_AT]) = results;
    for (; undecided; undecided &= undecided - 1) alone(pooling, number + __ffs(undecided) - 1);
}
#elif WINDOW0
#if FLOATS && SQUARED
// The root of a sum of squares, which are off by 2^-37 in all.
template <int COUNT> static __device__ __forceinline__ bool is_norm_settled(const float (&values)[COUNT], Output &result) {
    const u32 LEAST_ROOT = 0x29000000;  // bits of 2^-45
    FloatSum sum;
    float greatest = 0;
#pragma unroll
    for (int k = 0; k < COUNT; ++k) {
        sum.add_square(values[k]);
        greatest = fmaxf(greatest, fabsf(values[k]));
    }
    narrow(result, 0.0f);
    return (greatest == 0 && sum.high == 0) || narrowly(root(ordered_sum(sum.high, sum.low)), 0x1.1p-38f, LEAST_ROOT, false, result);
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) sum_small_windows(const __grid_constant__ Pooling pooling) {
    const int SIZE[SPATIAL] = {WINDOW0, WINDOW1, WINDOW2};
    u32 number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= pooling.outputs) return;
    number += pooling.first;
    Offsets at = {};
    go_to(pooling.nest, number, at);
    const Input *source = pooling.source + at.of[SOURCE_AT];
    u32 offset[SPATIAL][7], count[SPATIAL];
    bool inside[SPATIAL][7];
#pragma unroll
    for (int i = 0; i < SPATIAL; ++i) {
        const Dimension &d = pooling.dimension[i];
        Position begin = (Position)at.of[PLACE_AT + i] * d.stride - d.start;
        count[i] = 0;
#pragma unroll
        for (int k = 0; k < SIZE[i]; ++k) {
            Position place = begin + (Position)k * d.dilation;
            inside[i][k] = place >= 0 && place < (Position)d.size;
            offset[i][k] = (u32)place * d.step;
            count[i] += inside[i][k];
        }
    }
    float values[WINDOW0 * WINDOW1 * WINDOW2];
#pragma unroll
    for (int n = 0; n < WINDOW0 * WINDOW1 * WINDOW2; ++n) {
        int z = n / (WINDOW1 * WINDOW2), y = n / WINDOW2 % WINDOW1, x = n % WINDOW2;
        bool is_there = inside[0][z] && inside[1][y] && inside[2][x];
        values[n] = is_there ? widen(source[offset[0][z] + offset[1][y] + offset[2][x]]) : -0.0f;
    }
#if FLOATS && SQUARED
    if (!is_norm_settled(values, pooling.target[at.of[TARGET_AT]])) alone(pooling, number);
#else
    Collector terms;
    terms.clear();
    terms.add(values, 0, 0);
    store(pooling, number, at.of[TARGET_AT], terms.total(), count[0] * count[1] * count[2]);
#endif
}
#else
extern "C" __global__ void __launch_bounds__(THREADS) sum_windows(const __grid_constant__ Pooling pooling) {
    __shared__ __align__(16) char memory[THREADS * sizeof(Accumulator)];
    u64 number = (u64)blockIdx.x * blockDim.y + threadIdx.y;
    bool present = number < pooling.outputs;
    Offsets at = {};
    Accumulator total;
    total.clear();
    u32 elements = 0;
    if (present) {
        go_to(pooling.nest, pooling.first + (u32)number, at);
        total = gathered(pooling, at, threadIdx.x, blockDim.x, elements);
    }
    Accumulator *mine = reinterpret_cast<Accumulator *>(memory) + threadIdx.y * blockDim.x + threadIdx.x;
    for (u32 half = blockDim.x / 2; half; half /= 2) {
        *mine = total;
        __syncthreads();
        if (threadIdx.x < half) total.merge(mine[half]);
        __syncthreads();
    }
    if (present && threadIdx.x == 0) store(pooling, pooling.first + (u32)number, at.of[TARGET_AT], total, elements);
}
#endif
