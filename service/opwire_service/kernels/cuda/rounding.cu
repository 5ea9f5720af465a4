// Correct rounding of a real number, given as the sum of two doubles, to a narrower format.

// Knuth's TwoSum: a + b equals sum + error exactly.
static __device__ __forceinline__ double two_sum(double a, double b, double &error) {
    double sum = a + b;
    double other = sum - a;
    error = (a - (sum - other)) + (b - other);
    return sum;
}
static __device__ __forceinline__ float two_sum(float a, float b, float &error) {
    float sum = a + b;
    float other = sum - a;
    error = (a - (sum - other)) + (b - other);
    return sum;
}

// high + low - (p + q), with the correct sign, and exact where the difference of high and p is small.
static __device__ double difference(double high, double low, double p, double q) {
    double below, lowest;
    double middle = two_sum(low, -q, lowest);
    double top = two_sum(high - p, middle, below);
    return top != 0 ? top + (below + lowest) : lowest;
}

// number / divisor minus a midpoint of two floats, times the divisor, which keeps the sign.
struct Quotient {
    double high, low, divisor;
    __device__ double guess() const { return high / divisor; }
    __device__ double above(double middle) const {
        double p = divisor * middle;
        return difference(high, low, p, fma(divisor, middle, -p));
    }
};

// The same for the square root: the square of a midpoint of two floats is exact in a double.
struct Root {
    double high, low;
    __device__ double guess() const { return sqrt(high); }
    __device__ double above(double middle) const { return difference(high, low, middle * middle, 0.0); }
};

// Rounds a positive number to the nearest magnitude, ties to even. Returns false if the result is undecided given
// `slack`, the error bound of `number.above`; with a slack of 0 it is always settled.
template <class T, class Number>
static __device__ bool round_to(u32 &bits, const Number &number, double slack) {
    typedef Format<T> F;
    // Unless the slack is larger, the number is in a narrow range around the guess, which is usually far from any
    // midpoint.
    const double range = F::infinity == 0x7c00u ? 0x1p-36 : 0x1p-46;
    double guess = number.guess();
    bits = F::nearest(guess * (1 - range));
    if (slack <= range / 4 * number.high && bits == F::nearest(guess * (1 + range))) return true;
    bits = F::nearest(guess);
    if (bits < F::infinity) {
        double above = number.above(0.5 * (F::value(bits) + F::value(bits + 1)));
        if (fabs(above) <= slack) {
            bits += bits & 1;
            return slack == 0;
        }
        if (above > 0) {
            bits += 1;
            return true;
        }
    }
    if (bits > 0) {
        double above = number.above(0.5 * (F::value(bits - 1) + F::value(bits)));
        if (fabs(above) <= slack) {
            bits -= bits & 1;
            return slack == 0;
        }
        if (above < 0) bits -= 1;
    }
    return true;
}
