#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/mailbox.h"

enum { WRITERS = 4, PER_WRITER = 5000 };

static sk_mailbox box;

static int open_box(void **state) {
    (void)state;
    sk_err e;
    return sk_mailbox_init(&box, &e);
}

static int close_box(void **state) {
    (void)state;
    sk_mailbox_close(&box);
    return 0;
}

static bool readable(void) {
    struct pollfd p = {.fd = box.fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void a_copy_owns_everything_it_points_to(void **state) {
    (void)state;
    char text[] = "a\0b", word[] = "stop", error[] = "bad";
    sk_token_prob top[2] = {{5, -1.0f}, {6, -2.0f}};
    sk_gen_token tokens[3] = {
        {.token = 5, .top = top, .n_top = 2}, {.token = 7}, {.token = 6, .top = top + 1, .n_top = 1}};
    sk_gen_stats stats = {.n_prompt = 42};
    snprintf(stats.cache.reason, sizeof stats.cache.reason, "cold");
    const sk_gen_event ev = {.type = SK_EV_TEXT,
                             .text = text,
                             .len = 3,
                             .tokens = tokens,
                             .n_tokens = 3,
                             .stop_word = word,
                             .error = error,
                             .stats = &stats};
    sk_mail *mail = sk_mail_copy(&box, &ev);
    assert_non_null(mail);
    memset(text, 'z', sizeof text);
    memset(word, 'z', sizeof word);
    memset(error, 'z', sizeof error);
    memset(top, 0xff, sizeof top);
    memset(tokens, 0xff, sizeof tokens);
    memset(&stats, 0xff, sizeof stats);
    assert_ptr_equal(mail->to, &box);
    assert_int_equal(mail->ev.len, 3);
    assert_memory_equal(mail->ev.text, "a\0b", 4);
    assert_string_equal(mail->ev.stop_word, "stop");
    assert_string_equal(mail->ev.error, "bad");
    assert_int_equal(mail->ev.stats->n_prompt, 42);
    assert_string_equal(mail->ev.stats->cache.reason, "cold");
    assert_int_equal(mail->ev.tokens[0].top[1].token, 6);
    assert_int_equal(mail->ev.tokens[1].token, 7);
    assert_null(mail->ev.tokens[1].top);
    assert_int_equal(mail->ev.tokens[2].top[0].token, 6);
    sk_mail_free(mail);
}

static void one_wake_covers_a_batch_and_the_next_batch_wakes_again(void **state) {
    (void)state;
    const sk_gen_event ev = {.type = SK_EV_START};
    for (int round = 0; round < 3; round++) {
        assert_false(readable());
        for (int i = 0; i < 5; i++) sk_mailbox_push(&box, sk_mail_copy(NULL, &ev));
        assert_true(readable());
        int n = 0;
        for (sk_mail *m = sk_mailbox_take(&box), *next; m; m = next, n++) {
            next = m->next;
            sk_mail_free(m);
        }
        assert_int_equal(n, 5);
    }
    assert_null(sk_mailbox_take(&box));
}

static void *write_many(void *ud) {
    for (size_t i = 0; i < PER_WRITER; i++) {
        const sk_gen_event ev = {.type = SK_EV_PROGRESS, .n_processed = i};
        sk_mailbox_push(&box, sk_mail_copy(ud, &ev));
    }
    return NULL;
}

static void mail_of_each_writer_arrives_complete_and_in_order(void **state) {
    (void)state;
    pthread_t writers[WRITERS];
    size_t seen[WRITERS] = {0}, total = 0;
    for (size_t w = 0; w < WRITERS; w++) assert_int_equal(pthread_create(&writers[w], NULL, write_many, &seen[w]), 0);
    while (total < (size_t)WRITERS * PER_WRITER) {
        struct pollfd p = {.fd = box.fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 10000), 1);
        for (sk_mail *m = sk_mailbox_take(&box), *next; m; m = next, total++) {
            next = m->next;
            size_t *count = m->to;
            assert_int_equal(m->ev.n_processed, *count);
            (*count)++;
            sk_mail_free(m);
        }
    }
    for (size_t w = 0; w < WRITERS; w++) pthread_join(writers[w], NULL);
}

static void closing_frees_what_is_left(void **state) {
    (void)state;
    const sk_gen_event ev = {.type = SK_EV_TEXT, .text = "x", .len = 1};
    for (int i = 0; i < 3; i++) sk_mailbox_push(&box, sk_mail_copy(NULL, &ev)); /* LeakSanitizer looks after the rest */
    assert_true(readable());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_copy_owns_everything_it_points_to, open_box, close_box),
        cmocka_unit_test_setup_teardown(one_wake_covers_a_batch_and_the_next_batch_wakes_again, open_box, close_box),
        cmocka_unit_test_setup_teardown(mail_of_each_writer_arrives_complete_and_in_order, open_box, close_box),
        cmocka_unit_test_setup_teardown(closing_frees_what_is_left, open_box, close_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
