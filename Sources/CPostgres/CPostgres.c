#include "CPostgres.h"
#include <dlfcn.h>

int cp_load(struct cp_library *library, const char **reason) {
    void *handle = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        *reason = dlerror();
        return -1;
    }
#define CP_FIND(name) \
    library->name = (__typeof__(&name))dlsym(handle, #name); \
    if (!library->name) { \
        *reason = dlerror(); \
        return -1; \
    }
    CP_FUNCTIONS(CP_FIND)
#undef CP_FIND
    return 0;
}

void cp_ignore_notice(void *context, const char *message) {
    (void)context;
    (void)message;
}
