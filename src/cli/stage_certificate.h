/* The certificate of a split, for commands: made where the whole model is at hand, looked up where a stage is served.
 */
#ifndef SKIPPY_CLI_STAGE_CERTIFICATE_H
#define SKIPPY_CLI_STAGE_CERTIFICATE_H

#include "cli/cut_plan.h"
#include "cli/run_options.h"
#include "cli/stage_weights.h"
#include "correctness/stage_receipt.h"

/* Folder of receipts: dir, else the default one. False: there is none. */
bool sk_stage_certificate_dir(const char *dir, char *buf, size_t cap);

/* What is known about layers of a model that are served with these settings: a sentence for people. Returns whether a
 * receipt says that they compute what the whole model computes, which one of a stage alone does not; *failed (may be
 * NULL) that one says they are not. */
bool sk_stage_certificate_find(const char *dir, const char *source, sk_layer_range layers, const sk_engine_params *p,
                               char *text, size_t cap, bool *failed);

/* Cuts the stages of the plan, compares them with the whole model in `location`, and leaves receipts in dir (NULL = the
 * default folder). `whole` and threads: how the models are loaded. Errors: those of sk_stage_certify_run,
 * sk_slice_materialise and sk_stage_receipt_write. A comparison that failed is not an error: the report says so. */
int sk_stage_certificate_make(sk_weights_source *s, const char *location, const sk_cut_plan *plan,
                              const sk_split_options *split, const sk_run_options *run, const char *dir,
                              sk_stage_certify_report *report, sk_err *e);

#endif
