// AVERAGE_POOLING_GRAD: each element gathers its share of the gradient of every window that has it; or MAX_POOLING_GRAD,
// if WINS: the gradients of the windows whose greatest element it is.

const int SPATIAL = 3;
const int SOURCE_AT = 0, TARGET_AT = 1, PLACE_AT = 2, POOLED_AT = 5;

typedef POSITION Position;

struct Dimension {
    u32 size, stride, window, start;
    u32 outputs;  // windows
    u32 step;     // between them in the source
    u32 dilation;
    u32 pooled_step;  // between elements of what was pooled
};

struct Gradient {
    const Input *source, *pooled;
    Output *target;
    u32 *uncertain;      // how many, 0, then numbers of outputs that must be computed again, each with a 0
    u32 first, outputs;  // the elements to compute
    u32 room;            // for uncertain ones
    u32 divisor;         // of all windows, or 0: the elements of each are counted
    Dimension dimension[SPATIAL];
    Nest nest;  // over the elements: of the source without the spatial dimensions, the target, and the places in those
};

struct Windows {
    u32 first, end;
};

// The windows that have a place.
static __device__ __forceinline__ Windows windows_of(const Dimension &d, u32 place) {
    Position reach = (Position)place + d.start, before = reach - (Position)(d.window - 1) * d.dilation;
    Position first = before > 0 ? (before + d.stride - 1) / d.stride : 0, end = reach / d.stride + 1;
    return {(u32)min(first, (Position)d.outputs), (u32)min(end, (Position)d.outputs)};
}

// How many elements a window has along a dimension.
static __device__ __forceinline__ u32 elements_of(const Dimension &d, u32 window) {
    Position begin = (Position)window * d.stride - d.start;
    return (u32)(min(begin + (Position)d.window, (Position)d.size) - max(begin, (Position)0));
}

#if WINS
// Where a window begins, and the position of a place in it, along a dimension.
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

// Whether no element of a window is greater than that of a place, nor as great and before it; NaN is the least.
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

// A sum of quotients, rounded if its error leaves no doubt.
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
    sum.add_term(0.0);  // a zero has no sign
    double value = 0, mass = 0;
    u32 terms = 0, common = 0;  // common to all windows, if it is
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
    bool is_certain = is_common ? sum.finish(result, Input(), all) : settled(value, mass, terms, result);
    gradient.target[at.of[TARGET_AT]] = result;
    if (is_certain) return;
    u32 i = atomicAdd(gradient.uncertain, 1u);
    if (i < gradient.room) {
        gradient.uncertain[2 + 2 * i] = gradient.first + (u32)number;
        gradient.uncertain[3 + 2 * i] = 0;
    }
}
