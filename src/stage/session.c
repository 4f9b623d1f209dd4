/* Sessions: one request on one lane, from OPEN to STOP. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "stage/stage_internal.h"

sk_stage_lane *sk_session_find(sk_stage *s, uint32_t lane, uint64_t session) {
    if (lane >= s->setup.n_lanes || session == 0 || s->lanes[lane].session != session) return NULL;
    return &s->lanes[lane];
}

/* ---- beginning and end ---- */

static int name_namespace(sk_stage *s, const sk_frame_open *o, skippy_key *ns) {
    skippy_identity id = s->setup.identity;
    id.tenant = o->tenant;
    id.cache_namespace = o->cache_namespace;
    return skippy_namespace_key(&id, ns);
}

void sk_session_open(sk_stage *s, const sk_frame *f) {
    const sk_frame_open *o = &f->u.open;
    if (f->lane >= s->setup.n_lanes || f->session == 0) {
        char text[160];
        snprintf(text, sizeof text, "session %llu cannot begin on lane %u: this stage has lanes 0 to %u",
                 (unsigned long long)f->session, f->lane, s->setup.n_lanes - 1);
        s->st.faults++;
        sk_stage_send_fault(s, f->lane, f->session, SKIPPY_E_INVALID, text);
        return;
    }
    sk_stage_lane *l = &s->lanes[f->lane];
    if (l->session) sk_session_close(s, l, false);
    sk_prefix prompt = {
        .tokens = o->tokens, .n_tokens = o->n_tokens, .tenant = o->tenant, .cache_namespace = o->cache_namespace};
    int rc = name_namespace(s, o, &prompt.ns);
    if (rc == SKIPPY_OK) rc = sk_prefix_copy(&l->prompt, &prompt);
    l->session = f->session;
    l->no_cache = f->flags & SK_FLAG_NO_CACHE;
    l->last_use = ++s->clock;
    s->st.sessions++;
    if (rc) sk_session_fault(s, l, rc, "a session of %u tokens could not begin: %s", o->n_tokens, skippy_strerror(rc));
}

void sk_session_close(sk_stage *s, sk_stage_lane *l, bool keep) {
    sk_session_restore_drop(s, l);
    /* A session that computed nothing leaves what it found. */
    bool own = l->claimed || l->faulted;
    if (own && (!keep || l->faulted || !sk_stage_may_reuse(s, l))) sk_lane_reset(s, l);
    sk_prefix_free(&l->prompt);
    sk_kept_writer_free(&l->writer);
    l->writer = (sk_kept_writer){0};
    l->session = 0;
    l->claimed = l->faulted = l->no_cache = l->probed = false;
    l->last_use = ++s->clock;
}

void sk_session_claim(sk_stage *s, sk_stage_lane *l) {
    if (l->claimed) return;
    sk_lane_reset(s, l);
    l->ns = l->prompt.ns;
    l->claimed = true;
}

void sk_session_fail(sk_stage *s, sk_stage_lane *l) {
    sk_session_restore_drop(s, l);
    sk_lane_reset(s, l);
    l->faulted = true;
    l->probed = false;
}

void sk_session_fault(sk_stage *s, sk_stage_lane *l, int status, const char *fmt, ...) {
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    sk_log(SK_LOG_DEBUG, "session %llu on lane %u: %s", (unsigned long long)l->session, l->id, text);
    s->st.faults++;
    sk_session_fail(s, l);
    sk_stage_send_fault(s, l->id, l->session, status, text);
}

/* ---- what it holds ---- */

sk_prefix sk_session_prefix(const sk_stage_lane *l, uint32_t n) {
    return (sk_prefix){.ns = l->prompt.ns,
                       .tokens = l->tokens,
                       .n_tokens = n,
                       .tenant = l->prompt.tenant,
                       .cache_namespace = l->prompt.cache_namespace};
}

void sk_session_record(sk_stage *s, sk_stage_lane *l, uint64_t n) {
    if (!l->claimed || n != l->n || !sk_stage_may_reuse(s, l)) {
        sk_log(SK_LOG_DEBUG, "lane %u: a record of %llu tokens is ignored, it holds %u", l->id, (unsigned long long)n,
               l->n);
        return;
    }
    if (s->hold.tiers && !l->lineage) l->lineage = sk_lineage_new(); /* without one, each export is a whole one */
    const sk_prefix prefix = sk_session_prefix(l, l->n);
    s->st.records++;
    sk_reuse_record(&s->hold.reuse, &prefix, l->id, l->lineage, 0);
}

void sk_session_trim(sk_stage *s, sk_stage_lane *l, uint64_t n) {
    sk_err err = {0};
    sk_session_claim(s, l);
    int rc = n > l->n ? sk_err_set(&err, SKIPPY_E_INVALID, "it holds %u", l->n) : sk_lane_trim(s, l, (uint32_t)n, &err);
    if (rc) {
        sk_session_fault(s, l, rc, "the lane cannot be cut to %llu tokens: %s", (unsigned long long)n, err.text);
        return;
    }
    if (l->prompt.n_tokens > n) l->prompt.n_tokens = n; /* other tokens may follow */
}
