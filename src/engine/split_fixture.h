/* Test support: a model cut into stages that serve in threads of this process, and the engine at their head. Not part
 * of the product. */
#ifndef SKIPPY_ENGINE_SPLIT_FIXTURE_H
#define SKIPPY_ENGINE_SPLIT_FIXTURE_H

#include <pthread.h>

#include "engine/engine_fixture.h"
#include "runtime/slice.h"
#include "stage/service.h"

enum { SPLIT_MAX = 4 };

typedef struct split_stage {
    sk_model *model;
    sk_stage *stage;
    pthread_t thread;
    bool runs;
    char address[320];
    sk_stage_params params;
} split_stage;

typedef struct split_model {
    char folder[256];
    sk_model *whole, *head;
    split_stage behind[SPLIT_MAX]; /* stages 1.. */
    size_t n_behind;
    sk_engine_params params; /* of the head and, as far as it goes, of the stages; change before split_start */
    uint64_t stage_ram;
    bool stage_disk;
    uint64_t activations;
    sk_split_params split;
    const char *addresses[SPLIT_MAX];
    sk_engine *engine;
} split_model;

/* Cuts a family's test model into equal stages that the family allows. False (the reason was printed): skip(). */
bool split_open(split_model *s, const char *family, size_t n_stages);
/* Starts the stages that do not run, and the engine. */
void split_start(split_model *s);
void split_start_stage(split_model *s, size_t i);
/* Ends one stage, as a process that is stopped: its links break. */
void split_stop_stage(split_model *s, size_t i);
void split_stop(split_model *s);
void split_close(split_model *s);

#endif
