/* SPDX-License-Identifier: MIT */
/*
 * jobs/copier.c in `mode: move`: what a move does, step by step, while the
 * application changes, deletes and makes anew what is moved, works at the
 * destination with what has been moved, and attempts stop or die with requests
 * on their way. Each guard of the code can be taken out with -DNO_...;
 * tests/model/guards has the list and what goes wrong without it.
 *
 *   Run     one run: attempts one after another (tests/model/lease.pml shows
 *           that there are never two), each of which may stop in order, or
 *           die, before any request, and stop while an outcome is unknown
 *   App     at the source: changes an entity, also what its copy's key is made
 *           of and what selects it; deletes it; makes it anew. At the
 *           destination, once an entity is no longer in the source: changes it
 *           with or without its provenance, deletes it
 *   Other   another run of the same job, at the same time: of that neither may
 *           lose anything; that a copy stays twice is not ruled out then
 *   Net     lands what was given up, until LATE ticks after it was sent
 *   Clock   ticks at any moment, so anybody may sleep anywhere
 *
 * A state of an entity is a number, counted up by each write of the
 * application; that of a source is its ETag. ETags at the destination are kept
 * as "is it still the present one".
 */

#ifndef SOURCES
#define SOURCES 1
#endif
#ifndef KEYS
#define KEYS 2 /* at which copies may be */
#endif
#ifndef LATE
#define LATE 1 /* 30 s */
#endif
#ifndef WAIT
#define WAIT LATE
#endif
#ifndef LATE_KINDS
#define LATE_KINDS 30 /* bits: INSERT, REPLACE, DELETE_SOURCE, DELETE_COPY */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef STOPS
#define STOPS 1
#endif
#ifndef CHANGES
#define CHANGES 2 /* of sources */
#endif
#ifndef DELETES
#define DELETES 1 /* of sources; as many are made anew */
#endif
#ifndef OTHERS
#define OTHERS 0 /* passes of another run */
#endif
#ifndef CHANGES_THERE
#define CHANGES_THERE 1
#endif
#ifndef DELETES_THERE
#define DELETES_THERE 1
#endif

#define UNSELECTED KEYS

#define NOBODY 0
#define US 1
#define THEM 2

#define DONE 0
#define CONFLICT 1
#define UNKNOWN 2

#define NOTHING 0
#define INSERT 1
#define REPLACE 2
#define DELETE_SOURCE 3
#define DELETE_COPY 4

/* What is to be done with a source in this pass. */
#define SETTLED 0
#define TO_COPY 1
#define TO_DELETE 2
#define TO_READ 3

/* The properties; an assertion names the one that is violated. */
bool never_in_neither = 1, no_write_lost = 1, in_one_place = 1,
    deleted_goes = 1, deleted_stays_away = 1;
#define CHECK(property, holds) property = (holds); assert(property)

/* The source's table. */
bool here[SOURCES];
byte state[SOURCES], key[SOURCES];

/* The destination's. made_of: the ETag in the provenance. */
bool copy_here[KEYS], copy_named[KEYS];
byte copy_of[KEYS], made_of[KEYS], copy_state[KEYS], copy_run[KEYS];

/* What the application knows: the newest state that was acknowledged, and the
 * first since it was made anew. */
bool alive[SOURCES], deleted_there[SOURCES];
byte newest[SOURCES], born[SOURCES];

/* The run. */
bool other_etag; /* of the other run, of the copy that it has inserted */
byte other_at;
bool etag;       /* in hand: is it the present one ... */
byte etag_of;    /* ... of this key's copy? */
byte wrote[SOURCES]; /* the key of the copy that is known, from 1 */
bool wrote_etag[SOURCES];
byte met[SOURCES]; /* the key, from 1, of a copy of another state */

byte late_kind, late_which, late_key, late_state, late_left;
bool late_etag;

/* The ledger. */
bool let_go, stored_sticky, stored_left, ended;
byte not_before_left, stored_not_before;

bool blemished; /* the copy of what was deleted may stay */
byte crashes = CRASHES, stops = STOPS, changes = CHANGES, deletes = DELETES,
     others = OTHERS, changes_there = CHANGES_THERE, deletes_there = DELETES_THERE;

/* ---- the judge ---- */

#define IS_COPY(k, s)                                                          \
    (copy_here[k] && copy_of[k] == s && copy_state[k] >= born[s])
#define IS_NEWEST(k, s) (IS_COPY(k, s) && copy_state[k] == newest[s])
#define IS_LEFT(k, s)                                                          \
    (copy_here[k] && copy_of[k] == s && (!alive[s] || copy_state[k] < born[s]))
#if KEYS == 2
#define COPIES(s) (IS_COPY(0, s) + IS_COPY(1, s))
#define NEWEST_COPY(s) (IS_NEWEST(0, s) || IS_NEWEST(1, s))
#define LEFT_OVER(s) (IS_LEFT(0, s) || IS_LEFT(1, s))
#else
#define COPIES(s) IS_COPY(0, s)
#define NEWEST_COPY(s) IS_NEWEST(0, s)
#define LEFT_OVER(s) IS_LEFT(0, s)
#endif

inline judge(s)
{
    CHECK(never_in_neither, !alive[s] || here[s] || COPIES(s) > 0);
    CHECK(no_write_lost, !alive[s] || here[s] || NEWEST_COPY(s));
#if OTHERS == 0
    CHECK(in_one_place, !alive[s] || here[s] || COPIES(s) == 1);
    CHECK(in_one_place, !ended || !alive[s] || !here[s] || COPIES(s) == 0);
    CHECK(deleted_goes, !ended || blemished || !LEFT_OVER(s));
#endif
    CHECK(deleted_stays_away, !deleted_there[s] || COPIES(s) == 0)
}

/* ---- the tables ---- */

inline copy_changed(k)
{
    etag = etag && etag_of != k;
    other_etag = other_etag && other_at != k;
    for (n : 0 .. SOURCES - 1) {
        wrote_etag[n] = wrote_etag[n] && wrote[n] != k + 1;
#ifndef NO_FRESH_OF_WHAT_WAS_MET
        met[n] = (met[n] == k + 1 -> 0 : met[n])
#endif
    }
    n = 0;
    if
    :: (late_kind == REPLACE || late_kind == DELETE_COPY) && late_key == k ->
        late_etag = 0
    :: else
    fi
}

inline put_copy(k, s, made, by)
{
    copy_run[k] = by;
    copy_here[k] = 1;
    copy_named[k] = 1;
    copy_of[k] = s;
    made_of[k] = made;
    copy_state[k] = made;
    copy_changed(k)
}

#ifdef NO_INSERT_ABSENCE
#define IS_FREE(k) 1
#else
#define IS_FREE(k) (!copy_here[k])
#endif
#ifdef NO_REPLACE_ETAG
#define MAY_REPLACE(e) 1
#else
#define MAY_REPLACE(e) (e)
#endif
#ifdef NO_SOURCE_ETAG
#define IS_STATE(s, made) 1
#else
#define IS_STATE(s, made) (state[s] == made)
#endif
#ifdef NO_COPY_ETAG
#define MAY_TAKE(e) 1
#else
#define MAY_TAKE(e) (e)
#endif

inline land_insert(k, s, made, by)
{
    result = CONFLICT;
    if
    :: IS_FREE(k) -> result = DONE; put_copy(k, s, made, by); judge_all()
    :: else
    fi
}

inline land_replace(k, s, made, by, e)
{
    result = CONFLICT;
    if
    :: copy_here[k] && MAY_REPLACE(e) ->
        result = DONE;
        put_copy(k, s, made, by);
        judge_all()
    :: else
    fi
}

inline land_delete_source(s, made)
{
    result = CONFLICT;
    if
    :: here[s] && IS_STATE(s, made) ->
        result = DONE;
        here[s] = 0;
        state[s] = 0;
        key[s] = 0;
        judge_all()
    :: else
    fi
}

inline land_delete_copy(k, e)
{
    result = CONFLICT;
    if
    :: copy_here[k] && MAY_TAKE(e) ->
        result = DONE;
        copy_here[k] = 0;
        copy_run[k] = NOBODY;
        copy_named[k] = 0;
        copy_of[k] = 0;
        made_of[k] = 0;
        copy_state[k] = 0;
        copy_changed(k);
        judge_all()
    :: else
    fi
}

inline judge_all()
{
    judge(0);
#if SOURCES == 2
    judge(1)
#endif
}

/* ---- the run ---- */

/* An attempt that ends in order, and what the next one must know of it. */
#ifdef NO_DOUBT_STORED
#define LETS_GO(in_doubt) let_go = 1; stored_left = 1
#else
#define LETS_GO(in_doubt)                                                      \
    let_go = 1;                                                                \
    stored_left = 1;                                                           \
    stored_sticky = sticky || in_doubt;                                        \
    stored_not_before = not_before_left
#endif

#define ENDS                                                                   \
    if                                                                         \
    :: crashes > 0 ->                                                          \
        crashes--;                                                             \
        blemished = 1;                                                         \
        printf("the run dies\n");                                              \
        goto begin                                                             \
    :: stops > 0 ->                                                            \
        stops--;                                                               \
        blemished = 1;                                                         \
        LETS_GO(doubt);                                                        \
        printf("the run stops\n");                                             \
        goto begin                                                             \
    :: skip                                                                    \
    fi

/* The outcome of what was sent is unknown: it may still land. */
#define IN_DOUBT                                                               \
    doubt = 1;                                                                 \
    blemished = 1;                                                             \
    not_before_left = WAIT;                                                    \
    result = UNKNOWN

/* The four ways of a request: answered, answer lost, lost, late. A stop comes
 * before it can be read what became of it. */
#define SEND(what, kind, s, k, made, e)                                          \
    ENDS;                                                                      \
    if                                                                         \
    :: what                                                                    \
    :: what; IN_DOUBT                                                          \
    :: IN_DOUBT                                                                \
    :: late_kind == NOTHING && (LATE_KINDS & (1 << kind)) ->                   \
        late_kind = kind;                                                      \
        late_which = s;                                                        \
        late_key = k;                                                          \
        late_state = made;                                                       \
        late_etag = e;                                                         \
        late_left = LATE;                                                      \
        IN_DOUBT                                                               \
    fi

/* Takes the copy at `at` away, with the ETag in hand. */
inline take_away(at)
{
    do
    :: atomic {
           SEND(land_delete_copy(at, etag), DELETE_COPY, 0, at, 0, etag);
           printf("the run takes the copy at %d away: %d\n", at, result);
           if
           :: copy_here[at] && etag && result != DONE -> result = 0
           :: else -> result = 0; break
           fi
       }
    od
}

#define SWEEPS (KEYS > 1) /* where keys stay, nothing can be stale */

#define COPIED_BY_US(k) (copy_here[k] && copy_named[k] && copy_run[k] == US)
#define IS_INTACT(k) (copy_state[k] == made_of[k])

/* A source that is gone: was it not this run that deleted it? Then the copy
 * that it has just written goes too. */
#ifdef NO_GONE_UNSURE
#define MAY_BE_OURS 0
#else
#define MAY_BE_OURS delete_unsure[s]
#endif
#ifdef NO_STICKY
#define MAY_BE_OF_THE_DEAD 0
#else
#define MAY_BE_OF_THE_DEAD sticky
#endif
#ifdef NO_GONE
#define KNOWN_AND_DELETED_BY_OTHERS 0
#else
#define KNOWN_AND_DELETED_BY_OTHERS                                            \
    (wrote[s] > 0 && wrote_etag[s] && !MAY_BE_OURS && !MAY_BE_OF_THE_DEAD)
#endif

/* What another run has copied is written once more, as nobody's: neither that
 * run nor this one may take it away any more. */
#ifdef NO_ADOPTION
#define IS_ANOTHERS(k) 0
#else
#define IS_ANOTHERS(k) (copy_run[k] == THEM)
#endif

#ifdef NO_SWEEP_OF_ALL
#define STALE(k, s) (key[s] != k)
#else
#define STALE(k, s) 1
#endif

proctype Run()
{
    byte n, result, s, k, by = US;
    byte todo[SOURCES], in_hand[SOURCES], wanted[SOURCES];
    bool insert_unsure[SOURCES], delete_unsure[SOURCES];
    bool sticky, doubt, left, moved, sweep;

begin:
    atomic {
        n = 0; result = 0; s = 0; k = 0; by = US;
        etag = 0; etag_of = 0;
        for (n : 0 .. SOURCES - 1) {
            todo[n] = SETTLED; in_hand[n] = 0; wanted[n] = 0; met[n] = 0;
            insert_unsure[n] = 0; delete_unsure[n] = 0;
            wrote[n] = 0; wrote_etag[n] = 0
        }
        n = 0;
        sticky = stored_sticky;
        doubt = 0; left = 0; moved = 0;
        not_before_left = stored_not_before;
        sweep = stored_left;
        if
        :: !let_go ->
            printf("an attempt takes over\n");
            sticky = 1;
            sweep = 1;
#if !defined(NO_WAIT_FOR_THE_DEAD) && !defined(NO_WAIT_WHERE_KEYS_STAY)
            not_before_left = WAIT;
#endif
#ifdef NO_SWEEP_AFTER_DEATH
            sweep = stored_left;
#endif
        :: else -> printf("an attempt begins\n")
        fi;
#ifdef NO_SWEEP_AFTER_STOP
        sweep = sweep && !let_go;
#endif
        let_go = 0
    }

next_pass:
    atomic {
        not_before_left == 0;
        doubt = 0;
        k = (sweep && SWEEPS -> 0 : KEYS);
        sweep = 0
    }

    /* The copies of this run: those whose source is still there go, and are
     * made anew: it may have, or get, other keys. */
    do
    :: atomic {
           k < KEYS ->
           etag = copy_here[k];
           etag_of = k;
           s = copy_of[k];
           etag = etag && COPIED_BY_US(k) && IS_INTACT(k)
       }
       if
       :: etag && here[s] && STALE(k, s) -> take_away(k)
       :: else
       fi;
       atomic { etag = 0; etag_of = 0; s = 0; k++ }
    :: else -> break
    od;

    atomic { k = 0; moved = 0; left = 0; s = 0 }
    do /* the scan */
    :: atomic {
           s < SOURCES ->
           if
           :: here[s] && key[s] != UNSELECTED ->
               todo[s] = TO_COPY;
               in_hand[s] = state[s];
               wanted[s] = key[s];
               printf("the run reads source %d: state %d, to %d\n", s,
                   in_hand[s], wanted[s])
           :: else
           fi;
#ifdef NO_STORED_FIRST
           if
           :: todo[s] == TO_COPY -> todo[s] = TO_DELETE
           :: else
           fi;
#endif
           s++
       }
    :: else -> break
    od;

work:
    s = 0;
    do
    :: s < SOURCES && todo[s] == TO_COPY ->
       do
       :: todo[s] == TO_COPY ->
           atomic {
               k = wanted[s];
               SEND(land_insert(k, s, in_hand[s], US), INSERT, s, k, in_hand[s], 0);
               printf("the run inserts a copy of %d at %d: %d\n", s, k, result);
#ifdef NO_READ_AFTER_UNKNOWN
               result = (result == UNKNOWN -> DONE : result);
#endif
               insert_unsure[s] = insert_unsure[s] || result == UNKNOWN;
               left = left || insert_unsure[s];
               if
               :: result == DONE ->
                   wrote[s] = k + 1;
                   wrote_etag[s] = 1;
                   todo[s] = TO_DELETE
               :: else
               fi
           }
           atomic { /* copying_decide */
               etag = copy_here[k];
               etag_of = k;
               if
               :: todo[s] != TO_COPY || !copy_here[k] -> etag = 0
               :: else ->
                   if
                   :: copy_of[k] == s && copy_named[k] &&
                       made_of[k] == in_hand[s] && IS_ANOTHERS(k) ->
                       by = NOBODY
                   :: copy_of[k] == s && copy_named[k] &&
                       made_of[k] == in_hand[s] && !IS_ANOTHERS(k) ->
                       if
                       :: copy_run[k] == US ->
                           wrote[s] = k + 1;
                           wrote_etag[s] = IS_INTACT(k)
                       :: else
                       fi;
                       etag = 0;
                       todo[s] = TO_DELETE
                   :: copy_of[k] == s && copy_named[k] &&
                       made_of[k] != in_hand[s] ->
#ifndef NO_FRESH
                       if
                       :: met[s] != k + 1 ->
                           etag = 0;
                           met[s] = k + 1;
                           todo[s] = TO_READ
                       :: else
                       fi;
#endif
                       if
                       :: todo[s] == TO_COPY && !IS_INTACT(k) ->
                           etag = 0;
                           left = 1;
                           todo[s] = SETTLED
                       :: else
                       fi
                   :: else /* another's, or changed without a name */
#ifdef REPLACES
                       if
                       :: copy_of[k] == s
                       :: else -> etag = 0; left = 1; todo[s] = SETTLED
                       fi
#else
                       etag = 0;
                       left = 1;
                       todo[s] = SETTLED
#endif
                   fi
               fi
           }
           if
           :: etag ->
               atomic {
                   SEND(land_replace(k, s, in_hand[s], by, etag), REPLACE, s, k,
                       in_hand[s], etag);
                   printf("the run replaces the copy of %d at %d: %d\n", s, k,
                       result);
                   etag = 0;
                   if
                   :: result == DONE ->
                       wrote[s] = (by == US -> k + 1 : 0);
                       wrote_etag[s] = by == US;
                       todo[s] = TO_DELETE
                   :: else
                   fi;
                   by = US
               }
           :: else
           fi
       :: else -> break
       od;
       atomic { result = 0; k = 0; etag = 0; etag_of = 0 }
    :: atomic { s < SOURCES && todo[s] != TO_COPY -> s++ }
    :: s == SOURCES -> break
    od;

    atomic { s = 0 };
    do
    :: s < SOURCES && todo[s] == TO_DELETE ->
#ifndef NO_POSTPONING
       atomic {
           if
           :: insert_unsure[s] ->
               printf("the run leaves source %d for now\n", s);
               todo[s] = SETTLED
           :: else
           fi
       }
#endif
       do
       :: todo[s] == TO_DELETE ->
           atomic {
               SEND(land_delete_source(s, in_hand[s]), DELETE_SOURCE, s, 0,
                   in_hand[s], 0);
               printf("the run deletes source %d of state %d: %d\n", s,
                   in_hand[s], result);
               delete_unsure[s] = delete_unsure[s] || result == UNKNOWN;
               moved = 1;
#ifdef NO_STORED_FIRST
               if
               :: result == DONE && wrote[s] == 0 -> todo[s] = TO_COPY
               :: else
               fi;
#endif
               if
               :: result == DONE && todo[s] == TO_DELETE -> todo[s] = SETTLED
               :: else
               fi
           }
           atomic { /* what was met */
               if
               :: todo[s] != TO_DELETE
               :: todo[s] == TO_DELETE && here[s] && state[s] == in_hand[s]
               :: todo[s] == TO_DELETE && here[s] && state[s] != in_hand[s] ->
                   todo[s] = TO_READ
               :: todo[s] == TO_DELETE && !here[s] ->
                   todo[s] = SETTLED;
                   printf("source %d is gone\n", s);
                   etag = KNOWN_AND_DELETED_BY_OTHERS;
                   k = (wrote[s] > 0 -> wrote[s] - 1 : 0);
                   etag_of = k
               fi
           }
           if
           :: etag -> take_away(k)
           :: else
           fi
       :: else -> break
       od;
       atomic { result = 0; etag = 0; etag_of = 0; k = 0 }
    :: atomic { s < SOURCES && todo[s] != TO_DELETE -> s++ }
    :: s == SOURCES -> break
    od;

    /* Sources that are to be read again. */
    atomic { s = 0 };
    do
    :: s < SOURCES && todo[s] == TO_READ ->
       atomic {
           ENDS;
           k = 0;
           if
           :: here[s] ->
               in_hand[s] = state[s];
               wanted[s] = key[s];
               todo[s] = (key[s] == UNSELECTED -> SETTLED : TO_COPY);
               printf("the run reads source %d again: state %d, to %d\n", s,
                   in_hand[s], wanted[s]);
               if
               :: wrote[s] > 0 && wrote[s] != key[s] + 1 ->
                   k = wrote[s] - 1;
                   etag = wrote_etag[s];
                   etag_of = k
               :: else
               fi;
#ifdef NO_OLD_GOES
               etag = 0;
#endif
#ifdef NO_UNSELECTED_GOES
               etag = etag && key[s] != UNSELECTED;
#endif
           :: else ->
               todo[s] = SETTLED;
               in_hand[s] = 0;
               k = (wrote[s] > 0 -> wrote[s] - 1 : 0);
               etag = KNOWN_AND_DELETED_BY_OTHERS;
               etag_of = k
           fi
       }
       if
       :: etag -> take_away(k)
       :: else
       fi;
       atomic { result = 0; etag = 0; etag_of = 0; k = 0 }
    :: atomic { s < SOURCES && todo[s] != TO_READ -> s++ }
    :: s == SOURCES -> break
    od;

    atomic {
        s = 0;
        if
        :: todo[0] != SETTLED || todo[SOURCES - 1] != SETTLED -> goto work
        :: else
        fi;
        for (n : 0 .. SOURCES - 1) {
            in_hand[n] = 0; wanted[n] = 0; met[n] = 0; insert_unsure[n] = 0;
            delete_unsure[n] = 0; wrote[n] = 0; wrote_etag[n] = 0
        }
        n = 0;
        sweep = left;
#ifdef NO_SWEEP_AFTER_LEFT
        sweep = 0;
#endif
#ifdef NO_DOUBT_WAIT
        not_before_left = 0;
#endif
        printf("a pass ends: moved %d left %d doubt %d\n", moved, left, doubt);
        if
        :: moved || doubt -> goto next_pass
        :: else
        fi
    }

    atomic {
        ended = 1;
        printf("the run ends\n");
        sticky = 0;
        stored_sticky = 0;
        stored_left = 0;
        stored_not_before = 0;
        not_before_left = 0;
        left = 0;
        sweep = 0;
        judge_all()
    }
}

/* ---- around it ---- */

inline write_source(s, to)
{
    here[s] = 1;
    newest[s]++;
    state[s] = newest[s];
    key[s] = to
}

proctype App()
{
    byte s, k, n;

end:
    do
#if SOURCES == 2
    :: s = 1 - s
#endif
    :: atomic {
           here[s] && changes > 0 && !ended ->
           changes--;
           if
           :: write_source(s, 0)
#if KEYS == 2
           :: write_source(s, 1)
#endif
#ifdef SELECTS
           :: write_source(s, UNSELECTED)
#endif
           fi;
           printf("the application changes source %d: state %d, to %d\n", s,
               state[s], key[s])
       }
    :: atomic {
           here[s] && deletes > 0 && !ended ->
           deletes--;
           printf("the application deletes source %d\n", s);
           here[s] = 0;
           state[s] = 0;
           key[s] = 0;
           alive[s] = 0
       }
    :: atomic {
           !alive[s] && !deleted_there[s] && !ended && deletes < DELETES ->
           alive[s] = 1;
           if
           :: write_source(s, 0)
#if KEYS == 2
           :: write_source(s, 1)
#endif
           fi;
           born[s] = newest[s];
           printf("the application makes source %d anew: state %d, to %d\n", s,
               state[s], key[s])
       }
    :: atomic {
           alive[s] && !here[s] && changes_there > 0 ->
           changes_there--;
           k = 0;
#if KEYS == 2
           if
           :: IS_NEWEST(0, s)
           :: else -> k = 1
           fi;
#endif
           newest[s]++;
           copy_state[k] = newest[s];
           if
           :: skip
           :: copy_named[k] = 0; made_of[k] = 0; copy_run[k] = NOBODY
           fi;
           copy_changed(k);
           printf("the application changes the copy of %d at %d, named %d\n",
               s, k, copy_named[k]);
           k = 0
       }
    :: atomic {
           alive[s] && !here[s] && deletes_there > 0 ->
           deletes_there--;
           k = 0;
#if KEYS == 2
           if
           :: IS_NEWEST(0, s)
           :: else -> k = 1
           fi;
#endif
           printf("the application deletes the copy of %d at %d\n", s, k);
           alive[s] = 0;
           deleted_there[s] = 1;
           copy_here[k] = 0;
           copy_run[k] = NOBODY;
           copy_named[k] = 0;
           copy_of[k] = 0;
           made_of[k] = 0;
           copy_state[k] = 0;
           copy_changed(k);
           k = 0
       }
    od
}

proctype Net()
{
    byte n, result, kind, s, k, made;
    bool e;

end:
    do
    :: atomic {
           late_kind != NOTHING ->
           kind = late_kind;
           s = late_which;
           k = late_key;
           made = late_state;
           e = late_etag;
           printf("late: kind %d of source %d at %d lands\n", kind, s, k);
           late_kind = 0;
           late_which = 0;
           late_key = 0;
           late_state = 0;
           late_etag = 0;
           late_left = 0;
           if
           :: kind == INSERT -> land_insert(k, s, made, US)
           :: kind == REPLACE -> land_replace(k, s, made, US, e)
           :: kind == DELETE_SOURCE -> land_delete_source(s, made)
           :: kind == DELETE_COPY -> land_delete_copy(k, e)
           fi;
           n = 0; result = 0; kind = 0; s = 0; k = 0; made = 0; e = 0
       }
    od
}

#if OTHERS > 0
proctype Other()
{
    byte n, result, made, k;
    bool inserted;

end:
    do
    :: atomic {
           others > 0 && here[0] && key[0] != UNSELECTED ->
           others--;
           made = state[0];
           k = key[0];
           printf("another run reads the source: state %d, to %d\n", made, k)
       }
       if
       :: atomic {
              land_insert(k, 0, made, THEM);
              printf("another run inserts a copy at %d: %d\n", k, result);
              inserted = result == DONE;
              other_etag = inserted;
              other_at = k
          }
       fi;
       if
       :: atomic { /* it has read the source again */
              !inserted && copy_here[k] && copy_of[k] == 0 && copy_named[k] &&
                  made_of[k] < made ->
              put_copy(k, 0, made, THEM);
              inserted = 1;
              other_etag = 1;
              other_at = k;
              result = DONE;
              printf("another run replaces the copy at %d\n", k);
              judge_all()
          }
       :: atomic {
              !inserted && copy_here[k] && copy_of[k] == 0 && copy_named[k] &&
                  made_of[k] == made ->
#ifndef NO_ADOPTION
              copy_run[k] = NOBODY;
              copy_changed(k);
#endif
              printf("another run finds the copy at %d\n", k);
              result = DONE
          }
       :: else
       fi;
       if
       :: result == DONE ->
           atomic {
               land_delete_source(0, made);
               printf("another run deletes the source of state %d: %d\n", made,
                   result)
           }
           if
           :: atomic {
                  inserted && result != DONE && !here[0] ->
                  land_delete_copy(k, other_etag);
                  printf("another run takes its copy at %d away: %d\n", k,
                      result)
              }
           :: else
           fi
       :: else
       fi;
       atomic {
           result = 0; made = 0; k = 0; inserted = 0; other_etag = 0;
           other_at = 0
       }
    :: others == 0 -> break
    od
}
#endif

inline pass_by(left_of)
{
    if
    :: left_of > 0 -> left_of--
    :: else
    fi
}

proctype Clock()
{
end:
    do
    :: d_step {
           late_left > 0 || not_before_left > 0 || stored_not_before > 0 ->
           pass_by(not_before_left);
           pass_by(stored_not_before);
           if
           :: late_left == 1 ->
               late_kind = 0;
               late_which = 0;
               late_key = 0;
               late_state = 0;
               late_etag = 0;
               late_left = 0
           :: late_left > 1 -> late_left--
           :: else
           fi;
           printf("tick\n")
       }
    od
}

init {
    byte n;

    atomic {
        for (n : 0 .. SOURCES - 1) {
            alive[n] = 1;
            here[n] = 1;
            newest[n] = 1;
            state[n] = 1;
            born[n] = 1
        }
        n = 0;
        let_go = 1;
        run Run();
        run App();
#if OTHERS > 0
        run Other();
#endif
        run Net();
        run Clock()
    }
}
