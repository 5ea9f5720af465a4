/* libdxcore.so for DirectML on a machine without a GPU: a factory whose only adapter is that of the device in d3d12.c. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef int32_t Result;
typedef struct { const void *const *methods; } Object;

#define NOT_IMPLEMENTED ((Result)0x80004001)
#define MICROSOFT 0x1414 /* as a vendor */

static Object adapter;

static Result query_interface(Object *self, const void *iid, void **result) { *result = self; return 0; }
static uint32_t one(void) { return 1; }
static uint8_t yes(void) { return 1; }
static Result not_implemented(void) { return NOT_IMPLEMENTED; }
static Result adapter_by_luid(Object *self, const void *luid, const void *iid, void **result) { *result = &adapter; return 0; }

/* DXCoreAdapterProperty */
enum { LUID, DRIVER_VERSION, DESCRIPTION, HARDWARE_ID, DEDICATED_MEMORY = 7, SHARED_MEMORY = 9, FIRST_FLAG, IS_HARDWARE,
       LAST_FLAG = 13, HARDWARE_ID_PARTS };

static Result property_size(Object *self, uint32_t property, size_t *size) {
    *size = property == DESCRIPTION || property == HARDWARE_ID ? 16
          : property == HARDWARE_ID_PARTS ? 20
          : property >= FIRST_FLAG && property <= LAST_FLAG ? 1 : 8;
    return 0;
}

static Result get_property(Object *self, uint32_t property, size_t size, void *value) {
    static const uint32_t vendor = MICROSOFT;
    static const uint64_t memory = (uint64_t)8 << 30, first = 1;
    memset(value, 0, size);
    switch (property) {
    case LUID: case DRIVER_VERSION: memcpy(value, &first, sizeof first); break;
    case DESCRIPTION: strncpy(value, "none", size - 1); break;
    case HARDWARE_ID: case HARDWARE_ID_PARTS: memcpy(value, &vendor, sizeof vendor); break;
    case DEDICATED_MEMORY: case SHARED_MEMORY: memcpy(value, &memory, sizeof memory); break;
    case IS_HARDWARE: memset(value, 1, 1); break;
    }
    return 0;
}

static const void *const factory_methods[] = {query_interface, one, one, not_implemented, adapter_by_luid, yes,
                                              not_implemented, not_implemented, not_implemented};
static const void *const adapter_methods[] = {query_interface, one, one, yes, yes, yes, get_property, property_size,
                                              yes, not_implemented, yes, not_implemented, not_implemented};
static Object factory = {factory_methods}, adapter = {adapter_methods};

Result DXCoreCreateAdapterFactory(const void *iid, void **result) { *result = &factory; return 0; }
