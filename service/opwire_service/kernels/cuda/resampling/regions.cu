// ROI_ALIGN: means or maxima of samples of regions. With POOLS, ROI_POOLING: maxima of bins. A region is a row of
// corners: left, top, right, bottom, preceded by the image number in ROI_POOLING.

const int SOURCE_AT = 0, TARGET_AT = 1, REGION_AT = 2, PLACE_AT = 3;

typedef ELEMENT Element;
typedef INDEX Index;

// Height and width.
struct Extent {
    u32 size, step;  // of the image
    u32 outputs, unused;
    double scale;
};

struct Task {
    const Element *source, *regions;
    const Index *images;
    Element *target;
    u32 *undecided;      // count, 0, then the indices of the undecided outputs, each with a 0
    double input_offset, output_offset, outside;
    u32 first, outputs;  // the outputs to compute
    u32 room;
    u32 least, most;     // bounds on an output's samples along a dimension
    u32 to_corners;
    u32 image_count, image_step;
    u32 region_step, corner_step;
    u32 number_step;     // of the image numbers
    u32 unused;
    Extent extent[2];
    Nest nest;  // over the outputs: source, target, region and the position in its crop
};

static __device__ __forceinline__ void list(const Task &task, u32 output) {
    u32 i = atomicAdd(task.undecided, 1u);
    if (i < task.room) {
        task.undecided[2 + 2 * i] = output;
        task.undecided[3 + 2 * i] = 0;
    }
}

// Leaves everything to the host, which can be stopped, where a launch would take too long.
extern "C" __global__ void leave_all(const __grid_constant__ Task task) { task.undecided[0] = ~0u; }

#if POOLS
static __device__ __forceinline__ i64 rounded_corner(double x) {
    if (x != x) return 0;
    x = fmin(fmax(x, -0x1p40), 0x1p40);
    return x >= 0 ? (i64)floor(x + 0.5) : -(i64)floor(0.5 - x);
}

static __device__ __forceinline__ i64 floor_divided(i64 a, i64 b) { return a / b - (a % b < 0); }

struct Bin {
    u32 begin, end;
};

static __device__ __forceinline__ Bin bin_of(double low, double high, const Extent &extent, u32 at) {
    i64 first = rounded_corner(low * extent.scale), length = rounded_corner(high * extent.scale) - first + 1;
    i64 begin = first + floor_divided((i64)at * length, extent.outputs);
    i64 end = first - floor_divided(-(i64)(at + 1) * length, extent.outputs);
    i64 size = extent.size;
    return {(u32)max((i64)0, min(begin, size)), (u32)max((i64)0, min(end, size))};
}

extern "C" __global__ void __launch_bounds__(THREADS) pool_regions(const __grid_constant__ Task task) {
    u64 number = (u64)blockIdx.x * THREADS + threadIdx.x;
    if (number >= task.outputs) return;
    Offsets at = {};
    go_to(task.nest, task.first + (u32)number, at);
    const Element *region = task.regions + at.of[REGION_AT] * task.region_step;
    double image = widen(region[0]), corner[4];
    for (int i = 0; i < 4; ++i) corner[i] = widen(region[(i + 1) * task.corner_step]);
    Element best = {};
    Bin rows = bin_of(corner[1], corner[3], task.extent[0], at.of[PLACE_AT]);
    Bin columns = bin_of(corner[0], corner[2], task.extent[1], at.of[PLACE_AT + 1]);
    image = image > 0 ? fmin(image, task.image_count - 1.0) : 0;  // also NaN
    const Element *source = task.source + at.of[SOURCE_AT] + (u32)image * task.image_step;
    bool is_first = true;
    for (u32 row = rows.begin; row < rows.end; ++row)
        for (u32 column = columns.begin; column < columns.end; ++column) {
            Element x = source[row * task.extent[0].step + column * task.extent[1].step];
            float wide = widen(x), known = widen(best);
            if (is_first || wide > known || (known != known && wide == wide)) best = x;
            is_first = false;
        }
    task.target[at.of[TARGET_AT]] = best;
}
#else
// The samples of a region along a dimension.
struct Samples {
    double start, extent, steps;
    u64 owned;     // per output
    u64 begin, end;  // range of those inside the image
};

static __device__ __forceinline__ double sample_at(const Task &task, const Samples &samples, u64 sample) {
    double moved = samples.extent / 2;
    if (samples.steps != 0) moved = ((double)sample - task.output_offset) * samples.extent / samples.steps;
    return moved + samples.start - task.input_offset;
}

// Binary search for the first sample whose coordinate is `past`, as are all later ones.
template <class Past> static __device__ __forceinline__ u64 first_past(u64 count, Past past) {
    u64 least = 0, most = count;
    while (least < most) {
        u64 middle = least + (most - least) / 2;
        if (past(middle))
            most = middle;
        else
            least = middle + 1;
    }
    return least;
}

static __device__ Samples samples_of(const Task &task, const Extent &extent, double low, double high, u32 output) {
    Samples samples;
    samples.start = low * extent.scale;
    samples.extent = high * extent.scale - samples.start;
    double wanted = ceil(fabs(samples.extent) / extent.outputs);
    samples.owned = wanted != wanted ? task.least : (u64)fmin(fmax(wanted, (double)task.least), (double)task.most);
    u64 count = extent.outputs * samples.owned;
    samples.steps = (double)(count - task.to_corners);
    u64 own = output * samples.owned;
    samples.begin = samples.end = own;
    if (!isfinite(samples.extent) || !isfinite(samples.start)) return samples;
    double size = extent.size;
    auto at = [&](u64 sample) { return sample_at(task, samples, own + sample); };
    bool is_mirrored = samples.extent < 0;
    u64 begin = first_past(samples.owned, [&](u64 n) { return is_mirrored ? at(n) < size : at(n) >= -1.0; });
    u64 end = first_past(samples.owned, [&](u64 n) { return is_mirrored ? at(n) < -1.0 : at(n) >= size; });
    samples.begin = own + begin;
    samples.end = own + max(begin, end);
    return samples;
}

// The two elements around a coordinate, or only the nearest unless LINEAR.
struct Near {
    u32 offset, step;
    double weight;
};

static __device__ __forceinline__ Near near(double at, const Extent &extent) {
    double last = extent.size - 1.0, inside = at != at ? 0 : fmin(fmax(at, 0.0), last);
    if (!LINEAR) return {(u32)fmin(floor(inside + 0.5), last) * extent.step, 0, 0};
    double first = floor(inside), weight = inside - first;
    return {(u32)first * extent.step, weight > 0 ? extent.step : 0, weight};
}

static __device__ __forceinline__ double between(const Element *from, const Near &pair, double &mass) {
    double low = widen(from[pair.offset]);
    if (pair.weight == 0) {
        mass = fabs(low);
        return low;
    }
    double high = widen(from[pair.offset + pair.step]);
    mass = (1 - pair.weight) * fabs(low) + pair.weight * fabs(high);
    return (1 - pair.weight) * low + pair.weight * high;
}

static __device__ __forceinline__ double value_at(const Element *from, const Near &row, const Near &column, double &mass) {
    double low = between(from + row.offset, column, mass);
    if (row.weight == 0) return low;
    double more, high = between(from + row.offset + row.step, column, more);
    mass = (1 - row.weight) * mass + row.weight * more;
    return (1 - row.weight) * low + row.weight * high;
}

// Threads along x share an output.
extern "C" __global__ void __launch_bounds__(THREADS) align_regions(const __grid_constant__ Task task) {
    __shared__ double shared[2][THREADS];
    u64 number = (u64)blockIdx.x * blockDim.y + threadIdx.y;
    bool present = number < task.outputs;
    Offsets at = {};
    double value = AVERAGE ? 0 : __longlong_as_double(0x7ff8000000000000ll), mass = 0;
    Samples rows = {}, columns = {};
    if (present) {
        go_to(task.nest, task.first + (u32)number, at);
        Index image = min(task.images[at.of[REGION_AT] * task.number_step], (Index)(task.image_count - 1));
        const Element *region = task.regions + at.of[REGION_AT] * task.region_step;
        double corner[4];
        for (int i = 0; i < 4; ++i) corner[i] = widen(region[i * task.corner_step]);
        rows = samples_of(task, task.extent[0], corner[1], corner[3], at.of[PLACE_AT]);
        columns = samples_of(task, task.extent[1], corner[0], corner[2], at.of[PLACE_AT + 1]);
        const Element *source = task.source + at.of[SOURCE_AT] + (u32)image * task.image_step;
        u64 across = columns.end - columns.begin, samples = (rows.end - rows.begin) * across;
        for (u64 n = threadIdx.x; n < samples; n += blockDim.x) {
            u64 row = n / across;
            Near down = near(sample_at(task, rows, rows.begin + row), task.extent[0]);
            Near along = near(sample_at(task, columns, columns.begin + n - row * across), task.extent[1]);
            double more, found = value_at(source, down, along, more);
            value = AVERAGE ? value + found : found > value || value != value ? found : value;
            mass = AVERAGE ? mass + more : more > mass || more != more ? more : mass;
        }
    }
    u32 mine = threadIdx.y * blockDim.x + threadIdx.x;
    for (u32 half = blockDim.x / 2; half; half /= 2) {
        shared[0][mine] = value;
        shared[1][mine] = mass;
        __syncthreads();
        if (threadIdx.x < half) {
            double other = shared[0][mine + half], more = shared[1][mine + half];
            value = AVERAGE ? value + other : other > value || value != value ? other : value;
            mass = AVERAGE ? mass + more : more > mass ? more : mass;
        }
        __syncthreads();
    }
    if (!present || threadIdx.x) return;
    Element result;
    double all = (double)rows.owned * (double)columns.owned;
    double inside = (double)(rows.end - rows.begin) * (double)(columns.end - columns.begin);
    if (AVERAGE) {
        if (inside < all) {
            value += task.outside * (all - inside);
            mass += fabs(task.outside) * (all - inside);
        }
        value /= all;
        mass /= all;
    } else if (inside < all && (task.outside > value || value != value)) {
        value = task.outside;
    }
    bool is_settled = settled(value + 0.0, (float)mass, result) || (!LINEAR && !AVERAGE);
    task.target[at.of[TARGET_AT]] = result;
    if (!is_settled) list(task, task.first + (u32)number);
}
#endif
