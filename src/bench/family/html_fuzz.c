/* libFuzzer target: whatever the text is, the page has only the tags that the writer made, and all of them are closed.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/family/html_markdown.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
    if (!holds) abort();
}

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Tags without attributes, as "NAME>", and the ones with them up to the first attribute's value. */
static bool known(const char *tag) {
    static const char *const tags[] = {"p>",
                                       "ul>",
                                       "ol>",
                                       "li>",
                                       "hr>",
                                       "table>",
                                       "thead>",
                                       "tbody>",
                                       "tr>",
                                       "td>",
                                       "th>",
                                       "code>",
                                       "strong>",
                                       "a>",
                                       "a href=\"",
                                       "div>",
                                       "pre>",
                                       "h1>",
                                       "h2>",
                                       "h3>",
                                       "h4>",
                                       "h5>",
                                       "h6>",
                                       "h1 id=\"s",
                                       "h2 id=\"s",
                                       "h3 id=\"s",
                                       "h4 id=\"s",
                                       "h5 id=\"s",
                                       "h6 id=\"s",
                                       "td class=\"",
                                       "th class=\"",
                                       "div class=\"wide\" tabindex=\"0\">",
                                       "pre class=\"wide\" tabindex=\"0\">"};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (begins(tag, tags[i])) return true;
    }
    return false;
}

static void check_tags(const char *html) {
    long open = 0;
    for (const char *p = html; (p = strchr(p, '<')); p++) {
        const bool end = p[1] == '/';
        check(known(p + 1 + end));
        open += begins(p, "<hr>") ? 0 : end ? -1 : 1;
        check(open >= 0);
        const char *close = strchr(p, '>');
        check(close && !memchr(p + 1, '<', (size_t)(close - p - 1)));
    }
    check(open == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sk_html_document d = {0};
    char *text = calloc(1, size + 1);
    check(text != NULL);
    memcpy(text, data, size);
    sk_html_markdown(text, &d);
    check(!d.body.failed && !d.contents.failed);
    if (d.body.data) check_tags(d.body.data);
    sk_html_document_free(&d);
    free(text);
    return 0;
}
