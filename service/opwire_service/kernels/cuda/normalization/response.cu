// LOCAL_RESPONSE_NORMALIZATION: elements divided by a power of bias plus the scaled sum of squares of their region.

const int DIMENSIONS = 4;
const int SOURCE_AT = 0, TARGET_AT = 1, PLACE_AT = 2;

struct Task {
    const Element *source;
    Element *target;
    u32 *undecided;      // count, 0, then the indices of the undecided outputs, each with a 0
    double share, beta, bias;
    u32 first, outputs;  // the outputs to compute
    u32 room;
    u32 before, after;   // extent of a region on either side
    u32 unused;
    u32 size[2], step[2];  // of the one or two dimensions that a region spans
    Nest nest;             // over the outputs: source, target, and the positions along those dimensions
};

// A power computed from logarithms, as by DirectML: NaN where their product is 0 times an infinity. Of negative numbers,
// only integer powers are defined.
static __device__ double power(double base, double exponent) {
    bool is_defined = exponent == exponent;
    if (exponent == 0) is_defined = base != 0 && isfinite(base);
    else if (isinf(exponent)) is_defined = !(base < 0) && base != 1;
    else if (base < 0) is_defined = exponent == rint(exponent);
    return is_defined ? pow(base, exponent) : __longlong_as_double(0x7ff8000000000000ll);
}

// The threads along x share an output.
extern "C" __global__ void __launch_bounds__(THREADS) respond(const __grid_constant__ Task task) {
    __shared__ double shared[THREADS];
    u64 number = (u64)blockIdx.x * blockDim.y + threadIdx.y;
    bool present = number < task.outputs;
    Offsets at = {};
    double squares = 0;
    if (present) {
        go_to(task.nest, task.first + (u32)number, at);
        u32 begin[2], count[2];
        for (int i = 0; i < 2; ++i) {
            u32 place = at.of[PLACE_AT + i], end = (u32)min((u64)place + task.after, (u64)task.size[i] - 1);
            begin[i] = place > task.before ? place - task.before : 0;
            count[i] = end - begin[i] + 1;
        }
        const Element *source = task.source + at.of[SOURCE_AT] - at.of[PLACE_AT] * task.step[0] -
                                at.of[PLACE_AT + 1] * task.step[1] + begin[0] * task.step[0] + begin[1] * task.step[1];
        u64 elements = (u64)count[0] * count[1];
        for (u64 n = threadIdx.x; n < elements; n += blockDim.x) {
            u32 row = count[1] == 1 ? (u32)n : (u32)(n / count[1]), column = (u32)(n - (u64)row * count[1]);
            double x = widen(source[row * task.step[0] + column * task.step[1]]);
            squares = fma(x, x, squares);
        }
    }
    u32 mine = threadIdx.y * blockDim.x + threadIdx.x;
    for (u32 half = blockDim.x / 2; half; half /= 2) {
        shared[mine] = squares;
        __syncthreads();
        if (threadIdx.x < half) squares += shared[mine + half];
        __syncthreads();
    }
    if (!present || threadIdx.x) return;
    // Adding 0.0 turns -0 into 0.
    double scaled = task.share * squares, response = task.bias + scaled + 0.0, raised = power(response, task.beta);
    double x = widen(task.source[at.of[SOURCE_AT]]);
    task.target[at.of[TARGET_AT]] = nearest(x / raised);
    // Terms of different signs may cancel, and a power may leave the range of doubles.
    double error = fabs(task.beta) * (fabs(task.bias) + fabs(scaled)) * ERROR;
    bool is_lost = isfinite(response) && response != 0 && (raised == 0 || isinf(raised));
    if (!is_lost && !(error > fabs(response) * ENOUGH)) return;
    u32 i = atomicAdd(task.undecided, 1u);
    if (i < task.room) {
        task.undecided[2 + 2 * i] = task.first + (u32)number;
        task.undecided[3 + 2 * i] = 0;
    }
}
