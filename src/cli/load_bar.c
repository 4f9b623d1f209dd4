#include "cli/load_bar.h"

#include "base/clock.h"

enum { WIDTH = 40, STEP = 10 };

static void draw(const sk_load_bar *b, int percent) {
    static const char full[] = "########################################";
    int filled = percent * WIDTH / 100;
    fprintf(b->out, "\r%s [%.*s%*s] %3d %%%s", b->what, filled, full, WIDTH - filled, "", percent,
            percent == 100 ? "\n" : "");
}

void sk_load_bar_show(sk_load_bar *b, float fraction) {
    int percent = fraction >= 1.0f ? 100 : fraction > 0.0f ? (int)(fraction * 100.0f) : 0;
    if (!b->tty) percent -= percent % STEP;
    if (percent <= b->shown || (b->quiet_until && b->shown < 0 && sk_now_ns() < b->quiet_until)) return;
    b->shown = percent;
    if (b->tty)
        draw(b, percent);
    else
        fprintf(b->out, "%s: %d %%\n", b->what, percent);
    fflush(b->out);
}
