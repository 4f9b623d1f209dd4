/* Looks at everything that a run will use, and pins its bytes. Not thread-safe. */
#ifndef SKIPPY_BENCH_FAMILY_PREPARE_OBSERVE_H
#define SKIPPY_BENCH_FAMILY_PREPARE_OBSERVE_H

#include "bench/family/corpus.h"
#include "bench/family/prepare.h"
#include "bench/family/prepare_watch.h"

/* Fills in with what the request says and with the pins, as far as it comes: after an error in holds what was seen
 * until then. corpus receives the use cases when the options ask for them; the caller frees it. op->plan's corpora are
 * replaced by the options'. Errors: those of sk_prepare_run. */
int sk_prepare_observe(const sk_prepare_options *o, sk_operator *op, sk_prepare_watch *w, sk_family_input *in,
                       sk_corpus *corpus, sk_err *e);
/* The use cases that the plan names, in its order ("all" or none: all, in the corpus's order). chosen has room for
 * corpus->n. Errors: SKIPPY_E_INVALID (a key that is not in the corpus). Pure. */
int sk_prepare_choose(const sk_operator_plan *plan, const sk_corpus *corpus, const sk_use_case **chosen, size_t *n,
                      sk_err *e);
/* The digest that plan.model_sha256 pins: of the only file, or of the text that has each shard's digest as one line. */
void sk_prepare_model_digest(const sk_found_model *m, char hex[SK_SHA256_HEX]);
/* Split models and packages need the request's artifact_tool; a preset whose model is one file does not. Errors:
 * SKIPPY_E_INVALID. Pure. */
int sk_prepare_check_tool(const sk_operator *op, const sk_preset *preset, const sk_found_model *m, sk_err *e);

#endif
