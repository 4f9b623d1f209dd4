/* Layers as people write them. */
#ifndef SKIPPY_CLI_LAYER_RANGE_H
#define SKIPPY_CLI_LAYER_RANGE_H

#include <stdbool.h>

#include "base/err.h"
#include "topology/capability.h"

/* "3..4" means the layers 3 and 4, "3" the layer 3 alone; the first layer is 0. *out is [start, end), so 3..4 becomes
 * start 3, end 5. False with words in *e when the text is anything else, the end is before the start, or no model has
 * such a layer. Pure. */
bool sk_layer_range_parse(const char *text, sk_layer_range *out, sk_err *e);

#endif
