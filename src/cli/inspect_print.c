#include "cli/inspect_print.h"

#include <inttypes.h>

#include "cli/inspect_names.h"

double inspect_dedupe_ratio(const inspect_store *s) {
    return s->block_bytes ? (double)s->stats.logical_bytes / (double)s->block_bytes : 1.0;
}

/* ---- for people ---- */

static void print_row(sk_buf *out, const inspect_entry *e, const inspect_about *about) {
    char logical[SIZE_CHARS], own[SIZE_CHARS], used[SIZE_CHARS];
    sk_buf_printf(out, "%8" PRIu64 " %8zu  %-14s %-12s %5zu %10s %10s %6" PRIu64 " %8s", e->id, e->m.n_tokens,
                  payload_name(e->m.payload_kind), reason_name(e->m.reason), e->m.n_parts,
                  size_of(e->logical_bytes, logical), size_of(e->own_bytes, own), e->m.hits,
                  age_of(e->m.used_ms, about->now_ms, used));
    if (e->bad_blocks) sk_buf_printf(out, "  BAD: %zu blocks", e->bad_blocks);
    sk_buf_str(out, "\n");
}

static void print_bad(sk_buf *out, const inspect_store *s) {
    char hex[HEX_CHARS];
    sk_buf_printf(out, "verified: %zu of %zu blocks are bad, in %zu entries\n", s->bad_blocks, s->n_blocks,
                  s->bad_entries);
    for (size_t i = 0; i < s->n_blocks; i++) {
        const inspect_block *b = &s->blocks[i];
        if (b->status != SKIPPY_OK)
            sk_buf_printf(out, "  bad block %s, %" PRIu32 " bytes, used by %zu entries: %s\n",
                          hex_of(&b->ref.digest, hex), b->ref.bytes, b->owners, skippy_strerror(b->status));
    }
}

static void print_totals(sk_buf *out, const inspect_store *s) {
    char logical[SIZE_CHARS], unique[SIZE_CHARS], physical[SIZE_CHARS];
    sk_buf_printf(
        out,
        "total: %zu entries, %" PRIu64 " tokens, %s in %zu distinct blocks (%s referred to, dedupe %.2fx), %s "
        "on disk\n",
        s->n_entries, s->tokens, size_of(s->block_bytes, unique), s->n_blocks, size_of(s->stats.logical_bytes, logical),
        inspect_dedupe_ratio(s), size_of(s->stats.physical_bytes, physical));
}

void inspect_print_store(sk_buf *out, const inspect_store *s, const inspect_about *about) {
    char files[SIZE_CHARS];
    sk_buf_printf(out, "store %s: %s in files, %s\n", s->name, size_of(about->file_bytes, files),
                  about->in_use ? "in use" : "not in use");
    if (s->n_entries)
        sk_buf_printf(out, "%8s %8s  %-14s %-12s %5s %10s %10s %6s %8s\n", "id", "tokens", "payload", "reason", "parts",
                      "logical", "own", "hits", "unused");
    for (size_t i = 0; i < s->n_entries; i++) print_row(out, &s->entries[i], about);
    print_totals(out, s);
    if (about->verified) print_bad(out, s);
}

static const char *or_none(const char *name) {
    return name ? name : "(none)";
}

static void print_fields(sk_buf *out, const inspect_entry *e, const skippy_manifest *m, const inspect_about *about) {
    char ns[HEX_CHARS], prefix[HEX_CHARS], layout[HEX_CHARS], made[SIZE_CHARS], used[SIZE_CHARS], logical[SIZE_CHARS],
        own[SIZE_CHARS];
    sk_buf_printf(out,
                  "namespace key    %s\nprefix key       %s\nlayout           %s\n"
                  "payload          %s, reach %s, reason %s\ntenant           %s\ncache namespace  %s\n",
                  hex_of(&m->ns, ns), hex_of(&m->prefix_key, prefix), hex_of(&m->layout, layout),
                  payload_name(m->payload_kind), reach_name(m->reach), reason_name(m->reason), or_none(m->tenant),
                  or_none(m->cache_namespace));
    sk_buf_printf(out,
                  "cost             %.3f ms\ncreated          %" PRIu64 " ms (Unix time), %s ago\n"
                  "last used        %" PRIu64 " ms (Unix time), %s ago\nhits             %" PRIu64
                  "\nbytes            %" PRIu64 " (%s), not shared %" PRIu64 " (%s)\n",
                  m->cost_ms, m->created_ms, age_of(m->created_ms, about->now_ms, made), m->used_ms,
                  age_of(m->used_ms, about->now_ms, used), e->m.hits, e->logical_bytes,
                  size_of(e->logical_bytes, logical), e->own_bytes, size_of(e->own_bytes, own));
}

static void print_tokens(sk_buf *out, const skippy_manifest *m) {
    enum { IN_A_LINE = 12 };
    sk_buf_printf(out, "tokens           %zu:", m->n_tokens);
    for (size_t i = 0; i < m->n_tokens; i++) sk_buf_printf(out, i % IN_A_LINE ? " %d" : "\n  %d", m->tokens[i]);
    sk_buf_str(out, "\n");
}

static void print_part(sk_buf *out, const inspect_store *s, const skippy_part *part) {
    char hex[HEX_CHARS];
    sk_buf_printf(out, "part %s [%" PRIu64 ", %" PRIu64 "), %zu blocks\n", part_name(part->kind), part->from, part->to,
                  part->n_blocks);
    for (size_t i = 0; i < part->n_blocks; i++) {
        const inspect_block *b = inspect_store_block(s, &part->blocks[i]);
        sk_buf_printf(out, "  %s %7" PRIu32 " bytes", hex_of(&part->blocks[i].digest, hex), part->blocks[i].bytes);
        if (b && b->owners > 1) sk_buf_printf(out, ", shared by %zu entries", b->owners);
        if (b && b->checked) sk_buf_printf(out, ", %s", b->status == SKIPPY_OK ? "verified" : "BAD");
        sk_buf_str(out, "\n");
    }
}

void inspect_print_entry(sk_buf *out, const inspect_store *s, const inspect_entry *e, const skippy_manifest *m,
                         const inspect_about *about) {
    sk_buf_printf(out, "store %s, entry %" PRIu64 "\n", s->name, e->id);
    print_fields(out, e, m, about);
    print_tokens(out, m);
    for (size_t i = 0; i < m->n_parts; i++) print_part(out, s, &m->parts[i]);
}

/* ---- JSON ---- */

/* Errors are gathered in *ok, so that a writer reads straight down. A value that could not be made (NULL) is one. */
static void put(json_t *object, const char *key, json_t *value, bool *ok) {
    if (json_object_set_new(object, key, value) != 0) *ok = false;
}

static void put_number(json_t *object, const char *key, uint64_t value, bool *ok) {
    put(object, key, json_integer((json_int_t)value), ok);
}

static void put_text(json_t *object, const char *key, const char *value, bool *ok) {
    put(object, key, value ? json_string(value) : json_null(), ok);
}

static void put_key(json_t *object, const char *key, const skippy_key *value, bool *ok) {
    char hex[HEX_CHARS];
    put_text(object, key, hex_of(value, hex), ok);
}

static void append(json_t *array, json_t *value, bool *ok) {
    if (json_array_append_new(array, value) != 0) *ok = false;
}

/* The object, or NULL after an error. */
static json_t *finish(json_t *object, bool ok) {
    if (ok) return object;
    json_decref(object);
    return NULL;
}

static json_t *json_summary(const inspect_entry *e) {
    bool ok = true;
    json_t *o = json_object();
    put_number(o, "id", e->id, &ok);
    put_number(o, "tokens", e->m.n_tokens, &ok);
    put_text(o, "payload", payload_name(e->m.payload_kind), &ok);
    put_text(o, "reach", reach_name(e->m.reach), &ok);
    put_text(o, "reason", reason_name(e->m.reason), &ok);
    put_number(o, "parts", e->m.n_parts, &ok);
    put_number(o, "block_refs", e->n_blocks, &ok);
    put_number(o, "logical_bytes", e->logical_bytes, &ok);
    put_number(o, "own_bytes", e->own_bytes, &ok);
    put_number(o, "hits", e->m.hits, &ok);
    put(o, "cost_ms", json_real(e->m.cost_ms), &ok);
    put_number(o, "created_ms", e->m.created_ms, &ok);
    put_number(o, "used_ms", e->m.used_ms, &ok);
    put_text(o, "tenant", e->m.tenant, &ok);
    put_text(o, "cache_namespace", e->m.cache_namespace, &ok);
    put_key(o, "namespace_key", &e->m.ns, &ok);
    put_key(o, "prefix_key", &e->m.prefix_key, &ok);
    put_key(o, "layout", &e->m.layout, &ok);
    return finish(o, ok);
}

static json_t *json_totals(const inspect_store *s) {
    bool ok = true;
    json_t *o = json_object();
    put_number(o, "entries", s->n_entries, &ok);
    put_number(o, "tokens", s->tokens, &ok);
    put_number(o, "blocks", s->n_blocks, &ok);
    put_number(o, "block_refs", s->n_ref, &ok);
    put_number(o, "logical_bytes", s->stats.logical_bytes, &ok);
    put_number(o, "block_bytes", s->block_bytes, &ok);
    put_number(o, "saved_bytes", s->stats.logical_bytes - s->block_bytes, &ok);
    put_number(o, "physical_bytes", s->stats.physical_bytes, &ok);
    put(o, "dedupe_ratio", json_real(inspect_dedupe_ratio(s)), &ok);
    return finish(o, ok);
}

static json_t *json_bad_block(const inspect_store *s, const inspect_block *b) {
    bool ok = true;
    json_t *o = json_object(), *entries = json_array();
    put_key(o, "digest", &b->ref.digest, &ok);
    put_number(o, "bytes", b->ref.bytes, &ok);
    put_text(o, "error", skippy_strerror(b->status), &ok);
    for (size_t i = 0; i < s->n_entries; i++) {
        const inspect_entry *e = &s->entries[i];
        size_t k = 0;
        while (k < e->n_blocks && !skippy_key_equal(&s->ref[e->first + k].digest, &b->ref.digest)) k++;
        if (k < e->n_blocks) append(entries, json_integer((json_int_t)e->id), &ok);
    }
    put(o, "entries", entries, &ok);
    return finish(o, ok);
}

static json_t *json_verify(const inspect_store *s) {
    bool ok = true;
    json_t *o = json_object(), *bad = json_array();
    put_number(o, "blocks", s->n_blocks, &ok);
    put_number(o, "bad_entries", s->bad_entries, &ok);
    for (size_t i = 0; i < s->n_blocks; i++)
        if (s->blocks[i].status != SKIPPY_OK) append(bad, json_bad_block(s, &s->blocks[i]), &ok);
    put(o, "bad_blocks", bad, &ok);
    return finish(o, ok);
}

json_t *inspect_json_store(const inspect_store *s, const inspect_about *about) {
    bool ok = true;
    json_t *o = json_object(), *entries = json_array();
    put_text(o, "name", s->name, &ok);
    put(o, "in_use", json_boolean(about->in_use), &ok);
    put_number(o, "file_bytes", about->file_bytes, &ok);
    for (size_t i = 0; i < s->n_entries; i++) append(entries, json_summary(&s->entries[i]), &ok);
    put(o, "entries", entries, &ok);
    put(o, "totals", json_totals(s), &ok);
    if (about->verified) put(o, "verify", json_verify(s), &ok);
    return finish(o, ok);
}

static json_t *json_block(const inspect_store *s, const skippy_block_ref *ref) {
    bool ok = true;
    const inspect_block *b = inspect_store_block(s, ref);
    json_t *o = json_object();
    put_key(o, "digest", &ref->digest, &ok);
    put_number(o, "bytes", ref->bytes, &ok);
    put_number(o, "entries", b ? b->owners : 0, &ok);
    if (b && b->checked) put(o, "good", json_boolean(b->status == SKIPPY_OK), &ok);
    return finish(o, ok);
}

static json_t *json_part(const inspect_store *s, const skippy_part *part) {
    bool ok = true;
    json_t *o = json_object(), *blocks = json_array();
    put_text(o, "kind", part_name(part->kind), &ok);
    put_number(o, "from", part->from, &ok);
    put_number(o, "to", part->to, &ok);
    for (size_t i = 0; i < part->n_blocks; i++) append(blocks, json_block(s, &part->blocks[i]), &ok);
    put(o, "blocks", blocks, &ok);
    return finish(o, ok);
}

json_t *inspect_json_entry(const inspect_store *s, const inspect_entry *e, const skippy_manifest *m) {
    bool ok = true;
    json_t *o = json_summary(e), *tokens = json_array(), *parts = json_array();
    put_text(o, "store", s->name, &ok);
    for (size_t i = 0; i < m->n_tokens; i++) append(tokens, json_integer(m->tokens[i]), &ok);
    put(o, "token_ids", tokens, &ok);
    for (size_t i = 0; i < m->n_parts; i++) append(parts, json_part(s, &m->parts[i]), &ok);
    put(o, "part_list", parts, &ok);
    return finish(o, ok);
}
