/* libd3d12.so for DirectML on a machine without Direct3D: the function that it links to, and a device that describes
 * itself and can do nothing else. Creating an operator takes no more.
 *
 * Every method may be called with any arguments: registers that a function does not read do no harm. */
#include <stdint.h>
#include <string.h>

typedef int32_t Result;
typedef struct { const void *const *methods; } Object;
typedef struct { uint32_t first; uint16_t second, third; uint8_t rest[8]; } Iid;

#define NOT_IMPLEMENTED ((Result)0x80004001)
#define NO_INTERFACE ((Result)0x80004002)
#define INVALID_ARGUMENT ((Result)0x80070057)
#define NOT_FOUND ((Result)0x887a0002)

Result D3D12SerializeVersionedRootSignature(void) { return NOT_IMPLEMENTED; }

/* The first words of the interfaces: IUnknown, ID3D12Object, ID3D12Device and ID3D12Device1 to 6. */
static const uint32_t interfaces[] = {0x00000000, 0xc4fec28f, 0x189819f1, 0x77acce80, 0x30baa41e,
                                      0x81dadc15, 0xe865df17, 0x8b4f173b, 0xc70b221b};

static Result query_interface(Object *self, const Iid *iid, void **result) {
    *result = NULL;
    for (unsigned i = 0; i < sizeof interfaces / sizeof *interfaces; i++)
        if (iid->first == interfaces[i]) *result = self;
    return *result ? 0 : NO_INTERFACE;
}

static uint64_t one(void) { return 1; }
static Result ok(void) { return 0; }
static Result not_implemented(void) { return NOT_IMPLEMENTED; }
static Result not_found(void) { return NOT_FOUND; }
static uint32_t descriptor_size(void) { return 32; }

/* D3D12_FEATURE, with the answers as 32-bit words; those that start with a question keep it. */
enum { OPTIONS, ARCHITECTURE, LEVELS, SHADER_MODEL = 7, OPTIONS1, ROOT_SIGNATURE = 12, ARCHITECTURE1 = 16, OPTIONS4 = 23 };
enum { LEVEL_12_1 = 0xc100, SHADER_MODEL_6_6 = 0x66 };

typedef struct { uint32_t count; const uint32_t *asked; uint32_t highest; } FeatureLevels;

static Result feature_levels(FeatureLevels *levels) {
    levels->highest = 0;
    for (uint32_t i = 0; i < levels->count; i++)
        if (levels->asked[i] <= LEVEL_12_1 && levels->asked[i] > levels->highest) levels->highest = levels->asked[i];
    return 0;
}

static Result check_feature_support(Object *self, uint32_t feature, uint32_t *data, uint32_t size) {
    static const uint32_t options[] = {1, 0, 3, 3, 2, 1, 1, 1}; /* doubles; half precision; binding and tiling tiers */
    static const uint32_t options1[] = {1, 32, 32, 4096, 1, 1}; /* lanes of a wave; 64-bit integers */
    static const uint32_t options4[] = {0, 0, 1};               /* native 16-bit operations */
    switch (feature) {
    case OPTIONS: memcpy(data, options, size < sizeof options ? size : sizeof options); return 0;
    case OPTIONS1: memcpy(data, options1, size < sizeof options1 ? size : sizeof options1); return 0;
    case OPTIONS4: memcpy(data, options4, size < sizeof options4 ? size : sizeof options4); return 0;
    case LEVELS: return feature_levels((FeatureLevels *)data);
    case SHADER_MODEL: if (data[0] > SHADER_MODEL_6_6) data[0] = SHADER_MODEL_6_6; return 0;
    case ROOT_SIGNATURE: data[0] = 2; return 0; /* version 1.1 */
    case ARCHITECTURE: case ARCHITECTURE1: memset(data + 1, 0, size - 4); return 0; /* of a discrete card */
    default: return INVALID_ARGUMENT;
    }
}

static Result no_metacommands(Object *self, uint32_t *count) { *count = 0; return 0; }

static const void *const methods[120] = {
    [0 ... 119] = not_implemented,
    [0] = query_interface, [1] = one, [2] = one,             /* IUnknown */
    [3] = not_found, [4] = ok, [5] = ok, [6] = ok,           /* ID3D12Object: private data, name */
    [7] = one, [13] = check_feature_support, [15] = descriptor_size,
    [37] = ok, [43] = one,                                   /* not removed; LUID */
    [59] = no_metacommands,
};
static Object device = {methods};

Object *device_without_gpu(void) { return &device; }
