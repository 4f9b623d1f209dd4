/* The content of a part: a GGUF whose tensors are those that the manifest gives to it. Internal to runtime/. */
#ifndef SKIPPY_RUNTIME_PACKAGE_PART_H
#define SKIPPY_RUNTIME_PACKAGE_PART_H

#include "runtime/package.h"

/* Which part a tensor belongs to, by its name. */
enum sk_part_role sk_part_role_of(const sk_tensor_desc *t);

/* Reads the header of an open part, after the checks of gguf_check.h. The caller frees it (gguf_free). Errors: those of
 * sk_gguf_check_bytes as SKIPPY_E_CORRUPT, SKIPPY_E_IO. */
int sk_part_read_header(int fd, struct gguf_context **out, sk_err *e);

/* Do header and manifest agree about part `no`? The metadata must be of the package's model; every other part has the
 * listed tensors, no other ones, and no key-values. offsets: where each tensor of this part begins in the file, at the
 * tensor's position in p->tensors; the others are left alone. NULL = not wanted. SKIPPY_E_CORRUPT. */
int sk_part_check(const sk_package *p, size_t no, struct gguf_context *header, uint64_t *offsets, sk_err *e);

#endif
