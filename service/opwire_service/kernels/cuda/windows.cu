// Max pooling for any window and layout: threads along x share an output and divide its window.

const int THREADS = 256;
const int RANK = 5;
const int SPATIAL = 3;

typedef POSITIONS Position;

struct Dimension {
    u32 size, stride, window, start, dilation, unused;
};

struct Pooling {
    const Input *source;
    Input *target;
    Position *positions;  // null if not requested
    u32 rank;
    u32 first, outputs;  // the outputs to compute, in row-major order
    u32 unused;
    u32 size[RANK + 1];  // of the output
    u32 source_step[RANK + 1], target_step[RANK + 1], position_step[RANK + 1];
    Dimension dimension[SPATIAL];
};

struct Window {
    u32 source;             // offset of the first element
    u32 position;           // row-major index of the first element in the whole input
    u32 count[SPATIAL];     // elements along each dimension, without padding
    u32 step[SPATIAL];      // between them in the source
    u32 position_step[SPATIAL];
    u32 elements;
    u32 target, positions;  // offsets of the results
};

static __device__ Window window_at(const Pooling &pooling, u32 output) {
    Window window = {};
    u32 at[RANK];
    for (int i = pooling.rank - 1; i >= 0; --i) {
        at[i] = output % pooling.size[i];
        output /= pooling.size[i];
        window.target += at[i] * pooling.target_step[i];
        window.positions += at[i] * pooling.position_step[i];
    }
    window.source = at[0] * pooling.source_step[0] + at[1] * pooling.source_step[1];
    window.position = at[0] * pooling.size[1] + at[1];
    window.elements = 1;
    int spatial = pooling.rank - 2;
    for (int i = 0; i < spatial; ++i) {
        const Dimension &d = pooling.dimension[i];
        i64 begin = (i64)at[i + 2] * d.stride - d.start;
        i64 skipped = begin < 0 ? (-begin + d.dilation - 1) / d.dilation : 0;
        u32 first = (u32)(begin + skipped * d.dilation);
        i64 inside = (d.size - first - 1) / d.dilation + 1;
        window.count[i] = (u32)min((i64)d.window - skipped, inside);
        window.step[i] = d.dilation * pooling.source_step[i + 2];
        window.source += first * pooling.source_step[i + 2];
        window.position = window.position * d.size + first;
        window.elements *= window.count[i];
        window.position_step[i] = d.dilation;
        for (int outer = 0; outer < i; ++outer) window.position_step[outer] *= d.size;
    }
    for (int i = spatial; i < SPATIAL; ++i) window.count[i] = 1;
    return window;
}

// The winner among the elements from `first` on, `step` apart.
static __device__ Extreme winner(const Pooling &pooling, const Window &window, u32 first, u32 step) {
    Extreme best;
    best.clear();
    if (first >= window.elements) return best;
    u32 element = first + (window.elements - 1 - first) / step * step;
    while (true) {
        u32 row = element / window.count[2], z = element % window.count[2];
        u32 y = row % window.count[1], x = row / window.count[1];
        u32 source = window.source + x * window.step[0] + y * window.step[1] + z * window.step[2];
        Wide value[1] = {widen(pooling.source[source])};
        best.add(value, window.position + x * window.position_step[0] + y * window.position_step[1] +
                            z * window.position_step[2], 0);
        if (element == first) return best;
        element -= step;
    }
}

// The maximum starts from the lowest finite float, which a window of NaN or -infinity alone does not exceed.
static __device__ __forceinline__ float started(float best) { return fmaxf(best, -3.402823466e38f); }
template <class W> static __device__ __forceinline__ W started(W best) { return best; }

static __device__ void store(const Pooling &pooling, const Window &window, const Extreme &best) {
    bool found = best.order != NOWHERE;
    narrow(pooling.target[window.target], started(best.best));
    if (pooling.positions) pooling.positions[window.positions] = found ? best.order : window.position;
}

extern "C" __global__ void __launch_bounds__(THREADS) pool_windows(const __grid_constant__ Pooling pooling) {
    __shared__ Extreme shared[THREADS];
    u64 output = (u64)blockIdx.x * blockDim.y + threadIdx.y;
    bool present = output < pooling.outputs;
    Window window = {};
    Extreme best;
    best.clear();
    if (present) {
        window = window_at(pooling, pooling.first + (u32)output);
        best = winner(pooling, window, threadIdx.x, blockDim.x);
    }
    Extreme *mine = shared + threadIdx.y * blockDim.x + threadIdx.x;
    for (u32 half = blockDim.x / 2; half; half /= 2) {
        *mine = best;
        __syncthreads();
        if (threadIdx.x < half) best.merge(mine[half]);
        __syncthreads();
    }
    if (present && threadIdx.x == 0) store(pooling, window, best);
}
