#include "runtime/apart.h"

#include <pthread.h>

typedef struct errand {
    int (*work)(void *ud);
    void *ud;
    int rc;
} errand;

static void *run(void *arg) {
    errand *a = arg;
    a->rc = a->work(a->ud);
    return NULL;
}

int sk_run_apart(int (*work)(void *ud), void *ud) {
    errand a = {.work = work, .ud = ud};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, &a) != 0) return work(ud);
    pthread_join(thread, NULL);
    return a.rc;
}
