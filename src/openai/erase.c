/* The body of DELETE /cache. */
#include <stdlib.h>
#include <string.h>

#include "openai/fields.h"
#include "openai/internal.h"

void sk_api_erase_free(sk_api_erase *e) {
    free(e->cache_namespace);
    free(e->tokens);
    *e = (sk_api_erase){0};
}

static int read_namespace(const json_t *body, sk_api_erase *out, sk_api_error *err) {
    const char *key = NULL;
    int status = sk_field_string(body, "prompt_cache_key", &key, err);
    if (status || !key || !*key) return status;
    out->cache_namespace = strdup(key);
    return out->cache_namespace ? 0 : sk_api_nomem(err);
}

static int read_prefix(sk_api *api, const json_t *body, sk_api_erase *out, sk_api_error *err) {
    const json_t *prompt = sk_field(body, "prompt");
    if (!prompt) return 0;
    sk_prompt p = {0};
    int status = sk_prompt_from_json(api->model, api->memo, prompt, &p, err);
    if (!status) {
        out->tokens = p.tokens;
        out->n_tokens = p.n_tokens;
        p.tokens = NULL;
    }
    sk_prompt_clear(&p);
    return status;
}

/* A name that is not known would be ignored, and more would be erased than was meant. */
static int refuse_unknown(const json_t *body, sk_api_error *err) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)body, key, value) {
        if (strcmp(key, "prompt") != 0 && strcmp(key, "prompt_cache_key") != 0)
            return sk_api_invalid(err, key, "'%.100s' is not known here; 'prompt' and 'prompt_cache_key' are", key);
    }
    return 0;
}

int sk_api_parse_erase(sk_api *api, const char *body, size_t len, sk_api_erase *out, sk_api_error *err) {
    *out = (sk_api_erase){0};
    if (len == 0) return 0;
    json_t *root;
    int status = sk_fields_parse(body, len, &root, err);
    if (status) return status;
    status = refuse_unknown(root, err);
    if (!status) status = read_namespace(root, out, err);
    if (!status) status = read_prefix(api, root, out, err);
    json_decref(root);
    if (status) sk_api_erase_free(out);
    return status;
}
