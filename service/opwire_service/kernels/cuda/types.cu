// Parameters of a whole reduction for its accumulators. INPUT and OUTPUT name types from `scalars`.

typedef INPUT Input;
typedef OUTPUT Output;
typedef decltype(widen(Input())) Wide;

const int ONLY = 0, QUICK = 1, SETTLE = 2;  // values of PASS; see `reduction`

struct Terms {
    double depth;  // maximum additions that a term takes part in
    u32 count;
    u32 unused;
};
