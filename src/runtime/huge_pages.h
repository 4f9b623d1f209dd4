/* Large buffers in huge pages. */
#ifndef SKIPPY_RUNTIME_HUGE_PAGES_H
#define SKIPPY_RUNTIME_HUGE_PAGES_H

#include <stddef.h>
#include <stdint.h>

/* Asks the kernel to keep the large anonymous mappings of this process (weights that were repacked, KV cache) in huge
 * pages, and to move them there now. A decode reads all of the weights; in pages of 4 KiB that lie anywhere it waits
 * for address translation, the more so the busier the machine's memory is. Measured on a 770 MiB model, seven process
 * starts of each kind in turns on a shared machine: prompts 1.34 times and generation 1.30 times as fast in the median,
 * equal at best (docs/decisions/0017-huge-pages.md). Contents do not change. Returns the bytes that were moved: 0 where
 * the kernel cannot (before Linux 6.1, huge pages off) or has no memory in pieces that large; all of it is then as
 * before. Takes about 0.6 s for each GiB. Any thread. */
uint64_t sk_huge_pages_use(void);

#endif
