#include "cli/serve_hints.h"

#include <stddef.h>
#include <string.h>

/* Names end with a blank, so that a search finds whole names only. */
static const struct hint {
    const char *names, *text;
} hints[] = {
    {"-hf -hfr --hf-repo -hff --hf-file -hft --hf-token -mu --model-url -dr --docker-repo ",
     "nothing is downloaded here; give the file with -m"},
    {"-mm --mmproj -mmu --mmproj-url --mmproj-auto ", "images and audio are not supported"},
    {"-md --model-draft --draft --draft-n --draft-max --draft-min --draft-p-min -ngld --spec-type ",
     "speculative decoding is not supported"},
    {"--embedding --embeddings --pooling --rerank --reranking ", "embeddings and reranking are not supported"},
    {"--ssl-key-file --ssl-cert-file ", "TLS is not spoken here; put a TLS proxy in front"},
    {"--path --api-prefix --reuse-port --models-dir --models-preset --tools --slot-save-path --props ",
     "this part of llama-server does not exist here"},
    {"--grammar --grammar-file -j --json-schema -jf --json-schema-file -l --logit-bias --ignore-eos -r --reverse-prompt ",
     "each request says it"},
    {"--chat-template-kwargs --reasoning-budget --reasoning-effort -rea --reasoning ",
     "each request says it, in 'chat_template_kwargs' or 'reasoning_effort'"},
    {"--no-jinja ", "chat templates are always Jinja here"},
    {"-dev --device -sm --split-mode -ts --tensor-split -mg --main-gpu -ot --override-tensor -cmoe --cpu-moe -ncmoe "
     "--n-cpu-moe ",
     "where tensors lie cannot be chosen; -ngl sets the number of layers on the GPU"},
    {"--rope-scaling --yarn-orig-ctx --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast ",
     "the model's own kind of scaling is used; --rope-scale and --rope-freq-base change its numbers"},
    {"--context-shift ", "a full context ends the answer; choose a larger -c"},
    {"--log-file --log-disable ", "the log goes to standard error; redirect it"},
    {"--version ", "use 'skippy version'"},
};

static int has_name(const char *names, const char *name) {
    size_t len = strlen(name);
    for (const char *at = names; *at; at += strcspn(at, " ") + 1)
        if (strncmp(at, name, len) == 0 && at[len] == ' ') return 1;
    return 0;
}

const char *sk_serve_hint(const char *name) {
    size_t len = strlen(name);
    if (name[0] != '-') return len > 5 && strcmp(name + len - 5, ".gguf") == 0 ? "write -m before the model" : NULL;
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (has_name(hints[i].names, name)) return hints[i].text;
    return NULL;
}
