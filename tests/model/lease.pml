/* SPDX-License-Identifier: MIT */
/*
 * Model of worker/run/lease.c, renewer.c and attempt.c,
 * worker/store/deadline.c: two workers, one message, one run, and one entity
 * that the run must change. Each guard can be removed with -DNO_...;
 * tests/model/guards lists the guards and what goes wrong without each.
 *
 *   Worker  receives the message (or finds the run without one, as an orphan),
 *           acquires the lease, renews it, works, ends
 *   Net     carries out the requests that were sent
 *   App     loses the message and changes the entity, once
 *   Clock   ticks when no process can do anything; then sleeping workers may
 *           wake, and late requests may be carried out
 *
 * At most FAULTS times a worker sleeps, dies, stops or fails before a step, or
 * a request is lost or late, or its response is lost. A worker sleeps, and a
 * request is late, for any number of ticks; everything else takes no time.
 *
 * -DLOCK_FILES: worker/run/lock_file.c too. The workers are on one host or on
 * two, and the second worker may be of a version that does not know lock files;
 * with -DSAME_HOST both workers are of the present version and on one host. A
 * worker that dies starts again as another process. Requests that the dead
 * process had sent may be carried out at any time (rule A4), and need not be in
 * time any more.
 *
 * -DPAUSES: worker/store/lease_clock.c too. A hypervisor pauses the machine of
 * worker 0: this worker sleeps, and its own clock stops. Workers do not sleep
 * otherwise. A worker cannot know of its pause before it has received a
 * response to a request that was sent, or carried out, after the pause. Until
 * then the worker is "blind", and the properties are required of it only from
 * this response on. Ledger and data are in one account, so a pause is shown
 * once. Every pause takes at least PAUSE ticks, because Date cannot show a
 * shorter one. The part of a pause that follows a response counts only if it
 * takes as long, too. worker/DESIGN.md describes shorter pauses. The model
 * leaves out that the ledger's Date shows LeaseUntil: a worker that does not
 * use this continues for longer.
 *
 * -DONLY_THE_NETWORK: no worker sleeps, dies or stops, and only the ledger is
 * written; so more FAULTS are possible.
 *
 * Times are kept as the time that is left, so the clock has no end. ETags and
 * pop receipts are kept as "is it still the present one", Epoch as "whose
 * acquisition was the last". Each worker has at most one ledger write and one
 * data write under way. A second of the service's Date is two ticks. A request
 * is in time until REQUEST + 1 ticks after it was sent; until then no other
 * worker may have acquired the lease.
 */

#ifndef FAULTS
#define FAULTS 2
#endif
#define WORKERS 2
#define VISIBILITY 4
#define REQUEST 2 /* time that a request of the run may take */
#define SECOND 2
#define SKEW 2 /* how far apart the clocks of the service's servers may be */
#define DUE (VISIBILITY - 2) /* the lease is renewed when this time is left */

#define DEAD WORKERS         /* DEAD + w: an attempt of w that died */
#define NOBODY (2 * WORKERS) /* no Owner */

#define ABSENT 0
#define QUEUED 1
#define RUNNING 2
#define POISONED 3
#define SUCCEEDED 4
#define HAS_ENDED(what) (what >= POISONED)

#define DONE 0
#define CONFLICT 1
#define UNKNOWN 2

/* State of a request: to be carried out at once; late, and the worker waits for
 * the response; late, and the worker waits no more; carried out. */
#define NONE 0
#define SOON 1
#define LATE 2
#define GIVEN_UP 3
#define LANDED 4

/* The properties; an assertion names the one that is violated. */
bool one_deadline_is_open = 1, nothing_starts_after_the_deadline = 1,
    in_time_before_the_successor = 1, stale_changes_nothing = 1,
    overtaken_writes_no_ledger = 1, ended_stays_ended = 1,
    message_goes_last = 1, poisoned_has_a_copy = 1, nobody_takes_early = 1;
#define CHECK(property, holds) property = (holds); assert(property)

byte faults = FAULTS;
bool asleep[WORKERS + 1]; /* by process number: the workers are 1 and 2 */

/* The message in the queue, and its copy in the poison queue. */
bool message = 1, copy, has_receipt[WORKERS];
byte hidden_left;

/* The ledger's entity; lease_left is one more than the time that is left of the
 * lease. */
byte state = ABSENT, owner = NOBODY, epoch_of = NOBODY, lease_left;
bool half_second; /* ticks since the service's Date changed */
bool has_etag[WORKERS];
#define HELD_AT(ahead) (owner != NOBODY && lease_left + half_second > 1 + ahead)
#define HELD HELD_AT(0)

/* Lock files. dead_lock: the lock of the process of the worker's last attempt
 * is free. */
#ifdef LOCK_FILES
bool same_host, old_version, dead_lock[WORKERS];

/* IS_FREE: is the lock of the process that made the attempt `of` free, as self
 * sees it? */
#define IS_HERE(of) (same_host || of - DEAD == self)
#define IS_FREE(of)                                                            \
    (of >= DEAD && of < NOBODY && IS_HERE(of) && dead_lock[of - DEAD])

#ifdef NO_LOCK_FOR_LIFE
#define SEEMS_FREE(of) (IS_FREE(of) || (of < DEAD && asleep[of + 1]))
#elif defined NO_SAME_BOOT
#define SEEMS_FREE(of) (IS_FREE(of) || (!same_host && of != self))
#elif defined NO_LOCK_BEFORE_NAME
bool unlocked[WORKERS]; /* another worker has found its file before it was
                           locked */
#define SEEMS_FREE(of) (IS_FREE(of) || (of < DEAD && unlocked[of]))
#elif defined NO_LOCK_IN_OWNER
byte lock_of = NOBODY; /* a separate property beside Owner */
#define SEEMS_FREE(of) IS_FREE(lock_of)
#else
#define SEEMS_FREE(of) IS_FREE(of)
#endif
#define KNOWS_LOCKS (self == 0 || !old_version)
#define OWNER_IS_DEAD (owner != NOBODY && KNOWS_LOCKS && SEEMS_FREE(owner))
#else
#define OWNER_IS_DEAD false
#endif

/* The entity that the run must change. */
bool changed, has_data_etag[WORKERS];

/* Pauses. Date does not show a pause of SECOND + SKEW ticks. */
#ifdef PAUSES
#define PAUSE (SECOND + SKEW + 1)
#define LAG_MAX (VISIBILITY + SECOND + SKEW + 1)
byte paused[WORKERS];  /* 1 + ticks since the pause began, at most PAUSE + 1; 0:
                          not paused */
bool blind[WORKERS];   /* no response has come since the last pause ended */
bool unseen[WORKERS];  /* no response has shown the last pause */
byte doubt[WORKERS];   /* 2: no renewal has resolved the doubt; 1: the renewal
                          under way will */
byte lag[WORKERS];     /* by how many paused ticks the worker's idea of the
                          ledger's clock is behind */
byte landed[WORKERS];  /* the value of lag once the waiting response is taken */
bool is_fresh[WORKERS]; /* this response was given after the last pause */
#define BLIND(w) blind[w]
#define IN_DOUBT(w) (doubt[w] != 0)
#ifdef NO_DATE
#define RAISE_DOUBT skip
#else
#define RAISE_DOUBT doubt[self] = (unseen[self] -> 2 : doubt[self])
#endif
/* Effect of a response that was given after the last pause. */
#define SHOWS_DATE                                                             \
    RAISE_DOUBT;                                                               \
    unseen[self] = 0;                                                          \
    blind[self] = 0
#ifdef NO_DATE_OF_ANY_RESPONSE
#define SHOWS_LEDGER_DATE skip
#else
#define SHOWS_LEDGER_DATE lag[self] = 0
#endif
#else
#define BLIND(w) false
#define IN_DOUBT(w) false
#endif

/* A ledger write under way. */
byte sent[WORKERS], sent_by[WORKERS], sent_state[WORKERS], sent_lease[WORKERS];
bool sent_claim[WORKERS], sent_etag[WORKERS], sent_stored[WORKERS];

/* A data write under way. */
byte data_sent[WORKERS], data_by[WORKERS], data_left[WORKERS];
bool data_etag[WORKERS];

/* What a worker knows. write_left: the deadline if the write under way is
 * stored; message_left: how long its message remains hidden, as far as it
 * knows. */
bool works[WORKERS], reads[WORKERS], shut[WORKERS], has_message[WORKERS];
byte ledger_left[WORKERS], message_left[WORKERS], write_left[WORKERS];

#ifdef NO_REQUEST_TIME
#define ROOM 1
#else
#define ROOM REQUEST
#endif
#define OPEN(w)                                                                \
    (works[w] && !shut[w] && !IN_DOUBT(w) && ledger_left[w] >= ROOM)
#define MAY_REOPEN(w)                                                          \
    (works[w] && !shut[w] && IN_DOUBT(w) && ledger_left[w] > 0)
#define ONE_OPEN !(OPEN(0) && !BLIND(0) && OPEN(1) && !BLIND(1))

/* ---- the store ---- */

#ifdef NO_LEDGER_ETAG
#define LEDGER_ETAG(w) 1
#else
#define LEDGER_ETAG(w) sent_etag[w]
#endif
#ifdef NO_DATA_ETAG
#define DATA_ETAG(w) 1
#else
#define DATA_ETAG(w) data_etag[w]
#endif

inline etags_are_old()
{
    has_etag[0] = 0;
    has_etag[1] = 0;
    sent_etag[0] = 0;
    sent_etag[1] = 0
}

inline data_etags_are_old()
{
    has_data_etag[0] = 0;
    has_data_etag[1] = 0;
    data_etag[0] = 0;
    data_etag[1] = 0
}

inline land_ledger(w)
{
#ifdef PAUSES
    landed[w] = 0;
    is_fresh[w] = paused[w] == 0;
#endif
    sent_stored[w] = LEDGER_ETAG(w);
    if
    :: sent_stored[w] ->
        CHECK(ended_stays_ended, !HAS_ENDED(state) || state == sent_state[w]);
        CHECK(overtaken_writes_no_ledger,
            sent_claim[w] || epoch_of == sent_by[w]);
        state = sent_state[w];
        owner = (state == RUNNING -> sent_by[w] : NOBODY);
        lease_left = sent_lease[w];
        epoch_of = (sent_claim[w] -> sent_by[w] : epoch_of);
#ifdef NO_LOCK_IN_OWNER
        lock_of = (sent_claim[w] && (w == 0 || !old_version) -> sent_by[w] :
            lock_of);
#endif
        etags_are_old()
    :: else
    fi;
    sent_stored[w] = sent_stored[w] && sent[w] != GIVEN_UP;
    sent[w] = (sent[w] == GIVEN_UP -> NONE : LANDED);
    sent_by[w] = 0;
    sent_etag[w] = 0;
    sent_claim[w] = 0;
    sent_state[w] = 0;
    sent_lease[w] = 0
}

inline land_data(w)
{
    if
    :: DATA_ETAG(w) ->
        CHECK(stale_changes_nothing, data_etag[w]);
        changed = 1;
        data_etags_are_old()
    :: else
    fi;
    CHECK(in_time_before_the_successor,
        data_left[w] == 0 || epoch_of == data_by[w]);
    data_sent[w] = NONE;
    data_etag[w] = 0;
    data_left[w] = 0;
    data_by[w] = 0
}

/* ---- a worker ---- */

/* A request that the dead worker has sent is late from now on, whenever it is
 * carried out; any time passes until another process is started. */
#ifdef LOCK_FILES
#ifdef NO_LOCK_BEFORE_NAME
#define MAY_BE_MET                                                             \
    if                                                                         \
    :: unlocked[self] = KNOWS_LOCKS                                            \
    :: unlocked[self] = 0                                                      \
    fi
#else
#define MAY_BE_MET skip
#endif
#define LEAVES_ITS_LOCK                                                        \
    dead_lock[self] = KNOWS_LOCKS;                                             \
    data_left[self] = 0;                                                       \
    asleep[self + 1] = 1;                                                      \
    MAY_BE_MET
#define LOCKS_ITS_FILE dead_lock[self] = 0
/* With lock files it matters when the worker dies. */
#define IS_KILLED                                                              \
    :: faults > 0 ->                                                           \
        faults--;                                                              \
        printf("worker %d is killed\n", self);                                 \
        LEAVES_ITS_LOCK;                                                       \
        goto gone
#else
#define IS_KILLED
#define LEAVES_ITS_LOCK skip
#define LOCKS_ITS_FILE skip
#endif

#ifdef PAUSES
#define IS_PAUSED                                                              \
    :: faults > 0 && self == 0 ->                                              \
        faults--;                                                              \
        paused[self] = 1;                                                      \
        blind[self] = 1;                                                       \
        unseen[self] = 1;                                                      \
        is_fresh[self] = 0;                                                    \
        asleep[self + 1] = 1;                                                  \
        printf("worker %d is paused\n", self)
#define FALLS_ASLEEP
#else
#define IS_PAUSED
#define FALLS_ASLEEP                                                           \
    :: faults > 0 ->                                                           \
        faults--;                                                              \
        asleep[self + 1] = 1;                                                  \
        printf("worker %d falls asleep\n", self)
#endif

/* Points at which a worker may sleep or die. */
#ifdef ONLY_THE_NETWORK
#define SLEEPS skip
#define DIES skip
#else
#define SLEEPS                                                                 \
    if                                                                         \
    FALLS_ASLEEP                                                               \
    IS_PAUSED                                                                  \
    IS_KILLED                                                                  \
    :: skip                                                                    \
    fi
#define DIES                                                                   \
    if                                                                         \
    :: faults > 0 ->                                                           \
        faults--;                                                              \
        printf("worker %d dies\n", self);                                      \
        LEAVES_ITS_LOCK;                                                       \
        goto gone                                                              \
    :: skip                                                                    \
    fi
#endif

/* Chooses how a request travels; its response comes when it was carried out. */
#define FATE(of)                                                               \
    if                                                                         \
    :: of[self] = SOON                                                         \
    :: faults > 0 -> faults--; of[self] = LATE                                 \
    :: faults > 0 -> faults--; of[self] = GIVEN_UP                             \
    fi;                                                                        \
    printf("  its way: %d\n", of[self])

inline send_ledger(what, lease, claims)
{
    sent_by[self] = self;
    sent_state[self] = what;
    sent_lease[self] = lease;
#ifdef PAUSES
    /* 1: the lease has expired when it is stored */
    sent_lease[self] =
        (sent_lease[self] > lag[self] -> sent_lease[self] - lag[self] : 1);
#endif
    sent_claim[self] = claims;
    sent_etag[self] = has_etag[self];
    write_left[self] = VISIBILITY;
    FATE(sent);
    SLEEPS
}

/* The response has come, or no response will come. */
#define ANSWERED (sent[self] != SOON && sent[self] != LATE)
#ifdef PAUSES
#define TAKE_DATE                                                              \
    if                                                                         \
    :: sent[self] == LANDED && !is_fresh[self] ->                              \
        /* it was given before the pause, and does not show the pause */       \
        lag[self] = (landed[self] < PAUSE -> 0 : landed[self]);                \
        unseen[self] = unseen[self] || lag[self] > 0                           \
    :: sent[self] == LANDED && is_fresh[self] ->                               \
        lag[self] = 0;                                                         \
        SHOWS_DATE                                                             \
    :: else                                                                    \
    fi;                                                                        \
    landed[self] = 0;                                                          \
    is_fresh[self] = 0
#else
#define TAKE_DATE skip
#endif
#define TAKE_ANSWER                                                            \
    TAKE_DATE;                                                                 \
    if                                                                         \
    :: sent[self] != LANDED -> result = UNKNOWN                                \
    :: sent[self] == LANDED ->                                                 \
        result = (sent_stored[self] -> DONE : CONFLICT);                       \
        sent[self] = NONE                                                      \
    :: sent[self] == LANDED && faults > 0 ->                                   \
        faults--;                                                              \
        result = UNKNOWN;                                                      \
        sent[self] = NONE;                                                     \
        printf("  its answer is lost\n")                                       \
    fi;                                                                        \
    sent_stored[self] = 0

#ifdef NO_DEADLINE_FROM_SENDING
#define DEADLINE VISIBILITY
#else
#define DEADLINE write_left[self]
#endif
/* LeaseUntil - now, for a write that is sent now; + 1 as in lease_left. */
#ifdef NO_SECOND_FOR_THE_DATE
#define UNTIL (VISIBILITY - date_age + SKEW + 1)
#elif defined NO_SKEW
#define UNTIL (VISIBILITY - date_age + SECOND + 1)
#else
#define UNTIL (VISIBILITY - date_age + SECOND + SKEW + 1)
#endif
#ifdef NO_EPOCH
#define OURS (owner == self || owner == NOBODY)
#else
#define OURS (epoch_of == self && (owner == self || owner == NOBODY))
#endif
#ifdef NO_DEADLINE_ASKED_AGAIN
#define MAY_SEND true
#else
#define MAY_SEND OPEN(self)
#endif
#ifdef NO_ORPHANS
#define ORPHAN false
#else
#define ORPHAN                                                                 \
    ((!message && !HELD && (state == QUEUED || state == RUNNING)) ||           \
        (state == RUNNING && OWNER_IS_DEAD))
#endif
#ifdef NO_LEASE
#define IS_HELD false
#else
#define IS_HELD HELD_AT(ahead)
#endif
#ifdef NO_LOOK_WHETHER_ENDED
#define IS_OVER false
#else
#define IS_OVER HAS_ENDED(state)
#endif

proctype Worker(byte self) provided (!asleep[_pid])
{
    byte slot, result, ending;
    bool keeping, date_age;
    byte ahead;
#ifdef NO_ONE_TAKES_EARLY
    bool early;
#endif

idle:
    atomic {
        (message && hidden_left == 0) || ORPHAN ->
        if
        :: message && hidden_left == 0 ->
            printf("worker %d takes the message\n", self);
            hidden_left = VISIBILITY;
            has_receipt[0] = 0;
            has_receipt[1] = 0;
            has_receipt[self] = 1;
            has_message[self] = 1;
            message_left[self] = VISIBILITY
        :: else -> printf("worker %d takes up the run\n", self)
        fi;
        SLEEPS
    }

look:
    atomic {
        has_etag[self] = 1;
        date_age = half_second;
        if /* the clock of the server that responds */
        :: ahead = 0
        :: ahead = SKEW
        fi;
        if
        :: IS_OVER -> goto delete_message
        :: !IS_OVER && IS_HELD && !OWNER_IS_DEAD -> goto hide
        :: else
        fi;
#ifdef NO_ONE_TAKES_EARLY
        early = IS_HELD;
#endif
        ahead = 0;
#ifdef PAUSES
        blind[self] = 0; /* the first response of the attempt: there is no
                            earlier one to compare with */
        unseen[self] = 0;
        lag[self] = 0;
#endif
        SLEEPS
    }
    atomic {
        sent[self] == NONE ->
        printf("worker %d claims\n", self);
        LOCKS_ITS_FILE;
        send_ledger(RUNNING, UNTIL, 1)
    }
    atomic {
        ANSWERED;
        TAKE_ANSWER;
#ifdef NO_LOOK_AFTER_UNKNOWN
        result = (result == UNKNOWN -> DONE : result);
#endif
        SLEEPS
    }
    atomic {
        has_etag[self] = owner == self && epoch_of == self;
        result = (result == UNKNOWN && has_etag[self] -> DONE : result);
        if
        :: result != DONE -> goto gone /* the message becomes visible again */
        :: else
        fi;
        works[self] = 1;
        ledger_left[self] = DEADLINE;
        write_left[self] = 0;
        printf("worker %d works, for %d\n", self, ledger_left[self]);
        CHECK(one_deadline_is_open, ONE_OPEN);
#ifdef NO_ONE_TAKES_EARLY
        CHECK(nobody_takes_early, !early);
#endif
        SLEEPS
    }

    do
    /* the worker thread */
    :: atomic {
           slot == 0 && OPEN(self) ->
           if
#ifdef ONLY_THE_NETWORK
           :: slot = 3; ending = SUCCEEDED
#else
           :: changed -> slot = 3; ending = SUCCEEDED
           :: !changed -> slot = 1; has_data_etag[self] = 1
#endif
#ifndef LIVE
           :: reads[self] = 1; slot = 4 /* reads for some ticks */
#endif
#ifndef ONLY_THE_NETWORK
           :: faults > 0 -> faults--; slot = 3; ending = QUEUED
           :: faults > 0 && has_message[self] ->
               faults--;
               slot = 3;
               ending = POISONED
#endif
           fi;
           printf("worker %d has read\n", self);
#ifdef PAUSES
           SHOWS_DATE;
           SHOWS_LEDGER_DATE;
#endif
           SLEEPS
       }
    :: atomic {
           slot == 1 && data_sent[self] == NONE && MAY_SEND ->
           printf("worker %d sends a data write\n", self);
           CHECK(nothing_starts_after_the_deadline,
               BLIND(self) || epoch_of == self);
           CHECK(in_time_before_the_successor,
               BLIND(self) || lease_left > REQUEST + SKEW + 1);
           data_by[self] = self;
           data_etag[self] = has_data_etag[self];
           data_left[self] = (BLIND(self) -> 0 : REQUEST + 2);
           FATE(data_sent);
           slot = 2;
           SLEEPS
       }
    :: atomic { slot == 4 && !reads[self] -> slot = 0 }
    /* carried out, or no longer waited for: the entity is read again */
    :: atomic {
           slot == 2 && (data_sent[self] == NONE || data_left[self] == 0) ->
           has_data_etag[self] = 0;
           slot = 0
       }
    :: atomic {
           slot != 3 && !OPEN(self) && !MAY_REOPEN(self) && !keeping ->
           goto gone
       }

    /* the renewer */
    :: atomic {
           has_message[self] && !keeping && message_left[self] <= DUE &&
               ledger_left[self] > 0 ->
           printf("worker %d renews its message\n", self);
           if
           :: faults > 0 ->
               faults--;
               message_left[self] = DUE + 1; /* renewed again a tick later */
               printf("  it fails\n")
           :: has_receipt[self] ->
               hidden_left = VISIBILITY;
               message_left[self] = VISIBILITY
           :: !has_receipt[self] -> has_message[self] = 0; message_left[self] = 0
           fi;
           SLEEPS
       }
    :: atomic {
           !keeping && sent[self] == NONE &&
               (ledger_left[self] <= DUE || IN_DOUBT(self)) &&
               ledger_left[self] > 0 && !shut[self] ->
           printf("worker %d renews\n", self);
#ifdef PAUSES
           doubt[self] = (doubt[self] == 2 -> 1 : doubt[self]);
#endif
           send_ledger(RUNNING, UNTIL, 0);
           keeping = 1
       }
    :: atomic {
           keeping && ANSWERED ->
           TAKE_ANSWER;
           keeping = 0;
#ifdef NO_EARLIER_DEADLINE
           result = (result == UNKNOWN -> DONE : result);
#endif
           if
           :: result == DONE ->
               has_etag[self] = owner == self;
               ledger_left[self] = DEADLINE;
#ifdef NO_RENEWAL_SENT_AFTERWARDS
               doubt[self] = 0;
#elif defined PAUSES
               doubt[self] = (doubt[self] == 1 -> 0 : doubt[self]);
#endif
               printf("worker %d has renewed, for %d\n", self,
                   ledger_left[self]);
               CHECK(one_deadline_is_open, ONE_OPEN)
           :: result == CONFLICT ->
               has_etag[self] = OURS;
               shut[self] = !OURS
           :: else
           fi;
           write_left[self] = 0;
           result = 0;
           SLEEPS
       }

    /* end of the attempt */
    :: atomic { slot == 3 && !keeping -> break }
    od;

    atomic {
        works[self] = 0;
        ledger_left[self] = 0;
        has_data_etag[self] = 0;
        shut[self] = 0;
        slot = 0;
#ifdef NO_LEDGER_BEFORE_MESSAGE
        if
        :: ending != QUEUED && has_receipt[self] ->
            printf("worker %d deletes the message\n", self);
            CHECK(message_goes_last, HAS_ENDED(state));
            message = 0
        :: else
        fi;
#endif
#ifndef NO_COPY_FIRST
        copy = copy || ending == POISONED;
#endif
        DIES
    }

let_go:
    atomic {
        sent[self] == NONE ->
        printf("worker %d lets go: %d\n", self, ending);
        send_ledger(ending, 1, 0)
    }
    atomic {
        ANSWERED;
        TAKE_ANSWER;
        write_left[self] = 0;
#ifdef NO_LOOK_AFTER_UNKNOWN_END
        result = (result == UNKNOWN -> DONE : result);
#endif
        SLEEPS
    }
    atomic {
        DIES;
        if
        :: result == DONE
        :: result != DONE && !OURS -> goto gone
        :: result != DONE && OURS ->
            has_etag[self] = 1;
            if
            :: owner != NOBODY || state != ending -> goto let_go
            :: else
            fi
        fi;
        if
        :: ending != QUEUED -> goto delete_message
        :: ending == QUEUED && has_receipt[self] -> hidden_left = 0
        :: else
        fi;
        goto gone
    }

delete_message:
    atomic {
        DIES;
#ifdef NO_COPY_FIRST
        copy = copy || ending == POISONED;
#endif
        if
        :: has_receipt[self] ->
            printf("worker %d deletes the message\n", self);
            CHECK(message_goes_last, HAS_ENDED(state));
            CHECK(poisoned_has_a_copy, state != POISONED || copy);
            message = 0
        :: else
        fi;
        goto gone
    }

hide: /* hides the message until the lease has expired */
    atomic {
        hidden_left = (has_receipt[self] -> lease_left : hidden_left);
        goto gone
    }

gone: /* the process is dead or stops: it sends nothing more */
    atomic {
        owner = (owner == self -> DEAD + self : owner);
        epoch_of = (epoch_of == self -> DEAD + self : epoch_of);
#ifdef NO_LOCK_IN_OWNER
        lock_of = (lock_of == self -> DEAD + self : lock_of);
#endif
        if
        :: sent[self] == LANDED -> sent[self] = NONE; sent_stored[self] = 0
        :: sent[self] == SOON || sent[self] == LATE || sent[self] == GIVEN_UP ->
            sent[self] = (sent[self] == SOON -> SOON : GIVEN_UP);
            sent_by[self] = DEAD + self
        :: else
        fi;
        data_by[self] = (data_sent[self] != NONE -> DEAD + self : 0);
        has_etag[self] = 0;
        has_data_etag[self] = 0;
        has_receipt[self] = 0;
        has_message[self] = 0;
#ifdef PAUSES
        blind[self] = 0;
        unseen[self] = 0;
        doubt[self] = 0;
        lag[self] = 0;
        landed[self] = 0;
        is_fresh[self] = 0;
#endif
        works[self] = 0;
        reads[self] = 0;
        shut[self] = 0;
        ledger_left[self] = 0;
        message_left[self] = 0;
        write_left[self] = 0;
        slot = 0;
        result = 0;
        ending = 0;
        keeping = 0;
        date_age = 0;
        ahead = 0;
#ifdef NO_ONE_TAKES_EARLY
        early = 0;
#endif
        goto idle
    }
}

/* ---- around them ---- */

proctype Net()
{
    do
    :: atomic { sent[0] == SOON -> land_ledger(0); printf("lands 0\n") }
    :: atomic { sent[1] == SOON -> land_ledger(1); printf("lands 1\n") }
    :: atomic { data_sent[0] == SOON -> land_data(0); printf("data lands 0\n") }
    :: atomic { data_sent[1] == SOON -> land_data(1); printf("data lands 1\n") }
    od
}

inline pass_by(left)
{
    if
    :: left > 0 -> left--
    :: else
    fi
}

inline own_time_passes(w)
{
    pass_by(ledger_left[w]);
    pass_by(message_left[w]);
    pass_by(write_left[w])
}

/* A late request is carried out now, is lost, or remains late. */
inline late_ledger(w)
{
    if
    :: sent[w] == LATE || sent[w] == GIVEN_UP ->
        printf("late: the ledger write of %d lands\n", w);
        land_ledger(w)
    :: sent[w] == GIVEN_UP ->
        sent[w] = NONE;
        sent_by[w] = 0;
        sent_etag[w] = 0;
        sent_claim[w] = 0;
        sent_state[w] = 0;
        sent_lease[w] = 0
    :: skip
    fi
}

inline late_data(w)
{
    if
    :: data_sent[w] == LATE || data_sent[w] == GIVEN_UP ->
        printf("late: the data write of %d lands\n", w);
        land_data(w)
    :: data_sent[w] == GIVEN_UP ->
        data_sent[w] = NONE;
        data_etag[w] = 0;
        data_left[w] = 0;
        data_by[w] = 0
    :: skip
    fi
}

proctype Clock()
{
    byte w;

    do
    :: atomic {
           timeout ->
           printf("tick\n");
           pass_by(hidden_left);
           pass_by(lease_left);
           half_second = 1 - half_second;
           for (w : 0 .. WORKERS - 1) {
#ifdef PAUSES
               if /* a paused worker's own clock stops */
               :: paused[w] ->
                   paused[w] =
                       (paused[w] <= PAUSE -> paused[w] + 1 : paused[w]);
                   lag[w] = (lag[w] < LAG_MAX -> lag[w] + 1 : lag[w]);
                   landed[w] =
                       (landed[w] < LAG_MAX -> landed[w] + 1 : landed[w])
               :: else -> own_time_passes(w)
               fi;
#else
               own_time_passes(w);
#endif
               pass_by(sent_lease[w]);
               pass_by(data_left[w]);
               if
#ifdef PAUSES
               :: paused[w] > PAUSE ->
                   asleep[w + 1] = 0;
                   paused[w] = 0;
                   printf("worker %d continues\n", w)
               :: asleep[w + 1] && paused[w] == 0 ->
#else
               :: asleep[w + 1] ->
#endif
                   asleep[w + 1] = 0;
                   printf("worker %d wakes\n", w)
               :: skip
               fi;
               if
               :: reads[w] -> reads[w] = 0
               :: skip
               fi
           }
           w = 0;
           late_ledger(0);
           late_ledger(1);
           late_data(0);
           late_data(1);
           if /* other events */
           :: faults > 0 && message && state != ABSENT ->
               faults--;
               message = 0;
               has_receipt[0] = 0;
               has_receipt[1] = 0;
               printf("the message is lost\n")
#ifndef ONLY_THE_NETWORK
           :: faults > 0 ->
               faults--;
               data_etags_are_old();
               printf("the application changes the entity\n")
#endif
           :: skip
           fi
       }
    od
}

init {
    atomic {
        if
        :: half_second = 1
        :: skip
        fi;
#ifdef LOCK_FILES
#ifdef SAME_HOST
        same_host = 1;
#else
        if
        :: same_host = 1
        :: skip
        fi;
        if
        :: old_version = 1
        :: skip
        fi;
#endif
#endif
        run Worker(0);
        run Worker(1);
        run Net();
        run Clock()
    }
}

#ifdef LIVE
/* No request is late and no worker asleep for ever. */
#define ALL_IS_WELL                                                            \
    (!asleep[1] && !asleep[2] && sent[0] != LATE && sent[1] != LATE && sent[0] != GIVEN_UP &&              \
        sent[1] != GIVEN_UP && data_sent[0] != LATE && data_sent[1] != LATE && \
        data_sent[0] != GIVEN_UP && data_sent[1] != GIVEN_UP)
ltl the_run_ends { ([] <> ALL_IS_WELL) -> <> (HAS_ENDED(state) && !message) }
#endif
