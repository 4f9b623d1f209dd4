#include "engine/internal.h"

void sk_queue_push(sk_engine *en, sk_job *j, bool front) {
    en->stalled = false;
    if (front) {
        j->next = en->queue_head;
        en->queue_head = j;
        if (!en->queue_tail) en->queue_tail = j;
        return;
    }
    j->next = NULL;
    if (en->queue_tail)
        en->queue_tail->next = j;
    else
        en->queue_head = j;
    en->queue_tail = j;
}

void sk_queue_remove(sk_engine *en, sk_job *j, sk_job *previous) {
    if (previous)
        previous->next = j->next;
    else
        en->queue_head = j->next;
    if (en->queue_tail == j) en->queue_tail = previous;
    j->next = NULL;
}
