#include "bench/facts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "runtime/model.h"

enum { READ_BYTES = 1 << 20 };

static void read_cpu_name(char *buf, size_t cap) {
    char line[512];
    FILE *f = fopen("/proc/cpuinfo", "re");
    snprintf(buf, cap, "unknown CPU");
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(buf, cap, "%.120s", colon + 1 + (colon[1] == ' '));
            break;
        }
    }
    if (f) {
        fclose(f);
    }
}

void sk_facts_machine(sk_bench_facts *f) {
    const time_t now = (time_t)sk_wall_s();
    struct tm utc;
    read_cpu_name(f->cpu, sizeof f->cpu);
    f->cores = sysconf(_SC_NPROCESSORS_ONLN);
    f->memory_kib = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024u;
    f->date[0] = '\0';
    if (gmtime_r(&now, &utc)) {
        strftime(f->date, sizeof f->date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
}

static int digest_file(const char *path, char hex[65], uint64_t *bytes, sk_err *e) {
    uint8_t digest[SK_HASH_BYTES];
    sk_hasher h;
    FILE *f = fopen(path, "re");
    char *piece = malloc(READ_BYTES);
    int rc = SKIPPY_OK;
    *bytes = 0;
    sk_hash_init(&h);
    if (!f || !piece) {
        rc = sk_err_set(e, f ? SKIPPY_E_NOMEM : SKIPPY_E_IO, "cannot read '%s': %s", path, strerror(errno));
        goto out;
    }
    for (size_t n; (n = fread(piece, 1, READ_BYTES, f)) > 0;) {
        sk_hash_update(&h, piece, n);
        *bytes += n;
    }
    if (ferror(f)) {
        rc = sk_err_set(e, SKIPPY_E_IO, "cannot read '%s': %s", path, strerror(errno));
    }
    sk_hash_final(&h, digest);
    sk_hex(digest, SK_HASH_BYTES, hex);
out:
    free(piece);
    if (f) {
        fclose(f);
    }
    return rc;
}

bool sk_facts_synthetic(const sk_model *m) {
    static const char *const keys[] = {"general.name",     "general.description", "general.basename",
                                       "general.finetune", "general.author",      "general.organization"};
    char value[512];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (sk_model_meta(m, keys[i], value, sizeof value) && strcasestr(value, "synthetic")) {
            return true;
        }
    }
    return false;
}

/* A load of the vocabulary alone leaves llama.cpp's own number at 0, so the metadata is asked. 0 when it does not say.
 */
static int32_t context_length(const sk_model *m, const char *arch) {
    char key[96];
    char value[32];
    snprintf(key, sizeof key, "%s.context_length", arch);
    const long n = sk_model_meta(m, key, value, sizeof value) ? strtol(value, NULL, 10) : 0;
    return n > 0 && n <= INT32_MAX ? (int32_t)n : 0;
}

int sk_facts_model(sk_bench_facts *f, const char *path, sk_err *e) {
    const sk_model_params p = {.path = path, .vocab_only = true};
    sk_model *m = NULL;
    int rc = sk_model_load(&p, &m, e);
    if (rc == SKIPPY_OK) {
        const sk_model_info *info = sk_model_get_info(m);
        snprintf(f->model_path, sizeof f->model_path, "%s", path);
        snprintf(f->model_name, sizeof f->model_name, "%s", info->name[0] ? info->name : info->id);
        snprintf(f->arch, sizeof f->arch, "%s", info->arch);
        f->n_ctx_train = context_length(m, f->arch);
        f->synthetic = sk_facts_synthetic(m);
        rc = digest_file(path, f->digest, &f->file_bytes, e);
    }
    sk_model_free(m);
    return rc;
}
