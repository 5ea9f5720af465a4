// Windows that are added up, by a Collector and an Accumulator: their mean if MEAN, else a norm. Windows of WINDOW0 x
// WINDOW1 x WINDOW2 elements, if those are not 0, have a thread each; the threads along x share any other.

const int SPATIAL = 3;
const int SOURCE_AT = 0, TARGET_AT = 1, PLACE_AT = 2;
const u32 FLUSH = 4096;  // elements after which what was collected is added to the rest

typedef POSITION Position;

struct Dimension {
    u32 size, stride, window, start, dilation;
    u32 step;  // of the source
};

struct Pooling {
    const Input *source;
    Output *target;
    u32 *uncertain;      // how many, 0, then numbers of outputs that must be computed again, each with a 0
    u32 first, outputs;  // the outputs to compute
    u32 room;            // for uncertain ones
    u32 divisor;         // of all means, or 0: the elements of each window are counted
    Dimension dimension[SPATIAL];
    Nest nest;  // over the outputs: of the source without the spatial dimensions, the target, and the places in those
};

static __device__ __forceinline__ void store(const Pooling &pooling, u32 output, u32 at, Accumulator total, u32 elements) {
    u32 divisor = pooling.divisor ? pooling.divisor : elements;
    Output result;
    bool is_certain = true;
    if (elements == 0 && (!MEAN || divisor == 0)) {
        result = Format<Output>::make(MEAN ? Format<Output>::quiet_nan : 0);
    } else {
#if MEAN
        if (elements < divisor) total.add_term(0.0);  // padding
#endif
        Terms terms = {elements + 32.0, divisor, 0};
        is_certain = total.finish(result, Input(), terms);
    }
    pooling.target[at] = result;
    if (is_certain) return;
    u32 i = atomicAdd(pooling.uncertain, 1u);
    if (i < pooling.room) {
        pooling.uncertain[2 + 2 * i] = output;
        pooling.uncertain[3 + 2 * i] = 0;
    }
}

#if WINDOW0
extern "C" __global__ void __launch_bounds__(THREADS) pool_small(const __grid_constant__ Pooling pooling) {
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
    Collector terms;
    terms.clear();
    terms.add(values, 0, 0);
    store(pooling, number, at.of[TARGET_AT], terms.total(), count[0] * count[1] * count[2]);
}
#else
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

extern "C" __global__ void __launch_bounds__(THREADS) pool_windows(const __grid_constant__ Pooling pooling) {
    __shared__ __align__(16) char memory[THREADS * sizeof(Accumulator)];
    u64 number = (u64)blockIdx.x * blockDim.y + threadIdx.y;
    bool present = number < pooling.outputs;
    Offsets at = {};
    Accumulator total;
    total.clear();
    u32 elements = 0;
    if (present) {
        go_to(pooling.nest, pooling.first + (u32)number, at);
        const Input *source = pooling.source + at.of[SOURCE_AT];
        Span z = span(pooling.dimension[0], at.of[PLACE_AT]), y = span(pooling.dimension[1], at.of[PLACE_AT + 1]);
        Span x = span(pooling.dimension[2], at.of[PLACE_AT + 2]);
        elements = z.count * y.count * x.count;
        Collector terms;
        terms.clear();
        u32 since = 0;
        u32 column = threadIdx.x, line = 0, lines = z.count * y.count;
        for (u32 element = threadIdx.x; element < elements; element += blockDim.x, column += blockDim.x) {
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
