#include "server/http_head.h"

#include <string.h>
#include <strings.h>

size_t sk_http_head_end(const char *data, size_t len, size_t from) {
    /* The blank line may straddle what was seen before, by up to three bytes ("\n\r" + "\n"). */
    size_t i = from > 3 ? from - 3 : 0;
    while (i < len) {
        const char *lf = memchr(data + i, '\n', len - i);
        if (!lf) return 0;
        i = (size_t)(lf - data) + 1;
        if (i < len && data[i] == '\n') return i + 1;
        if (i + 1 < len && data[i] == '\r' && data[i + 1] == '\n') return i + 2;
    }
    return 0;
}

const char *sk_http_head_field(const sk_http_head *h, const char *name) {
    for (size_t i = 0; i < h->n_fields; i++)
        if (strcasecmp(h->fields[i].name, name) == 0) return h->fields[i].value;
    return NULL;
}

static int refuse(const char **why, int status, const char *text) {
    *why = text;
    return status;
}

/* Characters of method and field names: RFC 9110, section 5.6.2. */
static bool is_token(const char *s, size_t len) {
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!alnum && (c == 0 || !strchr("!#$%&'*+-.^_`|~", c))) return false;
    }
    return len > 0;
}

/* Takes the next line out of [*at, end): NUL-terminates it without its CRLF and moves *at behind it. NULL when a
 * control character other than tab is inside (a bare CR or NUL would be read differently by other programs). */
static char *take_line(char **at, const char *end, size_t *len) {
    char *line = *at;
    char *lf = memchr(line, '\n', (size_t)(end - line));
    if (!lf) return NULL;
    *at = lf + 1;
    if (lf > line && lf[-1] == '\r') lf--;
    *lf = '\0';
    *len = (size_t)(lf - line);
    for (const char *p = line; p < lf; p++) {
        unsigned char c = (unsigned char)*p;
        if ((c < 0x20 && c != '\t') || c == 0x7f) return NULL;
    }
    return line;
}

static enum sk_http_method method_of(const char *name) {
    static const struct {
        const char *name;
        enum sk_http_method method;
    } known[] = {{"GET", SK_HTTP_GET},    {"HEAD", SK_HTTP_HEAD},     {"POST", SK_HTTP_POST},
                 {"PUT", SK_HTTP_PUT},    {"DELETE", SK_HTTP_DELETE}, {"OPTIONS", SK_HTTP_OPTIONS},
                 {"PATCH", SK_HTTP_PATCH}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) return known[i].method;
    return SK_HTTP_OTHER;
}

/* "/path?query", "http://host/path?query" (proxies) or "*". */
static bool parse_target(char *target, sk_http_head *out) {
    if (strncasecmp(target, "http://", 7) == 0 || strncasecmp(target, "https://", 8) == 0) {
        char *slash = strchr(strstr(target, "://") + 3, '/');
        if (!slash) return false;
        target = slash;
    }
    out->path = target;
    out->query = "";
    if (strcmp(target, "*") == 0) return true;
    if (target[0] != '/') return false;
    char *mark = strpbrk(target, "?#");
    if (mark) {
        if (*mark == '?') out->query = mark + 1;
        *mark = '\0';
    }
    return true;
}

static int parse_request_line(char *line, sk_http_head *out, const char **why) {
    char *target = strchr(line, ' ');
    if (!target) return refuse(why, 400, "the request line needs a method, a target and a version");
    *target++ = '\0';
    char *version = strchr(target, ' ');
    if (!version) return refuse(why, 400, "the request line needs a method, a target and a version");
    *version++ = '\0';
    if (!is_token(line, strlen(line))) return refuse(why, 400, "the method is not a token");
    if (strncmp(version, "HTTP/", 5) != 0)
        return refuse(why, 400, "the request line does not end with an HTTP version");
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        return refuse(why, 505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    out->minor = version[7] - '0';
    out->method = method_of(line);
    if (!parse_target(target, out)) return refuse(why, 400, "the request target is not a path");
    return 0;
}

static int parse_field(char *line, sk_http_head *out, const char **why) {
    if (out->n_fields == SK_HTTP_MAX_FIELDS) return refuse(why, 431, "the request has too many header fields");
    if (line[0] == ' ' || line[0] == '\t') return refuse(why, 400, "folded header lines are not accepted");
    char *colon = strchr(line, ':');
    if (!colon || !is_token(line, (size_t)(colon - line))) return refuse(why, 400, "a header field has no valid name");
    *colon = '\0';
    char *value = colon + 1;
    value += strspn(value, " \t");
    size_t n = strlen(value);
    while (n > 0 && (value[n - 1] == ' ' || value[n - 1] == '\t')) value[--n] = '\0';
    out->fields[out->n_fields++] = (sk_http_field){line, value};
    return 0;
}

static size_t count_field(const sk_http_head *h, const char *name) {
    size_t n = 0;
    for (size_t i = 0; i < h->n_fields; i++) n += strcasecmp(h->fields[i].name, name) == 0;
    return n;
}

static bool parse_length(const char *text, uint64_t *out) {
    uint64_t v = 0;
    if (!*text) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (v > (UINT64_MAX - digit) / 10) return false;
        v = v * 10 + digit;
    }
    *out = v;
    return true;
}

/* How the body is delimited: RFC 9112, section 6. */
static int parse_framing(sk_http_head *out, const char **why) {
    const char *length = sk_http_head_field(out, "Content-Length");
    const char *coding = sk_http_head_field(out, "Transfer-Encoding");
    if (length && coding) return refuse(why, 400, "Content-Length and Transfer-Encoding exclude each other");
    if (count_field(out, "Content-Length") > 1) return refuse(why, 400, "Content-Length is given twice");
    if (length && !parse_length(length, &out->content_length))
        return refuse(why, 400, "Content-Length is not a number");
    if (!coding) return 0;
    if (count_field(out, "Transfer-Encoding") > 1 || strcasecmp(coding, "chunked") != 0)
        return refuse(why, 501, "the only Transfer-Encoding that is understood is 'chunked'");
    if (out->minor == 0) return refuse(why, 400, "HTTP/1.0 has no Transfer-Encoding");
    out->chunked = true;
    return 0;
}

static bool list_has(const char *list, const char *word) {
    size_t n = strlen(word);
    while (*list) {
        list += strspn(list, " \t,");
        size_t item = strcspn(list, ",");
        size_t trimmed = item;
        while (trimmed > 0 && (list[trimmed - 1] == ' ' || list[trimmed - 1] == '\t')) trimmed--;
        if (trimmed == n && strncasecmp(list, word, n) == 0) return true;
        list += item;
    }
    return false;
}

static int parse_connection(sk_http_head *out, const char **why) {
    size_t hosts = count_field(out, "Host");
    if (hosts > 1) return refuse(why, 400, "Host is given twice");
    if (hosts == 0 && out->minor == 1) return refuse(why, 400, "HTTP/1.1 requires a Host header");
    const char *connection = sk_http_head_field(out, "Connection");
    out->keep_alive = out->minor == 1;
    if (connection && list_has(connection, "close"))
        out->keep_alive = false;
    else if (connection && list_has(connection, "keep-alive"))
        out->keep_alive = true;
    const char *expect = sk_http_head_field(out, "Expect");
    if (expect && strcasecmp(expect, "100-continue") != 0)
        return refuse(why, 417, "the only expectation that is understood is '100-continue'");
    out->expect_continue = expect != NULL && out->minor == 1;
    return 0;
}

int sk_http_head_parse(char *text, size_t len, sk_http_head *out, const char **why) {
    memset(out, 0, sizeof *out);
    out->path = out->query = "";
    char *at = text;
    const char *end = text + len;
    size_t n = 0;
    char *line = take_line(&at, end, &n);
    if (!line) return refuse(why, 400, "the request line holds control characters");
    int status = parse_request_line(line, out, why);
    while (status == 0 && at < end) {
        line = take_line(&at, end, &n);
        if (!line) return refuse(why, 400, "a header field holds control characters");
        if (n == 0) break;
        status = parse_field(line, out, why);
    }
    if (status == 0) status = parse_framing(out, why);
    if (status == 0) status = parse_connection(out, why);
    return status;
}
