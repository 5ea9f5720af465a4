// CONVOLUTION: the outputs for which a weight that is infinite or NaN meets a 0 of padding, or of the gaps between
// elements. Blocks along x take output channels, those along y share the outputs of each. TRANSPOSED and MIRRORED are 0
// or 1; ELEMENT holds the bits of an element, EXPONENT those of infinity.

const u32 THREADS = 256;
const int SPATIAL = 3;

typedef ELEMENT Element;

struct Line {
    u32 size, window, target;  // of the input, the filter and the output
    u32 stride, dilation, start;
    u32 period;                // in the filter: between weights that meet elements of the same phase
    u32 weight_step, target_step;
};

struct Task {
    const Element *weights;
    Element *target;
    u32 inputs, outputs;  // channels of a group
    u32 images, value;
    u32 group_step, output_step, input_step;  // of the weights
    u32 image_step, channel_step;             // of the target
    Line line[SPATIAL];
};

// Along each dimension, the range of the places of such weights, and that of their remainders by the period.
struct Found {
    u32 least[SPATIAL], most[SPATIAL], low[SPATIAL], high[SPATIAL];
};

static __device__ void find(const Task &task, u32 channel, Found &found) {
    u32 taps = task.line[0].window * task.line[1].window * task.line[2].window;
    u64 first = (u64)(channel / task.outputs) * task.group_step + (u64)(channel % task.outputs) * task.output_step;
    for (u64 n = threadIdx.x; n < (u64)task.inputs * taps; n += THREADS) {
        u32 rest = (u32)(n % taps), place[SPATIAL];
        u64 at = first + n / taps * task.input_step;
        for (int i = SPATIAL - 1; i >= 0; --i) {
            place[i] = rest % task.line[i].window;
            rest /= task.line[i].window;
            at += (u64)place[i] * task.line[i].weight_step;
        }
        if ((task.weights[at] & EXPONENT) != EXPONENT) continue;
        for (int i = 0; i < SPATIAL; ++i) {
            u32 k = MIRRORED ? task.line[i].window - 1 - place[i] : place[i];
            atomicMin(&found.least[i], k);
            atomicMax(&found.most[i], k);
            atomicMin(&found.low[i], k % task.line[i].period);
            atomicMax(&found.high[i], k % task.line[i].period);
        }
    }
}

// Whether all of those weights meet elements along a dimension.
static __device__ bool met(const Line &line, const Found &found, int i, u32 place) {
    i64 size = line.size, stride = line.stride;
    i64 least = (i64)found.least[i] * line.dilation, most = (i64)found.most[i] * line.dilation;
    if (!TRANSPOSED) {
        i64 begin = place * stride - line.start;
        return begin + least >= 0 && begin + most < size;
    }
    i64 begin = (i64)place + line.start;
    return found.low[i] == found.high[i] && begin >= most && (begin - least) % stride == 0 && begin - least < size * stride;
}

extern "C" __global__ void __launch_bounds__(THREADS) fill_gaps(const __grid_constant__ Task task) {
    __shared__ Found found;
    if (threadIdx.x < SPATIAL) {
        found.least[threadIdx.x] = found.low[threadIdx.x] = ~0u;
        found.most[threadIdx.x] = found.high[threadIdx.x] = 0;
    }
    __syncthreads();
    find(task, blockIdx.x, found);
    __syncthreads();
    if (found.least[0] == ~0u) return;
    u64 places = (u64)task.line[0].target * task.line[1].target * task.line[2].target;
    for (u64 n = (u64)blockIdx.y * THREADS + threadIdx.x; n < task.images * places; n += (u64)gridDim.y * THREADS) {
        u64 rest = n % places, at = n / places * task.image_step + (u64)blockIdx.x * task.channel_step;
        bool all = true;
        for (int i = SPATIAL - 1; i >= 0; --i) {
            u32 place = (u32)(rest % task.line[i].target);
            rest /= task.line[i].target;
            at += (u64)place * task.line[i].target_step;
            all = all && met(task.line[i], found, i, place);
        }
        if (!all) task.target[at] = (Element)task.value;
    }
}
