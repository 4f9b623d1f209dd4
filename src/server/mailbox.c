#include "server/mailbox.h"

#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int sk_mailbox_init(sk_mailbox *m, sk_err *e) {
    m->head = NULL;
    m->tail = &m->head;
    m->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (m->fd < 0) return sk_err_set(e, SKIPPY_E_IO, "cannot create an eventfd: %s", strerror(errno));
    pthread_mutex_init(&m->lock, NULL);
    return SKIPPY_OK;
}

void sk_mailbox_close(sk_mailbox *m) {
    for (sk_mail *mail = sk_mailbox_take(m), *next; mail; mail = next) {
        next = mail->next;
        sk_mail_free(mail);
    }
    close(m->fd);
    pthread_mutex_destroy(&m->lock);
}

void sk_mailbox_push(sk_mailbox *m, sk_mail *mail) {
    mail->next = NULL;
    pthread_mutex_lock(&m->lock);
    bool was_empty = m->head == NULL;
    *m->tail = mail;
    m->tail = &mail->next;
    /* Inside the lock: once the reader has taken this mail the box may be closed, and the descriptor with it. */
    if (was_empty) {
        uint64_t one = 1;
        ssize_t n = write(m->fd, &one, sizeof one);
        (void)n; /* fails only when the counter is full, and then the reader is awake anyway */
    }
    pthread_mutex_unlock(&m->lock);
}

sk_mail *sk_mailbox_take(sk_mailbox *m) {
    uint64_t count = 0;
    pthread_mutex_lock(&m->lock);
    ssize_t n = read(m->fd, &count, sizeof count);
    (void)n; /* EAGAIN: nothing was pushed */
    sk_mail *first = m->head;
    m->head = NULL;
    m->tail = &m->head;
    pthread_mutex_unlock(&m->lock);
    return first;
}

/* Lays the parts of a copy out behind the struct. With base NULL it only adds the sizes up. */
typedef struct layout {
    char *base;
    size_t used;
} layout;

static void *place(layout *l, const void *data, size_t len) {
    const size_t align = alignof(max_align_t);
    size_t at = (l->used + align - 1) / align * align;
    l->used = at + len;
    if (!l->base || !data) return NULL;
    return memcpy(l->base + at, data, len);
}

static char *place_text(layout *l, const char *text) {
    return text ? place(l, text, strlen(text) + 1) : NULL;
}

static const sk_gen_token *place_tokens(layout *l, const sk_gen_event *ev) {
    sk_gen_token *tokens = place(l, ev->tokens, ev->n_tokens * sizeof *tokens);
    for (size_t i = 0; i < ev->n_tokens; i++) {
        void *top = place(l, ev->tokens[i].top, ev->tokens[i].n_top * sizeof *ev->tokens[i].top);
        if (tokens) tokens[i].top = top;
    }
    return tokens;
}

/* Text carries its length and may hold NUL bytes; it gets a NUL behind it so that it can be printed. */
static const char *place_bytes(layout *l, const char *text, size_t len) {
    char *copy = place(l, text, len);
    l->used++;
    if (copy) copy[len] = '\0';
    return copy;
}

static void place_all(layout *l, const sk_gen_event *ev, sk_gen_event *out) {
    sk_gen_event copy = *ev;
    if (ev->text) copy.text = place_bytes(l, ev->text, ev->len);
    if (ev->tokens && ev->n_tokens) copy.tokens = place_tokens(l, ev);
    copy.stop_word = place_text(l, ev->stop_word);
    copy.error = place_text(l, ev->error);
    if (out) *out = copy;
}

sk_mail *sk_mail_copy(void *to, const sk_gen_event *ev) {
    layout l = {NULL, sizeof(sk_mail)};
    place_all(&l, ev, NULL);
    l.base = malloc(l.used);
    if (!l.base) return NULL;
    sk_mail *mail = (sk_mail *)(void *)l.base;
    memset(mail, 0, sizeof *mail);
    l.used = sizeof(sk_mail);
    place_all(&l, ev, &mail->ev);
    mail->to = to;
    if (ev->stats) {
        mail->stats = *ev->stats;
        mail->ev.stats = &mail->stats;
    }
    return mail;
}

void sk_mail_free(sk_mail *mail) {
    if (mail && !mail->embedded) free(mail);
}
