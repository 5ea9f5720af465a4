// ln of a sum of exponentials, each shifted by approximately the largest element so far.

const int STEPS = 64;   // entries of the table of powers of two in [1, 2)
const int COPIES = 16;  // copies of the table, so that half a warp reads it without bank conflicts

__shared__ double powers[STEPS * COPIES];

struct Accumulator {
    double high, low;
    float shift;
    float greatest;
    u32 not_a_number;

    static const bool descending = false;
    static const bool UNORDERED = false;

    static __device__ void prepare() {
        for (int i = threadIdx.x + threadIdx.y * blockDim.x; i < STEPS * COPIES;
             i += blockDim.x * blockDim.y)
            powers[i] = exp2(i / COPIES / (double)STEPS);
        __syncthreads();
    }
    __device__ __forceinline__ const Accumulator &total() const { return *this; }
    __device__ __forceinline__ void clear() {
        high = low = 0;
        shift = -3.402823466e+38f;
        greatest = Bounds<float>::lowest();
        not_a_number = 0;
    }
    // e**x for x from -700 to slightly above 0, as 2**(n / STEPS) * e**rest.
    static __device__ __forceinline__ double power(double x) {
        double magic = fma(x, 0x1.71547652b82fep+6, 0x1.8p52);
        i32 n = __double2loint(magic);
        double whole = magic - 0x1.8p52;
        double rest = fma(whole, -0x1.62e42fefa0000p-7, x);
        rest = fma(whole, -0x1.cf79abc9e3b3ap-46, rest);
        double tail = fma(rest, 0x1.1111111111111p-7, 0x1.5555555555555p-5);
        tail = fma(rest, tail, 0x1.5555555555555p-3);
        tail = fma(rest, tail, 0.5);
        tail = fma(rest, tail, 1.0);
        tail *= rest;
        double base = powers[(n & (STEPS - 1)) * COPIES + threadIdx.x % COPIES];
        double value = fma(base, tail, base);
        return __hiloint2double(__double2hiint(value) + ((n >> 6) << 20), __double2loint(value));
    }
    __device__ __forceinline__ void rescale(float to) {
        double below = (double)shift - (double)to;
        double factor = below < -700.0 ? 0.0 : power(below);
        high *= factor;
        low *= factor;
        shift = to;
    }
    __device__ __forceinline__ void add_term(double term) {
        double error;
        high = two_sum(high, term, error);
        low += error;
    }
    template <int COUNT>
    __device__ __forceinline__ void add(const float (&values)[COUNT], u32, u32) {
        float top = values[0];
        bool all_numbers = true;
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            top = fmaxf(top, values[k]);
            all_numbers = all_numbers && values[k] == values[k];
        }
        if (!all_numbers) not_a_number = 1;
        greatest = fmaxf(greatest, top);
        top = fminf(top, 3.402823466e+38f);
        if (top > shift + 1.0f) rescale(top);
        double total = 0;
#pragma unroll
        for (int k = 0; k < COUNT; ++k) {
            // Terms more than 700 below the shift are negligible; they become 0, as that of -infinity must.
            double term = power((double)values[k] - (double)shift);
            total += values[k] - shift < -700.0f ? 0.0 : term;
        }
        add_term(total);
    }
    __device__ __forceinline__ void merge(const Accumulator &other) {
        Accumulator second = other;
        if (second.shift > shift) rescale(second.shift);
        else second.rescale(shift);
        add_term(second.high);
        low += second.low;
        greatest = fmaxf(greatest, second.greatest);
        not_a_number |= second.not_a_number;
    }
    __device__ bool finish(Output &output, Input, const Terms &) const {
        typedef Format<Output> F;
        if (not_a_number) {
            output = F::make(F::quiet_nan);
        } else if (isinf(greatest)) {
            output = F::make(F::infinity | (greatest < 0 ? F::sign : 0));
        } else {
            double total = high + low;
            double value = log(total);
            double rest = (total * exp(-value) - 1.0) + ((high - total) + low) / total;
            double magnitude = shift + value;
            magnitude += ((shift - magnitude) + value) + rest;
            u32 bits = F::nearest(fabs(magnitude));
            output = F::make(bits | (magnitude < 0 ? F::sign : 0));
        }
        return true;
    }
};

typedef Accumulator Collector;
