#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "runtime/logits.h"
#include "runtime/native_guard.h"
#include "runtime/sampler.h"
#include "runtime/test_gguf.h"

static sk_model *model;
static int32_t n_vocab;
static float *row;

static int load(void **state) {
    (void)state;
    char file[500];
    sk_err e = {0};
    if (!gg_vocab_path("ggml-vocab-llama-bpe.gguf", file, sizeof file)) return 0; /* every test then skips */
    if (sk_model_load(&(sk_model_params){.path = file, .vocab_only = true}, &model, &e) != SKIPPY_OK) return -1;
    n_vocab = sk_model_get_info(model)->n_vocab;
    row = malloc((size_t)n_vocab * sizeof *row);
    return row ? 0 : -1;
}

static int unload(void **state) {
    (void)state;
    free(row);
    sk_model_free(model);
    return 0;
}

static uint64_t rng_state;

static float noise(void) {
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (float)(rng_state >> 40) / (float)(1 << 24);
}

/* A row of pseudo-random logits in 0..8, the same for the same seed. */
static void fill_row(uint64_t seed) {
    if (!model) {
        print_message("skipped: ggml-vocab-llama-bpe.gguf was not found (set LLAMA_CPP_SRC)\n");
        skip();
    }
    rng_state = seed;
    for (int32_t i = 0; i < n_vocab; i++) row[i] = 8 * noise();
}

static sk_sampling defaults(void) {
    sk_sampling s;
    sk_sampling_defaults(&s);
    s.seed = 42;
    return s;
}

static sk_sampling greedy(void) {
    sk_sampling s = defaults();
    s.temperature = 0;
    return s;
}

static sk_sampler *make(sk_sampling s) {
    sk_sampler *out;
    sk_err e = {0};
    if (sk_sampler_create(model, &s, &out, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    return out;
}

static int32_t sample(sk_sampler *s) {
    int32_t token = -1;
    sk_err e = {0};
    if (sk_sampler_sample(s, row, &token, NULL, NULL, NULL, &e) != SKIPPY_OK) fail_msg("%s", e.text);
    return token;
}

static int32_t slow_argmax(void) {
    int32_t best = 0;
    for (int32_t i = 1; i < n_vocab; i++) {
        if (row[i] > row[best]) best = i;
    }
    return best;
}

/* The single token of a text; fails when the text is several tokens. */
static int32_t token_of(const char *text) {
    int32_t *tokens;
    size_t n;
    assert_int_equal(sk_model_tokenize(model, text, strlen(text), false, true, &tokens, &n), SKIPPY_OK);
    assert_int_equal(n, 1);
    int32_t t = tokens[0];
    free(tokens);
    return t;
}

static void greedy_is_the_first_largest_logit(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        fill_row(seed);
        sk_sampler *s = make(greedy());
        assert_int_equal(sample(s), slow_argmax());
        row[n_vocab - 1] = row[77777] = row[1023] = 9; /* equal values: the lowest token */
        assert_int_equal(sample(s), 1023);
        sk_sampler_free(s);
    }
}

static void nan_is_never_chosen(void **state) {
    (void)state;
    fill_row(3);
    row[5] = NAN;
    row[100000] = 20;
    row[n_vocab - 1] = NAN;
    sk_sampler *g = make(greedy()), *r = make(defaults());
    assert_int_equal(sample(g), 100000);
    assert_int_equal(sample(r), 100000);
    for (int32_t i = 0; i < n_vocab; i++) row[i] = i % 2 ? NAN : -INFINITY;
    int32_t token;
    sk_err e = {0};
    assert_int_equal(sk_sampler_sample(g, row, &token, NULL, NULL, NULL, &e), SKIPPY_E_RUNTIME);
    assert_int_equal(sk_sampler_sample(r, row, &token, NULL, NULL, NULL, &e), SKIPPY_E_RUNTIME);
    sk_sampler_free(g);
    sk_sampler_free(r);
}

static void top_k_of_one_is_greedy(void **state) {
    (void)state;
    sk_sampling p = defaults();
    p.top_k = 1;
    p.temperature = 2;
    fill_row(4);
    sk_sampler *s = make(p);
    for (int i = 0; i < 20; i++) assert_int_equal(sample(s), slow_argmax());
    sk_sampler_free(s);
}

static void the_same_seed_gives_the_same_sequence(void **state) {
    (void)state;
    sk_sampling p = defaults();
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    int32_t first[50];
    int other = 0;
    fill_row(5);
    for (int round = 0; round < 3; round++) {
        p.seed = round < 2 ? 7 : 8;
        sk_sampler *s = make(p);
        assert_int_equal(sk_sampler_seed(s), p.seed);
        for (int i = 0; i < 50; i++) {
            int32_t t = sample(s);
            if (round == 0) first[i] = t;
            if (round == 1) assert_int_equal(t, first[i]);
            if (round == 2) other += t != first[i];
        }
        sk_sampler_free(s);
    }
    assert_true(other > 25);
}

static void a_random_seed_is_chosen_and_reported(void **state) {
    (void)state;
    sk_sampling p = defaults();
    p.seed = UINT32_MAX;
    fill_row(6);
    sk_sampler *a = make(p), *b = make(p);
    assert_int_not_equal(sk_sampler_seed(a), UINT32_MAX);
    assert_int_not_equal(sk_sampler_seed(a), sk_sampler_seed(b)); /* equal once in 2^32 runs */
    p.seed = sk_sampler_seed(a);
    sk_sampler *again = make(p);
    for (int i = 0; i < 20; i++) assert_int_equal(sample(a), sample(again));
    sk_sampler_free(a);
    sk_sampler_free(b);
    sk_sampler_free(again);
}

/* Three tokens with probabilities 1/2, 1/3, 1/6: with 6000 draws the statistic has two degrees of freedom, and 13.8 is
 * exceeded by chance once in a thousand; the seed is fixed, so this either always passes or always fails. */
static void draws_follow_the_distribution(void **state) {
    (void)state;
    const double expected[3] = {3000, 2000, 1000};
    double seen[3] = {0}, chi = 0;
    sk_sampling p = defaults();
    p.temperature = 1;
    p.top_p = 1;
    p.min_p = 0;
    p.top_k = 3; /* keeps the three; also cheaper than the whole vocabulary */
    fill_row(7);
    for (int32_t i = 0; i < n_vocab; i++) row[i] = -1000;
    row[10] = logf(3);
    row[20000] = logf(2);
    row[100000] = 0;
    sk_sampler *s = make(p);
    for (int i = 0; i < 6000; i++) {
        int32_t t = sample(s);
        assert_true(t == 10 || t == 20000 || t == 100000);
        seen[t == 10 ? 0 : t == 20000 ? 1 : 2]++;
    }
    for (int i = 0; i < 3; i++) chi += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
    if (chi > 13.8) fail_msg("chi-square %.1f: %.0f %.0f %.0f", chi, seen[0], seen[1], seen[2]);
    sk_sampler_free(s);
}

static void bias_bans_and_favours(void **state) {
    (void)state;
    fill_row(8);
    int32_t best = slow_argmax();
    sk_logit_bias bias[3] = {{best, -INFINITY}, {500, 3}, {500, 100}}; /* two entries of one token add up */
    sk_sampling p = greedy();
    p.bias = bias;
    p.n_bias = 1;
    sk_sampler *s = make(p);
    int32_t second = sample(s);
    assert_int_not_equal(second, best);
    row[best] = -INFINITY;
    assert_int_equal(second, slow_argmax());
    sk_sampler_free(s);
    p.n_bias = 3;
    s = make(p);
    assert_int_equal(sample(s), 500);
    sk_sampler_free(s);
    fill_row(8);
    p = defaults();
    p.bias = bias;
    p.n_bias = 1;
    p.top_k = 5;
    s = make(p);
    for (int i = 0; i < 50; i++) assert_int_not_equal(sample(s), best);
    sk_sampler_free(s);
}

static void ignore_eos_bans_every_end_token(void **state) {
    (void)state;
    size_t n;
    fill_row(9);
    const int32_t *eog = sk_model_eog_tokens(model, &n);
    for (size_t i = 0; i < n; i++) row[eog[i]] = 50;
    sk_sampling p = greedy();
    sk_sampler *s = make(p);
    assert_true(sk_model_is_eog(model, sample(s)));
    sk_sampler_free(s);
    for (int hot = 0; hot < 2; hot++) {
        p = hot ? defaults() : greedy();
        p.ignore_eos = true;
        s = make(p);
        assert_false(sk_model_is_eog(model, sample(s)));
        sk_sampler_free(s);
    }
}

static void banning_everything_is_an_error_not_a_crash(void **state) {
    (void)state;
    fill_row(10);
    sk_logit_bias *bias = malloc((size_t)n_vocab * sizeof *bias);
    assert_non_null(bias);
    for (int32_t i = 0; i < n_vocab; i++) bias[i] = (sk_logit_bias){i, -INFINITY};
    for (int hot = 0; hot < 2; hot++) {
        sk_sampling p = hot ? defaults() : greedy();
        p.bias = bias;
        p.n_bias = (size_t)n_vocab;
        sk_sampler *s = make(p);
        int32_t token;
        sk_err e = {0};
        assert_int_equal(sk_sampler_sample(s, row, &token, NULL, NULL, NULL, &e), SKIPPY_E_INVALID);
        assert_non_null(strstr(e.text, "no token"));
        sk_sampler_free(s);
    }
    free(bias);
}

static void penalties_change_the_choice(void **state) {
    (void)state;
    fill_row(11);
    row[1000] = 10;
    row[2000] = 9;
    sk_sampling p = greedy();
    p.presence_penalty = 2;
    sk_sampler *s = make(p);
    assert_int_equal(sample(s), 1000);
    assert_int_equal(sample(s), 2000); /* its own output counts */
    sk_sampler_free(s);
    s = make(p);
    sk_sampler_prime(s, (int32_t[]){1000}, 1);
    assert_int_equal(sample(s), 2000); /* the prompt counts */
    sk_sampler_free(s);
    p.repeat_last_n = 0;
    s = make(p);
    sk_sampler_prime(s, (int32_t[]){1000}, 1);
    assert_int_equal(sample(s), 1000); /* switched off */
    sk_sampler_free(s);
}

static void penalties_forget_what_is_too_old(void **state) {
    (void)state;
    fill_row(12);
    row[1000] = 10;
    row[2000] = 9;
    sk_sampling p = greedy();
    p.repeat_penalty = 2;
    p.repeat_last_n = 4;
    int32_t prompt[6] = {1000, 1, 2, 3, 4, 5};
    sk_sampler *s = make(p);
    sk_sampler_prime(s, prompt, 6);
    assert_int_equal(sample(s), 1000);
    sk_sampler_free(s);
    s = make(p);
    sk_sampler_prime(s, prompt, 4);
    assert_int_equal(sample(s), 2000);
    sk_sampler_free(s);
    p.repeat_last_n = -1; /* the whole context */
    s = make(p);
    sk_sampler_prime(s, prompt, 6);
    assert_int_equal(sample(s), 2000);
    sk_sampler_free(s);
}

static void dry_stops_a_repeated_sequence(void **state) {
    (void)state;
    fill_row(13);
    row[1004] = 10;
    row[2000] = 9;
    sk_sampling p = greedy();
    p.dry_multiplier = 5;
    sk_sampler *s = make(p);
    sk_sampler_prime(s, (int32_t[]){1001, 1002, 1003, 1004, 1001, 1002, 1003}, 7);
    assert_int_equal(sample(s), 2000);
    sk_sampler_free(s);
}

static void every_sampler_of_the_chain_can_be_used(void **state) {
    (void)state;
    fill_row(14);
    for (int variant = 0; variant < 7; variant++) {
        sk_sampling p = defaults();
        if (variant == 0) p.top_n_sigma = 1;
        if (variant == 1) p.typical_p = 0.5f;
        if (variant == 2) p.xtc_probability = 1;
        if (variant == 3) p.dynatemp_range = 0.5f;
        if (variant == 4) p.mirostat = 1;
        if (variant == 5) p.mirostat = 2;
        if (variant == 6) p.min_keep = 3;
        sk_sampler *a = make(p), *b = make(p);
        for (int i = 0; i < 10; i++) {
            int32_t t = sample(a);
            assert_true(t >= 0 && t < n_vocab);
            assert_int_equal(t, sample(b));
        }
        sk_sampler_free(a);
        sk_sampler_free(b);
    }
}

static void logprobs_are_the_softmax_of_the_raw_row(void **state) {
    (void)state;
    fill_row(15);
    double max = (double)row[slow_argmax()], sum = exp((double)row[0] - max);
    for (int32_t i = 1; i < n_vocab; i++) sum += exp((double)row[i] - max);
    assert_true(sum >= 1); /* the largest entry alone gives 1 */
    sk_logit_bias ban = {slow_argmax(), -INFINITY};
    sk_sampling p = greedy();
    p.n_probs = 5;
    p.bias = &ban; /* does not change the reported probabilities */
    p.n_bias = 1;
    sk_sampler *s = make(p);
    sk_token_prob chosen, top[5];
    size_t n_top;
    int32_t token;
    sk_err e = {0};
    assert_int_equal(sk_sampler_sample(s, row, &token, &chosen, top, &n_top, &e), SKIPPY_OK);
    assert_int_equal(n_top, 5);
    assert_int_equal(top[0].token, ban.token);
    assert_int_equal(top[1].token, token);
    assert_int_equal(chosen.token, token);
    for (size_t i = 0; i < 5; i++) {
        double want = (double)row[top[i].token] - max - log(sum);
        assert_true(fabs((double)top[i].logprob - want) < 1e-5);
        if (i) assert_true(row[top[i].token] <= row[top[i - 1].token]);
    }
    assert_true(chosen.logprob == top[1].logprob);
    sk_sampler_free(s);
}

static void a_grammar_allows_only_its_language(void **state) {
    (void)state;
    fill_row(16);
    char text[64];
    for (int seed = 0; seed < 6; seed++) {
        sk_sampling p = seed ? defaults() : greedy();
        p.seed = (uint32_t)seed;
        if (seed == 5) p.mirostat = 2;
        p.grammar = "root ::= \"yes\" | \"no\"";
        sk_sampler *s = make(p);
        size_t at = 0;
        for (int i = 0; i < 8; i++) {
            int32_t t = sample(s);
            if (sk_model_is_eog(model, t)) break;
            at += sk_model_piece(model, t, false, text + at, sizeof text - 1 - at);
        }
        text[at] = 0;
        if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0) fail_msg("the grammar let '%s' through", text);
        sk_sampler_free(s);
    }
}

static void the_grammar_keeps_a_free_choice_that_it_allows(void **state) {
    (void)state;
    fill_row(17);
    int32_t no = token_of("no");
    row[no] = 30;
    sk_sampling p = greedy();
    p.grammar = "root ::= \"yes\" | \"no\"";
    sk_sampler *s = make(p);
    assert_int_equal(sample(s), no);
    sk_sampler_free(s);
}

static void a_grammar_that_is_not_one_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"root ::= \"yes", "start ::= \"yes\"", "root ::= missing", "root ::= root \"a\""};
    fill_row(18);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        sk_sampling p = defaults();
        sk_sampler *s;
        sk_err e = {0};
        p.grammar = bad[i];
        assert_int_equal(sk_sampler_create(model, &p, &s, &e), SKIPPY_E_INVALID);
        assert_null(s);
        assert_non_null(strstr(e.text, "grammar"));
    }
}

static void a_grammar_that_bans_leave_no_token_for_is_an_error(void **state) {
    (void)state;
    fill_row(19);
    sk_logit_bias ban[2] = {{token_of("a"), -INFINITY}, {0, 0}};
    sk_sampling p = greedy();
    p.grammar = "root ::= \"a\"";
    p.bias = ban;
    p.n_bias = 1;
    sk_sampler *s = make(p);
    int32_t token;
    sk_err e = {0};
    assert_int_equal(sk_sampler_sample(s, row, &token, NULL, NULL, NULL, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "grammar allows no token"));
    sk_sampler_free(s);
}

/* Makes one token the model's clear wish and samples. */
static int32_t sample_wishing(sk_sampler *s, int32_t wish) {
    float before = row[wish];
    row[wish] = 40;
    int32_t t = sample(s);
    row[wish] = before;
    return t;
}

static void a_lazy_grammar_begins_at_its_trigger(void **state) {
    (void)state;
    fill_row(20);
    int32_t call = token_of("call"), hello = token_of("hello"), yes = token_of("yes");
    const sk_trigger triggers[] = {
        {.type = SK_TRIGGER_TOKEN, .token = call},
        {.type = SK_TRIGGER_WORD, .text = "call"},
        {.type = SK_TRIGGER_PATTERN, .text = "ca[l]+"},
        {.type = SK_TRIGGER_PATTERN_FULL, .text = "[\\s\\S]*(call)"},
    };
    for (size_t i = 0; i < sizeof triggers / sizeof triggers[0]; i++) {
        sk_sampling p = greedy();
        p.grammar = "root ::= \"call\" (\"yes\" | \"no\")";
        p.grammar_lazy = true;
        p.triggers = &triggers[i];
        p.n_triggers = 1;
        sk_sampler *s = make(p);
        assert_int_equal(sample_wishing(s, hello), hello); /* free until the trigger */
        assert_int_equal(sample_wishing(s, call), call);
        assert_int_not_equal(sample_wishing(s, hello), hello); /* constrained now */
        sk_sampler_free(s);
        s = make(p);
        assert_int_equal(sample_wishing(s, call), call);
        assert_int_equal(sample_wishing(s, yes), yes);
        assert_true(sk_model_is_eog(model, sample_wishing(s, hello))); /* the language ends here */
        sk_sampler_free(s);
    }
}

static void trigger_words_are_taken_literally(void **state) {
    (void)state;
    fill_row(21);
    const sk_trigger trigger = {.type = SK_TRIGGER_WORD, .text = "c.l(l)"};
    int32_t call = token_of("call"), hello = token_of("hello");
    sk_sampling p = greedy();
    p.grammar = "root ::= \"x\"";
    p.grammar_lazy = true;
    p.triggers = &trigger;
    p.n_triggers = 1;
    sk_sampler *s = make(p);
    assert_int_equal(sample_wishing(s, call), call); /* as a pattern the word would match here */
    assert_int_equal(sample_wishing(s, hello), hello);
    sk_sampler_free(s);
}

static bool guard_that_caught(void (*fn)(void *ud), void *ud, char *msg, size_t cap) {
    (void)fn;
    (void)ud;
    snprintf(msg, cap, "caught %d", 7);
    return false;
}

static void what_llama_cpp_throws_becomes_an_error(void **state) {
    (void)state;
    fill_row(23);
    sk_sampling p = greedy();
    p.grammar = "root ::= \"yes\"";
    sk_sampler *s = make(p), *other;
    int32_t token;
    sk_err e = {0};
    sk_native_guard_install(guard_that_caught);
    int accepted = sk_sampler_sample(s, row, &token, NULL, NULL, NULL, &e);
    bool accept_words = strstr(e.text, "caught 7") != NULL;
    int created = sk_sampler_create(model, &p, &other, &e);
    bool create_words = strstr(e.text, "caught 7") != NULL;
    sk_native_guard_install(NULL); /* before an assertion can leave the test */
    assert_int_equal(accepted, SKIPPY_E_INVALID);
    assert_int_equal(created, SKIPPY_E_INVALID);
    assert_null(other);
    assert_true(accept_words && create_words);
    sk_sampler_free(s);
}

static void invalid_settings_are_refused_by_name(void **state) {
    (void)state;
    fill_row(22);
    const sk_logit_bias outside = {n_vocab, 1}, not_a_number = {1, NAN}, infinite = {1, INFINITY};
    const sk_trigger no_text = {.type = SK_TRIGGER_WORD}, no_token = {.type = SK_TRIGGER_TOKEN, .token = -1};
    const int32_t preserved = -5;
    struct {
        sk_sampling s;
        const char *field;
    } c[32];
    size_t n = 0;
#define CASE(name, change)                                                                                             \
    do {                                                                                                               \
        c[n].s = defaults();                                                                                           \
        c[n].field = name;                                                                                             \
        sk_sampling *s = &c[n++].s;                                                                                    \
        change;                                                                                                        \
    } while (0)
    CASE("temperature", s->temperature = NAN);
    CASE("top_p", s->top_p = -0.1f);
    CASE("min_p", s->min_p = INFINITY);
    CASE("typical_p", s->typical_p = -1);
    CASE("top_n_sigma", s->top_n_sigma = NAN);
    CASE("xtc_probability", s->xtc_probability = -1);
    CASE("xtc_threshold", s->xtc_threshold = NAN);
    CASE("dynatemp_range", s->dynatemp_range = -1);
    CASE("dynatemp_exponent", s->dynatemp_exponent = INFINITY);
    CASE("repeat_last_n", s->repeat_last_n = -2);
    CASE("repeat_penalty", s->repeat_penalty = 0);
    CASE("frequency_penalty", s->frequency_penalty = NAN);
    CASE("presence_penalty", s->presence_penalty = INFINITY);
    CASE("dry_multiplier", s->dry_multiplier = -1);
    CASE("dry_base", s->dry_base = NAN);
    CASE("dry_allowed_length", s->dry_allowed_length = -1);
    CASE("dry_penalty_last_n", s->dry_penalty_last_n = -2);
    CASE("mirostat", s->mirostat = 3);
    CASE("mirostat_tau", s->mirostat_tau = -1);
    CASE("mirostat_eta", s->mirostat_eta = NAN);
    CASE("min_keep", s->min_keep = -1);
    CASE("n_probs", s->n_probs = n_vocab + 1);
    CASE("logit_bias", (s->bias = &outside, s->n_bias = 1));
    CASE("logit_bias", (s->bias = &not_a_number, s->n_bias = 1));
    CASE("logit_bias", (s->bias = &infinite, s->n_bias = 1));
    CASE("trigger", (s->triggers = &no_text, s->n_triggers = 1));
    CASE("trigger", (s->triggers = &no_token, s->n_triggers = 1));
    CASE("preserved_tokens", (s->preserved_tokens = &preserved, s->n_preserved = 1));
    CASE("trigger", (s->grammar = "root ::= \"a\"", s->grammar_lazy = true));
#undef CASE
    for (size_t i = 0; i < n; i++) {
        sk_sampler *out;
        sk_err e = {0};
        assert_int_equal(sk_sampler_create(model, &c[i].s, &out, &e), SKIPPY_E_INVALID);
        assert_null(out);
        if (!strstr(e.text, c[i].field)) fail_msg("'%s' does not name %s", e.text, c[i].field);
    }
}

/* The largest logits of a row, as a stage sends them. */
static size_t best_of_row(int32_t *tokens, float *logits, size_t k) {
    sk_token_prob top[16];
    size_t n = sk_logits_top(row, n_vocab, 0, top, k);
    for (size_t i = 0; i < n; i++) {
        tokens[i] = top[i].token;
        logits[i] = row[top[i].token];
    }
    return n;
}

static void largest_logits_give_the_token_of_the_whole_row(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        fill_row(seed);
        sk_logit_bias bias[20];
        size_t n_bias = seed % 20; /* of the best tokens themselves, and with equal logits around them */
        int32_t tokens[16], from_best = -2;
        float logits[16];
        for (int i = 0; i < 6; i++) row[(int32_t)(noise() * 1000)] = 9;
        size_t n = best_of_row(tokens, logits, 16);
        for (size_t i = 0; i < n_bias; i++)
            bias[i] = (sk_logit_bias){.token = i < 16 ? tokens[i] : (int32_t)i, .bias = i % 3 ? -INFINITY : -0.5F};
        sk_sampling s = greedy();
        s.bias = bias;
        s.n_bias = n_bias;
        sk_sampler *smp = make(s);
        assert_true(sk_sampler_takes_best(smp));
        int32_t from_row = sample(smp);
        int rc = sk_sampler_sample_best(smp, tokens, logits, n, false, &from_best);
        if (rc == SKIPPY_OK)
            assert_int_equal(from_best, from_row);
        else
            assert_true(n_bias > 0); /* they say so instead of choosing another */
        sk_sampler_free(smp);
    }
}

static void whole_row_is_asked_for_when_all_largest_logits_are_banned(void **state) {
    (void)state;
    fill_row(3);
    int32_t tokens[16], token = -1;
    float logits[16];
    sk_logit_bias bias[16];
    size_t n = best_of_row(tokens, logits, 16);
    for (size_t i = 0; i < n; i++) bias[i] = (sk_logit_bias){.token = tokens[i], .bias = -INFINITY};
    sk_sampling s = greedy();
    s.bias = bias;
    s.n_bias = n;
    sk_sampler *smp = make(s);
    assert_int_equal(sk_sampler_sample_best(smp, tokens, logits, n, false, &token), SKIPPY_E_NOT_FOUND);
    sk_sampler_free(smp);
}

static bool takes_best(sk_sampling s) {
    sk_sampler *smp = make(s);
    bool takes = sk_sampler_takes_best(smp);
    sk_sampler_free(smp);
    return takes;
}

static void only_plain_greedy_sampling_needs_no_row(void **state) {
    (void)state;
    fill_row(1);
    const sk_logit_bias lift = {.token = 5, .bias = 1};
    assert_true(takes_best(greedy()));
    assert_false(takes_best(defaults()));
    sk_sampling s = greedy();
    s.n_probs = 1;
    assert_false(takes_best(s));
    s = greedy();
    s.repeat_penalty = 1.1F;
    assert_false(takes_best(s));
    s = greedy();
    s.grammar = "root ::= \"a\"";
    assert_false(takes_best(s));
    s = greedy();
    s.bias = &lift;
    s.n_bias = 1;
    assert_false(takes_best(s));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_is_the_first_largest_logit),
        cmocka_unit_test(nan_is_never_chosen),
        cmocka_unit_test(top_k_of_one_is_greedy),
        cmocka_unit_test(the_same_seed_gives_the_same_sequence),
        cmocka_unit_test(a_random_seed_is_chosen_and_reported),
        cmocka_unit_test(draws_follow_the_distribution),
        cmocka_unit_test(bias_bans_and_favours),
        cmocka_unit_test(ignore_eos_bans_every_end_token),
        cmocka_unit_test(banning_everything_is_an_error_not_a_crash),
        cmocka_unit_test(penalties_change_the_choice),
        cmocka_unit_test(penalties_forget_what_is_too_old),
        cmocka_unit_test(dry_stops_a_repeated_sequence),
        cmocka_unit_test(every_sampler_of_the_chain_can_be_used),
        cmocka_unit_test(logprobs_are_the_softmax_of_the_raw_row),
        cmocka_unit_test(a_grammar_allows_only_its_language),
        cmocka_unit_test(the_grammar_keeps_a_free_choice_that_it_allows),
        cmocka_unit_test(a_grammar_that_is_not_one_is_refused),
        cmocka_unit_test(a_grammar_that_bans_leave_no_token_for_is_an_error),
        cmocka_unit_test(a_lazy_grammar_begins_at_its_trigger),
        cmocka_unit_test(trigger_words_are_taken_literally),
        cmocka_unit_test(largest_logits_give_the_token_of_the_whole_row),
        cmocka_unit_test(whole_row_is_asked_for_when_all_largest_logits_are_banned),
        cmocka_unit_test(only_plain_greedy_sampling_needs_no_row),
        cmocka_unit_test(what_llama_cpp_throws_becomes_an_error),
        cmocka_unit_test(invalid_settings_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
