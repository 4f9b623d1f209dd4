/* What the part says before any server is there; parts_live_test.c runs it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/family/part.h"

/* Everything that is no text of a message: the template around all, and around each message. */
enum { AROUND = SK_PART_TEMPLATE_TOKENS + SK_PART_SPARE_TOKENS, EACH = 16 };

static size_t tokens_of(sk_replay_step *steps, size_t n) {
    sk_replay_conversation c = {.key = (char[]){"talk"}, .step = steps, .n_steps = n};
    const sk_replay_corpus corpus = {.v = &c, .n = 1};
    const sk_part_task t = {.replay = &corpus};
    return sk_part_agent.lane_tokens(&t);
}

static void a_conversation_needs_room_for_its_largest_request(void **state) {
    (void)state;
    sk_replay_step steps[] = {
        {.kind = SK_REPLAY_USER, .text = (char[]){"four four"}},
        {.kind = SK_REPLAY_ASK, .max_tokens = 10},
        {.kind = SK_REPLAY_USER, .text = (char[]){"four"}},
        {.kind = SK_REPLAY_ASK, .max_tokens = 5},
        {.kind = SK_REPLAY_EDIT, .text = (char[]){"four"}, .drop = 3},
        {.kind = SK_REPLAY_ASK, .max_tokens = 1},
    };
    const size_t first = AROUND + EACH + 2 + 10;
    const size_t second =
        AROUND + 3 * EACH + 2 + 2 * 10 + 1 + 5; /* an answer may be twice as long when it comes back */
    assert_int_equal(tokens_of(steps, 2), first);
    assert_int_equal(tokens_of(steps, 4), second);
    assert_int_equal(tokens_of(steps, 6), second); /* an edit makes it shorter again */
}

static void the_largest_conversation_decides(void **state) {
    (void)state;
    sk_replay_step one[] = {{.kind = SK_REPLAY_USER, .text = (char[]){"four"}},
                            {.kind = SK_REPLAY_ASK, .max_tokens = 1}};
    sk_replay_step two[] = {{.kind = SK_REPLAY_USER, .text = (char[]){"four"}},
                            {.kind = SK_REPLAY_SIDE, .text = (char[]){"four"}, .max_tokens = 9}};
    sk_replay_conversation c[] = {{.key = (char[]){"a"}, .step = one, .n_steps = 2},
                                  {.key = (char[]){"b"}, .step = two, .n_steps = 2},
                                  {.key = (char[]){"c"}, .step = one, .n_steps = 2}};
    const sk_replay_corpus corpus = {.v = c, .n = 3};
    const sk_part_task t = {.replay = &corpus};
    assert_int_equal(sk_part_agent.lane_tokens(&t), AROUND + 2 * EACH + 2 + 9);
}

static void without_conversations_the_agent_part_is_refused(void **state) {
    (void)state;
    const sk_replay_corpus empty = {.n = 0};
    const sk_replay_corpus *const none[] = {NULL, &empty};
    for (size_t i = 0; i < 2; i++) {
        const sk_part_task t = {.replay = none[i]};
        sk_part_host h = {.task = &t};
        sk_err e = {0};
        assert_int_equal(sk_part_agent.rounds(&h), 0);
        assert_int_equal(sk_part_agent.lane_tokens(&t), 0);
        assert_int_equal(sk_part_agent.prepare(&h, &e), SKIPPY_E_INVALID);
        assert_string_equal(e.text, "the part 'agent' needs a corpus of conversations");
        sk_part_agent.finish(&h);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_needs_room_for_its_largest_request),
        cmocka_unit_test(the_largest_conversation_decides),
        cmocka_unit_test(without_conversations_the_agent_part_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
