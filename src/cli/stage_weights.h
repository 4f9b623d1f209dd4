/* From what people point at (a GGUF, a stage file, a package) to the file that is loaded: the layers that were asked
 * for are cut out of a whole model or put together out of a package, once, and kept for the next start. Not
 * thread-safe. */
#ifndef SKIPPY_CLI_STAGE_WEIGHTS_H
#define SKIPPY_CLI_STAGE_WEIGHTS_H

#include "cli/split_options.h"
#include "runtime/model.h"
#include "runtime/slice.h"

typedef struct sk_weights {
    const char *path;   /* to load; valid until the release */
    sk_slice_file file; /* holds the stage file while it is used */
} sk_weights;

/* Is this a package: an http(s) URL, or a folder? */
bool sk_weights_is_package(const char *location);

/* A model that is read, not loaded. It must not move while it is open. */
typedef struct sk_weights_source {
    sk_tensor_source tensors;
    bool (*go_on)(void);
} sk_weights_source;

/* Opens a GGUF or a package. Progress is shown on standard error; go_on returns false to stop. Close it in any case.
 * Errors: those of sk_tensor_source_open_gguf and sk_tensor_source_open_package. */
int sk_weights_source_open(const char *location, const sk_split_options *o, bool (*go_on)(void), sk_weights_source *out,
                           sk_err *e);
void sk_weights_source_close(sk_weights_source *s);

/* The stage file of these layers, from the cache of stage files. Release it in any case. Errors: those of
 * sk_slice_materialise. */
int sk_weights_cut(sk_weights_source *s, sk_layer_range r, const sk_split_options *o, sk_weights *out, sk_err *e);

/* Finds or makes the file to load. need_layers: a whole model or package without --layers is refused; else it is taken
 * whole. A stage file that holds other layers than --layers says is refused. Release it in any case. Errors:
 * SKIPPY_E_INVALID and SKIPPY_E_UNSUPPORTED in words, those of sk_weights_source_open and sk_slice_materialise. */
int sk_weights_prepare(const char *location, const sk_split_options *o, bool need_layers, bool (*go_on)(void),
                       sk_weights *out, sk_err *e);
/* A zeroed one is fine. */
void sk_weights_release(sk_weights *w);

/* "layers 6 to 11 of 16", or "layer 3 of 16"; returns buf. */
const char *sk_weights_layers_text(const sk_stage_facts *f, char *buf, size_t cap);

#endif
