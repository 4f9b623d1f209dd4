/* What the benchmark asks of a server, and how long it took: the calls that llama-server and skippy share.
 *
 * Times are client wall time in milliseconds: from before the first byte of the request is written until the whole
 * answer was read. Building and parsing JSON is outside of the clock. Thread-safety: an endpoint belongs to one thread.
 */
#ifndef SKIPPY_BENCH_ENDPOINT_H
#define SKIPPY_BENCH_ENDPOINT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/http_client.h"

typedef struct sk_endpoint {
    sk_http_client http;
    sk_http_response response;
} sk_endpoint;

typedef struct sk_reply {
    double ms;
    size_t cache_n;  /* prompt tokens that were not computed, by the server's own count */
    size_t prompt_n; /* prompt tokens that were computed */
    size_t predicted_n;
    double stage_compute_ms; /* all stages of a split model, for the tokens after the first; 0 when the server does not
                                say */
    int32_t first_token;     /* -1 when the server does not return token ids */
    char *text;              /* answer, malloc'ed; sk_reply_free */
} sk_reply;

void sk_endpoint_init(sk_endpoint *ep, uint16_t port, int timeout_ms);
void sk_endpoint_close(sk_endpoint *ep);
void sk_reply_free(sk_reply *r);

/* All calls: a status other than 200 is SKIPPY_E_RUNTIME with the server's words; transport errors as
 * sk_http_client_request; an answer that is not the expected JSON is SKIPPY_E_CORRUPT. */

/* GET /health; *ms may be NULL. */
int sk_endpoint_health(sk_endpoint *ep, double *ms, sk_err *e);
/* Matches sk_tokenize_fn with the endpoint as ud: POST /tokenize with special tokens, as /completion tokenizes its
 * prompt. */
int sk_endpoint_tokenize(void *ep, const char *text, size_t len, int32_t **ids, size_t *n, sk_err *e);
/* POST /completion, greedy, with the cache on and end-of-generation tokens ignored, so that every server makes
 * n_predict tokens. */
int sk_endpoint_complete(sk_endpoint *ep, const char *prompt, size_t n_predict, sk_reply *r, sk_err *e);
/* POST /v1/chat/completions, same settings. messages is borrowed. */
int sk_endpoint_chat(sk_endpoint *ep, json_t *messages, size_t n_predict, sk_reply *r, sk_err *e);
/* POST /apply-template: the prompt that the server makes of messages, malloc'ed in *prompt. */
int sk_endpoint_apply_template(sk_endpoint *ep, json_t *messages, char **prompt, sk_err *e);
/* What the model thought of each token of a greedy answer: the best token, the second best, and how far apart they are.
 */
typedef struct sk_alternative {
    char *best, *second;
    double gap; /* difference of the log-probabilities, natural logarithm, >= 0 */
} sk_alternative;
/* Asks for n_predict tokens with their alternatives; prompt is text, or messages as JSON when chat is set. *out is
 * malloc'ed; sk_alternatives_free. */
int sk_endpoint_alternatives(sk_endpoint *ep, bool chat, const char *prompt, size_t n_predict, sk_alternative **out,
                             size_t *n, sk_err *e);
void sk_alternatives_free(sk_alternative *v, size_t n);
/* "build_info" of GET /props, "" when the server has none. */
int sk_endpoint_version(sk_endpoint *ep, char *buf, size_t cap, sk_err *e);

#endif
