/* Large buffers in huge pages. */
#ifndef SKIPPY_RUNTIME_HUGE_PAGES_H
#define SKIPPY_RUNTIME_HUGE_PAGES_H

#include <stdbool.h>

/* From now on (or from now on no longer) the large buffers of ggml, which holds weights, KV cache and recurrent state,
 * are asked for in huge pages: a decode reads all of the weights, and in pages of 4 KiB that lie anywhere it waits for
 * address translation; and the first touch of a buffer takes one page fault for 2 MiB instead of 512. Measured
 * (docs/decisions/0017-huge-pages.md): prompts 1.34 times and generation 1.30 times as fast in the median on a busy
 * machine, starts 1.5 times and more. Contents do not change; where the kernel has no huge pages all is as before.
 * Memory use grows by less than 2 MiB for each buffer of 16 MiB or more that is used in part. Any thread.
 *
 * How: the program's own posix_memalign, which ggml allocates with, stands before the C library's. It takes the memory
 * from memalign and calls madvise(MADV_HUGEPAGE) before anybody touches it. */
void sk_huge_pages_ask(bool on);

#endif
