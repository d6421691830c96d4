/* The ACL runtime as callers include it: types, error codes and runtime functions. */
#ifndef GMMFR_ACL_ACL_H_
#define GMMFR_ACL_ACL_H_

#include "acl/acl_base.h"
#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* configPath may be NULL. Calls are counted; every one needs its aclFinalize. */
aclError aclInit(const char* configPath);
aclError aclFinalize(void);
/* Takes one count back and tells how many are left; the runtime ends at 0. */
aclError aclFinalizeReference(uint64_t* refCount);

/* The calling thread's last error text. May be NULL; reading it consumes it. */
const char* aclGetRecentErrMsg(void);

aclError aclrtGetVersion(int32_t* majorVersion, int32_t* minorVersion, int32_t* patchVersion);

#ifdef __cplusplus
}
#endif

#endif
