/* json.h - a small strict JSON reader for the tests: RFC 8259, UTF-8 checked, duplicate keys refused, nothing lenient.
 *
 *     json *j = json_load("x.summary.json");
 *     CHECK_STR("", j->error);
 *     CHECK_STR("3", json_get(j, "rows[key.name=load].calls"));
 *
 * A path is members and elements: a.b, a[3].b, rows[key.name=load].b (the first element whose member is that text or number),
 * events[ph=X]# (how many there are). json_get gives a string's bytes, a number or word as written, the size of an array or
 * object; NULL when there is nothing there. The result is the reader's, until the next but three calls.
 * SPDX-License-Identifier: MIT */
#ifndef TEST_JSON_H
#define TEST_JSON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct json_node {
    char type;        /* { [ " 0 (number) t f n */
    uint32_t next;    /* index of the node after this one and all in it */
    uint32_t size;    /* members or elements */
    size_t at, length; /* text in the buffer; a string's is unescaped in place */
} json_node;

typedef struct json {
    char error[128];
    char *text;
    size_t size;
    json_node *nodes;
    size_t count, room;
    char result[4][8300];
    unsigned turn;
} json;

static inline void json_fail(json *j, const char *what, size_t at) {
    if (!j->error[0]) snprintf(j->error, sizeof j->error, "%s at byte %lu", what, (unsigned long)at);
}

static inline size_t json_space(const json *j, size_t at) {
    while (at < j->size && (j->text[at] == ' ' || j->text[at] == '\t' || j->text[at] == '\n' || j->text[at] == '\r')) at++;
    return at;
}

static inline int json_hex(const json *j, size_t at) {
    int value = 0, i;
    for (i = 0; i < 4; i++) {
        const char c = at + (size_t)i < j->size ? j->text[at + (size_t)i] : 0;
        const char *digits = "0123456789abcdef", *lower = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (!lower) return -1;
        value = value * 16 + (int)(lower - digits);
    }
    return value;
}

/* Length of the UTF-8 sequence at p; 0: not a valid one. */
static inline size_t json_utf8(const unsigned char *p, size_t left) {
    const size_t length = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : p[0] >= 0xe0 && p[0] < 0xf0 ? 3 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4 : 0;
    size_t i;
    if (!length || length > left) return 0;
    for (i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if (p[0] == 0xe0 && p[1] < 0xa0) return 0;
    if (p[0] == 0xed && p[1] > 0x9f) return 0;
    if (p[0] == 0xf0 && p[1] < 0x90) return 0;
    if (p[0] == 0xf4 && p[1] > 0x8f) return 0;
    return length;
}

static inline size_t json_put(char *to, unsigned code) {
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xc0 | code >> 6);
        to[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xe0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 63));
        to[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    to[0] = (char)(0xf0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 63));
    to[2] = (char)(0x80 | (code >> 6 & 63));
    to[3] = (char)(0x80 | (code & 63));
    return 4;
}

/* at: after the opening quote. */
static inline size_t json_string(json *j, size_t at, json_node *node) {
    size_t to = at;
    node->at = at;
    while (at < j->size) {
        const unsigned char c = (unsigned char)j->text[at];
        if (c == '"') {
            node->length = to - node->at;
            return at + 1;
        }
        if (c < 0x20) {
            json_fail(j, "control character in a string", at);
            return j->size;
        }
        if (c != '\\') {
            size_t length = json_utf8((const unsigned char *)j->text + at, j->size - at);
            if (!length) {
                json_fail(j, "bytes that are not UTF-8", at);
                return j->size;
            }
            while (length--) j->text[to++] = j->text[at++];
            continue;
        }
        if (at + 1 < j->size && j->text[at + 1] == 'u') {
            int code = json_hex(j, at + 2);
            at += 6;
            if (code >= 0xd800 && code < 0xdc00) {
                const int low = at + 1 < j->size && j->text[at] == '\\' && j->text[at + 1] == 'u' ? json_hex(j, at + 2) : -1;
                code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : -1;
                at += 6;
            } else if (code >= 0xdc00 && code < 0xe000) {
                code = -1;
            }
            if (code < 0) {
                json_fail(j, "bad \\u escape", at);
                return j->size;
            }
            to += json_put(j->text + to, (unsigned)code);
        } else {
            static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
            const char *which = at + 1 < j->size && j->text[at + 1] ? strchr(from, j->text[at + 1]) : NULL;
            if (!which) {
                json_fail(j, "bad escape", at);
                return j->size;
            }
            j->text[to++] = into[which - from];
            at += 2;
        }
    }
    json_fail(j, "string without an end", at);
    return at;
}

static inline size_t json_digits(const json *j, size_t at) {
    while (at < j->size && j->text[at] >= '0' && j->text[at] <= '9') at++;
    return at;
}

static inline size_t json_number(json *j, size_t at) {
    const size_t from = at;
    size_t digits;
    if (j->text[at] == '-') at++;
    digits = json_digits(j, at) - at;
    if (!digits || (digits > 1 && j->text[at] == '0')) json_fail(j, "bad number", from);
    at += digits;
    if (at < j->size && j->text[at] == '.') {
        digits = json_digits(j, at + 1) - at - 1;
        if (!digits) json_fail(j, "bad number", from);
        at += 1 + digits;
    }
    if (at < j->size && (j->text[at] == 'e' || j->text[at] == 'E')) {
        at++;
        if (at < j->size && (j->text[at] == '+' || j->text[at] == '-')) at++;
        digits = json_digits(j, at) - at;
        if (!digits) json_fail(j, "bad number", from);
        at += digits;
    }
    return at;
}

static inline size_t json_add(json *j, char type, size_t at) {
    if (j->count == j->room) {
        j->room = j->room ? 2 * j->room : 1024;
        j->nodes = (json_node *)realloc(j->nodes, j->room * sizeof *j->nodes);
        if (!j->nodes) abort();
    }
    memset(&j->nodes[j->count], 0, sizeof *j->nodes);
    j->nodes[j->count].type = type;
    j->nodes[j->count].at = at;
    return j->count++;
}

static inline int json_same(const json *j, const json_node *node, const char *text, size_t length) {
    return node->length == length && !memcmp(j->text + node->at, text, length);
}

static inline size_t json_value(json *j, size_t at, int depth) {
    size_t self, i;
    at = json_space(j, at);
    if (at >= j->size || depth > 200) {
        json_fail(j, "value expected", at);
        return j->size;
    }
    const char c = j->text[at];
    self = json_add(j, c, at);
    if (c == '{' || c == '[') {
        const char closing = c == '{' ? '}' : ']';
        at = json_space(j, at + 1);
        while (!j->error[0] && !(at < j->size && j->text[at] == closing)) {
            if (j->nodes[self].size++) {
                if (at >= j->size || j->text[at] != ',') {
                    json_fail(j, "comma or end expected", at);
                    break;
                }
                at = json_space(j, at + 1);
            }
            if (c == '{') {
                json_node key;
                size_t index, k;
                if (at >= j->size || j->text[at] != '"') {
                    json_fail(j, "key expected", at);
                    break;
                }
                memset(&key, 0, sizeof key);
                key.type = '"';
                at = json_space(j, json_string(j, at + 1, &key));
                for (i = self + 1; i < j->count; i = j->nodes[k].next) {
                    k = i + 1;
                    if (json_same(j, &j->nodes[i], j->text + key.at, key.length)) json_fail(j, "key twice", key.at);
                }
                index = json_add(j, '"', key.at);
                key.next = (uint32_t)j->count;
                j->nodes[index] = key;
                if (at >= j->size || j->text[at] != ':') {
                    json_fail(j, "colon expected", at);
                    break;
                }
                at++;
            }
            at = json_space(j, json_value(j, at, depth + 1));
        }
        at++;
    } else if (c == '"') {
        json_node node = j->nodes[self];
        at = json_string(j, at + 1, &node);
        j->nodes[self] = node;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        const size_t end = json_number(j, at);
        j->nodes[self].type = '0';
        j->nodes[self].length = end - at;
        at = end;
    } else {
        const char *word = c == 't' ? "true" : c == 'f' ? "false" : "null";
        const size_t length = strlen(word);
        if (at + length > j->size || memcmp(j->text + at, word, length)) json_fail(j, "value expected", at);
        j->nodes[self].length = length;
        at += length;
    }
    j->nodes[self].next = (uint32_t)j->count;
    return at;
}

/* Takes the text, which must come from malloc. */
static inline json *json_parse(char *text, size_t size) {
    json *j = (json *)calloc(1, sizeof *j);
    size_t at;
    if (!j) abort();
    j->text = text;
    j->size = size;
    at = json_space(j, json_value(j, 0, 0));
    if (at < size) json_fail(j, "something after the value", at);
    return j;
}

static inline json *json_load(const char *path) {
    FILE *file = fopen(path, "rb");
    size_t size = 0, room = 1 << 16, got = 1;
    char *text = (char *)malloc(room);
    if (!text) abort();
    for (; file && got; size += got) {
        if (size == room && !(text = (char *)realloc(text, room *= 2))) abort();
        got = fread(text + size, 1, room - size, file);
    }
    if (file) fclose(file);
    return json_parse(text, size);
}

static inline void json_free(json *j) {
    free(j->text);
    free(j->nodes);
    free(j);
}

/* Index of what the path leads to from a node, or -1. counted: how many matched, for "#". */
static inline long json_find(const json *j, size_t at, const char *path, unsigned long *counted) {
    while (*path && *path != '#') {
        if (*path == '[' && j->nodes[at].type == '[') {
            const char *close = strchr(path, ']'), *equals = strchr(path, '=');
            size_t i, n = 0, index = strtoul(path + 1, NULL, 10);
            long found = -1;
            if (!close) return -1;
            for (i = at + 1; n < j->nodes[at].size; n++, i = j->nodes[i].next) {
                if (equals && equals < close) {
                    char member[256];
                    long value;
                    snprintf(member, sizeof member, "%.*s", (int)(equals - path - 1), path + 1);
                    value = json_find(j, i, member, NULL);
                    if (value < 0 || !json_same(j, &j->nodes[value], equals + 1, (size_t)(close - equals - 1))) continue;
                    if (counted) ++*counted;
                    if (found < 0) found = (long)i;
                    if (close[1] != '#') break;
                } else if (n == index) {
                    found = (long)i;
                    break;
                }
            }
            if (found < 0) return -1;
            at = (size_t)found;
            path = close + 1;
        } else if (j->nodes[at].type == '{') {
            const size_t length = strcspn(path += *path == '.', ".[#");
            size_t i, n = 0;
            for (i = at + 1; n < j->nodes[at].size; n++, i = j->nodes[i + 1].next)
                if (json_same(j, &j->nodes[i], path, length)) break;
            if (n == j->nodes[at].size) return -1;
            at = i + 1;
            path += length;
        } else {
            return -1;
        }
    }
    return (long)at;
}

static inline const char *json_get(json *j, const char *path) {
    unsigned long counted = 0;
    char *result = j->result[j->turn++ & 3u];
    const size_t room = sizeof j->result[0];
    const char *hash = strchr(path, '#');
    long at;
    if (j->error[0] || !j->count) return NULL;
    at = json_find(j, 0, path, &counted);
    if (hash) {
        snprintf(result, room, "%lu", counted);
        return result;
    }
    if (at < 0) return NULL;
    if (j->nodes[at].type == '{' || j->nodes[at].type == '[') snprintf(result, room, "%lu", (unsigned long)j->nodes[at].size);
    else snprintf(result, room, "%.*s", (int)j->nodes[at].length, j->text + j->nodes[at].at);
    return result;
}

/* -1 when there is no number there. */
static inline double json_double(json *j, const char *path) {
    const char *text = json_get(j, path);
    return text ? strtod(text, NULL) : -1;
}

#endif
