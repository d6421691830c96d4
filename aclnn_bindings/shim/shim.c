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

/* The first step that fails ends the call; its message is read before anything else can replace it. */
static int ends(const gmmfr_table* table, gmmfr_call* call, gmmfr_step step, size_t argument, int status) {
    call->step = step;
    call->argument = argument;
    if (status != 0 && table->aclGetRecentErrMsg != NULL) {
        call->message = table->aclGetRecentErrMsg();
    }
    return status;
}

static int copies_in(const gmmfr_table* table, const gmmfr_kind* kind, gmmfr_call* call) {
    for (size_t i = 0; i < GMMFR_TENSORS; ++i) {
        if (call->host[i] == NULL) {
            continue;
        }
        call->addresses[i] = call->block + kind->offsets[i];
        if (i == GMMFR_OUT || kind->sizes[i] == 0) {
            continue;
        }
        int status = table->aclrtMemcpy((void*)call->addresses[i], kind->sizes[i], call->host[i], kind->sizes[i],
                                        ACL_MEMCPY_HOST_TO_DEVICE);
        if (status != 0) {
            return ends(table, call, GMMFR_UPLOAD, i, status);
        }
    }
    return 0;
}

/* Both phases and the wait between the making of the descriptors and their end. */
static int phases(const gmmfr_table* table, const gmmfr_kind* kind, aclTensor* const* tensors, gmmfr_call* call) {
    aclOpExecutor* executor = NULL;
    uint64_t needed = 0;
    int status = gmmfr_phase_one(table, tensors, kind->scalars, NULL, &needed, &executor);
    if (status != 0) {
        return ends(table, call, GMMFR_PHASE_ONE, 0, status);
    }
    if (needed > call->workspaceSize) {
        call->workspaceSize = needed;
        return ends(table, call, GMMFR_WORKSPACE, 0, table->aclDestroyAclOpExecutor(executor));
    }
    if (call->x1Copy != 0) {
        const uint64_t size = kind->sizes[GMMFR_X1];
        status = table->aclrtMemcpyAsync((void*)call->x1Copy, size, (const void*)call->addresses[GMMFR_X1], size,
                                         ACL_MEMCPY_DEVICE_TO_DEVICE, call->stream);
        if (status != 0) {
            ends(table, call, GMMFR_PROTECT_X1, GMMFR_X1, status);
            table->aclDestroyAclOpExecutor(executor);
            return status;
        }
    }
    status = table->aclnnGroupedMatmulFinalizeRoutingV3((void*)call->workspace, needed, executor, call->stream);
    if (status != 0) {
        return ends(table, call, GMMFR_PHASE_TWO, 0, status);
    }
    status = table->aclrtSynchronizeStream(call->stream);
    return status == 0 ? 0 : ends(table, call, GMMFR_SYNCHRONIZE, 0, status);
}

int gmmfr_run(const gmmfr_table* table, const gmmfr_kind* kind, gmmfr_call* call) {
    call->step = GMMFR_DONE;
    call->message = NULL;
    int status = copies_in(table, kind, call);
    if (status != 0) {
        return status;
    }
    void* addresses[GMMFR_TENSORS];
    for (size_t i = 0; i < GMMFR_TENSORS; ++i) {
        addresses[i] = (void*)call->addresses[i];
    }
    if (call->x1Copy != 0) {
        addresses[GMMFR_X1] = (void*)call->x1Copy;
    }
    aclTensor* tensors[GMMFR_TENSORS] = {NULL};
    const size_t made = gmmfr_create_tensors(table, GMMFR_TENSORS, kind->descriptors, addresses, tensors);
    status = made < GMMFR_TENSORS ? ends(table, call, GMMFR_CREATE, made, ACL_ERROR_FAILURE)
                                  : phases(table, kind, tensors, call);
    const int destroyed = gmmfr_destroy_tensors(table, GMMFR_TENSORS, tensors);
    if (call->step != GMMFR_DONE) {
        return status;
    }
    if (destroyed != 0) {
        return ends(table, call, GMMFR_DESTROY, 0, destroyed);
    }
    if (call->host[GMMFR_OUT] == NULL) {
        return 0;
    }
    const uint64_t size = kind->sizes[GMMFR_OUT];
    status = table->aclrtMemcpy(call->host[GMMFR_OUT], size, (const void*)call->addresses[GMMFR_OUT], size,
                                ACL_MEMCPY_DEVICE_TO_HOST);
    return status == 0 ? 0 : ends(table, call, GMMFR_DOWNLOAD, GMMFR_OUT, status);
}
