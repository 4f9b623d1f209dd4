#include "bench/family/tiny_package.h"

#include "runtime/package.h"

bool tiny_package_write(const char *model, const char *folder) {
    sk_tensor_source source = {0};
    int rc = sk_tensor_source_open_gguf(model, NULL, NULL, NULL, &source, NULL);
    if (rc == SKIPPY_OK) rc = sk_package_write(&source, folder, NULL, NULL, NULL);
    sk_tensor_source_close(&source);
    return rc == SKIPPY_OK;
}
