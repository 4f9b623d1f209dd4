/* Certificates of a chain in a folder; sk_link_certs of link.h with the times open, so that tests can make old ones. */
#ifndef SKIPPY_STAGE_CERTS_H
#define SKIPPY_STAGE_CERTS_H

#include "stage/certs_x509.h"

/* As sk_link_certs, valid at the times given. An authority that is made new gets the same times. */
int sk_certs_write(const char *dir, const char *const *names, size_t n_names, sk_cert_time when, bool force, sk_err *e);

#endif
