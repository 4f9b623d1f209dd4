#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

#include "bench/family/catalog.h"
#include "bench/family/quant.h"
#include "bench/family/shape.h"
#include "runtime/synth_families.h"

static void presets_come_in_the_order_of_the_tables(void **state) {
    (void)state;
    static const char *const order[] = {"qwen3next",   "falcon_h1", "llama",       "qwen3_dense", "deepseek2",
                                        "glm47_flash", "glm4",      "gemma4_a4b",  "gemma4_e4b",  "gemma3",
                                        "gemma2",      "olmo",      "minimax_m27", "deepseek3"};
    for (size_t i = 0; i < SK_PRESETS; i++) {
        assert_string_equal(sk_preset_at(i)->key, order[i]);
        assert_int_equal(sk_preset_rank(order[i]), i);
        assert_ptr_equal(sk_preset_find(order[i]), sk_preset_at(i));
    }
    assert_null(sk_preset_at(SK_PRESETS));
    assert_null(sk_preset_find("no-such-family"));
    assert_int_equal(sk_preset_rank("no-such-family"), SK_PRESETS);
}

static void every_preset_is_complete(void **state) {
    (void)state;
    for (size_t i = 0; i < SK_PRESETS; i++) {
        const sk_preset *p = sk_preset_at(i);
        const bool package = p->artifact == SK_ARTIFACT_PACKAGE;
        assert_true(p->label[0] && p->read[0] && strchr(p->model_id, ':') && strchr(p->repo, '/'));
        assert_int_equal(strlen(p->revision), 8);
        assert_int_equal(p->file[0] == '\0', package);
        assert_string_equal(p->payload, p->recurrent ? "KvRecurrent" : "ResidentKv");
        assert_int_equal(p->kv_bytes_per_token == 0, p->recurrent);
        assert_true(p->preset_prefix > 0 && p->preset_prefix < p->preset_ctx);
        assert_true(p->layer_start >= 0 && p->layer_start < p->layer_end && p->layer_end <= p->layers);
        assert_int_equal(p->layer_end - p->layer_start == p->layers, !package);
        assert_int_equal(p->shards, p->artifact == SK_ARTIFACT_SHARDS ? 3 : 1);
    }
}

static uint64_t window_of(const sk_synth_family *f) {
    return strstr(f->shape, "attention.sliding_window=") != NULL;
}

/* The catalogue, the generated shapes and the quantisation in the published file's name must tell one story. */
static void presets_agree_with_the_shapes_that_stand_in_for_them(void **state) {
    (void)state;
    char quant[32];
    for (size_t i = 0; i < SK_PRESETS; i++) {
        const sk_preset *p = sk_preset_at(i);
        const sk_synth_family *f = sk_synth_family_find(p->synth);
        char width[64];
        sk_shape_layers layers;
        assert_non_null(f);
        assert_true(sk_shape_layers_of(p->synth, &layers));
        assert_int_equal(layers.real, p->layers);
        snprintf(width, sizeof width, "embedding_length=u:%d ", p->width);
        assert_non_null(strstr(f->shape, width));
        assert_int_equal(p->swa, window_of(f));
        assert_int_equal(p->recurrent, strstr(f->shape, "ssm.") != NULL);
        sk_quant_of_name(p->file, quant, sizeof quant);
        assert_true(p->file[0] == '\0' || strcmp(quant, strchr(p->model_id, ':') + 1) == 0);
    }
}

static void the_digest_is_stable_and_covers_the_table(void **state) {
    (void)state;
    char hex[SK_SHA256_HEX];
    sk_catalog_digest(hex);
    /* Changing the catalogue changes this number, and makes plans of the older table invalid: that is its purpose. */
    assert_string_equal(hex, "f5026f46dd4db9b955c9aa5da0a1f6ea7c06ec1d90e6595b7e6a975517a5fcf9");
}

static void quantisations_are_read_from_names(void **state) {
    (void)state;
    static const struct {
        const char *path, *quant;
    } cases[] = {{"a/llama-3.2-1b-instruct-q4_k_m.gguf", "Q4_K_M"},
                 {"Qwen_Qwen3-Coder-Next-IQ2_XS.gguf", "IQ2_XS"},
                 {"MiniMax-M2.7-UD-Q2_K_XL-00001-of-00003.gguf", "UD-Q2_K_XL"},
                 {"olmo-7b-instruct-hf-f16.gguf", "F16"},
                 {"DeepSeek-V3.2-UD-Q4_K_XL-layers", "UD-Q4_K_XL"},
                 {"model.BF16.gguf", "BF16"},
                 {"x-MXFP4_MOE.gguf", "MXFP4_MOE"},
                 {"Q8_0/llama.gguf", ""},
                 {"qwen3-0.6b.gguf", ""},
                 {"", ""}};
    char quant[32];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sk_quant_of_name(cases[i].path, quant, sizeof quant);
        assert_string_equal(quant, cases[i].quant);
    }
    char tight[4];
    sk_quant_of_name("a-Q4_K_M.gguf", tight, sizeof tight);
    assert_string_equal(tight, "Q4_");
}

static void quantisations_are_read_from_the_header(void **state) {
    (void)state;
    assert_string_equal(sk_quant_of_file_type(0), "F32");
    assert_string_equal(sk_quant_of_file_type(15), "Q4_K_M");
    assert_string_equal(sk_quant_of_file_type(4), "");
    assert_string_equal(sk_quant_of_file_type(-1), "");
    assert_string_equal(sk_quant_of_file_type(1024), "");
}

static void a_list_of_keys_is_read_in_its_order(void **state) {
    const sk_preset *p[SK_PRESETS];
    size_t n = 9;
    sk_err e = {0};
    (void)state;
    assert_int_equal(sk_presets_parse("llama,falcon_h1", p, &n, &e), SKIPPY_OK);
    assert_int_equal(n, 2);
    assert_string_equal(p[0]->key, "llama");
    assert_string_equal(p[1]->key, "falcon_h1");
    assert_int_equal(sk_presets_parse("", p, &n, &e), SKIPPY_OK);
    assert_int_equal(n, 0);
    assert_int_equal(sk_presets_parse("llama,lama", p, &n, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "'lama'"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_of_keys_is_read_in_its_order),
        cmocka_unit_test(presets_come_in_the_order_of_the_tables),
        cmocka_unit_test(every_preset_is_complete),
        cmocka_unit_test(presets_agree_with_the_shapes_that_stand_in_for_them),
        cmocka_unit_test(the_digest_is_stable_and_covers_the_table),
        cmocka_unit_test(quantisations_are_read_from_names),
        cmocka_unit_test(quantisations_are_read_from_the_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
