// Units that are copied bitwise.

typedef UNIT Unit;
typedef Unit SourceUnit;
typedef Unit TargetUnit;

static __device__ __forceinline__ const TargetUnit &moved(const SourceUnit &unit) { return unit; }
