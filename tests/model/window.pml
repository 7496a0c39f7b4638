/* window.pml - the window of a lane and what a reader finds in the dump when the process is killed at any point.
 *
 * The writer's stores go into a page of the file, so a killed process leaves exactly those that came before its end, in the order
 * of the program. The writer below is therefore a sequence of single stores, and the reader looks, once and at any point, at what
 * is there. It holds section 9 of spanprof.h against what the writer knows to have done:
 *
 *     a span whose begin was stored is in the dump once; one whose end was stored has ended; nothing has ended that was not
 *     being ended; every word that the reader takes for the head of a record is one.
 *
 * Names stand for spanprof.h: store() for spanprof_i_enter and spanprof_i_publish, patch() for spanprof_i_leave and the first
 * branches of spanprof_i_finish, store_end() for spanprof_i_record_end, write_out() for spanprof_i_write_out with
 * spanprof_i_write_at in it, open_window() for spanprof_i_open_window, the take-over at the start of a second owner for
 * spanprof_i_detach, spanprof_i_attach and spanprof_i_lane_resume, the reader for what dump_reader.h and trace2summary.c do.
 *
 * tests/model/run.sh checks it as it is, with a ring of two copies (-DRING), and with each of the faults that MUTATION names: these
 * must be found. A model that finds none of them would prove nothing:
 *     1  a word is published before the zero behind it           5  an END's head is stored before its position
 *     2  the window is OPEN again before its first word is zero  6  spans that are open at a write-out are still patched in place
 *     3  the window is FLUSHED before its copy is whole          7  the next owner starts at the window's first word
 *     4  the window has its next number before it is FLUSHED     8  a reader that believes copies with the window's own number
 * SPDX-License-Identifier: MIT */

#ifndef MUTATION
#define MUTATION 0
#endif

#define WORDS 7   /* of a window: SPANPROF_I_WORDS */
#define ROOM 4    /* SPANPROF_I_ROOM; the rest is for one END, 2 words, and the zero that ends the window */
#define SPANS 5   /* that the program begins, all in all */
#define DEPTH 2
#ifdef RING
#define BLOCKS 2  /* copies that take turns: ring_blocks */
#else
#define BLOCKS 6
#endif

/* Words: an open span, a finished one, heads of END and THREAD records, payload. */
#define OPEN_SPAN(id) (1 + id)
#define ENDED_SPAN(id) (11 + id)
#define END_HEAD 20
#define THREAD_HEAD 21
#define POSITION(id) (31 + id)
#define TICKS 50

/* The file: the window, and copies. A copy's words beyond what was written are those of an older copy. */
mtype = { OPEN, FLUSHED };
mtype state = OPEN;
byte seq = 0;
byte window[WORDS];
typedef copy { bit there; byte seq; byte words; byte word[WORDS] };
copy copies[BLOCKS];

/* The owner of the lane: its next word, and the stack of open spans. where: 1 + index in the window, 0 once it was written out. */
byte next = 0;
byte depth = 0;
byte stack_id[DEPTH];
byte stack_where[DEPTH];
bit disk_full = 0;      /* lane->full: nothing more can be written out */

/* What the program knows. */
byte given = 0;        /* spans begun */
bit began[SPANS];      /* the begin is stored */
bit ending[SPANS];     /* the end is about to be stored */
bit ended[SPANS];      /* the end is stored */
byte home[SPANS];      /* number of the window that it began in */
byte end_home[SPANS];  /* number of the window that has its end */
byte oldest = 0;       /* oldest number that the ring is sure to have */

inline open_window() {
#if MUTATION == 4
    skip;
#else
    seq = seq + 1;
#endif
#if MUTATION == 2
    state = OPEN;
    window[0] = 0;
#else
    window[0] = 0;
    state = OPEN;
#endif
    next = 0
}

inline write_out() {
    i = seq % BLOCKS;
#ifdef RING
    atomic { if :: copies[i].there -> oldest = copies[i].seq + 1 :: else fi }
#endif
#if MUTATION == 3
    state = FLUSHED;
#endif
    atomic { copies[i].there = 1; copies[i].seq = seq; copies[i].words = next } /* the block's header: one piece */
    k = 0;
    do
    :: k < WORDS -> copies[i].word[k] = window[k]; k++
    :: k < WORDS -> disk_full = 1; break                            /* no more room on the disk; not every copy is whole */
    :: k == WORDS -> break
    od;
    if
    :: disk_full
    :: else ->
#if MUTATION == 4
        seq = seq + 1;
#endif
        state = FLUSHED;
#if MUTATION != 6
        atomic { k = 0; do :: k < depth -> stack_where[k] = 0; k++ :: else -> break od }
#endif
        open_window()
    fi
}

/* Room for a record of n words: spanprof_i_room. has is the answer. */
inline room(n) {
    if
    :: !disk_full && next + n <= ROOM -> has = 1
    :: !disk_full && next + n > ROOM -> write_out(); has = !disk_full
    :: disk_full -> has = 0
    fi
}

inline store(word) {
#if MUTATION == 1
    window[next] = word;
    window[next + 1] = 0;
#else
    window[next + 1] = 0;
    window[next] = word;
#endif
}

inline store_two(head, payload) {
#if MUTATION == 5
    window[next + 2] = 0;
    window[next] = head;
    window[next + 1] = payload;
#else
    window[next + 1] = payload;
    window[next + 2] = 0;
    window[next] = head;
#endif
    next = next + 2
}

inline begin() {
    room(1);
    if
    :: has ->
        id = given;
        home[id] = seq;
        given++;
        store(OPEN_SPAN(id));
        began[id] = 1;
        atomic { stack_id[depth] = id; stack_where[depth] = next + 1; depth++ }
        next++
    :: else                                                     /* dropped, and counted */
    fi
}

inline store_end() {
    room(2);
    if
    :: has || next + 3 <= WORDS ->
        end_home[id] = seq;
        store_two(END_HEAD, POSITION(id));
        ended[id] = 1
    :: else                                                     /* unfinished */
    fi
}

inline end() {
    atomic { depth--; id = stack_id[depth]; ending[id] = 1 }
    if
    :: stack_where[depth] ->
        end_home[id] = seq;
        window[stack_where[depth] - 1] = ENDED_SPAN(id);        /* patch() */
        ended[id] = 1
    :: else -> store_end()
    fi
}

/* A thread that records at random, then ends; the spans that it left open stay so. */
proctype owner(bit second) {
    byte i, k, id;
    bit has;
    if
    :: second ->
        depth = 0;
#if MUTATION == 7
        next = 0;
#else
        next = 0;
        do
        :: window[next] == 0 -> break
        :: window[next] >= END_HEAD -> next = next + 2
        :: else -> next++
        od;
#endif
        room(2);
        if :: has -> store_two(THREAD_HEAD, TICKS) :: else fi
    :: else
    fi;
    do
    :: given < SPANS && depth < DEPTH -> begin()
    :: depth > 0 -> end()
    :: break
    od;
    if
    :: second
    :: else -> run owner(1)
    fi
}

/* ---- the reader ---- */

byte seen[SPANS];
bit finished[SPANS];

/* One block; zero says whether a zero word ends it (a window) or its count of words does. */
#define READ_WORDS(block, count, zero)                                                                      \
    r = 0;                                                                                                  \
    do                                                                                                      \
    :: r >= count -> break                                                                                  \
    :: r < count && block[r] == 0 -> assert(zero); break                                                    \
    :: r < count && block[r] >= 1 && block[r] <= SPANS -> seen[block[r] - 1]++; r++                         \
    :: r < count && block[r] >= 11 && block[r] < 11 + SPANS ->                                              \
        seen[block[r] - 11]++; finished[block[r] - 11] = 1; r++                                             \
    :: r < count && block[r] == END_HEAD ->                                                                 \
        assert(r + 1 < count && block[r + 1] >= 31 && block[r + 1] < 31 + SPANS);                           \
        finished[block[r + 1] - 31] = 1; r = r + 2                                                          \
    :: r < count && block[r] == THREAD_HEAD -> assert(r + 1 < count && block[r + 1] == TICKS); r = r + 2    \
    :: r < count && block[r] > THREAD_HEAD -> assert(false)                                                 \
    od

active proctype reader() {
    byte r, b;
    d_step {
        b = 0;
        do
        :: b < BLOCKS ->
            if
#if MUTATION == 8
            :: copies[b].there -> READ_WORDS(copies[b].word, copies[b].words, 0)
#else
            :: copies[b].there && !(state == OPEN && copies[b].seq == seq) -> READ_WORDS(copies[b].word, copies[b].words, 0)
#endif
            :: else
            fi;
            b++
        :: else -> break
        od;
        if
        :: state == OPEN -> READ_WORDS(window, WORDS, 1)
        :: else
        fi;
        b = 0;
        do
        :: b < SPANS ->
            assert(seen[b] <= 1);
            assert(!(began[b] && home[b] >= oldest && seen[b] == 0));          /* lost */
            assert(!(ended[b] && end_home[b] >= oldest && !finished[b]));      /* lost end */
            assert(!(finished[b] && !ending[b]));                              /* out of thin air */
            b++
        :: else -> break
        od
    }
}

init { run owner(0) }
