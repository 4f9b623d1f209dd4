/* Correctness first: one certificate for each prefix length of a session. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "bench/family/cell_session.h"
#include "bench/family/certify_words.h"

enum { NS_PER_MS = 1000000 };

static sk_certificate *find(sk_session *s, uint32_t prefix) {
    for (size_t i = 0; i < s->n_certificates; i++) {
        if (s->certificate[i].prefix == prefix) {
            return &s->certificate[i];
        }
    }
    return NULL;
}

/* A certificate that an earlier run of this input left with one of the cells. */
static sk_certificate *recall(sk_session *s, const sk_cell_run *c) {
    sk_certificate *made = &s->certificate[s->n_certificates];
    for (size_t i = 0; i < s->n_cells; i++) {
        const sk_cell_run *other = &s->cell[i];
        if (other->cell->prefix_tokens != c->cell->prefix_tokens) {
            continue;
        }
        if (sk_correctness_recall(s->o->in, c->cell, other->folder, &made->c)) {
            made->prefix = c->cell->prefix_tokens;
            snprintf(made->folder, sizeof made->folder, "%s", other->folder);
            s->n_certificates++;
            return made;
        }
        sk_correctness_free(&made->c);
    }
    return NULL;
}

/* Milliseconds until the cell's time is over, at least one. */
static int time_left(const sk_session *s, const sk_cell_run *c) {
    const uint64_t deadline = sk_session_deadline(s, c), now = sk_now_ns();
    const uint64_t left = deadline == 0 ? UINT64_MAX : deadline > now ? deadline - now : 0;
    return left / NS_PER_MS >= INT_MAX ? INT_MAX : (int)(left / NS_PER_MS) + 1;
}

static int make(sk_session *s, sk_cell_run *c, sk_certificate **out, sk_err *e) {
    sk_certificate *made = &s->certificate[s->n_certificates];
    const uint64_t start = sk_now_ns();
    sk_session_say(s, "%s: certifying with a prefix of %u tokens", c->cell->preset->key, sk_certify_prefix(c->cell));
    const int rc = sk_correctness_run(s->o->in, c->cell, c->folder, time_left(s, c), &made->c, e);
    c->spent_ns += sk_now_ns() - start;
    if (rc != SKIPPY_OK) {
        sk_correctness_free(&made->c);
        return rc;
    }
    made->prefix = c->cell->prefix_tokens;
    snprintf(made->folder, sizeof made->folder, "%s", c->folder);
    s->n_certificates++;
    *out = made;
    sk_session_say(s, "%s: correctness: %s after %.1f s: %s", c->cell->preset->key, made->c.status,
                   made->c.elapsed_ms / 1000.0, made->c.why);
    return SKIPPY_OK;
}

/* What the reader of a row must know about its certificate. */
static void take_notes(sk_cell_run *c, const sk_correctness *done) {
    const uint32_t certified = sk_certify_prefix(c->cell);
    if (certified != c->cell->prefix_tokens) {
        sk_session_note(c, "correctness was certified with a prefix of %u tokens, the %s that certify takes", certified,
                        certified > c->cell->prefix_tokens ? "fewest" : "most");
    }
    if (done->report && done->payload[0] == '\0') {
        sk_session_note(c, "the certificate has no numbers of the payload %s", c->cell->preset->payload);
    }
    if (c->cell->kind == SK_CELL_PACKAGE && !done->producer) {
        sk_session_note(c,
                        "the stage was fed with synthetic hidden states: the package's folder lacks layers before it");
    }
}

static void take_status(sk_cell_run *c, const sk_correctness *done) {
    const bool passed = strcmp(done->status, "pass") == 0;
    sk_cell_status_worsen(&c->skippy, "", done->status, passed ? "" : done->why);
    if (!passed) {
        sk_cell_status_worsen(&c->llama, "", "skipped", "correctness did not pass, so nothing was compared");
    }
}

int sk_session_certify(sk_session *s, sk_cell_run *c, sk_err *e) {
    int rc = sk_session_stopped(s, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    if (!c->cell->tasks.correctness) {
        sk_cell_status_worsen(&c->skippy, "", "not-run", "the request does not ask for correctness");
        sk_cell_status_worsen(&c->llama, "", "skipped", "without correctness nothing is compared");
        return SKIPPY_OK;
    }
    sk_certificate *found = find(s, c->cell->prefix_tokens);
    if (!found) {
        found = recall(s, c);
    }
    if (!found) {
        rc = make(s, c, &found, e);
    } else if (strcmp(found->folder, c->folder) != 0) {
        rc = sk_correctness_share(s->o->in, c->cell, &found->c, found->folder, c->folder, e);
    }
    if (rc == SKIPPY_OK) {
        c->certificate = found;
        take_status(c, &found->c);
        take_notes(c, &found->c);
        rc = sk_session_stopped(s, e);
    }
    return rc;
}
