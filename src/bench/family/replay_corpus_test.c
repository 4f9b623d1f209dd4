/* The corpus of conversations: what is read, which steps make no sense where they stand, and the delivered file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/test_folder.h"
#include "bench/family/corpus.h"

#define SYSTEM "{\"do\":\"system\",\"text\":\"Turn {{turn}}.\\nBe brief.\"}"
#define USER "{\"do\":\"user\",\"text\":\"Hello\"}"
#define TOOL "{\"do\":\"tool\",\"text\":\"ok\"}"
#define ASK "{\"do\":\"ask\",\"max_tokens\":16}"
#define EDIT(N) "{\"do\":\"edit\",\"drop\":" N ",\"text\":\"Good day\"}"
#define REGENERATE "{\"do\":\"regenerate\",\"max_tokens\":12}"
#define SIDE "{\"do\":\"side\",\"text\":\"A title\",\"max_tokens\":8}"
#define TALK(KEY, STEPS) "{\"key\":\"" KEY "\",\"label\":\"L\",\"what\":\"W\",\"steps\":[" STEPS "]}"
#define CORPUS(TALKS) "{\"version\":1,\"conversations\":[" TALKS "]}"
#define ONE(STEPS) CORPUS(TALK("talk", STEPS))

static void parse_ok(const char *text, sk_replay_corpus *c) {
    sk_err e = {0};
    if (sk_replay_parse(text, strlen(text), c, &e) != SKIPPY_OK) fail_msg("refused: %s (%.300s)", e.text, text);
}

static void accepted(const char *text) {
    sk_replay_corpus c;
    parse_ok(text, &c);
    sk_replay_free(&c);
    assert_null(c.v);
}

static void refused_with(const char *text, size_t len, int code, const char *words) {
    sk_replay_corpus c;
    sk_err e = {0};
    const int rc = sk_replay_parse(text, len, &c, &e);
    if (rc != code) fail_msg("code %d instead of %d for %.300s: %s", rc, code, text, e.text);
    if (e.code != code || !strstr(e.text, words)) fail_msg("'%s' is not in: %s", words, e.text);
    assert_null(c.v);
    assert_int_equal(c.n, 0);
    assert_int_equal(sk_replay_parse(text, len, &c, NULL), code); /* words are optional */
}

static void refused(const char *text, const char *words) {
    refused_with(text, strlen(text), SKIPPY_E_INVALID, words);
}

/* ---- reading ---- */

static void every_kind_of_step_arrives_as_it_was_written(void **state) {
    (void)state;
    static const sk_replay_kind kinds[] = {SK_REPLAY_SYSTEM, SK_REPLAY_USER, SK_REPLAY_ASK,
                                           SK_REPLAY_TOOL,   SK_REPLAY_ASK,  SK_REPLAY_EDIT,
                                           SK_REPLAY_SIDE,   SK_REPLAY_ASK,  SK_REPLAY_REGENERATE};
    sk_replay_corpus c;
    parse_ok(ONE(SYSTEM "," USER ",{\"do\":\"ask\",\"max_tokens\":16,\"strip_percent\":50}," TOOL "," ASK
                        "," EDIT("3") "," SIDE "," ASK "," REGENERATE),
             &c);
    const sk_replay_conversation *talk = &c.v[0];
    assert_int_equal(c.n, 1);
    assert_string_equal(talk->key, "talk");
    assert_string_equal(talk->label, "L");
    assert_string_equal(talk->what, "W");
    assert_int_equal(talk->n_steps, sizeof kinds / sizeof kinds[0]);
    for (size_t i = 0; i < talk->n_steps; i++) assert_int_equal(talk->step[i].kind, kinds[i]);
    assert_string_equal(talk->step[0].text, "Turn {{turn}}.\nBe brief.");
    assert_int_equal(talk->step[2].max_tokens, 16);
    assert_int_equal(talk->step[2].strip_percent, 50);
    assert_null(talk->step[2].text);
    assert_int_equal(talk->step[4].strip_percent, 0);
    assert_string_equal(talk->step[3].text, "ok");
    assert_int_equal(talk->step[5].drop, 3);
    assert_string_equal(talk->step[5].text, "Good day");
    assert_string_equal(talk->step[6].text, "A title");
    assert_int_equal(talk->step[6].max_tokens, 8);
    assert_int_equal(talk->step[8].max_tokens, 12);
    assert_int_equal(talk->n_asks, 5); /* asks, the side call and the regenerated answer */
    sk_replay_free(&c);
}

static void the_source_is_optional_and_checked(void **state) {
    (void)state;
    accepted(
        "{\"version\":1,\"source\":{\"written\":true,\"note\":\"n\"},\"conversations\":[" TALK("a", USER "," ASK) "]}");
    accepted("{\"version\":1,\"source\":{\"written\":false},\"conversations\":[" TALK("a", USER "," ASK) "]}");
    refused("{\"version\":1,\"source\":{},\"conversations\":[]}", "source.written: is missing");
    refused("{\"version\":1,\"source\":{\"written\":2},\"conversations\":[]}", "source.written: must be true or false");
    refused("{\"version\":1,\"source\":{\"written\":true,\"note\":2}}", "source.note: must be a text");
    refused("{\"version\":1,\"source\":{\"written\":true,\"by\":\"x\"}}", "source: there is no field 'by' here");
}

static void the_digest_is_that_of_the_bytes(void **state) {
    (void)state;
    sk_replay_corpus c;
    char hex[SK_SHA256_HEX];
    sk_sha256_text(ONE(USER "," ASK), strlen(ONE(USER "," ASK)), hex);
    parse_ok(ONE(USER "," ASK), &c);
    assert_string_equal(c.sha256, hex);
    sk_replay_free(&c);
}

/* ---- refusing ---- */

static void text_that_is_no_corpus_is_refused(void **state) {
    (void)state;
    refused("", "no valid JSON");
    refused("7", "no valid JSON");
    refused("[]", "the document: must be an object");
    refused("{}", "version: is missing");
    refused("{\"version\":3,\"talks\":[]}", "version: 3 is not known");
    refused("{\"version\":1}", "conversations: is missing");
    refused("{\"version\":1,\"conversations\":[],\"x\":1}", "there is no field 'x' here");
    refused(CORPUS(""), "conversations: has 0 elements");
    refused(CORPUS("[]"), "conversations[0]: must be an object");
    refused(CORPUS(TALK("a b", USER "," ASK)), "conversations[0].key: 'a b' may hold only");
    refused(CORPUS(TALK("a", USER "," ASK) "," TALK("a", USER "," ASK)), "conversation 'a': there is another one");
    refused("{\"version\":1,\"version\":1}", "duplicate");
}

static void a_wrong_field_of_a_conversation_is_named(void **state) {
    (void)state;
    refused(CORPUS("{\"key\":\"a\",\"what\":\"W\",\"steps\":[]}"), "conversation 'a'.label: is missing");
    refused(CORPUS("{\"key\":\"a\",\"label\":\"L\",\"steps\":[]}"), "conversation 'a'.what: is missing");
    refused(CORPUS("{\"key\":\"a\",\"label\":\"L\",\"what\":\"W\"}"), "conversation 'a'.steps: is missing");
    refused(CORPUS("{\"key\":\"a\",\"label\":\"L\",\"what\":\"W\",\"steps\":[],\"n\":1}"),
            "there is no field 'n' here");
    refused(ONE(""), "conversation 'talk'.steps: has 0 elements");
    refused(ONE("true"), "conversation 'talk'.steps[0]: must be an object");
}

static void a_wrong_field_of_a_step_is_named(void **state) {
    (void)state;
    refused(ONE("{}"), "conversation 'talk'.steps[0].do: is missing");
    refused(ONE("{\"do\":\"wait\"}"), "conversation 'talk'.steps[0].do: 'wait' is none of the allowed words");
    refused(ONE("{\"do\":\"user\"}"), "steps[0].text: is missing");
    refused(ONE("{\"do\":\"user\",\"text\":\"\"}"), "steps[0].text: has 0 bytes");
    refused(ONE("{\"do\":\"user\",\"text\":4}"), "steps[0].text: must be a text");
    refused(ONE("{\"do\":\"user\",\"text\":\"a\",\"max_tokens\":4}"), "steps[0]: there is no field 'max_tokens' here");
    refused(ONE(USER ",{\"do\":\"ask\"}"), "steps[1].max_tokens: is missing");
    refused(ONE(USER ",{\"do\":\"ask\",\"max_tokens\":0}"), "steps[1].max_tokens: 0 is out of bounds: 1 to 4096");
    refused(ONE(USER ",{\"do\":\"ask\",\"max_tokens\":4097}"), "steps[1].max_tokens: 4097 is out of bounds");
    refused(ONE(USER ",{\"do\":\"ask\",\"max_tokens\":4,\"text\":\"a\"}"), "steps[1]: there is no field 'text' here");
    refused(ONE(USER ",{\"do\":\"ask\",\"max_tokens\":4,\"strip_percent\":101}"),
            "strip_percent: 101 is out of bounds");
    refused(ONE(USER ",{\"do\":\"ask\",\"max_tokens\":4,\"strip_percent\":-1}"), "strip_percent: -1 is out of bounds");
    refused(ONE(USER "," ASK ",{\"do\":\"edit\",\"text\":\"a\"}"), "steps[2].drop: is missing");
    refused(ONE(USER "," ASK ",{\"do\":\"edit\",\"drop\":1}"), "steps[2].text: is missing");
    refused(ONE(USER "," ASK "," EDIT("0")), "steps[2].drop: 0 is out of bounds: 1 to 256");
    refused(ONE(USER "," ASK ",{\"do\":\"regenerate\"}"), "steps[2].max_tokens: is missing");
    refused(ONE(USER ",{\"do\":\"side\",\"max_tokens\":4}"), "steps[1].text: is missing");
    refused(ONE(USER ",{\"do\":\"side\",\"text\":\"a\"}"), "steps[1].max_tokens: is missing");
}

static void an_ask_needs_something_to_answer(void **state) {
    (void)state;
    static const char words[] = "'ask' needs a message of the user or a tool's result before it";
    refused(ONE(ASK), words);
    refused(ONE(SYSTEM "," ASK), words);
    refused(ONE(USER "," ASK "," ASK), "conversation 'talk'.steps[2]: 'ask' needs");
    refused(ONE(USER "," ASK "," REGENERATE "," ASK), words);
    accepted(ONE(TOOL "," ASK));
    accepted(ONE(USER "," TOOL "," ASK));
    accepted(ONE(USER "," SYSTEM "," SIDE "," ASK));
}

static void a_conversation_needs_an_ask(void **state) {
    (void)state;
    refused(ONE(USER "," SIDE), "conversation 'talk'.steps: there is no 'ask'");
}

static void an_edit_drops_no_more_than_there_is(void **state) {
    (void)state;
    refused(ONE(EDIT("1") "," ASK), "steps[0].drop: 1 messages cannot be dropped where there are 0");
    refused(ONE(SYSTEM "," USER "," ASK "," EDIT("3")), "drop: 3 messages cannot be dropped where there are 2");
    refused(ONE(USER "," ASK "," EDIT("2") "," ASK "," EDIT("3")), "steps[4].drop: 3 messages cannot be dropped");
    refused(ONE(USER "," ASK "," REGENERATE "," SIDE "," EDIT("3")), "where there are 2");
    accepted(ONE(USER "," ASK "," EDIT("2") "," ASK));
    accepted(ONE(USER "," ASK "," EDIT("1") "," ASK));
}

static void only_an_answer_can_be_regenerated(void **state) {
    (void)state;
    static const char words[] = "'regenerate' needs an answer before it";
    refused(ONE(REGENERATE), words);
    refused(ONE(USER "," REGENERATE), words);
    refused(ONE(USER "," ASK "," USER "," REGENERATE), words);
    refused(ONE(USER "," ASK "," EDIT("2") "," REGENERATE), words);
    accepted(ONE(USER "," ASK "," SIDE "," REGENERATE "," REGENERATE));
}

static void a_side_call_needs_a_first_message(void **state) {
    (void)state;
    refused(ONE(SYSTEM "," SIDE "," USER "," ASK), "steps[1]: 'side' needs a message of the user before it");
}

/* ---- limits ---- */

static sk_buf with_steps(size_t users) {
    sk_buf b = {0};
    sk_buf_str(&b, "{\"version\":1,\"conversations\":[{\"key\":\"talk\",\"label\":\"L\",\"what\":\"W\",\"steps\":[");
    for (size_t i = 0; i < users; i++) sk_buf_str(&b, USER ",");
    sk_buf_str(&b, ASK "]}]}");
    assert_false(b.failed);
    return b;
}

static sk_buf with_conversations(size_t n) {
    sk_buf b = {0};
    sk_buf_str(&b, "{\"version\":1,\"conversations\":[");
    for (size_t i = 0; i < n; i++) {
        sk_buf_printf(&b, "%s{\"key\":\"k%zu\",\"label\":\"L\",\"what\":\"W\",\"steps\":[" USER "," ASK "]}",
                      i ? "," : "", i);
    }
    sk_buf_str(&b, "]}");
    assert_false(b.failed);
    return b;
}

static sk_buf with_text(size_t len) {
    sk_buf b = {0};
    sk_buf_str(&b, "{\"version\":1,\"conversations\":[{\"key\":\"talk\",\"label\":\"L\",\"what\":\"W\",\"steps\":["
                   "{\"do\":\"user\",\"text\":\"");
    while (len-- > 0) sk_buf_str(&b, "x");
    sk_buf_str(&b, "\"}," ASK "]}]}");
    assert_false(b.failed);
    return b;
}

static void expect_limit(sk_buf fits, sk_buf more, const char *words) {
    accepted(fits.data);
    refused(more.data, words);
    sk_buf_free(&fits);
    sk_buf_free(&more);
}

static void counts_and_lengths_end_where_the_header_says(void **state) {
    (void)state;
    expect_limit(with_steps(255), with_steps(256), "conversation 'talk'.steps: has 257 elements; 1 to 256");
    expect_limit(with_conversations(32), with_conversations(33), "conversations: has 33 elements; 1 to 32");
    expect_limit(with_text(SK_CORPUS_MAX_PROMPT), with_text(SK_CORPUS_MAX_PROMPT + 1),
                 "steps[0].text: has 65537 bytes");
}

static void more_than_16_mib_are_not_parsed(void **state) {
    (void)state;
    char *text = malloc(SK_CORPUS_MAX_FILE + 2);
    assert_non_null(text);
    memset(text, ' ', SK_CORPUS_MAX_FILE + 1);
    text[SK_CORPUS_MAX_FILE + 1] = '\0';
    refused_with(text, SK_CORPUS_MAX_FILE + 1, SKIPPY_E_TOO_LARGE, "at most 16777216");
    free(text);
}

/* ---- files ---- */

static void write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void a_file_reads_like_its_text_and_errors_name_it(void **state) {
    (void)state;
    char folder[] = "/tmp/skippy-replay-XXXXXX", path[64];
    sk_replay_corpus c;
    sk_err e = {0};
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/talks.json", folder);

    assert_int_equal(sk_replay_load(path, &c, &e), SKIPPY_E_NOT_FOUND);
    write_file(path, ONE(USER "," ASK));
    assert_int_equal(sk_replay_load(path, &c, &e), SKIPPY_OK);
    assert_int_equal(c.v[0].n_steps, 2);
    assert_true(sk_sha256_is_hex(c.sha256));
    sk_replay_free(&c);

    write_file(path, ONE(ASK));
    assert_int_equal(sk_replay_load(path, &c, &e), SKIPPY_E_INVALID);
    assert_non_null(strstr(e.text, "talks.json': conversation 'talk'.steps[0]: 'ask' needs"));
    assert_null(c.v);

    assert_int_equal(truncate(path, SK_CORPUS_MAX_FILE + 1), 0);
    assert_int_equal(sk_replay_load(path, &c, &e), SKIPPY_E_TOO_LARGE);
    assert_int_equal(sk_replay_load(folder, &c, &e), SKIPPY_E_IO);
    assert_int_equal(test_remove_tree(folder), 0);
}

/* ---- the delivered file ---- */

static void load_delivered(sk_replay_corpus *c) {
    char path[1024];
    sk_err e = {0};
    const char *source = getenv("SKIPPY_SOURCE_DIR");
    snprintf(path, sizeof path, "%s/evals/skippy-agent-corpus.json", source ? source : ".");
    if (sk_replay_load(path, c, &e) != SKIPPY_OK) fail_msg("%s", e.text);
}

static const sk_replay_conversation *talk_of(const sk_replay_corpus *c, const char *key) {
    for (size_t i = 0; i < c->n; i++) {
        if (strcmp(c->v[i].key, key) == 0) return &c->v[i];
    }
    fail_msg("there is no conversation '%s'", key);
    return NULL;
}

static size_t count(const sk_replay_conversation *c, sk_replay_kind kind) {
    size_t n = 0;
    for (size_t i = 0; i < c->n_steps; i++) n += c->step[i].kind == kind;
    return n;
}

static void each_delivered_conversation_moves_as_its_name_says(void **state) {
    (void)state;
    sk_replay_corpus c;
    load_delivered(&c);
    assert_in_range(count(talk_of(&c, "coding"), SK_REPLAY_TOOL), 8, 10);
    assert_in_range(count(talk_of(&c, "edited"), SK_REPLAY_EDIT), 2, 10);
    assert_int_equal(count(talk_of(&c, "regenerate"), SK_REPLAY_REGENERATE), 2);
    assert_in_range(count(talk_of(&c, "side_calls"), SK_REPLAY_SIDE), 2, 10);

    const sk_replay_conversation *thinking = talk_of(&c, "thinking");
    for (size_t i = 0; i < thinking->n_steps; i++) {
        if (thinking->step[i].kind == SK_REPLAY_ASK) assert_int_equal(thinking->step[i].strip_percent, 50);
    }
    const sk_replay_step *first = &talk_of(&c, "volatile")->step[0];
    assert_int_equal(first->kind, SK_REPLAY_SYSTEM);
    const char *mark = strstr(first->text, "{{turn}}"), *line_end = strchr(first->text, '\n');
    assert_true(mark && line_end && mark < line_end);
    sk_replay_free(&c);
}

static void check_cost(const sk_replay_conversation *c, size_t *asks, size_t *bytes) {
    size_t own = 0;
    for (size_t i = 0; i < c->n_steps; i++) {
        const sk_replay_step *s = &c->step[i];
        own += s->text ? strlen(s->text) : 0;
        if (s->max_tokens) assert_in_range(s->max_tokens, 8, 24);
    }
    assert_in_range(own, 1, 5500);
    *asks += c->n_asks;
    *bytes += own;
}

/* A token is about four bytes of such text. */
static void the_delivered_conversations_are_affordable_on_a_slow_machine(void **state) {
    (void)state;
    sk_replay_corpus c;
    size_t asks = 0, bytes = 0;
    load_delivered(&c);
    for (size_t i = 0; i < c.n; i++) check_cost(&c.v[i], &asks, &bytes);
    assert_in_range(asks, 35, 45);
    assert_in_range(bytes, 12000, 20000);
    sk_replay_free(&c);
}

/* Many chat templates refuse two messages of one role in a row. */
static void the_delivered_conversations_alternate_between_user_and_answer(void **state) {
    (void)state;
    sk_replay_corpus c;
    load_delivered(&c);
    for (size_t i = 0; i < c.n; i++) {
        bool answered = true;
        for (size_t k = 0; k < c.v[i].n_steps; k++) {
            const sk_replay_step *s = &c.v[i].step[k];
            if (s->kind == SK_REPLAY_USER || s->kind == SK_REPLAY_TOOL) {
                assert_true(answered);
                answered = false;
            } else if (s->kind == SK_REPLAY_EDIT) {
                assert_true(answered);
                assert_int_equal(s->drop % 2, 0); /* pairs of message and answer */
                answered = false;
            } else if (s->kind == SK_REPLAY_ASK) {
                answered = true;
            }
        }
    }
    sk_replay_free(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_step_arrives_as_it_was_written),
        cmocka_unit_test(the_source_is_optional_and_checked),
        cmocka_unit_test(the_digest_is_that_of_the_bytes),
        cmocka_unit_test(text_that_is_no_corpus_is_refused),
        cmocka_unit_test(a_wrong_field_of_a_conversation_is_named),
        cmocka_unit_test(a_wrong_field_of_a_step_is_named),
        cmocka_unit_test(an_ask_needs_something_to_answer),
        cmocka_unit_test(a_conversation_needs_an_ask),
        cmocka_unit_test(an_edit_drops_no_more_than_there_is),
        cmocka_unit_test(only_an_answer_can_be_regenerated),
        cmocka_unit_test(a_side_call_needs_a_first_message),
        cmocka_unit_test(counts_and_lengths_end_where_the_header_says),
        cmocka_unit_test(more_than_16_mib_are_not_parsed),
        cmocka_unit_test(a_file_reads_like_its_text_and_errors_name_it),
        cmocka_unit_test(each_delivered_conversation_moves_as_its_name_says),
        cmocka_unit_test(the_delivered_conversations_are_affordable_on_a_slow_machine),
        cmocka_unit_test(the_delivered_conversations_alternate_between_user_and_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
