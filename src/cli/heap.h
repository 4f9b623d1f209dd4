/* How the C library's heap treats large blocks in programs that serve. */
#ifndef SKIPPY_CLI_HEAP_H
#define SKIPPY_CLI_HEAP_H

/* Copies of state, hidden states and rows of logits are up to some MiB each and come and go with every token or
 * request. Fresh pages for each would cost more than the copy itself, so the heap keeps what was freed, up to the size
 * of what may wait for the store thread. Call once, before threads start. Does nothing where the C library is not
 * glibc. */
void sk_heap_keep_large_blocks(void);

#endif
