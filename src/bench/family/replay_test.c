#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/buf.h"
#include "bench/family/replay.h"

/* Conversations are literals here: the corpus has its own tests. */
#define CONVERSATION(...)                                                                                              \
    (sk_replay_conversation) {                                                                                         \
        .key = (char[]){"talk"}, .step = (sk_replay_step[]){__VA_ARGS__},                                              \
        .n_steps = sizeof((sk_replay_step[]){__VA_ARGS__}) / sizeof(sk_replay_step)                                    \
    }
#define SYSTEM(t)                                                                                                      \
    {                                                                                                                  \
        .kind = SK_REPLAY_SYSTEM, .text = (char[]) {                                                                   \
            t                                                                                                          \
        }                                                                                                              \
    }
#define USER(t)                                                                                                        \
    {                                                                                                                  \
        .kind = SK_REPLAY_USER, .text = (char[]) {                                                                     \
            t                                                                                                          \
        }                                                                                                              \
    }
#define TOOL(t)                                                                                                        \
    {                                                                                                                  \
        .kind = SK_REPLAY_TOOL, .text = (char[]) {                                                                     \
            t                                                                                                          \
        }                                                                                                              \
    }
#define ASK(percent)                                                                                                   \
    { .kind = SK_REPLAY_ASK, .max_tokens = 4, .strip_percent = (percent) }
#define EDIT(n, t)                                                                                                     \
    {                                                                                                                  \
        .kind = SK_REPLAY_EDIT, .drop = (n), .text = (char[]) {                                                        \
            t                                                                                                          \
        }                                                                                                              \
    }
#define REGENERATE                                                                                                     \
    { .kind = SK_REPLAY_REGENERATE, .max_tokens = 5 }
#define SIDE(t)                                                                                                        \
    {                                                                                                                  \
        .kind = SK_REPLAY_SIDE, .max_tokens = 6, .text = (char[]) {                                                    \
            t                                                                                                          \
        }                                                                                                              \
    }

/* The next request must have these messages ("role:content|role:content"); it gets this answer. */
static void expect(sk_replay_state *s, const char *messages, const char *answer) {
    sk_replay_request r;
    sk_err e = {0};
    sk_buf got = {0};
    size_t i = 0;
    const json_t *m = NULL;
    assert_int_equal(sk_replay_next(s, &r, &e), SKIPPY_OK);
    assert_non_null(r.messages);
    json_array_foreach(r.messages, i, m) {
        sk_buf_printf(&got, "%s%s:%s", i ? "|" : "", json_string_value(json_object_get(m, "role")),
                      json_string_value(json_object_get(m, "content")));
    }
    assert_string_equal(got.data, messages);
    assert_int_equal(sk_replay_answer(s, answer, &e), SKIPPY_OK);
    sk_buf_free(&got);
    sk_replay_request_free(&r);
}

static void expect_end(sk_replay_state *s) {
    sk_replay_request r;
    assert_int_equal(sk_replay_next(s, &r, NULL), SKIPPY_OK);
    assert_null(r.messages);
    sk_replay_end(s);
}

/* The conversation must be refused at its first request, in these words. */
static void expect_refused(const sk_replay_conversation *c, const char *words) {
    sk_replay_state s;
    sk_replay_request r;
    sk_err e = {0};
    assert_int_equal(sk_replay_begin(&s, c, &e), SKIPPY_OK);
    assert_int_equal(sk_replay_next(&s, &r, &e), SKIPPY_E_INVALID);
    assert_string_equal(e.text, words);
    assert_null(r.messages);
    sk_replay_end(&s);
}

static void the_servers_own_answers_stay_in_the_history(void **state) {
    (void)state;
    const sk_replay_conversation c = CONVERSATION(SYSTEM("be short"), USER("one"), ASK(0), TOOL("42"), ASK(0));
    sk_replay_state s;
    assert_int_equal(sk_replay_begin(&s, &c, NULL), SKIPPY_OK);
    expect(&s, "system:be short|user:one", "first");
    expect(&s, "system:be short|user:one|assistant:first|user:Tool result:\n42", "second");
    expect_end(&s);
}

static void a_request_says_what_moved_the_conversation_before_it(void **state) {
    (void)state;
    static const char *const after[] = {"user", "tool", "tool", "edit"};
    static const sk_replay_kind kinds[] = {SK_REPLAY_ASK, SK_REPLAY_ASK, SK_REPLAY_SIDE, SK_REPLAY_ASK};
    static const uint32_t tokens[] = {4, 4, 6, 4};
    const sk_replay_conversation c =
        CONVERSATION(USER("one"), ASK(0), TOOL("two"), ASK(0), SIDE("title"), EDIT(2, "three"), ASK(0));
    sk_replay_state s;
    sk_replay_request r;
    assert_int_equal(sk_replay_begin(&s, &c, NULL), SKIPPY_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(sk_replay_next(&s, &r, NULL), SKIPPY_OK);
        assert_string_equal(r.after, after[i]);
        assert_int_equal(r.kind, kinds[i]);
        assert_int_equal(r.max_tokens, tokens[i]);
        assert_int_equal(r.number, i + 1);
        sk_replay_request_free(&r);
        assert_int_equal(sk_replay_answer(&s, "a", NULL), SKIPPY_OK);
    }
    expect_end(&s);
}

static void a_volatile_first_line_changes_with_every_request(void **state) {
    (void)state;
    const sk_replay_conversation c = CONVERSATION(SYSTEM("{{turn}}: now {{turn}}"), USER("x"), ASK(0),
                                                  SIDE("s {{turn}}"), REGENERATE, SYSTEM("other"), USER("y"), ASK(0));
    sk_replay_state s;
    assert_int_equal(sk_replay_begin(&s, &c, NULL), SKIPPY_OK);
    expect(&s, "system:1: now 1|user:x", "a");
    expect(&s, "system:s {{turn}}|user:x", "title");
    expect(&s, "system:3: now 3|user:x", "b");
    expect(&s, "system:other|user:x|assistant:b|user:y", "c");
    expect_end(&s);
}

static void thinking_leaves_the_history_with_the_next_message(void **state) {
    (void)state;
    const sk_replay_conversation c =
        CONVERSATION(USER("x"), ASK(50), SIDE("title"), REGENERATE, USER("y"), ASK(100), TOOL("z"), ASK(0));
    sk_replay_state s;
    assert_int_equal(sk_replay_begin(&s, &c, NULL), SKIPPY_OK);
    expect(&s, "user:x", "hmmmmyes");
    expect(&s, "system:title|user:x", "side answers are not kept");
    expect(&s, "user:x", "hm, no"); /* stripped as the answer that it replaces */
    expect(&s, "user:x|assistant: no|user:y", "all of it");
    expect(&s, "user:x|assistant: no|user:y|assistant:t|user:Tool result:\nz", "");
    expect_end(&s);
}

static void an_edit_replaces_the_last_messages(void **state) {
    (void)state;
    const sk_replay_conversation c =
        CONVERSATION(SYSTEM("s"), USER("a"), ASK(50), USER("b"), ASK(50), EDIT(2, "B"), ASK(0), EDIT(4, "A"), ASK(0));
    sk_replay_state s;
    assert_int_equal(sk_replay_begin(&s, &c, NULL), SKIPPY_OK);
    expect(&s, "system:s|user:a", "12345678");
    expect(&s, "system:s|user:a|assistant:5678|user:b", "abcd");
    expect(&s, "system:s|user:a|assistant:5678|user:B", "abcd"); /* the older answer loses its thinking only once */
    expect(&s, "system:s|user:A", "end");
    expect_end(&s);
}

static void a_side_request_sees_the_first_message_as_it_is_now(void **state) {
    (void)state;
    const sk_replay_conversation c =
        CONVERSATION(SYSTEM("s"), USER("old"), ASK(0), EDIT(2, "new"), SIDE("title"), ASK(0));
    sk_replay_state s;
    assert_int_equal(sk_replay_begin(&s, &c, NULL), SKIPPY_OK);
    expect(&s, "system:s|user:old", "a");
    expect(&s, "system:title|user:new", "b");
    expect(&s, "system:s|user:new", "c");
    expect_end(&s);
}

static void roles_alternate_whatever_the_steps_and_answers_are(void **state) {
    (void)state;
    const sk_replay_conversation c = CONVERSATION(USER("a"), TOOL("1"), TOOL("2"), ASK(0), USER("b"), ASK(0),
                                                  EDIT(1, "c"), ASK(0), EDIT(1, "d"), ASK(0));
    sk_replay_state s;
    assert_int_equal(sk_replay_begin(&s, &c, NULL), SKIPPY_OK);
    expect(&s, "user:a\n\nTool result:\n1\n\nTool result:\n2", "");
    expect(&s, "user:a\n\nTool result:\n1\n\nTool result:\n2|assistant: |user:b", "x");
    expect(&s, "user:a\n\nTool result:\n1\n\nTool result:\n2|assistant: |user:b\n\nc", "x");
    expect(&s, "user:a\n\nTool result:\n1\n\nTool result:\n2|assistant: |user:b\n\nc\n\nd", "x");
    expect_end(&s);
}

static void stripping_counts_characters_and_never_takes_all(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t percent;
        const char *rest;
    } cases[] = {
        {"abcd", 0, "abcd"}, {"abcd", 50, "cd"}, {"abcd", 100, "d"},   {"abcd", 4000, "d"},
        {"abc", 50, "bc"},   {"aäöü", 50, "öü"}, {"日本語", 67, "語"}, {"日本語", 100, "語"},
        {"x", 100, "x"},     {"", 50, ""},       {"ééé", 34, "éé"},    {"\xF0\x9F\x98\x80!", 50, "!"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_string_equal(sk_replay_strip(cases[i].text, cases[i].percent), cases[i].rest);
    }
}

static void steps_that_do_not_fit_are_refused_with_their_place(void **state) {
    (void)state;
    expect_refused(&CONVERSATION(SYSTEM("s"), ASK(0)),
                   "conversation 'talk', step 2 (ask): the last message is not the user's or a tool's");
    expect_refused(&CONVERSATION(USER("a"), REGENERATE),
                   "conversation 'talk', step 2 (regenerate): there is no answer at the end that could be made again");
    expect_refused(&CONVERSATION(SIDE("title")),
                   "conversation 'talk', step 1 (side): it needs a text, and a message of the user before it");
    expect_refused(
        &CONVERSATION(SYSTEM("s"), USER("a"), EDIT(2, "b")),
        "conversation 'talk', step 3 (edit): it drops 2 messages where 1 are there besides the system message");
    expect_refused(&CONVERSATION(USER("a"), EDIT(0, "b")),
                   "conversation 'talk', step 2 (edit): it drops 0 messages where 1 are there besides the system "
                   "message");
    expect_refused(&CONVERSATION({.kind = SK_REPLAY_USER}), "conversation 'talk', step 1 (user): it has no text");
    expect_refused(&CONVERSATION({.kind = SK_REPLAY_SYSTEM}), "conversation 'talk', step 1 (system): it has no text");
    expect_refused(&CONVERSATION(USER("a"), {.kind = SK_REPLAY_ASK}),
                   "conversation 'talk', step 2 (ask): max_tokens must be at least 1");
    expect_refused(&CONVERSATION({.kind = (sk_replay_kind)99}),
                   "conversation 'talk', step 1 (unknown): there is no such kind of step");
}

static void questions_and_answers_take_turns(void **state) {
    (void)state;
    const sk_replay_conversation c = CONVERSATION(USER("a"), ASK(0));
    sk_replay_state s;
    sk_replay_request r;
    sk_err e = {0};
    assert_int_equal(sk_replay_begin(&s, &c, NULL), SKIPPY_OK);
    assert_int_equal(sk_replay_answer(&s, "x", &e), SKIPPY_E_INVALID);
    assert_string_equal(e.text, "conversation 'talk': an answer came, but nothing was asked");
    assert_int_equal(sk_replay_next(&s, &r, NULL), SKIPPY_OK);
    sk_replay_request_free(&r);
    assert_int_equal(sk_replay_next(&s, &r, &e), SKIPPY_E_INVALID);
    assert_string_equal(e.text, "conversation 'talk': the answer to request 1 was not given");
    assert_int_equal(sk_replay_answer(&s, "\xFF", &e), SKIPPY_E_INVALID);
    sk_replay_end(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_servers_own_answers_stay_in_the_history),
        cmocka_unit_test(a_request_says_what_moved_the_conversation_before_it),
        cmocka_unit_test(a_volatile_first_line_changes_with_every_request),
        cmocka_unit_test(thinking_leaves_the_history_with_the_next_message),
        cmocka_unit_test(an_edit_replaces_the_last_messages),
        cmocka_unit_test(a_side_request_sees_the_first_message_as_it_is_now),
        cmocka_unit_test(roles_alternate_whatever_the_steps_and_answers_are),
        cmocka_unit_test(stripping_counts_characters_and_never_takes_all),
        cmocka_unit_test(steps_that_do_not_fit_are_refused_with_their_place),
        cmocka_unit_test(questions_and_answers_take_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
