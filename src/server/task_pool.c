#include "server/task_pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Libraries that read JSON, templates and regular expressions call themselves for each level, some for each character.
 * What they are given is bounded so that it fits; pages that are never touched cost nothing. */
enum { STACK_BYTES = 64 * 1024 * 1024 };

typedef struct task_list {
    sk_task *head, **tail;
} task_list;

struct sk_task_pool {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    task_list waiting, finished;
    size_t n_waiting, max_waiting;
    bool stop;
    int fd;
    size_t pending; /* loop thread only */
    unsigned n_threads;
    pthread_t threads[];
};

static void list_init(task_list *l) {
    l->head = NULL;
    l->tail = &l->head;
}

static void list_push(task_list *l, sk_task *t) {
    t->next = NULL;
    *l->tail = t;
    l->tail = &t->next;
}

static sk_task *list_pop(task_list *l) {
    sk_task *t = l->head;
    l->head = t->next;
    if (!l->head) l->tail = &l->head;
    return t;
}

static bool list_remove(task_list *l, const sk_task *t) {
    for (sk_task **at = &l->head; *at; at = &(*at)->next) {
        if (*at != t) continue;
        *at = t->next;
        if (!*at) l->tail = at;
        return true;
    }
    return false;
}

/* ---- workers ---- */

/* Under the lock. */
static void finish(sk_task_pool *p, sk_task *t) {
    uint64_t one = 1;
    list_push(&p->finished, t);
    ssize_t n = write(p->fd, &one, sizeof one);
    (void)n; /* fails only when the counter is full, and then the loop is awake anyway */
}

static void *work(void *ud) {
    sk_task_pool *p = ud;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->waiting.head && !p->stop) pthread_cond_wait(&p->wake, &p->lock);
        if (p->stop) break;
        sk_task *t = list_pop(&p->waiting);
        p->n_waiting--;
        pthread_mutex_unlock(&p->lock);
        t->run(t);
        pthread_mutex_lock(&p->lock);
        finish(p, t);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static int start_threads(sk_task_pool *p, unsigned n, sk_err *e) {
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc == 0) rc = pthread_attr_setstacksize(&attr, STACK_BYTES);
    while (rc == 0 && p->n_threads < n) {
        rc = pthread_create(&p->threads[p->n_threads], &attr, work, p);
        if (rc == 0) p->n_threads++;
    }
    pthread_attr_destroy(&attr);
    return rc ? sk_err_set(e, SKIPPY_E_IO, "a worker thread cannot be started: %s", strerror(rc)) : SKIPPY_OK;
}

int sk_task_pool_create(unsigned n_threads, size_t max_waiting, sk_task_pool **out, sk_err *e) {
    *out = NULL;
    sk_task_pool *p = calloc(1, sizeof *p + n_threads * sizeof p->threads[0]);
    if (!p) return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for the worker threads");
    p->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (p->fd < 0) {
        free(p);
        return sk_err_set(e, SKIPPY_E_IO, "cannot create an eventfd: %s", strerror(errno));
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    list_init(&p->waiting);
    list_init(&p->finished);
    p->max_waiting = max_waiting;
    int rc = start_threads(p, n_threads, e);
    if (rc) {
        sk_task_pool_free(p);
        return rc;
    }
    *out = p;
    return SKIPPY_OK;
}

/* ---- loop thread ---- */

int sk_task_pool_fd(const sk_task_pool *p) {
    return p->fd;
}

size_t sk_task_pool_pending(const sk_task_pool *p) {
    return p->pending;
}

bool sk_task_pool_add(sk_task_pool *p, sk_task *t) {
    pthread_mutex_lock(&p->lock);
    bool ok = !p->stop && p->n_waiting < p->max_waiting;
    if (ok) {
        list_push(&p->waiting, t);
        p->n_waiting++;
        pthread_cond_signal(&p->wake);
    }
    pthread_mutex_unlock(&p->lock);
    if (ok) p->pending++;
    return ok;
}

bool sk_task_pool_withdraw(sk_task_pool *p, sk_task *t) {
    pthread_mutex_lock(&p->lock);
    bool found = list_remove(&p->waiting, t);
    if (found) p->n_waiting--;
    pthread_mutex_unlock(&p->lock);
    if (found) p->pending--;
    return found;
}

static sk_task *take_all(sk_task_pool *p, task_list *l) {
    pthread_mutex_lock(&p->lock);
    sk_task *first = l->head;
    list_init(l);
    pthread_mutex_unlock(&p->lock);
    return first;
}

static void hand_back(sk_task_pool *p, sk_task *first) {
    for (sk_task *t = first, *next; t; t = next) {
        next = t->next;
        p->pending--;
        t->done(t); /* may free it */
    }
}

void sk_task_pool_deliver(sk_task_pool *p) {
    uint64_t count = 0;
    ssize_t n = read(p->fd, &count, sizeof count);
    (void)n; /* EAGAIN: nothing has finished. Read before the list is taken: a task that finishes between wakes again */
    hand_back(p, take_all(p, &p->finished));
}

void sk_task_pool_stop(sk_task_pool *p) {
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->n_threads; i++) pthread_join(p->threads[i], NULL);
    p->n_threads = 0;
    sk_task_pool_deliver(p);
    hand_back(p, take_all(p, &p->waiting));
    p->n_waiting = 0;
}

void sk_task_pool_free(sk_task_pool *p) {
    if (!p) return;
    sk_task_pool_stop(p);
    close(p->fd);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
