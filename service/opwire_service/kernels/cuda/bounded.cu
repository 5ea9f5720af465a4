// Formulas in double with a running error bound per value, for results that a common bound for all values leaves
// undecided. Exact operations add nothing to the bound, so that ties are told apart from values near one.

const double UNIT = 0x1p-53;
const double FUNCTION = 0x1p-49;  // exceeds the relative error of every CUDA function
const double LEAST = 0x1p-1070;   // exceeds the absolute error of subnormal results
const double UNKNOWN = 1.0 / 0.0;

struct Bounded {
    double value, error;
};

static __device__ __forceinline__ Bounded exactly(double x) { return {x, 0}; }

static __device__ __forceinline__ double rounding_error(double value, bool is_exact) {
    return is_exact || !isfinite(value) ? 0 : fabs(value) * UNIT + LEAST;
}

static __device__ __forceinline__ Bounded bounded_add(Bounded a, Bounded b) {
    double total = a.value + b.value, part = total - a.value;
    double rest = (a.value - (total - part)) + (b.value - part);
    return {total, a.error + b.error + rounding_error(total, rest == 0)};
}

static __device__ __forceinline__ Bounded bounded_negate(Bounded a) { return {-a.value, a.error}; }
static __device__ __forceinline__ Bounded bounded_absolute(Bounded a) { return {fabs(a.value), a.error}; }

static __device__ __forceinline__ Bounded bounded_subtract(Bounded a, Bounded b) {
    return bounded_add(a, bounded_negate(b));
}

static __device__ __forceinline__ double carried(double factor, double error) { return error == 0 ? 0 : factor * error; }

static __device__ __forceinline__ Bounded bounded_multiply(Bounded a, Bounded b) {
    double product = a.value * b.value;
    bool is_exact = product == 0 ? a.value == 0 || b.value == 0
                                 : fma(a.value, b.value, -product) == 0 && fabs(product) > 1e-200;
    double error = carried(fabs(a.value), b.error) + carried(fabs(b.value), a.error) + carried(a.error, b.error);
    return {product, 1.01 * error + rounding_error(product, is_exact)};
}

static __device__ __forceinline__ Bounded bounded_divide(Bounded a, Bounded b) {
    double quotient = a.value / b.value;
    bool is_exact = fma(quotient, b.value, -a.value) == 0 && (fabs(a.value) > 1e-200 || a.value == 0);
    double size = fabs(b.value) - b.error, error = 0;
    if (a.error + b.error != 0) error = (a.error + fabs(quotient) * b.error) / size;
    if (size <= 0 && b.error > 0) error = UNKNOWN;
    return {quotient, 1.01 * error + rounding_error(quotient, is_exact)};
}

static __device__ __forceinline__ Bounded bounded_truth(bool truth, Bounded a, Bounded b) {
    double error = a.error + b.error;
    bool is_unsure = error > 0 && !(fabs(a.value - b.value) > error);
    return {truth ? 1.0 : 0.0, is_unsure ? UNKNOWN : 0};
}
#define COMPARE(name, operation)                                                           \
    static __device__ __forceinline__ Bounded bounded_##name(Bounded a, Bounded b) {       \
        return bounded_truth(a.value operation b.value, a, b);                             \
    }
COMPARE(equal, ==)
COMPARE(less, <)
COMPARE(less_equal, <=)
COMPARE(greater, >)
COMPARE(greater_equal, >=)
#undef COMPARE

static __device__ __forceinline__ double larger(double a, double b) { return a != a || a > b ? a : b; }

static __device__ __forceinline__ Bounded bounded_select(Bounded condition, Bounded yes, Bounded no) {
    Bounded chosen = condition.value != 0 ? yes : no;
    return {chosen.value, larger(chosen.error, condition.error)};
}

static __device__ __forceinline__ Bounded bounded_minimum(Bounded a, Bounded b) {
    return {least_of(a.value, b.value), larger(a.error, b.error)};
}
static __device__ __forceinline__ Bounded bounded_maximum(Bounded a, Bounded b) {
    return {greatest_of(a.value, b.value), larger(a.error, b.error)};
}

static __device__ __forceinline__ Bounded bounded_limited(Bounded x, double least, double most) {
    return {limited_to(x.value, least, most), x.error};
}

// Monotonic functions with integer values: the true value is between those at both ends of the operand's interval.
static __device__ __forceinline__ Bounded bounded_step(double value, double low, double high, Bounded a) {
    return {value, low == high || a.error == 0 ? 0 : larger(value - low, high - value)};
}
#define STEP(name, function)                                                                                         \
    static __device__ __forceinline__ Bounded bounded_##name(Bounded a) {                                            \
        return bounded_step(function(a.value), function(a.value - 2 * a.error), function(a.value + 2 * a.error), a); \
    }
STEP(ceil, ceil)
STEP(floor, floor)
STEP(truncate, trunc)
STEP(round_even, rint)
STEP(round_away, round)
STEP(sign, sign_of)
#undef STEP

static __device__ __forceinline__ Bounded bounded_mean(Bounded a, Bounded b) {
    return bounded_multiply(bounded_add(a, b), exactly(0.5));
}

// Remainders of exact operands; only a remainder that the divisor is added to is rounded.
static __device__ __forceinline__ Bounded bounded_remainder(Bounded a, Bounded b) {
    return exactly(rest_of(a.value, b.value));
}
static __device__ __forceinline__ Bounded bounded_floor_remainder(Bounded a, Bounded b) {
    double value = floor_rest_of(a.value, b.value);
    return {value, rounding_error(value, value == rest_of(a.value, b.value))};
}

static __device__ __forceinline__ Bounded bounded_power(Bounded x, Bounded y) {
    double value = pow(x.value, y.value);
    if (y.error != 0) {  // of numbers that may not be positive, even whether the exponent is whole is undecided
        double change = fabs(y.value) * x.error / fabs(x.value) + fabs(log(fabs(x.value))) * y.error;
        bool is_small = x.value - x.error > 0 && isfinite(x.value) && isfinite(y.value) && change <= 0.01;
        return {value, is_small ? fabs(value) * (FUNCTION + 2 * change) + LEAST : UNKNOWN};
    }
    if (y.value == 2) return bounded_multiply(x, x);
    // NaN of a base that is certainly negative.
    if (value != value && x.error <= 0.5 * fabs(x.value)) return {value, 0};
    if (x.value != x.value && y.value != 0) return {value, 0};
    if (y.value == 0 || (x.value == 1 && x.error == 0)) return {value, 0};
    if (y.value == 1) return x;
    double growth = fabs(y.value) * x.error / fabs(x.value);
    double grown = x.error == 0 ? 0 : growth > 0.01 ? UNKNOWN : fabs(value) * growth;
    return {value, fabs(value) * FUNCTION + LEAST + 2 * grown};
}

static __device__ __forceinline__ Bounded bounded_atan2(Bounded y, Bounded x) {
    double value = atan2(y.value, x.value);
    return {value, fabs(value) * FUNCTION + LEAST};
}

// A function given its value and slope at an operand, and the operand's distance from the end of its domain.
static __device__ __forceinline__ Bounded bounded_function(
    Bounded x, double value, double slope, double distance, double more = 0
) {
    double own = fabs(value) * (FUNCTION + more) + LEAST;
    if (x.error == 0) return {value, isfinite(value) ? own : 0};
    double grown = x.error * 8 >= distance ? UNKNOWN : 2 * fabs(slope) * x.error;
    return {value, isfinite(value) || grown == UNKNOWN ? own + grown : 0};
}

static __device__ __forceinline__ u64 rounded_bits(double x, f32) { return Format<f32>::nearest(x); }
static __device__ __forceinline__ u64 rounded_bits(double x, f16) { return Format<f16>::nearest(x); }
template <class T> static __device__ __forceinline__ u64 rounded_bits(double x, T) { return bits_of(saturated<T>(x)); }

// Rounds a number to T, or truncates it if T is an integer. Returns false if the result is undecided.
template <class T> static __device__ __forceinline__ bool settled(Bounded x, T &to) {
    of_bits(to, (typename Stored<T>::U)rounded_bits(x.value, to));
    if (x.error == 0) return true;
    return isfinite(x.error) && rounded_bits(x.value - 2 * x.error, to) == rounded_bits(x.value + 2 * x.error, to);
}
