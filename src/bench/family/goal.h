/* The scenarios of the family benchmark in the order of the tables, and what is asked of each. A constant table. */
#ifndef SKIPPY_BENCH_FAMILY_GOAL_H
#define SKIPPY_BENCH_FAMILY_GOAL_H

#include "bench/family/row.h"

/* Ratios of medians of one run, llama-server's fastest flags against skippy. 0 = no goal. */
typedef struct sk_goal {
    const char *part, *series, *title;
    double dense;     /* attention only */
    double recurrent; /* recurrent and hybrid families: what llama-server has to compute again there is all of it */
} sk_goal;

/* NULL after the last. */
const sk_goal *sk_goal_at(size_t i);
/* The goal that holds for this row's family. */
double sk_goal_for(const sk_goal *g, bool recurrent);

#endif
