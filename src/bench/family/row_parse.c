#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/row.h"
#include "bench/family/row_reader.h"
#include "bench/family/row_series.h"

static void read_kind(sk_row_reader *rd, sk_family_row *r) {
    static const char *const kinds[] = {"full", "use-case", "sweep", "package"};
    r->kind = sk_row_text(rd, "kind", NULL);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(r->kind, kinds[i]) == 0) return;
    sk_row_refuse(rd, "kind", "\"full\", \"use-case\", \"sweep\" or \"package\"");
}

static void read_use_case(sk_row_reader *rd, sk_family_row *r) {
    if (strcmp(r->kind, "use-case") != 0) return;
    r->use_case = sk_row_text(rd, "use_case", NULL);
    r->use_case_label = sk_row_text(rd, "use_case_label", r->use_case);
}

static void read_model(sk_row_reader *rd, sk_family_row *r) {
    r->key = sk_row_text(rd, "key", NULL);
    r->family = sk_row_text(rd, "family", NULL);
    r->model_id = sk_row_text(rd, "model_id", NULL);
    r->payload = sk_row_text(rd, "payload", NULL);
    r->synthetic = sk_row_flag(rd, "synthetic");
    r->layers = sk_row_count_of(rd, "layers");
    r->layers_real = sk_row_count_of(rd, "layers_real");
    r->width = sk_row_count_of(rd, "width");
    r->prefix_tokens = sk_row_count_of(rd, "prefix_tokens");
    r->prompt_tokens = sk_row_count_of(rd, "benchmark_prompt_token_count");
    r->read = sk_row_text(rd, "read", "");
}

static void read_status(sk_row_reader *rd, sk_family_row *r) {
    r->skippy_status = sk_row_text(rd, "skippy.status", NULL);
    r->llama_status = sk_row_text(rd, "llama_server.status", NULL);
    const char *ours = sk_row_text(rd, "skippy.why", "");
    const char *theirs = sk_row_text(rd, "llama_server.why", "");
    r->why = strcmp(r->skippy_status, "pass") != 0 ? ours : strcmp(r->llama_status, "ok") != 0 ? theirs : "";
    r->recompute_total_ms = sk_row_ms(rd, "skippy.recompute_total_ms");
    r->cache_hit_total_ms = sk_row_ms(rd, "skippy.cache_hit_total_ms");
    r->storage_bytes = (uint64_t)sk_row_count_of(rd, "skippy.storage_bytes");
    r->storage_method = sk_row_text(rd, "skippy.storage_method", "n/a");
}

static void read_host(sk_row_reader *rd, sk_family_row *r, size_t i, json_t *host) {
    char field[64];
    const char *name = json_string_value(json_object_get(host, "name"));
    snprintf(field, sizeof field, "hosts[%zu].name", i);
    if (!name) {
        sk_row_refuse(rd, field, "a string");
        return;
    }
    for (size_t k = 0; k < r->n_hosts; k++)
        if (strcmp(r->host[k], name) == 0) sk_row_refuse(rd, field, "different from the other hosts' names");
    r->host[r->n_hosts++] = name;
}

static void read_hosts(sk_row_reader *rd, sk_family_row *r) {
    json_t *hosts = sk_row_at(rd->row, "hosts");
    if (hosts && !json_is_array(hosts)) sk_row_refuse(rd, "hosts", "an array");
    if (json_array_size(hosts) > SK_ROW_MAX_HOSTS) sk_row_refuse(rd, "hosts", "an array of at most 6");
    for (size_t i = 0; i < json_array_size(hosts) && rd->rc == SKIPPY_OK; i++)
        read_host(rd, r, i, json_array_get(hosts, i));
    r->ours = 0;
    while (r->ours < r->n_hosts && strcmp(r->host[r->ours], "skippy") != 0) r->ours++;
}

int sk_family_row_parse(json_t *row, size_t number, sk_family_row *out, sk_err *e) {
    sk_row_reader rd = {.row = row, .number = number, .e = e};
    sk_family_row r = {.json = row};
    *out = (sk_family_row){0};
    if (!json_is_object(row)) return sk_err_set(e, SKIPPY_E_INVALID, "row %zu must be an object", number);
    json_t *schema = sk_row_at(row, "schema_version");
    if (!json_is_integer(schema) || json_integer_value(schema) != SK_ROW_SCHEMA)
        sk_row_refuse(&rd, "schema_version", "1 (this program knows no other)");
    read_model(&rd, &r);
    read_kind(&rd, &r);
    read_use_case(&rd, &r);
    read_status(&rd, &r);
    read_hosts(&rd, &r);
    if (rd.rc == SKIPPY_OK) sk_row_read_parts(&rd, &r);
    if (rd.rc == SKIPPY_OK) {
        *out = r;
    } else {
        r.json = NULL; /* stays with the caller */
        sk_family_row_free(&r);
    }
    return rd.rc;
}

void sk_family_row_free(sk_family_row *r) {
    for (size_t i = 0; i < r->n_series; i++)
        for (size_t h = 0; h < SK_ROW_MAX_HOSTS; h++) free(r->series[i].ms[h]);
    free(r->series);
    json_decref(r->json);
    *r = (sk_family_row){0};
}
