#include "correctness/certify.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "correctness/prompt.h"

enum {
    DEFAULT_REPEATS = 3,
    DEFAULT_TIMEOUT_MS = 600 * 1000,
    LEAST_PREFIX = 32,
    LARGEST_PREFIX = 8192,
    LEAST_CTX = 512,
    ALIGNMENT = 8 /* the largest row class: aligned models begin their suffixes at its multiples */
};

/* Two whole runs with their generated tokens lie in the pool at once, rows that pad batches, and the snapshot, which
 * has cells of its own where there is a window. */
static uint32_t cells_for(uint32_t prefix) {
    uint32_t n = 2 * (prefix + SK_TRIAL_GREEDY + SK_TRIAL_SUFFIX + ALIGNMENT) + prefix;
    n = (n + 255) / 256 * 256;
    return n > LEAST_CTX ? n : LEAST_CTX;
}

typedef struct run {
    const sk_certify_options *o;
    sk_certify_report *report;
    sk_model *model;
    sk_rig rig;
    sk_rig_params rig_params;
    uint32_t prefix[SK_CERTIFY_MAX_LENGTHS];
    size_t n_prefix;
    int32_t *tokens;        /* of a whole model; a stage's are in its script */
    sk_stage_script script; /* of a stage */
    skippy_key ns;
    char type_k[16], type_v[16];
} run;

static int tell(const run *c, const char *what, sk_err *e) {
    if (!c->o->progress || c->o->progress(c->o->progress_ud, what)) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_CANCELLED, "stopped");
}

static double ms_since(uint64_t start_ns) {
    return (double)(sk_now_ns() - start_ns) / 1e6;
}

/* ---- lengths ---- */

static int add_length(run *c, uint32_t n, uint32_t most, bool chosen, sk_err *e) {
    if (n < LEAST_PREFIX || n > LARGEST_PREFIX)
        return sk_err_set(e, SKIPPY_E_INVALID, "a prefix of %u tokens; choose %d to %d", n, LEAST_PREFIX,
                          LARGEST_PREFIX);
    if (cells_for(n) > most) {
        if (!chosen) return SKIPPY_OK; /* a default that this model has no room for */
        return sk_err_set(e, SKIPPY_E_INVALID, "a prefix of %u tokens needs a context of %u, and the model's has %u", n,
                          cells_for(n), most);
    }
    c->prefix[c->n_prefix++] = n - n % ALIGNMENT;
    return SKIPPY_OK;
}

static int choose_lengths(run *c, sk_err *e) {
    static const uint32_t defaults[] = {128, 304};
    const sk_certify_options *o = c->o;
    int32_t trained = sk_model_get_info(c->model)->n_ctx_train;
    uint32_t most = trained > 0 ? (uint32_t)trained : UINT32_MAX;
    bool chosen = o->n_prefix > 0;
    size_t n = chosen ? o->n_prefix : sizeof defaults / sizeof *defaults;
    if (n > SK_CERTIFY_MAX_LENGTHS)
        return sk_err_set(e, SKIPPY_E_INVALID, "%zu prefix lengths; at most %d", n, SK_CERTIFY_MAX_LENGTHS);
    for (size_t i = 0; i < n; i++) {
        int rc = add_length(c, chosen ? o->prefix[i] : defaults[i], most, chosen, e);
        if (rc) return rc;
    }
    if (c->n_prefix == 0)
        return sk_err_set(e, SKIPPY_E_INVALID, "the model's context of %u tokens is too small to certify in", most);
    return SKIPPY_OK;
}

static uint32_t longest(const run *c) {
    uint32_t n = 0;
    for (size_t i = 0; i < c->n_prefix; i++)
        if (c->prefix[i] > n) n = c->prefix[i];
    return n;
}

/* ---- preparation ---- */

static int load_model(run *c, sk_err *e) {
    const sk_model_params mp = {.path = c->o->model_path, .n_gpu_layers = c->o->n_gpu_layers};
    uint64_t start = sk_now_ns();
    int rc = sk_model_load(&mp, &c->model, e);
    if (rc) return rc;
    c->report->load_ms = ms_since(start);
    const sk_family_facts *f = &sk_model_get_info(c->model)->facts;
    if (f->has_encoder || f->is_diffusion)
        return sk_err_set(e, SKIPPY_E_UNSUPPORTED, "%s models have no prefix state that could be certified",
                          f->is_diffusion ? "diffusion" : "encoder");
    return SKIPPY_OK;
}

static int32_t threads(const sk_certify_options *o) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return o->n_threads > 0 ? o->n_threads : cores > 0 ? (int32_t)cores : 1;
}

static int open_rig(run *c, sk_err *e) {
    const sk_certify_options *o = c->o;
    c->rig_params = (sk_rig_params){.n_ctx = cells_for(longest(c)),
                                    .n_threads = threads(o),
                                    .script = c->script.n ? &c->script : NULL,
                                    .flash_attn = o->flash_attn,
                                    .type_k = o->type_k,
                                    .type_v = o->type_v,
                                    .swa_full = o->swa_full};
    int rc = sk_rig_open(c->model, &c->rig_params, NULL, &c->rig, e);
    if (rc) return rc;
    const sk_rig *r = &c->rig;
    c->rig_params.flash_attn = sk_context_get_info(r->ctx)->flash_attn; /* fresh ones must resolve "auto" alike */
    if (sk_rig_bit(r))
        snprintf(c->report->row_class, sizeof c->report->row_class,
                 "bits; batches of at most %u rows, in multiples of %u%s", r->rows.max_rows, r->rows.multiple,
                 r->rows.aligned ? ", prompts cut at absolute multiples" : "");
    else
        snprintf(c->report->row_class, sizeof c->report->row_class, "values; bits cannot be compared: %.200s",
                 r->why_not_bit);
    if (!r->movable)
        snprintf(c->report->layout, sizeof c->report->layout, "state cannot leave the context: %s", r->why_not_movable);
    else if (!r->caps.windows)
        snprintf(c->report->layout, sizeof c->report->layout, "whole exports only: %s", r->caps.why);
    else
        snprintf(c->report->layout, sizeof c->report->layout, "parts: %s%s%s", r->caps.has_kv ? "KV windows" : "",
                 r->caps.has_kv && r->caps.has_tail ? " and " : "", r->caps.has_tail ? "state at the boundary" : "");
    c->report->production =
        sk_proof_session_production_kind(r) == SKIPPY_PAYLOAD_KV_RECURRENT ? SK_MODE_KV_RECURRENT : SK_MODE_RESIDENT_KV;
    return SKIPPY_OK;
}

static int fill_identity(run *c, sk_err *e) {
    sk_certify_identity *id = &c->report->identity;
    const sk_model_info *mi = sk_model_get_info(c->model);
    const sk_context_info *ci = sk_context_get_info(c->rig.ctx);
    sk_family_facts facts = mi->facts;
    sk_family_policy policy;
    facts.swa_full = c->o->swa_full;
    sk_family_decide(&facts, &policy);
    snprintf(id->model_path, sizeof id->model_path, "%s", mi->path);
    snprintf(id->model_id, sizeof id->model_id, "%s", mi->id);
    snprintf(id->arch, sizeof id->arch, "%s", mi->arch);
    snprintf(id->family, sizeof id->family, "%s", c->o->family ? c->o->family : policy.family);
    snprintf(id->type_k, sizeof id->type_k, "%s", ci->type_k);
    snprintf(id->type_v, sizeof id->type_v, "%s", ci->type_v);
    sk_runtime_abi(id->abi, sizeof id->abi);
    sk_runtime_devices(id->device, sizeof id->device);
    id->n_layer = (uint32_t)mi->n_layer;
    id->n_swa = mi->n_swa;
    id->hybrid = mi->facts.is_hybrid;
    id->recurrent = mi->facts.is_recurrent;
    id->flash_attn = ci->flash_attn;
    id->swa_full = c->o->swa_full;
    id->n_ctx = ci->n_ctx;
    id->n_threads = c->rig_params.n_threads;
    id->stage = mi->stage;
    id->stage_index = c->o->stage_index > 0 || mi->stage.first ? c->o->stage_index : 1;
    id->alone = c->script.n > 0;
    id->synthetic = id->alone && !mi->stage.first && !c->o->producer;
    int rc = skippy_file_digest(mi->path, c->o->digest_dir, NULL, NULL, &id->weights, NULL);
    if (rc) return sk_err_set(e, rc, "the weights of '%s' could not be digested: %s", mi->path, skippy_strerror(rc));
    return SKIPPY_OK;
}

static int make_namespace(run *c, sk_err *e) {
    const sk_certify_identity *id = &c->report->identity;
    struct utsname machine;
    uname(&machine);
    const skippy_identity full = {.weights_digest = id->weights,
                                  .model_id = id->model_id,
                                  .topology_id = "1",
                                  .stage_id = "0",
                                  .stage_index = id->stage_index,
                                  .layer_start = (uint32_t)id->stage.layer_start,
                                  .layer_end = (uint32_t)id->stage.layer_start + id->n_layer,
                                  .runtime_abi = id->abi,
                                  .kv_type_k = id->type_k,
                                  .kv_type_v = id->type_v,
                                  .flash_attn = id->flash_attn,
                                  .kv_unified = true,
                                  .swa_full = id->swa_full,
                                  .kv_layout = "llama.cpp-unified-1",
                                  .n_ctx = id->n_ctx,
                                  .backend_device = id->device,
                                  .cpu_arch = machine.machine,
                                  .big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
                                  .cache_namespace = "certify"};
    int rc = skippy_namespace_key(&full, &c->ns);
    return rc ? sk_err_set(e, rc, "the identity could not be formed") : SKIPPY_OK;
}

/* The prefix, the token that follows it, and as many as are generated for a whole model. */
static int make_script(run *c, sk_err *e) {
    const sk_certify_options *o = c->o;
    const sk_stage_script_params p = {.producer = o->producer,
                                      .prompt = o->prompt,
                                      .n = longest(c) + 1 + SK_TRIAL_GREEDY,
                                      .n_threads = threads(o),
                                      .n_gpu_layers = o->n_gpu_layers,
                                      .flash_attn = o->flash_attn,
                                      .type_k = o->type_k,
                                      .type_v = o->type_v};
    int rc = tell(c, o->producer ? "running the layers before" : "making the inputs", e);
    return rc == SKIPPY_OK ? sk_stage_script_make(c->model, &p, &c->script, e) : rc;
}

static int make_tokens(run *c, sk_err *e) {
    size_t n = longest(c) + (size_t)SK_TRIAL_SUFFIX;
    if (sk_stage_needs_script(sk_model_get_info(c->model))) return make_script(c, e);
    if (c->o->producer)
        return sk_err_set(e, SKIPPY_E_INVALID, "'%.200s' is a whole model: there are no layers before it",
                          c->o->model_path);
    c->tokens = calloc(n, sizeof *c->tokens);
    if (!c->tokens) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for tokens");
    return sk_prompt_tokens(c->model, c->o->prompt, c->tokens, n, e);
}

/* ---- the run ---- */

static int run_length(run *c, uint32_t n_tokens, sk_length_result *out, sk_err *e) {
    const sk_certify_options *o = c->o;
    const sk_proof_session_params sp = {
        .ns = &c->ns, .tokens = c->script.n ? c->script.tokens : c->tokens, .n_prefix = n_tokens};
    const sk_handoff_params hp = {.model_path = o->model_path,
                                  .n_gpu_layers = o->n_gpu_layers,
                                  .rig = &c->rig_params,
                                  .worker_argv = o->worker_argv,
                                  .worker_timeout_ms =
                                      o->worker_timeout_ms > 0 ? o->worker_timeout_ms : DEFAULT_TIMEOUT_MS,
                                  .repeats = c->report->repeats,
                                  .fault = o->fault};
    sk_proof_session s;
    char what[96];
    snprintf(what, sizeof what, "%u tokens: recording", n_tokens);
    int rc = tell(c, what, e);
    if (rc == SKIPPY_OK) rc = sk_proof_session_open(&c->rig, &sp, &s, e);
    if (rc) return rc;
    out->n_tokens = n_tokens;
    out->criterion = s.criterion;
    out->cold = s.cold;
    out->times = s.times;
    out->predicted_token = s.recorded.greedy[0];
    for (int m = 0; rc == SKIPPY_OK && m < SK_MODES; m++) {
        snprintf(what, sizeof what, "%u tokens: %s", n_tokens, sk_mode_name((enum sk_mode)m));
        rc = tell(c, what, e);
        if (rc == SKIPPY_OK) rc = sk_handoff_run(&s, &hp, (enum sk_mode)m, &out->mode[m], e);
    }
    sk_proof_session_close(&s);
    return rc;
}

enum sk_outcome sk_certify_outcome(const sk_certify_report *r, enum sk_mode mode) {
    static const int weight[] = {
        [SK_OUTCOME_NOT_APPLICABLE] = 0, [SK_OUTCOME_REFUSED] = 1, [SK_OUTCOME_PASS] = 2, [SK_OUTCOME_FAIL] = 3};
    enum sk_outcome worst = SK_OUTCOME_NOT_APPLICABLE;
    for (size_t i = 0; i < r->n_lengths; i++)
        if (weight[r->length[i].mode[mode].outcome] > weight[worst]) worst = r->length[i].mode[mode].outcome;
    return worst;
}

const char *sk_certify_inputs(const sk_certify_identity *i, char *buf, size_t cap) {
    if (i->synthetic)
        snprintf(buf, cap, "synthetic hidden states");
    else if (i->alone && !i->stage.first)
        snprintf(buf, cap, "hidden states of layers 0 to %d", (int)i->stage.layer_start - 1);
    else
        snprintf(buf, cap, "tokens");
    return buf;
}

/* What a pass says; of a stage also what it does not say. */
static void praise(sk_certify_report *r) {
    const sk_certify_identity *i = &r->identity;
    char inputs[64];
    if (!i->alone) {
        snprintf(r->verdict, sizeof r->verdict, "snapshots and %s payloads continue exactly",
                 sk_mode_name(r->production));
        return;
    }
    snprintf(r->verdict, sizeof r->verdict,
             "layers %d to %d of %d: snapshots and %s payloads continue exactly, fed %s; what they compute was not "
             "compared with the whole model",
             (int)i->stage.layer_start, (int)i->stage.layer_end - 1, (int)i->stage.n_layer, sk_mode_name(r->production),
             sk_certify_inputs(i, inputs, sizeof inputs));
}

/* Passes when nothing failed and both ways of serving, snapshots and payloads, were seen to work. */
static void judge(sk_certify_report *r) {
    for (size_t i = 0; i < r->n_lengths; i++) {
        for (int m = 0; m < SK_MODES; m++) {
            const sk_mode_result *mode = &r->length[i].mode[m];
            if (mode->outcome != SK_OUTCOME_FAIL) continue;
            snprintf(r->verdict, sizeof r->verdict, "%s at %u tokens: %s", sk_mode_name(mode->mode),
                     r->length[i].n_tokens, mode->reason);
            return;
        }
    }
    if (sk_certify_outcome(r, r->production) != SK_OUTCOME_PASS) {
        snprintf(r->verdict, sizeof r->verdict, "the serving payload %s was not shown to work: %.300s",
                 sk_mode_name(r->production), r->length[0].mode[r->production].reason);
        return;
    }
    r->passed = true;
    praise(r);
}

static int prepare(run *c, sk_err *e) {
    int rc = load_model(c, e);
    if (rc == SKIPPY_OK) rc = choose_lengths(c, e);
    uint64_t start = sk_now_ns();
    if (rc == SKIPPY_OK) rc = make_tokens(c, e);
    c->report->tokenize_ms = ms_since(start);
    if (rc == SKIPPY_OK) rc = open_rig(c, e);
    if (rc == SKIPPY_OK) rc = fill_identity(c, e);
    if (rc == SKIPPY_OK) rc = make_namespace(c, e);
    return rc;
}

int sk_certify_run(const sk_certify_options *o, sk_certify_report *out, sk_err *e) {
    run c = {.o = o, .report = out};
    uint64_t start = sk_now_ns();
    *out = (sk_certify_report){.repeats = o->repeats ? o->repeats : DEFAULT_REPEATS, .date_s = sk_wall_s()};
    if (!o->model_path || !o->worker_argv)
        return sk_err_set(e, SKIPPY_E_INVALID, "a certification needs a model and a way to start a fresh process");
    if (out->repeats > SK_TRIAL_MAX_REPEATS)
        return sk_err_set(e, SKIPPY_E_INVALID, "%u repeated hits; at most %d", out->repeats, SK_TRIAL_MAX_REPEATS);
    int rc = tell(&c, "loading", e);
    if (rc == SKIPPY_OK) rc = prepare(&c, e);
    for (; rc == SKIPPY_OK && out->n_lengths < c.n_prefix; out->n_lengths++)
        rc = run_length(&c, c.prefix[out->n_lengths], &out->length[out->n_lengths], e);
    sk_rig_close(&c.rig);
    sk_model_free(c.model);
    sk_stage_script_free(&c.script);
    free(c.tokens);
    if (rc) {
        sk_certify_report_free(out);
        return rc;
    }
    out->total_ms = ms_since(start);
    judge(out);
    return SKIPPY_OK;
}

void sk_certify_report_free(sk_certify_report *r) {
    for (size_t i = 0; i < SK_CERTIFY_MAX_LENGTHS; i++)
        for (int m = 0; m < SK_MODES; m++) sk_mode_result_free(&r->length[i].mode[m]);
    *r = (sk_certify_report){0};
}
