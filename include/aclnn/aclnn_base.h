/* What every aclnn operator header includes. */
#ifndef GMMFR_ACLNN_ACLNN_BASE_H_
#define GMMFR_ACLNN_ACLNN_BASE_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Optional: the library starts by itself. configPath may be NULL. */
aclnnStatus aclnnInit(const char* configPath);
aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif
