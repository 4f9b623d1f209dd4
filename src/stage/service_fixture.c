#include "stage/service_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/test_folder.h"
#include "runtime/slice.h"
#include "runtime/test_models.h"

static char folder[256];
static unsigned chains; /* a test that failed leaves its stages behind: each chain has addresses of its own */

int sv_setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/skippy-stage-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

int sv_teardown(void **state) {
    (void)state;
    return test_remove_tree(folder);
}

const char *sv_dir(void) {
    return folder;
}

/* ---- models ---- */

static sk_model *load(const char *path) {
    const sk_model_params p = {.path = path};
    sk_model *m = NULL;
    sk_err e = {0};
    if (sk_model_load(&p, &m, &e)) fail_msg("%s: %s", path, e.text);
    return m;
}

static sk_model *cut_stage(sk_tensor_source *source, const char *family, int32_t start, int32_t end) {
    char path[512];
    sk_err e = {0};
    snprintf(path, sizeof path, "%s/%s-%d-%d.gguf", folder, family, start, end);
    if (sk_slice_write(source, (sk_layer_range){start, end}, path, NULL, NULL, &e)) fail_msg("%s: %s", path, e.text);
    return load(path);
}

bool sv_cut(sv_parts *p, const char *family, uint32_t n_stages) {
    const char *path = test_model_path(family);
    if (!path) return false;
    chains++;
    *p = (sv_parts){.n_stages = n_stages, .whole = load(path)};
    sk_tensor_source source = {0};
    sk_err e = {0};
    if (sk_tensor_source_open_gguf(path, NULL, NULL, NULL, &source, &e)) fail_msg("%s: %s", path, e.text);
    const int32_t n_layer = sk_slice_layers(&source);
    for (uint32_t i = 0; i <= n_stages; i++) p->cuts[i] = n_layer * (int32_t)i / (int32_t)n_stages;
    for (uint32_t i = 0; i < n_stages; i++) p->stage[i] = cut_stage(&source, family, p->cuts[i], p->cuts[i + 1]);
    sk_tensor_source_close(&source);
    p->n_vocab = (uint32_t)sk_model_get_info(p->whole)->n_vocab;
    p->width = (uint32_t)sk_model_get_info(p->whole)->n_embd;
    return true;
}

void sv_parts_free(sv_parts *p) {
    sk_model_free(p->whole);
    for (uint32_t i = 0; i < p->n_stages; i++) sk_model_free(p->stage[i]);
}

/* ---- services ---- */

sk_stage_params sv_params(uint32_t i) {
    static char address[SV_STAGES_MAX][300];
    snprintf(address[i], sizeof address[i], "unix:%s/%u-%u.sock", folder, chains, i);
    return (sk_stage_params){.setup = {.n_ctx = SV_CTX,
                                       .n_lanes = SV_LANES,
                                       .n_batch = SV_BATCH,
                                       .n_ubatch = SV_BATCH,
                                       .n_threads = 1,
                                       .n_threads_batch = 1,
                                       .flash_attn = 1,
                                       .cache_seqs = 8},
                             .activation_bytes = 1 << 20,
                             .listen = address[i],
                             .connect_ms = 2000};
}

static void *service_main(void *arg) {
    sv_service *s = arg;
    s->rc = sk_stage_run(s->stage, &s->err);
    return NULL;
}

void sv_open_stage(sv_service *s, const sk_model *m, const sk_stage_params *p) {
    *s = (sv_service){0};
    if (sk_stage_open(m, p, &s->stage, &s->err)) fail_msg("%s", s->err.text);
}

void sv_run_stage(sv_service *s) {
    assert_int_equal(pthread_create(&s->thread, NULL, service_main, s), 0);
}

void sv_start(sv_service *s, const sk_model *m, const sk_stage_params *p) {
    sv_open_stage(s, m, p);
    sv_run_stage(s);
}

void sv_stop(sv_service *s) {
    sk_stage_stop(s->stage);
    pthread_join(s->thread, NULL);
    if (s->rc) fail_msg("%s", s->err.text);
    sk_stage_close(s->stage);
}

void sv_pause(void) {
    const struct timespec t = {.tv_nsec = 5000000};
    nanosleep(&t, NULL);
}

void sv_wait_stats(sv_service *s, bool (*holds)(const sk_stage_stats *), sk_stage_stats *out) {
    for (int i = 0; i < SV_MS / 5; i++) {
        sk_stage_get_stats(s->stage, out);
        if (holds(out)) return;
        sv_pause();
    }
    fail_msg("the statistics never became what they should");
}

/* ---- the head: link ---- */

static sk_context *new_context(const sk_model *m) {
    const sk_context_params p = {.n_ctx = SV_CTX,
                                 .n_batch = SV_BATCH,
                                 .n_ubatch = SV_BATCH,
                                 .n_seq_max = SV_LANES,
                                 .n_outputs = SV_LANES,
                                 .n_threads = 1,
                                 .n_threads_batch = 1,
                                 .flash_attn = 1};
    sk_context *c = NULL;
    sk_err e = {0};
    if (sk_context_create(m, &p, &c, &e)) fail_msg("%s", e.text);
    return c;
}

void sv_head_open(sv_head *h, const sv_parts *p) {
    *h = (sv_head){.parts = p, .ctx = new_context(p->stage[0]), .record_to = SV_CTX};
    h->hidden = calloc((size_t)SV_CTX * p->width, sizeof *h->hidden);
    assert_non_null(h->hidden);
}

static void drop_frame(sv_head *h) {
    sk_frame_free(&h->frame);
    free(h->bytes);
    h->frame = (sk_frame){0};
    h->bytes = NULL;
}

void sv_disconnect(sv_head *h) {
    drop_frame(h);
    sk_link_close(h->link, 1000);
    h->link = NULL;
}

void sv_head_close(sv_head *h) {
    sv_disconnect(h);
    sk_context_free(h->ctx);
    free(h->hidden);
}

sk_frame_hello sv_hello(const sv_head *h) {
    const sv_parts *p = h->parts;
    const sk_stage_facts *facts = &sk_model_get_info(p->stage[0])->stage;
    sk_frame_hello q = {.protocol = SK_STAGE_PROTOCOL, .index = 1, .n_stages = p->n_stages};
    q.head = (sk_stage_card){.life = 1,
                             .layer_end = p->cuts[1],
                             .n_layer = facts->n_layer,
                             .width = p->width,
                             .n_ctx = SV_CTX,
                             .n_lanes = SV_LANES,
                             .n_batch = SV_BATCH,
                             .dtype = h->dtype};
    sk_runtime_abi(q.head.abi, sizeof q.head.abi);
    snprintf(q.head.source, sizeof q.head.source, "%s", facts->source);
    memcpy(q.cuts, p->cuts + 1, p->n_stages * sizeof *q.cuts);
    for (uint32_t i = 2; i < p->n_stages; i++)
        snprintf(q.route[q.n_route++], sizeof q.route[0], "%s", sv_params(i).listen);
    const sk_context_info *ci = sk_context_get_info(h->ctx);
    const sk_chain_facts f = {.source = facts->source,
                              .cuts = p->cuts,
                              .n_stages = p->n_stages,
                              .width = p->width,
                              .n_ctx = SV_CTX,
                              .dtype = h->dtype,
                              .abi = q.head.abi,
                              .type_k = ci->type_k,
                              .type_v = ci->type_v,
                              .flash_attn = ci->flash_attn};
    assert_int_equal(sk_chain_key(&f, &q.chain), SKIPPY_OK);
    return q;
}

void sv_send(sv_head *h, const sk_frame *f) {
    sk_buf b = {0};
    sk_err e = {0};
    assert_true(sk_frame_encode(f, &b));
    const bool chunk = f->kind == SK_FRAME_CHUNK;
    if (sk_link_send(h->link, &b, chunk, sk_now_ns() + (uint64_t)SV_MS * 1000000, &e)) print_message("%s\n", e.text);
    sk_buf_free(&b);
}

/* False: the link is down, or nothing came in time. */
static bool receive(sv_head *h, uint32_t ms) {
    size_t len = 0;
    sk_err e = {0};
    drop_frame(h);
    if (sk_link_receive(h->link, ms, &h->bytes, &len, &e)) return false;
    if (sk_frame_decode(h->bytes, len, &h->frame, &e)) fail_msg("%s", e.text);
    if (h->frame.kind == SK_FRAME_CREDIT) {
        h->credits += (uint32_t)h->frame.u.count.n;
        sk_link_add_credits(h->link, (uint32_t)h->frame.u.count.n);
    }
    return true;
}

const sk_frame *sv_next(sv_head *h) {
    while (receive(h, SV_MS))
        if (h->frame.kind != SK_FRAME_CREDIT) return &h->frame;
    return NULL;
}

const sk_frame *sv_expect(sv_head *h, uint16_t kind) {
    const sk_frame *f = sv_next(h);
    if (!f) {
        char reason[256];
        fail_msg("no %s came; the link: %s", sk_frame_name(kind), sk_link_reason(h->link, reason, sizeof reason));
    } else if (f->kind != kind) {
        bool has_text = f->kind == SK_FRAME_FAULT || f->kind == SK_FRAME_REFUSE;
        fail_msg("%s came instead of %s: %s", sk_frame_name(f->kind), sk_frame_name(kind),
                 has_text ? f->u.text.text : "");
    }
    return f;
}

bool sv_wait_credits(sv_head *h, uint32_t n, uint32_t ms) {
    while (h->credits < n)
        if (!receive(h, ms)) return false;
    return true;
}

void sv_connect(sv_head *h, const sk_frame_hello *hello) {
    const sk_link_options o = {0};
    sk_err e = {0};
    if (sk_link_connect(sv_params(1).listen, &o, SV_MS, &h->link, &e)) fail_msg("%s", e.text);
    sk_link_set_limit(h->link, 1 << 26);
    const sk_frame f = {.kind = SK_FRAME_HELLO, .u.hello = hello ? *hello : sv_hello(h)};
    h->credits = 0;
    sv_send(h, &f);
    assert_non_null(sv_next(h));
}

void sv_welcome(sv_head *h) {
    sv_connect(h, NULL);
    if (h->frame.kind != SK_FRAME_WELCOME) fail_msg("%s", h->frame.u.text.text);
    h->welcome = h->frame.u.welcome;
    sk_link_add_credits(h->link, h->welcome.credits);
}

/* ---- the head: sessions ---- */

static uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static int32_t best_token(const float *row, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (row[i] > row[best]) best = i;
    return (int32_t)best;
}

/* Rows of the call that begins at pos: the prompt goes in whole batches, the rest row by row. */
static uint32_t call_rows(const sv_talk *t, uint32_t pos) {
    if (pos >= t->n_prompt) return 1;
    return t->n_prompt - pos < SV_BATCH ? t->n_prompt - pos : SV_BATCH;
}

void sv_talk_open(sv_talk *t, const sv_parts *p, uint32_t seed) {
    *t = (sv_talk){.n_prompt = SV_PROMPT};
    for (uint32_t i = 0; i < SV_PROMPT; i++) t->tokens[i] = (int32_t)(100 + next_random(&seed) % 900);
    t->want = calloc((size_t)SV_ROWS * p->n_vocab, sizeof *t->want);
    assert_non_null(t->want);
    sk_context *c = new_context(p->whole);
    for (uint32_t pos = 0, row = 0; row < SV_ROWS;) {
        sk_row rows[SV_BATCH];
        const uint32_t n = call_rows(t, pos);
        for (uint32_t i = 0; i < n; i++)
            rows[i] = (sk_row){.token = t->tokens[pos + i], .output = pos + i + 1 >= t->n_prompt};
        uint32_t bad;
        sk_err e = {0};
        if (sk_context_decode(c, rows, n, &bad, &e)) fail_msg("%s", e.text);
        pos += n;
        if (pos < t->n_prompt) continue;
        const float *logits = sk_context_logits(c, n - 1);
        memcpy(t->want + (size_t)row++ * p->n_vocab, logits, p->n_vocab * sizeof *logits);
        t->tokens[pos] = best_token(logits, p->n_vocab);
    }
    sk_context_free(c);
}

void sv_talk_close(sv_talk *t) {
    free(t->want);
}

uint64_t sv_open(sv_head *h, uint32_t lane, const sv_talk *t, const sv_open_options *o) {
    const sk_frame f = {.kind = SK_FRAME_OPEN,
                        .flags = o && o->no_cache ? SK_FLAG_NO_CACHE : 0,
                        .lane = lane,
                        .session = ++h->last_session,
                        .u.open = {.tenant = o ? o->tenant : NULL,
                                   .cache_namespace = o ? o->cache_namespace : NULL,
                                   .tokens = t->tokens,
                                   .n_tokens = t->n_prompt}};
    sv_send(h, &f);
    return h->last_session;
}

const sk_frame_probed *sv_probe(sv_head *h, uint32_t lane, uint64_t session) {
    const sk_frame f = {.kind = SK_FRAME_PROBE, .lane = lane, .session = session};
    sv_send(h, &f);
    const sk_frame *answer = sv_expect(h, SK_FRAME_PROBED);
    assert_int_equal(answer->session, session);
    assert_int_equal(answer->u.probed.n_offers, h->parts->n_stages - 1);
    return &answer->u.probed;
}

const sk_frame_restored *sv_restore(sv_head *h, uint32_t lane, uint64_t session, const uint32_t *lengths) {
    sk_frame f = {.kind = SK_FRAME_RESTORE, .lane = lane, .session = session};
    f.u.restore.n_lengths = h->parts->n_stages - 1;
    memcpy(f.u.restore.length, lengths, f.u.restore.n_lengths * sizeof *lengths);
    sv_send(h, &f);
    const sk_frame *answer = sv_expect(h, SK_FRAME_RESTORED);
    assert_int_equal(answer->session, session);
    assert_int_equal(answer->u.restored.n_sources, h->parts->n_stages - 1);
    return &answer->u.restored;
}

void sv_restore_all(sv_head *h, uint32_t lane, uint64_t session, uint32_t length, enum sk_stage_source source) {
    uint32_t lengths[SV_STAGES_MAX];
    for (uint32_t i = 0; i < SV_STAGES_MAX; i++) lengths[i] = length;
    const sk_frame_restored *r = sv_restore(h, lane, session, lengths);
    if (r->status) fail_msg("%s", r->text);
    for (uint32_t i = 0; i < r->n_sources; i++) assert_int_equal(r->source[i], source);
}

void sv_feed(sv_head *h, uint32_t lane, const sv_talk *t, uint32_t to) {
    sk_context_clear(h->ctx); /* so that rows lie where they lay in the whole model */
    for (uint32_t pos = 0, n; pos < to; pos += n) {
        sk_row rows[SV_BATCH];
        n = call_rows(t, pos);
        for (uint32_t i = 0; i < n; i++) rows[i] = (sk_row){.token = t->tokens[pos + i], .seq = lane};
        uint32_t bad;
        sk_err e = {0};
        if (sk_context_decode_stage(h->ctx, rows, n, NULL, h->hidden + (size_t)pos * h->parts->width, &bad, &e))
            fail_msg("%s", e.text);
    }
}

sk_span sv_span(uint32_t lane, uint64_t session, const sv_talk *t, uint32_t pos, uint32_t n, uint8_t flags) {
    sk_span p = {.lane = lane, .session = session, .pos = pos, .n = n, .flags = flags, .tokens = t->tokens + pos};
    sk_hash(t->tokens, pos * sizeof *t->tokens, p.before.bytes);
    sk_hash(t->tokens, (pos + n) * sizeof *t->tokens, p.after.bytes);
    return p;
}

void sv_chunk(sv_head *h, const sk_span *spans, uint32_t n, const float *hidden) {
    sk_frame f = {.kind = SK_FRAME_CHUNK};
    sk_frame_chunk *c = &f.u.chunk;
    c->width = h->parts->width;
    c->dtype = h->dtype;
    for (uint32_t i = 0; i < n; i++) {
        c->spans[c->n_spans++] = spans[i];
        c->n_rows += spans[i].n;
    }
    const size_t values = (size_t)c->n_rows * c->width;
    uint16_t *half = calloc(values, sizeof *half);
    assert_non_null(half);
    c->hidden = hidden;
    c->hidden_bytes = values * sizeof *hidden;
    if (h->dtype) {
        sk_stage_to_f16(hidden, half, values);
        c->hidden = half;
        c->hidden_bytes = values * sizeof *half;
    }
    /* without a credit: those that come by are taken first */
    while (sk_link_credits(h->link) == 0)
        if (!sv_wait_credits(h, h->credits + 1, SV_MS)) fail_msg("no credit for a chunk");
    sv_send(h, &f);
    free(half);
}

void sv_count(sv_head *h, uint16_t kind, uint32_t lane, uint64_t session, uint64_t n) {
    const sk_frame f = {.kind = kind, .lane = lane, .session = session, .u.count = {.n = n}};
    sv_send(h, &f);
}

void sv_stop_session(sv_head *h, uint32_t lane, uint64_t session, bool keep) {
    const sk_frame f = {.kind = SK_FRAME_STOP, .flags = keep ? SK_FLAG_KEEP : 0, .lane = lane, .session = session};
    sv_send(h, &f);
}

void sv_same_row(const sv_head *h, const sv_talk *t, uint32_t row, const float *logits, uint32_t n_logits) {
    assert_non_null(logits);
    assert_int_equal(n_logits, h->parts->n_vocab);
    const float *want = t->want + (size_t)row * n_logits;
    for (uint32_t i = 0; i < n_logits; i++) {
        uint32_t a, b; /* bits: 0 and -0 differ */
        memcpy(&a, &want[i], sizeof a);
        memcpy(&b, &logits[i], sizeof b);
        if (a != b)
            fail_msg("row %u, logit %u: %.9g, the whole model has %.9g", row, i, (double)logits[i], (double)want[i]);
    }
}

void sv_run(sv_head *h, uint32_t lane, uint64_t session, const sv_talk *t, uint32_t from) {
    sv_feed(h, lane, t, t->n_prompt + SV_STEPS);
    uint32_t row = from < t->n_prompt ? 0 : from + 1 - t->n_prompt;
    for (uint32_t pos = from, n; pos < t->n_prompt + SV_STEPS; pos += n) {
        n = call_rows(t, pos);
        const bool ends = pos + n >= t->n_prompt;
        uint8_t flags = pos < t->n_prompt ? SK_SPAN_PROMPT : 0;
        if (ends) flags |= SK_SPAN_OUTPUT;
        if (pos + n == t->n_prompt) flags |= SK_SPAN_TERMINAL;
        const sk_span p = sv_span(lane, session, t, pos, n, flags);
        sv_chunk(h, &p, 1, h->hidden + (size_t)pos * h->parts->width);
        if (pos + n <= t->n_prompt && pos + n <= h->record_to) sv_count(h, SK_FRAME_RECORD, lane, session, pos + n);
        if (!ends) continue;
        const sk_frame *f = sv_expect(h, SK_FRAME_RESULT);
        assert_int_equal(f->session, session);
        assert_int_equal(f->u.result.pos, pos + n);
        assert_true(f->u.result.compute_ns > 0);
        sv_same_row(h, t, row++, f->u.result.logits, f->u.result.n_logits);
    }
}

void sv_fill(sv_head *h, uint32_t lane, uint64_t session, const sv_talk *t, bool record) {
    sv_feed(h, lane, t, SV_BATCH);
    const sk_span p = sv_span(lane, session, t, 0, SV_BATCH, SK_SPAN_PROMPT);
    sv_chunk(h, &p, 1, h->hidden);
    if (record) sv_count(h, SK_FRAME_RECORD, lane, session, SV_BATCH);
}

void sv_expect_fault(sv_head *h, uint64_t session, int status, const char *a, const char *b) {
    const sk_frame *f = sv_expect(h, SK_FRAME_FAULT);
    assert_int_equal(f->session, session);
    assert_int_equal(f->u.text.status, status);
    if (!strstr(f->u.text.text, a) || !strstr(f->u.text.text, b))
        fail_msg("'%s' does not say '%s' and '%s'", f->u.text.text, a, b);
}
