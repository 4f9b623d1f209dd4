/* The bytes of a package's manifest. docs/formats/package.md describes them. Internal to runtime/. */
#ifndef SKIPPY_RUNTIME_PACKAGE_MANIFEST_H
#define SKIPPY_RUNTIME_PACKAGE_MANIFEST_H

#include "base/buf.h"
#include "runtime/package.h"

/* No manifest is larger. One line of a tensor has at most about 250 bytes, and no known model has 10,000 tensors. */
#define SK_PACKAGE_MANIFEST_MAX ((size_t)32 << 20)

/* Appends the manifest; the same package gives the same bytes. manifest_digest is not looked at. Running out of memory
 * shows in out->failed. */
void sk_package_dump(const sk_package *p, sk_buf *out);

/* The path of a part with this digest, relative to the manifest. */
void sk_package_part_path(const skippy_key *digest, char path[96]);

/* Bytes of a tensor of these dimensions; false when type and dimensions do not go together or overflow. */
bool sk_package_tensor_bytes(uint32_t type, const int64_t ne[4], uint64_t *bytes);

/* The layer of "blk.N.": N; else -1. */
int32_t sk_package_tensor_layer(const char *name);

#endif
