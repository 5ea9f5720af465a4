// RESAMPLE_GRAD, RESAMPLE_GRAD1: each element gathers the gradients of the outputs that read it, times its weights in
// them. RESAMPLED, LINEAR and ROUNDING are as in `resample`.

const u32 THREADS = 256;
const int SOURCE_AT = 0, TARGET_AT = 1, PLACE_AT = 2;

typedef ELEMENT Element;

struct Task {
    const Element *source;
    Element *target;
    u32 *undecided;      // count, 0, then the indices of the undecided outputs, each with a 0
    u32 first, count;    // the elements to compute
    u32 room, unused;
    u32 outputs[4];      // along each resampled dimension
    Sampled axis[4];     // of the elements; the steps are of the outputs
    Nest nest;           // over the elements: source without resampled dimensions, target, and positions along those
};

// The indices that an output reads: one, and the next one if it has a weight.
struct Read {
    u32 low, high;
    float weight;  // of the higher one
};

static __device__ __forceinline__ Read read_by(const Sampled &axis, u32 output) {
    float at = coordinate(axis, output);
    if (!LINEAR) {
        u32 index = nearest_index<ROUNDING>(at, axis.size);
        return {index, index, 0};
    }
    Around pair = neighbors(at, axis.size, 1);
    return {pair.offset, pair.offset + pair.step, pair.weight};
}

// Binary search for the first of `count` outputs for which a monotonic predicate holds.
template <class Holds> static __device__ __forceinline__ u32 first_that(u32 count, Holds holds) {
    u32 least = 0, most = count;
    while (least < most) {
        u32 middle = least + (most - least) / 2;
        if (holds(middle))
            most = middle;
        else
            least = middle + 1;
    }
    return least;
}

struct Readers {
    u32 first, count;
};

static __device__ Readers readers_of(const Sampled &axis, u32 outputs, u32 index) {
    // Where coordinates are NaN, all outputs are nearest, but none is near enough to be interpolated from several.
    if (isnan(coordinate(axis, 0))) return {0, LINEAR && axis.size > 1 ? 0 : outputs};
    u32 first = first_that(outputs, [&](u32 output) { return read_by(axis, output).high >= index; });
    u32 end = first_that(outputs, [&](u32 output) { return read_by(axis, output).low > index; });
    return {first, end > first ? end - first : 0};
}

// Visits the outputs that read an element, with the weights along each dimension.
template <class Visit>
static __device__ __forceinline__ void visit(
    const Task &task, const Offsets &at, const Readers (&readers)[RESAMPLED + 1], Visit use
) {
    u64 count = 1;
    for (int i = 0; i < RESAMPLED; ++i) count *= readers[i].count;
    for (u64 n = 0; n < count; ++n) {
        u64 rest = n;
        u32 from = at.of[SOURCE_AT];
        double weights[RESAMPLED + 1];
        for (int i = RESAMPLED - 1; i >= 0; --i) {
            u32 output = readers[i].first + (u32)(rest % readers[i].count);
            rest /= readers[i].count;
            Read read = read_by(task.axis[i], output);
            weights[i] = !LINEAR || read.low == at.of[PLACE_AT + i] ? 1.0 - read.weight : read.weight;
            from += output * task.axis[i].step;
        }
        use(weights, (double)widen(task.source[from]));
    }
}

static __device__ __noinline__ bool gather_exactly(
    const Task &task, const Offsets &at, const Readers (&readers)[RESAMPLED + 1], Element &result
) {
    Exactly sum = {0, 0, true};
    visit(task, at, readers, [&](const double (&weights)[RESAMPLED + 1], double x) {
        double weight = 1;
        for (int i = 0; i < RESAMPLED; ++i) {
            double product = weight * weights[i];
            sum.is_exact &= fma(weight, weights[i], -product) == 0 && product > 1e-200;
            // A rounded weight uses all bits of a double.
            sum.is_exact &= weights[i] * 0x1p48 == floor(weights[i] * 0x1p48);
            weight = product;
        }
        sum.add(weight, x);
    });
    return settled(sum, result);
}

extern "C" __global__ void __launch_bounds__(THREADS) gather(const __grid_constant__ Task task) {
    u64 number = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (number >= task.count) return;
    Offsets at = {};
    go_to(task.nest, task.first + (u32)number, at);
    Readers readers[RESAMPLED + 1];
    for (int i = 0; i < RESAMPLED; ++i)
        readers[i] = readers_of(task.axis[i], task.outputs[i], at.of[PLACE_AT + i]);
    double value = 0, mass = 0, terms = 0;
    visit(task, at, readers, [&](const double (&weights)[RESAMPLED + 1], double x) {
        double weight = 1;
        for (int i = 0; i < RESAMPLED; ++i) weight *= weights[i];
        value += weight * x;
        mass += weight * fabs(x);
        terms += 1;
    });
    mass *= fmax(1.0, terms / 16);  // sums of many terms lose more
    Element result;
    bool is_settled = settled(value, (float)mass, result) || gather_exactly(task, at, readers, result);
    task.target[at.of[TARGET_AT]] = result;
    if (is_settled) return;
    u32 i = atomicAdd(task.undecided, 1u);
    if (i < task.room) {
        task.undecided[2 + 2 * i] = task.first + (u32)number;
        task.undecided[3 + 2 * i] = 0;
    }
}
