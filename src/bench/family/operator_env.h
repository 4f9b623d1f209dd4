/* Which environment variables an operator's request may set for the servers and tools of a run.
 *
 * A run keeps its environment in files that people share, and a variable can change what is measured (llama-server
 * takes every flag as LLAMA_ARG_...) or load code that nobody pinned. So only names that choose devices and tune
 * threads or a backend are taken. Not thread-safe per operator. */
#ifndef SKIPPY_BENCH_FAMILY_OPERATOR_ENV_H
#define SKIPPY_BENCH_FAMILY_OPERATOR_ENV_H

#include "bench/family/operator.h"
#include "bench/family/strict.h"

/* True for the names in the list of operator_env.c and for GGML_, OMP_, GOMP_ and KMP_ with capital letters, digits and
 * underscores behind; never for a name that speaks of a token, key, secret, password or credential. Pure. */
bool sk_operator_env_allowed(const char *name);
/* The value of a "NAME=value" whose folders or files are loaded as code, NULL for any other variable. Pure. */
const char *sk_operator_env_library_path(const char *pair);
/* Reads the request's "environment" into op->env. op->native_build and op->toolkit must be filled: library paths must
 * lie in one of them. Refusals are left in the reader. */
void sk_operator_env_read(const sk_strict *environment, sk_operator *op);

#endif
