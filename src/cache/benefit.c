#include "skippy/benefit.h"

/* A prefix that came back once is about twice as likely to come back as one that never did (docs/eviction.md). */
static const double PROVEN = 2;

double skippy_benefit_score(const skippy_benefit_input *in) {
    const double cost = in->cost_ms > 0 ? in->cost_ms : 0;
    const double known = in->total_bytes > 0 ? in->total_bytes : in->exclusive_bytes;
    const double bytes = known > 1 ? known : 1;
    const double period = in->period ? (double)in->period : 1;
    const double chance = (in->hits ? PROVEN : 1) / (1 + (double)in->age / period);
    const double score = chance * (cost / bytes);
    return score > 0 ? score : 0; /* NaN (infinity over infinity) counts as worthless */
}
