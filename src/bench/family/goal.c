#include "bench/family/goal.h"

static const sk_goal GOALS[] = {
    {"exact", "exact", "Exact repeat", 10.0, 10.0},
    {"suffix", "suffix", "Shared prefix, new suffix", 1.0, 1.0},
    {"edit", "edit", "Edited message, chat", 0.0, 2.0},
    {"edit", "edit text", "Edited message, text", 0.0, 2.0},
    {"thinking", "thinking", "Stripped thinking", 0.0, 2.0},
    {"agent", "all conversations", "Agent loop, total", 1.3, 2.0},
    {"restart", "restart", "After a restart", 5.0, 5.0},
};

const sk_goal *sk_goal_at(size_t i) {
    return i < sizeof GOALS / sizeof GOALS[0] ? &GOALS[i] : NULL;
}

double sk_goal_for(const sk_goal *g, bool recurrent) {
    return recurrent ? g->recurrent : g->dense;
}
