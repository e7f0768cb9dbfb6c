/* SPDX-License-Identifier: MIT */
/*
 * Model of a move, request by request (rules A4, M1 to M7, L4): intents and
 * their take-over, requests with an indeterminate outcome and late requests,
 * keys that are used again, two moves by turns, a cascade beside a move. Each
 * guard can be removed with -DNO_...; tests/model/guards lists the guards and
 * what goes wrong without each.
 *
 *   Mover    attempts, one after another (lease.pml shows that there are never
 *            two at a time, locks.pml that only one of two moves of a table is
 *            open). Each may crash before any request. A run whose attempt
 *            crashed may continue or end as failed; then the next attempt is
 *            that of a new run, with HOPS of the one or the other move
 *   App      replaces and deletes sources, and inserts new ones under their
 *            keys; replaces and deletes moved entities. With FOREIGN it also
 *            inserts at destination keys, an equal entity too
 *   Cascade  (CASCADE) deletes the children of a parent in both tables until it
 *            finds none, then the parent
 *   Net      carries out a late request at any moment before a wait of A4 ends
 *
 * Modelled: every request of a move (reads of sources and copies, inserts,
 * replaces and deletes with ETags, the intent's insert, update and delete).
 * Each is answered, carried out without a response, lost, or late. An ETag is
 * the number of the write, and also serves as Timestamp. A value is the number
 * of the application's write; it is live until the application overwrites or
 * deletes it.
 *
 * Not modelled: pages, batches, several loads in flight (rule M1's wait for an
 * open load), filters, lost leases, the tolerance of 5 s in M2 (Timestamps are
 * exact), accept_equal (M9), stores that are no longer configured (M8). The
 * wait of A4 is longer than any request is late.
 */

#ifndef PAIRS
#define PAIRS 1
#endif
#ifndef CHANGES
#define CHANGES 2 /* changes by the application */
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef FAULTS
#define FAULTS 2 /* requests with an indeterminate outcome */
#endif
#ifndef RUNS
#define RUNS 1
#endif

/* The cells of the source and of the destination of a pair, by move. */
#if defined(HOPS) /* one move from table 0 to 1, one from 1 to 2 */
#define MOVES 2
#define CELLS 3
#define FROM(m, p) (m)
#define TO(m, p) ((m) + 1)
#elif defined(ALIAS) /* one account under two names */
#define MOVES 1
#define CELLS 1
#define FROM(m, p) 0
#define TO(m, p) 0
#elif defined(SAME_KEY) /* two sources, one destination key */
#define MOVES 1
#define CELLS 3
#define FROM(m, p) (p)
#define TO(m, p) 2
#else
#define MOVES 1
#define CELLS (2 * PAIRS)
#define FROM(m, p) (p)
#define TO(m, p) (PAIRS + (p))
#endif

/* Values. EQUAL: the content of two sources, or of a source and of the entity
 * that is at its destination before, is equal. */
#define VALUES (PAIRS + CHANGES + 2)
#ifdef EQUAL
#define CONTENT(value) ((value) <= 2 -> 1 : (value))
#else
#define CONTENT(value) (value)
#endif

#define DONE 0
#define CONFLICT 1
#define ABSENT 2
#define UNKNOWN 3

#define NOTHING 0
#define INSERT 1
#define REPLACE 2
#define DELETE 3
#define INTENT_INSERT 4
#define INTENT_UPDATE 5
#define INTENT_DELETE 6

#define COPYING 1
#define LEAVING 2

/* The properties; an assertion names the one that is violated. */
bool no_value_lost = 1, in_one_place = 1, deleted_stays_away = 1,
    names_are_true = 1, no_orphan = 1;
#define CHECK(property, holds) property = (holds); assert(property)

/* The tables. etag 0: no entity. */
byte etag[CELLS], value[CELLS], now;
bool live[VALUES];
byte next_value;

/* Intents, stored beside the ledger: one key for each move. intent_src 0: the
 * intent does not have this pair. */
byte intent_state[MOVES], intent_etag[MOVES], intent_time[MOVES];
byte intent_src[MOVES * PAIRS], intent_value[MOVES * PAIRS];
#define AT(m, p) ((m) * PAIRS + (p))

/* named: the report of the open run. crashed: the last attempt crashed; stray:
 * a late intent was stored after all. TROUBLE: a crash or an indeterminate
 * outcome, which may excuse a delete that is undone. */
bool named[MOVES * PAIRS];
/* reported: an earlier report named a pair. */
#if defined(HOPS) || defined(CASCADE)
bool reported;
#else
#define reported 0
#endif
bool crashed, ended, stray;
#define TROUBLE (crashes < CRASHES || faults < FAULTS)
#define ACTED (changes < CHANGES || cascaded)
#ifdef CASCADE
bool parent = 1, cascaded;
#else
#define cascaded 0
#endif

/* The memory of the attempt. */
byte time, mine, source, read_value;
byte src[PAIRS], copied[PAIRS], copy[PAIRS];

/* One late request. */
byte late_kind, late_cell, late_etag, late_value, late_time;
byte late_src[PAIRS], late_content[PAIRS];

byte crashes = CRASHES, faults = FAULTS, changes = CHANGES;
/* ---- the oracle ---- */

/* Each live value must be in a table. */
inline judge()
{
    for (j : 1 .. VALUES - 1) {
        there = 0;
        for (c : 0 .. CELLS - 1) {
            there = there || (etag[c] != 0 && value[c] == j)
        }
        CHECK(no_value_lost, !live[j] || there)
    }
    j = 0;
    c = 0;
    there = 0
}

/* Judges a run after its end, once no request is late. */
inline judge_end()
{
    d_step {
#ifdef HOPS
        CHECK(in_one_place, reported || named[0] || named[1] ||
            ((etag[0] == 0 || value[0] != value[1]) &&
            (etag[0] == 0 || value[0] != value[2]) &&
            (etag[1] == 0 || value[1] != value[2])));
#else
        for (j : 0 .. PAIRS - 1) {
            CHECK(in_one_place, named[j] || etag[FROM(0, j)] == 0 ||
                FROM(0, j) == TO(0, j) ||
                value[FROM(0, j)] != value[TO(0, j)]);
            CHECK(deleted_stays_away, TROUBLE || named[j] ||
                etag[TO(0, j)] == 0 || live[value[TO(0, j)]]);
#if !defined(SAME_KEY) && !defined(EQUAL) && !defined(ALIAS)
            CHECK(names_are_true, ACTED || stray || !named[j])
#endif
        }
#endif
        j = 0
    }
}

/* Renumbers the ETags that are still known: only their order matters. */
#define ETAGS 24
byte used[ETAGS], number[ETAGS], r, q; /* used only in renumber(); otherwise
                                          0 */

#define USE(x) used[x] = 1
#define AS_NUMBERED(x) x = number[x]
#define EACH_ETAG(what)                                                        \
    what(time);                                                                \
    what(mine);                                                                \
    what(source);                                                              \
    what(late_etag);                                                           \
    what(late_time);                                                           \
    for (r : 0 .. CELLS - 1) {                                                 \
        what(etag[r])                                                          \
    }                                                                          \
    for (r : 0 .. PAIRS - 1) {                                                 \
        what(src[r]);                                                          \
        what(copy[r]);                                                         \
        what(late_src[r])                                                      \
    }                                                                          \
    for (r : 0 .. MOVES - 1) {                                                 \
        what(intent_etag[r]);                                                  \
        what(intent_time[r])                                                   \
    }                                                                          \
    for (r : 0 .. MOVES * PAIRS - 1) {                                         \
        what(intent_src[r])                                                    \
    }

inline renumber()
{
    d_step {
        EACH_ETAG(USE);
        q = 0;
        number[0] = 0;
        for (r : 1 .. now) {
            if
            :: used[r] -> q++; number[r] = q
            :: else -> number[r] = 0
            fi
        }
        EACH_ETAG(AS_NUMBERED);
        now = q;
        q = 0;
        for (r : 0 .. ETAGS - 1) {
            used[r] = 0;
            number[r] = 0
        }
        r = 0
    }
}

/* ---- the store ---- */

inline put(at, v)
{
    now++;
    etag[at] = now;
    value[at] = v
}

inline take(at)
{
    etag[at] = 0;
    value[at] = 0
}

#ifdef NO_SOURCE_ETAG
#define IS_SOURCE(at, e) 1
#else
#define IS_SOURCE(at, e) (etag[at] == (e))
#endif
#ifdef NO_COPY_ETAG
#define IS_COPY(at, e) 1
#else
#define IS_COPY(at, e) (etag[at] == (e))
#endif

inline land_insert(at, v)
{
    d_step {
        result = (etag[at] == 0 -> DONE : CONFLICT);
        if
        :: result == DONE -> put(at, v); judge()
        :: else
        fi
    }
}

inline land_replace(at, e, v)
{
    d_step {
        result = (etag[at] == 0 -> ABSENT : (IS_COPY(at, e) -> DONE : CONFLICT));
        if
        :: result == DONE -> put(at, v); judge()
        :: else
        fi
    }
}

inline land_delete(at, matches)
{
    d_step {
        result = (etag[at] == 0 -> ABSENT : (matches -> DONE : CONFLICT));
        if
        :: result == DONE -> take(at); judge()
        :: else
        fi
    }
}

#define store_intent(i, state, time, src_of, value_of)                         \
    now++;                                                                     \
    intent_state[i] = state;                                                   \
    intent_etag[i] = now;                                                      \
    intent_time[i] = time;                                                     \
    for (j : 0 .. PAIRS - 1) {                                                 \
        intent_src[AT(i, j)] = src_of[j];                                      \
        intent_value[AT(i, j)] = value_of[j]                                   \
    }                                                                          \
    j = 0

#define land_intent_insert(i, time, src_of, value_of)                          \
    d_step {                                                                   \
        result = (intent_state[i] == 0 -> DONE : CONFLICT);                    \
        if                                                                     \
        :: result == DONE ->                                                   \
            store_intent(i, COPYING, time, src_of, value_of)                   \
        :: else                                                                \
        fi                                                                     \
    }

#define land_intent_update(i, e, src_of, value_of)                             \
    d_step {                                                                   \
        result = (intent_state[i] != 0 && intent_etag[i] == e -> DONE : CONFLICT);\
        if                                                                     \
        :: result == DONE ->                                                   \
            store_intent(i, LEAVING, intent_time[i], src_of, value_of)         \
        :: else                                                                \
        fi                                                                     \
    }

inline land_intent_delete(i, e)
{
    d_step {
        result = (intent_state[i] != 0 && intent_etag[i] == e -> DONE : CONFLICT);
        if
        :: result == DONE ->
            intent_state[i] = 0;
            intent_etag[i] = 0;
            intent_time[i] = 0;
            for (j : 0 .. PAIRS - 1) {
                intent_src[AT(i, j)] = 0;
                intent_value[AT(i, j)] = 0
            }
            j = 0
        :: else
        fi
    }
}

/* ---- a move ---- */

#define DIES                                                                   \
    if                                                                         \
    :: crashes > 0 ->                                                          \
        crashes--;                                                             \
        crashed = 1;                                                           \
        printf("run of move %d: its attempt crashes\n", m);                    \
        goto begin                                                             \
    :: skip                                                                    \
    fi

/* A request is answered, is carried out without a response, is lost, or is
 * late. */
#define SEND(what, kind_of, at, etag_of, value_of)                             \
    if                                                                         \
    :: what                                                                    \
    :: faults > 0 ->                                                           \
        faults--;                                                              \
        if                                                                     \
        :: what                                                                \
        :: skip                                                                \
        :: late_kind == NOTHING ->                                             \
            late_kind = kind_of;                                               \
            late_cell = at;                                                    \
            late_etag = etag_of;                                               \
            late_value = value_of;                                             \
            if                                                                 \
            :: kind_of == INTENT_INSERT || kind_of == INTENT_UPDATE ->         \
                late_time = time;                                              \
                for (j : 0 .. PAIRS - 1) {                                     \
                    late_src[j] = src[j];                                      \
                    late_content[j] = copied[j]                                \
                }                                                              \
                j = 0                                                          \
            :: else                                                            \
            fi                                                                 \
        fi;                                                                    \
        result = UNKNOWN                                                       \
    fi

/* Rule M2: is the entity at the destination the run's own copy, although no
 * response said so? */
#if defined(NO_AGE) || defined(SKEW) /* all times are within 5 s */
#define IS_NEW(at, time) 1
#else
#define IS_NEW(at, time) (etag[at] > (time))
#endif
#ifdef NO_ETAG_OF_ITS_OWN
#define IS_OTHER(at, e) 1
#else
#define IS_OTHER(at, e) (etag[at] != (e))
#endif
#define IS_OURS(at, v, e, time)                                                \
    (etag[at] != 0 && CONTENT(value[at]) == CONTENT(v) && IS_NEW(at, time) &&  \
        IS_OTHER(at, e))

/* Rule M7: the intents that a run of move m takes over first. */
#ifdef NO_BOTH_ENDS
#define IS_TAKEN_OVER(i) (FROM(i, 0) == FROM(m, 0) || FROM(i, 0) == TO(m, 0))
#else
#define IS_TAKEN_OVER(i)                                                       \
    (FROM(i, 0) == FROM(m, 0) || FROM(i, 0) == TO(m, 0) ||                     \
        TO(i, 0) == FROM(m, 0) || TO(i, 0) == TO(m, 0))
#endif

/* first() sets p to the first pair of the load, following() to the next after
 * p; PAIRS: there is none. */
inline first()
{
    p = 0;
    do
    :: p < PAIRS && src[p] == 0 -> p++
    :: else -> break
    od
}

inline following()
{
    p++;
    do
    :: p < PAIRS && src[p] == 0 -> p++
    :: else -> break
    od
}

inline forget()
{
    time = 0;
    mine = 0;
    source = 0;
    read_value = 0;
    any = 0;
    for (p : 0 .. PAIRS - 1) {
        src[p] = 0;
        copied[p] = 0;
        copy[p] = 0;
        indeterminate[p] = 0
    }
    p = 0;
    renumber()
}

/* Begins a new run with an empty report. */
inline new_run()
{
    runs--;
    for (p : 0 .. MOVES * PAIRS - 1) {
#if defined(HOPS) || defined(CASCADE)
        reported = reported || named[p];
#endif
        named[p] = 0
    }
    p = 0;
    m = MOVES - 1 - m
}

/* The copy is now that of the changed source; this source is deleted next. */
inline replaced()
{
    copied[p] = read_value;
    src[p] = source;
    source = 0;
    read_value = 0;
    result = 0
}

proctype Mover()
{
    byte m, i, p, j, c, result, runs = RUNS;
    bool indeterminate[PAIRS], there, any, leaving;

begin: /* an attempt of the same run or of a new run */
    atomic {
        forget();
        i = 0; j = 0; c = 0; result = 0; there = 0; any = 0; leaving = 0;
        ended = 0;
#if MOVES == 2
        if /* the run has failed or was cancelled, and a run of another move
              begins */
        :: skip
        :: crashed && runs > 0 -> new_run()
        fi;
#endif
        printf("an attempt of move %d\n", m);
#ifndef NO_WAIT_AT_TAKE_OVER
        !crashed || late_kind == NOTHING; /* rule A4 */
#endif
        crashed = 0
    }

look: /* rule M7: takes over all intents first */
    atomic {
        i = 0;
        p = 0;
        do
        :: i < MOVES && (intent_state[i] == 0 || !IS_TAKEN_OVER(i)) -> i++
        :: else -> break
        od;
        if
        :: i == MOVES -> i = m; goto scan
        :: else
        fi
    }
take_over: /* rule M6 */
    atomic {
        mine = intent_etag[i];
        time = intent_time[i];
        leaving = intent_state[i] == LEAVING;
        for (p : 0 .. PAIRS - 1) {
            src[p] = intent_src[AT(i, p)];
            copied[p] = intent_value[AT(i, p)];
            indeterminate[p] = 1
        }
        printf("the intent of move %d is taken over\n", i);
        first();
        if
        :: p == PAIRS -> goto look
        :: else
        fi
    }
read_pair:
    atomic {
        DIES;
        source = etag[FROM(i, p)];
        printf("the source %d is read: etag %d of %d\n", p, source, src[p])
    }
    atomic {
        printf("its copy is read: etag %d\n", etag[TO(i, p)]);
        if
        :: source == src[p] && IS_OURS(TO(i, p), copied[p], src[p], time) ->
            copy[p] = etag[TO(i, p)]
#ifdef NO_COPY_STAYS
        :: source == 0 && src[p] != 0 && !leaving &&
               IS_OURS(TO(i, p), copied[p], src[p], time) ->
            land_delete(TO(i, p), 1);
            src[p] = 0;
            printf("the copy of a source that is gone is deleted\n")
#endif
        :: else ->
            if
            :: etag[TO(i, p)] != 0 && (source != 0 || !leaving) ->
                named[AT(i, p)] = 1;
                printf("the pair is named\n")
            :: else
            fi;
            src[p] = 0
        fi;
        source = 0;
        following();
        if
        :: p < PAIRS -> goto read_pair
        :: else -> leaving = 0; first()
        fi;
        if
        :: p == PAIRS -> goto remove
        :: else -> goto store_leaving
        fi
    }

scan:
    atomic {
        indeterminate[p] = 0;
        src[p] = (named[AT(m, p)] -> 0 : etag[FROM(m, p)]);
        copied[p] = (src[p] -> value[FROM(m, p)] : 0);
#if defined(SAME_KEY) && !defined(NO_KEY_ONCE)
        if /* rule M1: the second one waits for this load */
        :: p == 1 && src[0] != 0 -> src[1] = 0; copied[1] = 0
        :: else
        fi;
#endif
        p++;
        if
        :: p < PAIRS -> goto scan
        :: else -> first()
        fi;
        if
        :: p == PAIRS -> goto over
        :: else -> p = 0; now++; time = now /* from the Date of an earlier
                                               response */
        fi
    }

insert_intent:
    atomic {
        DIES;
        SEND(land_intent_insert(m, time, src, copied), INTENT_INSERT, m, 0, 0);
        printf("the intent of move %d is stored: %d\n", m, result)
    }
    atomic {
        if /* after an indeterminate outcome the intent is read */
        :: result == DONE ||
               (intent_state[m] != 0 && intent_time[m] == time) ->
            mine = intent_etag[m]
        :: else -> result = 0; goto insert_intent
        fi;
        result = 0;
        first()
    }

insert:
    atomic {
        DIES;
        SEND(land_insert(TO(m, p), copied[p]), INSERT, TO(m, p), 0, copied[p]);
        printf("the copy %d is inserted: %d\n", p, result);
        if
        :: result == DONE -> copy[p] = etag[TO(m, p)]
        :: result == UNKNOWN -> indeterminate[p] = 1; any = 1
#ifdef NO_ANSWER_NEEDED
        :: else -> indeterminate[p] = 1
#else
        :: else -> named[AT(m, p)] = 1; src[p] = 0
#endif
        fi;
        result = 0;
        following();
        if
        :: p < PAIRS -> goto insert
        :: else -> first()
        fi;
        if
        :: p == PAIRS -> goto remove
        :: else
        fi
    }
#ifndef NO_WAIT_BEFORE_LEAVING
    !any || late_kind == NOTHING; /* rule A4 */
#endif
    any = 0;

read_back: /* reads the copy and compares it */
    atomic {
        DIES;
        printf("the copy %d is read: etag %d\n", p, etag[TO(m, p)]);
        if
        :: !indeterminate[p] && etag[TO(m, p)] == copy[p]
        :: indeterminate[p] && IS_OURS(TO(m, p), copied[p], src[p], time) ->
            copy[p] = etag[TO(m, p)]
#ifdef NO_CONFIRMED_ONLY
        :: else -> indeterminate[p] = 1
#else
        :: else ->
            named[AT(m, p)] = named[AT(m, p)] || etag[TO(m, p)] != 0;
            src[p] = 0;
            copy[p] = 0
#endif
        fi;
        following();
        if
        :: p < PAIRS -> goto read_back
        :: else -> first()
        fi;
        if
        :: p == PAIRS -> goto remove
        :: else
        fi
    }

store_leaving: /* rules M3 and M6 */
#ifndef NO_LEAVING
    atomic {
        DIES;
        SEND(land_intent_update(i, mine, src, copied), INTENT_UPDATE, i, mine,
            0);
        printf("the intent of move %d is leaving: %d\n", i, result)
    }
    atomic {
        if /* after an indeterminate outcome the intent is read */
        :: result == DONE ||
               (intent_state[i] == LEAVING && intent_etag[i] != mine) ->
            mine = intent_etag[i]
        :: else -> result = 0; goto store_leaving
        fi;
        result = 0
    }
#endif

delete_source: /* any: an earlier delete of this entity had an indeterminate
                  outcome */
    atomic {
        DIES;
        SEND(land_delete(FROM(i, p), IS_SOURCE(FROM(i, p), src[p])), DELETE,
            FROM(i, p), src[p], 0);
        printf("the source %d is deleted: %d\n", p, result);
        if
        :: result == UNKNOWN -> any = 1; result = 0; goto delete_source
        :: result == DONE -> result = 0; goto next
#ifdef NO_STICKY_UNKNOWN
        :: else -> any = 0
#else
        :: else
#endif
        fi;
        result = 0
    }
    atomic { /* rule M5 */
        source = etag[FROM(i, p)];
        read_value = value[FROM(i, p)];
        if
        :: any || indeterminate[p] ->
            named[AT(i, p)] = named[AT(i, p)] || source != 0 ||
                (!any && etag[TO(i, p)] != 0);
            goto next
        :: else
        fi;
#ifdef NO_GONE
        if
        :: source == 0 -> goto next
        :: else
        fi;
#endif
#ifdef NO_CHANGED
        if
        :: source != 0 -> goto next
        :: else
        fi;
#endif
        if
        :: source != 0 -> goto replace_copy
        :: else
        fi
    }
delete_copy:
    atomic {
        DIES;
        SEND(land_delete(TO(i, p), IS_COPY(TO(i, p), copy[p])), DELETE,
            TO(i, p), copy[p], 0);
        printf("the copy %d of a source that is gone is deleted: %d\n", p,
            result);
        if
        :: result == UNKNOWN -> result = 0; goto delete_copy
        :: result == CONFLICT -> named[AT(i, p)] = 1
        :: else
        fi;
        result = 0;
        goto next
    }
replace_copy:
    atomic {
        DIES;
        SEND(land_replace(TO(i, p), copy[p], read_value), REPLACE, TO(i, p),
            copy[p], read_value);
        printf("the copy %d of a changed source is replaced: %d\n", p,
            result);
        if
        :: result == DONE -> copy[p] = etag[TO(i, p)]; replaced()
        :: result == UNKNOWN -> result = 0
        :: else -> named[AT(i, p)] = 1; result = 0; goto next
        fi;
        if
        :: source == 0 -> goto delete_source
        :: else
        fi
    }
    atomic { /* reads after an indeterminate outcome */
        if
        :: etag[TO(i, p)] == copy[p] -> goto replace_copy
        :: else
        fi;
        if
        :: etag[TO(i, p)] != 0 &&
               CONTENT(value[TO(i, p)]) == CONTENT(read_value) ->
            copy[p] = etag[TO(i, p)];
            indeterminate[p] = 1;
            replaced();
            goto delete_source
        :: else -> named[AT(i, p)] = 1
        fi
    }
next:
    atomic {
        source = 0;
        read_value = 0;
        any = 0;
        copy[p] = 0;
        indeterminate[p] = 0;
        following();
        if
        :: p < PAIRS -> goto delete_source
        :: else
        fi
    }

remove:
    atomic {
        DIES;
        SEND(land_intent_delete(i, mine), INTENT_DELETE, i, mine, 0);
        printf("the intent of move %d is removed: %d\n", i, result)
    }
    atomic { /* reads after an indeterminate outcome */
        if
        :: result != DONE && intent_state[i] != 0 && intent_etag[i] == mine ->
            result = 0;
            goto remove
        :: else
        fi;
        result = 0;
        forget();
        goto look
    }

over:
    atomic {
        forget();
        i = 0;
        ended = 1;
        printf("the run of move %d has ended\n", m)
    }
    atomic { late_kind == NOTHING -> judge_end() }
    if
    :: atomic { runs > 0 -> new_run(); goto begin }
    :: skip
    fi
}

/* ---- around it ---- */

/* A client writes a new value over the old one, or deletes the entity. */
inline client_puts(at)
{
    live[value[at]] = 0;
    put(at, next_value);
    live[next_value] = 1;
    next_value++;
    changes--;
    renumber()
}

inline client_deletes(at)
{
    live[value[at]] = 0;
    take(at);
    changes--;
    renumber()
}

#if defined(SAME_KEY)
#define IS_MOVED(d) ((d) == 2 && etag[0] == 0 && etag[1] == 0)
#define IS_SOURCE_CELL(s) ((s) < 2)
#elif defined(HOPS)
#define IS_MOVED(d) ((d) > 0 && etag[(d) - 1] == 0)
#define IS_SOURCE_CELL(s) ((s) == 0)
#elif defined(ALIAS)
#define IS_MOVED(d) 0
#define IS_SOURCE_CELL(s) 1
#else
#define IS_MOVED(d) ((d) >= PAIRS && etag[(d) - PAIRS] == 0)
#define IS_SOURCE_CELL(s) ((s) < PAIRS)
#endif

#ifdef FOREIGN
#define IS_FREE_FOR(n) 1
#elif defined(ALIAS)
#define IS_FREE_FOR(n) 0
#else
#define IS_FREE_FOR(n) IS_SOURCE_CELL(n)
#endif

#ifdef ALIAS
#define MAY_DELETE(n) 0
#else
#define MAY_DELETE(n) (IS_SOURCE_CELL(n) || IS_MOVED(n))
#endif
#ifdef CASCADE
#define HAS_PARENT 0 /* the parent has a tombstone: nobody inserts children */
#else
#define HAS_PARENT 1
#endif

#define ACTS_AT(n)                                                             \
    :: atomic {                                                                \
           changes > 0 && etag[n] != 0 && (IS_SOURCE_CELL(n) || IS_MOVED(n)) ->\
           client_puts(n);                                                     \
           printf("the application replaces %d\n", n)                          \
       }                                                                       \
    :: atomic {                                                                \
           changes > 0 && etag[n] != 0 && MAY_DELETE(n) ->                     \
           client_deletes(n);                                                  \
           printf("the application deletes %d\n", n)                           \
       }                                                                       \
    :: atomic {                                                                \
           changes > 0 && etag[n] == 0 && IS_FREE_FOR(n) && HAS_PARENT ->      \
           client_puts(n);                                                     \
           printf("the application inserts %d\n", n)                           \
       }

proctype App()
{
end_app:
    do
    ACTS_AT(0)
#if CELLS > 1
    ACTS_AT(1)
#endif
#if CELLS > 2
    ACTS_AT(2)
#endif
#if CELLS > 3
    ACTS_AT(3)
#endif
    od
}

proctype Net()
{
    byte j, c, result;
    bool there;

end_net:
    do
    :: atomic {
           late_kind != NOTHING ->
           printf("late: request %d for %d lands\n", late_kind, late_cell);
           if
           :: late_kind == INSERT -> land_insert(late_cell, late_value)
           :: late_kind == REPLACE ->
               land_replace(late_cell, late_etag, late_value)
           :: late_kind == DELETE ->
               land_delete(late_cell, IS_SOURCE(late_cell, late_etag))
           :: late_kind == INTENT_INSERT ->
               land_intent_insert(late_cell, late_time, late_src,
                   late_content);
               stray = stray || result == DONE
           :: late_kind == INTENT_UPDATE ->
               land_intent_update(late_cell, late_etag, late_src, late_content)
           :: late_kind == INTENT_DELETE ->
               land_intent_delete(late_cell, late_etag)
           fi;
           late_kind = NOTHING;
           late_cell = 0;
           late_etag = 0;
           late_value = 0;
           late_time = 0;
           result = 0;
           for (j : 0 .. PAIRS - 1) {
               late_src[j] = 0;
               late_content[j] = 0
           }
           j = 0;
           renumber()
       }
    od
}

#ifdef CASCADE
/* Rule L4: the source is listed before the destination. */
#ifdef NO_SOURCE_FIRST
#define LISTED(n) (1 - (n))
#else
#define LISTED(n) (n)
#endif

proctype Cascade()
{
    byte at;
    bool found;

    do
    :: at < 2 ->
        atomic {
            if
            :: etag[LISTED(at)] != 0 ->
                live[value[LISTED(at)]] = 0;
                take(LISTED(at));
                found = 1;
                cascaded = 1;
                renumber();
                printf("the cascade deletes %d\n", LISTED(at))
            :: else -> printf("the cascade finds no %d\n", LISTED(at))
            fi;
            at++
        }
    :: at == 2 && found -> atomic { at = 0; found = 0 }
    :: at == 2 && !found -> break
    od;
    atomic { parent = 0; printf("the cascade deletes the parent\n") }
    atomic {
        ended ->
        CHECK(no_orphan, TROUBLE || reported || named[0] || (etag[0] == 0 && etag[1] == 0))
    }
}
#endif

init {
    byte n;

    atomic {
        next_value = 1;
        for (n : 0 .. PAIRS - 1) {
            put(FROM(0, n), next_value);
            live[next_value] = 1;
            next_value++
        }
#if defined(EQUAL) && !defined(SAME_KEY) && !defined(FOREIGN)
        /* At first there is an equal entity at the destination. */
        put(TO(0, 0), 2);
        live[2] = 1;
        next_value = 3;
#endif
        n = 0;
        run Mover();
        run App();
        run Net();
#ifdef CASCADE
        run Cascade()
#endif
    }
}
