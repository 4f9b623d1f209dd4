#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "cli/serve_options.h"

static sk_serve_options o;
static sk_err e;

static int clean(void **state) {
    (void)state;
    unsetenv("SKIPPY_API_KEY");
    sk_log_set_level(SK_LOG_ERROR);
    return 0;
}

static int release(void **state) {
    (void)state;
    sk_serve_options_free(&o);
    return 0;
}

#define PARSE(...)                                                                                                     \
    ({                                                                                                                 \
        char *argv_[] = {"skippy serve", __VA_ARGS__};                                                                 \
        sk_serve_options_free(&o);                                                                                     \
        sk_serve_options_parse(&o, (int)(sizeof argv_ / sizeof *argv_), argv_, &e);                                    \
    })

static void defaults_need_only_a_model(void **state) {
    (void)state;
    assert_int_equal(PARSE("-m", "x.gguf"), SKIPPY_OK);
    assert_string_equal(o.run.model.path, "x.gguf");
    assert_string_equal(o.host, "127.0.0.1");
    assert_int_equal(o.port, 8080);
    assert_int_equal(o.run.engine.flash_attn, -1);
    assert_int_equal(o.run.model.n_gpu_layers, -1);
    assert_false(o.run.ctx_of_model);
    assert_false(o.run.engine.cache_off);
    assert_null(o.auth);
    assert_int_equal(o.server.max_body, 64 << 20);
}

static void llama_servers_flags_have_their_meaning(void **state) {
    (void)state;
    assert_int_equal(PARSE("--model", "x.gguf", "-c", "0", "-np", "8", "-t", "3", "-tb", "4", "-b", "256", "-ub", "128",
                           "-fa", "on", "-ctk", "q8_0", "-ctv", "f32", "-ngl", "7", "--no-mmap", "--swa-full",
                           "--rope-scale", "4", "-a", "me", "-n", "9"),
                     SKIPPY_OK);
    assert_true(o.run.ctx_of_model);
    assert_int_equal(o.run.engine.n_lanes, 8);
    assert_int_equal(o.run.engine.n_threads, 3);
    assert_int_equal(o.run.engine.n_threads_batch, 4);
    assert_int_equal(o.run.engine.n_batch, 256);
    assert_int_equal(o.run.engine.n_ubatch, 128);
    assert_int_equal(o.run.engine.flash_attn, 1);
    assert_string_equal(o.run.engine.type_k, "q8_0");
    assert_string_equal(o.run.engine.type_v, "f32");
    assert_int_equal(o.run.model.n_gpu_layers, 7);
    assert_true(o.run.model.no_mmap);
    assert_true(o.run.engine.swa_full);
    assert_true(o.run.engine.rope_freq_scale == 0.25f);
    assert_string_equal(o.run.model.alias, "me");
    assert_int_equal(o.n_predict, 9);
    assert_int_equal(PARSE("-m", "x", "-np", "-1", "-t", "-1", "-ngl", "all"), SKIPPY_OK);
    assert_int_equal(o.run.engine.n_lanes, 0);
    assert_int_equal(o.run.engine.n_threads, 0);
}

static void cache_and_server_flags_are_applied(void **state) {
    (void)state;
    assert_int_equal(PARSE("-m", "x", "--cache", "off", "--exact", "bit", "--cache-seqs", "9", "--cache-mib", "100",
                           "--cache-logits-mib", "3", "--queue-max", "5", "--max-body", "2", "--timeout", "7",
                           "--shutdown-timeout", "0", "--port", "0", "--json"),
                     SKIPPY_OK);
    assert_true(o.run.engine.cache_off);
    assert_int_equal(o.run.engine.exact, SK_EXACT_BIT);
    assert_int_equal(o.run.engine.cache_seqs, 9);
    assert_int_equal(o.run.engine.cache_bytes, 100 << 20);
    assert_int_equal(o.run.engine.logits_bytes, 3 << 20);
    assert_int_equal(o.run.engine.queue_max, 5);
    assert_int_equal(o.server.max_body, 2 << 20);
    assert_int_equal(o.server.body_timeout_ms, 7000);
    assert_int_equal(o.server.write_timeout_ms, 7000);
    assert_int_equal(o.server.shutdown_ms, 0);
    assert_int_equal(o.port, 0);
    assert_true(o.run.json);
}

static void flags_that_make_no_difference_are_accepted(void **state) {
    (void)state;
    assert_int_equal(PARSE("-m", "x", "--jinja", "--metrics", "--slots", "-cb", "-kvu", "--no-ui", "-cram", "-1",
                           "--seed", "42", "-lv", "3"),
                     SKIPPY_OK);
    assert_string_equal(o.run.model.path, "x");
}

static void stores_outside_of_the_runtime(void **state) {
    (void)state;
    assert_int_equal(PARSE("-m", "x"), SKIPPY_OK);
    assert_true(o.run.engine.ram_bytes == SK_RAM_DERIVE);
    assert_null(o.run.engine.disk_dir);
    assert_int_equal(PARSE("-m", "x", "--cache-ram", "0", "--cache-disk", "d", "--cache-disk-max", "100",
                           "--shadow-recompute", "1%", "--receipts", "r"),
                     SKIPPY_OK);
    assert_true(o.run.engine.ram_bytes == 0);
    assert_string_equal(o.run.engine.disk_dir, "d");
    assert_true(o.run.engine.disk_bytes == 100 << 20);
    assert_true(o.run.engine.shadow_share > 0.0099 && o.run.engine.shadow_share < 0.0101);
    assert_string_equal(o.receipts, "r");
    assert_int_equal(PARSE("-m", "x", "-cram", "-1"), SKIPPY_OK);
    assert_true(o.run.engine.ram_bytes > UINT64_C(1) << 40 && o.run.engine.ram_bytes != SK_RAM_DERIVE);
    assert_int_equal(PARSE("-m", "x", "--shadow-recompute", "101"), SKIPPY_E_INVALID);
    assert_int_equal(PARSE("-m", "x", "--shadow-recompute", "some"), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "some"));
}

static void wrong_values_name_the_flag_and_the_value(void **state) {
    (void)state;
    assert_int_equal(PARSE("-m", "x", "--port", "65536"), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "--port"));
    assert_non_null(strstr(e.text, "65536"));
    assert_int_equal(PARSE("-m", "x", "-np", "0x"), SKIPPY_E_INVALID);
    assert_int_equal(PARSE("-m", "x", "-ctk", "q3"), SKIPPY_E_INVALID);
    assert_int_equal(PARSE("-m", "x", "--exact", "very"), SKIPPY_E_INVALID);
    assert_int_equal(PARSE("-m", "x", "--rope-scale", "0"), SKIPPY_E_INVALID);
    assert_int_equal(PARSE("-m", "x", "-b", "64", "-ub", "128"), SKIPPY_E_INVALID);
    assert_int_equal(PARSE("-m", "x", "--unheard-of"), SKIPPY_E_INVALID);
    assert_int_equal(PARSE("-m", "x", "--lora-scaled", "a"), SKIPPY_E_INVALID);
    assert_int_equal(PARSE("-m", "x", "--lora-scaled", ":1"), SKIPPY_E_INVALID);
    assert_int_equal(PARSE("-m", "x", "--lora-scaled", "a:b"), SKIPPY_E_INVALID);
    assert_int_equal(PARSE("--port", "1"), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "-m MODEL.gguf"));
}

static void what_llama_server_has_and_this_server_lacks_is_refused_with_words(void **state) {
    (void)state;
    static const struct {
        char *word;
        const char *text;
    } cases[] = {
        {"-hf", "unknown option '-hf': nothing is downloaded here"},
        {"--mmproj=x", "unknown option '--mmproj': images"},
        {"--ssl-key-file", "TLS proxy"},
        {"-j", "each request says it"},
        {"--version", "skippy version"},
        {"model.gguf", "'model.gguf' is not an option: write -m before the model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(PARSE(cases[i].word), SKIPPY_E_INVALID);
        if (!strstr(e.text, cases[i].text)) fail_msg("%s: %s", cases[i].word, e.text);
    }
    /* no words that do not belong to it: a beginning of a name, and an option whose value is wrong */
    assert_int_equal(PARSE("--draft-"), SKIPPY_E_INVALID);
    assert_string_equal(e.text, "unknown option '--draft-'");
    assert_int_equal(PARSE("-m"), SKIPPY_E_INVALID);
    assert_string_equal(e.text, "-m needs a value: FILE");
}

static void a_head_is_told_its_layers_stages_and_links(void **state) {
    (void)state;
    assert_int_equal(PARSE("-m", "x", "--layers", "0..5", "--stages", "10.0.0.2:7000,[::1]:7001,unix:/run/s.sock",
                           "--tls-ca", "a", "--tls-cert", "b", "--tls-key", "c", "--wire", "f16", "--activations", "9",
                           "--stage-wait", "7"),
                     SKIPPY_OK);
    assert_true(o.split.has_layers && o.split.layers.start == 0 && o.split.layers.end == 6);
    assert_int_equal(o.n_stages, 3);
    assert_string_equal(o.stages[0], "10.0.0.2:7000");
    assert_string_equal(o.stages[1], "[::1]:7001");
    assert_string_equal(o.stages[2], "unix:/run/s.sock");
    assert_string_equal(o.split.security.key, "c");
    assert_int_equal(o.split.dtype, 1);
    assert_true(o.split.activation_bytes == 9 << 20);
    assert_int_equal(o.split_params.wait_ms, 7000);
    assert_int_equal(o.split_params.patience_ms, 7000);
}

static void what_a_head_cannot_do_is_refused_with_words(void **state) {
    (void)state;
    static const struct {
        char *word;
        const char *text;
    } cases[] = {
        {"--exact=bit", "--exact bit and --stages"},
        {"--shadow-recompute=1%", "--shadow-recompute and --stages"},
        {"--lora=a", "--lora and --stages"},
        {"--layers=3..4", "holds the first layers"},
        {"--tls-ca=a", "--tls-cert is missing"},
        {"--stages=a:1,nowhere", "nowhere"},
        {"--stages=a:1,,b:1", "address"},
        {"--package=p", "-m and --package"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(PARSE("-m", "x", "--stages", "unix:/s", cases[i].word), SKIPPY_E_INVALID);
        if (!strstr(e.text, cases[i].text)) fail_msg("%s: %s", cases[i].word, e.text);
    }
    char many[17 * 8];
    size_t n = 0;
    for (int i = 0; i < 16; i++) n += (size_t)snprintf(many + n, sizeof many - n, "%sa:1", i ? "," : "");
    assert_int_equal(PARSE("-m", "x", "--stages", many), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "at most 15 stages"));
}

static void options_of_a_split_need_one(void **state) {
    (void)state;
    char *const cases[] = {"--layers=0..5", "--wire=f16", "--loopback-plaintext", "--stage-wait=3", "--activations=1"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(PARSE("-m", "x", cases[i]), SKIPPY_E_INVALID);
        assert_non_null(strstr(e.text, "belong"));
    }
    assert_int_equal(PARSE("--package", "p"), SKIPPY_OK);
    assert_string_equal(o.run.model.path, "p");
}

static void help_needs_no_model(void **state) {
    (void)state;
    assert_int_equal(PARSE("--help"), SKIPPY_OK);
    assert_true(o.run.help);
}

static void keys_come_from_flags_files_and_the_environment(void **state) {
    (void)state;
    char tenant[SK_TENANT_CAP], path[] = "keys-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "three\n", 6), 6);
    close(fd);
    setenv("SKIPPY_API_KEY", "four,five", 1);
    assert_int_equal(PARSE("-m", "x", "--api-key", "one,two", "--api-key", "six", "--api-key-file", path), SKIPPY_OK);
    unlink(path);
    assert_int_equal(sk_auth_count(o.auth), 6);
    assert_true(sk_auth_check(o.auth, "three", 5, tenant));
    assert_true(sk_auth_check(o.auth, "five", 4, tenant));
    setenv("SKIPPY_API_KEY", "a,,b", 1);
    assert_int_equal(PARSE("-m", "x"), SKIPPY_E_INVALID);
    unsetenv("SKIPPY_API_KEY");
    assert_int_equal(PARSE("-m", "x", "--api-key", ""), SKIPPY_E_INVALID);
    assert_int_equal(PARSE("-m", "x", "--api-key-file", "there-is-no-such-file"), SKIPPY_E_NOT_FOUND);
}

static void adapters_keep_their_order_and_scale(void **state) {
    (void)state;
    assert_int_equal(PARSE("-m", "x", "--lora", "a.gguf", "--lora-scaled", "c:b.gguf:0.5"), SKIPPY_OK);
    assert_int_equal(o.run.engine.n_lora, 2);
    assert_string_equal(o.run.engine.lora[0].path, "a.gguf");
    assert_true(o.run.engine.lora[0].scale == 1.0f);
    assert_string_equal(o.run.engine.lora[1].path, "c:b.gguf");
    assert_true(o.run.engine.lora[1].scale == 0.5f);
}

static void templates_come_from_text_or_file(void **state) {
    (void)state;
    char path[] = "template-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "{{ x }}\n", 8), 8);
    close(fd);
    assert_int_equal(PARSE("-m", "x", "--chat-template", "one", "--chat-template-file", path), SKIPPY_OK);
    unlink(path);
    assert_string_equal(o.chat_template, "{{ x }}\n");
    assert_int_equal(PARSE("-m", "x", "--chat-template-file", path), SKIPPY_E_NOT_FOUND);
    assert_int_equal(PARSE("-m", "x", "--chat-template-file", "/dev/null"), SKIPPY_E_INVALID);
}

#define ON_CLEAN(test) cmocka_unit_test_setup_teardown(test, clean, release)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_CLEAN(defaults_need_only_a_model),
        ON_CLEAN(llama_servers_flags_have_their_meaning),
        ON_CLEAN(cache_and_server_flags_are_applied),
        ON_CLEAN(flags_that_make_no_difference_are_accepted),
        ON_CLEAN(wrong_values_name_the_flag_and_the_value),
        ON_CLEAN(stores_outside_of_the_runtime),
        ON_CLEAN(what_llama_server_has_and_this_server_lacks_is_refused_with_words),
        ON_CLEAN(a_head_is_told_its_layers_stages_and_links),
        ON_CLEAN(what_a_head_cannot_do_is_refused_with_words),
        ON_CLEAN(options_of_a_split_need_one),
        ON_CLEAN(help_needs_no_model),
        ON_CLEAN(keys_come_from_flags_files_and_the_environment),
        ON_CLEAN(adapters_keep_their_order_and_scale),
        ON_CLEAN(templates_come_from_text_or_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
