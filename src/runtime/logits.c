#include "runtime/logits.h"

#include <math.h>

/* A block is reduced with independent lanes, which compilers turn into vector instructions; only a block that holds a
 * new maximum is searched for the place, while it is still in the first-level cache. */
#define BLOCK 1024
#define LANES 16

static float block_max(const float *x) {
    float lane[LANES];
    for (int j = 0; j < LANES; j++) lane[j] = -INFINITY;
    for (int i = 0; i < BLOCK; i += LANES) {
        for (int j = 0; j < LANES; j++) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j]; /* false for NaN */
    }
    float best = lane[0];
    for (int j = 1; j < LANES; j++) best = lane[j] > best ? lane[j] : best;
    return best;
}

int32_t sk_logits_argmax(const float *row, int32_t begin, int32_t end) {
    float best = -INFINITY;
    int32_t at = -1, i = begin;
    for (; end - i >= BLOCK; i += BLOCK) {
        float m = block_max(row + i);
        if (!(m > best)) continue;
        best = m;
        for (at = i; row[at] != m;) at++;
    }
    for (; i < end; i++) {
        if (row[i] > best) {
            best = row[i];
            at = i;
        }
    }
    return at;
}

double sk_logits_log_sum(const float *row, int32_t n) {
    int32_t best = sk_logits_argmax(row, 0, n);
    if (best < 0) return -INFINITY;
    double max = (double)row[best], sum = 0;
    if (isinf(max)) return max;
    for (int32_t i = 0; i < n; i++) {
        if (!isnan(row[i])) sum += exp((double)row[i] - max);
    }
    return max + log(sum);
}

/* While the heap is built, logprob holds the raw value. The root is the worst of the kept ones. */
static bool worse(sk_token_prob a, sk_token_prob b) {
    return a.logprob < b.logprob || (a.logprob == b.logprob && a.token > b.token);
}

static void sift_down(sk_token_prob *heap, size_t n, size_t at) {
    for (;;) {
        size_t least = at, left = 2 * at + 1, right = left + 1;
        if (left < n && worse(heap[left], heap[least])) least = left;
        if (right < n && worse(heap[right], heap[least])) least = right;
        if (least == at) return;
        sk_token_prob t = heap[at];
        heap[at] = heap[least];
        heap[least] = t;
        at = least;
    }
}

size_t sk_logits_top(const float *row, int32_t n, double log_sum, sk_token_prob *top, size_t k) {
    size_t have = 0;
    for (int32_t i = 0; i < n && k > 0; i++) {
        sk_token_prob x = {.token = i, .logprob = row[i]};
        if (isnan(x.logprob)) continue;
        if (have < k) {
            top[have++] = x;
            if (have == k) {
                for (size_t j = k / 2; j-- > 0;) sift_down(top, k, j);
            }
        } else if (worse(top[0], x)) {
            top[0] = x;
            sift_down(top, k, 0);
        }
    }
    if (have < k) {
        for (size_t j = have / 2; j-- > 0;) sift_down(top, have, j);
    }
    /* Heap sort: the worst goes to the end each time, so the best ends up first. */
    for (size_t left = have; left > 1; left--) {
        sk_token_prob t = top[0];
        top[0] = top[left - 1];
        top[left - 1] = t;
        sift_down(top, left - 1, 0);
    }
    for (size_t j = 0; j < have; j++) top[j].logprob = (float)((double)top[j].logprob - log_sum);
    return have;
}
