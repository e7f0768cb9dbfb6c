/* SPDX-License-Identifier: MIT */
/*
 * Model of jobs/cascade/cascade.c and jobs/cascade/walk.c: what a cascade does,
 * step by step, while front ends add children and create the parent again, and
 * attempts die. Each guard of the code can be removed with -DNO_...;
 * tests/model/guards lists the guards and what goes wrong without each.
 *
 *   Run     one run: attempts one after another (tests/model/lease.pml shows
 *           that there are never two at a time), each of which may die before
 *           any request
 *   Writer  a front end: reads the parent, then inserts a child under it, later
 *           by less than the settle time
 *   App     creates the parent again as soon as its name is free, changes a
 *           child, removes a parent with a tombstone between two passes or
 *           during a pass
 *   Net     carries out requests that were given up, at most LATE ticks after
 *           they were sent
 *   Clock   ticks at any moment, so any process may sleep anywhere
 *
 * Times are kept as the time that is left, so the clock has no end. An ETag is
 * kept as "is it still the present one". Each run has at most one late request.
 * Dates are exact here; lease.pml models that they have whole seconds.
 */

#ifndef SETTLE
#define SETTLE 1
#endif
#ifndef LATE
#define LATE 2 /* 30 s, longer than the settle time */
#endif
#ifndef LATE_KINDS
/* bits: INSERT, MERGE, DELETE_PARENT and DELETE_CHILD may be late */
#define LATE_KINDS 30
#endif
#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef GENERATIONS
#define GENERATIONS 1 /* how often the parent is created again */
#endif
#ifndef MOVES
#define MOVES 1 /* how often a child is changed so that no rule finds it */
#endif
#ifndef RUNS
#define RUNS 1
#endif
/* AGELESS: the job has no property with the time at which a parent was created.
 * TOGETHER: both runs are requested before the parent is created again.
 * LEDGERS: each run is in its own ledger, and is not open in the other one.
 * WATCHES: the parent is removed during a pass too. Once a tick the run reads
 * the parent before it deletes a child, and writers add children to a new
 * parent only a tick after it was created: what is deleted within seconds is
 * not modelled. */
#ifdef TOGETHER
#define REQUESTED(who) 1
#else
#define REQUESTED(who) (who)
#endif

/* Children: a leaf; a branch, which two rules find; and under the branch one
 * entity for each of the two rules. */
#define LEAF 0
#define BRANCH 1
#define UNDER 2
#define BESIDE 3
#define CHILDREN 4

#define TOMBSTONE_NONE 0
#define TOMBSTONE_OURS 1
#define TOMBSTONE_OF_OTHER 2
#define TOMBSTONE_OF_NOBODY 3

#define DONE 0
#define CONFLICT 1
#define UNKNOWN 2

#define NOTHING 0
#define INSERT 1
#define MERGE 2
#define DELETE_PARENT 3
#define DELETE_CHILD 4

/* The properties; an assertion names the one that is violated. */
bool no_orphan = 1, parent_goes_last = 1, new_parent_is_spared = 1,
    new_child_is_spared = 1, foreign_child_is_spared = 1,
    no_tombstone_stays = 1, nothing_is_left = 1;
#define CHECK(property, holds) property = (holds); assert(property)

/* The parent. generation: how often it was created again. */
bool here, bare;
byte generation, made, tombstone; /* tombstone: number of the run */
bool has_etag[RUNS + 1];

bool child_here[CHILDREN], child_moved;
byte child_generation[CHILDREN];
bool child_etag[(RUNS + 1) * CHILDREN];
#define CHILD_ETAG_OF(which) child_etag[self * CHILDREN + which]
#define CHILD_ETAG CHILD_ETAG_OF(child)

/* One late request for each run. */
byte late_kind[RUNS + 1], late_child[RUNS + 1], late_left[RUNS + 1];
bool late_etag[RUNS + 1];

/* The ledger: checkpoint and phase; and the memory of an attempt. */
bool stored_laid[RUNS + 1], stored_found[RUNS + 1], stored_last[RUNS + 1],
    stored_due[RUNS + 1], stored_waited[RUNS + 1];
byte stored_settle[RUNS + 1], stored_not_before[RUNS + 1],
    stored_from[RUNS + 1];
byte settle_left[RUNS + 1], not_before_left[RUNS + 1];
bool phase_parent[RUNS + 1], let_go[RUNS + 1], ended[RUNS + 1];
#ifdef WATCHES
bool checked, fresh; /* since the last tick: the parent was read; was created */
#endif

byte window_left, crashes = CRASHES, moves = MOVES, removals = 1;

/* ---- the table ---- */

inline parent_changed()
{
    for (n : 1 .. RUNS) {
        has_etag[n] = 0;
        if
        :: late_kind[n] == MERGE || late_kind[n] == DELETE_PARENT ->
            late_etag[n] = 0
        :: else
        fi
    }
}

inline child_changed(which)
{
    for (n : 1 .. RUNS) {
        child_etag[n * CHILDREN + which] = 0;
        if
        :: late_kind[n] == DELETE_CHILD && late_child[n] == which ->
            late_etag[n] = 0
        :: else
        fi
    }
}

inline land_insert(who)
{
    result = (here -> CONFLICT : DONE);
    if
    :: !here ->
        here = 1;
        bare = 1;
        generation = 0;
        tombstone = who;
        parent_changed();
        CHECK(no_tombstone_stays, !ended[who])
    :: else
    fi
}

inline land_merge(who, etag)
{
    result = (here && etag -> DONE : CONFLICT);
    if
    :: result == DONE ->
        CHECK(new_parent_is_spared, bare || generation < REQUESTED(who));
        tombstone = who;
        parent_changed()
    :: else
    fi
}

#ifdef NO_PARENT_ETAG
#define PARENT_ETAG(etag) 1
#else
#define PARENT_ETAG(etag) (etag)
#endif
#ifdef NO_CHILD_ETAG
#define NEEDED_ETAG(etag) 1
#else
#define NEEDED_ETAG(etag) (etag)
#endif

inline land_delete_parent(who, etag)
{
    result = (!here || PARENT_ETAG(etag) -> DONE : CONFLICT);
    if
    :: here && PARENT_ETAG(etag) ->
        CHECK(new_parent_is_spared, bare || generation < REQUESTED(who));
        CHECK(parent_goes_last,
            !(child_here[LEAF] && !child_moved) && !child_here[BRANCH] &&
                !child_here[UNDER] && !child_here[BESIDE]);
        here = 0;
        bare = 0;
        tombstone = 0;
        generation = 0;
        parent_changed()
    :: else
    fi
}

inline land_delete_child(who, which, etag)
{
    result = (!child_here[which] || NEEDED_ETAG(etag) -> DONE : CONFLICT);
    if
    :: child_here[which] && NEEDED_ETAG(etag) ->
        CHECK(foreign_child_is_spared, which != LEAF || !child_moved);
        CHECK(new_child_is_spared, child_generation[which] < REQUESTED(who));
        if
        :: which == BRANCH ->
            CHECK(parent_goes_last, !child_here[UNDER] && !child_here[BESIDE])
        :: else
        fi;
        child_here[which] = 0;
        child_generation[which] = 0;
        child_changed(which)
    :: else
    fi
}

/* ---- a run ---- */

#define DIES                                                                   \
    if                                                                         \
    :: crashes > 0 -> crashes--; printf("run %d dies\n", self); goto begin     \
    :: skip                                                                    \
    fi

/* A request is answered, is carried out without a response, is lost, or is
 * late. */
#define SEND(what, kind_of, which, etag_of)                                    \
    if                                                                         \
    :: what                                                                    \
    :: what; result = UNKNOWN                                                  \
    :: result = UNKNOWN                                                        \
    :: late_kind[self] == NOTHING && (LATE_KINDS & (1 << kind_of)) ->          \
        late_kind[self] = kind_of;                                             \
        late_child[self] = which;                                              \
        late_etag[self] = etag_of;                                             \
        late_left[self] = LATE;                                                \
        result = UNKNOWN                                                       \
    fi

/* store_checkpoint() stores the checkpoint; save() may also lose it, as when
 * the worker dies before it is stored. */
inline store_checkpoint(place)
{
    stored_laid[self] = laid;
    stored_settle[self] = settle_left[self];
    stored_not_before[self] = not_before_left[self];
    stored_from[self] = place;
    stored_found[self] = place > 0 && found;
    stored_last[self] = place > 0 && last;
    stored_due[self] = place > 0 && due
}

inline save(place)
{
    if
    :: store_checkpoint(place)
    :: skip
    fi
}

inline expect_late_insert()
{
    not_before_left[self] = LATE;
    save(0)
}

inline lay()
{
    if
    :: !laid ->
        laid = 1;
        settle_left[self] = SETTLE
    :: else
    fi
}

/* A branch is deleted in the last settle pass, once nothing is under it. */
#ifdef NO_KEEPING_BRANCHES
#define IN_TIME 1
#else
#define IN_TIME last
#endif
#ifdef NO_LOOK_BY_OTHER_RULES
#define SEEN_BY_OTHERS 0
#else
#define SEEN_BY_OTHERS                                                         \
    ((place == 3 && child_here[BESIDE]) || (place == 6 && child_here[UNDER]))
#endif
#define EMPTIED (met && !below && !inside && IN_TIME && !SEEN_BY_OTHERS)

/* MAY_COME_LATE: an attempt that took over must wait for a late insert of the
 * tombstone. */
#ifdef NO_TOOK_OVER_WAIT_WHERE_TAKEN
#define MAY_COME_LATE (holder == TOMBSTONE_NONE || bare)
#else
#define MAY_COME_LATE (holder != TOMBSTONE_OURS || bare)
#endif

#ifdef NO_OWNER_AT_THE_END
#define OURS here
#elif defined(NO_TOMBSTONE)
#define OURS (here && (tombstone == self || tombstone == 0))
#else
#define OURS (here && tombstone == self)
#endif

proctype Run(byte self)
{
    byte holder, result, child, from, n, place;
    bool previous_owner_crashed, laid, found, below, inside, met, last, due, deleted, newer,
        open, ahead, ahead_found, early, failed;

begin:
    atomic {
        previous_owner_crashed = !let_go[self];
        let_go[self] = 0;
        laid = stored_laid[self];
        settle_left[self] = stored_settle[self];
        not_before_left[self] = stored_not_before[self];
        from = stored_from[self];
        found = stored_found[self];
        last = stored_last[self];
        due = stored_due[self];
        holder = 0; result = 0; child = 0; below = 0; met = 0; deleted = 0;
        newer = 0; inside = 0;
        open = 0; ahead = 0; ahead_found = 0; early = 0;
        printf("run %d: attempt, previous_owner_crashed %d laid %d from %d\n", self,
            previous_owner_crashed, laid, from);
        if
        :: phase_parent[self] -> goto delete_parent
        :: else
        fi
    }

pass: /* the first page may be read earlier than the parent */
    atomic {
        if
#ifdef NO_READING_AHEAD_WHEN_DUE
        :: from == 0 ->
#else
        :: from == 0 && (!laid || (settle_left[self] == 0 &&
                                      not_before_left[self] == 0)) ->
#endif
            ahead = 1;
            early = !laid;
            ahead_found = child_here[LEAF] && !child_moved;
            CHILD_ETAG_OF(LEAF) = ahead_found;
            printf("run %d reads ahead: found %d early %d\n", self,
                ahead_found, early)
        :: skip
        fi
    }

hold_parent:
    atomic {
        holder = (!here -> TOMBSTONE_NONE : (tombstone == 0 -> TOMBSTONE_OF_NOBODY :
            (tombstone == self -> TOMBSTONE_OURS : TOMBSTONE_OF_OTHER)));
        printf("run %d reads the parent: holder %d\n", self, holder);
#ifdef WATCHES
        checked = 1;
#endif
        has_etag[self] = here;
        newer = here && !bare && generation >= REQUESTED(self);
#if defined(NO_CREATED) || defined(AGELESS)
        newer = 0;
#endif
#ifdef NO_READ_EACH_PASS
        if
        :: laid -> goto held
        :: else
        fi;
#endif
#ifndef NO_TOOK_OVER_WAIT
        if
        :: previous_owner_crashed && MAY_COME_LATE -> expect_late_insert()
        :: else
        fi;
#endif
        previous_owner_crashed = 0;
        if
        :: holder == TOMBSTONE_OURS ->
            lay();
            goto held
        :: else
        fi;
#ifndef NO_TOOK_OVER_WAIT_WHERE_TAKEN
        if
        :: holder != TOMBSTONE_NONE && not_before_left[self] > 0 -> goto wait_late
        :: else
        fi;
#endif
#ifndef NO_OTHER_RUN
        if
#ifdef LEDGERS
        :: holder == TOMBSTONE_OF_OTHER -> open = 0
#else
        :: holder == TOMBSTONE_OF_OTHER -> open = !ended[tombstone]
#endif
        :: else
        fi;
        if
        :: holder == TOMBSTONE_OF_OTHER && open -> goto wait_other
        :: else
        fi;
#ifndef NO_FAILURE_FOR_OTHER
        if
        :: holder == TOMBSTONE_OF_OTHER && laid -> failed = 1; goto spared
        :: else
        fi;
#endif
#endif
#ifndef NO_GIVING_WAY
        if
        :: holder != TOMBSTONE_NONE && laid -> goto spared
        :: else
        fi;
#endif
#ifndef NO_WAITED
        if
        :: holder == TOMBSTONE_OF_NOBODY && stored_waited[self] -> goto spared
        :: else
        fi;
#endif
        if
        :: holder != TOMBSTONE_NONE && newer -> goto spared
        :: else
        fi;
#ifdef NO_BARE_TOMBSTONE
        if
        :: holder == TOMBSTONE_NONE -> lay(); goto held
        :: else
        fi;
#endif
#ifdef NO_TOMBSTONE
        if
        :: holder == TOMBSTONE_OF_NOBODY -> lay(); goto held
        :: else
        fi;
#endif
    }
    atomic {
        DIES;
        if
        :: holder == TOMBSTONE_NONE ->
            SEND(land_insert(self), INSERT, 0, 1);
            printf("run %d inserts a tombstone: %d late %d\n", self, result,
                late_kind[self]);
#ifndef NO_UNKNOWN_INSERT_WAIT
            if
            :: result == UNKNOWN -> expect_late_insert()
            :: else
            fi
#endif
        :: else ->
            SEND(land_merge(self, has_etag[self]), MERGE, 0, has_etag[self]);
            printf("run %d merges a tombstone: %d late %d\n", self, result,
                late_kind[self])
        fi;
#ifdef WATCHES
        checked = 1;
#endif
        if
        :: result == DONE -> lay(); early = 1; goto held
        :: else -> goto hold_parent
        fi
    }

held: /* in the same step, because a pass begins with the Date of the
         response */
    atomic {
        holder = 0;
        newer = 0;
        result = 0;
        has_etag[self] = 0;
#ifdef NO_PASS_BEGAN
        last = 0;
        due = 0;
        if
#else
        if
        :: from > 0 -> last = last && not_before_left[self] == 0
#endif
        :: else ->
            due = settle_left[self] == 0;
            last = due && not_before_left[self] == 0
        fi;
#ifdef NO_SETTLE
        last = not_before_left[self] == 0;
        due = 1;
#endif
        if
#ifdef NO_LOOK_AFTER_TOO_EARLY
        :: from == 0 -> found = 0; save(0)
#else
        :: from == 0 -> found = ahead && early; save(0)
#endif
#ifdef NO_FOUND_KEPT
        :: else -> found = 0
#else
        :: else
#endif
        fi;
        inside = (from == 2 || from == 5);
        met = inside;
        place = from;
        from = 0;
        printf("run %d: pass from %d, last settle %d\n", self, place, last);
    }

    /* place: 0 leaf, 1 branch read, 2 under it, 3 branch emptied; 4, 5, 6: the
     * same by the other rule */
    do
    :: place == 7 -> break
#ifdef ONE_RULE
    :: place == 4 -> place = 7
#define READS_BRANCH (place == 1)
#else
#define READS_BRANCH (place == 1 || place == 4)
#endif
#ifndef BRANCHES
    :: place == 1 -> place = 7
#else
    :: READS_BRANCH ->
        atomic {
            child = BRANCH;
            CHILD_ETAG = child_here[BRANCH];
            met = child_here[BRANCH];
            below = 0;
            inside = 0;
            found = found || met;
            place = (met -> place + 1 : place + 3)
        }
#endif
    :: place == 0 || place == 2 || place == 5 ->
        atomic {
            child = (place == 0 -> LEAF : (place == 2 -> UNDER : BESIDE));
            if
            :: child == LEAF && ahead && ahead_found ->
                found = 1;
                below = 1
            :: !(child == LEAF && ahead) && child_here[child] &&
                    !(child == LEAF && child_moved) ->
                printf("run %d finds %d\n", self, child);
                CHILD_ETAG = 1;
                found = 1;
                below = 1
            :: else ->
                place++;
                child = CHILDREN
            fi;
            ahead = 0;
            ahead_found = 0;
            early = 0
        }
        do
        :: child == CHILDREN -> break
        :: else ->
            atomic {
                DIES;
#ifdef WATCHES
                if
#ifndef NO_WATCH
                :: !checked && here && tombstone != self -> goto lost
#endif
                :: else -> checked = 1
                fi;
#endif
                SEND(land_delete_child(self, child, CHILD_ETAG), DELETE_CHILD,
                    child, CHILD_ETAG);
                printf("run %d deletes %d: %d late %d\n", self, child, result,
                    late_kind[self])
            }
            atomic {
                if
                :: result == DONE -> deleted = 1; child = CHILDREN; place++
                :: else -> /* decide_leaf */
                    if
                    :: child_here[child] && !(child == LEAF && child_moved) ->
                        CHILD_ETAG = 1
                    :: else -> child = CHILDREN; place++
                    fi
                fi
            }
        od;
        atomic {
            if
            :: place == 1 -> save(1)
#ifdef BRANCHES
            :: place == 3 && met -> save(2)
#endif
            :: else
            fi
        }
#ifdef BRANCHES
    :: place == 3 || place == 6 ->
        atomic {
            child = BRANCH;
            if
            :: EMPTIED
            :: else -> child = CHILDREN
            fi
        }
        do
        :: child == CHILDREN -> break
        :: else ->
            atomic {
                DIES;
                SEND(land_delete_child(self, BRANCH, CHILD_ETAG), DELETE_CHILD,
                    BRANCH, CHILD_ETAG);
                printf("run %d deletes the branch: %d late %d\n", self, result,
                    late_kind[self]);
                if
                :: result == DONE -> deleted = 1; child = CHILDREN
                :: else -> /* decide_emptied */
                    if
                    :: child_here[BRANCH] && CHILD_ETAG
                    :: else -> child = CHILDREN
                    fi
                fi
            }
        od;
        atomic {
            place++;
            if
            :: place == 4 -> save(4)
            :: else
            fi;
            met = 0;
            below = 0;
            inside = 0;
            result = 0;
            CHILD_ETAG_OF(BRANCH) = 0
        }
#endif
    od;

    atomic {
        child = 0;
        place = 0;
        CHILD_ETAG_OF(LEAF) = 0;
        CHILD_ETAG_OF(UNDER) = 0;
        CHILD_ETAG_OF(BESIDE) = 0;
        result = 0;
        met = 0;
        holder = 0;
#ifdef NO_LOOK_AFTER_FOUND
        found = 0;
#else
        found = (last -> found : deleted);
#endif
        deleted = 0;
        printf("run %d: pass ended, found %d last %d\n", self, found, last);
        if
        :: found && due -> found = 0; goto pass
        :: !found && last -> goto enter_last_phase
        :: else
        fi;
        found = 0;
        if
        :: (due -> not_before_left[self] : settle_left[self]) == 0 ->
            goto pass
        :: else
        fi;
        DIES;
        last = 0;
        store_checkpoint(0);
        let_go[self] = 1;
        printf("run %d waits for its settle pass\n", self)
    }
    (due -> stored_not_before[self] : stored_settle[self]) == 0;
    goto begin;

#ifdef WATCHES
lost: /* the parent is lost: the next pass reads it first */
    atomic {
        child = 0;
        place = 0;
        CHILD_ETAG_OF(LEAF) = 0;
        below = 0;
        deleted = 0;
        found = 0;
        last = 0;
        due = 0;
        printf("run %d has lost the parent\n", self);
        goto pass
    }
#endif

wait_late:
    atomic {
        DIES;
        found = 0;
        last = 0;
        due = 0;
        store_checkpoint(0);
        let_go[self] = 1;
        printf("run %d waits for a late insert\n", self)
    }
    stored_not_before[self] == 0;
    goto begin;

wait_other:
    atomic {
        DIES;
        found = 0;
        last = 0;
        due = 0;
        store_checkpoint(0);
        stored_waited[self] = 1;
        let_go[self] = 1;
        printf("run %d waits for another run\n", self)
    }
    !here || tombstone == 0 || tombstone == self || ended[tombstone];
    goto begin;

enter_last_phase:
    atomic {
        DIES;
#ifndef NO_PHASE_PARENT
        phase_parent[self] = 1;
#endif
        printf("run %d: phase parent\n", self)
    }

delete_parent:
    atomic {
        has_etag[self] = here;
        if
        :: !OURS -> goto spared
        :: else
        fi
    }
    atomic {
        DIES;
        SEND(land_delete_parent(self, has_etag[self]), DELETE_PARENT, 0,
            has_etag[self]);
        printf("run %d deletes the parent: %d late %d\n", self, result,
            late_kind[self]);
        if
        :: result == DONE -> goto spared
        :: else -> goto delete_parent
        fi
    }

spared:
    atomic {
        DIES;
        printf("run %d has ended, failed %d\n", self, failed);
#ifdef TOGETHER
        CHECK(nothing_is_left, failed || !child_here[LEAF]);
#endif
        ended[self] = 1;
        CHECK(no_tombstone_stays, !here || tombstone != self);
        has_etag[self] = 0;
        settle_left[self] = 0;
        not_before_left[self] = 0;
        stored_settle[self] = 0;
        stored_not_before[self] = 0;
        stored_waited[self] = 0
    }
}

/* ---- around it ---- */

proctype Writer()
{
    byte under, which, n;

    do
    :: atomic {
           here && tombstone == 0 && window_left == 0;
#ifdef WATCHES
           !fresh;
#endif
           under = generation;
           if
           :: which = LEAF
#ifdef BRANCHES
           :: which = BRANCH
           :: child_here[BRANCH] -> which = UNDER
#ifndef ONE_RULE
           :: child_here[BRANCH] -> which = BESIDE
#endif
#endif
           fi;
           printf("a writer has looked, to insert %d\n", which);
           window_left = SETTLE;
#if SETTLE == 0 /* a writer that inserts at once */
           if
           :: !child_here[which] ->
               printf("a writer inserts %d\n", which);
               child_here[which] = 1;
               child_generation[which] = under;
               child_changed(which);
               if
               :: which == LEAF -> child_moved = 0
               :: else
               fi
           :: else
           fi
#endif
       }
       if
       :: atomic {
              window_left > 0 && !child_here[which] ->
              printf("a writer inserts %d\n", which);
              CHECK(no_orphan, here && (bare || generation == under));
              if
              :: which >= UNDER -> CHECK(no_orphan, child_here[BRANCH])
              :: else
              fi;
              child_here[which] = 1;
              child_generation[which] = under;
              child_changed(which);
              if
              :: which == LEAF -> child_moved = 0
              :: else
              fi;
              window_left = 0
          }
       :: atomic { window_left == 0 || child_here[which] -> window_left = 0 }
       fi;
       which = 0;
       under = 0
    od
}

/* If nothing tells when a parent was created, a parent that exists before the
 * run's tombstone is the one that the run must delete, unless the run has
 * waited for another run. */
#define KNOWS(r) (stored_laid[r] || stored_waited[r] || ended[r])
#if defined(AGELESS) && defined(TOGETHER)
#define MAY_BE_MADE (KNOWS(1) && KNOWS(2))
#elif defined(AGELESS)
#define MAY_BE_MADE stored_laid[1]
#else
#define MAY_BE_MADE 1
#endif

#ifdef WATCHES
#define BETWEEN_PASSES 1
#else
#define BETWEEN_PASSES let_go[1]
#endif

proctype App()
{
    byte n;

    do
    :: atomic {
           !here && made < GENERATIONS && MAY_BE_MADE ->
           made++;
           here = 1;
           generation = made;
           parent_changed();
#ifdef WATCHES
           fresh = 1;
#endif
           printf("the application creates the parent again: %d\n", made)
#ifndef TOGETHER
           ;
           if
           :: RUNS >= 2 && made == 1 -> run Run(2)
           :: else
           fi
#endif
       }
    :: atomic {
           child_here[LEAF] && !child_moved && moves > 0 ->
           moves--;
           child_moved = 1;
           printf("the application moves the leaf away\n");
           child_changed(LEAF)
       }
#ifdef REMOVALS
    :: atomic {
           here && tombstone == 1 && BETWEEN_PASSES && !ended[1] &&
           window_left == 0 && removals > 0 ->
           removals--;
           printf("the application removes the parent\n");
           here = 0;
           bare = 0;
           tombstone = 0;
           generation = 0;
           parent_changed()
       }
#endif
    od
}

inline vanish()
{
    late_kind[r] = NOTHING;
    late_left[r] = 0;
    late_etag[r] = 0;
    late_child[r] = 0
}

proctype Net()
{
    byte r = 1, n, result, kind;
    bool etag;

    do
    :: atomic {
           (late_kind[1] != NOTHING || late_kind[RUNS] != NOTHING);
           r = (late_kind[1] != NOTHING -> 1 : RUNS);
           if
           :: late_kind[RUNS] != NOTHING -> r = RUNS
           :: skip
           fi;
           kind = late_kind[r];
           etag = late_etag[r];
           n = late_child[r];
           printf("late: kind %d of run %d lands\n", kind, r);
           vanish();
           if
           :: kind == INSERT -> land_insert(r)
           :: kind == MERGE -> land_merge(r, etag)
           :: kind == DELETE_PARENT -> land_delete_parent(r, etag)
           :: kind == DELETE_CHILD && n == LEAF ->
               land_delete_child(r, LEAF, etag)
           :: kind == DELETE_CHILD && n == BRANCH ->
               land_delete_child(r, BRANCH, etag)
           :: kind == DELETE_CHILD && n == UNDER ->
               land_delete_child(r, UNDER, etag)
           :: kind == DELETE_CHILD && n == BESIDE ->
               land_delete_child(r, BESIDE, etag)
           fi;
           r = 1;
           n = 0;
           result = 0;
           kind = 0;
           etag = 0
       }
    od
}

inline pass_by(left)
{
    if
    :: left > 0 -> left--
    :: else
    fi
}

proctype Clock()
{
    byte r;

    do
    :: d_step {
           pass_by(window_left);
           for (r : 1 .. RUNS) {
               pass_by(settle_left[r]);
               pass_by(not_before_left[r]);
               pass_by(stored_settle[r]);
               pass_by(stored_not_before[r]);
               if
               :: late_left[r] == 1 -> vanish()
               :: late_left[r] > 1 -> late_left[r]--
               :: else
               fi
           }
           r = 0;
#ifdef WATCHES
           checked = 0;
           fresh = 0;
#endif
           printf("tick\n")
       }
    od
}

init {
    byte n;

    atomic {
        if
        :: here = 1
        :: skip
        fi;
#if SETTLE == 0
        if
        :: child_here[LEAF] = 1
        :: skip
        fi;
#else
        child_here[LEAF] = 1;
#endif
#ifdef BRANCHES
        child_here[BRANCH] = 1;
#endif
        for (n : 1 .. RUNS) {
            let_go[n] = 1
        }
        n = 0;
        run Run(1);
#ifdef TOGETHER
        run Run(2);
#endif
#ifndef NOBODY_WRITES
        run Writer();
#endif
        run App();
        run Net();
        run Clock()
    }
}
