#include "bench/family/prepare_observe.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

static uint64_t size_of(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

static int wrong_pin(const char *what, const char *path, const char *wanted, const char *found, sk_err *e) {
    return sk_err_set(e, SKIPPY_E_CORRUPT, "%s: the request pins SHA-256 %s, but it is %s: '%s'", what, wanted, found,
                      path);
}

/* wanted: the digest that the request pins, or "". */
static int pin_file(const char *what, const char *path, const char *wanted, sk_prepare_watch *w, sk_pinned_file *out,
                    sk_err *e) {
    const uint64_t bytes = size_of(path);
    const sk_sha256_watch hashing = sk_prepare_hashing(w, what, bytes);
    sk_pinned_file pin = {0};
    snprintf(pin.path, sizeof pin.path, "%s", path);
    const int rc = sk_sha256_file(path, &hashing, pin.sha256, &pin.bytes, e);
    if (rc != SKIPPY_OK) return sk_prepare_reason(w, rc, e);
    if (wanted[0] && strcmp(wanted, pin.sha256) != 0) return wrong_pin(what, path, wanted, pin.sha256, e);
    *out = pin;
    return SKIPPY_OK;
}

static int pin_program(const char *what, const char *path, const char *wanted, sk_prepare_watch *w, sk_pinned_file *out,
                       sk_err *e) {
    if (!path[0]) return SKIPPY_OK;
    const int rc = pin_file(what, path, wanted, w, out, e);
    if (rc != SKIPPY_OK || access(path, X_OK) == 0) return rc;
    return sk_err_set(e, SKIPPY_E_INVALID, "%s: '%.350s' is not executable", what, path);
}

static int pin_programs(const sk_operator *op, bool use_cases, sk_prepare_watch *w, sk_family_input *in, sk_err *e) {
    const sk_operator_plan *p = &op->plan;
    sk_prepare_say(w, "programs");
    int rc = pin_program("correctness", op->correctness, "", w, &in->correctness, e);
    if (rc == SKIPPY_OK) rc = pin_program("stage_server", op->stage_server, "", w, &in->stage_server, e);
    if (rc == SKIPPY_OK && !p->skip_llama_server)
        rc = pin_program("native_server", op->native_server, "", w, &in->native_server, e);
    if (rc == SKIPPY_OK) rc = pin_program("artifact_tool", op->artifact_tool, "", w, &in->artifact_tool, e);
    if (rc != SKIPPY_OK || use_cases) return rc; /* only full rows serve the old and the new server in pairs */
    rc = pin_program("plan.old_server", p->old_server.path, p->old_server.sha256, w, &in->old_server, e);
    return rc == SKIPPY_OK
               ? pin_program("plan.new_server", p->new_server.path, p->new_server.sha256, w, &in->new_server, e)
               : rc;
}

/* ---- folders ---- */

static int pin_tree(const char *name, const char *path, const char *wanted, sk_prepare_watch *w, sk_pinned_tree *out,
                    sk_err *e) {
    const sk_sha256_watch hashing = sk_prepare_hashing(w, name, 0);
    size_t files = 0;
    sk_pinned_tree pin = {0};
    sk_prepare_say(w, "folder %s: %s", name, path);
    snprintf(pin.name, sizeof pin.name, "%s", name);
    snprintf(pin.path, sizeof pin.path, "%s", path);
    const int rc = sk_sha256_tree(path, &hashing, pin.sha256, &files, e);
    if (rc != SKIPPY_OK) return sk_prepare_reason(w, rc, e);
    if (wanted[0] && strcmp(wanted, pin.sha256) != 0) return wrong_pin(name, path, wanted, pin.sha256, e);
    *out = pin;
    return SKIPPY_OK;
}

static int pin_folders(const sk_operator *op, sk_prepare_watch *w, sk_family_input *in, sk_err *e) {
    int rc = pin_tree("native_build", op->native_build, "", w, &in->native_build, e);
    for (size_t i = 0; i < op->n_toolkits && rc == SKIPPY_OK; i++) {
        const sk_pinned_tree *t = &op->toolkit[i];
        rc = pin_tree(t->name, t->path, t->sha256, w, &in->toolkit[i], e);
        if (rc == SKIPPY_OK) in->n_toolkits = i + 1;
    }
    return rc;
}

/* ---- corpora ---- */

/* The options' file takes the place of the plan's, and with it of the plan's digest. */
static int bind_corpus(const char *what, const char *path, sk_pinned_file *plan, sk_err *e) {
    char real[PATH_MAX];
    if (!path) return SKIPPY_OK;
    if (!realpath(path, real))
        return sk_err_set(e, errno == ENOENT ? SKIPPY_E_NOT_FOUND : SKIPPY_E_IO, "the %s '%.350s': %s", what, path,
                          strerror(errno));
    if (strlen(real) >= sizeof plan->path)
        return sk_err_set(e, SKIPPY_E_INVALID, "the path of the %s is too long: '%.350s'", what, real);
    *plan = (sk_pinned_file){0};
    memcpy(plan->path, real, strlen(real) + 1);
    return SKIPPY_OK;
}

/* The pin and the reading are two looks at one file. */
static int check_same(const char *what, const sk_pinned_file *pin, const char *read, sk_err *e) {
    if (strcmp(pin->sha256, read) == 0) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_CORRUPT, "the %s '%.300s' was changed while it was read", what, pin->path);
}

static int observe_corpus(const sk_operator_plan *p, sk_prepare_watch *w, sk_family_input *in, sk_corpus *corpus,
                          sk_err *e) {
    if (!p->corpus.path[0])
        return sk_err_set(e, SKIPPY_E_INVALID, "use cases need a corpus: name one in plan.corpus, or bind one");
    sk_prepare_say(w, "use cases: %s", p->corpus.path);
    int rc = pin_file("plan.corpus", p->corpus.path, p->corpus.sha256, w, &in->corpus, e);
    if (rc == SKIPPY_OK) rc = sk_corpus_load(p->corpus.path, corpus, e);
    return rc == SKIPPY_OK ? check_same("corpus", &in->corpus, corpus->sha256, e) : rc;
}

static int observe_conversations(const sk_operator_plan *p, sk_prepare_watch *w, sk_family_input *in, sk_err *e) {
    sk_replay_corpus replay = {0};
    if (!p->agent_corpus.path[0]) return SKIPPY_OK;
    sk_prepare_say(w, "conversations: %s", p->agent_corpus.path);
    int rc = pin_file("plan.agent_corpus", p->agent_corpus.path, p->agent_corpus.sha256, w, &in->agent_corpus, e);
    if (rc == SKIPPY_OK) rc = sk_replay_load(p->agent_corpus.path, &replay, e);
    if (rc == SKIPPY_OK) {
        rc = check_same("agent corpus", &in->agent_corpus, replay.sha256, e);
        sk_replay_free(&replay);
    }
    return rc;
}

static int observe_corpora(const sk_prepare_options *o, sk_operator_plan *p, sk_prepare_watch *w, sk_family_input *in,
                           sk_corpus *corpus, sk_err *e) {
    int rc = bind_corpus("corpus", o->corpus, &p->corpus, e);
    if (rc == SKIPPY_OK) rc = bind_corpus("agent corpus", o->agent_corpus, &p->agent_corpus, e);
    if (rc != SKIPPY_OK) return rc;
    return o->use_cases ? observe_corpus(p, w, in, corpus, e) : observe_conversations(p, w, in, e);
}

int sk_prepare_choose(const sk_operator_plan *plan, const sk_corpus *corpus, const sk_use_case **chosen, size_t *n,
                      sk_err *e) {
    const bool all = plan->n_use_cases == 0 || strcmp(plan->use_cases[0], "all") == 0;
    *n = all ? corpus->n : plan->n_use_cases;
    if (*n > corpus->n)
        return sk_err_set(e, SKIPPY_E_INVALID, "plan.use_cases has %zu use cases, the corpus only %zu", *n, corpus->n);
    for (size_t i = 0; i < *n; i++) {
        chosen[i] = all ? &corpus->v[i] : sk_corpus_find(corpus, plan->use_cases[i]);
        if (!chosen[i])
            return sk_err_set(e, SKIPPY_E_INVALID, "plan.use_cases[%zu]: the corpus has no use case '%s'", i,
                              plan->use_cases[i]);
    }
    return SKIPPY_OK;
}

/* ---- models ---- */

void sk_prepare_model_digest(const sk_found_model *m, char hex[SK_SHA256_HEX]) {
    char lines[SK_PRESET_MAX_SHARDS * (SK_SHA256_HEX + 1)] = "";
    size_t used = 0;
    for (size_t i = 0; i < m->n_files; i++)
        used += (size_t)snprintf(lines + used, sizeof lines - used, "%s\n", m->file[i].sha256);
    if (m->n_files == 1) {
        memcpy(hex, m->file[0].sha256, SK_SHA256_HEX);
    } else {
        sk_sha256_text(lines, used, hex);
    }
}

static int digest_model(const sk_preset *preset, const char *wanted, sk_prepare_watch *w, sk_found_model *m,
                        sk_err *e) {
    uint64_t total = 0;
    char found[SK_SHA256_HEX];
    for (size_t i = 0; i < m->n_files; i++) total += m->file[i].bytes;
    const sk_sha256_watch hashing = sk_prepare_hashing(w, preset->key, total);
    sk_prepare_say(w, "%s: %s, %.1f MiB", preset->key, m->runtime_entry, (double)total / (1 << 20));
    const int rc = sk_found_digest(m, &hashing, e);
    if (rc != SKIPPY_OK) return sk_prepare_reason(w, rc, e);
    sk_prepare_model_digest(m, found);
    if (!wanted[0] || strcmp(wanted, found) == 0) return SKIPPY_OK;
    return wrong_pin(preset->key, m->file[0].path, wanted, found, e);
}

int sk_prepare_check_tool(const sk_operator *op, const sk_preset *preset, const sk_found_model *m, sk_err *e) {
    const bool package = preset->artifact == SK_ARTIFACT_PACKAGE;
    if ((!package && m->n_files == 1) || op->artifact_tool[0]) return SKIPPY_OK;
    return sk_err_set(e, SKIPPY_E_INVALID,
                      "artifact_tool is missing: '%.300s' of %s is %s; name the tool, or leave the case out",
                      m->runtime_entry, preset->key, package ? "a layer package" : "a split model");
}

static int observe_model(const sk_operator *op, const sk_preset *preset, sk_prepare_watch *w, sk_input_model *out,
                         sk_err *e) {
    out->preset = preset;
    int rc = sk_locate_model(op->plan.cache_root, preset, &out->found, e);
    sk_text_clean(out->found.why);
    if (rc == SKIPPY_OK && out->found.status != SK_FOUND_PRESENT) {
        out->found.n_files = 0; /* what is not used is not pinned */
        sk_prepare_say(w, "%s: %s: %s", preset->key, sk_found_status_name(out->found.status), out->found.why);
        return SKIPPY_OK;
    }
    if (rc == SKIPPY_OK) rc = sk_prepare_check_tool(op, preset, &out->found, e);
    if (rc != SKIPPY_OK) return rc;
    return digest_model(preset, op->plan.model_sha256[sk_preset_rank(preset->key)], w, &out->found, e);
}

static int observe_models(const sk_operator *op, bool use_cases, sk_prepare_watch *w, sk_family_input *in, sk_err *e) {
    int rc = SKIPPY_OK;
    for (size_t i = 0; i < op->plan.n_cases && rc == SKIPPY_OK; i++) {
        const sk_preset *preset = op->plan.cases[i];
        if (use_cases && preset->artifact == SK_ARTIFACT_PACKAGE) continue;
        rc = sk_prepare_may_go_on(w, e);
        if (rc == SKIPPY_OK) rc = observe_model(op, preset, w, &in->models[in->n_models], e);
        if (rc == SKIPPY_OK) in->n_models++;
    }
    return rc;
}

/* ---- all of it ---- */

static void take_request(const sk_operator *op, bool use_cases, sk_family_input *in) {
    snprintf(in->kind, sizeof in->kind, "%s", use_cases ? "use-cases" : "full");
    memcpy(in->operator_sha256, op->sha256, sizeof in->operator_sha256);
    sk_catalog_digest(in->catalog_sha256);
    memcpy(in->old_commit, op->old_commit, sizeof in->old_commit);
    memcpy(in->new_commit, op->new_commit, sizeof in->new_commit);
    memcpy(in->native_commit, op->native_commit, sizeof in->native_commit);
    in->execution_seconds = op->execution_seconds;
    in->cell_seconds = op->cell_seconds;
    in->borrow_resident_hits = op->borrow_resident_hits;
    in->cache_decoded_result_hits = op->cache_decoded_result_hits;
    in->sizes = op->plan.sizes;
    if (in->sizes.prefix_tokens == 0) in->sizes.prefix_tokens = 128; /* each cell says its own; this one is nobody's */
}

static int copy_environment(const sk_operator *op, sk_family_input *in, sk_err *e) {
    for (size_t i = 0; i < op->n_env; i++) {
        in->env[i] = strdup(op->env[i]);
        if (!in->env[i]) return sk_err_set(e, SKIPPY_E_NOMEM, "no memory for the environment");
        in->n_env = i + 1;
    }
    return SKIPPY_OK;
}

int sk_prepare_observe(const sk_prepare_options *o, sk_operator *op, sk_prepare_watch *w, sk_family_input *in,
                       sk_corpus *corpus, sk_err *e) {
    take_request(op, o->use_cases, in);
    int rc = copy_environment(op, in, e);
    if (rc == SKIPPY_OK) rc = sk_prepare_may_go_on(w, e);
    if (rc == SKIPPY_OK) rc = pin_programs(op, o->use_cases, w, in, e);
    if (rc == SKIPPY_OK) rc = pin_folders(op, w, in, e);
    if (rc == SKIPPY_OK) rc = observe_corpora(o, &op->plan, w, in, corpus, e);
    return rc == SKIPPY_OK ? observe_models(op, o->use_cases, w, in, e) : rc;
}
