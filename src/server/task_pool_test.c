/* Tasks run on other threads and come back; the bound, the way back out of the queue, and the stop. */
#include "server/task_pool.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool gate_open;
static unsigned begun;

typedef struct item {
    sk_task task; /* first */
    unsigned order;
    bool ran, back;
} item;

static void wait_at_gate(sk_task *t) {
    item *i = (item *)t;
    pthread_mutex_lock(&lock);
    i->order = begun++;
    pthread_cond_broadcast(&changed);
    while (!gate_open) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    i->ran = true;
}

static void set_back(sk_task *t) {
    ((item *)t)->back = true;
}

static void open_gate(void) {
    pthread_mutex_lock(&lock);
    gate_open = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void wait_begun(unsigned n) {
    pthread_mutex_lock(&lock);
    while (begun < n) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static item new_item(void) {
    return (item){.task = {.run = wait_at_gate, .done = set_back}};
}

static sk_task_pool *new_pool(unsigned n_threads, size_t max_waiting) {
    sk_task_pool *p = NULL;
    sk_err e = {0};
    gate_open = false;
    begun = 0;
    assert_int_equal(sk_task_pool_create(n_threads, max_waiting, &p, &e), SKIPPY_OK);
    return p;
}

static void deliver_until_empty(sk_task_pool *p) {
    while (sk_task_pool_pending(p) > 0) {
        struct pollfd fd = {.fd = sk_task_pool_fd(p), .events = POLLIN};
        assert_int_equal(poll(&fd, 1, 10000), 1);
        sk_task_pool_deliver(p);
    }
}

static void tasks_come_back_after_they_ran_and_only_when_delivered(void **state) {
    (void)state;
    enum { N = 200 };
    static item items[N];
    sk_task_pool *p = new_pool(2, N);
    open_gate();
    for (size_t i = 0; i < N; i++) {
        items[i] = new_item();
        assert_true(sk_task_pool_add(p, &items[i].task));
    }
    for (size_t i = 0; i < N; i++) assert_false(items[i].back);
    deliver_until_empty(p);
    for (size_t i = 0; i < N; i++) assert_true(items[i].ran && items[i].back);
    sk_task_pool_free(p);
}

static void one_worker_keeps_the_order(void **state) {
    (void)state;
    enum { N = 20 };
    item items[N];
    sk_task_pool *p = new_pool(1, N);
    for (size_t i = 0; i < N; i++) {
        items[i] = new_item();
        assert_true(sk_task_pool_add(p, &items[i].task));
    }
    open_gate();
    deliver_until_empty(p);
    for (unsigned i = 0; i < N; i++) assert_int_equal(items[i].order, i);
    sk_task_pool_free(p);
}

static void a_full_queue_refuses_and_running_tasks_do_not_count(void **state) {
    (void)state;
    item a = new_item(), b = new_item(), c = new_item(), d = new_item();
    sk_task_pool *p = new_pool(1, 2);
    assert_true(sk_task_pool_add(p, &a.task));
    wait_begun(1);
    assert_true(sk_task_pool_add(p, &b.task));
    assert_true(sk_task_pool_add(p, &c.task));
    assert_false(sk_task_pool_add(p, &d.task));
    assert_int_equal(sk_task_pool_pending(p), 3);
    open_gate();
    deliver_until_empty(p);
    assert_true(a.back && b.back && c.back);
    assert_false(d.ran || d.back);
    assert_true(sk_task_pool_add(p, &d.task));
    deliver_until_empty(p);
    assert_true(d.back);
    sk_task_pool_free(p);
}

static void a_waiting_task_can_be_taken_back_and_makes_room(void **state) {
    (void)state;
    item a = new_item(), b = new_item(), c = new_item(), d = new_item();
    sk_task_pool *p = new_pool(1, 2);
    assert_true(sk_task_pool_add(p, &a.task));
    wait_begun(1);
    assert_true(sk_task_pool_add(p, &b.task));
    assert_true(sk_task_pool_add(p, &c.task));
    assert_false(sk_task_pool_withdraw(p, &a.task)); /* runs already */
    assert_true(sk_task_pool_withdraw(p, &c.task));  /* the last one: what comes behind it must still be found */
    assert_false(sk_task_pool_withdraw(p, &c.task));
    assert_true(sk_task_pool_add(p, &d.task));
    open_gate();
    deliver_until_empty(p);
    assert_true(a.back && b.back && d.back);
    assert_false(c.ran || c.back);
    sk_task_pool_free(p);
}

static void a_stop_waits_for_what_runs_and_gives_the_rest_back(void **state) {
    (void)state;
    item a = new_item(), b = new_item(), late = new_item();
    sk_task_pool *p = new_pool(1, 2);
    assert_true(sk_task_pool_add(p, &a.task));
    wait_begun(1);
    assert_true(sk_task_pool_add(p, &b.task));
    open_gate();
    sk_task_pool_stop(p);
    assert_true(a.ran && a.back);
    assert_true(b.back); /* the worker may have got to it */
    assert_int_equal(sk_task_pool_pending(p), 0);
    assert_false(sk_task_pool_add(p, &late.task));
    sk_task_pool_stop(p);
    sk_task_pool_free(p);
}

/* What a worker runs is deeply recursive code of libraries; the default stack of a thread may be small. */
static void use_stack(sk_task *t) {
    volatile char room[32 * 1024 * 1024];
    for (size_t i = 0; i < sizeof room; i += 4096) room[i] = 1;
    ((item *)t)->ran = room[0] == 1;
}

static void a_worker_has_room_for_deep_recursion(void **state) {
    (void)state;
    item a = {.task = {.run = use_stack, .done = set_back}};
    sk_task_pool *p = new_pool(1, 1);
    assert_true(sk_task_pool_add(p, &a.task));
    deliver_until_empty(p);
    assert_true(a.ran);
    sk_task_pool_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_come_back_after_they_ran_and_only_when_delivered),
        cmocka_unit_test(one_worker_keeps_the_order),
        cmocka_unit_test(a_full_queue_refuses_and_running_tasks_do_not_count),
        cmocka_unit_test(a_waiting_task_can_be_taken_back_and_makes_room),
        cmocka_unit_test(a_stop_waits_for_what_runs_and_gives_the_rest_back),
        cmocka_unit_test(a_worker_has_room_for_deep_recursion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
