// Resampling along RESAMPLED dimensions, LANES outputs at a time, contiguous in memory. INNER is the resampled
// dimension along which they are contiguous, or -1. Interpolation is linear if LINEAR, else nearest by ROUNDING;
// TRIANGLES has a bit for each dimension with a triangle filter. With PAIRS, floats interpolate if that settles a result.

const u32 THREADS = 256;
const int SOURCE_AT = 0, TARGET_AT = 1, PLACE_AT = 2;

struct Task {
    const Element *source;
    Element *target;
    u32 *undecided;     // count, 0, then the indices of the undecided outputs, each with a 0
    u32 first, packs;   // the outputs to compute, in packs of LANES
    u32 room, unused;
    u32 step[TENSORS];  // between the LANES outputs of a pack
    Sampled axis[4];
    Nest nest;  // over packs: source without resampled dimensions, target, and positions along those
};

static __device__ __forceinline__ void list(const Task &task, u32 output) {
    u32 i = atomicAdd(task.undecided, 1u);
    if (i < task.room) {
        task.undecided[2 + 2 * i] = output;
        task.undecided[3 + 2 * i] = 0;
    }
}

static __device__ __forceinline__ u32 place(const Task &task, const Offsets &at, int tensor, int lane) {
    return at.of[tensor] + lane * task.step[tensor];
}

#if TRIANGLES
struct Taps {
    u32 begin, end;         // indices, inclusive
    double center, share;   // of a triangle; without one `share` is 0 and `center` is the second index's weight
    double low, high;       // ends of a triangle
};

static __device__ __forceinline__ double straight(double center, double slope, double first, double last) {
    return (last - first + 1) * (1 - slope * (center - (first + last) / 2));
}

static __device__ __forceinline__ double heights(double center, double scale, double begin, double end) {
    double middle = fmin(fmax(floor(center), begin - 1), end);
    return fmax(straight(center, scale, begin, middle) + straight(center, -scale, middle + 1, end), 0.0);
}

static __device__ Taps taps_of(const Sampled &axis, bool is_triangle, u32 output) {
    double at = coordinate(axis, output), last = axis.size - 1.0;
    if (!is_triangle || !isfinite(at)) {
        Around pair = around(axis, output, 1);
        return {pair.offset, pair.offset + pair.step, pair.weight, 0, 0, 0};
    }
    double half = 1 / (double)axis.scale;
    double center = fmin(fmax(at, -half - 2), last + half + 2), low = floor(center - half), high = ceil(center + half);
    double begin = fmin(fmax(low, 0.0), last), end = fmin(fmax(high, 0.0), last);
    return {(u32)begin, (u32)end, center, 1 / heights(center, axis.scale, low + 1, high - 1), low, high};
}

static __device__ double weight_of(const Taps &taps, const Sampled &axis, u32 index) {
    if (taps.share == 0) return index == taps.begin ? 1 - taps.center : taps.center;
    double low = index ? index : fmin(taps.low, 0.0), high = index < axis.size - 1 ? index : fmax(taps.high, (double)index);
    low = fmax(low, taps.low + 1);
    high = fmin(high, taps.high - 1);
    return low <= high ? heights(taps.center, axis.scale, low, high) * taps.share : 0;
}

// Threads along x share an output.
extern "C" __global__ void __launch_bounds__(THREADS) resample_triangles(const __grid_constant__ Task task) {
    __shared__ double shared[2][THREADS];
    u64 number = (u64)blockIdx.x * blockDim.y + threadIdx.y;
    bool present = number < task.packs;
    Offsets at = {};
    double value = 0, mass = 0;
    if (present) {
        go_to(task.nest, task.first + (u32)number, at);
        Taps taps[RESAMPLED];
        u64 count = 1;
        for (int i = 0; i < RESAMPLED; ++i) {
            taps[i] = taps_of(task.axis[i], TRIANGLES >> i & 1, at.of[PLACE_AT + i]);
            count *= taps[i].end - taps[i].begin + 1;
        }
        for (u64 n = threadIdx.x; n < count; n += blockDim.x) {
            u64 rest = n;
            double weight = 1, most = 1;
            u32 from = at.of[SOURCE_AT];
            for (int i = RESAMPLED - 1; i >= 0; --i) {
                u32 size = taps[i].end - taps[i].begin + 1, index = taps[i].begin + (u32)(rest % size);
                rest /= size;
                double own = weight_of(taps[i], task.axis[i], index);
                weight *= own;
                most *= fabs(own) + taps[i].share;
                from += index * task.axis[i].step;
            }
            double x = widen(task.source[from]);
            if (weight != 0) value += weight * x;
            mass += most * fabs(x);
        }
    }
    u32 mine = threadIdx.y * blockDim.x + threadIdx.x;
    for (u32 half = blockDim.x / 2; half; half /= 2) {
        shared[0][mine] = value;
        shared[1][mine] = mass;
        __syncthreads();
        if (threadIdx.x < half) {
            value += shared[0][mine + half];
            mass += shared[1][mine + half];
        }
        __syncthreads();
    }
    if (!present || threadIdx.x) return;
    Element result;
    bool is_settled = settled(value, (float)mass, result);
    task.target[at.of[TARGET_AT]] = result;
    if (!is_settled) list(task, task.first + (u32)number);
}
#else
#if LINEAR
// Interpolates along the dimensions from DIMENSION on, also the magnitudes; elements without weight are ignored.
template <int DIMENSION>
static __device__ __forceinline__ double between(const Element *source, const Around (&pairs)[RESAMPLED], float &mass) {
    if constexpr (DIMENSION == RESAMPLED) {
        auto x = widen(*source);
        mass = fabsf((float)x);
        return x;
    } else {
        const Around &pair = pairs[in_order(DIMENSION)];
        float more;
        source += pair.offset;
        double low = between<DIMENSION + 1>(source, pairs, mass);
        double high = between<DIMENSION + 1>(source + pair.step, pairs, more);
        if (pair.weight == 0) return low;
        double weight = pair.weight;
        mass = fabsf(1 - pair.weight) * mass + fabsf(pair.weight) * more;
        return (1 - weight) * low + weight * high;
    }
}

// Whether the weights have few enough bits that nothing is rounded.
static __device__ __forceinline__ bool is_exact(const Around (&pairs)[RESAMPLED]) {
    const float FEW = (float)(1ull << 40 / RESAMPLED);
    bool are_few = true;
#pragma unroll
    for (int i = 0; i < RESAMPLED; ++i)
        are_few &= fabsf(pairs[i].weight) <= 1 && pairs[i].weight * FEW == floorf(pairs[i].weight * FEW);
    return are_few;
}

static __device__ __forceinline__ bool interpolate(const Element *source, const Around (&pairs)[RESAMPLED], Element &result) {
    float mass;
    double value = between<0>(source, pairs, mass) + 0.0;  // no result is a negative zero
    return settled(value, mass, result) || (sizeof(Element) == 1 && is_exact(pairs));
}

static __device__ __noinline__ bool interpolate_exactly(
    const Element *source, const Around (&pairs)[RESAMPLED], Element &result
) {
    Exactly sum = {0, 0, true};
    for (int n = 0; n < 1 << RESAMPLED; ++n) {
        double weight = 1;
        u32 from = 0;
        bool is_read = true;
        for (int i = 0; i < RESAMPLED; ++i) {
            double second = pairs[i].weight, first = 1 - second, factor = n >> i & 1 ? second : first;
            sum.is_exact &= 1 - first == second;
            is_read &= factor != 0;
            double product = weight * factor;
            sum.is_exact &= fma(weight, factor, -product) == 0 && (product > 1e-200 || factor == 0);
            weight = product;
            from += pairs[i].offset + (n >> i & 1 ? pairs[i].step : 0);
        }
        if (is_read) sum.add(weight, widen(source[from]));
    }
    return settled(sum, result);
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS) resample(const __grid_constant__ Task task) {
    u64 number = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (number >= task.packs) return;
    Offsets at = {};
    go_to(task.nest, task.first + (u32)number, at);
    Pack<Element, LANES> results;
#if LINEAR
    Around pairs[RESAMPLED];
#pragma unroll
    for (int i = 0; i < RESAMPLED; ++i)
        if (i != INNER) {
            const Sampled &axis = task.axis[i];
            pairs[i] = around(axis, at.of[PLACE_AT + i], axis.step);
        }
    u32 undecided = 0;
#pragma unroll
    for (int k = 0; k < LANES; ++k) {
        if (INNER >= 0) {
            const Sampled &axis = task.axis[INNER];
            pairs[INNER] = around(axis, place(task, at, PLACE_AT + INNER, k), axis.step);
        }
        const Element *source = task.source + place(task, at, SOURCE_AT, k);
#if PAIRS
        if (interpolate_in_pairs(source, pairs, results.lane[k])) continue;
#endif
        bool is_settled = interpolate(source, pairs, results.lane[k]);
        if (!is_settled) is_settled = interpolate_exactly(source, pairs, results.lane[k]);
        undecided |= (u32)!is_settled << k;
    }
    for (; undecided; undecided &= undecided - 1) list(task, (task.first + (u32)number) * LANES + __ffs(undecided) - 1);
#else
    u32 from = at.of[SOURCE_AT];
#pragma unroll
    for (int i = 0; i < RESAMPLED; ++i)
        if (i != INNER) {
            const Sampled &axis = task.axis[i];
            from += nearest_index<ROUNDING>(coordinate(axis, at.of[PLACE_AT + i]), axis.size) * axis.step;
        }
#pragma unroll
    for (int k = 0; k < LANES; ++k) {
        u32 inner = k * task.step[SOURCE_AT];
        if (INNER >= 0) {
            const Sampled &axis = task.axis[INNER];
            double here = coordinate(axis, place(task, at, PLACE_AT + INNER, k));
            inner = nearest_index<ROUNDING>(here, axis.size) * axis.step;
        }
        results.lane[k] = task.source[from + inner];
    }
#endif
    *reinterpret_cast<Pack<Element, LANES> *>(task.target + at.of[TARGET_AT]) = results;
}
#endif
