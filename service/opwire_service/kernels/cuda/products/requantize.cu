// Converts exact integer sums to the output: wraps them to 32 bits or requantizes them.

const u32 REQUANTIZE_THREADS = 256;
const double NEAR = 0x1p-30;    // distance from a tie below which the exact quotient decides
const double FAR = 0x1p20;      // magnitude from which quotients saturate in any case

static __device__ __forceinline__ void wrapped(i32 &into, double sum) { into = (i32)(u32)(u64)(i64)sum; }

static __device__ __forceinline__ double sign(double x) { return (x > 0) - (x < 0); }

// sum * factor / scale, rounded half to even. The factor is exact, as the product of two 24-bit numbers.
static __device__ __forceinline__ double quotient(double sum, double factor, double scale) {
    double found = sum * factor / scale, below = floor(found), middle = below + 0.5;
    if (!(fabs(found - middle) < NEAR * (1 + fabs(found)) && fabs(found) < FAR)) return rint(found);
    double product = sum * factor, rest = fma(sum, factor, -product);
    double beyond = sign((product - middle * scale) + rest) * sign(scale);
    return beyond == 0 ? rint(middle) : middle + 0.5 * beyond;
}

template <class T> static __device__ __forceinline__ void quantized(T &into, double number, double zero) {
    const double least = (T)-1 < 0 ? -128 : 0;
    double value = (number != number ? 0 : number) + zero;
    into = (T)(i32)fmin(fmax(value, least), least + 255);
}

extern "C" __global__ void __launch_bounds__(REQUANTIZE_THREADS) requantize(const __grid_constant__ Task task) {
    u32 element = blockIdx.x * REQUANTIZE_THREADS + threadIdx.x;
    if (element >= task.count) return;
    Spot spot(task, element);
    double sum = task.sums[element];
    if (task.addend) sum += addend_of(task, spot.matrix, spot.row, spot.column);
    Output into;
#if QUANTIZED
    double left = parameter_of<float>(task, task.left_scale, spot.matrix, spot.row);
    double right = parameter_of<float>(task, task.right_scale, spot.matrix, spot.column);
    double scale = parameter_of<float>(task, task.scale, spot.matrix, spot.row);
    double zero = task.zero.at ? parameter_of<Output>(task, task.zero, spot.matrix, spot.row) : 0;
    quantized(into, quotient(sum, left * right, scale), zero);
#else
    wrapped(into, sum);
#endif
    task.target[target_offset(task, spot.matrix, spot.row, spot.column)] = into;
}
