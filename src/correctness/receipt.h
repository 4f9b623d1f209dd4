/* Receipts: what a certification found about one model file under one layout of the runtime's memory, kept where
 * `serve` looks for it.
 *
 *     <dir>/<32 hex of the weights>-<16 hex of the layout>-<8 hex of the runtime>.json
 *
 * A receipt carries a BLAKE3 digest over its own content: a damaged or edited one is no receipt. The digest is no
 * signature: whoever can write the folder can certify. Format: docs/formats/receipt.md.
 *
 * Thread-safe: no state; files appear whole, by rename. */
#ifndef SKIPPY_CORRECTNESS_RECEIPT_H
#define SKIPPY_CORRECTNESS_RECEIPT_H

#include "correctness/certify.h"

enum { SK_RECEIPT_VERSION = 1 };

/* What a receipt must be about. Strings are borrowed for the call. */
typedef struct sk_receipt_facts {
    skippy_key weights;
    const char *abi;    /* sk_runtime_abi */
    const char *device; /* sk_runtime_devices */
    const char *type_k, *type_v;
    int flash_attn; /* resolved: 0 or 1 */
    bool swa_full;
} sk_receipt_facts;

typedef struct sk_receipt {
    bool passed;
    enum sk_outcome outcome[SK_MODES];
    char family[48], arch[48], model_id[128], payload[32];
    char verdict[400], comparison[256], layout[300];
    char date[32], program_version[32];
} sk_receipt;

/* $XDG_STATE_HOME/skippy/receipts, else ~/.local/state/skippy/receipts. False when neither is known or the path is too
 * long. */
bool sk_receipt_default_dir(char *buf, size_t cap);

/* Writes (or replaces) the receipt of a report. dir and its missing parents are made, mode 0700; the file is 0600.
 * path (may be NULL) receives the file's name. Errors: SKIPPY_E_IO, SKIPPY_E_NOMEM, SKIPPY_E_TOO_SMALL (path). */
int sk_receipt_write(const char *dir, const sk_certify_report *r, const char *program_version, char *path, size_t cap,
                     sk_err *e);

/* Finds the receipt for these facts. SKIPPY_OK: *out is filled; whether it passed is in it. Otherwise e->text says it
 * in words: SKIPPY_E_NOT_FOUND (none; perhaps one for other settings), SKIPPY_E_UNSUPPORTED (certified under another
 * runtime: certify again), SKIPPY_E_CORRUPT (damaged, edited, or about something else), SKIPPY_E_IO, SKIPPY_E_NOMEM. */
int sk_receipt_find(const char *dir, const sk_receipt_facts *f, sk_receipt *out, sk_err *e);

#endif
