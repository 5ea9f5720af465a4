// Running products in three floats, for GPUs with few float64 units.

// The product as (high + middle + low) * 2**exponent: |high| is in [1, 2), and each part rounds the rest.
struct Running {
    static const bool IS_EXACT = true;
    // Beside the kinds of elements: parts were rounded. An element adds an error of at most 2^-69 of the product, and
    // the factor of a merge 2^-67.
    static const u32 INEXACT = 8;
    float high, middle, low;
    i32 exponent;
    u32 kinds;

    __device__ __forceinline__ bool is_exact() const { return true; }
    __device__ __forceinline__ void clear() {
        high = 1;
        middle = low = 0;
        exponent = 0;
        kinds = 0;
    }
    // Takes the sum of a product, what it lost to rounding, and two lower parts, each far below the one before.
    __device__ __forceinline__ void set(float product, float lost, float lower, float lowest) {
        float rest, sum = product + lost;
        rest = lost - (sum - product);
        if (lower != 0 || lowest != 0) kinds |= INEXACT;
        middle = two_sum(rest, lower + lowest, low);
        i32 power = (i32)(__float_as_uint(sum) >> 23 & 0xff) - 127;
        float scale = power_of_two(-power);
        high = sum * scale;
        middle *= scale;
        low *= scale;
        exponent += power;
    }
    __device__ __forceinline__ void take(Input x) {
        float factor = widen(x);
        if ((__float_as_uint(factor) & 0x7fffffff) - 0x800000 >= 0x7f000000) factor = special(factor);
        u32 bits = __float_as_uint(factor);
        exponent += (i32)(bits >> 23 & 0xff) - 127;
        factor = __uint_as_float((bits & 0x807fffff) | 0x3f800000);
        float product = high * factor, more = middle * factor, lower;
        float lost = two_sum(fmaf(high, factor, -product), more, lower);
        set(product, lost, lower, fmaf(low, factor, fmaf(middle, factor, -more)));
    }
    // An element as a normal number; zeros, infinities and NaN by their signs.
    __device__ __forceinline__ float special(float x) {
        if (x != 0 && fabsf(x) < 1) {
            exponent -= 24;
            return x * 0x1p24f;
        }
        kinds |= x == 0 ? Accumulator::ZERO : x == x ? Accumulator::INFINITE : Accumulator::NOT_A_NUMBER;
        return copysignf(1.0f, x);
    }
    __device__ __forceinline__ void take_exactly(Input x) { take(x); }
    template <u32 COUNT> __device__ __forceinline__ void take_all(const Input (&items)[COUNT]) {
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) take(items[k]);
    }
    __device__ __forceinline__ void merge(const Running &other) {
        float product = high * other.high, one = high * other.middle, two = middle * other.high, less, lower;
        float below_one = fmaf(high, other.middle, -one), below_two = fmaf(middle, other.high, -two);
        float lost = two_sum(fmaf(high, other.high, -product), two_sum(one, two, less), lower);
        float lowest = fmaf(middle, other.middle, below_one + below_two);
        lowest = fmaf(high, other.low, fmaf(low, other.high, lowest));
        exponent += other.exponent;
        kinds |= other.kinds;
        if (below_one != 0 || below_two != 0 || less != 0) kinds |= INEXACT;
        set(product, lost, lower + less, lowest);
    }
    // Rounds the product. Returns false if numbers that it may be round to different ones.
    __device__ __forceinline__ bool quick_result(Output &to) const {
        if (kinds & ~INEXACT) {
            to = of_kinds();
            return true;
        }
        const float slack = 0x1p-44f;  // more than what all elements lose of a product below 2, and the rest's own rounding
        float rest = middle + low;
        return rounded(to, rest - slack, rest + slack);
    }
    __device__ __forceinline__ Output of_kinds() const {
        typedef Format<Output> F;
        u32 sign = high < 0 ? F::sign : 0;
        bool none = kinds & Accumulator::NOT_A_NUMBER || (kinds & Accumulator::ZERO && kinds & Accumulator::INFINITE);
        return F::make(none ? F::quiet_nan : sign | (kinds & Accumulator::INFINITE ? F::infinity : 0));
    }
    __device__ __forceinline__ bool rounded(f32 &to, float least, float most) const {
        if (exponent + 125u <= 252) {
            to = (high + most) * power_of_two(exponent);
            return high + most == high + least;
        }
        to = scaled(odd_sum(most));
        // Otherwise the result may have too many places to be rounded from an odd sum.
        return (exponent <= -128 || exponent > 128) && to == scaled(odd_sum(least));
    }
    __device__ __forceinline__ bool rounded(f16 &to, float least, float most) const {
        f16 other;
        narrow(to, scaled(odd_sum(most)));
        narrow(other, scaled(odd_sum(least)));
        return to.bits == other.bits;
    }
    // `high` and a rest as a float: their sum if that is one, else that of its neighbors whose last bit is 1, from which
    // formats of at least two places less round as from the sum.
    __device__ __forceinline__ float odd_sum(float rest) const {
        u32 bits = __float_as_uint(high);
        if (rest == 0 || bits & 1) return high;
        return __uint_as_float((high < 0) == (rest < 0) ? bits + 1 : bits - 1);
    }
    // Far outside the format's range the exact exponent is irrelevant.
    __device__ __forceinline__ float scaled(float x) const {
        i32 power = min(max(exponent, -250), 250), half = power / 2;
        return x * power_of_two(half) * power_of_two(power - half);
    }
    static __device__ __forceinline__ float power_of_two(i32 power) { return __int_as_float((power + 127) << 23); }

    // Results of items that follow this product. Returns false if any is undecided.
    template <u32 COUNT> __device__ __forceinline__ bool results(const Input (&items)[COUNT], Output *to) const {
        Running product = *this;
        bool are_settled = true;
#pragma unroll
        for (u32 k = 0; k < COUNT; ++k) {
            if (EXCLUSIVE) are_settled &= product.quick_result(to[k]);
            product.take(items[k]);
            if (!EXCLUSIVE) are_settled &= product.quick_result(to[k]);
        }
        return are_settled;
    }
    template <u32 COUNT>
    __device__ __forceinline__ bool results(
        const Running &before, const Extent &, const Input (&items)[COUNT], Output *to
    ) const {
        Running product = *this;
        product.merge(before);
        return product.results(items, to);
    }
    template <u32 COUNT>
    __device__ __forceinline__ bool exact_results(const Running &, const Input (&)[COUNT], Output *) const { return false; }
    __device__ __forceinline__ const Running &running(const Extent &) const { return *this; }
    __device__ __forceinline__ void tidy() {}
    // Returns false if the result is undecided.
    __device__ __forceinline__ bool result(Output &to, const Terms &terms) const {
        return quick_result(to) || finish_apart(*this, terms, to);
    }
    static __device__ bool finish_apart(const Running product, const Terms terms, Output &to);
};

// Out of line, since it is called rarely but from many places. There is at most one merge for each 16 elements.
__device__ __noinline__ bool Running::finish_apart(const Running product, const Terms terms, Output &to) {
    Accumulator whole;
    whole.clear();
    whole.high = two_sum((double)product.high, (double)product.middle, whole.low);
    whole.low += product.low;
    whole.exponent = product.exponent;
    return whole.finish_within(to, product.kinds & INEXACT ? (terms.count + 2.0) * 0x1p-68 : 0);
}

typedef Running Plain;
