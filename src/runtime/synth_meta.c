#include "runtime/synth_meta.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LAYERS 512
#define MAX_KEY 128

typedef struct number_list {
    int64_t v[MAX_LAYERS];
    size_t n;
} number_list;

static bool read_number(const char **at, int64_t *out) {
    char *end = NULL;
    errno = 0;
    long long v = strtoll(*at, &end, 10);
    if (end == *at || errno != 0) return false;
    *at = end;
    *out = v;
    return true;
}

/* "(1,2)x3": the numbers in brackets, count times. */
static bool read_group(const char **at, number_list *out) {
    size_t first = out->n;
    int64_t v, count;
    do {
        ++*at;
        if (out->n >= MAX_LAYERS || !read_number(at, &v)) return false;
        out->v[out->n++] = v;
    } while (**at == ',');
    if (strncmp(*at, ")x", 2) != 0) return false;
    *at += 2;
    size_t len = out->n - first;
    if (!read_number(at, &count) || count < 1 || (uint64_t)count > (MAX_LAYERS - first) / len) return false;
    for (; count > 1; count--) {
        memcpy(&out->v[out->n], &out->v[first], len * sizeof out->v[0]);
        out->n += len;
    }
    return true;
}

static bool read_list(const char *text, number_list *out) {
    out->n = 0;
    for (;;) {
        if (*text == '(') {
            if (!read_group(&text, out)) return false;
        } else {
            if (out->n >= MAX_LAYERS || !read_number(&text, &out->v[out->n])) return false;
            out->n++;
        }
        if (*text == '\0') return true;
        if (*text++ != ',') return false;
    }
}

static void set_array(struct gguf_context *g, const char *key, enum gguf_type type, const number_list *list) {
    int32_t words[MAX_LAYERS];
    int8_t flags[MAX_LAYERS];
    for (size_t i = 0; i < list->n; i++) {
        words[i] = (int32_t)list->v[i];
        flags[i] = (int8_t)list->v[i];
    }
    gguf_set_arr_data(g, key, type, type == GGUF_TYPE_BOOL ? (const void *)flags : (const void *)words, list->n);
}

static bool set_scalar(struct gguf_context *g, const char *key, char type, const char *value) {
    int64_t v;
    char *end = NULL;
    if (type == 'f') {
        float f = strtof(value, &end);
        if (end == value || *end != '\0') return false;
        gguf_set_val_f32(g, key, f);
        return true;
    }
    if (type == 's') {
        gguf_set_val_str(g, key, value);
        return *value != '\0';
    }
    if (!read_number(&value, &v) || *value != '\0' || v < 0 || v > UINT32_MAX) return false;
    if (type == 'u')
        gguf_set_val_u32(g, key, (uint32_t)v);
    else if (type == 'b' && v <= 1)
        gguf_set_val_bool(g, key, v == 1);
    else
        return false;
    return true;
}

static bool apply_item(struct gguf_context *g, const char *arch, char *item) {
    number_list list;
    char key[MAX_KEY];
    char *eq = strchr(item, '=');
    if (!eq || eq == item || eq[1] == '\0' || eq[2] != ':') return false;
    *eq = '\0';
    char type = eq[1];
    const char *value = eq + 3;
    if (snprintf(key, sizeof key, "%s.%s", arch, item) >= (int)sizeof key) return false;
    if (!strchr("aiB", type)) return set_scalar(g, key, type, value);
    if (!read_list(value, &list)) return false;
    set_array(g, key, type == 'a' ? GGUF_TYPE_UINT32 : type == 'i' ? GGUF_TYPE_INT32 : GGUF_TYPE_BOOL, &list);
    return true;
}

int sk_synth_meta_apply(struct gguf_context *g, const char *arch, const char *text, sk_err *err) {
    char item[512];
    while (*text) {
        size_t len = strcspn(text, " ");
        if (len >= sizeof item) return sk_err_set(err, SKIPPY_E_INVALID, "a metadata item is too long: %.60s...", text);
        memcpy(item, text, len);
        item[len] = '\0';
        if (len > 0 && !apply_item(g, arch, item))
            return sk_err_set(err, SKIPPY_E_INVALID, "cannot read the metadata item '%.*s'", (int)len, text);
        text += len;
        text += strspn(text, " ");
    }
    return SKIPPY_OK;
}

uint32_t sk_synth_meta_u32(const struct gguf_context *g, const char *arch, const char *key, uint32_t fallback) {
    char full[MAX_KEY];
    if (snprintf(full, sizeof full, "%s.%s", arch, key) >= (int)sizeof full) return fallback;
    int64_t id = gguf_find_key(g, full);
    if (id < 0 || gguf_get_kv_type(g, id) != GGUF_TYPE_UINT32) return fallback;
    return gguf_get_val_u32(g, id);
}

static int64_t array_at(const struct gguf_context *g, int64_t id, size_t i) {
    const void *data = gguf_get_arr_data(g, id);
    if (gguf_get_arr_type(g, id) == GGUF_TYPE_BOOL) return ((const int8_t *)data)[i];
    return ((const int32_t *)data)[i];
}

/* True when the first n elements hold a zero or a non-zero value exactly if the whole array does. */
static bool both_kinds_kept(const number_list *whole, size_t n) {
    bool kinds[2] = {false, false}, kept[2] = {false, false};
    for (size_t i = 0; i < whole->n; i++) {
        kinds[whole->v[i] != 0] = true;
        if (i < n) kept[whole->v[i] != 0] = true;
    }
    return kinds[0] == kept[0] && kinds[1] == kept[1];
}

/* Resizes the array of one key; false when a kind of layer would be lost. */
static bool resize_array(struct gguf_context *g, int64_t id, size_t layers) {
    number_list list = {.n = gguf_get_arr_n(g, id)};
    enum gguf_type type = gguf_get_arr_type(g, id);
    char key[MAX_KEY];
    snprintf(key, sizeof key, "%s", gguf_get_key(g, id));
    for (size_t i = 0; i < list.n; i++) list.v[i] = array_at(g, id, i);
    if (!both_kinds_kept(&list, layers)) return false;
    for (size_t i = list.n; i < layers; i++) list.v[i] = list.v[i - list.n];
    list.n = layers;
    gguf_remove_key(g, key);
    set_array(g, key, type, &list);
    return true;
}

static bool is_per_layer(const struct gguf_context *g, int64_t id, size_t old_layers) {
    if (gguf_get_kv_type(g, id) != GGUF_TYPE_ARRAY || gguf_get_arr_n(g, id) != old_layers) return false;
    enum gguf_type type = gguf_get_arr_type(g, id);
    return type == GGUF_TYPE_UINT32 || type == GGUF_TYPE_INT32 || type == GGUF_TYPE_BOOL;
}

int sk_synth_meta_set_layers(struct gguf_context *g, const char *arch, uint32_t layers, uint32_t min_layers,
                             sk_err *err) {
    char key[MAX_KEY];
    uint32_t old = sk_synth_meta_u32(g, arch, "block_count", 0);
    if (layers == 0 || layers == old) return SKIPPY_OK;
    if (layers < min_layers || layers > MAX_LAYERS)
        return sk_err_set(err, SKIPPY_E_INVALID, "this family can have %u to %d layers, not %u", min_layers, MAX_LAYERS,
                          layers);
    /* A resized key moves to the end, so walk backwards: the keys still to come keep their places. */
    for (int64_t id = gguf_get_n_kv(g) - 1; id >= 0; id--) {
        if (!is_per_layer(g, id, old)) continue;
        if (!resize_array(g, id, layers))
            return sk_err_set(err, SKIPPY_E_INVALID,
                              "with %u layers the model would lose one of its kinds of layers (%s); ask for more",
                              layers, gguf_get_key(g, id));
    }
    snprintf(key, sizeof key, "%s.block_count", arch);
    gguf_set_val_u32(g, key, layers);
    return SKIPPY_OK;
}
