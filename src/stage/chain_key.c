#include <stdio.h>
#include <string.h>

#include "skippy/identity.h"
#include "stage/service.h"

enum { TOPOLOGY_MAX = 512 }; /* 16 ranges of at most 22 characters and the dtype fit */

void sk_chain_topology(const int32_t *cuts, uint32_t n_stages, uint8_t dtype, char *buf, size_t cap) {
    if (cap == 0) return;
    size_t used = 0;
    buf[0] = '\0';
    for (uint32_t i = 0; i < n_stages && used < cap; i++) {
        int n = snprintf(buf + used, cap - used, "%s%d-%d", i ? "," : "", cuts[i], cuts[i + 1]);
        used += n > 0 ? (size_t)n : 0;
    }
    if (used < cap) snprintf(buf + used, cap - used, ";%s", dtype == 1 ? "f16" : "f32");
}

static bool usable(const sk_chain_facts *f) {
    if (!f->source || !f->cuts || f->n_stages == 0 || f->n_stages > SK_CHAIN_MAX || f->dtype > 1) return false;
    if (f->cuts[0] != 0) return false;
    for (uint32_t i = 0; i < f->n_stages; i++)
        if (f->cuts[i + 1] <= f->cuts[i]) return false;
    return true;
}

/* The encoding behind namespace keys is injective, so each fact gets a field of it that nothing else uses here. The
 * whole model's digest is text on both ends already. */
int sk_chain_key(const sk_chain_facts *f, skippy_key *out) {
    if (!f || !out || !usable(f)) return SKIPPY_E_INVALID;
    char topology[TOPOLOGY_MAX], layout[64];
    sk_chain_topology(f->cuts, f->n_stages, f->dtype, topology, sizeof topology);
    snprintf(layout, sizeof layout, "skippy-chain-%d;width=%u", SK_STAGE_PROTOCOL, f->width);
    skippy_identity id = {.model_id = f->source,
                          .topology_id = topology,
                          .layer_end = (uint32_t)f->cuts[f->n_stages],
                          .runtime_abi = f->abi,
                          .kv_type_k = f->type_k,
                          .kv_type_v = f->type_v,
                          .flash_attn = f->flash_attn,
                          .swa_full = f->swa_full,
                          .kv_layout = layout,
                          .n_ctx = f->n_ctx,
                          .rope_freq_base = f->rope_freq_base,
                          .rope_freq_scale = f->rope_freq_scale};
    return skippy_namespace_key(&id, out);
}
