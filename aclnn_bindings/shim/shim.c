#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <string.h>

#include "gmmfr_table.h"

_Static_assert(sizeof(gmmfr_table) == GMMFR_FUNCTIONS * sizeof(void*), "the table is an array of pointers");

void* gmmfr_open(const char* path) {
    return dlopen(path, RTLD_LAZY | RTLD_LOCAL);
}

const char* gmmfr_open_error(void) {
    return dlerror();
}

bool gmmfr_is_loaded(const char* path) {
    void* library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (library != NULL) {
        dlclose(library);
    }
    return library != NULL;
}

void* gmmfr_symbol(void* library, const char* name) {
    return dlsym(library, name);
}

const char* gmmfr_origin(const void* address) {
    Dl_info info;
    return address != NULL && dladdr(address, &info) != 0 ? info.dli_fname : NULL;
}

void gmmfr_set(gmmfr_table* table, size_t index, void* address) {
    if (index < GMMFR_FUNCTIONS) {
        memcpy((char*)table + index * sizeof(void*), &address, sizeof(void*));
    }
}

void* gmmfr_get(const gmmfr_table* table, size_t index) {
    void* address = NULL;
    if (index < GMMFR_FUNCTIONS) {
        memcpy(&address, (const char*)table + index * sizeof(void*), sizeof(void*));
    }
    return address;
}

size_t gmmfr_create_tensors(const gmmfr_table* table, size_t count, const gmmfr_descriptor* descriptors,
                            void* const* addresses, aclTensor** tensors) {
    for (size_t i = 0; i < count; ++i) {
        const gmmfr_descriptor* d = &descriptors[i];
        if (d->dims == NULL) {
            continue;
        }
        tensors[i] = table->aclCreateTensor(d->dims, d->rank, (aclDataType)d->dtype, d->strides, d->offset,
                                            (aclFormat)d->format, d->storage, d->storageRank, addresses[i]);
        if (tensors[i] == NULL) {
            return i;
        }
    }
    return count;
}

int gmmfr_destroy_tensors(const gmmfr_table* table, size_t count, aclTensor** tensors) {
    int first = 0;
    for (size_t i = 0; i < count; ++i) {
        if (tensors[i] != NULL) {
            const aclTensor* tensor = tensors[i];
            tensors[i] = NULL;
            int status = table->aclDestroyTensor(tensor);
            first = first != 0 ? first : status;
        }
    }
    return first;
}

size_t gmmfr_upload(const gmmfr_table* table, size_t count, const uintptr_t* targets, const uint64_t* sizes,
                    void* const* sources, int* status) {
    for (size_t i = 0; i < count; ++i) {
        void* target = (void*)targets[i];
        *status = table->aclrtMemcpy(target, sizes[i], sources[i], sizes[i], ACL_MEMCPY_HOST_TO_DEVICE);
        if (*status != 0) {
            return i;
        }
    }
    return count;
}

int gmmfr_phase_one(const gmmfr_table* table, aclTensor* const* t, const gmmfr_scalars* scalars,
                    const aclIntArray* tuningConfig, uint64_t* workspaceSize, aclOpExecutor** executor) {
    return table->aclnnGroupedMatmulFinalizeRoutingV3GetWorkspaceSize(
        t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9], t[10], t[11], scalars->dtype,
        scalars->sharedInputWeight, scalars->sharedInputOffset, scalars->transposeX1, scalars->transposeX2,
        scalars->groupListType, tuningConfig, t[12], workspaceSize, executor);
}
