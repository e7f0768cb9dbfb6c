/* SPDX-License-Identifier: MIT */
/*
 * Model of a copy, request by request (rules A1, A4, C1 to C3): own and foreign
 * copies, collisions, edited copies, rounds with their forward and backward
 * scans, late inserts before the last backward scan. Each guard can be removed
 * with -DNO_...; tests/model/guards lists the guards and what goes wrong
 * without each.
 *
 *   Copier  a run: rounds over the sources and over the copies; attempts may
 *           crash before any request, and continue in the round or begin again
 *   App     writes sources under any copy key, deletes them, inserts entities
 *           at copy keys, edits copies, deletes them, copies a copy to another
 *           key with its TablewardSource
 *   Net     carries out a late request at any moment before the wait of A4 ends
 *
 * Modelled: every request of a copy job with two tables. Each is answered,
 * carried out without a response, lost, or late. A source is the number of its
 * state, which is its ETag; its copy key is part of this state. Of a copy's
 * ETag the model knows only whether it is still the present one. A client's
 * value at a copy key (an entity of its own, an edit) may be removed only by a
 * client, or if `replace` allows it.
 *
 * Not modelled: batches, the number of deletes above which rule C6 refuses a
 * run, two names of one account (C5), copies in the table of their source (C4),
 * several entries of `to:`, the sorting of operations, `Behind`. The wait of A4
 * is longer than any request is late.
 *
 * EDITED: `to:` was edited before the run, and has one entry now. The copy at 0
 * was made by this entry when it had another index; the copy at 1 by an entry
 * that was removed: it is a former copy. The run accepts deletes or not. Of
 * rule C6 only this is modelled: if the run does not accept deletes, it ends
 * before it deletes a former copy, and the copy of another source does not
 * replace a former copy.
 */

#ifndef SOURCES
#define SOURCES 2
#endif
#define KEYS 2
#ifndef CHANGES
#define CHANGES 2 /* changes by the application */
#endif
#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef FAULTS
#define FAULTS 1 /* requests with an indeterminate outcome */
#endif
#ifndef ROUNDS
#define ROUNDS 3 /* maximum; the minimum is two */
#endif
#ifdef REPLACES
#define REPLACING 1
#else
#define REPLACING 0
#endif

#define DONE 0
#define CONFLICT 1
#define UNKNOWN 2

#define NOTHING 0
#define INSERT 1
#define REPLACE 2
#define DELETE 3

/* The properties; an assertion names the one that is violated. */
bool no_value_lost = 1, copies_are_right = 1, no_orphan = 1, names_are_true = 1;
bool former_stays = 1;
#define CHECK(property, holds) property = (holds); assert(property)

/* The sources. state 0: no entity. changed: since the round began; before:
 * between the begin of the previous round and that of this one. */
byte state[SOURCES], key[SOURCES], next_state[SOURCES];
bool changed[SOURCES], before[SOURCES];

/* The copies. source_of: 1 + the source that TablewardSource names, 0: it has
 * none. made_of: the state of the source in TablewardSource. at: the key in it.
 * client: a client wrote the entity last. */
bool here[KEYS], client[KEYS], key_changed[KEYS];
byte source_of[KEYS], made_of[KEYS], at[KEYS];

/* former: no entry of `to:` has the key templates that made the copy. moved:
 * the index in the copy is not that of the entry that made it. */
#ifdef EDITED
bool former[KEYS], moved[KEYS], accepts;
#define IS_FORMER(k) former[k]
#define SET_ENTRY(k, is_former, is_moved)                                      \
    former[k] = is_former;                                                     \
    moved[k] = is_moved
#define ACCEPTS accepts
#else
#define IS_FORMER(k) 0
#define SET_ENTRY(k, is_former, is_moved) skip
#define ACCEPTS 1
#endif

/* The run. hand: is the ETag of the copy that it has read still the present
 * one? */
bool hand, whole, last, named[SOURCES], key_named[KEYS];
byte hand_key;

/* One late request. */
byte late_kind, late_key, late_source, late_state;
bool late_hand;

byte crashes = CRASHES, faults = FAULTS, changes = CHANGES;

/* ---- the oracle ---- */

#define IS_OWN(k) (here[k] && source_of[k] > 0 && at[k] == (k))
#define IS_COPY_OF(k, s)                                                       \
    (IS_OWN(k) && source_of[k] == 1 + (s) && made_of[k] == state[s] && !client[k] && \
        !IS_FORMER(k))
/* Another source has this key, or a client wrote the entity there. */
#define HAS_CAUSE(s)                                                           \
    ((here[key[s]] && (!IS_OWN(key[s]) || client[key[s]])) ||                  \
        (SOURCES == 2 && state[SOURCES - 1 - (s)] != 0 &&                      \
            key[SOURCES - 1 - (s)] == key[s]))
#define IS_QUIET(s)                                                            \
    (!changed[s] && !key_changed[key[s]] && !changed[SOURCES - 1 - (s)])

/* Judges everything that nobody has changed since the last round began. */
inline judge_end()
{
    d_step {
        for (s : 0 .. SOURCES - 1) {
            if
            :: state[s] != 0 && IS_QUIET(s) ->
                CHECK(copies_are_right, named[s] || IS_COPY_OF(key[s], s));
                CHECK(names_are_true, !named[s] || HAS_CAUSE(s))
            :: else
            fi
        }
        s = 0;
        for (k : 0 .. KEYS - 1) {
            if
            :: IS_OWN(k) && !client[k] && !key_changed[k] &&
                   !changed[source_of[k] - 1] ->
                CHECK(no_orphan, state[source_of[k] - 1] != 0 && key[source_of[k] - 1] == k)
            :: else
            fi
        }
        k = 0
    }
}

/* ---- the store ---- */

inline copy_changed(k)
{
    hand = hand && hand_key != k;
    late_hand = late_hand && late_key != k
}

inline put_copy(k, s, made)
{
    here[k] = 1;
    client[k] = 0;
    source_of[k] = 1 + s;
    made_of[k] = made;
    at[k] = k;
    SET_ENTRY(k, 0, 0);
    copy_changed(k)
}

inline take_copy(k)
{
    here[k] = 0;
    client[k] = 0;
    source_of[k] = 0;
    made_of[k] = 0;
    at[k] = 0;
    SET_ENTRY(k, 0, 0);
    copy_changed(k)
}

#ifdef NO_COPY_ETAG
#define MAY(h) 1
#else
#define MAY(h) (h)
#endif

inline land_insert(k, s, made)
{
    result = (here[k] -> CONFLICT : DONE);
    if
    :: result == DONE -> put_copy(k, s, made)
    :: else
    fi
}

inline land_replace(k, s, made, h)
{
    result = (here[k] && MAY(h) -> DONE : CONFLICT);
    if
    :: result == DONE ->
        CHECK(no_value_lost, !client[k] || (REPLACING && h));
        CHECK(former_stays, ACCEPTS || !IS_FORMER(k) || source_of[k] == 1 + s);
        put_copy(k, s, made)
    :: else
    fi
}

inline land_delete(k, h)
{
    result = (here[k] && MAY(h) -> DONE : CONFLICT);
    if
    :: result == DONE ->
        CHECK(no_value_lost, !client[k]);
        CHECK(former_stays, ACCEPTS || !IS_FORMER(k));
        take_copy(k)
    :: else
    fi
}

/* ---- a copy ---- */

#define DIES                                                                   \
    if                                                                         \
    :: crashes > 0 ->                                                          \
        crashes--;                                                             \
        doubt = 1;                                                             \
        forget();                                                              \
        printf("the attempt crashes\n");                                       \
        if                                                                     \
        :: goto forward                                                        \
        :: goto first_round                                                    \
        fi                                                                     \
    :: skip                                                                    \
    fi

/* A request is answered, is carried out without a response, is lost, or is
 * late. */
#define SEND(what, kind_of, k, s, made)                                        \
    if                                                                         \
    :: what                                                                    \
    :: faults > 0 ->                                                           \
        faults--;                                                              \
        doubt = 1;                                                             \
        if                                                                     \
        :: what                                                                \
        :: skip                                                                \
        :: late_kind == NOTHING ->                                             \
            late_kind = kind_of;                                               \
            late_key = k;                                                      \
            late_source = s;                                                   \
            late_state = made;                                                 \
            late_hand = hand                                                   \
        fi;                                                                    \
        result = UNKNOWN                                                       \
    fi

inline forget()
{
    hand = 0;
    hand_key = 0;
    made = 0;
    to = 0;
    other = 0;
    result = 0
}

/* Rule C1. */
#ifdef NO_OWN_KEYS
#define IS_TAKEN_FOR_OWN(k) (here[k] && source_of[k] > 0)
#elif defined(NO_TEMPLATES) /* recognizes copies by their index */
#define IS_TAKEN_FOR_OWN(k) (IS_OWN(k) && !moved[k])
#elif defined(NO_FORMER)
#define IS_TAKEN_FOR_OWN(k) (IS_OWN(k) && !former[k])
#else
#define IS_TAKEN_FOR_OWN(k) IS_OWN(k)
#endif
/* Rule C6. */
#ifdef NO_CONSENT
#define IS_KEPT(k) 0
#else
#define IS_KEPT(k) (IS_FORMER(k) && !ACCEPTS)
#endif
/* Rule C3: a digest shows that the copy was edited. */
#ifdef NO_DIGEST
#define IS_EDITED(k) 0
#else
#define IS_EDITED(k) (client[k] && at[k] == (k))
#endif

proctype Copier()
{
    byte s, k, made, to, other, result, round;
    bool doubt;

first_round:
    round = 0;
next_round:
    atomic {
        round = (round < ROUNDS -> round + 1 : ROUNDS);
        s = 0;
        k = 0;
        /* Rule A1: a full round, filtered rounds, a full round. */
        if
        :: whole = 1; last = round >= 2
#ifdef NO_FULL_LAST
        :: round >= 2 -> whole = 0; last = 1
#else
        :: round >= 2 && round < ROUNDS -> whole = 0; last = 0
#endif
        fi;
        for (s : 0 .. SOURCES - 1) {
            before[s] = changed[s];
            changed[s] = 0;
            named[s] = named[s] && !whole
        }
        s = 0;
        for (k : 0 .. KEYS - 1) {
            key_changed[k] = 0;
            key_named[k] = key_named[k] && !whole
        }
        k = 0;
        printf("the round %d begins: full %d last %d\n", round, whole, last)
    }

forward:
    atomic {
        if
        :: s == SOURCES -> goto wait
        :: s < SOURCES && (state[s] == 0 ||
               (!whole && !before[s] && !changed[s])) ->
            s++;
            goto forward
        :: else
        fi;
        made = state[s];
        to = key[s];
        printf("the source %d is read: state %d, key %d\n", s, made, to)
    }
insert:
    atomic {
        DIES;
        SEND(land_insert(to, s, made), INSERT, to, s, made);
        printf("the copy of %d is inserted at %d: %d\n", s, to, result);
        if
        :: result == DONE -> s++; forget(); goto forward
        :: else -> result = 0
        fi
    }
met:
    atomic { /* reads the entity at the copy key */
        printf("the entity at %d is read\n", to);
        if
        :: !here[to] -> forget(); goto forward
        :: here[to] && !IS_TAKEN_FOR_OWN(to) && !REPLACING -> goto name
        :: IS_TAKEN_FOR_OWN(to) && IS_EDITED(to) && !REPLACING -> goto name
        :: IS_TAKEN_FOR_OWN(to) && source_of[to] == 1 + s && made_of[to] == made &&
               !IS_EDITED(to) && !IS_FORMER(to) ->
            s++;
            forget();
            goto forward
        :: else
        fi;
        hand = 1;
        hand_key = to;
        other = (IS_TAKEN_FOR_OWN(to) && source_of[to] != 1 + s -> source_of[to] : 0);
#ifdef NO_COLLISION
        other = 0;
#endif
        if
        :: other == 0 -> goto again
        :: else
        fi
    }
    atomic { /* rule C2: reads the source of this copy */
        printf("its source %d is read\n", other - 1);
#ifndef NO_LOOK
        if
        :: (state[other - 1] == 0 || key[other - 1] != to) && !IS_KEPT(to) ->
            other = 0;
            goto again
        :: else
        fi
#endif
    }
name:
    atomic {
        printf("the source %d is named\n", s);
        named[s] = 1;
        s++;
        forget();
        goto forward
    }
again:
    atomic { /* reads the source again */
        if
        :: state[s] == 0 || key[s] != to -> forget(); goto forward
        :: else -> made = state[s]
        fi
    }
    atomic {
        DIES;
        SEND(land_replace(to, s, made, hand), REPLACE, to, s, made);
        printf("the copy of %d replaces what is at %d: %d\n", s, to, result);
        if
        :: result == DONE -> s++
        :: else
        fi;
        forget();
        goto forward
    }

wait: /* rule A4 */
#ifndef NO_WAIT_BEFORE_BACKWARD
    !doubt || late_kind == NOTHING;
    doubt = 0;
#endif

backward:
    atomic {
        if
        :: k == KEYS -> goto round_ends
        :: k < KEYS && !IS_TAKEN_FOR_OWN(k) -> k++; goto backward
        :: else
        fi;
        hand = 1;
        hand_key = k;
        other = source_of[k];
        made = (IS_EDITED(k) -> 1 : 0);
        printf("the copy at %d is read: of %d\n", k, other - 1)
    }
    atomic {
        printf("its source %d is read\n", other - 1);
        if
        :: state[other - 1] != 0 && key[other - 1] == k ->
            k++;
            forget();
            goto backward
        :: else
        fi;
        if
        :: made == 1 ->
            key_named[k] = 1;
            k++;
            forget();
            goto backward
        :: made == 0 && IS_KEPT(k) -> goto refused
        :: else
        fi
    }
    atomic {
        DIES;
        SEND(land_delete(k, hand), DELETE, k, 0, 0);
        printf("the copy at %d is deleted: %d\n", k, result);
        if
        :: result == DONE -> k++
        :: else
        fi;
        forget();
        goto backward
    }

round_ends:
    atomic {
        k = 0;
        s = 0;
        if
        :: !last -> goto next_round
        :: last
        fi
    }
#ifdef NO_WAIT_BEFORE_BACKWARD
    !doubt || late_kind == NOTHING; /* a wait at the end is too late */
#endif
    atomic {
        printf("the run has ended\n");
        judge_end()
    }
refused:
    skip
}

/* ---- around it ---- */

#define WRITES(n, to)                                                          \
    :: atomic {                                                                \
           changes > 0 ->                                                      \
           changes--;                                                          \
           next_state[n]++;                                                    \
           state[n] = next_state[n];                                           \
           key[n] = to;                                                        \
           changed[n] = 1;                                                     \
           printf("the application writes source %d, key %d\n", n, to)         \
       }
#define DELETES(n)                                                             \
    :: atomic {                                                                \
           changes > 0 && state[n] != 0 ->                                     \
           changes--;                                                          \
           state[n] = 0;                                                       \
           key[n] = 0;                                                         \
           changed[n] = 1;                                                     \
           printf("the application deletes source %d\n", n)                    \
       }
#define TOUCHES(k)                                                             \
    :: atomic {                                                                \
           changes > 0 && !here[k] ->                                          \
           changes--;                                                          \
           here[k] = 1;                                                        \
           client[k] = 1;                                                      \
           key_changed[k] = 1;                                                 \
           copy_changed(k);                                                    \
           printf("the application inserts at %d\n", k)                        \
       }                                                                       \
    :: atomic {                                                                \
           changes > 0 && here[k] ->                                           \
           changes--;                                                          \
           client[k] = 1;                                                      \
           key_changed[k] = 1;                                                 \
           copy_changed(k);                                                    \
           printf("the application edits the copy at %d\n", k)                 \
       }                                                                       \
    :: atomic {                                                                \
           changes > 0 && here[k] ->                                           \
           changes--;                                                          \
           key_changed[k] = 1;                                                 \
           take_copy(k);                                                       \
           printf("the application deletes the copy at %d\n", k)               \
       }                                                                       \
    :: atomic { /* with its TablewardSource and digest */                      \
           changes > 0 && here[k] && source_of[k] > 0 && !client[k] && !here[1 - k] ->\
           changes--;                                                          \
           here[1 - k] = 1;                                                    \
           client[1 - k] = 1;                                                  \
           source_of[1 - k] = source_of[k];                                                  \
           made_of[1 - k] = made_of[k];                                        \
           at[1 - k] = k;                                                      \
           key_changed[1 - k] = 1;                                             \
           copy_changed(1 - k);                                                \
           printf("the application copies %d on\n", k)                         \
       }

proctype App()
{
end_app:
    do
    WRITES(0, 0)
    WRITES(0, 1)
    DELETES(0)
#if SOURCES > 1
    WRITES(1, 0)
    WRITES(1, 1)
    DELETES(1)
#endif
    TOUCHES(0)
    TOUCHES(1)
    od
}

proctype Net()
{
    byte result;

end_net:
    do
    :: atomic {
           late_kind != NOTHING ->
           printf("late: request %d for %d lands\n", late_kind, late_key);
           if
           :: late_kind == INSERT ->
               land_insert(late_key, late_source, late_state)
           :: late_kind == REPLACE ->
               land_replace(late_key, late_source, late_state, late_hand)
           :: late_kind == DELETE -> land_delete(late_key, late_hand)
           fi;
           late_kind = NOTHING;
           late_key = 0;
           late_source = 0;
           late_state = 0;
           late_hand = 0;
           result = 0
       }
    od
}

init {
    atomic {
        next_state[0] = 2;
        state[0] = 2;
#if SOURCES > 1
        next_state[1] = 2;
        state[1] = 2;
        key[1] = 1;
#endif
#ifdef SWAPPED /* each former copy is at the present key of the other source */
        key[0] = 1;
        key[1] = 0;
        here[0] = 1; source_of[0] = 1; made_of[0] = 1; at[0] = 0;
        here[1] = 1; source_of[1] = 2; made_of[1] = 1; at[1] = 1;
#endif
#ifdef EDITED
        here[0] = 1; source_of[0] = 1; made_of[0] = 1; moved[0] = 1;
        here[1] = 1; source_of[1] = 2; made_of[1] = 1; at[1] = 1; former[1] = 1;
        if
        :: key[0] = 0; key[1] = 1
        :: key[0] = 1; key[1] = 0
        fi;
        if
        :: accepts = 1
        :: accepts = 0
        fi;
#endif
        run Copier();
        run App();
        run Net()
    }
}
