#include "skippy/benefit.h"

double skippy_benefit_score(const skippy_benefit_input *in) {
    double cost = in->cost_ms > 0 ? in->cost_ms : 0;
    double bytes = in->exclusive_bytes > 1 ? in->exclusive_bytes : 1;
    double age = in->period ? (double)in->age / (double)in->period : (double)in->age;
    double chance = (1 + (double)in->hits) / (1 + age);
    double score = chance * cost / bytes;
    return score > 0 ? score : 0; /* NaN (0 x infinity) counts as worthless */
}
