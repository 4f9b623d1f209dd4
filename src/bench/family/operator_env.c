#include "bench/family/operator_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUE = 1024, MAX_NAME = 64 };

static const char *const NAMES[] = {
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "HSA_OVERRIDE_GFX_VERSION",
    "LD_LIBRARY_PATH",
    "NVIDIA_TF32_OVERRIDE",
    "ONEAPI_DEVICE_SELECTOR",
    "ROCR_VISIBLE_DEVICES",
    "ZES_ENABLE_SYSMAN",
    NULL,
};

static const char *const PREFIXES[] = {"GGML_", "OMP_", "GOMP_", "KMP_", NULL};

static const char *const SECRETS[] = {"TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL", NULL};

/* Names of one thing. With different values it depends on the runtime's version which one wins (HIP reads CUDA's name,
 * too, and counts its own devices among those that ROCR leaves). */
static const char *const ALIASES[][5] = {
    {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", NULL},
    {"OMP_STACKSIZE", "GOMP_STACKSIZE", "KMP_STACKSIZE", NULL},
    {"OMP_THREAD_LIMIT", "KMP_ALL_THREADS", NULL},
};

/* These load code, so what they name must be pinned. */
static const char *const LIBRARY_PATHS[] = {"LD_LIBRARY_PATH", "GGML_BACKEND_PATH", NULL};

static bool is_in(const char *name, const char *const *list) {
    while (*list && strcmp(*list, name) != 0) list++;
    return *list != NULL;
}

static bool says_secret(const char *name) {
    for (const char *const *word = SECRETS; *word; word++) {
        if (strstr(name, *word)) return true;
    }
    return false;
}

static bool has_prefix(const char *name) {
    for (const char *const *prefix = PREFIXES; *prefix; prefix++) {
        const size_t n = strlen(*prefix);
        if (strncmp(name, *prefix, n) == 0 && name[n]) return true;
    }
    return false;
}

bool sk_operator_env_allowed(const char *name) {
    if (strlen(name) > MAX_NAME || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != strlen(name)) return false;
    return !says_secret(name) && (is_in(name, NAMES) || has_prefix(name));
}

/* ---- library paths ---- */

const char *sk_operator_env_library_path(const char *pair) {
    for (const char *const *name = LIBRARY_PATHS; *name; name++) {
        const size_t n = strlen(*name);
        if (strncmp(pair, *name, n) == 0 && pair[n] == '=') return pair + n + 1;
    }
    return NULL;
}

static bool lies_below(const char *path, size_t len, const char *folder) {
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/') n--;
    return n > 0 && len >= n && memcmp(path, folder, n) == 0 && (len == n || path[n] == '/' || folder[n - 1] == '/');
}

static bool is_pinned_folder(const sk_operator *op, const char *path, size_t len) {
    bool pinned = lies_below(path, len, op->native_build);
    for (size_t i = 0; i < op->n_toolkits && !pinned; i++) pinned = lies_below(path, len, op->toolkit[i].path);
    return pinned;
}

/* "a/../b" could lead out of the folder that it begins with. */
static bool climbs(const char *path, size_t len) {
    for (size_t i = 0; i + 3 <= len; i++) {
        if (memcmp(path + i, "/..", 3) == 0 && (i + 3 == len || path[i + 3] == '/')) return true;
    }
    return false;
}

static void check_library_path(const sk_strict *v, const char *value, const sk_operator *op) {
    for (const char *p = value;; p++) {
        const size_t len = strcspn(p, ":");
        if (len == 0 || climbs(p, len) || !is_pinned_folder(op, p, len)) {
            sk_strict_refuse(v, SKIPPY_E_INVALID,
                             "'%.*s' lies neither in native_build nor in one of the toolkit_directories: "
                             "libraries must be pinned",
                             (int)(len > 160 ? 160 : len), p);
            return;
        }
        p += len;
        if (!*p) return;
    }
}

/* ---- aliases ---- */

static const char *value_of(const sk_operator *op, const char *name) {
    const size_t n = strlen(name);
    for (size_t i = 0; i < op->n_env; i++) {
        if (strncmp(op->env[i], name, n) == 0 && op->env[i][n] == '=') return op->env[i] + n + 1;
    }
    return NULL;
}

static void check_group(const sk_strict *environment, const sk_operator *op, const char *const *group) {
    const char *first = NULL, *first_value = NULL;
    for (const char *const *name = group; *name; name++) {
        const char *value = value_of(op, *name);
        if (value && first_value && strcmp(value, first_value) != 0) {
            sk_strict_refuse(environment, SKIPPY_E_INVALID,
                             "%s='%.60s' and %s='%.60s' name the same thing with different values; keep one of them",
                             first, first_value, *name, value);
        }
        if (value && !first_value) {
            first = *name;
            first_value = value;
        }
    }
}

/* ---- reading ---- */

/* Unlike other texts a value may be empty: CUDA_VISIBLE_DEVICES="" hides every device. */
static const char *read_value(const sk_strict *v) {
    return json_is_string(v->json) && json_string_length(v->json) == 0 ? "" : sk_strict_text(v, MAX_VALUE);
}

static void add(const sk_strict *v, const char *name, sk_operator *op) {
    const char *value = read_value(v);
    if (sk_strict_failed(v)) return;
    if (is_in(name, LIBRARY_PATHS)) check_library_path(v, value, op);
    if (op->n_env == SK_INPUT_MAX_ENV) {
        sk_strict_refuse(v, SKIPPY_E_INVALID, "more than %d variables", SK_INPUT_MAX_ENV);
        return;
    }
    const size_t size = strlen(name) + strlen(value) + 2;
    char *pair = malloc(size);
    if (!pair) {
        sk_strict_refuse(v, SKIPPY_E_NOMEM, "out of memory");
        return;
    }
    snprintf(pair, size, "%s=%s", name, value);
    op->env[op->n_env++] = pair;
}

void sk_operator_env_read(const sk_strict *environment, sk_operator *op) {
    const char *name;
    json_t *value;
    if (!sk_strict_present(environment)) return;
    if (!json_is_object(environment->json)) {
        sk_strict_refuse(environment, SKIPPY_E_INVALID, "must be an object with texts: {\"NAME\": \"value\"}");
        return;
    }
    json_object_foreach(environment->json, name, value) {
        sk_strict v = sk_strict_field(environment, name);
        v.json = value; /* a null is a wrong type here, not an absent variable */
        if (sk_operator_env_allowed(name)) {
            add(&v, name, op);
        } else {
            sk_strict_refuse(&v, SKIPPY_E_INVALID,
                             "this variable is not allowed; only settings of devices, threads and backends are "
                             "(evals/schemas/cache-operator.schema.json)");
        }
    }
    for (size_t i = 0; i < sizeof ALIASES / sizeof *ALIASES; i++) check_group(environment, op, ALIASES[i]);
}
