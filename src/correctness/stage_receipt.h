/* Receipts of stages: that layers [a, b) of a model were compared with the whole model, as one of several stages; or
 * that their state continues exactly, alone, where nobody holds the whole model.
 *
 *     <dir>/stage-<32 hex of the model>-<a>-<b>-<16 hex of the settings>-<8 hex of the runtime>.json
 *     <dir>/stage-<32 hex of the model>-<a>-<b>-<16 hex of the settings>-<8 hex of the runtime>-alone.json
 *
 * One for each stage, so that whoever holds a stage finds what is known about it. Beside the receipts of state
 * (receipt.h), and sealed as they are. Thread-safe: no state; files appear whole. */
#ifndef SKIPPY_CORRECTNESS_STAGE_RECEIPT_H
#define SKIPPY_CORRECTNESS_STAGE_RECEIPT_H

#include "correctness/certify.h"
#include "correctness/stage_certify.h"

enum { SK_STAGE_RECEIPT_VERSION = 1 };

/* What a receipt must be about. Strings are borrowed for the call. The runtime is the one that asks. */
typedef struct sk_stage_receipt_facts {
    const char *source; /* hex digest of the whole model */
    sk_layer_range layers;
    const char *type_k, *type_v; /* NULL or "" = f16 */
    int flash_attn;              /* as asked: -1 auto, 0, 1 */
} sk_stage_receipt_facts;

typedef struct sk_stage_receipt {
    bool passed;
    bool alone; /* not compared with the whole model */
    char verdict[400], date[32];
} sk_stage_receipt;

/* Writes (or replaces) one receipt for each stage of the report. Errors: as sk_receipt_write. */
int sk_stage_receipt_write(const char *dir, const sk_stage_certify_report *r, const char *program_version, sk_err *e);

/* Writes (or replaces) the receipt of a stage that was certified without the whole model (identity.alone). flash_attn:
 * as asked. path (may be NULL) receives the file's name. Errors: as sk_receipt_write; SKIPPY_E_INVALID (another
 * report).
 */
int sk_stage_receipt_write_alone(const char *dir, const sk_certify_report *r, int flash_attn,
                                 const char *program_version, char *path, size_t cap, sk_err *e);

/* Of two receipts a failed one counts, else the comparison with the whole model. SKIPPY_OK: *out is filled; whether it
 * passed is in it. Otherwise e->text says it in words: SKIPPY_E_NOT_FOUND,
 * SKIPPY_E_CORRUPT (damaged, edited, or about something else), SKIPPY_E_IO, SKIPPY_E_NOMEM. */
int sk_stage_receipt_find(const char *dir, const sk_stage_receipt_facts *f, sk_stage_receipt *out, sk_err *e);

#endif
