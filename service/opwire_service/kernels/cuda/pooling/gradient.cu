// AVERAGE_POOLING_GRAD: each element gathers its share of the gradient of every window that contains it. With WINS,
// MAX_POOLING_GRAD: each element gathers the gradients of the windows whose maximum it is.

const int SPATIAL = 3;
const int SOURCE_AT = 0, TARGET_AT = 1, PLACE_AT = 2, POOLED_AT = 5;

typedef POSITION Position;

struct Dimension {
    u32 size, stride, window, start;
    u32 outputs;  // number of windows
    u32 step;     // between windows in the source
    u32 dilation;
    u32 pooled_step;  // between elements of the pooled tensor
};

struct Gradient {
    const Input *source, *pooled;
    Output *target;
    u32 *undecided;      // count, 0, then the indices of the undecided outputs, each with a 0
    u32 first, outputs;  // the elements to compute
    u32 room;            // for undecided outputs
    u32 divisor;         // of all windows, or 0 to count the elements of each
    Dimension dimension[SPATIAL];
    Nest nest;  // over the elements: source without spatial dimensions, target, and spatial positions
};

struct Windows {
    u32 first, end;
};

// The windows that may contain a place.
static __device__ __forceinline__ Windows windows_of(const Dimension &d, u32 place) {
    Position reach = (Position)place + d.start, before = reach - (Position)(d.window - 1) * d.dilation;
    Position first = before > 0 ? (before + d.stride - 1) / d.stride : 0, end = reach / d.stride + 1;
    return {(u32)min(first, (Position)d.outputs), (u32)min(end, (Position)d.outputs)};
}

// Number of elements of a window along a dimension.
static __device__ __forceinline__ u32 elements_of(const Dimension &d, u32 window) {
    Position begin = (Position)window * d.stride - d.start;
    return (u32)(min(begin + (Position)d.window, (Position)d.size) - max(begin, (Position)0));
}

#if WINS
// The beginning of a window along a dimension, and a place's position in it.
struct Within {
    Position begin;
    u32 own;
};

static __device__ __forceinline__ bool is_within(const Dimension &d, u32 window, u32 place, Within &within) {
    within.begin = (Position)window * d.stride - d.start;
    u32 reach = (u32)((Position)place - within.begin);
    within.own = reach / d.dilation;
    return reach % d.dilation == 0;
}

// Whether the element at a place is the first maximum of a window; NaN is the lowest value.
static __device__ bool wins(const Gradient &gradient, const Input *image, const Within (&at)[SPATIAL], float own) {
    const Dimension *d = gradient.dimension;
    bool is_before = true;
    for (u32 i = 0; i < d[0].window; ++i)
        for (u32 j = 0; j < d[1].window; ++j)
            for (u32 k = 0; k < d[2].window; ++k) {
                Position z = at[0].begin + (Position)i * d[0].dilation, y = at[1].begin + (Position)j * d[1].dilation;
                Position x = at[2].begin + (Position)k * d[2].dilation;
                if (z < 0 || z >= (Position)d[0].size || y < 0 || y >= (Position)d[1].size) continue;
                if (x < 0 || x >= (Position)d[2].size) continue;
                if (i == at[0].own && j == at[1].own && k == at[2].own) {
                    is_before = false;
                    continue;
                }
                float other =
                    widen(image[(u32)z * d[0].pooled_step + (u32)y * d[1].pooled_step + (u32)x * d[2].pooled_step]);
                bool is_number = other == other;
                if (own != own ? is_number || is_before : other > own || (is_before && other == own)) return false;
            }
    return true;
}
#endif

// Rounds a sum of quotients. Returns false if the result is undecided.
static __device__ __forceinline__ bool settled(double value, double mass, u32 terms, Output &result) {
    typedef Format<Output> F;
    double error = mass * (terms + 4) * UNIT;
    u32 low = F::nearest(value - error), high = F::nearest(value + error);
    result = F::make(low);
    return low == high || value != value;
}

extern "C" __global__ void __launch_bounds__(THREADS) share_out(const __grid_constant__ Gradient gradient) {
    u64 number = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (number >= gradient.outputs) return;
    Offsets at = {};
    go_to(gradient.nest, gradient.first + (u32)number, at);
    const Dimension *d = gradient.dimension;
    Windows z = windows_of(d[0], at.of[PLACE_AT]), y = windows_of(d[1], at.of[PLACE_AT + 1]);
    Windows x = windows_of(d[2], at.of[PLACE_AT + 2]);
    Accumulator sum;
    sum.clear();
    sum.add_term(0.0);  // turns -0 into 0
    double value = 0, mass = 0;
    u32 terms = 0, common = 0;  // divisor common to all windows, if `is_common`
    bool is_common = true;
#if WINS
    const Input *image = gradient.pooled + at.of[POOLED_AT];
    float own = widen(image[at.of[PLACE_AT] * d[0].pooled_step + at.of[PLACE_AT + 1] * d[1].pooled_step +
                            at.of[PLACE_AT + 2] * d[2].pooled_step]);
    Within within[SPATIAL];
    for (u32 i = z.first; i < z.end; ++i) {
        if (!is_within(d[0], i, at.of[PLACE_AT], within[0])) continue;
        for (u32 j = y.first; j < y.end; ++j) {
            if (!is_within(d[1], j, at.of[PLACE_AT + 1], within[1])) continue;
            const Input *source = gradient.source + at.of[SOURCE_AT] + i * d[0].step + j * d[1].step;
            for (u32 k = x.first; k < x.end; ++k) {
                if (!is_within(d[2], k, at.of[PLACE_AT + 2], within[2])) continue;
                if (!wins(gradient, image, within, own)) continue;
                float element = widen(source[k * d[2].step]);
                sum.add_term(element);
                sum.greatest = fmaxf(sum.greatest, fabsf(element));
                ++terms;
            }
        }
    }
#else
    for (u32 i = z.first; i < z.end; ++i)
        for (u32 j = y.first; j < y.end; ++j) {
            const Input *source = gradient.source + at.of[SOURCE_AT] + i * d[0].step + j * d[1].step;
            u32 lines = gradient.divisor ? 1 : elements_of(d[0], i) * elements_of(d[1], j);
            for (u32 k = x.first; k < x.end; ++k) {
                float element = widen(source[k * d[2].step]);
                u32 divisor = gradient.divisor ? gradient.divisor : lines * elements_of(d[2], k);
                is_common &= common == 0 || divisor == common;
                common = divisor;
                sum.add_term(element);
                sum.greatest = fmaxf(sum.greatest, fabsf(element));
                double share = (double)element / divisor;
                value += share;
                mass += fabs(share);
                ++terms;
            }
        }
#endif
    Output result;
    Terms all = {terms + 2.0, WINS ? terms + 1 : common ? common : 1, 0};
    bool is_settled = is_common ? sum.finish(result, Input(), all) : settled(value, mass, terms, result);
    gradient.target[at.of[TARGET_AT]] = result;
    if (is_settled) return;
    u32 i = atomicAdd(gradient.undecided, 1u);
    if (i < gradient.room) {
        gradient.undecided[2 + 2 * i] = gradient.first + (u32)number;
        gradient.undecided[3 + 2 * i] = 0;
    }
}
