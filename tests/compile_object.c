/* compile_object.c - every macro in code whose object file must be the same without them, when they are disabled. One statement
 * a line, so that a script can take them out. SPDX-License-Identifier: MIT */
#include "spanprof.h"

int object(int argument, const char *text);
int called(int value);

int object(int argument, const char *text) {
    int i, sum = 0;
    SPANPROF_FUNCTION();
    SPANPROF_SPAN("span");
    SPANPROF_SPAN_META("meta", .phase = "forward", .step = called(1));
    SPANPROF_SPAN_HOOKED("hooked", &hooks);
    SPANPROF_STEP(argument);
    SPANPROF_THREAD_NAME(text);
    if (argument > 3)
        SPANPROF_INSTANT("then");
    else
        SPANPROF_INSTANT("else");
    for (i = 0; i < argument; i++) {
        SPANPROF_SPAN("loop");
        SPANPROF_BLOCK("block") {
            sum += called(i);
        }
        SPANPROF_BLOCK("unbraced")
            sum += text[i];
        SPANPROF_BEGIN("pair");
        SPANPROF_ATTR_I64("i", called(2));
        SPANPROF_ATTR_U64("u", called(3));
        SPANPROF_ATTR_F64("f", called(4));
        SPANPROF_ATTR_STR("s", text);
        SPANPROF_END();
        SPANPROF_BEGIN_META("pair", .step = called(5));
        SPANPROF_BEGIN_DYN(text);
        SPANPROF_COUNTER("c", called(6));
        SPANPROF_END();
        SPANPROF_END();
    }
    SPANPROF_ASYNC_BEGIN("a", 1);
    SPANPROF_ASYNC_END("a", 1);
    SPANPROF_FLOW_OUT(called(7));
    SPANPROF_FLOW_IN(called(7));
    return sum;
}
