// What an accumulator may know of the whole reduction. INPUT and OUTPUT name types of `scalars`.

typedef INPUT Input;
typedef OUTPUT Output;
typedef decltype(widen(Input())) Wide;

const int ONLY = 0, QUICK = 1, REPAIR = 2;  // what PASS is; see `reduction`

struct Terms {
    double depth;  // additions that a term takes part in, at most
    u32 count;
    u32 unused;
};
