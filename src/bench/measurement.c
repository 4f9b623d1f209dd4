#include "bench/measurement.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void sk_measurement_free(sk_measurement *m) {
    for (size_t i = 0; i < m->n_series; i++) {
        free(m->series[i].v);
    }
    for (size_t i = 0; i < m->n_answers; i++) {
        free(m->answers[i].text);
        free(m->answers[i].prompt);
    }
    free(m->answers);
    *m = (sk_measurement){0};
}

const sk_series *sk_measurement_find(const sk_measurement *m, const char *name) {
    for (size_t i = 0; i < m->n_series; i++) {
        if (strcmp(m->series[i].name, name) == 0) {
            return &m->series[i];
        }
    }
    return NULL;
}

sk_series *sk_measurement_series(sk_measurement *m, const char *name) {
    for (size_t i = 0; i < m->n_series; i++) {
        if (strcmp(m->series[i].name, name) == 0) {
            return &m->series[i];
        }
    }
    if (m->n_series == SK_MAX_SERIES) {
        return NULL;
    }
    m->series[m->n_series] = (sk_series){.name = name};
    return &m->series[m->n_series++];
}

/* Room for one more element of size bytes; the old array stays valid on failure. */
static bool make_room(void **array, size_t n, size_t *cap, size_t size) {
    if (n < *cap) {
        return true;
    }
    const size_t next = *cap ? *cap * 2 : 32;
    void *grown = next <= SIZE_MAX / size ? realloc(*array, next * size) : NULL;
    if (!grown) {
        return false;
    }
    *array = grown;
    *cap = next;
    return true;
}

int sk_measurement_add(sk_measurement *m, const char *series, double ms, size_t cache_n, size_t prompt_n, sk_err *e) {
    sk_series *s = sk_measurement_series(m, series);
    void *array = s ? s->v : NULL;
    if (!s || !make_room(&array, s->n, &s->cap, sizeof *s->v)) {
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for measurements");
    }
    s->v = array;
    s->v[s->n++] = (sk_sample){.ms = ms, .cache_n = cache_n, .prompt_n = prompt_n};
    return SKIPPY_OK;
}

int sk_measurement_answer(sk_measurement *m, sk_answer a, sk_err *e) {
    void *array = m->answers;
    if (!a.text || (a.cold && !a.prompt) || !make_room(&array, m->n_answers, &m->cap_answers, sizeof *m->answers)) {
        free(a.text);
        free(a.prompt);
        return sk_err_set(e, SKIPPY_E_NOMEM, "out of memory for answers");
    }
    m->answers = array;
    m->answers[m->n_answers++] = a;
    return SKIPPY_OK;
}

/* Without token ids the first token is equal as far as the client can see when the first characters are. */
static bool same_first(const sk_answer *a, const sk_answer *b) {
    if (a->first_token >= 0 && b->first_token >= 0) {
        return a->first_token == b->first_token;
    }
    return a->text[0] == b->text[0];
}

void sk_gate_compare(const sk_measurement *a, const sk_measurement *b, sk_gate *out) {
    const size_t n = a->n_answers < b->n_answers ? a->n_answers : b->n_answers;
    *out = (sk_gate){.answers = n};
    out->same_prompts = memcmp(a->prompts_digest, b->prompts_digest, sizeof a->prompts_digest) == 0;
    for (size_t i = 0; i < n; i++) {
        out->first_equal += same_first(&a->answers[i], &b->answers[i]);
        if (a->answers[i].cold) {
            out->cold++;
            const bool equal = strcmp(a->answers[i].text, b->answers[i].text) == 0;
            out->cold_equal += equal;
            out->cold_ties += !equal && a->answers[i].tie;
        }
    }
    out->comparable = out->same_prompts && a->error.code == SKIPPY_OK && b->error.code == SKIPPY_OK &&
                      a->n_answers == b->n_answers && out->cold > 0 && out->cold_equal + out->cold_ties == out->cold;
}
