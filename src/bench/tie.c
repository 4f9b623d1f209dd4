#include "bench/tie.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static bool starts_with(const char *text, const char *with) {
    return *with && strncmp(text, with, strlen(with)) == 0;
}

bool sk_tie_judge(const sk_alternative *v, size_t n, const char *a, const char *b, double *gap) {
    size_t at = 0; /* bytes of both answers that the tokens so far made */
    for (size_t i = 0; i < n; i++) {
        const char *x = a + at;
        const char *y = b + at;
        if (starts_with(x, v[i].best) && starts_with(y, v[i].best)) {
            at += strlen(v[i].best);
            continue;
        }
        const bool best_in_a = starts_with(x, v[i].best) && starts_with(y, v[i].second);
        const bool best_in_b = starts_with(y, v[i].best) && starts_with(x, v[i].second);
        if ((!best_in_a && !best_in_b) || !(v[i].gap < SK_TIE_GAP)) {
            return false;
        }
        *gap = v[i].gap;
        return true;
    }
    return false;
}

static bool is_open(const sk_answer *theirs, const sk_answer *ours) {
    return theirs->cold && !theirs->tie && strcmp(theirs->text, ours->text) != 0;
}

static size_t common_count(const sk_measurement *a, const sk_measurement *b) {
    return a->n_answers < b->n_answers ? a->n_answers : b->n_answers;
}

bool sk_tie_open(const sk_measurement *theirs, const sk_measurement *ours) {
    for (size_t i = 0; i < common_count(theirs, ours); i++) {
        if (is_open(&theirs->answers[i], &ours->answers[i])) {
            return true;
        }
    }
    return false;
}

/* ---- where two answers part ---- */

enum { LONGEST_TOKEN = 12 }; /* bytes of a token that are tried before the place where the bytes part */

static bool is_inside_character(const char *at) {
    return ((unsigned char)*at & 0xc0) == 0x80;
}

size_t sk_tie_common(const char *a, const char *b) {
    size_t n = 0;
    while (a[n] && a[n] == b[n]) {
        n++;
    }
    while (n > 0 && (is_inside_character(a + n) || is_inside_character(b + n))) {
        n--;
    }
    return n;
}

/* The prompt as text, malloc'ed. */
static int prompt_text(sk_endpoint *arbiter, const sk_answer *a, char **out, sk_err *e) {
    *out = NULL;
    if (!a->chat) {
        *out = strdup(a->prompt);
        return *out ? SKIPPY_OK : sk_err_set(e, SKIPPY_E_NOMEM, "no memory for a prompt");
    }
    json_t *messages = json_loads(a->prompt, 0, NULL);
    if (!messages) {
        return sk_err_set(e, SKIPPY_E_CORRUPT, "the messages of an answer cannot be read again");
    }
    const int rc = sk_endpoint_apply_template(arbiter, messages, out, e);
    json_decref(messages);
    return rc;
}

/* One token behind the prompt and the first `from` bytes that the answers share. */
static int judge_at(sk_endpoint *arbiter, const char *prompt, sk_answer *a, const char *ours, size_t from, sk_err *e) {
    sk_alternative *v = NULL;
    sk_buf text = {0};
    size_t n = 0;
    sk_buf_str(&text, prompt);
    sk_buf_add(&text, a->text, from);
    int rc = text.failed ? sk_err_set(e, SKIPPY_E_NOMEM, "no memory for a prompt")
                         : sk_endpoint_alternatives(arbiter, false, text.data, 1, &v, &n, e);
    if (rc == SKIPPY_OK) {
        a->tie = sk_tie_judge(v, n, a->text + from, ours + from, &a->tie_gap);
        sk_alternatives_free(v, n);
    }
    sk_buf_free(&text);
    return rc;
}

/* An arbiter that answers on its own may leave both answers at an earlier tie. So it is led to the place where they
 * part. The token there may begin some bytes before the bytes differ. */
static int judge_where_they_part(sk_endpoint *arbiter, sk_answer *a, const char *ours, sk_err *e) {
    char *prompt = NULL;
    const size_t common = sk_tie_common(a->text, ours);
    int rc = prompt_text(arbiter, a, &prompt, e);
    for (size_t back = 0; rc == SKIPPY_OK && !a->tie && back <= common && back <= LONGEST_TOKEN; back++) {
        if (!is_inside_character(a->text + common - back)) {
            rc = judge_at(arbiter, prompt, a, ours, common - back, e);
        }
    }
    free(prompt);
    return rc;
}

/* ---- all answers of a measurement ---- */

static int settle_one(sk_endpoint *arbiter, sk_answer *a, const char *ours, sk_err *e) {
    sk_alternative *v = NULL;
    size_t n = 0;
    int rc = sk_endpoint_alternatives(arbiter, a->chat, a->prompt, a->n_predict, &v, &n, e);
    if (rc != SKIPPY_OK) {
        return rc;
    }
    a->tie = sk_tie_judge(v, n, a->text, ours, &a->tie_gap);
    sk_alternatives_free(v, n);
    return a->tie ? SKIPPY_OK : judge_where_they_part(arbiter, a, ours, e);
}

int sk_tie_settle(sk_endpoint *arbiter, sk_measurement *theirs, const sk_measurement *ours, sk_err *e) {
    for (size_t i = 0; i < common_count(theirs, ours); i++) {
        if (is_open(&theirs->answers[i], &ours->answers[i])) {
            const int rc = settle_one(arbiter, &theirs->answers[i], ours->answers[i].text, e);
            if (rc != SKIPPY_OK) {
                return rc;
            }
        }
    }
    return SKIPPY_OK;
}
