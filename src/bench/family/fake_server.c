#include "bench/family/fake_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"

enum { MAX_PROMPTS = 1024, DEATH_CODE = 3, BEGIN_TOKEN = 1 };

typedef struct fake {
    long die_after, disk_looks;
    const char *word;
    bool tie, never_ready;
    char *prompts[MAX_PROMPTS];
    long n_prompts, looks;
} fake;

/* ---- tokens ---- */

/* The next word of text; NULL at the end. */
static const char *next_word(const char **text, size_t *len) {
    const char *at = *text + strspn(*text, " \n");
    *len = strcspn(at, " \n");
    *text = at + *len;
    return *len ? at : NULL;
}

static json_int_t word_id(const char *word, size_t len) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < len; i++) {
        h = (h ^ (unsigned char)word[i]) * 16777619u;
    }
    return (json_int_t)(h % 1000000u) + 2;
}

static json_t *tokenize(const char *text) {
    json_t *ids = json_array();
    size_t len;
    json_array_append_new(ids, json_integer(BEGIN_TOKEN));
    for (const char *w; (w = next_word(&text, &len)) != NULL;) {
        json_array_append_new(ids, json_integer(word_id(w, len)));
    }
    return ids;
}

static size_t common_tokens(const json_t *a, const json_t *b) {
    size_t n = 0;
    while (n < json_array_size(a) && n < json_array_size(b) && json_equal(json_array_get(a, n), json_array_get(b, n))) {
        n++;
    }
    return n;
}

/* ---- answers ---- */

/* How many tokens of prompt an earlier one began with; the last one is always computed. */
static size_t cached_tokens(const fake *f, const char *prompt) {
    json_t *ids = tokenize(prompt);
    size_t most = 0;
    for (long i = 0; i < f->n_prompts; i++) {
        json_t *other = tokenize(f->prompts[i]);
        const size_t n = common_tokens(ids, other);
        most = n > most ? n : most;
        json_decref(other);
    }
    most = most == json_array_size(ids) ? most - 1 : most;
    json_decref(ids);
    return most;
}

static void make_answer(const fake *f, const char *prompt, size_t n, sk_buf *out) {
    for (size_t i = 0; i < n; i++) {
        if (f->word) {
            sk_buf_printf(out, "%s%s", i ? " " : "", f->word);
        } else {
            sk_buf_printf(out, "%sw%d", i ? " " : "", (int)((word_id(prompt, strlen(prompt)) + (json_int_t)i) % 97));
        }
    }
}

static json_t *alternatives(size_t n) {
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, json_pack("{s:[{s:s, s:f}, {s:s, s:f}]}", "top_logprobs", "token", "left",
                                              "logprob", -0.7, "token", "right", "logprob", -0.71));
    }
    return list;
}

/* One prompt: its answer, after it was noted. */
static json_t *complete(fake *f, const char *prompt, const json_t *request, bool chat) {
    const char *limit = chat ? "max_tokens" : "n_predict";
    const size_t n = (size_t)json_integer_value(json_object_get(request, limit));
    if (f->die_after >= 0 && f->n_prompts >= f->die_after) {
        fprintf(stderr, "fake server: no more answers\n");
        _exit(DEATH_CODE);
    }
    sk_buf text = {0};
    const size_t cached = cached_tokens(f, prompt);
    json_t *ids = tokenize(prompt);
    const size_t total = json_array_size(ids);
    const size_t computed = total - cached;
    json_decref(ids);
    make_answer(f, prompt, n, &text);
    if (f->n_prompts < MAX_PROMPTS) {
        f->prompts[f->n_prompts++] = strdup(prompt);
    }
    printf("%s\n", prompt);
    fflush(stdout);
    json_t *out;
    if (chat) {
        out =
            json_pack("{s:[{s:{s:s}, s:{s:o}}], s:{s:I, s:{s:I}, s:I}}", "choices", "message", "content", text.data,
                      "logprobs", "content", alternatives(f->tie ? n : 0), "usage", "prompt_tokens", (json_int_t)total,
                      "prompt_tokens_details", "cached_tokens", (json_int_t)cached, "completion_tokens", (json_int_t)n);
    } else {
        out = json_pack("{s:s, s:[I], s:{s:I, s:I, s:I}, s:o}", "content", text.data, "tokens",
                        word_id(text.data, strlen(text.data)), "timings", "cache_n", (json_int_t)cached, "prompt_n",
                        (json_int_t)computed, "predicted_n", (json_int_t)n, "completion_probabilities",
                        alternatives(f->tie ? n : 0));
    }
    sk_buf_free(&text);
    return out;
}

/* "<role> text" of all messages, and who is to speak next. */
static void render(const json_t *messages, sk_buf *out) {
    size_t i;
    json_t *m;
    json_array_foreach(messages, i, m) {
        sk_buf_printf(out, "<%s> %s ", json_string_value(json_object_get(m, "role")),
                      json_string_value(json_object_get(m, "content")));
    }
    sk_buf_str(out, "<assistant>");
}

static void metrics(fake *f, sk_buf *out) {
    f->looks++;
    const bool ready = f->disk_looks >= 0 && f->looks > f->disk_looks;
    const bool written = f->looks > 2 * f->disk_looks;
    sk_buf_printf(out, "skippy_disk_ready %d\nskippy_store_puts_total{tier=\"ram\"} 7\n", ready ? 1 : 0);
    sk_buf_printf(out, "skippy_store_puts_total{tier=\"disk\"} %ld\nskippy_staging_bytes %d\n",
                  written ? f->n_prompts : 0, ready && !written ? 100 : 0);
}

/* The body of the answer to one request; returns the status. */
static int answer(fake *f, const char *path, const char *body, sk_buf *out) {
    json_t *request = json_loads(*body ? body : "{}", 0, NULL);
    const json_t *messages = json_object_get(request, "messages");
    sk_buf prompt = {0};
    json_t *reply = NULL;
    int status = 200;
    render(messages, &prompt);
    if (strcmp(path, "/health") == 0) {
        status = f->never_ready ? 503 : 200;
        reply = json_pack("{s:s}", "status", "ok");
    } else if (strcmp(path, "/props") == 0) {
        reply = json_pack("{s:s}", "build_info", "fake 1");
    } else if (strcmp(path, "/tokenize") == 0) {
        reply = json_pack("{s:o}", "tokens", tokenize(json_string_value(json_object_get(request, "content"))));
    } else if (strcmp(path, "/apply-template") == 0) {
        reply = json_pack("{s:s}", "prompt", prompt.data);
    } else if (strcmp(path, "/completion") == 0) {
        reply = complete(f, json_string_value(json_object_get(request, "prompt")), request, false);
    } else if (strcmp(path, "/v1/chat/completions") == 0) {
        reply = complete(f, prompt.data, request, true);
    } else if (strcmp(path, "/metrics") == 0 && f->disk_looks >= 0) {
        metrics(f, out);
    } else {
        status = 404;
    }
    char *text = reply ? json_dumps(reply, JSON_COMPACT) : NULL;
    sk_buf_str(out, text ? text : "");
    free(text);
    json_decref(reply);
    json_decref(request);
    sk_buf_free(&prompt);
    return status;
}

/* ---- connections ---- */

/* Reads one request into in; false when the client left. *body points into in. */
static bool read_request(int fd, sk_buf *in, char path[64], const char **body) {
    sk_buf_clear(in);
    for (;;) {
        char part[4096];
        const char *end = in->len ? strstr(in->data, "\r\n\r\n") : NULL;
        const char *length = end ? strstr(in->data, "Content-Length: ") : NULL;
        const size_t want = length ? strtoul(length + 16, NULL, 10) : 0;
        if (end && in->len >= (size_t)(end + 4 - in->data) + want) {
            *body = end + 4;
            return sscanf(in->data, "%*s %63s", path) == 1;
        }
        const ssize_t got = read(fd, part, sizeof part);
        if (got <= 0) {
            return false;
        }
        sk_buf_add(in, part, (size_t)got);
    }
}

static void serve(fake *f, int fd) {
    sk_buf in = {0};
    sk_buf body = {0};
    sk_buf out = {0};
    char path[64];
    const char *asked;
    while (read_request(fd, &in, path, &asked)) {
        sk_buf_clear(&body);
        sk_buf_clear(&out);
        const int status = answer(f, path, asked, &body);
        sk_buf_printf(&out, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n", status, body.len);
        sk_buf_add(&out, body.data ? body.data : "", body.len);
        if (send(fd, out.data, out.len, MSG_NOSIGNAL) != (ssize_t)out.len) {
            break;
        }
    }
    sk_buf_free(&in);
    sk_buf_free(&body);
    sk_buf_free(&out);
}

static int listen_on(uint16_t port) {
    const struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    const int yes = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(fd, (const struct sockaddr *)&a, sizeof a) != 0 || listen(fd, 8) != 0) {
        perror("fake server");
        exit(1);
    }
    return fd;
}

int fake_server_main(int argc, char **argv) {
    fake f = {.die_after = -1, .disk_looks = -1};
    uint16_t port = 0;
    for (int i = 0; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (strcmp(argv[i], "--port") == 0) {
            port = (uint16_t)strtoul(value, NULL, 10);
        } else if (strcmp(argv[i], "--die-after") == 0) {
            f.die_after = strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--disk") == 0) {
            f.disk_looks = strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--word") == 0) {
            f.word = value;
        } else if (strcmp(argv[i], "--tie") == 0) {
            f.tie = true;
        } else if (strcmp(argv[i], "--never-ready") == 0) {
            f.never_ready = true;
        }
    }
    const int listener = listen_on(port);
    for (;;) {
        const int fd = accept(listener, NULL, NULL);
        if (fd >= 0) {
            serve(&f, fd);
            close(fd);
        }
    }
}

bool fake_server_asked(int argc, char **argv, int *code) {
    if (argc < 2 || strcmp(argv[1], FAKE_SERVER_COMMAND) != 0) {
        return false;
    }
    *code = fake_server_main(argc - 2, argv + 2);
    return true;
}

sk_family_host fake_host(const char *name, const char *folder, const char *flags) {
    return (sk_family_host){.name = name,
                            .ours = strcmp(name, SK_HOST_OURS) == 0,
                            .launch = {.program = "/proc/self/exe",
                                       .subcommand = FAKE_SERVER_COMMAND,
                                       .model = "none",
                                       .n_ctx = 4096,
                                       .threads = 1,
                                       .lanes = 1,
                                       .flags = {flags},
                                       .ready_timeout_ms = 20000},
                            .folder = folder,
                            .timeout_ms = 20000};
}
