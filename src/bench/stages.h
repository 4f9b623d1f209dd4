/* `skippy bench stages`: what it costs and saves to run one model as several stages on this machine.
 *
 *   overhead  three stages on loopback: time of a generated token beside the sum of what the stages computed for it
 *   lanes     two requests over two stages, one after the other and together
 *   rivals    two stages against llama-server with one rpc-server, the same split and threads: prompt, repeat,
 * generation; on loopback, and with every link delayed memory    three stages with a cache folder: resident set and
 * disk use of each beside its share of the weights
 *
 * Not thread-safe; one run per process. */
#ifndef SKIPPY_BENCH_STAGES_H
#define SKIPPY_BENCH_STAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/stages_report.h"

/* Strings are borrowed. */
typedef struct sk_stages_options {
    const char *model, *out_dir;
    const char *skippy, *llama_server, *rpc_server; /* programs */
    const char *version;
    unsigned parts;    /* of SK_STAGES_PARTS, ored: 1 << enum sk_stages_part */
    int threads;       /* of each process */
    uint32_t lane_ctx; /* tokens */
    int32_t cut;       /* two stages: first layer of the second; 0 = the middle */
    int32_t cuts[2];   /* three stages: first layers of the second and third; 0 = even */
    size_t runs;       /* counted rounds of each part */
    size_t prompt_tokens, predict;
    double delay_ms; /* each way, of the delayed rounds of `rivals` */
    bool tls;        /* links with TLS instead of plaintext on loopback */
    int timeout_s;   /* longest silence of a server */
    uint64_t seed;
    void (*note)(void *ud, const char *what); /* progress; may be NULL */
    void *ud;
} sk_stages_options;

/* Errors: SKIPPY_E_INVALID in words (sizes that do not fit the context, a folder name with a blank). */
int sk_stages_check(const sk_stages_options *o, sk_err *e);
/* Runs the parts; after each of them OUT_DIR/stages.json and OUT_DIR/stages.md hold what was measured so far, and so
 * does the report (sk_stages_report_free). A part that fails is recorded, and the others go on. Errors:
 * SKIPPY_E_RUNTIME (a part failed, see the report), SKIPPY_E_CANCELLED, SKIPPY_E_IO, those of sk_stages_split_open. */
int sk_stages_run(const sk_stages_options *o, sk_stages_report *report, sk_err *e);

#endif
