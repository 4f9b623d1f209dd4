/* What both sides do with their sockets. */
#ifndef SKIPPY_STAGE_LINK_SOCKET_H
#define SKIPPY_STAGE_LINK_SOCKET_H

#include <stdint.h>

#include "base/err.h"

/* Small frames leave at once; a peer whose machine is gone is noticed. silent_ms 0: the default of links. */
void sk_socket_tune(int fd, uint32_t silent_ms);

/* Sets and returns the error for plaintext where it is not allowed. */
int sk_socket_plaintext_error(const char *address, sk_err *e);

#endif
