#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <string.h>

#include "gmmfr_table.h"

_Static_assert(sizeof(gmmfr_table) == GMMFR_FUNCTIONS * sizeof(void *), "the table is an array of pointers");

void *gmmfr_open(const char *path)
{
    return dlopen(path, RTLD_LAZY | RTLD_LOCAL);
}

const char *gmmfr_open_error(void)
{
    return dlerror();
}

bool gmmfr_is_loaded(const char *path)
{
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (library != NULL) {
        dlclose(library);
    }
    return library != NULL;
}

void *gmmfr_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

const char *gmmfr_origin(const void *address)
{
    Dl_info info;
    return address != NULL && dladdr(address, &info) != 0 ? info.dli_fname : NULL;
}

void gmmfr_set(gmmfr_table *table, size_t index, void *address)
{
    if (index < GMMFR_FUNCTIONS) {
        memcpy((char *)table + index * sizeof(void *), &address, sizeof(void *));
    }
}

void *gmmfr_get(const gmmfr_table *table, size_t index)
{
    void *address = NULL;
    if (index < GMMFR_FUNCTIONS) {
        memcpy(&address, (const char *)table + index * sizeof(void *), sizeof(void *));
    }
    return address;
}

size_t gmmfr_create_tensors(const gmmfr_table *table, size_t count, const gmmfr_descriptor *descriptors,
                            void *const *addresses, aclTensor **tensors)
{
    for (size_t i = 0; i < count; ++i) {
        const gmmfr_descriptor *d = &descriptors[i];
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

int gmmfr_destroy_tensors(const gmmfr_table *table, size_t count, aclTensor **tensors)
{
    int first = 0;
    for (size_t i = 0; i < count; ++i) {
        if (tensors[i] != NULL) {
            const aclTensor *tensor = tensors[i];
            tensors[i] = NULL;
            int status = table->aclDestroyTensor(tensor);
            first = first != 0 ? first : status;
        }
    }
    return first;
}
